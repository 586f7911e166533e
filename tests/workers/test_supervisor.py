"""What a command gets, how it is ended, and that nothing of it stays."""

import asyncio
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from jackfield.errors import CouldNotStart
from jackfield.workers.supervisor import Supervisor, start_failure
from tests.waiting import TIMEOUT, Stopwatch, eventually_async
from tests.workers.processes import PYTHON, UNRULY_SIZE, Scene, running

SELF_PORTRAIT = """
import json, os, signal

def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True

print(json.dumps({
    "cwd": os.getcwd(),
    "open": [fd for fd in range(4096) if is_open(fd)],
    "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
    "stdin": os.read(0, 100).decode(),
}))
"""
HOPPING = """
import os
print("hopping", flush=True)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
"""Never the same process for longer than a fork takes, each in a session of its own."""
TWO_DEEP = 'sh -c "sleep 60 & wait" & exec sleep 60'


async def test_a_command_gets_its_environment_and_nothing_of_the_gateways(scene: Scene) -> None:
    env = {"PATH": os.environ["PATH"], "GREETING": "Grüße", "RAW": "\udcff"}

    started = await scene.start("cat", "/proc/self/environ", env=env)

    said = dict(pair.split(b"=", 1) for pair in (await started.rest()).strip(b"\0").split(b"\0"))
    assert said == {b"PATH": env["PATH"].encode(), b"GREETING": "Grüße".encode(), b"RAW": b"\xff"}
    assert await started.code() == 0


async def test_a_command_gets_its_folder_its_three_descriptors_and_a_session_of_its_own(scene: Scene) -> None:
    stdin, feed = os.pipe()
    os.write(feed, b"fed")
    os.set_inheritable(feed, True)  # noqa: FBT003 - the standard library's own signature

    started = await scene.start(*PYTHON, SELF_PORTRAIT, stdin=stdin)

    assert json.loads(await started.rest()) == {
        "cwd": str(scene.folder),
        "open": [0, 1, 2],
        "leads": [True, True],
        "stdin": "fed",
    }
    os.close(stdin)
    os.close(feed)


OF_THE_C_LIBRARY = 0b11 << 31
"""Signals 32 and 33, which glibc keeps for its threads: no program can set them, so they come as they were."""


async def test_a_command_ignores_and_blocks_no_signal(scene: Scene) -> None:
    started = await scene.start("cat", "/proc/self/status")

    status = dict(line.split(b":", 1) for line in (await started.rest()).splitlines())
    masks = [int(status[name], 16) & ~OF_THE_C_LIBRARY for name in (b"SigIgn", b"SigBlk", b"SigCgt")]
    assert masks == [0, 0, 0]


async def test_one_socket_can_be_both_stdin_and_stdout(scene: Scene) -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    with ours, theirs:
        fd = theirs.fileno()
        child = await scene.supervisor.spawn(["cat"], env=scene.env, cwd=scene.folder, stdin=fd, stdout=fd, stderr=2)
        theirs.close()
        ours.send(b"there and back")
        assert await asyncio.to_thread(ours.recv, 100) == b"there and back"
        ours.shutdown(socket.SHUT_WR)
        assert await asyncio.to_thread(ours.recv, 100) == b""
        assert await child.wait() == 0


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("no-such-program",), r"Could not start 'no-such-program': there is no such program, .* full path\."),
        (("./notes.txt",), r"Could not start 'notes.txt': this user may not execute it\. .*"),
        (("true", "nul\0"), r"Could not start 'true': Invalid argument\."),
    ],
)
async def test_a_program_that_cannot_run_is_refused_with_the_reason(
    scene: Scene, command: tuple[str, ...], says: str
) -> None:
    (scene.folder / "notes.txt").write_text("not a program", encoding="utf-8")
    with pytest.raises(CouldNotStart, match=f"^{says}$"):
        await scene.start(*command)


async def test_a_folder_that_is_not_there_is_the_reason_given(scene: Scene) -> None:
    scene.folder /= "missing"
    with pytest.raises(
        CouldNotStart, match=r"^Could not start 'true': its working directory cannot be entered \(No such"
    ):
        await scene.start("true")


def test_a_fault_without_a_word_of_our_own_is_given_in_the_systems() -> None:
    assert start_failure("uvx", "begin", 11) == "Could not start 'uvx': Resource temporarily unavailable."


async def test_everybody_who_waits_hears_how_it_ended(scene: Scene) -> None:
    started = await scene.start("sh", "-c", "kill -USR1 $$")
    assert await asyncio.gather(*(started.code() for _ in range(3))) == [-signal.SIGUSR1] * 3
    assert started.child.returncode == -signal.SIGUSR1
    started.child.kill()
    assert await started.code() == -signal.SIGUSR1


async def test_grace_lets_a_command_end_in_its_own_way(scene: Scene) -> None:
    started = await scene.start("sh", "-c", "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done")
    assert await started.line() == b"ready\n"

    started.child.kill(grace=10)

    assert await started.code() == 7
    assert await started.rest() == b"bye\n"


async def test_who_ignores_the_grace_is_killed_after_it(scene: Scene) -> None:
    started = await scene.start_unruly()
    begun = time.monotonic()

    started.child.kill(grace=0.3)

    assert await started.code() == -signal.SIGKILL
    assert 0.3 <= time.monotonic() - begun < TIMEOUT
    assert scene.alive() == set()


async def test_a_second_kill_can_shorten_the_grace(scene: Scene) -> None:
    started = await scene.start_unruly()
    started.child.kill(grace=60)
    started.child.kill()
    started.child.kill(grace=60)
    assert await started.code() == -signal.SIGKILL


async def test_a_kill_takes_the_whole_tree_daemons_included_before_it_is_reported(scene: Scene) -> None:
    started = await scene.start_unruly()
    other = await scene.start("sleep", "60")
    assert len(scene.alive()) == UNRULY_SIZE + 1

    started.child.kill()

    assert await started.code() == -signal.SIGKILL
    assert scene.alive() == {other.child.pid}
    assert other.child.returncode is None


async def test_what_a_command_leaves_behind_when_it_ends_politely_is_gone_before_that_is_reported(scene: Scene) -> None:
    started = await scene.start("sh", "-c", "setsid sleep 60 & sleep 60 & echo done; exit 5")
    assert await started.line() == b"done\n"
    assert await started.code() == 5
    assert scene.alive() == set()


async def test_processes_that_fork_while_they_are_killed_are_caught(scene: Scene) -> None:
    started = [await scene.start(*PYTHON, HOPPING) for _ in range(3)]
    for hopper in started:
        assert await hopper.line() == b"hopping\n"
        assert await hopper.code() == 0
    assert scene.alive() == set()


async def test_nobody_but_the_command_holds_its_descriptors(scene: Scene) -> None:
    """Neither the zygote nor a monitor, its own or one started later: the end of its output is seen at once."""
    first = await scene.start("sh", "-c", "read word; exec sleep 60 >&-", stdin=(feed := os.pipe())[0])
    second = await scene.start("sleep", "60")
    os.write(feed[1], b"go\n")
    assert await first.rest() == b""
    assert (first.child.returncode, second.child.returncode) == (None, None)
    os.close(feed[0])
    os.close(feed[1])


async def test_an_environment_larger_than_a_sockets_buffer_arrives(scene: Scene) -> None:
    env = scene.env | {f"PART_{n}": "x" * 10_000 for n in range(100)}
    started = await scene.start("sh", "-c", "echo ${#PART_0} ${#PART_99}", env=env)
    assert await started.rest() == b"10000 10000\n"


async def test_a_start_that_is_cancelled_leaves_nothing_and_may_lose_its_descriptors_at_once(scene: Scene) -> None:
    await (await scene.start("true")).code()
    starting = [asyncio.create_task(scene.start("sleep", "60")) for _ in range(10)]
    await asyncio.sleep(0)
    for task in starting:
        task.cancel()
    await asyncio.wait(starting)
    assert all(task.cancelled() for task in starting)
    survivor = await scene.start("sleep", "60")
    await eventually_async(lambda: scene.alive() == {survivor.child.pid}, what=lambda: f"{scene.alive()}")


async def test_close_ends_everything_and_nothing_starts_after_it(scene: Scene) -> None:
    unruly, gentle = await scene.start_unruly(), await scene.start("sleep", "60")
    zygote, monitors = scene.zygote, [scene.monitor_of(unruly.child), scene.monitor_of(gentle.child)]
    watch = Stopwatch()

    await scene.supervisor.close()

    assert watch.seconds() < 2.0
    assert (unruly.child.returncode, gentle.child.returncode) == (-signal.SIGKILL, -signal.SIGTERM)
    assert scene.alive() == set()
    assert not any(map(running, [zygote, *monitors]))
    with pytest.raises(CouldNotStart, match=r"^'true' was not started, because the gateway is stopping\.$"):
        await scene.start("true")
    await scene.supervisor.close()


async def test_a_supervisor_that_started_nothing_has_no_process_and_closes_at_once() -> None:
    supervisor = Supervisor()
    assert supervisor._link is None
    await supervisor.close()


async def test_without_sight_of_descendants_the_group_is_ended(tmp_path: Path) -> None:
    """As on macOS: whoever stays in the command's group is found."""
    scene = Scene(Supervisor(best_effort=True), tmp_path)
    try:
        polite = await scene.start("sh", "-c", "sleep 60 & exit 3")
        assert await polite.code() == 3
        killed, orphaned = [await scene.start("sh", "-c", TWO_DEEP) for _ in range(2)]
        await eventually_async(lambda: len(scene.alive()) >= 4, what=lambda: f"{scene.alive()}")
        killed.child.kill()
        assert await killed.code() == -signal.SIGKILL
        os.kill(scene.monitor_of(orphaned.child), signal.SIGKILL)
        assert await orphaned.code() == -signal.SIGKILL
        await scene.empties()
    finally:
        await scene.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_fifty_starts_at_once_on_either_event_loop(
    run: Callable[[Coroutine[Any, Any, None]], None], tmp_path: Path
) -> None:
    async def fifty() -> None:
        scene = Scene(Supervisor(), tmp_path)
        started = await asyncio.gather(*(scene.start("sh", "-c", f"echo {n}; exec sleep 60") for n in range(50)))
        assert [await one.line() for one in started] == [f"{n}\n".encode() for n in range(50)]
        assert scene.alive() == {one.child.pid for one in started}
        for one in started[::2]:
            one.child.kill()
        assert [await one.code() for one in started[::2]] == [-signal.SIGKILL] * 25
        os.kill(scene.zygote, signal.SIGKILL)
        assert [await one.code() for one in started] == [-signal.SIGKILL] * 50
        await scene.empties()
        await scene.close()

    run(fifty())
