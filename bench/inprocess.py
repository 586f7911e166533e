"""A gateway within this process, and calls of it: for what is measured below the doors.

Above: the rows `pipeline` and `growth`. Below: the whole gateway without a port.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import uvloop

from bench.figures import Sample
from bench.processes import BenchError
from bench.subjects import ECHO
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.model.call import CallStatus
from jackfield.settings import load_settings
from jackfield.store.sqlite import SqliteStore

Act = Callable[[], Awaitable[object]]


@contextmanager
def runner() -> Generator[asyncio.Runner]:
    """The kind of event loop that the gateway is served on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as made:
        yield made


@contextmanager
def gateway_here(runner: asyncio.Runner, folder: Path, *, store: str) -> Generator[Gateway]:
    """The project in `folder`, started on this loop and stopped in the end."""
    settings = load_settings(folder, environment={"JACKFIELD_DATA": str(folder / "data")}, overrides={"store": store})

    async def start() -> Gateway:
        gateway = Gateway(settings)
        await gateway.start()
        return gateway

    gateway = runner.run(start())
    try:
        runner.run(_one_call(gateway.pipeline))
        yield gateway
    finally:
        runner.run(gateway.stop())


@contextmanager
def open_store(runner: asyncio.Runner, path: Path) -> Generator[SqliteStore]:
    """A store on this file, opened on this loop and closed in the end."""
    store = SqliteStore(path)
    runner.run(store.open())
    try:
        yield store
    finally:
        runner.run(store.close())


def calling(pipeline: Pipeline) -> Act:
    """One call of the echo tool, ready to be made over and over."""
    request = CallRequest(tool="echo", arguments=ECHO, principal=ADMIN)
    return lambda: pipeline.call(request)


async def cost(act: Act, *, at_once: int, seconds: float) -> Sample:
    """Microseconds per act with `at_once` of them under way, and their processor time in all threads."""
    done, ends = 0, time.perf_counter() + seconds

    async def repeat() -> None:
        nonlocal done
        while time.perf_counter() < ends:
            await act()
            done += 1

    began, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(repeat())
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Sample(value=wall / done * 1e6, cpu_us=cpu / done * 1e6)


async def _one_call(pipeline: Pipeline) -> None:
    call = await pipeline.call(CallRequest(tool="echo", arguments=ECHO, principal=ADMIN))
    if call.status is not CallStatus.COMPLETED or msgspec.json.decode(call.result or b"null") != ECHO:
        raise BenchError(f"The echo tool did not complete: {call}")
