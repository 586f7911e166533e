"""However a sandboxed program ends, it is told as it was, and nothing of it is left."""

import asyncio
import os
import signal

import pytest

from tests.waiting import eventually_async
from tests.workers.processes import UNRULY, UNRULY_SIZE, marked
from tests.workers.sandbox.inside import BOUND, KINDS, PYTHON, Booth, settings_of

MARK = "sandbox-mark-of-these-tests"
STAY = "print('here', flush=True)\nwhile True:\n    time.sleep(60)\n"


@pytest.mark.parametrize("kind", [*KINDS, "none"])
@pytest.mark.parametrize(
    ("last", "says"),
    [
        ("sys.exit(3)", "it exited with code 3"),
        ("os.kill(os.getpid(), 9)", "it was killed by SIGKILL"),
        ("import signal; signal.signal(6, signal.SIG_DFL); os.abort()", "it was killed by SIGABRT"),
    ],
)
async def test_its_end_is_told_as_it_was(kind: str, last: str, says: str, booth: Booth) -> None:
    await booth.need(kind)
    ended = await booth.run(settings_of(kind), last)
    assert ended.words == says


@pytest.mark.parametrize("kind", KINDS)
async def test_a_program_that_is_asked_to_end_may_end_in_its_own_way(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    plan = await booth.plan(settings_of(kind), "import signal\nsignal.signal(15, lambda *_: sys.exit(5))\n" + STAY)
    child, output = await booth.start(plan)
    async with asyncio.timeout(BOUND):
        assert await output.readline() == b"here\n"
        child.kill(grace=10)
        assert await child.wait() == 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim", ["all", "holder", "monitor", "zygote"])
async def test_nothing_is_left_whoever_is_killed(kind: str, victim: str, booth: Booth) -> None:
    await booth.need(kind)
    mark = f"{MARK}-{os.getpid()}-{victim}"
    plan = await booth.sandboxes.plan(
        settings_of(kind), command=(*PYTHON, UNRULY), env={"PATH": os.environ["PATH"], "MARK": mark}
    )
    child, output = await booth.start(plan)
    async with asyncio.timeout(BOUND):
        assert await output.readline() == b"ready\n"
        assert len(marked(mark)) >= UNRULY_SIZE
        assert booth.supervisor._link is not None
        if victim == "all":
            child.kill(grace=0.1)
        else:
            monitor = int(_stat_of(child.pid)[1])
            os.kill(
                {"holder": child.pid, "monitor": monitor, "zygote": booth.supervisor._link.pid}[victim], signal.SIGKILL
            )
        await child.wait()
    await eventually_async(lambda: not marked(mark), what=lambda: f"left: {marked(mark)}")


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_program_leaves_behind_ends_with_it(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    mark = f"{MARK}-{os.getpid()}-left"
    code = "subprocess.Popen(['sleep', '600'], start_new_session=True)\nprint('{}')"
    ended = await booth.run(settings_of(kind), code, env={"MARK": mark})
    assert ended.said == {}
    assert marked(mark) == set()


async def test_its_output_ends_when_it_closes_it(booth: Booth) -> None:
    """Nobody else holds the pipe: neither the holder nor init. (bubblewrap's own processes keep it open.)"""
    await booth.need("namespaces")
    plan = await booth.plan(settings_of("namespaces"), "os.closerange(0, 3)\ntime.sleep(60)")
    child, output = await booth.start(plan)
    async with asyncio.timeout(BOUND):
        assert await output.read() == b""
    assert child.returncode is None


def _stat_of(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - not a file to wait for
        return file.read().rpartition(")")[2].split()
