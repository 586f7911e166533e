"""Limits of a sandbox bite, and the end that they bring is told in words."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jackfield.workers import supervision
from jackfield.workers.sandbox.kinds import describe_exit, explain_failure
from tests.workers.sandbox.inside import KINDS, PRELUDE, PYTHON, Booth, settings_of

NOBODY = 65534
MEGABYTE = 1_048_576


@pytest.mark.parametrize("kind", [*KINDS, "none"])
async def test_memory_beyond_the_limit_is_not_given(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    settings = settings_of(kind, memory=200 * MEGABYTE)
    ended = await booth.run(
        settings, "print(json.dumps([len(bytes(50_000_000)), attempt(lambda: bytes(400_000_000))]))"
    )
    assert ended.said == [50_000_000, "MemoryError"]
    assert explain_failure("MemoryError", settings) == "MemoryError (its sandbox allows it 200 MB of memory)"


@pytest.mark.parametrize("kind", [*KINDS, "none"])
async def test_a_program_that_computes_for_too_long_is_ended(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    ended = await booth.run(settings_of(kind, cpu=1), "while True: pass")
    assert ended.words == "it used more than the 1 s of CPU time that its sandbox allows"


@pytest.mark.parametrize("kind", [*KINDS, "none"])
async def test_a_file_does_not_grow_beyond_the_limit(kind: str, booth: Booth) -> None:
    await booth.need(kind)
    settings = settings_of(kind, file_size=10_000, writable=(".",))
    write = f"open({str(booth.folder / 'file')!r}, 'wb').write(bytes({{size}}))\n"
    assert (await booth.run(settings, write.format(size=10_000))).code == 0
    ended = await booth.run(settings, "import signal; signal.signal(25, signal.SIG_DFL)\n" + write.format(size=10_001))
    assert ended.words == "it wrote a file of more than the 9.76562 kB that its sandbox allows"
    said = explain_failure("OSError: [Errno 27] File too large", settings)
    assert said == "OSError: [Errno 27] File too large (its sandbox allows it files of up to 9.76562 kB)"


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder with the supervision that everybody may read: our own may be closed to others, as homes often are."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(Path(supervision.__file__).parent, folder / "supervision")
        yield folder


async def test_an_ordinary_users_program_is_walled_in_and_limited_in_its_processes(
    booth: Booth, monkeypatch: pytest.MonkeyPatch, open_to_all: Path
) -> None:
    """Here the tests may run as root, whose processes the kernel does not count; so somebody else starts this one."""
    await booth.need("namespaces")
    python = _python_for_nobody()
    (booth.folder / "secret").write_text("mine")
    code = (
        "def begin():\n    return [subprocess.Popen(['sleep', '5']) for _ in range(10)] and 'all'\n"
        f"print(json.dumps([os.getuid(), os.path.exists({str(booth.folder / 'secret')!r}), attempt(begin)]))"
    )
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    monkeypatch.setattr(os, "getegid", lambda: NOBODY)
    plan = await booth.sandboxes.plan(
        settings_of("namespaces", processes=6),
        command=(python, *PYTHON[1:], PRELUDE + code),
        env={"PATH": "/usr/bin:/bin"},
    )
    start = {"command": plan.command, "env": plan.env, "cwd": str(plan.cwd), "confinement": plan.confinement}
    run = (
        "import json, os, sys\n"
        f"sys.path.append({str(open_to_all)!r})\n"
        "from supervision.monitor import fork_command\n"
        "pid, verdict = fork_command(json.loads(sys.argv[1]), fds=[0, 1, 2])\n"
        "sys.exit(os.read(verdict, 100) or os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    done = await asyncio.to_thread(_as_nobody, [python, "-I", "-S", "-c", run, json.dumps(start)])
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [NOBODY, False, "BlockingIOError"]


def _as_nobody(command: list[str]) -> "subprocess.CompletedProcess[str]":
    other = NOBODY if os.getuid() == 0 else None
    return subprocess.run(
        command,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        stdin=subprocess.DEVNULL,
        user=other,
        group=other,
    )


def _python_for_nobody() -> str:
    for python in (PYTHON[0], "/usr/bin/python3"):
        try:
            if _as_nobody([python, "-c", "pass"]).returncode == 0:
                return python
        except OSError:
            continue
    pytest.skip("No Python here may be run by everybody.")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (0, "it exited with code 0"),
        (3, "it exited with code 3"),
        (-9, "it was killed by SIGKILL"),
        (-250, "it was killed by signal 250"),
        (-11, "it was killed by SIGSEGV, perhaps because its sandbox allows it 1 GB of memory"),
        (-24, "it was killed by SIGXCPU"),
    ],
)
def test_an_end_has_words(code: int, says: str) -> None:
    assert describe_exit(code, settings_of("none", memory=1_073_741_824)) == says


def test_a_failure_that_no_limit_explains_stays_as_it_was() -> None:
    everything = settings_of("auto", memory=1, file_size=1, processes=1)
    for message in ("ValueError: no", "KeyError: 12"):
        assert explain_failure(message, everything) == message
    assert explain_failure("MemoryError", settings_of("auto")) == "MemoryError"
    offline = "OSError: [Errno 101] Network is unreachable"
    assert explain_failure(offline, settings_of("auto")) == f"{offline} (its sandbox has no network)"
    assert explain_failure(offline, settings_of("auto", network=True)) == offline
