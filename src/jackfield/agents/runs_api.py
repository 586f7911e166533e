"""Handlers of runs: an agent's cycle with its journal, a response, or the calls that went under one run id.

Above: `gateway/routes.py`. Below: the store. A key sees its own runs, an agent's key that agent's cycles; of a bare
run, the calls that it may see (`calls/permissions.py`). Another's is as if it did not exist.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jackfield.agents.cycle_transactions import Journal, Step, read_journal
from jackfield.agents.records import InboxEventRecord, inbox_event_record
from jackfield.agents.transactions import ResponseRun, run_page
from jackfield.calls.events import CallEvent, CallEvents
from jackfield.calls.permissions import may_see
from jackfield.calls.records import CallRecord, call_record
from jackfield.calls.rows import CallFilter, call_page
from jackfield.errors import ResponseNotFound, RunNotFound
from jackfield.http.request import Name, Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import SEES_SPACES, SSE_MEDIA, ResponseSpec, Route
from jackfield.http.sse import Comment, EventMessage, EventStream
from jackfield.http.streams import stop
from jackfield.model.agent_state import Cycle, CycleStatus
from jackfield.model.call import Call, CallStatus
from jackfield.model.principal import Principal
from jackfield.model.text import Time, iso_time
from jackfield.spaces.permissions import agents_of
from jackfield.store import Store
from jackfield.store.scripts import RUN_TOPIC

RunKind = Literal["cycle", "response", "calls"]
_CYCLE_STATUS = {CycleStatus.OPEN: "running", CycleStatus.DONE: "completed", CycleStatus.FAILED: "failed"}


class RunRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """What made calls. `status` of a cycle: `running`, `completed` or `failed`; of a response: its own."""

    id: str
    kind: RunKind
    agent_entity_id: str | None
    status: str
    cycle_number: int | None = None
    summary: str | None = None
    reason: str | None = None
    """Why it failed."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    created_at: Time
    finished_at: Time | None


class StepRecord(Struct, frozen=True, kw_only=True):
    """One answer of the model: `items` are what it thought, said and asked for; then each call as it came out."""

    n: int
    items: list[Any]
    usage: dict[str, Any] | None
    calls: list[CallRecord]


class WholeRun(RunRecord, frozen=True, kw_only=True, rename="camel"):
    """A run with all that is on record of it. A cycle has `events` and `steps`, a response its `response`."""

    events: list[InboxEventRecord] | UnsetType = UNSET
    steps: list[StepRecord] | UnsetType = UNSET
    response: dict[str, Any] | UnsetType = UNSET
    calls: list[CallRecord] | UnsetType = UNSET


class OneRun(Struct, frozen=True, kw_only=True):
    """A run in its envelope."""

    run: WholeRun


class RunList(Struct, frozen=True, kw_only=True):
    """Runs, newest first. `next_cursor` is where the next page begins; null: this was the last."""

    runs: list[RunRecord]
    next_cursor: str | None


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


def run_record(run: Cycle | ResponseRun) -> RunRecord:
    return RunRecord(**_of_cycle(run) if isinstance(run, Cycle) else _of_response(run))


def whole_cycle(journal: Journal) -> WholeRun:
    return WholeRun(
        **_of_cycle(journal.cycle),
        events=[inbox_event_record(event) for event in journal.events],
        steps=[_step(step) for step in journal.steps],
    )


def whole_response(resource: "ShownResponse", calls: Sequence[Call]) -> WholeRun:
    return WholeRun(
        id=resource.id,
        kind="response",
        agent_entity_id=None,
        status=resource.status,
        created_at=iso_time(resource.created_at * 1000),
        finished_at=None if resource.completed_at is None else iso_time(resource.completed_at * 1000),
        response=msgspec.to_builtins(resource),
        calls=[call_record(call) for call in calls],
    )


def whole_calls(run_id: str, calls: Sequence[Call]) -> WholeRun:
    """A bare run: nothing but its calls, the first first."""
    ends = [call.finished_at for call in calls]
    return WholeRun(
        id=run_id,
        kind="calls",
        agent_entity_id=calls[0].agent,
        status=status_of(calls),
        created_at=iso_time(calls[0].created_at),
        finished_at=None if None in ends else iso_time(max(end for end in ends if end is not None)),
        calls=[call_record(call) for call in calls],
    )


def status_of(calls: Sequence[Call]) -> str:
    """A bare run is over when all of its calls are; it failed if its last one did."""
    if not all(call.status.is_final for call in calls):
        return "running"
    return "completed" if calls[-1].status is CallStatus.COMPLETED else "failed"


def begun_events(call: Call) -> tuple[RunEvent, RunEvent]:
    started = _call_event("tool.started", call)
    return started, msgspec.structs.replace(started, type="tool.ready", args=call.arguments)


def ended_event(call: Call) -> RunEvent:
    if call.error is None:
        return msgspec.structs.replace(_call_event("tool.done", call), result=call.result)
    event = _call_event("tool.error", call)
    return msgspec.structs.replace(event, result=call.result, error=call.error.message)


def _call_event(kind: str, call: Call) -> RunEvent:
    return RunEvent(
        type=kind,
        run_id=call.run_id,
        stream_id=call.id,
        agent_entity_id=call.agent,
        tool_name=call.tool,
        status=call.status.value,
    )


def _of_cycle(cycle: Cycle) -> dict[str, Any]:
    return {
        "id": cycle.id,
        "kind": "cycle",
        "agent_entity_id": cycle.agent,
        "status": _CYCLE_STATUS[cycle.status],
        "cycle_number": cycle.number,
        "summary": cycle.summary,
        "reason": cycle.reason,
        "input_tokens": cycle.input_tokens,
        "output_tokens": cycle.output_tokens,
        "created_at": iso_time(cycle.created_at),
        "finished_at": None if cycle.finished_at is None else iso_time(cycle.finished_at),
    }


def _of_response(run: ResponseRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "kind": "response",
        "agent_entity_id": None,
        "status": run.status,
        "created_at": iso_time(run.created_at),
        "finished_at": None if run.finished_at is None else iso_time(run.finished_at),
    }


def _step(step: Step) -> StepRecord:
    message = msgspec.json.decode(step.message)
    return StepRecord(
        n=step.n,
        items=message["items"],
        usage=message.get("usage"),
        calls=[call_record(call) for call in step.calls],
    )


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


class ShownResponse(Protocol):
    """A response as `/v1/responses` shows it."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def created_at(self) -> int: ...
    @property
    def completed_at(self) -> int | None: ...


class FoundResponse(Protocol):
    """A response that this key may see."""

    @property
    def resource(self) -> ShownResponse: ...
    @property
    def is_finished(self) -> bool: ...


FindResponse = Callable[[str, Principal], Awaitable[FoundResponse]]
"""Raises `ResponseNotFound`."""


class RunApi:
    """Handlers of `/api/runs`."""

    def __init__(self, *, store: Store, events: CallEvents, find_response: FindResponse) -> None:
        self._store = store
        self._events = events
        self._find_response = find_response

    async def list_runs(self, request: Request) -> Response:
        """Agents' cycles and responses, newest first."""
        wanted = request.query(RunsQuery)
        principal = request.principal
        own = None if principal.is_admin else agents_of(principal)
        agents = own if wanted.agent is None else [wanted.agent] if own is None or wanted.agent in own else ()
        if principal.agents is not None and agents is not None:
            agents = [agent for agent in agents if principal.reaches_agent(agent)]
        page = await self._store.read(
            partial(
                run_page,
                limit=wanted.limit,
                cursor=wanted.cursor,
                agents=agents,
                principal=None if principal.is_admin else principal.name,
                with_responses=wanted.agent is None,
            )
        )
        return json_response(RunList(runs=[run_record(run) for run in page.runs], next_cursor=page.next_cursor))

    async def show_run(self, request: Request) -> Response:
        """One run with all that is on record of it."""
        return json_response(OneRun(run=(await self._look(request)).record))

    async def follow_run(self, request: Request) -> Response:
        """What happened to the run's calls so far, then what happens, to its end."""
        await self._look(request)
        return EventStream(self._messages(request), streams=request.streams, ping_every=PING_EVERY)

    async def _look(self, request: Request) -> Seen:
        """The run that the path names, as it is now, if this key may see it."""
        run_id = request.part("id")
        seen = await (
            self._cycle(request, run_id) if run_id.startswith("cycle_") else self._response_or_calls(request, run_id)
        )
        if seen is None:
            raise RunNotFound(
                f"There is no run '{run_id[:100]}' that you may see. GET /api/runs lists yours.", param="id"
            )
        return seen

    async def _cycle(self, request: Request, run_id: str) -> Seen | None:
        journal = await self._store.read(partial(read_journal, run_id))
        if journal is None or not (
            (request.principal.is_admin or journal.cycle.agent in request.principal.named("agent"))
            and request.principal.reaches_agent(journal.cycle.agent)
        ):
            return None
        calls = tuple(call for step in journal.steps for call in step.calls)
        return Seen(record=whole_cycle(journal), calls=calls, is_over=journal.cycle.status is not CycleStatus.OPEN)

    async def _response_or_calls(self, request: Request, run_id: str) -> Seen | None:
        page = await self._store.read(partial(call_page, CallFilter(run_id=run_id), limit=MOST_CALLS))
        calls = tuple(call for call in reversed(page.calls) if may_see(request.principal, call))
        try:
            found = await self._find_response(run_id, request.principal)
        except ResponseNotFound:
            if not calls:
                return None
            record = whole_calls(run_id, calls)
            return Seen(record=record, calls=calls, is_over=record.status != "running")
        return Seen(record=whole_response(found.resource, calls), calls=calls, is_over=found.is_finished)

    async def _messages(self, request: Request) -> AsyncGenerator[EventMessage | Comment]:
        """What each look finds new. A look follows every wake-up, so nothing is missed or repeated."""
        run_id = request.part("id")
        yield EventMessage(data=RunEvent(type="connected", run_id=run_id))
        begun: set[str] = set()
        ended: set[str] = set()
        async with self._woken(run_id) as woken:
            while True:
                woken.clear()
                seen = await self._look(request)
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
    async def _woken(self, run_id: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set when something may have happened to the run."""
        with self._store.bus.listen(RUN_TOPIC + run_id, run_id) as woken:
            async with self._events.follow(None) as events:
                listening = asyncio.ensure_future(_listen(events, run_id, woken))
                try:
                    yield woken
                finally:
                    await stop(listening)


def routes(*, store: Store, events: CallEvents, find_response: FindResponse) -> list[Route]:
    """Every route of runs."""
    api = RunApi(store=store, events=events, find_response=find_response)
    return [
        Route(
            method="GET",
            path="/api/runs",
            handler=api.list_runs,
            scope=SEES_SPACES,
            tag="Runs",
            summary="Agents' cycles and responses, newest first",
            query=RunsQuery,
            responses={200: ResponseSpec(description="A page of runs", type=RunList)},
        ),
        Route(
            method="GET",
            path="/api/runs/{id}",
            handler=api.show_run,
            scope=SEES_SPACES,
            tag="Runs",
            summary="One run: a cycle with its steps, a response, or the calls of a bare run",
            responses={200: ResponseSpec(description="The run", type=OneRun)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/api/runs/{id}/stream",
            handler=api.follow_run,
            scope=SEES_SPACES,
            tag="Runs",
            summary="What happens to a run's calls, from its beginning to its end",
            responses={
                200: ResponseSpec(
                    description="`connected`, then `tool.started`, `tool.ready`, `tool.done`, `tool.error`; at the end "
                    "`run.completed` or `run.failed`",
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
    failed = record.status in ("failed", "cancelled")
    end = RunEvent(type="run.failed" if failed else "run.completed", run_id=record.id, status=record.status)
    return msgspec.structs.replace(end, error=record.reason) if failed and record.reason else end
