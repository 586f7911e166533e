"""A worker pool within this process, and beside it a bare child that sends back what it gets, over the same channel.

Above: the row `workers`. Below: `jackfield.workers`.
"""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import msgspec

from bench.figures import Sample, percentile
from bench.processes import BenchError
from jackfield.model.call import Done, Failed
from jackfield.sources.workerfile import SDK
from jackfield.workers.channel import ProgressPart, WorkerChannel
from jackfield.workers.environments import Environment, ToolScript
from jackfield.workers.host import WorkerHost
from jackfield.workers.pool import WorkerPool
from jackfield.workers.worker import FileSpec, WorkerCall, WorkerOptions

TOOL_FILE = """\
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
import asyncio

async def echo(text: str) -> str:
    return text

def threaded(text: str) -> str:
    return text

async def sleep(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds
"""
Asker = Callable[[int], Awaitable[object]]
"""Asks once; told which turn it is."""
ECHO_CHILD = """\
import socket
channel = socket.socket(fileno=0)
while data := channel.recv(1 << 18):
    channel.sendall(data)
"""


async def _no_tools(_name: str, _arguments: dict[str, object]) -> Done | Failed:
    raise BenchError("The tools that are measured call no other.")


def _say_nothing(_: str) -> None:
    return


def _no_progress(_: ProgressPart) -> None:
    return


@asynccontextmanager
async def a_pool(folder: Path) -> AsyncIterator[WorkerPool]:
    """The pool of a tool file, with its worker up."""
    worker_host = WorkerHost(folder / "workers", redact=str)
    spec = FileSpec(
        source="bench",
        label="echo.py",
        script=ToolScript("echo", TOOL_FILE),
        sequential=False,
        command=_command,
        env={},
        cwd=folder,
        options=WorkerOptions(idle_timeout=600, start_timeout=30, install_timeout=60),
    )
    pool = worker_host.pool(spec)
    try:
        await one_call(pool, "warm", request("warm", "echo", text="here"))
        yield pool
    finally:
        await pool.close()
        await worker_host.close()


def _command(environment: Environment) -> list[str]:
    return [environment.python, str(SDK), "serve", environment.file, "--options", json.dumps({"threads": 16})]


def request(call_id: str, function: str, **kwargs: object) -> bytes:
    """One call as the pool sends it."""
    message = {"id": call_id, "function": function, "kwargs": kwargs, "config": {}, "secrets": {}}
    return msgspec.json.encode(message) + b"\n"


async def one_call(pool: WorkerPool, call_id: str, line: bytes) -> Done:
    call = WorkerCall(
        id=call_id, request=line, report=_no_progress, call_tool=_no_tools, hold=_no_hold, on_install=_say_nothing
    )
    outcome = await pool.run(call)
    if not isinstance(outcome, Done):
        raise BenchError(f"The worker that is measured answered: {outcome}")
    return outcome


def _no_hold(_: float) -> AbstractContextManager[None]:
    return nullcontext()


class RawEcho:
    """A bare child and the gateway's own channel to it."""

    def __init__(self) -> None:
        self._answers: deque[asyncio.Future[bytes]] = deque()
        self._channel: WorkerChannel | None = None

    async def open(self, sock: socket.socket) -> None:
        self._channel = await WorkerChannel.open(sock, on_line=self._take, on_end=lambda _: None)

    async def ask(self, line: bytes) -> bytes:
        assert self._channel is not None
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        self._channel.send(line)
        return await answer

    def close(self) -> None:
        assert self._channel is not None
        self._channel.close()

    def _take(self, line: bytes) -> None:
        self._answers.popleft().set_result(line)


@asynccontextmanager
async def raw_echo() -> AsyncIterator[RawEcho]:
    ours, theirs = socket.socketpair()
    with theirs:
        end = theirs.fileno()
        child = subprocess.Popen([sys.executable, "-c", ECHO_CHILD], stdin=end, stdout=end)  # noqa: ASYNC220 - once
    echo = RawEcho()
    await echo.open(ours)
    try:
        yield echo
    finally:
        echo.close()
        await asyncio.to_thread(child.wait, 5)


async def one_by_one(ask: Asker, *, turns: int) -> Sample:
    """Microseconds for one round trip, p50."""
    took = []
    for turn in range(turns):
        began = time.perf_counter()
        await ask(turn)
        took.append((time.perf_counter() - began) * 1e6)
    return Sample(value=percentile(sorted(took), 0.5))


async def pipelined(ask: Asker, *, at_once: int, turns: int) -> Sample:
    """Round trips a second, with so many always on their way."""
    numbers = iter(range(turns))

    async def one() -> None:
        for number in numbers:
            await ask(number)

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(at_once)))
    return Sample(value=turns / (time.perf_counter() - began))
