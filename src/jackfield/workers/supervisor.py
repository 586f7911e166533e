"""Starts commands for the gateway in such a way that nothing of them is left when they, or the gateway, are gone.

A command and everything that it starts end together: when it exits, when it is killed, when the gateway stops, is
killed or crashes, and when one of the processes that see to this is killed. It knows nothing of tools.
Above: whoever needs a process: the pool of workers, MCP servers on stdio, sandboxed sessions. Below: `supervision/`.
"""

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from jackfield.errors import CouldNotStart
from jackfield.workers.supervision import tree
from jackfield.workers.supervision.link import Link
from jackfield.workers.supervision.wire import Confinement, Report, Start

log = logging.getLogger("jackfield.workers")

START_SECONDS = 10.0
CLOSE_GRACE = 1.0
CLOSE_SECONDS = 2.0
NEVER_RAN = 127


class ZygoteDied(CouldNotStart):
    """Nobody is there to say what became of the start."""


class Child:
    """A running command with all its descendants."""

    def __init__(self, link: Link, number: int, *, program: str) -> None:
        self._link = link
        self._number = number
        self._ended = asyncio.Event()
        self.program = program
        self.started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.pid = 0
        self.returncode: int | None = None
        """None while it lives; minus the signal's number when a signal ended it."""

    async def wait(self) -> int:
        """How it ended, when nothing of it is left. A command may run as long as it likes, so this has no bound."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def kill(self, *, grace: float = 0.0) -> None:
        """End it and all its descendants: SIGTERM now, SIGKILL after `grace` seconds. Returns at once.

        Said again, it can only bring the SIGKILL forward.
        """
        if self.returncode is None:
            self._link.send({"id": self._number, "end": grace})

    def end(self, returncode: int, *, fault: CouldNotStart) -> None:
        """It has ended; if it never started, `fault` says why."""
        self.returncode = returncode
        if not self.started.done():
            self.started.set_exception(fault)
        self._ended.set()


class Supervisor:
    """`best_effort`: this system does not show all descendants of a process, so one that leaves its group may stay."""

    def __init__(self, *, best_effort: bool | None = None) -> None:
        self.best_effort = not tree.exact() if best_effort is None else best_effort
        self._numbers = count(1)
        self._children: dict[int, Child] = {}
        self._link: Link | None = None
        self._closed = False

    async def spawn(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: int,
        stdout: int,
        stderr: int,
        confinement: Confinement | None = None,
    ) -> Child:
        """Start the command with this environment and these descriptors, and nothing else of the gateway's.

        The program is looked for in the `PATH` of `env`. The descriptors stay the caller's to close. Raises
        `CouldNotStart`; a start that is cancelled leaves nothing. `sandbox/` plans confinements.
        """
        start, fds = _start_of(command, env=env, cwd=cwd), (stdin, stdout, stderr)
        if confinement is not None:
            start["confinement"] = confinement
        try:
            return await self._start(start, fds=fds)
        except ZygoteDied:  # whatever it began ends with it
            return await self._start(start, fds=fds)

    async def close(self) -> None:
        """End all children, gently and then by force, and the processes that mind them."""
        self._closed = True
        children = list(self._children.values())
        for child in children:
            child.kill(grace=CLOSE_GRACE)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                for child in children:
                    await child.wait()
        if self._link is not None:
            await self._link.close()

    async def _start(self, start: Start, *, fds: Sequence[int]) -> Child:
        child = self._order(start, fds=fds)
        try:
            async with asyncio.timeout(START_SECONDS):
                child.pid = await child.started
        except TimeoutError:
            child.kill()
            raise CouldNotStart(f"'{child.program}' did not start within {START_SECONDS:.0f} seconds.") from None
        except BaseException:
            child.kill()
            raise
        return child

    def _order(self, start: Start, *, fds: Sequence[int]) -> Child:
        program = Path(start["command"][0]).name
        if self._closed:
            raise CouldNotStart(f"'{program}' was not started, because the gateway is stopping.")
        number = next(self._numbers)
        try:
            link = self._living_link()
            child = Child(link, number, program=program)
            link.send({"id": number, "start": start}, fds=fds)
        except OSError as error:
            raise CouldNotStart(f"Could not start '{program}': {error.strerror}.") from error
        self._children[number] = child
        return child

    def _living_link(self) -> Link:
        """The zygote that runs, or a new one: it is started at first need, and again after its death."""
        if self._link is not None and not self._link.alive:
            self._link.abandon()
        if self._link is None:
            self._link = Link(best_effort=self.best_effort, hear=self._hear, lost=self._lose_link)
        return self._link

    def _hear(self, report: Report) -> None:
        child = self._children.get(report["id"])
        if child is None:
            return
        if "started" in report:
            if not child.started.done():
                child.started.set_result(report["started"])
            return
        del self._children[report["id"]]
        if "failed" in report:
            step, number = report["failed"]
            log.info("%s did not start: %s: %s", child.program, step, os.strerror(number))
            child.end(NEVER_RAN, fault=CouldNotStart(why_not(child.program, step, number)))
        else:
            fault = CouldNotStart(f"'{child.program}' was killed while it started. Try again.")
            child.end(report["exited"], fault=fault)

    def _lose_link(self) -> None:
        """The zygote is gone, and the minders end what they have: nobody will report any more."""
        children, self._children, self._link = self._children, {}, None
        if not self._closed:
            log.warning(
                "The process that starts commands has died; the %d that ran end now, the next start begins a new one",
                len(children),
            )
        for child in children.values():
            fault = ZygoteDied(f"'{child.program}' did not start: the process that starts commands keeps dying.")
            child.end(-int(signal.SIGKILL), fault=fault)


def _start_of(command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Start:
    """The zygote stands in another folder, so a relative one is made absolute here."""
    return {"command": list(command), "env": dict(env), "cwd": str(cwd.absolute())}


def why_not(program: str, step: str, number: int) -> str:
    """Why a program does not run, from the step that failed and its errno."""
    match step, number:
        case "cwd", _:
            return f"Could not start '{program}': its working directory cannot be entered ({os.strerror(number)})."
        case str(), _ if step.startswith("sandbox "):
            what = step.removeprefix("sandbox ").partition(": ")[0]  # which path it was is in the log
            return f"Could not start '{program}' in a sandbox: {what} failed ({os.strerror(number)})."
        case "program", errno.ENOENT | errno.ENOTDIR:
            missing = "there is no such program, or the one that its first line names is missing"
            return f"Could not start '{program}': {missing}. Install it, or give its full path."
        case "program", errno.EACCES:
            return f"Could not start '{program}': this user may not execute it. Make the file executable."
        case _:
            return f"Could not start '{program}': {os.strerror(number)}."
