"""How a run looks on the wire: an agent's cycle, a response, or the calls of a bare run, and what happens to it.

Above: `runs.py`, `run_stream.py`. Below: the records of calls. Pure.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.agents.inbox_api import InboxEventRecord
from jackfield.calls.records import CallRecord, Time, call_record
from jackfield.model.call import Call, CallStatus
from jackfield.model.cycle import Cycle, CycleStatus
from jackfield.model.times import iso_time
from jackfield.responses.resource import Resource
from jackfield.store.cycle_moves import Journal, Step
from jackfield.store.runs import ResponseRun

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
        events=[
            InboxEventRecord(
                event_id=event.event_id,
                type=event.type,
                timestamp=iso_time(event.created_at),
                data=event.data,
                status=event.status,
            )
            for event in journal.events
        ],
        steps=[_step(step) for step in journal.steps],
    )


def whole_response(resource: Resource, calls: Sequence[Call]) -> WholeRun:
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
