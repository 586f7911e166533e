"""Tool files with `sandbox = …`: their workers are walled in, and everything that a tool is promised still holds."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from jackfield.errors import ConfigError
from jackfield.model.call import Failed
from jackfield.sources.files import files_source
from tests.sources.toolbox import Toolbox
from tests.sources.workers import worker_box, worker_file

TOOLS = """
import os, socket, sys, time
from jackfield_tool import call_tool, get_config, get_secret, log, report_progress
import beside

def promised(text: str) -> list:
    report_progress(1, message="on it")
    print("a line for the log")
    return [text, get_config("units"), get_secret("WEATHER_KEY"), beside.NAME]

async def asks(text: str) -> dict:
    return await call_tool("hello", text=text)

def read(path: str) -> str:
    with open(path) as file:
        return file.read()

def write(path: str) -> str:
    with open(path, "w") as file:
        file.write("x")
    return "written"

def connect(port: int) -> str:
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    return "connected"

def environment() -> dict:
    return {"variables": sorted(os.environ), "prefix": sys.prefix, "home": os.listdir(os.environ["HOME"])}

def hoard(count: int) -> int:
    return len(bytes(count))

def compute(seconds: float = 100) -> int:
    while time.process_time() < seconds:
        pass
    return 1

def hello() -> str:
    return "hello"
"""


@asynccontextmanager
async def sandboxed(folder: Path, **options: Any) -> AsyncIterator[Toolbox]:
    """A source in a sandbox, on a machine that has one."""
    async with worker_box(folder, **{"sandbox": True} | options) as box:
        fault = await box.worker_host.sandboxes.fault(box.source._worker_options.sandbox)  # type: ignore[attr-defined]
        if fault is not None:
            pytest.skip(fault)
        box.write("boxed.py", worker_file(TOOLS))
        box.write("beside.py", "__all__ = []\nNAME = 'a neighbour'\n")
        await box.refresh()
        yield box


async def test_a_sandboxed_tool_has_all_that_tools_are_promised(tmp_path: Path) -> None:
    async with sandboxed(tmp_path) as box:
        assert await box.call("promised", text="hello") == ["hello", "metric", "sunny-side-up", "a neighbour"]
        assert await box.call("asks", text="nested") == {"text": "nested"}
        assert box.asked_within == [()], "from a sandbox it may call nothing, unless the config says so"
        assert [part.message for part in box.progress if part.message == "on it"] == ["on it"]
        lines = [line.text for line in box.worker_host.log("boxed", limit=10)]
        assert "a line for the log" in lines
        (worker,) = box.worker_host.statuses()
        assert (worker.state, worker.calls, len(worker.processes)) == ("running", 2, 1)


async def test_a_sandboxed_tool_sees_its_folder_and_its_environment_and_changes_neither(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "data.txt").write_text("ours")
    async with sandboxed(tmp_path) as box:
        assert (await box.failure("read", path=str(secret))).message.startswith("FileNotFoundError")
        assert await box.call("read", path="data.txt") == "ours"
        told = await box.call("environment")
        assert set(told["variables"]) <= {"PATH", "HOME", "LC_CTYPE", "PWD"}, "bubblewrap sets PWD"
        for place in (f"{told['prefix']}/lib/new.py", str(tmp_path / "tools" / "new.py")):
            assert "Read-only file system" in (await box.failure("write", path=place)).message
        assert await box.call("write", path="/tmp/mine") == "written"
        assert "mine" not in os.listdir("/tmp")  # noqa: PTH208 - a look, in passing


async def test_a_sandboxed_tool_has_no_network(tmp_path: Path, unused_tcp_port: int) -> None:
    async with sandboxed(tmp_path) as box:
        assert "Connection refused" in (await box.failure("connect", port=unused_tcp_port)).message


async def test_limits_of_the_config_bite_and_are_told(tmp_path: Path) -> None:
    async with sandboxed(tmp_path, sandbox={"memory": 1_000_000_000, "cpu": 1}) as box:
        assert await box.call("hoard", count=1000) == 1000
        failed = await box.failure("hoard", count=2_000_000_000)
        assert failed == Failed("tool_error", "MemoryError (its sandbox allows it 953.674 MB of memory)")
        crashed = await box.failure("compute")
        assert crashed.code == "worker_crashed"
        assert "it used more than the 1 s of CPU time that its sandbox allows" in crashed.message
        assert await box.call("hoard", count=1000) == 1000


async def test_a_worker_that_has_used_half_of_its_cpu_time_is_replaced_between_calls(tmp_path: Path) -> None:
    async with sandboxed(tmp_path, sandbox={"cpu": 1}) as box:
        await box.call("hello")
        (first,) = box.worker_host.statuses()[0].processes
        await box.call("compute", seconds=0.6)
        await box.call("hello")
        (second,) = [process for process in box.worker_host.statuses()[0].processes if process.pid != first.pid]
        assert second.calls == 1
        assert box.worker_host.statuses()[0].restarts == 0


async def test_a_script_that_speaks_for_itself_is_sandboxed_too(tmp_path: Path) -> None:
    script = """
    import json, os, sys

    def count() -> int:
        return 1

    if __name__ == "__main__":
        for line in sys.stdin:
            seen = len([name for name in os.listdir("/proc") if name.isdecimal()])
            print(json.dumps({"result": seen}), flush=True)
    """
    async with sandboxed(tmp_path) as box:
        box.write("script.py", worker_file(script))
        await box.refresh()
        assert await box.call("count") == 2


async def test_a_file_that_would_run_outside_is_not_offered(tmp_path: Path) -> None:
    async with sandboxed(tmp_path) as box:
        box.write("plain.py", "def plain() -> int:\n    return 1\n")
        listing = await box.refresh()
        assert "plain" not in box.tools
        (fault,) = listing.faults
        assert fault == (
            "tools/plain.py has no '# /// script' block, so it would run in the gateway's process and not in the "
            "sandbox. Begin it with one, or move it to a source without sandbox."
        )


async def test_a_sandbox_that_is_missing_is_a_fault_of_the_source_and_of_each_call(tmp_path: Path) -> None:
    async with worker_box(tmp_path, sandbox={"kind": "none", "readable": ["models"]}) as box:
        box.write("boxed.py", worker_file("def hello() -> int:\n    return 1\n"))
        listing = await box.refresh()
        said = "The sandbox is to show 'models', which is not there. Make it or leave it out."
        assert listing.faults == (said,)
        for _ in range(3):
            assert await box.failure("hello") == Failed("sandbox_unavailable", said)
        assert box.worker_host.statuses()[0].restarts == 0


def test_a_container_of_ones_own_is_not_for_tool_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^sources\.local\.sandbox: a tool file's worker speaks over a socket"):
        files_source("local", {"path": "*.py", "sandbox": {"kind": "container"}}, cast("Any", None))


async def test_limits_hold_without_a_sandbox_where_the_operator_wants_only_them(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("seen")
    async with sandboxed(tmp_path, sandbox={"kind": "none", "memory": 1_000_000_000}) as box:
        assert (await box.failure("hoard", count=2_000_000_000)).message.startswith("MemoryError (its sandbox allows")
        assert await box.call("read", path=str(outside)) == "seen"
