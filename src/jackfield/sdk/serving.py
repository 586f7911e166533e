"""A tool server: receives offered calls, runs functions for them and answers each once.

An offer does not start a call: after a reconnect it comes again, or goes to another server. So every call that was
taken is remembered until long after its answer, and one that must not run twice is started only once the gateway has
confirmed that no other server has it. Above: `client.tools.serve`. Below: `calls.py`, `progress.py`, the connection.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from jackfield.errors import AlreadyResolved, BadRequest, Expired, JackfieldError, NotFound, RateLimited, TooLarge
from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.functions import ToolAnswer, ToolFunction
from jackfield.protocol.records import Progress
from jackfield.sdk.calls import Calls, submit
from jackfield.sdk.connection import GatewayConnection, get, read_events, segment, send_json
from jackfield.sdk.errors import AWAY, GatewayFault
from jackfield.sdk.offers import CallOffer, TakenCall, TakenCalls
from jackfield.sdk.progress import ProgressReporter
from jackfield.sdk.types import ToolInfo

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STABLE_AFTER = 5.0
"""Seconds after which a stream counts as stable: when it breaks, the backoff starts over."""
LONG_QUEUE = 1.0
"""Seconds in the queue after which a call is checked again before it is started."""
TOLD_WITHIN = 5.0
"""Seconds for the gateway to hear that a server that is drained takes no more calls."""
LAST_ANSWER_TIMEOUT = 2.0
"""Seconds at shutdown to answer calls that were abandoned."""
MOST_OFFERED = 500
"""Unanswered calls that a gateway offers one server at most."""
INTERRUPTED = (
    "Interrupted: the tool server stopped while this tool was running. It may or may not have taken effect; "
    "check before you call it again."
)
NOT_BEGUN = "The tool server stopped before it began this call, so nothing happened. Call the tool again."
_TAKES_CANCELS = {"Jackfield-Cancels": "1"}
"""Asks for `tool.cancel`, which servers of earlier versions do not expect."""
_log = logging.getLogger("jackfield.sdk")


class ServeOptions(Struct, frozen=True, kw_only=True):
    """The options of `client.tools.serve`."""

    client_id: str
    concurrency: int
    declare: str | None
    grace: float
    on_connected: Callable[[], None] | None


class Served(Protocol):
    """What answers the calls of one tool."""

    name: str

    @property
    def is_idempotent(self) -> bool:
        """Whether a call may run twice."""

    def definition(self) -> dict[str, Any]:
        """The tool as it is declared."""

    async def answer(self, offer: CallOffer, reporter: ProgressReporter) -> ToolAnswer:
        """Run one call. Whatever goes wrong is the answer's error; cancellation stops the work."""


class ServedFunction:
    """A function of this program."""

    def __init__(self, function: ToolFunction) -> None:
        self.name = function.name
        self._function = function

    @property
    def is_idempotent(self) -> bool:
        return self._function.is_idempotent

    def definition(self) -> dict[str, Any]:
        return self._function.definition()

    async def answer(self, offer: CallOffer, reporter: ProgressReporter) -> ToolAnswer:
        with reporter.active():
            return await self._function.run(offer.args)


class _Stream:
    """One stream of offers."""

    def __init__(self, listen: Callable[["_Stream"], Coroutine[Any, Any, None]]) -> None:
        self.connected = asyncio.Event()
        self.task = asyncio.create_task(listen(self), name="offers")

    async def until(self, event: asyncio.Event) -> bool:
        """Wait for the event. False: the stream ended before."""
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait((self.task, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        return not self.task.done()

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))


class ToolServer:
    """One run of `serve`, from its first connection to its last answer."""

    def __init__(self, connection: GatewayConnection, tools: Mapping[str, Served], options: ServeOptions) -> None:
        self._connection = connection
        self._calls = Calls(connection)
        self._tools = tools
        self._options = options
        self._limit = min(MOST_OFFERED, options.concurrency)
        self._taken = TakenCalls()
        self._slots = asyncio.Semaphore(options.concurrency)
        self._tasks: dict[asyncio.Task[None], TakenCall] = {}
        self._was_connected = self._is_connected = False
        self._changed, self._draining, self._noticed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Serve until drained or cancelled, or until the gateway refuses this server."""
        listening = asyncio.create_task(self._listen_forever(), name="tool server")
        draining = asyncio.create_task(self._drain(), name="draining")
        try:
            await asyncio.wait((listening, draining), return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()
        finally:
            for task in (listening, draining):
                task.cancel()
            await asyncio.wait((listening, draining))
            await self._shut_down()

    def replace(self, tools: Mapping[str, Served]) -> None:
        """Serve these from now on; calls that run go on."""
        self._tools = tools
        self._changed.set()

    def drain(self) -> None:
        """Take no more calls; `run` comes back when those that were taken are answered."""
        self._limit = 0
        self._noticed.clear()
        self._changed.set()
        self._draining.set()

    @property
    def running(self) -> int:
        """How many calls it has."""
        return len(self._tasks)

    async def _drain(self) -> None:
        await self._draining.wait()
        with suppress(TimeoutError):
            if not self._is_connected:
                raise TimeoutError
            async with asyncio.timeout(TOLD_WITHIN):
                await self._noticed.wait()  # the gateway knows, so it offers nothing more
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _listen_forever(self) -> None:
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            started = time.monotonic()
            try:
                await self._declare()
                await self._follow_streams()
                why = "The gateway ended it."
            except AWAY as fault:
                if isinstance(fault, GatewayFault) and not self._was_connected:
                    raise
                why = fault.message
            if time.monotonic() - started > STABLE_AFTER:
                delays.reset()
            pause = delays.next()
            _log.warning("The stream of calls broke. %s Reconnecting in %.1f s.", why, pause)
            await asyncio.sleep(pause)

    async def _declare(self) -> None:
        self._changed.clear()
        if self._options.declare is not None:
            path = f"/api/v1/sources/{segment(self._options.declare)}/tools"
            definitions = [tool.definition() for tool in self._tools.values()]
            await self._connection.send(send_json("PUT", path, {"tools": definitions}, repeatable=True))

    async def _follow_streams(self) -> None:
        """Listen. When the tools or the limit change, a new stream is there before the old one is left, so that the
        gateway knows this server throughout. Comes back when a stream has ended.
        """
        stream = _Stream(self._listen)
        try:
            while await stream.until(self._changed):
                await self._declare()
                successor = _Stream(self._listen)
                is_there = await successor.until(successor.connected)
                await stream.close()
                stream = successor
                if is_there:
                    self._noticed.set()
            stream.task.result()
        finally:
            await stream.close()

    async def _listen(self, stream: _Stream) -> None:
        params: dict[str, str | int | None] = {
            "tools": ",".join(self._tools),
            "client": self._options.client_id,
            # No more than can be started at once: a call that waits here could not go to another server.
            "limit": self._limit,
        }
        request = msgspec.structs.replace(get("/api/tools/stream", params), headers=_TAKES_CANCELS)
        async with (
            self._connection.stream(request) as response,
            aclosing(read_events(response)) as events,
        ):
            async for event in events:
                offer = self._connection.decode(event.data, CallOffer)
                if offer.type == "connected":
                    self._connected(stream)
                elif offer.type == "tool.call":
                    self._take(offer)
                elif offer.type == "tool.cancel":
                    self._cancel(offer.tool_call_id)

    def _connected(self, stream: _Stream) -> None:
        stream.connected.set()
        self._was_connected = True
        if self._limit:
            _log.info("Serving %s as %s.", ", ".join(self._tools), self._options.client_id)
        if self._options.on_connected is not None:
            self._options.on_connected()

    def _take(self, offer: CallOffer) -> None:
        """Start working on the call, unless it was taken before."""
        call = self._taken.take(offer)
        if call is not None:
            task = asyncio.create_task(self._work(call), name=f"call {call.id}")
            self._tasks[task] = call
            task.add_done_callback(self._forget)

    def _cancel(self, call_id: str) -> None:
        """Nobody needs the call any more: stop it."""
        for task, call in self._tasks.items():
            if call.id == call_id and call.answer is None:
                _log.info("Call %s was cancelled.", call_id)
                task.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        call = self._tasks.pop(task)
        if call.is_ours:
            self._taken.finish(call)
        else:
            self._taken.drop(call)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("Call %s could not be served.", call.id, exc_info=fault)

    async def _work(self, call: TakenCall) -> None:
        taken = time.monotonic()
        async with self._slots:
            if time.monotonic() - taken > LONG_QUEUE and await self._is_settled(call):
                return
            call.answer = await self._run(call)
        if call.answer is not None:
            await self._deliver(call)

    async def _is_settled(self, call: TakenCall) -> bool:
        """Whether a call that waited in the queue needs no answer any more: cancelled, expired, answered."""
        try:
            return (await self._calls.get(call.id)).is_settled
        except NotFound:
            return True
        except JackfieldError as fault:
            _log.info("The state of call %s is unknown. %s", call.id, fault.message)
            return False

    async def _run(self, call: TakenCall) -> ToolAnswer | None:
        """The function's answer, or why it was not run. None: another server has the call."""
        offer = call.offer
        tool = self._tools.get(offer.tool_name)
        if tool is None:
            return ToolAnswer(error=f"This tool server does not serve '{offer.tool_name}'.")
        if await self._may_have_run(offer, tool):
            return ToolAnswer(error=INTERRUPTED)
        if not tool.is_idempotent and not await self._claim(call):
            return None
        call.is_started = True
        reporter = ProgressReporter(call.id, lambda progress: self._report(call, progress))
        answer = await tool.answer(offer, reporter)
        await reporter.close()
        return answer

    async def _claim(self, call: TakenCall) -> bool:
        """Have the gateway reserve the call for this server. False: another has it, or it is settled.

        After a lost response the same offer is claimed again, since it may be ours already; if it is not, the newest
        one.
        """
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            call.offered_again.clear()
            try:
                await self._calls.progress(call.id, 0, attempt=call.attempt)
            except (*AWAY, RateLimited) as fault:
                _log.warning("Call %s could not be claimed yet. %s", call.id, fault.message)
                await _sleep_until(call.offered_again, delays.next())
            except JackfieldError as fault:
                if call.attempt == call.newest_attempt:
                    _log.info("Call %s was not claimed by this server. %s", call.id, fault.message)
                    return False
                call.attempt = call.newest_attempt
            else:
                return True

    async def _report(self, call: TakenCall, report: Progress) -> None:
        try:
            await self._calls.progress(
                call.id, report.progress, total=report.total, message=report.message, attempt=call.attempt
            )
        except (AlreadyResolved, Expired):
            self._cancel(call.id)  # nobody has said so, or it was not heard
            raise

    async def _may_have_run(self, offer: CallOffer, tool: Served) -> bool:
        """Whether an earlier server with the same id may have started a call that must not run twice."""
        if offer.attempt <= 1 or tool.is_idempotent:
            return False
        try:
            record = await self._calls.get(offer.tool_call_id)
        except JackfieldError as fault:
            _log.warning("The age of call %s is unknown. %s", offer.tool_call_id, fault.message)
            return True
        return self._taken.may_predate_us(record, offer) and not await self._is_idempotent(tool)

    async def _is_idempotent(self, tool: Served) -> bool:
        """Whether the tool, or the gateway's definition of it, says so."""
        if tool.is_idempotent or self._options.declare is not None:
            return tool.is_idempotent
        try:
            info = await self._connection.fetch(get(f"/api/v1/tools/{segment(tool.name)}"), ToolInfo)
        except JackfieldError as fault:
            _log.warning("The definition of tool %s is unknown. %s", tool.name, fault.message)
            return False
        return bool(info.metadata.idempotent)

    async def _deliver(self, call: TakenCall) -> None:
        """Send the answer until the gateway has accepted or rejected it."""
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            try:
                await self._submit(call)
            except AWAY as fault:
                call.offered_again.clear()
                _log.warning("The answer to call %s is not delivered yet. %s", call.id, fault.message)
                await _sleep_until(call.offered_again, delays.next())
            else:
                return

    async def _submit(self, call: TakenCall) -> None:
        assert call.answer is not None
        try:
            await submit(self._connection, call.id, call.answer, run_id=call.offer.run_id)
        except (AlreadyResolved, Expired, NotFound) as fault:
            # Also the response to our own second copy, when the first response was lost.
            _log.info("Call %s needs no answer any more. %s", call.id, fault.message)
        except (BadRequest, TooLarge) as fault:
            if call.answer.error is not None:
                raise
            _log.warning("The result of call %s was rejected. %s", call.id, fault.message)
            call.answer = ToolAnswer(error=f"The result of '{call.offer.tool_name}' was not taken: {fault.message}")
            await self._submit(call)

    async def _shut_down(self) -> None:
        """Give running calls the grace period, abandon the others, and answer those that were abandoned."""
        unfinished = dict(self._tasks)
        if not unfinished:
            return
        for task, call in unfinished.items():
            if not call.is_ours:
                task.cancel()
        try:
            await asyncio.wait(unfinished, timeout=self._options.grace)
        finally:
            abandoned = [call for task, call in unfinished.items() if not task.done() or task.cancelled()]
            for task in unfinished:
                task.cancel()
        try:
            async with asyncio.timeout(LAST_ANSWER_TIMEOUT):
                await asyncio.gather(*map(self._answer_abandoned, abandoned))
        except TimeoutError:
            _log.warning("Some calls were left without an answer: the gateway did not respond in time.")

    async def _answer_abandoned(self, call: TakenCall) -> None:
        """Answer an abandoned call as interrupted, unless the gateway may offer it to another server."""
        if call.answer is None:
            tool = self._tools.get(call.offer.tool_name)
            if tool is not None and await self._is_idempotent(tool):
                return
            call.answer = ToolAnswer(error=INTERRUPTED if call.is_started else NOT_BEGUN)
        try:
            await self._submit(call)
        except JackfieldError as fault:
            _log.warning("Call %s was left without an answer. %s", call.id, fault.message)


async def _sleep_until(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
