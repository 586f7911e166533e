"""Services that are found: by variables of the environment, and by files in a folder."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jackfield.settings import load_settings
from jackfield.settings.loading import service_of, services_in, variable_of
from jackfield.settings.types import DiscoverySettings
from jackfield.sources.services import read_folder

ENVIRONMENT = {
    "AGENT_MANAGER_API_URL": "http://manager",
    "RESEARCH_API_URL": "http://research",
    "JACKFIELD_API_URL": "http://ours",
    "EMPTY_API_URL": "",
    "HTTP_API_URL": "http://reserved",
    "API_URL": "http://nobody",
}


@pytest.mark.parametrize(
    ("env", "found"),
    [
        (False, {}),
        (True, {"agent-manager": "http://manager", "research": "http://research"}),
        (("agent-manager", "away"), {"agent-manager": "http://manager"}),
        (("research", "bad name"), {"research": "http://research"}),
    ],
)
def test_services_are_those_whose_variables_are_set(env: Any, found: dict[str, str]) -> None:
    assert services_in(ENVIRONMENT, DiscoverySettings(env=env), taken={"http"}) == found


def test_a_service_of_the_config_keeps_its_name(tmp_path: Path) -> None:
    config = tmp_path / "jackfield.toml"
    config.write_text('[discovery]\nenv = true\n[sources.research]\nkind = "manifest"\nurl = "http://other"\n')
    assert load_settings(config, environment=ENVIRONMENT).services == {"agent-manager": "http://manager"}


def test_names_and_variables_belong_together() -> None:
    assert variable_of("agent-manager") == "AGENT_MANAGER_API_URL"
    assert service_of("AGENT_MANAGER_API_URL") == "agent-manager"


def test_a_folder_that_is_not_there_has_no_services(tmp_path: Path) -> None:
    assert read_folder(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("manager.json", json.dumps({"url": "http://x"}), ("manager", {"url": "http://x"}, "")),
        ("a.toml", 'name = "manager"\nurl = "http://x"\n', ("manager", {"url": "http://x"}, "")),
        ("bad name.json", "{}", ("bad_name", None, "names no service")),
        ("a.json", "[]", ("a", None, "no table of settings")),
        ("a.json", "{", ("a", None, "cannot be used")),
        ("a.toml", "=", ("a", None, "cannot be used")),
        ("a.json", "[" * 100_000, ("a", None, "cannot be used")),
        ("a.json", '{"name": 7}', ("a", None, "names no service")),
    ],
)
def test_a_file_says_where_a_service_is_or_what_is_wrong_with_it(
    tmp_path: Path, name: str, text: str, found: tuple[str, Any, str]
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / ".hidden.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("not for us")
    [one] = read_folder(tmp_path)
    assert (one.name, one.options) == found[:2]
    assert found[2] in one.fault


def test_a_pipe_in_the_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    [one] = read_folder(tmp_path)
    assert (one.name, one.options) == ("a", None)
    assert "not a regular file" in one.fault


def test_a_folder_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"url": "http://x"}')
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionError, match="everybody may write it"):
        read_folder(tmp_path)
