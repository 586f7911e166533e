"""Calls of which nobody knows whether they took effect: the tool that can say so is asked, and its answer settles them.

The gateway that ran a call may die, or the tool's time may be over. Whoever finds that takes the call (T15) and hands
it to `Verification`, which makes an ordinary call of the tool named by `verify`, in the caller's name. A gateway that
dies while it asks leaves a call that the next one takes, three times at most.
Above: the gateway. Below: the pipeline makes the asking call, the executor reviews and the store settles the other.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.calls import transactions as call_tx
from jackfield.calls.executor import Executor
from jackfield.calls.messages import not_happened, not_verified
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest
from jackfield.calls.rows import whole_result
from jackfield.calls.transactions import Hooked
from jackfield.errors import (
    AlreadyResolved,
    CallNotFound,
    JackfieldError,
    NotReady,
    Refused,
    SourceUnavailable,
    StoreBusy,
)
from jackfield.model.call import NULL, Call, Done, Doubt, Failed
from jackfield.model.content import structured_part
from jackfield.model.principal import Principal, Scope
from jackfield.sources.source_registry import SourceRegistry
from jackfield.store import Store

log = logging.getLogger("jackfield.calls")

AT_ONCE = 32
"""Calls that one gateway asks about at a time."""
ASK_SECONDS = 30.0
"""How long the asked tool may take, where its own limit is not shorter."""
LEASE_MS = 60_000
"""How long the call has until another gateway takes it: to wait for a turn and for sources to come up, and to ask."""
LONGEST_REASON = 300
SOURCE_PAUSES = (1.0, 4.0)
"""Seconds between tries to ask a tool whose source is down."""
_ADMIN = Principal(name="admin", scopes=frozenset({Scope.ADMIN.value}))


class _Verdict(Struct, frozen=True):
    """What the asked tool answers."""

    happened: bool
    result: Raw | UnsetType = UNSET


class _Settlement(Struct, frozen=True):
    """How the call ends, and by which call's answer."""

    outcome: Done | Failed
    verified_by: str | None = None


class Verification:
    """Asks, for the calls that this gateway has taken."""

    def __init__(
        self,
        *,
        store: Store,
        pipeline: Pipeline,
        executor: Executor,
        source_registry: SourceRegistry,
        find_principal: Callable[[str], Principal | None],
        gateway_id: str,
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._executor = executor
        self._source_registry = source_registry
        self._find_principal = find_principal
        self._gateway_id = gateway_id
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self._turns = asyncio.Semaphore(AT_ONCE)
        executor.verify = self.take

    async def take(self, call: Call, why: Doubt, *, is_late: bool = False) -> Call | None:
        """Take a call and begin to ask; the call as it then is. None: it is settled, or another gateway has it."""
        # T15
        if self._is_closing:
            return None
        moved = await self._store.write(
            partial(
                call_tx.take_to_verify,
                call.id,
                owner=self._gateway_id,
                seen=call.attempt,
                why=why,
                left_ms=LEASE_MS,
                is_late=is_late,
            )
        )
        if not moved.moved or moved.call is None:
            return None
        task = asyncio.create_task(self._verify(moved.call), name=f"verify {call.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return moved.call

    async def close(self) -> None:
        """Stop asking; whoever takes the calls next asks anew."""
        self._is_closing = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _verify(self, call: Call) -> None:
        try:
            async with self._turns:
                settlement = await self._settlement(call)
            await self._settle(call, settlement)
        except JackfieldError as fault:
            log.warning("whether %s took effect could not be put on record; asked again later: %s", call, fault)
        except Exception:
            log.exception("asking whether %s took effect broke off; asked again later", call)

    async def _settlement(self, call: Call) -> _Settlement:
        caller = self._find_principal(call.principal)
        if caller is None:
            return _unknown(call, f"'{call.principal}', in whose name it would be asked, is not there any more.")
        await self._source_registry.settled(within=ASK_SECONDS / 3)
        request = CallRequest(
            tool=call.verify or "",
            arguments={"call_id": call.id, "arguments": msgspec.json.decode(call.arguments)},
            principal=caller,
            agent=call.agent,
            space_id=call.space_id,
            chat_id=call.chat_id,
            run_id=call.run_id,
            begins_run=True,
            within_ms=int(ASK_SECONDS * 1000),
            verifies=True,
        )
        try:
            async with asyncio.timeout(ASK_SECONDS + 5):
                asked = await self._ask(request)
        except (NotReady, StoreBusy):
            raise
        except Refused as refusal:
            return _unknown(call, refusal.message)
        except TimeoutError:
            return _unknown(call, "It did not answer in time.")
        if not asked.status.is_final:
            with suppress(AlreadyResolved, CallNotFound):
                await self._pipeline.cancel(asked.id, principal=_ADMIN)
            return _unknown(call, f"Its own call waited for somebody ({asked.status.value}).")
        return await self._heard(call, asked)

    async def _ask(self, request: CallRequest) -> Call:
        """A source that is down may be back in a moment."""
        for pause in SOURCE_PAUSES:
            try:
                return await self._pipeline.call(request)
            except SourceUnavailable:
                await asyncio.sleep(pause)
        return await self._pipeline.call(request)

    async def _heard(self, call: Call, asked: Call) -> _Settlement:
        """What the answer says about the call."""
        outcome = asked.outcome
        if not isinstance(outcome, Done):
            said = outcome.message if isinstance(outcome, Failed) else asked.status.value
            return _unknown(call, f"It failed: {said}")
        whole = structured_part(await whole_result(self._store, asked) or NULL)
        try:
            verdict = msgspec.json.decode(whole, type=_Verdict)
        except (msgspec.DecodeError, RecursionError):
            return _unknown(call, 'Its answer is not {"happened": true, "result": …} or {"happened": false}.')
        if not verdict.happened:
            return _Settlement(not_happened(call), asked.id)
        result = NULL if isinstance(verdict.result, UnsetType) else verdict.result
        return _Settlement(Done(result), asked.id)

    async def _settle(self, call: Call, settlement: _Settlement) -> None:
        """As the executor would have settled it: with the tool's own output schema, and seen by the hooks."""
        outcome, hooked = settlement.outcome, None
        if isinstance(outcome, Done):
            reviewed = await self._executor.review_verified(call, outcome)
            outcome = reviewed.outcome
            hooked = Hooked(notes=reviewed.notes, withheld=reviewed.withheld) if reviewed.notes else None
        moved = await self._store.write(
            partial(
                call_tx.settle_executed,
                call.id,
                outcome,
                attempt=call.attempt,
                duration_ms=None,
                large_result=self._store.large_result,
                hooked=hooked,
                verified_by=settlement.verified_by,
            )
        )
        if moved.moved and moved.call is not None:
            self._executor.tell_settled(moved.call)


def _unknown(call: Call, why: str) -> _Settlement:
    reason = why if len(why) <= LONGEST_REASON else f"{why[:LONGEST_REASON]}…"
    return _Settlement(not_verified(call, reason))
