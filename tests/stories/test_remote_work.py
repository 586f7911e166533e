"""`jackfield work`: tool files run on another machine, here in another folder and with nothing of the gateway's."""

import re
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.fork_server import Process, start_cli
from tests.harness.process import RunningGateway, clean_environment, run_cli, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(180)
TOOLS = '''\
# /// script
# dependencies = ["iniconfig"]
# ///
"""Tools that run elsewhere."""

import time
from pathlib import Path

import iniconfig
from jackfield_tool import get_config, get_secret, report_progress


def section(text: str) -> list[str]:
    """The sections of an ini file."""
    return [section.name for section in iniconfig.IniConfig("given", text)]


def told() -> list:
    """What it was told of its surroundings."""
    return [get_config("units"), get_secret("TOKEN")]


def hold(name: str) -> str:
    """Wait until somebody lets go."""
    folder = Path(get_config("folder"))
    with (folder / f"{name}.starts").open("a") as starts:
        starts.write("1")
    for turn in range(2400):
        if (folder / f"{name}.go").exists():
            return name
        report_progress(turn + 1, message="still holding")
        time.sleep(0.05)
    return "nobody"


def hold_again(name: str) -> str:
    """The same, and it may run twice."""
    return hold(name)


def charge(amount: int) -> int:
    """Needs a person."""
    return amount
'''
CONFIG = """\
[sources.{name}]
kind = "files"
path = "tools/*.py"
config = {{ units = "metric", folder = "{folder}" }}
secrets = ["TOKEN"]
processes = 2
call_timeout = 60

[sources.{name}.tools.hold_again]
metadata = {{ idempotent = true }}

[sources.{name}.tools.charge]
metadata = {{ requires_approval = true }}
"""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One `jackfield work` process."""

    process: Process
    folder: Path

    @property
    def log(self) -> str:
        return (self.folder / "work.log").read_text(encoding="utf-8")

    def end(self, sent: signal.Signals) -> int:
        self.process.send_signal(sent)
        return self.process.wait(30)


@contextmanager
def worker(gateway: RunningGateway, folder: Path, key: str, *args: str) -> Iterator[Worker]:
    """It is connected, in a folder of its own with a state of its own, as on another machine."""
    (folder / "tools").mkdir(parents=True, exist_ok=True)
    (folder / "tools" / "remote.py").write_text(TOOLS)
    config = folder / "jackfield.toml"
    config.write_text(CONFIG.format(name="remote", folder=gateway.folder))
    env = clean_environment({"TOKEN": "s3cret-token", "XDG_STATE_HOME": str(folder / "state")})
    with (folder / "work.log").open("ab") as log:
        at = ("work", "--gateway", gateway.url, "--key", key, "--config", str(config), *args)
        process = start_cli(at, cwd=folder, env=env, stdin=0, stdout=log.fileno(), stderr=log.fileno())
    running = Worker(process=process, folder=folder)
    try:
        eventually(lambda: "connected as source" in running.log or process.poll() is not None, what=lambda: running.log)
        assert process.poll() is None, running.log
        yield running
    finally:
        process.kill()
        process.wait(30)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RunningGateway]:
    folder = tmp_path / "gateway"
    folder.mkdir()
    with running_gateway(folder, "", args=("--store", "memory:")) as running:
        yield running


@pytest.fixture
def key(gateway: RunningGateway) -> str:
    return new_key(gateway, "worker:*")


@pytest.fixture
def calls() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def new_key(gateway: RunningGateway, scope: str) -> str:
    body = {"name": "machine", "scopes": [scope]}
    return str(httpx2.post(f"{gateway.url}/api/v1/keys", headers=gateway.headers, json=body).json()["key"])


def execute(gateway: RunningGateway, tool: str, **arguments: Any) -> Any:
    body = {"arguments": arguments}
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    return httpx2.post(url, headers=gateway.headers, json=body, timeout=60).json()


def starts(gateway: RunningGateway, name: str) -> int:
    file = gateway.folder / f"{name}.starts"
    return len(file.read_text()) if file.exists() else 0


def let_go(gateway: RunningGateway, name: str) -> None:
    (gateway.folder / f"{name}.go").touch()


def figure(gateway: RunningGateway, metric: str) -> float:
    page = httpx2.get(f"{gateway.url}/metrics", headers=gateway.headers).text
    return sum(float(value) for value in re.findall(rf"^{metric}\{{[^}}]*\}} (\S+)$", page, re.MULTILINE))


@requirement("SCALE-work-runs", "SCALE-work-metadata", "SCALE-work-reload", "SCALE-work-cancel", "SCALE-work-metrics")
def test_files_of_another_machine_run_as_at_the_gateway(
    gateway: RunningGateway, key: str, tmp_path: Path, calls: ThreadPoolExecutor
) -> None:
    with worker(gateway, tmp_path / "a", key, "--concurrency", "5") as first:
        assert execute(gateway, "section", text="[a]\n[b]\n")["result"] == ["a", "b"], "with what it depends on"
        assert execute(gateway, "told")["result"] == ["metric", "[redacted]"], "and its secret, which stays there"
        wrong = execute(gateway, "section", text=1)
        assert wrong["error"]["code"] == "invalid_arguments"
        assert execute(gateway, "charge", amount=1)["status"] == "pending_approval", "its operator's metadata holds"

        held = calls.submit(execute, gateway, "hold", name="cancelled")
        eventually(lambda: starts(gateway, "cancelled"))
        assert figure(gateway, "jackfield_tool_server_slots") == 5
        assert figure(gateway, "jackfield_tool_server_slots_used") == 1
        assert figure(gateway, "jackfield_tool_servers") == 1
        waiting = httpx2.get(f"{gateway.url}/api/v1/calls?status=waiting", headers=gateway.headers).json()["calls"]
        httpx2.post(f"{gateway.url}/api/v1/calls/{waiting[0]['id']}/cancel", headers=gateway.headers)
        assert held.result(30)["status"] == "cancelled"
        eventually(lambda: "was cancelled" in first.log)
        eventually(lambda: figure(gateway, "jackfield_tool_server_slots_used") == 0)

        (first.folder / "tools" / "more.py").write_text(
            'def newer() -> str:\n    """Came later."""\n    return "here"\n'
        )
        eventually(lambda: execute(gateway, "newer").get("result") == "here")
        assert first.end(signal.SIGTERM) == 0
    assert figure(gateway, "jackfield_tool_servers") == 0


@requirement("SCALE-work-drain", "SCALE-work-autoscaling")
def test_a_drained_worker_finishes_what_it_has_and_another_gets_the_rest(
    gateway: RunningGateway, key: str, tmp_path: Path, calls: ThreadPoolExecutor
) -> None:
    with worker(gateway, tmp_path / "a", key) as first:
        held = calls.submit(execute, gateway, "hold", name="old")
        eventually(lambda: starts(gateway, "old"))
        first.process.send_signal(signal.SIGTERM)
        eventually(lambda: figure(gateway, "jackfield_tool_server_slots") == 0)
        late = calls.submit(execute, gateway, "hold", name="new")
        eventually(lambda: figure(gateway, "jackfield_tool_calls_unoffered") == 1)
        assert figure(gateway, "jackfield_tool_calls_unoffered_oldest_seconds") > 0
        with worker(gateway, tmp_path / "b", key) as second:
            eventually(lambda: starts(gateway, "new"))
            let_go(gateway, "old")
            assert held.result(30)["result"] == "old"
            assert first.process.wait(30) == 0
            let_go(gateway, "new")
            assert late.result(30)["result"] == "new"
            assert (starts(gateway, "old"), starts(gateway, "new")) == (1, 1)
            stubborn = calls.submit(execute, gateway, "hold", name="stubborn")
            eventually(lambda: starts(gateway, "stubborn"))
            second.process.send_signal(signal.SIGTERM)
            eventually(lambda: "Draining" in second.log)
            assert second.end(signal.SIGTERM) == 128 + signal.SIGTERM, "the second time at once"
            assert stubborn.result(30)["error"]["message"].startswith("Interrupted")


@requirement("SCALE-work-killed")
def test_a_killed_worker_s_calls_run_at_most_once_unless_they_may_run_again(
    gateway: RunningGateway, key: str, tmp_path: Path, calls: ThreadPoolExecutor
) -> None:
    with ExitStack() as running:
        first = running.enter_context(worker(gateway, tmp_path / "a", key))
        held: dict[str, Future[Any]] = {}
        for tool in ("hold", "hold_again"):
            held[tool] = calls.submit(execute, gateway, tool, name=tool)
            eventually(partial(starts, gateway, tool))
        first.process.kill()
        first.process.wait(30)
        running.enter_context(worker(gateway, tmp_path / "b", key))
        eventually(lambda: starts(gateway, "hold_again") == 2)
        let_go(gateway, "hold_again")
        assert held["hold_again"].result(30)["result"] == "hold_again"
        running.enter_context(worker(gateway, tmp_path / "a", key))  # the one that was killed is back
        assert held["hold"].result(30)["error"]["message"].startswith("Interrupted")
        assert starts(gateway, "hold") == 1


@requirement("SCALE-work-mistakes")
def test_what_is_wrong_with_the_command_line_is_said_in_a_sentence(gateway: RunningGateway, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "a.py").write_text('def a() -> None:\n    """A."""\n')
    (tmp_path / "tools" / "empty.py").write_text("")

    def said(*args: str, url: str = gateway.url) -> str:
        env = {"JACKFIELD_URL": url}
        done = run_cli("work", *args, cwd=tmp_path, env=env, timeout=30)
        assert done.returncode in (1, 2)
        return done.stderr

    assert "No file matches 'none/*.py'" in said("none/*.py")
    assert "Write 'tools/*.py'" in said("tools")
    assert "no tools that can be served" in said("tools/empty.py")
    assert "no source of kind files" in said()
    assert "worker:GLOB" in said("--key", "nonsense", "tools/a.py")
    assert "It needs 'worker:a'" in said("--key", new_key(gateway, "worker:b"), "tools/a.py")
    assert "is not valid" in said("tools/a.py", url="nowhere")
    assert "--concurrency" in said("--concurrency", "0", "tools/a.py")
