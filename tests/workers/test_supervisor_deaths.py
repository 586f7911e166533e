"""Whoever of gateway, zygote and monitor is killed: two seconds later nothing is left of what they held."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from tests.requirement import requirement
from tests.waiting import eventually, eventually_async
from tests.workers.processes import UNRULY_SIZE, Scene, below, described, marked, running

GATEWAY = """
import asyncio, sys
from pathlib import Path

import uvloop

from jackfield.workers.supervisor import Supervisor
from tests.workers.processes import Scene


async def main(mark):
    scene = Scene(Supervisor(), Path.cwd())
    scene.env["MARK"] = mark
    unruly = [await scene.start_unruly() for _ in range(3)]
    quiet = await scene.start("sh", "-c", "sleep 60 & sleep 60 & echo ready; wait")
    assert await quiet.line() == b"ready\\n"
    print("ready", flush=True)
    await asyncio.Event().wait()


(uvloop.run if sys.argv[2] == "uvloop" else asyncio.run)(main(sys.argv[1]))
"""
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("victims", ["one", "all"])
async def test_a_killed_monitor_takes_its_own_tree_with_it_and_no_other(scene: Scene, victims: str) -> None:
    first, second, third = [await scene.start_unruly() for _ in range(3)]
    killed = [first] if victims == "one" else [first, second]

    for started in killed:
        os.kill(scene.monitor_of(started.child), signal.SIGKILL)

    assert [await started.code() for started in killed] == [-signal.SIGKILL] * len(killed)
    assert len(scene.alive()) == UNRULY_SIZE * (3 - len(killed))
    third.child.kill()
    assert await third.code() == -signal.SIGKILL
    assert first.child.returncode == -signal.SIGKILL


async def test_a_killed_zygote_takes_everything_with_it_and_the_next_start_brings_a_new_one(scene: Scene) -> None:
    trees = [await scene.start_unruly() for _ in range(3)]
    zygote, held = scene.zygote, below(scene.zygote)
    assert len(held) == 3 * (UNRULY_SIZE + 1)

    os.kill(zygote, signal.SIGKILL)

    next_one = await scene.start("sleep", "60")
    assert [await tree.code() for tree in trees] == [-signal.SIGKILL] * 3
    await eventually_async(lambda: not any(map(running, held)), what=lambda: described(held))
    assert scene.alive() == {next_one.child.pid}
    assert scene.zygote != zygote
    next_one.child.kill()
    assert await next_one.code() == -signal.SIGKILL


async def test_a_killed_zygotes_trees_end_though_the_gateway_does_nothing_about_it(scene: Scene) -> None:
    await scene.start_unruly()
    held = below(scene.zygote)

    os.kill(scene.zygote, signal.SIGKILL)

    # Blocking: nothing of the event loop may be needed for it.
    eventually(lambda: not any(map(running, held)), what=lambda: described(held))


async def test_a_zygote_killed_in_the_midst_of_starts_leaves_nothing_and_the_starts_succeed(scene: Scene) -> None:
    daemons = "setsid sleep 60 & sleep 60 & wait"
    for _ in range(3):
        starting = [asyncio.create_task(scene.start("sh", "-c", daemons)) for _ in range(12)]
        await asyncio.wait(starting, return_when=asyncio.FIRST_COMPLETED)
        os.kill(scene.zygote, signal.SIGKILL)
        started = await asyncio.gather(*starting)
        for one in started:
            one.child.kill()
        assert [await one.code() for one in started] == [-signal.SIGKILL] * 12
        await scene.empties()


async def test_zygote_and_monitors_leave_ctrl_c_and_sigterm_to_the_gateway(scene: Scene) -> None:
    started = await scene.start("sleep", "60")
    monitor = scene.monitor_of(started.child)
    assert len({os.getsid(pid) for pid in (os.getpid(), scene.zygote, monitor, started.child.pid)}) == 4

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(monitor, number)
        os.kill(scene.zygote, number)

    other = await scene.start("true")
    assert await other.code() == 0
    assert started.child.returncode is None
    assert running(started.child.pid)


@contextmanager
def gateway(mark: str, loop: str) -> "Iterator[subprocess.Popen[str]]":
    """A program that holds trees as a gateway does, when they are all there."""
    command = [sys.executable, "-c", GATEWAY, mark, loop]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()
        for pid in marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@requirement("CON-worker-no-orphan")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_a_killed_gateway_leaves_nothing(how: signal.Signals, loop: str) -> None:
    mark = f"mark-{uuid4().hex}"
    with gateway(mark, loop) as process:
        held = below(process.pid)
        assert len(held) == 1 + 4 + 3 * UNRULY_SIZE + 3

        process.send_signal(how)

        assert process.wait(10) == -how
        await eventually_async(
            lambda: not marked(mark) and not any(map(running, held)),
            what=lambda: f"still there: {described(held | marked(mark))}",
        )
