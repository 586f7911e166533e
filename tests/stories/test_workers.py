"""Tool files with dependencies, through the real doors: installed at need, watched, shown, gone with the gateway."""

import json
import os
import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, run_cli, running_gateway
from tests.requirement import requirement
from tests.sources.test_workerfile_environments import DEPENDS, slow_package
from tests.sources.workers import is_alive, worker_file
from tests.waiting import eventually

CONFIG = """
[sources.local]
kind = "files"
path = "tools/*.py"
secrets = ["WEATHER_KEY"]
call_timeout = 1
"""
TOOLS = """
import os, subprocess, sys
from jackfield_tool import call_tool, get_secret, log, report_progress

def pid() -> int:
    return os.getpid()

def family() -> list[int]:
    return [os.getpid(), subprocess.Popen([sys.executable, "-c", "import os, time; os.setsid(); time.sleep(600)"]).pid]

def blab() -> str:
    print("the key is", get_secret("WEATHER_KEY"))
    report_progress(1, message=f"the key is {get_secret('WEATHER_KEY')}")
    with log("blab", key=get_secret("WEATHER_KEY")):
        raise ValueError(get_secret("WEATHER_KEY"))

async def twice(text: str) -> str:
    return 2 * await call_tool("echo", text=text)
"""
PLAIN = "def echo(text: str) -> str:\n    return text\n"


def start(folder: Path, *, env: dict[str, str] | None = None, **files: str) -> AbstractContextManager[RunningGateway]:
    (folder / "tools").mkdir(exist_ok=True)
    for name, text in {"plain": PLAIN, "worker": worker_file(TOOLS), **files}.items():
        (folder / "tools" / f"{name}.py").write_text(text)
    return running_gateway(folder, CONFIG, env={"WEATHER_KEY": "sunny-side-up", **(env or {})})


def call(gateway: RunningGateway, tool: str, **arguments: Any) -> dict[str, Any]:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    answer = httpx2.post(url, json={"arguments": arguments}, headers=gateway.headers, timeout=30)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_the_time_of_an_installation_is_not_the_calls_and_is_seen_live(tmp_path: Path) -> None:
    package = slow_package(tmp_path, seconds=2.5)
    text = worker_file("def heavy() -> str:\n    return 'done'\n", header=_needs(package))
    with start(tmp_path, heavy=text) as gateway:
        url = f"{gateway.url}/api/v1/tools/heavy/execute"
        headers = gateway.headers | {"Accept": "text/event-stream"}
        with httpx2.stream("POST", url, json={"arguments": {}}, headers=headers, timeout=30) as stream:
            told = [json.loads(line.removeprefix("data:")) for line in stream.iter_lines() if line.startswith("data:")]
    assert (told[-1]["status"], told[-1]["result"]) == ("completed", "done")
    messages = [event["progress"]["message"] for event in told if event.get("type") == "call.progress"]
    assert any("slowpoke" in message for message in messages)
    assert told[-1]["execution_time_ms"] > 2000


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@requirement("CON-worker-no-orphan", "WORK-shutdown-cleans")
def test_workers_and_what_they_started_are_gone_with_the_gateway(tmp_path: Path, how: signal.Signals) -> None:
    with start(tmp_path) as gateway:
        family = call(gateway, "family")["result"]
        assert all(is_alive(pid) for pid in family)
        os.kill(gateway.pid, how)
        gateway.process.wait(15)
        eventually(lambda: not any(is_alive(pid) for pid in family), within=2)
    left = [path.name for path in (tmp_path / ".jackfield").rglob("*") if path.is_socket() or path.name.startswith(".")]
    assert left == []


FAREWELL = """
import os, signal
from pathlib import Path

def _goodbye(*_) -> None:
    Path(os.environ["HOME"], "goodbye").write_text(str(os.getpid()))
    os._exit(0)

signal.signal(signal.SIGTERM, _goodbye)

def stay() -> int:
    return os.getpid()
"""


@requirement("WORK-shutdown-terminates")
def test_stopping_the_gateway_lets_workers_end_by_themselves(tmp_path: Path) -> None:
    with start(tmp_path, env={"HOME": str(tmp_path)}, farewell=worker_file(FAREWELL)) as gateway:
        pids = [call(gateway, "stay")["result"], call(gateway, "pid")["result"]]
        assert all(is_alive(pid) for pid in pids)
        assert gateway.stop() == 0
        assert not any(is_alive(pid) for pid in pids)
    assert (tmp_path / "goodbye").read_text() == str(pids[0]), "it was told to end, and ended in its own way"


def test_a_tool_is_called_by_another_through_the_pipeline_and_both_are_on_record(tmp_path: Path) -> None:
    with start(tmp_path) as gateway:
        answer = call(gateway, "twice", text="ab")
        assert answer["result"] == "abab"
        records = httpx2.get(f"{gateway.url}/api/v1/calls", headers=gateway.headers).json()["calls"]
        assert {(record["tool"], record["run_id"]) for record in records} == {
            ("twice", answer["run_id"]),
            ("echo", answer["run_id"]),
        }


def test_secrets_are_in_no_log_no_error_no_event_and_no_record(tmp_path: Path) -> None:
    with start(tmp_path) as gateway:
        headers = gateway.headers | {"Accept": "text/event-stream"}
        url = f"{gateway.url}/api/v1/tools/blab/execute"
        told = httpx2.post(url, json={"arguments": {}}, headers=headers, timeout=30).text
        assert '"message":"the key is [redacted]"' in told
        assert "sunny-side-up" not in told
        answer = call(gateway, "blab")
        assert answer["error"] == {"code": "tool_error", "message": "ValueError: [redacted]"}
        log = eventually(lambda: _log_with(gateway, "blab"), within=10)
        assert "the key is [redacted]" in log
        assert "sunny-side-up" not in log + gateway.log + gateway.printed


@requirement("WORK-log-captured")
def test_the_command_line_shows_workers_and_their_logs(tmp_path: Path) -> None:
    with start(tmp_path) as gateway:
        pid = call(gateway, "pid")["result"]
        call(gateway, "blab")
        shown = run_cli("logs", "--json", cwd=tmp_path, env=gateway.environment)
        (worker,) = json.loads(shown.stdout)["workers"]
        assert (worker["name"], worker["source"], worker["state"], worker["calls"]) == ("worker", "local", "running", 2)
        assert [process["pid"] for process in worker["processes"]] == [pid]
        lines = run_cli("logs", "worker", cwd=tmp_path, env=gateway.environment).stdout
        assert "the key is [redacted]" in lines
        tools = run_cli("tools", cwd=tmp_path, env=gateway.environment).stdout
        (line,) = [line for line in tools.splitlines() if line.startswith("worker ")]
        assert line.split()[:3] == ["worker", "local", "running"]
        assert line.split()[4:] == ["2", "0"]  # calls, restarts
        missing = run_cli("logs", "nobody", cwd=tmp_path, env=gateway.environment)
        assert missing.returncode == 2
        assert "There is no worker 'nobody'. Workers: worker." in missing.stderr


def test_an_edit_is_picked_up_without_a_restart(tmp_path: Path) -> None:
    with start(tmp_path) as gateway:
        before = call(gateway, "pid")["result"]
        (tmp_path / "tools" / "worker.py").write_text(worker_file(TOOLS + "\ndef fresh() -> str:\n    return 'new'\n"))
        eventually(
            lambda: httpx2.get(f"{gateway.url}/api/v1/tools/fresh", headers=gateway.headers).is_success, within=10
        )
        assert call(gateway, "fresh")["result"] == "new"
        eventually(lambda: not is_alive(before), within=5)


def _needs(package: Path) -> str:
    return DEPENDS.format(requirement=f"slowpoke @ {package.as_uri()}")


def _log_with(gateway: RunningGateway, word: str) -> str:
    shown = httpx2.get(f"{gateway.url}/api/v1/workers/worker/log", headers=gateway.headers)
    return shown.text if word in shown.text else ""
