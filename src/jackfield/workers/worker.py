"""One worker process: calls go in by id, answers come back in any order.

A call that was given up is cancelled in the worker; if it does not stop, the worker takes no more calls, finishes
those it has and is killed. So a late answer never reaches another call.
Above: `pool.py`. Below: the channel, the log, the supervisor.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, field

from jackfield.errors import JackfieldError
from jackfield.model.call import NULL, Done, Failed
from jackfield.settings.types import SandboxSettings
from jackfield.workers.channel import InvalidMessage, ProgressPart, WorkerChannel, WorkerMessage, decode_message
from jackfield.workers.environments import Environment, ToolScript
from jackfield.workers.logs import LogPipe, WorkerLog
from jackfield.workers.sandbox.kinds import LaunchPlan
from jackfield.workers.supervision.processes import cpu_seconds
from jackfield.workers.supervisor import Child, Supervisor

logger = logging.getLogger("jackfield.workers")

CANCEL_SECONDS = 1.0
"""How long a cancelled call may go on in its worker before the worker is replaced."""
LAST_ANSWERS_SECONDS = 1.0
"""How long answers of a worker that has ended may still arrive."""
GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""


class WorkerFailed(JackfieldError):
    """A worker did not start, or ended while it had calls."""

    code = "worker_failed"


class NotTaken(Exception):
    """The worker ended before it was given the call, so another worker may take it."""


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """How the workers of one source run. Times are in seconds."""

    env: Mapping[str, str] = {}
    processes: int = 1
    threads: int = 16
    idle_timeout: float
    start_timeout: float
    install_timeout: float
    eager: bool = False
    sandbox: SandboxSettings | None = None
    wheels_only: bool = False
    """Dependencies are installed from wheels only; nothing is built."""


class FileSpec(Struct, frozen=True, kw_only=True):
    """One version of a tool file."""

    source: str
    label: str
    """The file as the operator knows it."""
    script: ToolScript
    sequential: bool
    """It is a script that reads stdin and prints answers: no handshake, no ids, one call at a time."""
    command: Callable[[Environment], list[str]]
    env: Mapping[str, str]
    cwd: Path
    options: WorkerOptions
    readable: tuple[Path, ...] = ()
    """What it sees in a sandbox besides its environment, its text and `cwd`."""
    environment: Environment | None = None
    """Where it runs, if nothing has to be installed for it."""

    @property
    def name(self) -> str:
        return Path(self.label).stem


class WorkerCall(Struct, frozen=True, kw_only=True):
    """One call, and what it may do while it runs."""

    id: str
    request: bytes
    report: Callable[[ProgressPart], None]
    call_tool: Callable[[str, dict[str, Any]], Coroutine[Any, Any, Done | Failed]]
    trace: Callable[[str], None] = lambda _: None
    hold: Callable[[float], AbstractContextManager[None]]
    """Stops the call's deadline while its environment is made, for at most so many seconds."""
    on_install: Callable[[str], None]
    """Gets the lines of the installation."""


class _Flight(Struct, eq=False):
    """A call that the worker has."""

    call: WorkerCall
    answer: asyncio.Future[Done | Failed]
    given_up: bool = False
    nested: set[asyncio.Task[None]] = field(default_factory=set)


class Worker:
    """A worker process. `on_end` is called once, with the reason if it was not meant to end."""

    def __init__(
        self,
        spec: FileSpec,
        plan: LaunchPlan,
        *,
        number: int,
        log: WorkerLog,
        on_end: Callable[["Worker", str | None], None],
    ) -> None:
        self.number = number
        self.calls = 0
        self.started_at = time.time_ns() // 1_000_000
        self.takes_calls = True
        self._spec = spec
        self._plan = plan
        self._log = log
        self._on_end = on_end
        self._flights: dict[str, _Flight] = {}
        self._turn = asyncio.Lock() if spec.sequential else None
        self._queued = 0
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._channel_ended = asyncio.Event()
        self._is_gone = False
        self._reason: str | None = None
        """Why it had to be ended, if it broke the protocol."""
        self._last_used = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._child: Child | None = None
        self._channel: WorkerChannel | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def busy(self) -> int:
        """How many calls it runs or has queued."""
        return len(self._flights) + self._queued

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    @property
    def idle_seconds(self) -> float:
        return 0.0 if self._flights else self._loop.time() - self._last_used

    async def start(self, supervisor: Supervisor) -> None:
        """Start the process and wait until it is ready. Raises `WorkerFailed`, and leaves nothing behind then."""
        name = self._spec.name
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        try:
            with theirs:
                self._child = await self._plan.start(
                    supervisor, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=writing
                )
        except BaseException:
            ours.close()
            os.close(reading)
            raise
        finally:
            os.close(writing)
        stderr = LogPipe(reading, self._log, worker=self.number)
        self._watching = asyncio.create_task(self._watch(self._child, stderr), name=f"worker {name}")
        try:
            async with asyncio.timeout(self._spec.options.start_timeout):
                self._channel = await WorkerChannel.open(ours, on_line=self._on_line, on_end=self._on_channel_end)
                if self._spec.sequential and not self._ready.done():
                    self._ready.set_result(None)
                await self._ready
        except TimeoutError:
            self.kill()
            said = f"The worker of {name} was not ready within {self._spec.options.start_timeout:g} s."
            raise WorkerFailed(f"{said} Look at: jackfield logs {name}") from None
        except BaseException:
            self.kill()
            raise
        if self._is_gone:
            raise WorkerFailed(f"The worker of {name} ended as soon as it was ready.")
        self._idle_timer = self._loop.call_later(self._spec.options.idle_timeout, self._check_idle)

    async def call(self, call: WorkerCall) -> Done | Failed:
        """Run one call. Cancelling it cancels it in the worker. Raises `NotTaken` if another worker should do it."""
        if self._turn is not None:
            await self._take_turn(self._turn)
        if not self.takes_calls or self._channel is None:
            raise NotTaken
        flight = self._flights[call.id] = _Flight(call, self._loop.create_future())
        self.calls += 1
        self._channel.send(call.request)
        try:
            return await flight.answer
        except asyncio.CancelledError:
            self._give_up(flight)
            raise
        finally:
            self._last_used = self._loop.time()
            if self._turn is not None:
                self._turn.release()
            if self._plan.limits.cpu:
                self._retire_if_spent(self._plan.limits.cpu)

    async def _take_turn(self, turn: asyncio.Lock) -> None:
        self._queued += 1
        try:
            await turn.acquire()
        finally:
            self._queued -= 1
        if not self.takes_calls:
            turn.release()
            self._end_if_done()

    def retire(self) -> None:
        """Take no more calls, finish the running ones, then end."""
        self.takes_calls = False
        self._end_if_done()

    def _retire_if_spent(self, allowed: float) -> None:
        """The CPU limit is for the life of a process; the next call should not pay for the calls before it."""
        if self.pid and not self._is_gone and cpu_seconds(self.pid) > allowed / 2:
            self.retire()

    def kill(self) -> None:
        """End it now; its calls fail."""
        self.takes_calls = False
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._child is not None:
            self._child.kill(grace=0.0 if self._flights else GRACE_SECONDS)

    async def ended(self) -> None:
        """Wait until the process and all it started are gone."""
        if self._watching is not None:
            await asyncio.shield(self._watching)

    def _give_up(self, flight: _Flight) -> None:
        flight.given_up = True
        for task in flight.nested:
            task.cancel()
        if self._spec.sequential:
            # Its answer would be taken for the next call's, so the whole process goes.
            self.kill()
        elif flight.call.id in self._flights and self._channel is not None:
            self._channel.send(msgspec.json.encode({"cancel": flight.call.id}) + b"\n")
            self._loop.call_later(CANCEL_SECONDS, self._check_cancelled, flight)

    def _check_cancelled(self, flight: _Flight) -> None:
        if self._flights.get(flight.call.id) is flight and not self._is_gone:
            logger.warning("%s did not stop when cancelled; its worker is replaced", self._spec.name)
            self.retire()

    def _end_if_done(self) -> None:
        if not self.takes_calls and not self._queued and all(flight.given_up for flight in self._flights.values()):
            self.kill()

    def _check_idle(self) -> None:
        """The timer is set once per period, not per call, so there may have been calls since."""
        if self.busy:
            self._last_used = self._loop.time()
        period = self._spec.options.idle_timeout
        left = self._last_used + period - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._check_idle)
        else:
            logger.info("the worker of %s ends after %g s without a call", self._spec.name, period)
            self.retire()

    def _on_line(self, line: bytes) -> None:
        try:
            message = decode_message(line)
        except InvalidMessage:
            message = None
        if self._spec.sequential:
            self._on_script_line(line, message)
        elif message is None:
            self._break("it wrote something on its channel that is not a message")
        elif message.id is not None:
            self._on_message(message)
        elif message.ready is not None:
            self._on_ready(message)
        else:
            self._break("it wrote a message that belongs to no call")

    def _on_script_line(self, line: bytes, message: WorkerMessage | None) -> None:
        """A script prints its answers; whatever else it prints is its log."""
        if message is not None and (message.progress is not None or message.call is not None):
            self._on_message(message)
        elif message is None or (message.result is UNSET and message.error is None):
            self._log.add(line, worker=self.number)
        else:
            for flight in list(self._flights.values()):
                self._on_answer(flight, message)

    def _on_ready(self, message: WorkerMessage) -> None:
        if self._ready.done():
            return
        if message.ready:
            self._ready.set_result(None)
        else:
            said = f"The file {self._spec.name} could not be loaded: {message.error}."
            self._ready.set_exception(WorkerFailed(f"{said} Correct it, or add what it imports to its dependencies."))

    def _on_message(self, message: WorkerMessage) -> None:
        flight = self._flights.get(str(message.id))
        if flight is None:
            return
        if message.progress is not None:
            if not flight.given_up:
                flight.call.report(message.progress)
        elif message.call is not None:
            if not flight.given_up:
                task = asyncio.create_task(self._call_tool(flight, message))
                flight.nested.add(task)
                task.add_done_callback(flight.nested.discard)
        else:
            self._on_answer(flight, message)

    def _on_answer(self, flight: _Flight, message: WorkerMessage) -> None:
        del self._flights[flight.call.id]
        for task in flight.nested:
            task.cancel()
        if not flight.answer.done():
            outcome = message.outcome()
            if isinstance(outcome, Failed):
                outcome = msgspec.structs.replace(outcome, message=self._plan.explain_failure(outcome.message))
                if message.trace:
                    flight.call.trace(message.trace)
            flight.answer.set_result(outcome)
        if not self.takes_calls:
            self._end_if_done()

    async def _call_tool(self, flight: _Flight, message: WorkerMessage) -> None:
        """Call another tool on behalf of this call's caller. The tool is told of a refusal."""
        try:
            outcome = await flight.call.call_tool(message.tool, message.kwargs)
        except JackfieldError as refusal:
            outcome = Failed(refusal.code, refusal.message)
        except Exception:  # the border of one message: the tool must not wait for an answer that never comes
            logger.exception("%s asked for %s, which could not be called", self._spec.name, message.tool)
            outcome = Failed("tool_error", f"Tool '{message.tool}' could not be called. The gateway's log says why.")
        reply: dict[str, object] = {"reply": message.call}
        if isinstance(outcome, Failed):
            reply |= {"error": outcome.message, "code": outcome.code, "result": outcome.result or NULL}
        else:
            reply["result"] = outcome.result
        if self._channel is not None:
            self._channel.send(msgspec.json.encode(reply) + b"\n")

    def _break(self, reason: str) -> None:
        """It broke the protocol, so none of its messages can be trusted any more."""
        if self._reason is None:
            self._reason = reason
            self.kill()

    def _on_channel_end(self, reason: str | None) -> None:
        self._channel_ended.set()
        if reason is not None:
            self._reason = reason
        if self._child is not None:
            # Most often it is just exiting; killed at once, its own exit code would be lost.
            self._child.kill(grace=GRACE_SECONDS)

    async def _watch(self, child: Child, stderr: LogPipe) -> None:
        """Wait for the end of the process, then fail the calls that it still has."""
        code = await child.wait()
        if self._channel is not None:
            try:
                async with asyncio.timeout(LAST_ANSWERS_SECONDS):
                    await self._channel_ended.wait()
            except TimeoutError:
                logger.warning("another process still holds the channel of the worker of %s", self._spec.name)
        was_meant = not self.takes_calls and self._reason is None
        self._is_gone = True
        self.takes_calls = False
        if self._channel is not None:
            self._channel.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        stderr.close()
        reason = self._reason or self._plan.describe_exit(code)
        self._fail_all(reason)
        self._on_end(self, None if was_meant else reason)

    def _fail_all(self, reason: str) -> None:
        name = self._spec.name
        if not self._ready.done():
            said = f"The worker of {name} ended before it was ready: {reason}."
            self._ready.set_exception(WorkerFailed(f"{said} Look at: jackfield logs {name}"))
            self._ready.exception()  # whoever started it may be gone
        said = f"The worker of {name} ended while it ran this: {reason}."
        failed = Failed("worker_crashed", f"{said} Its log has more: jackfield logs {name}")
        for flight in self._flights.values():
            for task in flight.nested:
                task.cancel()
            if not flight.answer.done():
                flight.answer.set_result(failed)
        self._flights.clear()
