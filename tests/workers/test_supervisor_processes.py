"""Who descends from whom, by the kernel's lists and without them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jackfield.workers.supervision import processes

FORKED_FROM_A_THREAD = """
import os, threading, time
print(os.getpid(), flush=True)
def stay():
    print(os.getpid(), flush=True)
    time.sleep(60)
def fork():
    if os.fork() == 0:
        if os.fork() == 0:
            stay()
        stay()
    time.sleep(60)
threading.Thread(target=fork).start()
"""
"""A process whose child and grandchild belong to its second thread."""


@pytest.fixture
def family() -> Iterator[list[int]]:
    """Parent, child and grandchild, in any order but for the parent."""
    command = [sys.executable, "-I", "-S", "-W", "ignore", "-c", FORKED_FROM_A_THREAD]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    yield [int(process.stdout.readline()) for _ in range(3)]
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("lists", [True, False])
def test_all_descendants_are_found_with_the_kernels_lists_and_without(
    family: list[int], monkeypatch: pytest.MonkeyPatch, *, lists: bool
) -> None:
    monkeypatch.setattr(processes, "HAS_CHILDREN_FILES", processes.HAS_CHILDREN_FILES and lists)
    parent, *others = family
    assert sorted(processes.descendants(parent)) == sorted(others)
    assert parent in processes.children_of(os.getpid())


def test_a_process_that_is_gone_has_no_descendants_and_takes_no_signal() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert processes.descendants(process.pid) == []
    processes.signal_all([process.pid], signal.SIGKILL)
    processes.signal_group(process.pid, signal.SIGKILL)


def test_this_system_shows_all_descendants() -> None:
    assert processes.exact() == (sys.platform == "linux")
