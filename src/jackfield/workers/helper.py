"""A helper process for work that would block the gateway. It answers one line at a time and is killed on timeout.

Some work holds Python's global lock from start to end, so a thread would not help. The process is started on first
use and again after it was killed, and ends with the gateway. Used from threads, never from the event loop.
Above: the catalog's checks. Below: the supervisor.
"""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from jackfield.errors import CouldNotStart, JackfieldError
from jackfield.settings.types import SandboxSettings
from jackfield.workers.sandbox.kinds import limited, plain
from jackfield.workers.sandbox.view import TEMPORARY
from jackfield.workers.supervisor import Child, Supervisor

START_SECONDS = 30.0
MEMORY = 4 * 1024**3
"""Bytes of address space; Python uses a small part of it."""
_CHUNK = 262_144


class HelperFailed(JackfieldError):
    """The process ended before it answered, or was killed because it took too long."""


class HelperProcess:
    """`command` says a line on stdout when it is ready, then answers each line from stdin with one on stdout."""

    def __init__(self, command: Sequence[str], *, supervisor: Supervisor, within: float) -> None:
        self._command = tuple(command)
        self._supervisor = supervisor
        self._within = within
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = threading.Lock()
        self._child: Child | None = None
        self._socket: socket.socket | None = None
        self.starts = 0
        """How often it was started: a new process has none of the state of an earlier one."""

    def open(self) -> None:
        """Allow requests. Called in the event loop that starts processes."""
        self._loop = asyncio.get_running_loop()

    @property
    def can_wait(self) -> bool:
        """Whether `ask` may be called: it is open, and this is not the event loop's thread."""
        if self._loop is None or self._loop.is_closed():
            return False
        try:
            return asyncio.get_running_loop() is not self._loop
        except RuntimeError:
            return True

    def ask(self, line: Callable[[], bytes]) -> bytes:
        """Its answer to a line, which is built when its turn comes. Raises `HelperFailed`; blocks this thread."""
        with self._turn:
            try:
                sock = self._socket or self._started()
                return self._exchange(sock, line() + b"\n", end=time.monotonic() + self._within)
            except (OSError, CouldNotStart) as fault:
                self._end()
                raise HelperFailed(str(fault)) from fault

    def close(self) -> None:
        """End the process."""
        self._loop = None
        if self._child is not None:
            self._child.kill()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for an answer, which closes it
        if self._turn.acquire(blocking=False):
            self._end()
            self._turn.release()

    def _started(self) -> socket.socket:
        if self._loop is None:
            raise CouldNotStart("The gateway is stopping.")
        ours, theirs = socket.socketpair()
        self.starts += 1
        starting = asyncio.run_coroutine_threadsafe(self._spawn(theirs.fileno()), self._loop)
        try:
            self._child = starting.result(START_SECONDS)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours
        # The time of an answer is not spent on starting an interpreter, which takes seconds on a busy machine.
        self._receive(ours, end=time.monotonic() + START_SECONDS)
        return ours

    async def _spawn(self, descriptor: int) -> Child:
        plan = plain(self._command, env={"PATH": os.defpath}, cwd=Path(TEMPORARY))
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            plan = limited(plan, SandboxSettings(kind="none", memory=MEMORY))
            return await plan.start(self._supervisor, stdin=descriptor, stdout=descriptor, stderr=null)
        finally:
            os.close(null)

    def _exchange(self, sock: socket.socket, line: bytes, *, end: float) -> bytes:
        sock.settimeout(max(0.001, end - time.monotonic()))
        sock.sendall(line)
        return self._receive(sock, end=end)

    def _receive(self, sock: socket.socket, *, end: float) -> bytes:
        parts: list[bytes] = []
        while not parts or not parts[-1].endswith(b"\n"):
            sock.settimeout(max(0.001, end - time.monotonic()))
            part = sock.recv(_CHUNK)
            if not part:
                raise OSError("it ended")
            parts.append(part)
        return b"".join(parts)

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
        child, self._child, self._socket = self._child, None, None
        if child is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(child.kill)
