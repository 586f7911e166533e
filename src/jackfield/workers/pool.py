"""The workers of tool files: one pool for each version of a file, started at need, reaped, replaced.

Above: `sources/files.py`. Below: `environments.py` makes where they run, `worker.py` is one process.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.model.call import Done, Failed
from jackfield.model.words import counted
from jackfield.settings.sessions import SandboxSettings
from jackfield.workers.environments import Environment, Environments, ToolScript
from jackfield.workers.logs import WorkerLog
from jackfield.workers.sandbox.kinds import LaunchPlan, plain
from jackfield.workers.sandbox.sandboxes import Sandboxes
from jackfield.workers.supervisor import Supervisor
from jackfield.workers.worker import CallHooks, Launch, NotTaken, Worker

logger = logging.getLogger("jackfield.workers")

CRASHES_BEFORE_PAUSE = 2
LONGEST_PAUSE = 60.0
WORTH_WAITING = 2.0
"""A call waits out a shorter pause; before a longer one it is told."""

Command = Callable[[Environment], list[str]]


class FileSpec(Struct, frozen=True, kw_only=True):
    """One version of a tool file, and how its workers are kept. Times are in seconds."""

    source: str
    label: str
    """The file as the operator knows it."""
    script: ToolScript
    sequential: bool
    command: Command
    env: Mapping[str, str]
    cwd: Path
    processes: int
    idle_timeout: float
    start_timeout: float
    install_timeout: float
    sandbox: SandboxSettings | None = None
    readable: tuple[Path, ...] = ()
    """What it sees in a sandbox besides its environment, its text and `cwd`."""


class PoolCall(Struct, frozen=True, kw_only=True):
    """One call as a pool takes it."""

    id: str
    request: bytes
    hooks: CallHooks
    hold: Callable[[float], AbstractContextManager[None]]
    """The call's deadline stands still while its environment is made, for at most so many seconds."""
    tell: Callable[[str], None]
    """Told how far the installation is."""


class FileRecord:
    """What is known of a file through all its versions."""

    def __init__(self, source: str, label: str, log: WorkerLog) -> None:
        self.source = source
        self.label = label
        self.name = Path(label).stem
        self.log = log
        self.numbers = itertools.count(1)
        """Of its processes, so that the log tells those of two versions apart."""
        self.calls = 0
        self.restarts = 0
        self.error: str | None = None
        self.pool: WorkerPool | None = None

    def note_failure(self, message: str) -> None:
        """Nothing could be started that would have a log of its own. Said once, however many wait for the same."""
        if self.error != message:
            self.error = message
            for line in message.splitlines():
                self.log.add(line.encode(), worker=0)


class WorkerPool:
    """The processes of one version of a file."""

    def __init__(
        self,
        spec: FileSpec,
        record: FileRecord,
        *,
        supervisor: Supervisor,
        environments: Environments,
        sandboxes: Sandboxes,
    ) -> None:
        self.spec = spec
        self._record = record
        self._supervisor = supervisor
        self._environments = environments
        self._sandboxes = sandboxes
        self._workers: list[Worker] = []
        self._starting: asyncio.Task[Worker] | None = None
        self._installing = 0
        """How many wait for the environment."""
        self._crashes = 0
        """In a row, without an answer between them."""
        self._pause_until = 0.0
        self._dropped = False
        self._calls = 0

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(self._workers)

    @property
    def state(self) -> str:
        """One word for people: idle (no process), installing, starting, running, crashing."""
        if self._workers:
            return "running"
        if self._installing:
            return "installing"
        if self._starting is not None:
            return "starting"
        return "crashing" if self._crashes >= CRASHES_BEFORE_PAUSE else "idle"

    async def run(self, call: PoolCall) -> Done | Failed:
        """One call, on the least busy worker. Never raises but for cancellation."""
        self._calls += 1
        self._record.calls += 1
        try:
            while True:
                worker = self._least_busy()
                if worker is None:
                    worker = await self._first_worker(call)
                if worker.busy and self.spec.processes > 1:
                    self._grow()
                try:
                    outcome = await worker.call(call.id, call.request, call.hooks)
                except NotTaken:
                    continue
                if self._crashes and not (isinstance(outcome, Failed) and outcome.code == "worker_crashed"):
                    self._crashes = 0
                return outcome
        except JackfieldError as fault:
            return Failed(fault.code, fault.message)
        finally:
            self._calls -= 1
            if self._dropped:
                self._end_if_unused()

    async def warm(self, tell: Callable[[str], None]) -> None:
        """Start the first worker before anybody calls. What fails is logged, and tried again at the first call."""
        try:
            await self._start(await self._environment(tell))
        except JackfieldError as fault:
            self._record.error = fault.message
            logger.warning(
                "the worker of %s could not be started ahead of its first call: %s", self._record.name, fault
            )

    def drop(self) -> None:
        """The file has another text now, or is gone. Calls that it has finish on these workers."""
        self._dropped = True
        self._end_if_unused()

    async def close(self) -> None:
        """End every process and wait until they are gone."""
        self._dropped = True
        if self._starting is not None:
            self._starting.cancel()
        for worker in self._workers:
            worker.kill()
        await asyncio.gather(*(worker.ended() for worker in self._workers))

    def _end_if_unused(self) -> None:
        if not self._calls:
            for worker in self._workers:
                worker.retire()

    def _least_busy(self) -> Worker | None:
        best: Worker | None = None
        for worker in self._workers:
            if worker.takes_calls and (best is None or worker.busy < best.busy):
                best = worker
        return best

    def _grow(self) -> None:
        """All are busy: start another, if more are allowed. Nobody waits for it."""
        if len(self._workers) < self.spec.processes and self._starting is None and not self._is_paused:
            self._begin(self._start_another())

    @property
    def _is_paused(self) -> bool:
        return time.monotonic() < self._pause_until

    async def _first_worker(self, call: PoolCall) -> Worker:
        """A worker that was not there: its time to come up is not the call's."""
        wait = self._pause_until - time.monotonic()
        if wait > WORTH_WAITING:
            often = counted(self._crashes, "time")
            said = f"The worker of {self._record.name} ended {often} in a row ({self._record.error})."
            raise _Pausing(f"{said} The next try is in {wait:.1f} s; see: jackfield logs {self._record.name}")
        if wait > 0:
            await asyncio.sleep(wait)
        with call.hold(self.spec.install_timeout + self.spec.start_timeout):
            return await self._start(await self._environment(call.tell))

    async def _environment(self, tell: Callable[[str], None]) -> Environment:
        self._installing += 1
        try:
            return await self._environments.ready(self.spec.script, within=self.spec.install_timeout, tell=tell)
        except JackfieldError as fault:
            self._record.note_failure(fault.message)
            raise
        finally:
            self._installing -= 1

    async def _start(self, environment: Environment) -> Worker:
        """Whoever needs the first worker starts it; the others wait for the same one."""
        ready = [worker for worker in self._workers if worker.takes_calls]
        if ready:
            return ready[0]
        if self._starting is None:
            self._begin(self._start_one(environment))
        assert self._starting is not None
        return await asyncio.shield(self._starting)

    def _begin(self, start: Coroutine[Any, Any, Worker]) -> None:
        """Start a worker for whoever waits; if nobody does any more, what came of it is in the record."""
        self._starting = asyncio.create_task(start)
        self._starting.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[Worker]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody else wants it
        if self._dropped:
            self._end_if_unused()

    async def _start_another(self) -> Worker:
        return await self._start_one(await self._environment(_say_nothing))

    async def _start_one(self, environment: Environment) -> Worker:
        spec = self.spec
        launch = Launch(
            name=self._record.name,
            plan=await self._plan(environment),
            sequential=spec.sequential,
            start_timeout=spec.start_timeout,
            idle_timeout=spec.idle_timeout,
        )
        worker = Worker(launch, number=next(self._record.numbers), log=self._record.log, on_end=self._ended)
        try:
            await worker.start(self._supervisor)
        except JackfieldError as fault:
            self._crashed(fault.message)
            raise
        self._workers.append(worker)
        self._record.error = None
        return worker

    async def _plan(self, environment: Environment) -> LaunchPlan:
        """What cannot be planned has not crashed: the machine or the config has to change."""
        spec = self.spec
        command = spec.command(environment)
        if spec.sandbox is None:
            return plain(command, env=spec.env, cwd=spec.cwd)
        try:
            return await self._sandboxes.plan(
                spec.sandbox,
                command=command,
                env=spec.env,
                folder=spec.cwd,
                readable=(*spec.readable, Path(environment.file).parent),
                name=self._record.name,
            )
        except JackfieldError as fault:
            self._record.note_failure(fault.message)
            raise

    def _ended(self, worker: Worker, reason: str | None) -> None:
        was_ready = worker in self._workers
        if was_ready:
            self._workers.remove(worker)
        if reason is not None and was_ready:
            logger.warning("a worker of %s ended: %s", self._record.name, reason)
            self._crashed(reason)

    def _crashed(self, reason: str) -> None:
        self._record.error = reason
        self._record.restarts += 1
        self._crashes += 1
        if self._crashes >= CRASHES_BEFORE_PAUSE:
            pause = min(LONGEST_PAUSE, 0.25 * 2 ** (self._crashes - CRASHES_BEFORE_PAUSE))
            self._pause_until = time.monotonic() + pause


class _Pausing(JackfieldError):
    """Not started: it would only crash again."""

    code = "worker_failed"


def _say_nothing(_: str) -> None:
    return
