"""What the pages about OpenAPI and providers say is so: their configs are taken, their programs run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jackfield.gateway.gateway import Gateway
from jackfield.settings import load_settings
from jackfield.sources.openapi.options import ApiKey, Basic, Bearer, OpenApiOptions, OperationGlobs

ROOT = Path(__file__).parents[2]
OPENAPI = (ROOT / "docs/openapi.md").read_text(encoding="utf-8")
PROVIDERS = (ROOT / "docs/providers.md").read_text(encoding="utf-8")
SECRETS = {
    name: f"{name.lower()}-0001"
    for name in ("SHOP_TOKEN", "SHOP_KEY", "WAREHOUSE_KEY", "BASIC_PASSWORD", "CALCULATOR_KEY")
}


@pytest.mark.parametrize("page", [OPENAPI, PROVIDERS, None], ids=["openapi.md", "providers.md", "examples/provider"])
async def test_the_config_that_is_shown_is_one_that_a_gateway_takes(tmp_path: Path, page: str | None) -> None:
    if page is None:
        shown = (ROOT / "examples/provider/jackfield.toml").read_text(encoding="utf-8")
    else:
        shown = "\n".join(re.findall(r"```toml\n(.*?)```", page, re.DOTALL))
    config = tmp_path / "jackfield.toml"
    config.write_text(shown, encoding="utf-8")
    settings = load_settings(config, environment=SECRETS)
    assert settings.sources
    Gateway(settings)  # makes every source, which checks its options


@pytest.mark.parametrize("settings", [OpenApiOptions, OperationGlobs, ApiKey, Basic, Bearer])
def test_every_key_is_explained(settings: type[OpenApiOptions]) -> None:
    shown = "\n".join(re.findall(r"```toml\n(.*?)```", OPENAPI, re.DOTALL))
    assert [name for name in settings.__struct_fields__ if not re.search(rf"\b{name}( =|\])", shown)] == []


@pytest.mark.parametrize("number", range(3))
def test_the_programs_that_are_shown_run(number: int, tmp_path: Path) -> None:
    program = re.findall(r"```python\n(.*?)```", PROVIDERS, re.DOTALL)[number]
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stderr
    if number == 2:
        assert ran.stdout.startswith("200 application/json ")
        assert '"result":3' in ran.stdout
