"""`jackfield doctor` on healthy and on broken projects."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.harness.process import DEFAULT_CONFIG, DEFAULT_TOOLS, RunningGateway, free_port, run_cli, running_gateway
from tests.requirement import requirement

DOCTOR = requirement("CON-cli-doctor")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The handy project with a port of its own, and no gateway."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "story.py").write_text(DEFAULT_TOOLS, encoding="utf-8")
    write_config(tmp_path, DEFAULT_CONFIG)
    return tmp_path


def write_config(folder: Path, text: str, *, port: int | None = None) -> None:
    (folder / "jackfield.toml").write_text(f"[server]\nport = {port or free_port()}\n{text}", encoding="utf-8")


def examine(folder: Path, *, env: dict[str, str] | None = None) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the findings."""
    done = run_cli("doctor", "--json", cwd=folder, env=env)
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert report["healthy"] is (done.returncode == 0)
    return done.returncode, report["findings"]


def of(findings: list[dict[str, Any]], subject: str, level: str) -> str:
    """What the one finding of this subject and level says, with its cure."""
    (found,) = [finding for finding in findings if finding["subject"] == subject and finding["level"] == level]
    return f"{found['says']} {found['cure']}"


@DOCTOR
def test_a_healthy_project_has_no_fault_and_nothing_is_left_behind(project: Path) -> None:
    code, findings = examine(project)
    assert code == 0
    assert "(1 source, 1 tool)" in of(findings, "config", "ok")
    assert of(findings, "source local", "ok").startswith("files, 8 tools")
    assert "is created at the first start" in of(findings, "store", "ok")
    assert "is free" in of(findings, "port", "ok")
    assert not (project / ".jackfield").exists()


@DOCTOR
def test_a_running_gateway_is_asked_how_it_is(gateway_project: RunningGateway) -> None:
    code, findings = examine(gateway_project.folder)
    assert code == 0
    assert gateway_project.url in of(findings, "gateway", "ok")
    assert of(findings, "store", "ok").startswith("in use by the running gateway")
    assert of(findings, "source local", "ok").startswith("files, 8 tools")
    assert "readable only by its owner" in of(findings, "key", "ok")


@DOCTOR
def test_a_config_that_cannot_be_used_is_a_fault_with_its_key_and_cure(project: Path) -> None:
    write_config(project, '[scenario]\nnaem = "x"\n')
    code, findings = examine(project)
    assert code == 1
    assert "Did you mean 'name'?" in of(findings, "config", "fault")


@DOCTOR
def test_a_source_that_does_not_come_up_and_one_with_a_broken_file_are_faults(project: Path) -> None:
    (project / "tools" / "broken.py").write_text("def oops(:\n", encoding="utf-8")
    write_config(project, DEFAULT_CONFIG + '\n[sources.odd]\nkind = "files"\npath = "nowhere/*.py"\n')
    code, findings = examine(project)
    assert code == 1
    assert "broken.py" in of(findings, "source local", "fault")
    assert [finding for finding in findings if finding["subject"] == "source odd"]


@DOCTOR
def test_a_store_that_cannot_be_opened_is_a_fault(project: Path) -> None:
    (project / ".jackfield").mkdir()
    (project / ".jackfield" / "jackfield.db").write_bytes(b"this is no database" * 100)
    code, findings = examine(project)
    assert code == 1
    assert "jackfield.db" in of(findings, "store", "fault")


@DOCTOR
def test_a_store_url_that_nobody_knows_is_a_fault_with_what_is_known(project: Path) -> None:
    code, findings = examine(project, env={"JACKFIELD_STORE": "mongodb://x"})
    assert code == 1
    assert "sqlite:///" in of(findings, "store", "fault")


@DOCTOR
def test_a_port_that_something_else_uses_is_a_fault(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        write_config(project, DEFAULT_CONFIG, port=taken.getsockname()[1])
        code, findings = examine(project)
    assert code == 1
    assert "change the port" in of(findings, "port", "fault")


@DOCTOR
def test_a_key_that_others_can_read_is_a_warning_with_the_command_that_helps(project: Path) -> None:
    data = project / ".jackfield"
    data.mkdir()
    (data / "admin.key").write_text("jf_key\n", encoding="utf-8")
    (data / "admin.key").chmod(0o644)
    code, findings = examine(project)
    assert code == 0
    assert f"chmod 600 {data / 'admin.key'}" in of(findings, "key", "warning")


@DOCTOR
def test_a_database_that_another_gateway_holds_is_said_with_its_pid(tmp_path: Path) -> None:
    holder, other = tmp_path / "holder", tmp_path / "other"
    holder.mkdir()
    other.mkdir()
    write_config(other, f'[store]\nurl = "sqlite:///{tmp_path}/shared.db"\n')
    (other / ".jackfield").mkdir()
    store = {"JACKFIELD_STORE": f"sqlite:///{tmp_path}/shared.db"}
    with running_gateway(holder, "", env=store) as gateway:
        code, findings = examine(other)
    assert code == 1
    assert str(gateway.pid) in of(findings, "store", "fault")


def test_people_get_one_line_for_each_thing_and_a_last_word(project: Path, tmp_path: Path) -> None:
    done = run_cli("doctor", cwd=project)
    assert done.returncode == 0
    assert done.stdout.endswith("\nNo faults.\n")
    assert all(line.startswith(("ok ", "warning ")) for line in done.stdout.splitlines()[:-2])
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "jackfield init" in run_cli("doctor", cwd=empty).stdout


NAMES = """
[auth.keys.narrow]
key = "narrow-key"
tools = ["ad", "local:*", "own@a:*", "*"]
[agents.a]
tools = ["nowhere:*", "own:*"]
[agents.a.mcp]
servers = [{ name = "own", url = "http://127.0.0.1:9/mcp" }]
"""


def check_names(findings: list[dict[str, Any]]) -> None:
    assert of(findings, "auth.keys.narrow.tools", "warning").startswith("'ad' matches no tool. Did you mean")
    assert of(findings, "agents.a.tools", "warning").startswith("'nowhere:*' matches no tool")
    assert "no model" in of(findings, "agent a", "fault")


STOPS = {
    "a script that is missing": (
        '[models.default]\nprovider = "scripted"\nscript = "missing.toml"\n',
        "models.default.script: ",
    ),
    "an agent's own server": (
        '[models.default]\nprovider = "openai"\nmodel = "m"\n[agents.a]\n[[agents.a.mcp.servers]]\nnam = "y"\n',
        "agents.a.mcp.servers[0] has an unknown key 'nam'",
    ),
}


@DOCTOR
@requirement("CON-config-names")
@pytest.mark.parametrize(("text", "said"), STOPS.values(), ids=STOPS)
def test_what_would_stop_the_start_is_a_fault(tmp_path: Path, text: str, said: str) -> None:
    write_config(tmp_path, text)
    code, findings = examine(tmp_path)
    assert code == 1
    assert said in of(findings, "config", "fault")


@DOCTOR
@requirement("CON-config-names")
def test_names_that_fit_no_tool_are_warnings_and_an_agent_without_a_model_is_a_fault(project: Path) -> None:
    write_config(project, DEFAULT_CONFIG + NAMES)
    code, findings = examine(project)
    assert code == 1
    check_names(findings)


@DOCTOR
@requirement("CON-config-names")
def test_names_are_held_against_what_a_running_gateway_offers(tmp_path: Path) -> None:
    with running_gateway(
        tmp_path,
        DEFAULT_CONFIG + NAMES,
        files={"tools/story.py": DEFAULT_TOOLS},
        env={"JACKFIELD_ADMIN_KEY": "admin-key"},
    ):
        _, findings = examine(tmp_path, env={"JACKFIELD_ADMIN_KEY": "admin-key"})
    check_names(findings)


@DOCTOR
@requirement("RUN-verify-doctor")
def test_a_tool_that_is_to_say_whether_others_took_effect_and_is_not_there_is_named(project: Path) -> None:
    config = DEFAULT_CONFIG.replace(
        "[sources.local.tools.add]", '[sources.local.tools.add]\nmetadata = { verify = "ad" }'
    )
    write_config(project, config)
    code, findings = examine(project)
    assert code == 0
    said = of(findings, "sources.local.tools.add.metadata.verify", "warning")
    assert said.startswith("There is no tool 'ad'. Did you mean 'add'?")


@DOCTOR
@requirement("SAFE-mute-script-said")
def test_an_agent_whose_script_nobody_in_its_space_would_hear_is_named(project: Path) -> None:
    config = DEFAULT_CONFIG + '\n[models.demo]\nprovider = "scripted"\nscript = "mind.toml"\n'
    agents = '[agents.ada]\nspaces = ["lobby"]\n[agents.bob]\n'
    write_config(project, config + agents)
    (project / "mind.toml").write_text('[otherwise]\nsay = "Good morning."\n', encoding="utf-8")
    code, findings = examine(project)
    assert code == 0
    said = of(findings, "agent ada", "warning")
    assert "will not hear it: mind.toml has `say`" in said
    assert "send_message" in said
    speaks = '[[turns]]\nwhen = { user = "hi" }\ncalls = [{ tool = "send_message", arguments = { text = "Hi." } }]\n'
    (project / "mind.toml").write_text(f'{speaks}[otherwise]\nsay = "Done."\n', encoding="utf-8")
    assert not [finding for finding in examine(project)[1] if finding["subject"].startswith("agent")]


@DOCTOR
@requirement("MCP2-groups-unknown")
def test_a_key_of_an_unknown_group_and_a_group_s_pattern_that_fits_nothing_are_named(project: Path) -> None:
    groups = '[groups.sums]\ntools = ["ad*", "sub*"]\n[auth.keys.crm]\nkey = "k"\ngroups = ["sums", "sales"]\n'
    write_config(project, DEFAULT_CONFIG + groups)
    code, findings = examine(project)
    assert code == 1
    assert "auth.keys.crm.groups has the unknown group 'sales'." in of(findings, "config", "fault")
    assert of(findings, "groups.sums.tools", "warning").startswith("'sub*' matches no tool.")
    assert of(findings, "source local", "ok").startswith("files, 8 tools"), "its sources are tried all the same"
