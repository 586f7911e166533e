"""The documents stay true: their examples load, their links lead somewhere, and no setting is missing."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from documentation.pages import PAGES
from jackfield.agents.builtin_tools import ENTRIES
from jackfield.gateway.gateway import Gateway
from jackfield.model.call import CallStatus
from jackfield.model.tool import Category, HttpExecution, Metadata
from jackfield.protocol.manifest import ScenarioInfo
from jackfield.settings import ToolOverride, ToolSettings, load_settings
from jackfield.settings.identity import OAuthSettings, OidcSettings, RoleSettings, SourceOAuth
from jackfield.settings.types import (
    AdminSettings,
    DiscoverySettings,
    KeySettings,
    McpSettings,
    OutgoingSettings,
    ResponsesSettings,
    ServerSettings,
    StoreSettings,
)
from jackfield.sources.files import FilesOptions
from jackfield.sources.manifest.options import ManifestOptions
from tests import package_graph

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))
MADE = {ROOT / "docs" / path for path in PAGES}
"""Pages that exist in the site only; `documentation/test_site.py` follows their links and all anchors."""
CONFIGURATION = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
IDENTITY = (ROOT / "docs/identity.md").read_text(encoding="utf-8")
TOOL_FILES = (ROOT / "docs/tool-files.md").read_text(encoding="utf-8")
SECRETS = {
    "OPS_KEY": "ops-key-0001",
    "PLANNER_KEY": "planner-key-0001",
    "WEATHER_KEY": "weather-key-0001",
    "GH": "gh-key-0001",
    "GIT_TOKEN": "git-key-0001",
    "WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}


async def test_the_configuration_that_is_explained_is_one_that_a_gateway_takes(tmp_path: Path) -> None:
    config = tmp_path / "jackfield.toml"
    config.write_text("\n".join(re.findall(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)), encoding="utf-8")
    settings = load_settings(config, environment=SECRETS)
    assert [tool.name for tool in settings.tools] == ["weather"]
    async with Gateway(settings) as gateway:
        assert {entry.name for entry in gateway.catalog.view(gateway.keyring.host.principal).entries} == {"weather"}


@pytest.mark.parametrize(
    "settings",
    [
        AdminSettings,
        Category,
        DiscoverySettings,
        FilesOptions,
        HttpExecution,
        KeySettings,
        McpSettings,
        Metadata,
        OutgoingSettings,
        ResponsesSettings,
        ScenarioInfo,
        ServerSettings,
        StoreSettings,
        ToolOverride,
        ToolSettings,
    ],
)
def test_every_setting_is_explained(settings: Any) -> None:
    written = re.sub(r"(?<=[a-z])[A-Z]", lambda capital: f"_{capital[0].lower()}", CONFIGURATION)
    missing = [name for name in settings.__struct_fields__ if not re.search(rf"\b{name}\b", written + TOOL_FILES)]
    assert missing == []


@pytest.mark.parametrize("options", [ManifestOptions, DiscoverySettings])
def test_every_setting_of_discovery_is_explained(options: Any) -> None:
    written = (ROOT / "docs/discovery.md").read_text(encoding="utf-8")
    assert [
        name for name in options.__struct_fields__ if f"`{name}`" not in written and f"{name} =" not in written
    ] == []


def test_the_agent_that_is_explained_has_every_setting_that_one_may_have(tmp_path: Path) -> None:
    written = (ROOT / "docs/agents.md").read_text(encoding="utf-8")
    config = tmp_path / "jackfield.toml"
    config.write_text("\n".join(re.findall(r"```toml\n(.*?)```", written, re.DOTALL)), encoding="utf-8")
    agent = load_settings(config, environment={"JACKFIELD_MODEL_URL": "http://model.example/v1"}).agents["concierge"]
    assert [name for name in agent.__struct_fields__ if not re.search(rf"(?m)^{name} =|\.{name}\]", written)] == []
    assert [name for name in ENTRIES if f"`{name}`" not in written] == []


async def test_the_discovery_that_is_explained_is_one_that_a_gateway_takes(tmp_path: Path) -> None:
    written = (ROOT / "docs/discovery.md").read_text(encoding="utf-8")
    config = tmp_path / "jackfield.toml"
    config.write_text("\n".join(re.findall(r"```toml\n(.*?)```", written, re.DOTALL)), encoding="utf-8")
    settings = load_settings(config, environment={"JACKFIELD_STORE": "memory:", "AGENT_MANAGER_API_URL": "http://x"})
    assert settings.services == {"agent-manager": "http://x"}
    assert [source.kind for source in settings.sources] == ["manifest", "manifest"]
    Gateway(settings)


@pytest.mark.parametrize("settings", [OidcSettings, RoleSettings, OAuthSettings, SourceOAuth])
def test_every_setting_of_identity_is_explained(settings: Any) -> None:
    assert [name for name in settings.__struct_fields__ if not re.search(rf"\b{name}\b", IDENTITY)] == []


def test_the_identity_that_is_explained_is_one_that_a_gateway_takes(tmp_path: Path) -> None:
    config = tmp_path / "jackfield.toml"
    config.write_text("\n".join(re.findall(r"```toml\n(.*?)```", IDENTITY, re.DOTALL)), encoding="utf-8")
    secrets = {"OIDC_SECRET": "oidc-secret-0001", "GITHUB_SECRET": "github-secret-0001", "JACKFIELD_STORE": "memory:"}
    settings = load_settings(config, environment=secrets)
    assert settings.oidc is not None
    assert [source.auth for source in settings.sources] == ["user"]
    Gateway(settings)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file_of_this_folder(document: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text(encoding="utf-8"))
    here = (document.parent / link for link in links)
    assert [str(path) for path in here if not path.exists() and path.resolve() not in MADE] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_of_the_code_that_is_named_exists(document: Path) -> None:
    named = re.findall(r"`((?:src|tests|docs|examples|make)/[\w./-]+)`", document.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_life_of_a_call_names_every_status_and_the_glossary_too() -> None:
    for name in ("life-of-a-call.md", "glossary.md"):
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert [status.value for status in CallStatus if status.value not in text] == []


def test_every_environment_variable_is_explained() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/jackfield").rglob("*.py"))
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    read = set(re.findall(r"JACKFIELD_[A-Z_]*[A-Z]", code))
    assert "JACKFIELD_CONFIG" in read
    assert {name for name in read if name not in pages} == set()


@pytest.mark.parametrize("document", [*DOCUMENTS, *EXAMPLES], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_shell_block_can_be_pasted_into_bash_and_zsh(document: Path) -> None:
    for block in re.findall(r"```sh\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL):
        commands = without_heredocs(block)
        for shell in filter(shutil.which, ("bash", "zsh")):
            subprocess.run([shell, "-n"], input=block, text=True, check=True)
        unquoted = re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", "", commands)
        assert "#" not in unquoted, f"zsh takes no comments at its prompt: {block}"
        assert not re.search(r"(?<!\$)!", commands), f"the history of a shell is expanded: {block}"
        assert not re.search(r"[?*\[]|=\(", unquoted), f"zsh fails on patterns that match nothing: {block}"
        assert shlex.split(commands)


def without_heredocs(block: str) -> str:
    return re.sub(r"<<'END'.*?\nEND\n", "\n", block, flags=re.DOTALL)


def test_the_package_graph_is_up_to_date() -> None:
    page = package_graph.PAGE.read_text(encoding="utf-8")
    assert package_graph.with_drawing(page, package_graph.drawing()) == page, "run `make drawing`"


def test_the_package_graph_leaves_out_what_follows_from_other_arrows() -> None:
    graph = {"a": frozenset("bcd"), "b": frozenset("c"), "c": frozenset("d"), "d": frozenset("")}
    assert package_graph.without_shortcuts(graph) == {
        "a": frozenset("b"),
        "b": frozenset("c"),
        "c": frozenset("d"),
        "d": frozenset(""),
    }
