"""Handlers of runs: agents' cycles, responses, programs and sessions, or the calls that went under one run id.

Above: `gateway/routes.py`. Below: the store, and one object for each kind (`kinds.py`). A key sees its own runs, an
agent's key that agent's cycles; of a bare run, the calls that it may see (`calls/permissions.py`). Another's is as if
it did not exist.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jackfield.calls.events import CallEvent, CallEvents
from jackfield.calls.permissions import may_see
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.rows import call_from
from jackfield.errors import Conflict, Refused, RunNotFound
from jackfield.http.request import Name, Request, When, time_in
from jackfield.http.response import Response, json_response
from jackfield.http.routing import SEES_SPACES, SPEAKS, SSE_MEDIA, ResponseSpec, Route
from jackfield.http.sse import Comment, EventMessage, EventStream
from jackfield.http.streams import stop
from jackfield.model.call import Call
from jackfield.model.principal import Principal
from jackfield.runs.kinds import RunKind
from jackfield.runs.listing import (
    ListedRun,
    RunFilter,
    RunKindName,
    RunRow,
    RunStatus,
    kind_of,
    one_run,
    run_page,
    visible_names,
)
from jackfield.runs.model_steps import steps_of
from jackfield.runs.records import OneRun, RunList, StepRecord, WholeRun, run_record, whole_calls, whole_run
from jackfield.spaces.permissions import agents_of
from jackfield.store import Store
from jackfield.store.scripts import RUN_TOPIC, Script

PING_EVERY = 30.0
LOOK_AGAIN = 5.0
"""Seconds after which a stream looks at its run though nobody woke it."""
SEARCH_SECONDS = 1.0
"""How long a page is looked for, whatever is on record."""
MOST_CALLS = 500
"""Calls of a run that are shown: its newest."""


class RunsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs."""

    kind: RunKindName | None = None
    status: RunStatus | None = None
    agent: Name | None = None
    principal: Annotated[Name, Meta(description="In whose name; an agent's is `agent:NAME`")] | None = None
    since: Annotated[When, Meta(description="Begun from then on, ISO 8601")] | None = None
    until: Annotated[When, Meta(description="Begun before then, ISO 8601")] | None = None
    limit: Annotated[int, Meta(ge=1, le=200, description="How many runs at most")] = 50
    cursor: (
        Annotated[str, Meta(pattern="^[0-9a-f]{1,64}$", description="The `next_cursor` of the page before")] | None
    ) = None


class RunQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of a run."""

    messages: Annotated[bool, Meta(description="With what the model was sent in each step")] = False


RUN_EVENTS: dict[str, str] = {
    "connected": "the stream is open; nothing is missed from here on",
    "step.done": "the model has answered; the step has its times, tokens and cost",
    "tool.started": "a call began",
    "tool.ready": "its arguments are complete",
    "tool.done": "it ended with a result",
    "tool.error": "it ended without one",
    "run.parked": "the run waits for somebody and costs nothing meanwhile",
    "run.resumed": "it goes on",
    "run.completed": "it ended well",
    "run.failed": "it failed, was cancelled or was interrupted",
}
"""What the stream of a run says."""


class RunEvent(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One frame of a run's stream. `streamId` is the call's id."""

    type: str
    run_id: str
    stream_id: str | UnsetType = UNSET
    agent_entity_id: str | UnsetType | None = UNSET
    tool_name: str | UnsetType = UNSET
    args: Raw | UnsetType = UNSET
    result: Raw | UnsetType | None = UNSET
    error: str | UnsetType = UNSET
    status: str | UnsetType = UNSET
    step: StepRecord | UnsetType = UNSET
    """Of `step.done`: the step, without its calls."""


class Seen(Struct, frozen=True, kw_only=True):
    """A run at one moment: its record, its calls in their order, and whether it is over."""

    record: WholeRun
    calls: tuple[Call, ...]
    is_over: bool


class RunApi:
    """Handlers of `/api/runs`."""

    def __init__(
        self, *, store: Store, events: CallEvents, pipeline: Pipeline, kinds: Mapping[RunKindName, RunKind]
    ) -> None:
        self._store = store
        self._events = events
        self._pipeline = pipeline
        self._kinds = kinds

    async def list_runs(self, request: Request) -> Response:
        """Runs of every kind, newest first."""
        wanted, principal = request.query(RunsQuery), request.principal
        own = None if principal.is_admin else agents_of(principal)
        agents = own
        if principal.agents is not None:
            agents = tuple(
                one for one in (own if own is not None else principal.agents) if principal.reaches_agent(one)
            )
        names = None if principal.is_admin else visible_names(own or (), (principal.name, principal.on_record))
        asked = RunFilter(
            kind=wanted.kind,
            status=() if wanted.status is None else (wanted.status,),
            agent=wanted.agent,
            principal=wanted.principal,
            since=time_in(wanted.since, param="since"),
            until=time_in(wanted.until, param="until"),
            own=names,
            agents=agents,
        )
        runs, cursor = await self._page(asked, limit=wanted.limit, cursor=wanted.cursor)
        return json_response(RunList(runs=[run_record(run) for run in runs], next_cursor=cursor))

    async def _page(self, asked: RunFilter, *, limit: int, cursor: str | None) -> tuple[list[ListedRun], str | None]:
        """A page, or as much of it as is found within `SEARCH_SECONDS`; the next page goes on."""
        until = asyncio.get_running_loop().time() + SEARCH_SECONDS
        runs: list[ListedRun] = []
        while True:
            page = await self._store.read(partial(run_page, asked, limit=limit - len(runs), cursor=cursor))
            runs += page.runs
            cursor = page.next_cursor
            if cursor is None or len(runs) >= limit or asyncio.get_running_loop().time() > until:
                return runs, cursor

    async def show_run(self, request: Request) -> Response:
        """One run with all that is on record of it."""
        with_messages = request.query(RunQuery).messages
        return json_response(OneRun(run=(await self._look(request, with_messages=with_messages)).record))

    async def follow_run(self, request: Request) -> Response:
        """What happened to the run's steps and calls so far, then what happens, to its end."""
        await self._look(request)
        return EventStream(self._messages(request), streams=request.streams, ping_every=PING_EVERY)

    async def cancel_run(self, request: Request) -> Response:
        """End a run, or the calls of a bare one."""
        run_id, principal = request.part("id"), request.principal
        listed = await self._listed(run_id, principal)
        if listed is None:
            await self._cancel_calls(run_id, principal)
        elif listed.run.is_over:
            raise Conflict(f"Run '{run_id}' is over: it is {listed.run.status}. There is nothing to cancel.")
        else:
            await self._kinds[listed.run.kind].cancel(listed.run, principal)
        return json_response(OneRun(run=(await self._look(request)).record))

    async def resume_run(self, request: Request) -> Response:
        """Go on with a run that failed or was interrupted, from its journal."""
        run_id, principal = request.part("id"), request.principal
        listed = await self._listed(run_id, principal)
        if listed is None:
            await self._calls_of(run_id, principal)
            raise Conflict(f"'{run_id}' is only a name for some calls. Make the calls again, each by itself.")
        await self._kinds[listed.run.kind].resume(listed.run, principal)
        return json_response(OneRun(run=(await self._look(request)).record))

    async def _listed(self, run_id: str, principal: Principal) -> ListedRun | None:
        """The run of this id, if this principal may see it; None: it is no run, but calls may go under this id."""
        if kind_of(run_id) is None:
            return None
        listed = await self._store.read(partial(one_run, run_id))
        if listed is not None and not may_see_run(principal, listed.run):
            raise _not_found(run_id)
        return listed

    async def _look(self, request: Request, *, with_messages: bool = False) -> Seen:
        """The run that the path names, as it is now, if this key may see it."""
        run_id, principal = request.part("id"), request.principal
        listed = await self._listed(run_id, principal)
        if listed is None:
            calls = await self._calls_of(run_id, principal)
            record = whole_calls(run_id, calls)
            return Seen(record=record, calls=calls, is_over=record.status != "running")
        details = await self._kinds[listed.run.kind].details(listed.run, principal)
        if details is None:
            raise _not_found(run_id)
        steps = await self._store.read(partial(steps_of, run_id))
        record = whole_run(listed, details, steps, with_messages=with_messages)
        return Seen(record=record, calls=tuple(details.calls), is_over=listed.run.is_over)

    async def _calls_of(self, run_id: str, principal: Principal) -> tuple[Call, ...]:
        calls = await self._store.read(partial(calls_of_run, run_id))
        seen = tuple(call for call in calls if may_see(principal, call))
        if not seen:
            raise _not_found(run_id)
        return seen

    async def _cancel_calls(self, run_id: str, principal: Principal) -> None:
        waiting = [call for call in await self._calls_of(run_id, principal) if not call.status.is_final]
        if not waiting:
            raise Conflict(f"The calls of run '{run_id}' are over. There is nothing to cancel.")
        for call in waiting:
            with suppress(Conflict):
                await self._pipeline.cancel(call.id, principal=principal)

    async def _messages(self, request: Request) -> AsyncGenerator[EventMessage | Comment]:
        """What each look finds new. A look follows every wake-up, so nothing is missed or repeated."""
        run_id = request.part("id")
        yield EventMessage(data=RunEvent(type="connected", run_id=run_id))
        told = _Told(run_id)
        async with self._woken(run_id) as woken:
            while True:
                woken.clear()
                try:
                    seen = await self._look(request)
                except Refused:  # deleted meanwhile
                    return
                for event in told.news(seen):
                    yield EventMessage(data=event)
                if seen.is_over:
                    yield EventMessage(data=_end(seen.record))
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN):
                        await woken.wait()

    @asynccontextmanager
    async def _woken(self, run_id: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set when something may have happened to the run."""
        with self._store.bus.listen(RUN_TOPIC + run_id, run_id) as woken:
            async with self._events.follow(None) as events:
                listening = asyncio.ensure_future(_listen(events, run_id, woken))
                try:
                    yield woken
                finally:
                    await stop(listening)


class _Told:
    """What a stream has told of its run."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._steps: set[int] = set()
        self._is_parked = False

    def news(self, seen: Seen) -> list[RunEvent]:
        """What was not told yet, in its order: each step before its calls."""
        events: list[RunEvent] = []
        placed = {record.id: step.n for step in seen.record.steps for record in step.calls}
        steps = {step.n: step for step in seen.record.steps if step.n not in self._steps}
        for call in seen.calls:
            while steps and (n := min(steps)) <= placed.get(call.id, -1):
                events.append(self._step(steps.pop(n)))
            events += () if call.id in self._begun else begun_events(call, run_id=self._run_id)
            if call.status.is_final and call.id not in self._ended:
                events.append(ended_event(call, run_id=self._run_id))
                self._ended.add(call.id)
            self._begun.add(call.id)
        events += [self._step(steps[n]) for n in sorted(steps)]
        is_parked = seen.record.status == "parked"
        if is_parked != self._is_parked:
            self._is_parked = is_parked
            kind = "run.parked" if is_parked else "run.resumed"
            events.append(RunEvent(type=kind, run_id=self._run_id, status=seen.record.status))
        return events

    def _step(self, step: StepRecord) -> RunEvent:
        self._steps.add(step.n)
        return RunEvent(type="step.done", run_id=self._run_id, step=msgspec.structs.replace(step, calls=[]))


def calls_of_run(run_id: str) -> Script[tuple[Call, ...]]:
    """The newest of the calls that a run made itself, the first first."""
    rows = yield "calls_of_run_id", {"run_id": run_id, "limit": MOST_CALLS}
    return tuple(call_from(row) for row in reversed(rows))


def may_see_run(principal: Principal, run: RunRow) -> bool:
    """Whether a run is shown to this key."""
    if run.kind == "cycle":
        agent = run.agent or ""
        return (principal.is_admin or agent in principal.named("agent")) and principal.reaches_agent(agent)
    names = visible_names(agents_of(principal), (principal.name, principal.on_record))
    return principal.is_admin or run.principal in names


def begun_events(call: Call, *, run_id: str) -> tuple[RunEvent, RunEvent]:
    started = _call_event("tool.started", call, run_id)
    return started, msgspec.structs.replace(started, type="tool.ready", args=call.arguments)


def ended_event(call: Call, *, run_id: str) -> RunEvent:
    if call.error is None:
        return msgspec.structs.replace(_call_event("tool.done", call, run_id), result=call.result)
    event = _call_event("tool.error", call, run_id)
    return msgspec.structs.replace(event, result=call.result, error=call.error.message)


def _call_event(kind: str, call: Call, run_id: str) -> RunEvent:
    return RunEvent(
        type=kind,
        run_id=run_id,
        stream_id=call.id,
        agent_entity_id=call.agent,
        tool_name=call.tool,
        status=call.status.value,
    )


def routes(
    *, store: Store, events: CallEvents, pipeline: Pipeline, kinds: Mapping[RunKindName, RunKind]
) -> list[Route]:
    """Every route of runs."""
    api = RunApi(store=store, events=events, pipeline=pipeline, kinds=kinds)
    return [
        Route(
            method="GET",
            path="/api/runs",
            handler=api.list_runs,
            scope=SEES_SPACES,
            tag="Runs",
            summary="Agents' cycles, responses, programs and sessions, newest first",
            query=RunsQuery,
            responses={200: ResponseSpec(description="A page of runs", type=RunList)},
        ),
        Route(
            method="GET",
            path="/api/runs/{id}",
            handler=api.show_run,
            scope=SEES_SPACES,
            tag="Runs",
            summary="One run with its steps, calls, tokens and times, or the calls of a bare run",
            query=RunQuery,
            responses={200: ResponseSpec(description="The run", type=OneRun)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/runs/{id}/cancel",
            handler=api.cancel_run,
            scope=SPEAKS,
            tag="Runs",
            summary="End a run; 409 for one that is over",
            responses={200: ResponseSpec(description="The run as it is now", type=OneRun)},
            errors=(404, 409),
        ),
        Route(
            method="POST",
            path="/api/runs/{id}/resume",
            handler=api.resume_run,
            scope=SPEAKS,
            tag="Runs",
            summary="Go on with a run that failed or was interrupted; 409 for one that cannot",
            responses={200: ResponseSpec(description="The run as it is now", type=OneRun)},
            errors=(404, 409),
        ),
        Route(
            method="GET",
            path="/api/runs/{id}/stream",
            handler=api.follow_run,
            scope=SEES_SPACES,
            tag="Runs",
            summary="What happens in a run, from its beginning to its end",
            responses={
                200: ResponseSpec(
                    description="`connected`, then `step.done`, `tool.started`, `tool.ready`, `tool.done`, "
                    "`tool.error`, `run.parked`, `run.resumed`; at the end `run.completed` or `run.failed`",
                    media=SSE_MEDIA,
                )
            },
            errors=(404,),
        ),
    ]


async def _listen(events: AsyncIterator[CallEvent], run_id: str, woken: asyncio.Event) -> None:
    async for event in events:
        if event.run_id == run_id:
            woken.set()


def _end(record: WholeRun) -> RunEvent:
    failed = record.status in ("failed", "cancelled", "interrupted")
    end = RunEvent(type="run.failed" if failed else "run.completed", run_id=record.id, status=record.status)
    reason = record.reason or (record.error.message if record.error is not None else None)
    return msgspec.structs.replace(end, error=reason) if failed and reason else end


def _not_found(run_id: str) -> RunNotFound:
    return RunNotFound(f"There is no run '{run_id[:100]}' that you may see. GET /api/runs lists yours.", param="id")
