"""`client.runs`: agents' cycles, responses, programs and sessions, and the calls that went under one run id."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

from jackfield.model.call import CallError
from jackfield.sdk.agents import InboxEvent
from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment
from jackfield.sdk.types import AnyCallStatus, AnyRunStatus, CallRecord, time_of

RunKind = Literal["cycle", "response", "program", "session"]


class RunCall(CallRecord, frozen=True, kw_only=True):
    """A call of a run."""

    started_at: str | None = None
    """When its tool was started; after an approval, not before it."""
    step: int | None = None
    child_run: str | None = None
    """The run of the program that it started."""


class StepMessages(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a model was sent in a step: the first `kept` items of the conversation so far, then `sent`."""

    kept: int = 0
    sent: tuple[dict[str, Any], ...] = ()
    instructions: str | None = None
    """None: as in the step before; likewise `tools`, the names of those it was shown."""
    tools: tuple[str, ...] | None = None
    tool_choice: str = "auto"
    options: dict[str, Any] = {}
    left_out: int = 0
    """So many of the oldest of `sent` are not kept."""


class RunStep(Struct, frozen=True, kw_only=True, rename="camel"):
    """One answer of a model, or what a program asked for at once, and the calls that came of it."""

    n: int
    items: tuple[dict[str, Any], ...] = ()
    """What the model thought, said and asked for."""
    usage: dict[str, Any] | None = None
    model: str | None = None
    asked_at: str | None = None
    first_at: str | None = None
    """When the first of the answer came."""
    answered_at: str | None = None
    recorded_at: str | None = None
    """Of a program: when the step was put on record."""
    model_ms: int | None = None
    retries: int = 0
    finish: str | None = None
    error: CallError | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None
    messages: StepMessages | None = None
    """With `messages=True`."""
    asks: tuple[dict[str, Any], ...] = ()
    """Of a program: the calls and sleeps that it asked for."""
    log: str | None = None
    """Of a program: what it had printed before."""
    calls: tuple[RunCall, ...] = ()


class WaitsFor(Struct, frozen=True, kw_only=True, rename="camel"):
    """A call of a run that somebody has to answer, allow or log in for."""

    call_id: str
    tool: str
    status: AnyCallStatus
    since: str | None = None
    expires_at: str | None = None


class RunLink(Struct, frozen=True, kw_only=True, rename="camel"):
    """The run that a call started, by `id`; or the call that a program carries out, with the run that made it."""

    call_id: str
    id: str | None = None
    kind: str | None = None
    run_id: str | None = None
    status: str | None = None


class RunInfo(Struct, frozen=True, kw_only=True, rename="camel"):
    """A `cycle`, a `response`, a `program`, a `session`, or the bare `calls` of a run id.

    `status`: `queued`, `running`, `parked`, `completed`, `incomplete`, `failed`, `cancelled` or `interrupted`.
    `client.runs.get` also fills in what begins with `actions`.
    """

    id: str
    kind: str = ""
    agent_entity_id: str | None = None
    principal: str | None = None
    status: AnyRunStatus = ""
    cycle_number: int | None = None
    summary: str | None = None
    reason: str | None = None
    model: str | None = None
    steps_taken: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None
    model_ms: int | None = None
    parked_since: str | None = field(default=None, name="parked_since")
    owner: str | None = None
    """The gateway that has it in hand, or had it last."""
    tries: int | None = None
    created_at: str | None = None
    finished_at: str | None = None
    actions: tuple[str, ...] = ()
    """What can be done with it: `cancel`, `resume`."""
    input: Any = None
    events: tuple[InboxEvent, ...] = ()
    steps: tuple[RunStep, ...] = ()
    response: dict[str, Any] | None = None
    result: Any = None
    log: str | None = None
    error: CallError | None = None
    waits_for: tuple[WaitsFor, ...] = ()
    parent: RunLink | None = None
    children: tuple[RunLink, ...] = ()
    calls: tuple[RunCall, ...] = ()
    """Those of no step."""

    @property
    def created(self) -> datetime | None:
        """`created_at` as a time with its zone."""
        return time_of(self.created_at)

    @property
    def finished(self) -> datetime | None:
        """`finished_at` as a time with its zone."""
        return time_of(self.finished_at)

    @property
    def is_over(self) -> bool:
        """Whether it has come to its end."""
        return self.status not in ("queued", "running", "parked")

    @property
    def all_calls(self) -> tuple[RunCall, ...]:
        """Those of no step, then those of each step."""
        return (*self.calls, *(call for step in self.steps for call in step.calls))


class RunPage(Struct, frozen=True, kw_only=True):
    """Runs, newest first, and the cursor of the next page."""

    runs: tuple[RunInfo, ...] = ()
    next_cursor: str | None = None


class RunEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    """An event of a run: `step.done`, `tool.started`, `tool.ready`, `tool.done`, `tool.error`, `run.parked`,
    `run.resumed`, and at its end `run.completed` or `run.failed`.
    """

    type: str
    run_id: str = ""
    stream_id: str | None = None
    """The call's id."""
    agent_entity_id: str | None = None
    tool_name: str | None = None
    args: dict[str, Any] | None = None
    result: Any = None
    error: str | None = None
    status: str | None = None
    step: RunStep | None = None
    """Of `step.done`, without its calls."""

    @property
    def is_end(self) -> bool:
        return self.type in ("run.completed", "run.failed")


class Runs:
    """The runs that this key may see."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        kind: RunKind | None = None,
        status: str | None = None,
        agent: str | None = None,
        principal: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> RunPage:
        """One page of runs, newest first. `principal`: in whose name; `since` and `until` are ISO 8601."""
        params = {
            "kind": kind,
            "status": status,
            "agent": agent,
            "principal": principal,
            "since": since,
            "until": until,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._connection.fetch(get("/api/runs", params), RunPage)

    async def get(self, run_id: str, *, messages: bool = False) -> RunInfo:
        """One run with everything on record of it, and with what its model was sent. Raises `RunNotFound`."""
        params = {"messages": "true" if messages else None}
        return await self._connection.fetch(get(f"/api/runs/{segment(run_id)}", params), RunInfo, "run")

    async def cancel(self, run_id: str) -> RunInfo:
        """End a run, or the open calls of a bare one. Raises `Conflict` for one that is over."""
        request = ApiRequest(method="POST", path=f"/api/runs/{segment(run_id)}/cancel")
        return await self._connection.fetch(request, RunInfo, "run")

    async def resume(self, run_id: str) -> RunInfo:
        """Go on with a run that failed or was interrupted. Raises `Conflict` for one that cannot."""
        request = ApiRequest(method="POST", path=f"/api/runs/{segment(run_id)}/resume")
        return await self._connection.fetch(request, RunInfo, "run")

    async def stream(self, run_id: str) -> AsyncGenerator[RunEvent, None]:
        """Past and future events of the run, each once, across reconnects; the run's end is the last one."""
        seen: set[tuple[str, str | int | None]] = set()
        async with aclosing(self._connection.follow(get(f"/api/runs/{segment(run_id)}/stream"))) as events:
            async for raw in events:
                event = self._connection.decode(raw.data, RunEvent)
                known = (event.type, event.stream_id if event.step is None else event.step.n)
                if known in seen and event.type not in ("run.parked", "run.resumed"):
                    continue  # a reopened stream starts over
                seen.add(known)
                yield event
                if event.is_end:
                    return
