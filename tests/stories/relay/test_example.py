"""`examples/relay` does what its README says, and docs/relay.md shows a config that a gateway takes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jackfield.settings import load_settings
from jackfield.settings.types import RelaySettings, SessionSettings
from tests.harness.process import clean_environment, running_gateway

ROOT = Path(__file__).parents[3]
RELAY = (ROOT / "docs/relay.md").read_text(encoding="utf-8")
README = (ROOT / "examples/relay/README.md").read_text(encoding="utf-8")
BESIDE_PYTHON = {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}
"""As in a shell in which the environment of jackfield is active."""


def test_the_example_prints_what_its_readme_says(tmp_path: Path) -> None:
    project = tmp_path / "relay"
    shutil.copytree(ROOT / "examples/relay", project)
    prints = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    env = {"JACKFIELD_ADMIN_KEY": "operators-key-0001", **BESIDE_PYTHON}
    with running_gateway(project, env=env) as gateway:
        for args, printed in zip(([], ["sandboxed"]), prints, strict=True):
            ran = subprocess.run(
                [sys.executable, "caller.py", *args],
                cwd=project,
                env=clean_environment({"JACKFIELD_URL": gateway.url, **BESIDE_PYTHON}),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (ran.stdout, ran.returncode) == (printed, 0), ran.stderr


def test_the_config_that_is_explained_can_be_loaded_and_says_every_setting(tmp_path: Path) -> None:
    (explained,) = re.findall(r"```toml\n(.*?)```", RELAY, re.DOTALL)
    (tmp_path / "jackfield.toml").write_text(explained, encoding="utf-8")
    settings = load_settings(tmp_path / "jackfield.toml")
    assert settings.relay == RelaySettings()
    assert settings.sessions["sandboxed"].command == ("python3", "agent.py")
    told = [*RelaySettings.__struct_fields__, *SessionSettings.__struct_fields__]
    assert [name for name in told if not re.search(rf"^{name} = |sandboxed\.{name}\]", explained, re.MULTILINE)] == []


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", RELAY, re.DOTALL))
def test_the_python_that_is_shown_is_python(block: str) -> None:
    compile(block, "docs/relay.md", "exec")
