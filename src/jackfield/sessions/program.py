"""An operator's program, sandboxed, running in a session.

The caller's messages are lines on its stdin, its stdout lines are messages, its stderr goes to the log. It finds the
session's socket in `JACKFIELD_SOCKET` and the session's key in `JACKFIELD_TOKEN`.
Above: `registry.py`. Below: the sandbox and the process supervisor.
"""

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from jackfield.errors import Unavailable
from jackfield.model.redaction import REDACTED, cut
from jackfield.protocol.lines import LineSplitter, TooLong
from jackfield.sessions.session import MESSAGE, AgentSession, SessionStatus
from jackfield.settings.types import SessionSettings
from jackfield.workers.host import WorkerHost
from jackfield.workers.sandbox.kinds import LaunchPlan
from jackfield.workers.supervisor import Child

log = logging.getLogger("jackfield.sessions")

LONGEST_LINE = 1024 * 1024
PIECE = 64 * 1024
LINES_A_SECOND = 1_000
LOGGED_A_SECOND = 100
LOGGED_AFTERWARDS = 1_000
LONGEST_LOGGED = 2_000
TURN = 100
"""Lines that are taken in before others have their turn."""
UNREAD = 1024 * 1024
"""Bytes that a program may leave unread on its stdin."""
END_GRACE = 1.0
END_WITHIN = 5.0
INHERITED = ("PATH", "HOME", "LANG")
"""What a program inherits of the gateway's own environment."""


OnEnd = Callable[[SessionStatus, str | None], None]


class Program:
    """One run of a `[sessions.NAME]` command."""

    def __init__(
        self,
        session: AgentSession,
        settings: SessionSettings,
        *,
        worker_host: WorkerHost,
        config_folder: Path,
        gateway_url: str,
        redact: Callable[[str], str],
        on_end: OnEnd,
    ) -> None:
        self._session = session
        self._settings = settings
        self._worker_host = worker_host
        self._config_folder = config_folder
        self._gateway_url = gateway_url
        self._redact = redact
        self._on_end = on_end
        self._plan: LaunchPlan | None = None
        self._child: Child | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._outputs: list[asyncio.ReadTransport] = []
        self._watching: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._has_ended = False

    async def start(self) -> None:
        self._plan = await self._planned()
        stdin, our_stdin = os.pipe()
        our_stdout, stdout = os.pipe()
        our_stderr, stderr = os.pipe()
        ours = [our_stdin, our_stdout, our_stderr]
        try:
            supervisor = self._worker_host.supervisor
            self._child = await self._plan.start(supervisor, stdin=stdin, stdout=stdout, stderr=stderr)
            self._stdin = await _writing(ours.pop(0))
            told = await _reading(ours.pop(0), self._outputs)
            errors = await _reading(ours.pop(0), self._outputs)
        except BaseException:
            if self._child is not None:
                self._child.kill()
            raise
        finally:
            for descriptor in (stdin, stdout, stderr, *ours):
                os.close(descriptor)
        self._watching = asyncio.create_task(self._watch(told, errors), name=f"session {self._session.id}")
        self._session.move_to(SessionStatus.RUNNING)

    async def _planned(self) -> LaunchPlan:
        session, settings, base = self._session, self._settings, self._config_folder
        assert session.socket is not None
        folder = base if settings.folder is None else base / os.path.expanduser(settings.folder)  # noqa: PTH111, ASYNC240 - reads the environment, not the disk
        own = {"JACKFIELD_TOKEN": session.token, "JACKFIELD_SESSION": session.id}
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        if settings.sandbox.kind != "none" and "PATH" in inherited:
            inherited["PATH"] = _without_shims(inherited["PATH"])
        return await self._worker_host.sandboxes.plan(
            settings.sandbox,
            command=settings.command,
            env={**inherited, "JACKFIELD_URL": self._gateway_url, **settings.env, **own},
            folder=folder,
            sockets={"JACKFIELD_SOCKET": session.socket},
            name=session.id,
            with_jackfield=True,
        )

    def tell(self, message: str) -> None:
        r"""One line. A line break within it is written as `\n`, so that a message stays one line."""
        stdin = self._stdin
        if stdin is None or stdin.is_closing():
            raise Unavailable("The session's program does not listen any more.")
        if stdin.get_write_buffer_size() > UNREAD:
            raise Unavailable("The session's program has not read what it was told before. Try again later.")
        line = message.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\\n")
        stdin.write(line.encode() + b"\n")

    async def stop(self) -> None:
        self._is_stopping = True
        if self._stdin is not None:
            self._stdin.close()
        if self._child is not None:
            self._child.kill(grace=END_GRACE)
        watching = self._watching
        if watching is not None and watching is not asyncio.current_task():
            await asyncio.wait((watching,), timeout=END_WITHIN)
            watching.cancel()

    async def _watch(self, told: asyncio.StreamReader, errors: asyncio.StreamReader) -> None:
        """Read its output to the end."""
        assert self._child is not None
        assert self._plan is not None
        hearing = [
            asyncio.create_task(self._hear(told, self._say, Pace(LINES_A_SECOND))),
            asyncio.create_task(self._hear(errors, self._log, Pace(LOGGED_A_SECOND), left_over=LOGGED_AFTERWARDS)),
        ]
        try:
            code = await self._child.wait()
            self._has_ended = True
            await asyncio.wait(hearing, timeout=END_WITHIN)
        finally:
            for task in hearing:
                task.cancel()
            for output in self._outputs:  # of which something may be left unread
                output.close()
            if self._stdin is not None:
                self._stdin.close()
        if self._is_stopping:
            return
        if code == 0:
            self._on_end(SessionStatus.COMPLETED, None)
        else:
            self._on_end(SessionStatus.FAILED, f"The program failed: {self._plan.describe_exit(code)}")

    async def _hear(
        self, reader: asyncio.StreamReader, take: Callable[[str], None], pace: "Pace", *, left_over: float = math.inf
    ) -> None:
        """Read lines no faster than `pace`: a program that prints without end slows only itself."""
        lines = LineSplitter(limit=LONGEST_LINE)
        while piece := await reader.read(PIECE):
            for place, line in enumerate(lines.feed(piece), start=1):
                # What is left in the pipe when it has ended is little, and may be what all of this was for.
                pause = 0.0 if self._has_ended else pace.take()
                left_over -= self._has_ended
                if left_over < 0:
                    return
                if pause or place % TURN == 0:
                    await asyncio.sleep(pause)
                take(_text(line))
        if rest := lines.partial:
            take(_text(rest))

    def _say(self, line: str) -> None:
        self._session.touch()
        self._session.events.add(MESSAGE, role="assistant", text=self._redact(line))

    def _log(self, line: str) -> None:
        said = self._redact(line).replace(self._session.token, REDACTED)
        log.info("session %s: %s", self._session.id, cut(said, LONGEST_LOGGED))


def _without_shims(path: str) -> str:
    """The programs in a version manager's folder of shims lead into a home, which a sandbox hides."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if Path(folder).name != "shims")


def _text(line: bytes | TooLong) -> str:
    if isinstance(line, TooLong):
        return f"[a line of more than {LONGEST_LINE:,} bytes was left out]"
    return line.decode("utf-8", "replace").rstrip("\r")


async def _writing(descriptor: int) -> asyncio.WriteTransport:
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(descriptor, "wb", buffering=0)
    transport, _ = await loop.connect_write_pipe(asyncio.Protocol, pipe)
    return transport


async def _reading(descriptor: int, opened: list[asyncio.ReadTransport]) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=PIECE)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    opened.append(transport)
    return reader


class Pace:
    """A rate limit: so many lines a second, with a burst of twice as many."""

    def __init__(self, per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = 2 * per_second
        self._at = clock()

    def take(self) -> float:
        """One more line; the seconds to wait before it is taken in."""
        now = self._clock()
        self._left = min(2 * self._per_second, self._left + (now - self._at) * self._per_second) - 1
        self._at = now
        return max(0.0, -self._left / self._per_second)
