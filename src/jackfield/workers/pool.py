"""The worker processes of one version of a tool file: started on demand, ended when idle, replaced after crashes.

Above: `sources/workerfile.py`. Below: `environments.py` installs, `worker.py` is one process.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from jackfield.errors import JackfieldError
from jackfield.model.call import Done, Failed
from jackfield.model.text import counted
from jackfield.protocol.backoff import backoff
from jackfield.workers.environments import Environment, Environments
from jackfield.workers.logs import WorkerLog
from jackfield.workers.sandbox.kinds import LaunchPlan, plain
from jackfield.workers.sandbox.sandboxes import Sandboxes
from jackfield.workers.supervisor import Supervisor
from jackfield.workers.worker import FileSpec, NotTaken, Worker, WorkerCall

logger = logging.getLogger("jackfield.workers")

CRASHES_BEFORE_PAUSE = 2
FIRST_PAUSE = 0.25
MAX_PAUSE = 60.0
MAX_WAIT = 2.0
"""A call waits for a shorter pause to end; it fails at once during a longer one."""


class FileRecord:
    """What is known of a file across its versions."""

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
        """A start that failed before there was a process with a log. Logged once, however many calls wait for it."""
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
        self.record = record
        self._supervisor = supervisor
        self._environments = environments
        self._sandboxes = sandboxes
        self._workers: list[Worker] = []
        self._starting: asyncio.Task[Worker] | None = None
        self._installing = 0
        """How many calls wait for the environment."""
        self._crashes = 0
        """In a row, without an answer in between."""
        self._pause_until = 0.0
        self._dropped = False
        self._calls = 0
        self.start_fault: str | None = None
        """Why no worker could be started when that was tried last."""

    @property
    def workers(self) -> tuple[Worker, ...]:
        return tuple(self._workers)

    @property
    def state(self) -> str:
        """Idle (no process), installing, starting, running or crashing."""
        if self._workers:
            return "running"
        if self._installing:
            return "installing"
        if self._starting is not None:
            return "starting"
        return "crashing" if self._crashes >= CRASHES_BEFORE_PAUSE else "idle"

    async def run(self, call: WorkerCall) -> Done | Failed:
        """Run one call on the least busy worker. Raises nothing but cancellation."""
        self._calls += 1
        self.record.calls += 1
        try:
            while True:
                worker = self._workers[0] if len(self._workers) == 1 else self._least_busy()
                if worker is None or not worker.takes_calls:
                    worker = await self._first_worker(call)
                if self.spec.options.processes > 1 and worker.busy:
                    self._grow()
                try:
                    outcome = await worker.call(call)
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

    async def warm(self) -> None:
        """Start the first worker before the first call. A failure is logged, and the first call tries again."""
        try:
            await self.start_first()
        except JackfieldError as fault:
            self.record.error = fault.message
            logger.warning("the worker of %s could not be started ahead of its first call: %s", self.record.name, fault)

    async def start_first(self) -> None:
        """Start the first worker now. Raises what it fails with."""
        await self._start(await self._environment(lambda _: None))

    def drop(self) -> None:
        """The file has changed or is gone. Running calls finish on these workers."""
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
        """All workers are busy: start another in the background, if the config allows more."""
        is_paused = time.monotonic() < self._pause_until
        if len(self._workers) < self.spec.options.processes and self._starting is None and not is_paused:
            self._begin(self._start_another())

    async def _first_worker(self, call: WorkerCall) -> Worker:
        """Start a worker; the call's deadline stands still meanwhile."""
        wait = self._pause_until - time.monotonic()
        if wait > MAX_WAIT:
            often = counted(self._crashes, "time")
            said = f"The worker of {self.record.name} ended {often} in a row ({self.record.error})."
            raise _Pausing(f"{said} The next try is in {wait:.1f} s; see: jackfield logs {self.record.name}")
        if wait > 0:
            await asyncio.sleep(wait)
        with call.hold(self.spec.options.install_timeout + self.spec.options.start_timeout):
            return await self._start(await self._environment(call.on_install))

    async def _environment(self, on_line: Callable[[str], None]) -> Environment:
        if self.spec.environment is not None:
            return self.spec.environment
        self._installing += 1
        try:
            return await self._environments.ready(
                self.spec.script, within=self.spec.options.install_timeout, on_line=on_line
            )
        except JackfieldError as fault:
            self._note_failure(fault.message)
            raise
        finally:
            self._installing -= 1

    async def _start(self, environment: Environment) -> Worker:
        """The first call that needs a worker starts it; others wait for the same one."""
        for worker in self._workers:
            if worker.takes_calls:
                return worker
        if self._starting is None:
            self._begin(self._start_one(environment))
        assert self._starting is not None
        return await asyncio.shield(self._starting)

    def _begin(self, start: Coroutine[Any, Any, Worker]) -> None:
        self._starting = asyncio.create_task(start)
        self._starting.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[Worker]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # raised in whoever waits; otherwise it is in the record
        if self._dropped:
            self._end_if_unused()

    async def _start_another(self) -> Worker:
        return await self._start_one(await self._environment(lambda _: None))

    async def _start_one(self, environment: Environment) -> Worker:
        worker = Worker(
            self.spec,
            await self._plan(environment),
            number=next(self.record.numbers),
            log=self.record.log,
            on_end=self._on_worker_end,
        )
        try:
            await worker.start(self._supervisor)
        except JackfieldError as fault:
            self.start_fault = fault.message
            self._crashed(fault.message)
            raise
        self._workers.append(worker)
        self.record.error = self.start_fault = None
        return worker

    async def _plan(self, environment: Environment) -> LaunchPlan:
        """A plan that fails is not a crash: the machine or the config has to change."""
        spec = self.spec
        command = spec.command(environment)
        if spec.options.sandbox is None:
            return plain(command, env=spec.env, cwd=spec.cwd)
        try:
            return await self._sandboxes.plan(
                spec.options.sandbox,
                command=command,
                env=spec.env,
                folder=spec.cwd,
                readable=(*spec.readable, Path(environment.file).parent),
                name=self.record.name,
            )
        except JackfieldError as fault:
            self._note_failure(fault.message)
            raise

    def _note_failure(self, message: str) -> None:
        """There was no process that could say it."""
        self.start_fault = message
        self.record.note_failure(message)

    def _on_worker_end(self, worker: Worker, reason: str | None) -> None:
        if worker not in self._workers:
            return  # it was never ready
        self._workers.remove(worker)
        if reason is not None:
            logger.warning("a worker of %s ended: %s", self.record.name, reason)
            self._crashed(reason)

    def _crashed(self, reason: str) -> None:
        self.record.error = reason
        self.record.restarts += 1
        self._crashes += 1
        if self._crashes >= CRASHES_BEFORE_PAUSE:
            attempt = self._crashes - CRASHES_BEFORE_PAUSE
            self._pause_until = time.monotonic() + backoff(attempt, first=FIRST_PAUSE, longest=MAX_PAUSE)


class _Pausing(JackfieldError):
    """Not started: it would only crash again."""

    code = "worker_failed"
