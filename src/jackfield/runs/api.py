"""Runs: what made calls. An agent's cycle with its journal, a response, or the calls that went under one run id.

Above: `routes_agents.py`. Below: the store. A key sees its own runs, an agent's key that agent's cycles; of a bare run,
the calls that it may see (`calls/permissions.py`). Another's is as if it did not exist.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from jackfield.calls.events import CallEvent
from jackfield.calls.permissions import may_see
from jackfield.errors import ResponseNotFound, RunNotFound
from jackfield.http.request import Name, Request
from jackfield.http.response import Response, json_response
from jackfield.http.sse import Comment, EventMessage, EventStream
from jackfield.http.streams import stop
from jackfield.model.call import Call
from jackfield.model.cycle import CycleStatus
from jackfield.runs.records import (
    OneRun,
    RunEvent,
    RunList,
    WholeRun,
    begun_events,
    ended_event,
    run_record,
    whole_calls,
    whole_cycle,
    whole_response,
)
from jackfield.spaces.permissions import agents_of
from jackfield.store import CallFilter
from jackfield.store.scripts import RUN_TOPIC

PING_EVERY = 30.0
LOOK_AGAIN = 5.0
"""Seconds after which a stream looks at its run though nobody woke it."""
MOST_CALLS = 500
"""Calls of a response or a bare run that are shown: its newest."""


class RunsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs; with an agent, its cycles alone."""

    agent: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=200, description="How many runs at most")] = 50
    cursor: (
        Annotated[str, Meta(pattern="^[0-9a-f]{1,64}$", description="The `next_cursor` of the page before")] | None
    ) = None


class Seen(Struct, frozen=True, kw_only=True):
    """A run at one moment: its record, its calls in their order, and whether it is over."""

    record: WholeRun
    calls: tuple[Call, ...]
    is_over: bool


async def list_runs(visit: Request) -> Response:
    """Agents' cycles and responses, newest first."""
    wanted = visit.query(RunsQuery)
    principal = visit.principal
    own = None if principal.is_admin else agents_of(principal)
    agents = own if wanted.agent is None else [wanted.agent] if own is None or wanted.agent in own else ()
    page = await visit.gateway.store.runs.page(
        limit=wanted.limit,
        cursor=wanted.cursor,
        agents=agents,
        principal=None if principal.is_admin else principal.name,
        with_responses=wanted.agent is None,
    )
    return json_response(RunList(runs=[run_record(run) for run in page.runs], next_cursor=page.next_cursor))


async def show_run(visit: Request) -> Response:
    """One run with all that is on record of it."""
    return json_response(OneRun(run=(await _look(visit)).record))


async def follow_run(visit: Request) -> Response:
    """What happened to the run's calls so far, then what happens, to its end."""
    await _look(visit)
    return EventStream(_messages(visit), streams=visit.reception.streams, ping_every=PING_EVERY)


async def _look(visit: Request) -> Seen:
    """The run that the path names, as it is now, if this key may see it."""
    run_id = visit.part("id")
    seen = await (_cycle(visit, run_id) if run_id.startswith("cycle_") else _response_or_calls(visit, run_id))
    if seen is None:
        raise RunNotFound(f"There is no run '{run_id[:100]}' that you may see. GET /api/runs lists yours.", param="id")
    return seen


async def _cycle(visit: Request, run_id: str) -> Seen | None:
    journal = await visit.gateway.store.cycles.journal(run_id)
    if journal is None or not (visit.principal.is_admin or journal.cycle.agent in visit.principal.named("agent")):
        return None
    calls = tuple(call for step in journal.steps for call in step.calls)
    return Seen(record=whole_cycle(journal), calls=calls, is_over=journal.cycle.status is not CycleStatus.OPEN)


async def _response_or_calls(visit: Request, run_id: str) -> Seen | None:
    page = await visit.gateway.store.list_calls(CallFilter(run_id=run_id), limit=MOST_CALLS)
    calls = tuple(call for call in reversed(page.calls) if may_see(visit.principal, call))
    try:
        found = await visit.reception.responses.find(run_id, visit.principal)
    except ResponseNotFound:
        if not calls:
            return None
        record = whole_calls(run_id, calls)
        return Seen(record=record, calls=calls, is_over=record.status != "running")
    return Seen(record=whole_response(found.resource, calls), calls=calls, is_over=found.is_finished)


async def _messages(visit: Request) -> AsyncGenerator[EventMessage | Comment]:
    """Each look tells what the one before did not. A look follows every wake-up, so nothing is missed or doubled."""
    run_id = visit.part("id")
    yield EventMessage(data=RunEvent(type="connected", run_id=run_id))
    begun: set[str] = set()
    ended: set[str] = set()
    async with _woken(visit, run_id) as woken:
        while True:
            woken.clear()
            seen = await _look(visit)
            for call in seen.calls:
                for event in () if call.id in begun else begun_events(call):
                    yield EventMessage(data=event)
                if call.status.is_final and call.id not in ended:
                    yield EventMessage(data=ended_event(call))
                    ended.add(call.id)
                begun.add(call.id)
            if seen.is_over:
                yield EventMessage(data=_end(seen.record))
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await woken.wait()


@asynccontextmanager
async def _woken(visit: Request, run_id: str) -> AsyncIterator[asyncio.Event]:
    """An event that is set when something may have happened to the run."""
    gateway = visit.gateway
    with gateway.store.bus.listen(RUN_TOPIC + run_id, run_id) as woken:
        async with gateway.pipeline.events.follow(None) as events:
            listening = asyncio.ensure_future(_listen(events, run_id, woken))
            try:
                yield woken
            finally:
                await stop(listening)


async def _listen(events: AsyncIterator[CallEvent], run_id: str, woken: asyncio.Event) -> None:
    async for event in events:
        if event.run_id == run_id:
            woken.set()


def _end(record: WholeRun) -> RunEvent:
    failed = record.status in ("failed", "cancelled")
    end = RunEvent(type="run.failed" if failed else "run.completed", run_id=record.id, status=record.status)
    return msgspec.structs.replace(end, error=record.reason) if failed and record.reason else end
