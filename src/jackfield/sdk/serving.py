"""A tool server: takes the calls that the gateway offers, runs functions for them and answers each once.

An offer is a message, not a start: after a break it comes again, or goes to another server. So every call that was
taken is remembered until long after its answer, and one that may not run twice is begun only after the gateway has said
that nobody else will. Above: `client.tools.serve`. Below: `functions.py`, `begun.py`, `answers.py` and the connection.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jackfield.errors import (
    AlreadyResolved,
    BadRequest,
    Expired,
    JackfieldError,
    NotFound,
    RateLimited,
    TooLarge,
    Unavailable,
)
from jackfield.protocol.backoff import backoff
from jackfield.protocol.sse import EventParser
from jackfield.sdk.answers import Answer, submit
from jackfield.sdk.begun import Begun, Offer, Work
from jackfield.sdk.calls import Calls
from jackfield.sdk.connection import Connection, Message, get
from jackfield.sdk.failures import GatewayFault, GatewayUnreachable, NoAnswer
from jackfield.sdk.functions import Callee
from jackfield.sdk.progress import Reporter
from jackfield.sdk.streams import read
from jackfield.sdk.types import Progress, ToolInfo

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STEADY = 5.0
"""Seconds a stream must have lasted for the next break to count as the first one."""
LONG_QUEUE = 1.0
"""Seconds after which a call that waited for its turn is looked at before it is begun."""
LAST_ANSWER_WITHIN = 2.0
"""Seconds at the end in which calls that were given up are answered."""
MOST_OFFERED = 500
"""Unanswered calls that a gateway gives one server at most."""
AWAY = (GatewayUnreachable, GatewayFault, NoAnswer, Unavailable)
"""The gateway may be back in a moment."""
INTERRUPTED = (
    "Interrupted: the tool server stopped while this tool was running. It may or may not have taken effect; "
    "check before you call it again."
)
NOT_BEGUN = "The tool server stopped before it began this call, so nothing happened. Call the tool again."
_log = logging.getLogger("jackfield.sdk")


class Terms(Struct, frozen=True, kw_only=True):
    """How a server serves."""

    client_id: str
    concurrency: int
    declare: str | None
    grace: float
    on_connected: Callable[[], None] | None


class ToolServer:
    """One run of `serve`: from its first connection to its last answer."""

    def __init__(self, connection: Connection, calls: Calls, callees: Mapping[str, Callee], terms: Terms) -> None:
        self._connection = connection
        self._calls = calls
        self._callees = callees
        self._terms = terms
        self._definitions = [callee.definition() for callee in callees.values()] if terms.declare else []
        self._begun = Begun()
        self._slots = asyncio.Semaphore(terms.concurrency)
        self._tasks: dict[asyncio.Task[None], Work] = {}
        self._was_connected = False

    async def run(self) -> None:
        """Serve until cancelled, or until the gateway refuses this server."""
        try:
            await self._listen_for_ever()
        finally:
            await self._wind_up()

    async def _listen_for_ever(self) -> None:
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                await self._declare()
                await self._listen()
                why = "The gateway ended it."
            except AWAY as fault:
                if isinstance(fault, GatewayFault) and not self._was_connected:
                    raise
                why = fault.message
            attempt = 0 if time.monotonic() - began > STEADY else attempt
            pause = backoff(attempt, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
            attempt += 1
            _log.warning("The stream of calls to serve is not there. %s Trying again in %.1f s.", why, pause)
            await asyncio.sleep(pause)

    async def _declare(self) -> None:
        if self._terms.declare is None:
            return
        path = f"/api/v1/sources/{quote(self._terms.declare, safe='')}/tools"
        body = msgspec.json.encode({"tools": self._definitions})
        await self._connection.ask(Message(method="PUT", path=path, body=body, repeatable=True))

    async def _listen(self) -> None:
        # No more than can be begun at once: a call that waits here could not go to another server.
        limit = min(MOST_OFFERED, self._terms.concurrency)
        wanted: dict[str, str | int | None] = {
            "tools": ",".join(self._callees),
            "client": self._terms.client_id,
            "limit": limit,
        }
        async with (
            self._connection.stream(get("/api/tools/stream", wanted)) as response,
            aclosing(read(response, EventParser())) as events,
        ):
            async for event in events:
                offer = self._connection.decode(event.data, Offer)
                if offer.type == "connected":
                    self._connected()
                elif offer.type == "tool.call":
                    self._take(offer)

    def _connected(self) -> None:
        self._was_connected = True
        _log.info("Serving %s as %s.", ", ".join(self._callees), self._terms.client_id)
        if self._terms.on_connected is not None:
            self._terms.on_connected()

    def _take(self, offer: Offer) -> None:
        """Begin the call, unless it is one that was taken before."""
        work = self._begun.take(offer)
        if work is None:
            return
        task = asyncio.create_task(self._work(work), name=f"call {offer.tool_call_id}")
        self._tasks[task] = work
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        work = self._tasks.pop(task)
        if work.is_in_hand:
            self._begun.finish(work)
        else:
            self._begun.drop(work)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("Call %s could not be served.", work.offer.tool_call_id, exc_info=fault)

    async def _work(self, work: Work) -> None:
        taken = time.monotonic()
        async with self._slots:
            if time.monotonic() - taken > LONG_QUEUE and await self._is_settled(work.offer):
                return
            work.answer = await self._answer_to(work)
        if work.answer is not None:
            await self._deliver(work)

    async def _is_settled(self, offer: Offer) -> bool:
        """Whether a call that had to wait for its turn needs no answer any more: cancelled, expired, answered."""
        try:
            return (await self._calls.get(offer.tool_call_id)).is_settled
        except NotFound:
            return True
        except JackfieldError as fault:
            _log.info("Call %s could not be looked at. %s", offer.tool_call_id, fault.message)
            return False

    async def _answer_to(self, work: Work) -> Answer | None:
        """What the function says, or why it was not run. None: another server has the call."""
        offer = work.offer
        callee = self._callees.get(offer.tool_name)
        if callee is None:
            return Answer(error=f"This tool server does not serve '{offer.tool_name}'.")
        if await self._may_have_run(offer, callee):
            return Answer(error=INTERRUPTED)
        if not callee.is_idempotent and not await self._may_begin(work):
            return None
        work.is_begun = True
        reporter = Reporter(offer.tool_call_id, lambda news: self._report(work, news))
        with reporter.listening():
            answer = await callee.run(offer.args)
        await reporter.close()
        return answer

    async def _may_begin(self, work: Work) -> bool:
        """Ask the gateway to keep this call from every other server. False: another has it, or it is over.

        After a lost reply the same offer is asked for again, since it may be ours already; and only if it is not, the
        newest one.
        """
        tries = 0
        while True:
            work.offered_again.clear()
            try:
                await self._calls.progress(work.offer.tool_call_id, 0, attempt=work.attempt)
            except (*AWAY, RateLimited) as fault:
                pause = backoff(tries, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
                tries += 1
                _log.warning("Call %s cannot be begun yet. %s", work.offer.tool_call_id, fault.message)
                await _sleep_until(work.offered_again, pause)
            except JackfieldError as fault:
                if work.attempt == work.newest_attempt:
                    _log.info("Call %s is not begun here. %s", work.offer.tool_call_id, fault.message)
                    return False
                work.attempt = work.newest_attempt
            else:
                return True

    async def _report(self, work: Work, news: Progress) -> None:
        call_id, attempt = work.offer.tool_call_id, work.attempt
        await self._calls.progress(call_id, news.progress, total=news.total, message=news.message, attempt=attempt)

    async def _may_have_run(self, offer: Offer, callee: Callee) -> bool:
        """Whether a server before this one, under the same id, may have begun the call, which must not run twice."""
        if offer.attempt <= 1 or callee.is_idempotent:
            return False
        try:
            record = await self._calls.get(offer.tool_call_id)
        except JackfieldError as fault:
            _log.warning("The age of call %s is not known. %s", offer.tool_call_id, fault.message)
            return True
        return self._begun.is_younger_than(record, offer) and not await self._is_idempotent(callee)

    async def _is_idempotent(self, callee: Callee) -> bool:
        if callee.is_idempotent or self._terms.declare is not None:
            return callee.is_idempotent
        try:
            response = await self._connection.ask(get(f"/api/v1/tools/{quote(callee.name, safe='')}"))
        except JackfieldError as fault:
            _log.warning("Tool %s could not be looked at. %s", callee.name, fault.message)
            return False
        return bool(self._connection.decode(response.content, ToolInfo).metadata.idempotent)

    async def _deliver(self, work: Work) -> None:
        """Send the answer until the gateway has said something to it: taken, or too late."""
        attempt = 0
        while True:
            try:
                await self._submit(work)
            except AWAY as fault:
                work.offered_again.clear()
                pause = backoff(attempt, first=FIRST_PAUSE, longest=LONGEST_PAUSE)
                attempt += 1
                _log.warning("The answer to call %s is not delivered yet. %s", work.offer.tool_call_id, fault.message)
                await _sleep_until(work.offered_again, pause)
            else:
                return

    async def _submit(self, work: Work) -> None:
        assert work.answer is not None
        offer = work.offer
        try:
            await submit(self._connection, offer.tool_call_id, work.answer, run_id=offer.run_id)
        except (AlreadyResolved, Expired, NotFound) as fault:
            # Also what one's own second copy gets after a lost reply.
            _log.info("Call %s needs no answer any more. %s", offer.tool_call_id, fault.message)
        except (BadRequest, TooLarge) as fault:
            if work.answer.error is not None:
                raise
            _log.warning("The result of call %s was not taken. %s", offer.tool_call_id, fault.message)
            work.answer = Answer(error=f"The result of '{offer.tool_name}' was not taken: {fault.message}")
            await self._submit(work)

    async def _wind_up(self) -> None:
        """Let running calls end within the grace, give the others up, and say so to those that wait for them."""
        unfinished = dict(self._tasks)
        if not unfinished:
            return
        for task, work in unfinished.items():
            if not work.is_in_hand:
                task.cancel()
        try:
            await asyncio.wait(unfinished, timeout=self._terms.grace)
        finally:
            given_up = [work for task, work in unfinished.items() if not task.done() or task.cancelled()]
            for task in unfinished:
                task.cancel()
        try:
            async with asyncio.timeout(LAST_ANSWER_WITHIN):
                await asyncio.gather(*map(self._say_goodbye, given_up))
        except TimeoutError:
            _log.warning("Some calls were left without an answer: the gateway did not take it in time.")

    async def _say_goodbye(self, work: Work) -> None:
        """Answer a call that was given up, unless it may go to another server, which the gateway sees to."""
        if work.answer is None:
            callee = self._callees.get(work.offer.tool_name)
            if callee is not None and await self._is_idempotent(callee):
                return
            work.answer = Answer(error=INTERRUPTED if work.is_begun else NOT_BEGUN)
        try:
            await self._submit(work)
        except JackfieldError as fault:
            _log.warning("Call %s was left without an answer. %s", work.offer.tool_call_id, fault.message)


async def _sleep_until(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return
