"""A process of our own for work that would hold up everybody: it answers one line at a time, and is ended if it cannot.

Some work holds Python's global lock from its beginning to its end, so a thread would not help. The process is started
at first need, ends with the gateway, and is started again after it was ended. Asked from threads, never from the loop.
Above: the catalog's checks. Below: the supervisor.
"""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from jackfield.errors import CouldNotStart, JackfieldError
from jackfield.settings.sessions import SandboxSettings
from jackfield.workers.sandbox.kinds import SandboxCommand, start_folder, unconfined
from jackfield.workers.supervisor import Child, Supervisor

START_SECONDS = 30.0
MEMORY = 4 * 1024**3
"""Bytes of address space, most of which Python never uses."""
_CHUNK = 262_144


class HelperFailed(JackfieldError):
    """The process ended, or was ended because it took too long, before it answered."""


class HelperProcess:
    """`command` reads lines from stdin and answers each with a line on stdout."""

    def __init__(self, command: Sequence[str], *, supervisor: Supervisor, within: float) -> None:
        self._command = tuple(command)
        self._supervisor = supervisor
        self._within = within
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = threading.Lock()
        self._child: Child | None = None
        self._socket: socket.socket | None = None
        self.starts = 0
        """How often it was started: what an earlier one was told, this one does not know."""

    def open(self) -> None:
        """From now on it may be asked. Said in the event loop that starts processes."""
        self._loop = asyncio.get_running_loop()

    @property
    def can_wait(self) -> bool:
        """Whether this thread may ask: it is open, and this is not the event loop's own thread."""
        if self._loop is None or self._loop.is_closed():
            return False
        try:
            return asyncio.get_running_loop() is not self._loop
        except RuntimeError:
            return True

    def ask(self, line: Callable[[], bytes]) -> bytes:
        """Its answer to a line, which is made when its turn has come. Raises `HelperFailed`; blocks this thread."""
        with self._turn:
            try:
                sock = self._socket or self._started()
                return self._exchange(sock, line() + b"\n", end=time.monotonic() + self._within)
            except (OSError, CouldNotStart) as fault:
                self._end()
                raise HelperFailed(str(fault)) from fault

    def close(self) -> None:
        """End the process. The supervisor would, too."""
        self._loop = None
        if self._child is not None:
            self._child.kill()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # whoever waits for an answer wakes up and closes it
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
        return ours

    async def _spawn(self, descriptor: int) -> Child:
        limits = SandboxSettings(kind="none", memory=MEMORY)
        program = SandboxCommand(command=self._command, env={"PATH": os.defpath}, folder=start_folder(None))
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            plan = unconfined(program, limits)
            return await plan.start(self._supervisor, stdin=descriptor, stdout=descriptor, stderr=null)
        finally:
            os.close(null)

    def _exchange(self, sock: socket.socket, line: bytes, *, end: float) -> bytes:
        sock.settimeout(max(0.001, end - time.monotonic()))
        sock.sendall(line)
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
