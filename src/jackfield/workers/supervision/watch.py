"""What zygote and minder have in common: one thread that waits for descriptors, for children and for moments.

Above: `zygote.py`, `minder.py`. Below: select, SIGCHLD, waitpid.
"""

import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

ORPHAN_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL for what a dead gateway left."""
TELL_ANYWAY = 2.0
"""Seconds after which somebody who cannot be killed no longer holds up the word that a command has ended."""
GIVE_UP = 10.0
"""Seconds after which nobody is looked for any more."""
LOOK_AGAIN = 0.01


class Watch:
    """Calls back when a descriptor has something to read; `SIGCHLD` wakes it, too."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.add(self._woken, self._wake)

    def add(self, fd: int, ready: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, ready)

    def drop(self, fd: int) -> None:
        with suppress(KeyError):
            self._selector.unregister(fd)

    def wait(self, until: float | None) -> None:
        """Until something happens, or the moment `until` at the latest."""
        timeout = None if until is None else max(0.0, until - time.monotonic())
        for key, _ in self._selector.select(timeout):
            key.data()

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._woken, 4096):
                pass


def ended_children() -> Iterator[tuple[int, int]]:
    """Each child that has ended, with its exit code. Raises `ChildProcessError` at the end if none is left."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)
