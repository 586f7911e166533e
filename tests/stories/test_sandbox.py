"""Sandboxed tool files through the real doors: called, walled in, shown by the doctor, gone with the gateway."""

import json
import os
import re
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx2
import pytest

from jackfield.settings import load_settings
from jackfield.settings.parsing import parse_config
from jackfield.settings.types import SandboxSettings
from jackfield.sources.files import FilesOptions
from jackfield.sources.mcp.options import McpOptions
from tests.harness.process import RunningGateway, free_port, run_cli, running_gateway
from tests.requirement import requirement
from tests.sources.workers import worker_file
from tests.waiting import eventually
from tests.workers.processes import marked

CONFIG = """
[store]
url = "sqlite:///calls.db"

[sources.boxed]
kind = "files"
path = "boxed.py"
secrets = ["WEATHER_KEY"]
config = { units = "metric" }
env = { MARK = "MARKED" }
sandbox = { memory = 2_000_000_000 }
"""
TOOLS = """
import os, socket, subprocess
from jackfield_tool import get_config, get_secret

def weather(city: str) -> dict:
    return {"city": city, "units": get_config("units"), "has_key": get_secret("WEATHER_KEY") is not None}

def look(path: str) -> list[str]:
    return sorted(os.listdir(path))

def read(path: str) -> str:
    with open(path) as file:
        return file.read()

def reach(port: int) -> str:
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    return "reached"

def breed() -> int:
    return len([subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(3)])
"""


@pytest.fixture
def mark() -> str:
    return f"sandbox-story-{os.getpid()}-{os.urandom(4).hex()}"


def start(folder: Path, mark: str) -> AbstractContextManager[RunningGateway]:
    (folder / "boxed.py").write_text(worker_file(TOOLS))
    config = CONFIG.replace("MARKED", mark)
    return running_gateway(folder, config, env={"WEATHER_KEY": "sunny-side-up"})


def call(gateway: RunningGateway, tool: str, **arguments: Any) -> dict[str, Any]:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    answer = httpx2.post(url, json={"arguments": arguments}, headers=gateway.headers, timeout=30)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_sandboxed_tool_is_called_like_any_other_and_sees_nothing_of_the_gateway(tmp_path: Path, mark: str) -> None:
    """The file lies in the config's own folder, beside the gateway's data, key and database."""
    with start(tmp_path, mark) as gateway:
        done = run_cli("call", "weather", "city=Oslo", cwd=tmp_path, env=gateway.environment)
        assert json.loads(done.stdout) == {"city": "Oslo", "units": "metric", "has_key": True}, done.stderr
        assert ".jackfield" in call(gateway, "look", path=str(tmp_path))["result"]
        inside = call(gateway, "look", path=str(tmp_path / ".jackfield"))["result"]
        assert inside == ["workers"], "only the folder that holds this version's own text"
        assert len(call(gateway, "look", path=str(tmp_path / ".jackfield" / "workers"))["result"]) == 1
        for name in ("jackfield.toml", "calls.db"):
            assert (tmp_path / name).stat().st_size > 0
            assert call(gateway, "read", path=str(tmp_path / name))["result"] == ""
        refused = call(gateway, "reach", port=int(gateway.url.rpartition(":")[2]))
        assert refused["error"]["message"].startswith("ConnectionRefusedError")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@requirement("CON-worker-no-orphan")
def test_a_sandbox_and_all_in_it_are_gone_with_the_gateway(tmp_path: Path, mark: str, how: signal.Signals) -> None:
    with start(tmp_path, mark) as gateway:
        assert call(gateway, "breed")["result"] == 3
        assert len(marked(mark)) >= 4
        os.kill(gateway.pid, how)
        gateway.process.wait(15)
        eventually(lambda: not marked(mark), within=2)


def test_the_doctor_says_which_sandbox_there_is(tmp_path: Path) -> None:
    (tmp_path / "jackfield.toml").write_text(f"[server]\nport = {free_port()}\n", encoding="utf-8")
    findings = json.loads(run_cli("doctor", "--json", cwd=tmp_path).stdout)["findings"]
    (said,) = [finding for finding in findings if finding["subject"] == "sandbox"]
    assert said["level"] == "ok"
    assert said["says"].partition(":")[0] in ("namespaces", "bubblewrap")


def test_the_doctor_names_a_source_that_cannot_have_its_sandbox(tmp_path: Path) -> None:
    (tmp_path / "boxed.py").write_text(worker_file("def hello() -> int:\n    return 1\n"))
    config = '[sources.boxed]\nkind = "files"\npath = "boxed.py"\nsandbox = { readable = ["models"] }\n'
    (tmp_path / "jackfield.toml").write_text(f"[server]\nport = {free_port()}\n{config}", encoding="utf-8")
    findings = json.loads(run_cli("doctor", "--json", cwd=tmp_path).stdout)["findings"]
    assert "The sandbox is to show 'models', which is not there. Make it or leave it out." in [
        finding["says"] for finding in findings if finding["subject"] == "source boxed"
    ]


def test_the_configuration_that_is_explained_is_taken_and_no_key_is_left_out(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/sandbox.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "jackfield.toml").write_text("\n".join(map(dedent, blocks)), encoding="utf-8")
    settings = load_settings(tmp_path / "jackfield.toml", environment={})
    assert [source.name for source in settings.sources] == ["untrusted", "crunching", "stranger"]
    for source in settings.sources:
        if source.kind == "files":
            assert parse_config(source.options, FilesOptions, where="docs").sandbox
        else:
            assert parse_config(source.options, McpOptions, where="docs").sandbox
    assert [name for name in SandboxSettings.__struct_fields__ if f"`{name}`" not in text] == []


CALLING = """
from jackfield_tool import call_tool

def ask(name: str) -> dict:
    return {"said": call_tool(name)}
"""
CALLED = "def open_door() -> str:\n    return 'open'\n\ndef pay() -> str:\n    return 'paid'\n"
WHICH_CALLS = {
    "silent": ("sandbox = true", []),
    "narrow": ('sandbox = true\ncalls = ["open_*"]', ["open_door"]),
    "wide": ('sandbox = true\ncalls = ["own:*"]', ["open_door", "pay"]),
    "free": ("", ["open_door", "pay"]),
    "frugal": ('calls = ["pay"]', ["pay"]),
    "mute": ("calls = []", []),
    "limited": ('sandbox = { kind = "none" }', ["open_door", "pay"]),
}


@requirement("SAFE-sandbox-calls")
def test_a_tool_calls_the_tools_that_its_source_allows(tmp_path: Path) -> None:
    """Its caller is an administrator, who may call them all."""
    (tmp_path / "own.py").write_text(CALLED)
    config = '[sources.own]\nkind = "files"\npath = "own.py"\n'
    for name, (options, _) in WHICH_CALLS.items():
        (tmp_path / f"{name}.py").write_text(worker_file(CALLING.replace("ask", f"ask_{name}")))
        config += f'\n[sources.{name}]\nkind = "files"\npath = "{name}.py"\n{options}\n'
    with running_gateway(tmp_path, config) as gateway:
        for name, (_, reached) in WHICH_CALLS.items():
            answers = {tool: call(gateway, f"ask_{name}", name=tool) for tool in ("open_door", "pay")}
            assert [tool for tool, answer in answers.items() if answer["result"]] == reached, name
        for unknown in ("pay", "no_such_tool"):
            refused = call(gateway, "ask_narrow", name=unknown)["error"]["message"]
            assert f"A tool of this source may not call '{unknown}'" in refused
            assert "name that tool in calls = […]" in refused
