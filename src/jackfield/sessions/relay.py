"""Forwards a call of a caller tool to its caller, and the answer back to the call.

The call is persisted before the caller is asked, and answered like every other pending call; this module decides only
who is asked, and what happens when the caller is gone or too slow.
Above: `registry.py`. Below: the pipeline and the answers.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Raw

from jackfield.calls import transactions as call_tx
from jackfield.calls.answers import Answers
from jackfield.calls.messages import timed_out
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest
from jackfield.calls.rows import whole_result
from jackfield.errors import CallNotFound, Conflict, Expired, Forbidden, Refused, Unavailable
from jackfield.model.call import Call, CallStatus, Done, Failed
from jackfield.model.principal import Principal
from jackfield.sessions.session import CALLER_TOOL_REQUEST, CALLER_TOOL_SETTLED, AgentSession, OpenRequest
from jackfield.store import Store

log = logging.getLogger("jackfield.sessions")

DISCONNECTED = "caller_disconnected"
ENDED = "session_ended"
MOST_OPEN = 10_000
"""Open requests of one caller, at most."""
_WAITS = (CallStatus.WAITING, CallStatus.PENDING)


class Relay:
    """The open requests of all callers."""

    def __init__(
        self, *, store: Store, pipeline: Pipeline, answers: Answers, find: Callable[[str], AgentSession | None]
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._answers = answers
        self._find = find
        self._work: set[asyncio.Task[None]] = set()
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        """By session: the timer that checks whether its caller is still present."""
        pipeline.ask_caller = self.ask

    async def give_up(self, call_id: str) -> None:
        """Fail a request whose session was lost with its gateway."""
        outcome = Failed(ENDED, "The session ended with its gateway before the caller answered.")
        with suppress(Conflict, Expired, CallNotFound):
            await self._answers.answer_for(call_id, outcome)

    async def call(self, session: AgentSession, name: str, arguments: dict[str, Any], *, call_id: str) -> Call:
        """Run one call of the session's program to its end; raise if it cannot be called."""
        try:
            entry = session.caller_tools.get(name)
        except Refused as refusal:
            asked = CallRequest(tool=name, arguments=arguments, principal=session.principal)
            await self._pipeline.refused(asked, refusal)
            raise
        request = CallRequest(tool=entry.name, arguments=arguments, principal=session.principal, entry=entry)
        try:
            call = await self._pipeline.call(request, call_id=call_id)
        except asyncio.CancelledError:
            self._begin(self._cancel(session, call_id))
            raise
        if call.status is CallStatus.PENDING_APPROVAL:
            raise Conflict(f"A person has to allow calls of '{entry.name}' first, which is not possible here.")
        return call if call.status.is_final else await self._too_late(session, call)

    async def whole_result(self, call: Call) -> Raw | None:
        """The whole result, if it is stored apart because of its size."""
        return await whole_result(self._store, call)

    def ask(self, call: Call) -> None:
        """Ask the caller about a persisted call, or fail it at once."""
        if call.status not in _WAITS:
            return
        session = self._find(call.run_id)
        if session is None or session.status.is_over or session.owner.name != call.principal:
            self._begin(self._fail(call.id, Failed(ENDED, "The session is over, and its caller with it.")))
        elif not session.presence.is_here:
            said = "No caller is connected to receive this tool request. It may come back; try again later."
            self._begin(self._fail(call.id, Failed(DISCONNECTED, said)))
        elif len(session.requests) >= MOST_OPEN:
            said = f"{MOST_OPEN:,} requests wait for this caller already. Wait for some to be answered."
            self._begin(self._fail(call.id, Failed("too_many_requests", said)))
        else:
            self._put(session, call)

    def _put(self, session: AgentSession, call: Call) -> None:
        session.touch()
        tool = session.caller_tools.own_name(call.tool)
        session.requests[call.id] = OpenRequest(
            call_id=call.id, tool=tool, timer=self._at_deadline_in(call.timeout_ms / 1000, session, call.id)
        )
        session.events.add(CALLER_TOOL_REQUEST, request_id=call.id, tool=tool, arguments=call.arguments)
        self.look_after(session)

    async def answer(
        self, session: AgentSession, request_id: str, outcome: Done | Failed, *, principal: Principal
    ) -> Call:
        """The caller's answer. The first one wins; only the owner may answer."""
        if principal.name != session.owner.name:
            raise Forbidden(f"Session '{session.id}' belongs to another key, and only its owner answers.")
        session.presence.give_sign()
        session.touch()
        if request_id not in session.requests:
            known = await self._store.read(partial(call_tx.get_call, request_id))
            if known is None or known.run_id != session.id:
                raise CallNotFound(f"There is no request '{request_id}' in this session.", param="request_id")
            if known.status is CallStatus.PENDING:
                raise Expired(f"Request '{request_id}' was not answered in time; its agent has been told so.")
        call = await self._answers.submit(request_id, outcome, principal=principal, run_id=session.id)
        self._over(session, call)
        return call

    def look_after(self, session: AgentSession) -> None:
        """Fail the requests of a caller that is gone; check again when its grace period ends."""
        if (before := self._leaving.pop(session.id, None)) is not None:
            before.cancel()
        left = session.presence.seconds_left
        if not session.requests or left == math.inf:
            return
        if left > 0:
            loop = asyncio.get_running_loop()
            self._leaving[session.id] = loop.call_later(left + 0.001, self.look_after, session)
            return
        self.fail_all(session, Failed(DISCONNECTED, "The caller disconnected before it answered."))

    def fail_all(self, session: AgentSession, failure: Failed) -> None:
        """Fail every open request."""
        for request in tuple(session.requests.values()):
            session.requests.pop(request.call_id).timer.cancel()
            self._begin(self._fail(request.call_id, failure, session=session))

    async def close(self, *, within: float) -> None:
        """Wait for outstanding work."""
        for timer in self._leaving.values():
            timer.cancel()
        if self._work:
            await asyncio.wait(self._work, timeout=within)

    async def _at_deadline(self, session: AgentSession, call_id: str) -> None:
        call = await self._store.read(partial(call_tx.get_call, call_id))
        request = session.requests.get(call_id)
        if call is None or request is None:
            return
        left = 0.0 if call.deadline is None else (call.deadline - await self._store.now_ms()) / 1000
        if call.status is CallStatus.WAITING and left > 0:  # progress has given it more time
            timer = self._at_deadline_in(left, session, call_id)
            session.requests[call_id] = OpenRequest(call_id=call_id, tool=request.tool, timer=timer)
            return
        await self._too_late(session, call)

    async def _too_late(self, session: AgentSession, call: Call) -> Call:
        """Fail at the deadline, unless an answer came first."""
        await self._fail(call.id, timed_out(call.id, call.timeout_ms), session=session)
        return await self._store.read(partial(call_tx.get_call, call.id)) or call

    async def _cancel(self, session: AgentSession, call_id: str) -> None:
        """Cancel a call that the agent no longer waits for."""
        try:
            self._over(session, await self._pipeline.cancel(call_id, principal=session.principal))
        except Refused as refusal:
            log.debug("call %s needs no cancelling: %s", call_id, refusal)

    async def _fail(self, call_id: str, failure: Failed, *, session: AgentSession | None = None) -> None:
        try:
            call = await self._answers.answer_for(call_id, failure)
        except Unavailable as fault:
            log.warning("call %s has no outcome yet, its deadline gives it one: %s", call_id, fault)
            return
        except Refused:
            call = None  # answered meanwhile
        if session is not None:
            self._over(session, call, call_id=call_id)

    def _over(self, session: AgentSession, call: Call | None, *, call_id: str = "") -> None:
        """Close the request and publish its outcome."""
        request = session.requests.pop(call.id if call is not None else call_id, None)
        if request is not None:
            request.timer.cancel()
        if call is None or session.events.is_closed:
            return
        fields: dict[str, Any] = {"request_id": call.id, "tool": session.caller_tools.own_name(call.tool)}
        if call.error is not None:
            fields["error"] = call.error.message
        session.events.add(CALLER_TOOL_SETTLED, status=call.status.value, **fields)

    def _at_deadline_in(self, seconds: float, session: AgentSession, call_id: str) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(seconds, lambda: self._begin(self._at_deadline(session, call_id)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a relayed call could not be seen to its end", exc_info=fault)
