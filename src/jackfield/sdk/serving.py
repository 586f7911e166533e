"""A tool server: receives offered calls, runs functions for them and answers each once.

An offer does not start a call: after a reconnect it comes again, or goes to another server. So every call that was
taken is remembered until long after its answer, and one that must not run twice is started only once the gateway has
confirmed that no other server has it. Above: `client.tools.serve`. Below: `calls.py`, `progress.py`, the connection.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any

from msgspec import Struct

from jackfield.errors import AlreadyResolved, BadRequest, Expired, JackfieldError, NotFound, RateLimited, TooLarge
from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.functions import ToolAnswer, ToolFunction
from jackfield.protocol.records import Progress
from jackfield.sdk.calls import Calls, submit
from jackfield.sdk.connection import GatewayConnection, get, read_events, segment, send_json
from jackfield.sdk.errors import AWAY, GatewayFault
from jackfield.sdk.progress import ProgressReporter
from jackfield.sdk.types import CallRecord, ToolInfo

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STABLE_AFTER = 5.0
"""Seconds after which a stream counts as stable: when it breaks, the backoff starts over."""
LONG_QUEUE = 1.0
"""Seconds in the queue after which a call is checked again before it is started."""
LAST_ANSWER_TIMEOUT = 2.0
"""Seconds at shutdown to answer calls that were abandoned."""
MOST_OFFERED = 500
"""Unanswered calls that a gateway offers one server at most."""
REMEMBERED = 10_000
"""Answered calls that are remembered. The gateway has their answers and does not offer them again."""
INTERRUPTED = (
    "Interrupted: the tool server stopped while this tool was running. It may or may not have taken effect; "
    "check before you call it again."
)
NOT_BEGUN = "The tool server stopped before it began this call, so nothing happened. Call the tool again."
_log = logging.getLogger("jackfield.sdk")


class ServeOptions(Struct, frozen=True, kw_only=True):
    """The options of `client.tools.serve`."""

    client_id: str
    concurrency: int
    declare: str | None
    grace: float
    on_connected: Callable[[], None] | None


class CallOffer(Struct, frozen=True, kw_only=True, rename="camel"):
    """An event of a tool server's stream: `connected`, or a call to answer (`tool.call`)."""

    type: str
    tool_call_id: str = ""
    tool_name: str = ""
    args: dict[str, Any] = {}
    run_id: str = ""
    agent_entity_id: str | None = None
    deadline: str | None = None
    ts: str | None = None
    """When it was offered."""
    attempt: int = 1
    """How often the call has been offered, to any server."""


class TakenCall:
    """One call of this server, from its offer to its answer."""

    __slots__ = ("answer", "attempt", "is_started", "newest_attempt", "offer", "offered_again")

    def __init__(self, offer: CallOffer) -> None:
        self.offer = offer
        self.attempt = offer.attempt
        """The offer under which the call is started."""
        self.newest_attempt = offer.attempt
        self.is_started = False
        self.answer: ToolAnswer | None = None
        self.offered_again = asyncio.Event()
        """Set when the gateway offers the call again: it is reachable, and has no answer yet."""

    @property
    def id(self) -> str:
        return self.offer.tool_call_id

    @property
    def is_ours(self) -> bool:
        """Whether this server must answer it: it was started, or answered without running."""
        return self.is_started or self.answer is not None


class TakenCalls:
    """The calls that this server has taken, so that none is started twice."""

    def __init__(self) -> None:
        self._created = time.monotonic()
        self._open: dict[str, TakenCall] = {}
        self._finished: OrderedDict[str, None] = OrderedDict()

    def take(self, offer: CallOffer) -> TakenCall | None:
        """A new call; None for one that was taken before."""
        known = self._open.get(offer.tool_call_id)
        if known is not None:
            known.newest_attempt = max(known.newest_attempt, offer.attempt)
            known.offered_again.set()
        if known is not None or offer.tool_call_id in self._finished:
            return None
        call = self._open[offer.tool_call_id] = TakenCall(offer)
        return call

    def finish(self, call: TakenCall) -> None:
        """Remember only the id of an answered call, and only the newest ids."""
        self._open.pop(call.id, None)
        self._finished[call.id] = None
        if len(self._finished) > REMEMBERED:
            self._finished.popitem(last=False)

    def drop(self, call: TakenCall) -> None:
        """Forget a call that was never started and went to another server: it may come back."""
        self._open.pop(call.id, None)

    def may_predate_us(self, record: CallRecord, offer: CallOffer) -> bool:
        """Whether the call was made before this server started; an unknown age counts as yes.

        The call's age is by the gateway's clock and ours by this machine's, so the two need not agree.
        """
        made, offered = _parse_time(record.created_at), _parse_time(offer.ts)
        if made is None or offered is None:
            return True
        return (offered - made).total_seconds() > time.monotonic() - self._created


class FunctionServer:
    """One run of `serve`, from its first connection to its last answer."""

    def __init__(
        self, connection: GatewayConnection, functions: Mapping[str, ToolFunction], options: ServeOptions
    ) -> None:
        self._connection = connection
        self._calls = Calls(connection)
        self._functions = functions
        self._options = options
        self._definitions = [function.definition() for function in functions.values()] if options.declare else []
        self._taken = TakenCalls()
        self._slots = asyncio.Semaphore(options.concurrency)
        self._tasks: dict[asyncio.Task[None], TakenCall] = {}
        self._was_connected = False

    async def run(self) -> None:
        """Serve until cancelled, or until the gateway refuses this server."""
        try:
            await self._listen_forever()
        finally:
            await self._shut_down()

    async def _listen_forever(self) -> None:
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            started = time.monotonic()
            try:
                await self._declare()
                await self._listen()
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
        if self._options.declare is not None:
            path = f"/api/v1/sources/{segment(self._options.declare)}/tools"
            await self._connection.send(send_json("PUT", path, {"tools": self._definitions}, repeatable=True))

    async def _listen(self) -> None:
        params: dict[str, str | int | None] = {
            "tools": ",".join(self._functions),
            "client": self._options.client_id,
            # No more than can be started at once: a call that waits here could not go to another server.
            "limit": min(MOST_OFFERED, self._options.concurrency),
        }
        async with (
            self._connection.stream(get("/api/tools/stream", params)) as response,
            aclosing(read_events(response)) as events,
        ):
            async for event in events:
                offer = self._connection.decode(event.data, CallOffer)
                if offer.type == "connected":
                    self._was_connected = True
                    _log.info("Serving %s as %s.", ", ".join(self._functions), self._options.client_id)
                    if self._options.on_connected is not None:
                        self._options.on_connected()
                elif offer.type == "tool.call":
                    self._take(offer)

    def _take(self, offer: CallOffer) -> None:
        """Start working on the call, unless it was taken before."""
        call = self._taken.take(offer)
        if call is not None:
            task = asyncio.create_task(self._work(call), name=f"call {call.id}")
            self._tasks[task] = call
            task.add_done_callback(self._forget)

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
        function = self._functions.get(offer.tool_name)
        if function is None:
            return ToolAnswer(error=f"This tool server does not serve '{offer.tool_name}'.")
        if await self._may_have_run(offer, function):
            return ToolAnswer(error=INTERRUPTED)
        if not function.is_idempotent and not await self._claim(call):
            return None
        call.is_started = True
        reporter = ProgressReporter(call.id, lambda progress: self._report(call, progress))
        with reporter.active():
            answer = await function.run(offer.args)
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
        await self._calls.progress(
            call.id, report.progress, total=report.total, message=report.message, attempt=call.attempt
        )

    async def _may_have_run(self, offer: CallOffer, function: ToolFunction) -> bool:
        """Whether an earlier server with the same id may have started a call that must not run twice."""
        if offer.attempt <= 1 or function.is_idempotent:
            return False
        try:
            record = await self._calls.get(offer.tool_call_id)
        except JackfieldError as fault:
            _log.warning("The age of call %s is unknown. %s", offer.tool_call_id, fault.message)
            return True
        return self._taken.may_predate_us(record, offer) and not await self._is_idempotent(function)

    async def _is_idempotent(self, function: ToolFunction) -> bool:
        """Whether the function, or the gateway's definition of the tool, says so."""
        if function.is_idempotent or self._options.declare is not None:
            return function.is_idempotent
        try:
            tool = await self._connection.fetch(get(f"/api/v1/tools/{segment(function.name)}"), ToolInfo)
        except JackfieldError as fault:
            _log.warning("The definition of tool %s is unknown. %s", function.name, fault.message)
            return False
        return bool(tool.metadata.idempotent)

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
            function = self._functions.get(call.offer.tool_name)
            if function is not None and await self._is_idempotent(function):
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


def _parse_time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None
