"""One worker process: calls go in by id, answers come back in any order, each to the call that it belongs to.

A call that was given up is cancelled in the worker; if it does not yield, the worker takes no more calls, finishes
those it has and is killed. So nothing stale ever answers another call.
Above: `pool.py`. Below: the channel, the log, the supervisor.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from jackfield.errors import JackfieldError
from jackfield.model.call import NULL, Done, Failed
from jackfield.workers.channel import Garbage, ProgressPart, WorkerChannel, WorkerMessage, decode_message
from jackfield.workers.logs import LogPipe, WorkerLog
from jackfield.workers.sandbox.kinds import LaunchPlan
from jackfield.workers.supervision.processes import cpu_seconds
from jackfield.workers.supervisor import Child, Supervisor

logger = logging.getLogger("jackfield.workers")

YIELD_SECONDS = 1.0
"""How long a cancelled call may go on in its worker before the worker is replaced."""
LAST_WORDS_SECONDS = 1.0
"""How long answers of a worker that has ended may still be on their way."""
GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL."""


class WorkerFailed(JackfieldError):
    """A worker did not start, or ended while it had calls."""

    code = "worker_failed"


class NotTaken(Exception):
    """The worker ended before it was given the call: nothing happened, another worker may take it."""


class Launch(Struct, frozen=True, kw_only=True):
    """How a worker process is started."""

    name: str
    plan: LaunchPlan
    """The command, in a sandbox or in none."""
    sequential: bool
    """It speaks the protocol of the seed's era: no handshake, no ids, one call at a time."""
    start_timeout: float
    idle_timeout: float


class CallHooks(Struct, frozen=True):
    """What one call may do to the outside while it runs."""

    report: Callable[[ProgressPart], None]
    call_tool: Callable[[str, dict[str, Any]], Coroutine[Any, Any, Done | Failed]]
    trace: Callable[[str], None] = lambda _: None


class _Flight:
    """A call that the worker has."""

    __slots__ = ("answer", "given_up", "hooks", "nested")

    def __init__(self, answer: asyncio.Future[Done | Failed], hooks: CallHooks) -> None:
        self.answer = answer
        self.hooks = hooks
        self.given_up = False
        self.nested: set[asyncio.Task[None]] = set()


class Worker:
    """A started process. `on_end` is told once, with the reason if it was not meant to end."""

    def __init__(
        self, launch: Launch, *, number: int, log: WorkerLog, on_end: Callable[["Worker", str | None], None]
    ) -> None:
        self.number = number
        self.calls = 0
        self.started_at = time.time_ns() // 1_000_000
        self._launch = launch
        self._log = log
        self._on_end = on_end
        self._flights: dict[str, _Flight] = {}
        self._turn = asyncio.Lock() if launch.sequential else None
        self._queued = 0
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._channel_ended = asyncio.Event()
        self._is_retired = False
        self._is_gone = False
        self._reason: str | None = None
        """Why it had to be ended, where that is the worker's own doing."""
        self._last_used = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._child: Child | None = None
        self._channel: WorkerChannel | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def takes_calls(self) -> bool:
        return not (self._is_retired or self._is_gone)

    @property
    def busy(self) -> int:
        """How many calls it has or keeps waiting."""
        return len(self._flights) + self._queued

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    @property
    def idle_seconds(self) -> float:
        return 0.0 if self._flights else self._loop.time() - self._last_used

    async def start(self, supervisor: Supervisor) -> None:
        """Start the process and wait until it is ready. Raises `WorkerFailed`, and leaves nothing behind then."""
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        try:
            with theirs:
                self._child = await self._launch.plan.start(
                    supervisor, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=writing
                )
        except BaseException:
            ours.close()
            os.close(reading)
            raise
        finally:
            os.close(writing)
        stderr = LogPipe(reading, self._log, worker=self.number)
        self._watching = asyncio.create_task(self._watch(self._child, stderr), name=f"worker {self._launch.name}")
        await self._wait_until_ready(ours)
        if self._is_gone:
            raise WorkerFailed(f"The worker of {self._launch.name} ended as soon as it was ready.")
        self._idle_timer = self._loop.call_later(self._launch.idle_timeout, self._idle_over)

    async def _wait_until_ready(self, ours: socket.socket) -> None:
        try:
            async with asyncio.timeout(self._launch.start_timeout):
                self._channel = await WorkerChannel.open(ours, on_line=self._line, on_end=self._channel_end)
                if self._launch.sequential and not self._ready.done():
                    self._ready.set_result(None)
                await self._ready
        except TimeoutError:
            self.kill()
            said = f"The worker of {self._launch.name} was not ready within {self._launch.start_timeout:g} s."
            raise WorkerFailed(f"{said} Look at: jackfield logs {self._launch.name}") from None
        except BaseException:
            self.kill()
            raise

    async def call(self, call_id: str, request: bytes, hooks: CallHooks) -> Done | Failed:
        """One call. Cancelling it cancels it in the worker too. Raises `NotTaken` where another worker should do it."""
        if self._turn is not None:
            await self._take_turn(self._turn)
        if self._is_retired or self._is_gone or self._channel is None:
            raise NotTaken
        flight = self._flights[call_id] = _Flight(self._loop.create_future(), hooks)
        self.calls += 1
        self._channel.send(request)
        try:
            return await flight.answer
        except asyncio.CancelledError:
            self._give_up(call_id, flight)
            raise
        finally:
            self._last_used = self._loop.time()
            if self._turn is not None:
                self._turn.release()
            if self._launch.plan.limits.cpu:
                self._retire_if_spent(self._launch.plan.limits.cpu)

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
        """Take no more calls, finish those it has, then end."""
        self._is_retired = True
        self._end_if_done()

    def _retire_if_spent(self, allowed: float) -> None:
        """The limit is for the whole life of a process, and the next call should not have to pay for those before."""
        if self.pid and not self._is_gone and cpu_seconds(self.pid) > allowed / 2:
            self.retire()

    def kill(self) -> None:
        """End it now; what it has fails."""
        self._is_retired = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._child is not None:
            self._child.kill(grace=0.0 if self._flights else GRACE_SECONDS)

    async def ended(self) -> None:
        """Wait until the process and all it started are gone."""
        if self._watching is not None:
            await asyncio.shield(self._watching)

    def _give_up(self, call_id: str, flight: _Flight) -> None:
        flight.given_up = True
        for task in flight.nested:
            task.cancel()
        if self._launch.sequential:
            # Its answer would be taken for the next call's, so the whole process goes.
            self.kill()
        elif call_id in self._flights and self._channel is not None:
            self._channel.send(msgspec.json.encode({"cancel": call_id}) + b"\n")
            self._loop.call_later(YIELD_SECONDS, self._look_whether_it_yielded, call_id, flight)

    def _look_whether_it_yielded(self, call_id: str, flight: _Flight) -> None:
        if self._flights.get(call_id) is flight and not self._is_gone:
            logger.warning("%s did not stop when told to; its worker is replaced", self._launch.name)
            self.retire()

    def _end_if_done(self) -> None:
        if self._is_retired and all(flight.given_up for flight in self._flights.values()) and not self._queued:
            self.kill()

    def _idle_over(self) -> None:
        """The timer is set once for a period, not for each call, so it may find that there were calls since."""
        if self._flights or self._queued:
            self._last_used = self._loop.time()
        left = self._last_used + self._launch.idle_timeout - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._idle_over)
        else:
            logger.info("the worker of %s ends after %g s without a call", self._launch.name, self._launch.idle_timeout)
            self.retire()

    def _line(self, line: bytes) -> None:
        try:
            message = decode_message(line)
        except Garbage:
            message = None
        if self._launch.sequential:
            self._sequential_line(line, message)
        elif message is None:
            self._break("it wrote something on its channel that is no message")
        elif message.id is not None:
            self._message(message)
        elif message.ready is not None:
            self._handshake(message)
        else:
            self._break("it wrote a message that belongs to no call")

    def _sequential_line(self, line: bytes, message: WorkerMessage | None) -> None:
        """A script of the seed's era prints its answers; what else it prints is its log."""
        if message is not None and (message.progress is not None or message.call is not None):
            self._message(message)
            return
        if message is None or (message.result is UNSET and message.error is None):
            self._log.add(line, worker=self.number)
            return
        for call_id in list(self._flights):
            self._answer(call_id, message)

    def _handshake(self, message: WorkerMessage) -> None:
        if self._ready.done():
            return
        if message.ready:
            self._ready.set_result(None)
        else:
            said = f"The file {self._launch.name} could not be loaded: {message.error}."
            self._ready.set_exception(WorkerFailed(f"{said} Correct it, or add what it imports to its dependencies."))

    def _message(self, message: WorkerMessage) -> None:
        call_id = str(message.id)
        flight = self._flights.get(call_id)
        if flight is None:
            return
        if message.progress is not None:
            if not flight.given_up:
                flight.hooks.report(message.progress)
        elif message.call is not None:
            self._nested_call(flight, message)
        else:
            self._answer(call_id, message)

    def _answer(self, call_id: str, message: WorkerMessage) -> None:
        flight = self._flights.pop(call_id)
        for task in flight.nested:
            task.cancel()
        if not flight.answer.done():
            outcome = outcome_of(message)
            if isinstance(outcome, Failed):
                outcome = msgspec.structs.replace(outcome, message=self._launch.plan.explain_failure(outcome.message))
                if message.trace:
                    flight.hooks.trace(message.trace)
            flight.answer.set_result(outcome)
        if self._is_retired:
            self._end_if_done()

    def _nested_call(self, flight: _Flight, message: WorkerMessage) -> None:
        if not flight.given_up:
            task = asyncio.create_task(self._call_tool(flight, message))
            flight.nested.add(task)
            task.add_done_callback(flight.nested.discard)

    async def _call_tool(self, flight: _Flight, message: WorkerMessage) -> None:
        """Another tool, called by this one in the name of its caller. A refusal is told to the tool, not to us."""
        try:
            outcome = await flight.hooks.call_tool(message.tool, message.kwargs)
        except JackfieldError as refusal:
            outcome = Failed(refusal.code, refusal.message)
        except Exception:  # the border of one message: the tool must not wait for an answer that never comes
            logger.exception("%s asked for %s, which could not be called", self._launch.name, message.tool)
            outcome = Failed("tool_error", f"Tool '{message.tool}' could not be called. The gateway's log says why.")
        reply: dict[str, object] = {"reply": message.call}
        if isinstance(outcome, Failed):
            reply |= {"error": outcome.message, "code": outcome.code, "result": outcome.result or NULL}
        else:
            reply["result"] = outcome.result
        if self._channel is not None:
            self._channel.send(msgspec.json.encode(reply) + b"\n")

    def _break(self, reason: str) -> None:
        """It does not keep to the protocol, so nothing more of it can be believed."""
        if self._reason is None:
            self._reason = reason
            self.kill()

    def _channel_end(self, reason: str | None) -> None:
        self._channel_ended.set()
        if reason is not None:
            self._reason = reason
        if self._child is not None:
            # Most often it is just ending; by force at once, nobody would be left to say how it ended.
            self._child.kill(grace=GRACE_SECONDS)

    async def _watch(self, child: Child, stderr: LogPipe) -> None:
        """Until the process is gone: then whoever still waits for it is told."""
        code = await child.wait()
        if self._channel is not None:
            await self._wait_for_last_words()
        self._is_gone = True
        if self._channel is not None:
            self._channel.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        stderr.close()
        meant = self._is_retired and self._reason is None
        reason = self._reason or self._launch.plan.describe_exit(code)
        self._fail_all(reason)
        self._on_end(self, None if meant else reason)

    async def _wait_for_last_words(self) -> None:
        try:
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._channel_ended.wait()
        except TimeoutError:
            logger.warning("somebody holds the channel of the worker of %s open after its end", self._launch.name)

    def _fail_all(self, reason: str) -> None:
        said = f"The worker of {self._launch.name} ended while it ran this: {reason}."
        failed = Failed("worker_crashed", f"{said} Its log has more: jackfield logs {self._launch.name}")
        if not self._ready.done():
            said = f"The worker of {self._launch.name} ended before it was ready: {reason}."
            self._ready.set_exception(WorkerFailed(f"{said} Look at: jackfield logs {self._launch.name}"))
            self._ready.exception()  # whoever started it may be gone
        for flight in self._flights.values():
            for task in flight.nested:
                task.cancel()
            if not flight.answer.done():
                flight.answer.set_result(failed)
        self._flights.clear()


def outcome_of(message: WorkerMessage) -> Done | Failed:
    """An answer's meaning. An error is an error, also an empty one; `null` is a result."""
    if message.error is not None:
        error = message.error if isinstance(message.error, str) else msgspec.json.encode(message.error).decode()
        return Failed(message.code or "tool_error", error or "The tool failed and did not say why.")
    result = message.result
    return Done(result if isinstance(result, Raw) else NULL)
