"""A real worker process at the other end of a real socketpair, spoken to line by line.

`TOOL_PYTHON` in the environment names another interpreter for it: the SDK runs on more versions than the gateway.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import jackfield.tool

SDK_FOLDER = Path(jackfield.tool.__file__).parent
PYTHON = os.environ.get("TOOL_PYTHON", sys.executable)
TIMEOUT = 20.0


class WorkerProcess:
    """Started with `started`; every wait is bounded."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket, log: Path) -> None:
        connection.settimeout(TIMEOUT)
        self.process = process
        self.connection = connection
        self._log = log
        self._read = connection.makefile("rb")
        self._kept: dict[Any, dict[str, Any]] = {}
        self.trace = ""
        self._ids = 0

    def send(self, *messages: Any) -> None:
        """All in one piece, so that they arrive together."""
        self.send_bytes(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def send_bytes(self, data: bytes) -> None:
        self.connection.sendall(data)

    def receive(self) -> dict[str, Any]:
        line = self._read.readline()
        assert line.endswith(b"\n"), f"the worker went away: {self.log()}"
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    def request(self, function: Any, /, **kwargs: Any) -> dict[str, Any]:
        self._ids += 1
        return {"id": f"c{self._ids}", "function": function, "kwargs": kwargs, "config": {}, "secrets": {}}

    def begin(self, function: Any, /, **kwargs: Any) -> str:
        """Send one call; gives its id."""
        request = self.request(function, **kwargs)
        self.send(request)
        return str(request["id"])

    def answer(self, call: str) -> dict[str, Any]:
        """The answer to this call, whatever comes before it; a traceback is kept in `trace`."""
        while call not in self._kept:
            message = self.receive()
            self._kept[message["id"]] = message
        answer = self._kept.pop(call)
        self.trace = answer.pop("trace", "")
        return answer

    def call(self, function: Any, /, **kwargs: Any) -> dict[str, Any]:
        """One call's answer without its id."""
        answer = self.answer(self.begin(function, **kwargs))
        del answer["id"]
        return answer

    def result(self, function: Any, /, **kwargs: Any) -> Any:
        answer = self.call(function, **kwargs)
        assert answer["error"] is None, answer
        return answer["result"]

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def log_entries(self) -> list[dict[str, Any]]:
        """The JSON lines of its log."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    def hang_up(self) -> None:
        self._read.close()
        self.connection.close()

    def exit_code(self) -> int:
        return self.process.wait(TIMEOUT)


@contextmanager
def launched(
    place: Path, text: str, /, *, name: str = "tools.py", mode: str = "serve", **options: Any
) -> Iterator[WorkerProcess]:
    """The process as the gateway starts it, before it has said anything; it leads a group of its own."""
    file = place / name
    file.write_text(dedent(text))
    ours, theirs = socket.socketpair()
    log = place / "stderr.log"
    command = [PYTHON, str(SDK_FOLDER), mode, str(file), "--options", json.dumps(options)]
    with theirs, log.open("wb") as stderr:
        end = theirs.fileno()
        process = subprocess.Popen(command, stdin=end, stdout=end, stderr=stderr, start_new_session=True)
    worker = WorkerProcess(process, ours, log)
    try:
        yield worker
    finally:
        worker.hang_up()
        try:
            process.wait(TIMEOUT)
        finally:
            process.kill()


@contextmanager
def started(place: Path, text: str, /, *, name: str = "tools.py", **options: Any) -> Iterator[WorkerProcess]:
    """A worker that has said READY."""
    with launched(place, text, name=name, **options) as worker:
        ready = worker.receive()
        assert ready == {"ready": True, "protocol": 1, "pid": worker.process.pid}, (ready, worker.log())
        yield worker


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone_within(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while is_alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
