"""`jackfield tail` beside a real gateway."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.harness.process import DEFAULT_CONFIG, DEFAULT_TOOLS, RunningGateway, clean_environment, start_gateway
from tests.waiting import eventually


@contextmanager
def tailing(
    gateway: RunningGateway, folder: Path, *options: str
) -> Iterator[tuple[Callable[[], list[str]], Callable[[], tuple[int, str]]]]:
    """`jackfield tail` as a process: a function for the lines so far, and one that interrupts it."""
    out, err = folder / "tail.out", folder / "tail.err"
    with out.open("wb") as out_file, err.open("wb") as err_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "jackfield.cli", "tail", *options],
            cwd=gateway.folder,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=out_file,
            stderr=err_file,
        )

    def interrupt() -> tuple[int, str]:
        process.send_signal(signal.SIGINT)
        return process.wait(20), err.read_text(encoding="utf-8")

    try:
        yield lambda: out.read_text(encoding="utf-8").splitlines(), interrupt
    finally:
        process.kill()
        process.wait(10)


def execute(gateway: RunningGateway, tool: str, **arguments: object) -> str:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    answer = httpx2.post(url, headers=gateway.headers, json={"arguments": arguments})
    call_id: str = answer.json()["call_id"]
    return call_id


def seen_after_calling(gateway: RunningGateway, lines: Callable[[], list[str]], tool: str, **arguments: object) -> str:
    """Call until the watcher, which may not be listening yet, shows a call that is settled; that line."""

    made: set[str] = set()

    def settled() -> str:
        made.add(execute(gateway, tool, **arguments))
        return next((line for line in lines() if " ms" in line and any(call_id in line for call_id in made)), "")

    return eventually(settled)


def test_calls_are_lines_with_their_status_tool_time_and_error(gateway_project: RunningGateway, tmp_path: Path) -> None:
    with tailing(gateway_project, tmp_path) as (lines, interrupt):
        done = seen_after_calling(gateway_project, lines, "add", a=1)
        assert done.split()[1:3] == ["completed", "add"]
        failed = seen_after_calling(gateway_project, lines, "boom", reason="too hot")
        assert failed.split()[1:3] == ["failed", "boom"]
        assert "too hot" in failed
        assert interrupt() == (130, "")


def test_only_the_tool_that_was_asked_for_is_shown(gateway_project: RunningGateway, tmp_path: Path) -> None:
    with tailing(gateway_project, tmp_path, "--tool", "echo", "--json") as (lines, interrupt):

        def events() -> list[dict[str, str]]:
            execute(gateway_project, "add", a=1)
            execute(gateway_project, "echo", text="x")
            return [json.loads(line) for line in lines()]

        assert {event["tool"] for event in eventually(events, within=30)} == {"echo"}
        assert {"call.started", "call.settled"} >= {json.loads(line)["type"] for line in lines()}
        assert interrupt()[0] == 130


def test_the_watch_goes_on_after_the_gateway_was_killed_and_came_back(tmp_path: Path) -> None:
    folder = tmp_path / "gateway"
    folder.mkdir()
    gateway = start_gateway(folder, DEFAULT_CONFIG, files={"tools/story.py": DEFAULT_TOOLS})
    try:
        with tailing(gateway, tmp_path) as (lines, interrupt):
            seen_after_calling(gateway, lines, "add", a=1)
            gateway.kill()
            gateway = start_gateway(folder)
            seen_after_calling(gateway, lines, "echo", text="back again")
            code, said = interrupt()
    finally:
        gateway.stop()
    assert code == 130
    assert "Reconnecting" in said
    assert "Traceback" not in said
