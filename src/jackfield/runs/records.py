"""How runs look on the wire. Pure.

Above: `api.py`. Below: what is on record of a run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from jackfield.calls.records import CallRecord, call_record
from jackfield.model.call import Call, CallError, CallStatus
from jackfield.model.text import Time, iso_time
from jackfield.model.tool import PROGRAMS
from jackfield.runs.kinds import JournalStep, RunDetails, RunParent
from jackfield.runs.listing import ListedRun, RunRow
from jackfield.runs.model_steps import ModelStep, StepTotals

LONGEST_BEGINNING = 300
"""Characters of what a run was asked that a list shows."""
FOR_SOMEBODY = frozenset({CallStatus.PENDING, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN})


class RunRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """What made calls.

    `kind`: `cycle`, `response`, `program`, `session`, or `calls` for those under a run id that is none of these.
    `status`: `queued`, `running`, `parked` (it waits for somebody, and nothing of it is in memory), `completed`,
    `incomplete`, `failed`, `cancelled`, or `interrupted` for a session whose gateway is gone.
    """

    id: str
    kind: str
    agent_entity_id: str | None
    principal: str | None = None
    """In whose name."""
    status: str
    cycle_number: int | None = None
    summary: str | None = None
    asked: str | None = None
    """The beginning of what a response was asked last, or of a program's code."""
    reason: str | None = None
    """Why it failed."""
    model: str | None = None
    steps_taken: int = 0
    """How often its model was asked, as far as that is kept."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the input tokens, where the provider says so."""
    cost: float | None = None
    """By the model's `price` at that time; null where it has none."""
    model_ms: int | None = None
    """How long its model took in all."""
    parked_since: Time | None = field(default=None, name="parked_since")
    owner: str | None = None
    """The gateway that has it in hand, or had it last."""
    tries: int | None = None
    """How often a gateway has taken it up since its last step."""
    created_at: Time
    finished_at: Time | None


class RunCallRecord(CallRecord, frozen=True, kw_only=True):
    """A call of a run."""

    started_at: Time | None = None
    """When its tool was started: after an approval, not before it. Null while it was not."""
    step: int | None = None
    """The step that asked for it."""
    child_run: str | None = None
    """The run of the program that it started."""


class WaitsFor(Struct, frozen=True, kw_only=True, rename="camel"):
    """A call of a run that somebody has to answer, allow or log in for."""

    call_id: str
    tool: str
    status: CallStatus
    since: Time
    expires_at: Time | None


class MessagesRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the model was sent in a step, as far as it is new.

    The conversation was its first `kept` items as it was after the step before, then `sent`; after the step, `items`
    are there too. In the first step, the first `kept` items were said in earlier runs: of an agent's earlier cycles, or
    the response that this one continues. Items of the type `cut` are the beginning of a long one, as text.
    """

    kept: int
    sent: list[Any]
    instructions: str | None
    """Null: as in the step before."""
    tools: list[str] | None
    """Names of the tools it was shown; null: as in the step before."""
    tool_choice: str
    options: dict[str, Any]
    """Temperature and the like, as far as the request sets them."""
    left_out: int
    """So many of the oldest of `sent` are not kept."""


class StepRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """One step: an answer of the model, or what a program asked for at once; then each call as it came out."""

    n: int
    items: list[Any] = []
    """What the model thought, said and asked for."""
    usage: dict[str, Any] | None = None
    model: str | None = None
    asked_at: Time | None = None
    """When the model was asked; like the next two null for a program, and where it is not known."""
    first_at: Time | None = None
    """When the first of its answer came."""
    answered_at: Time | None = None
    recorded_at: Time | None = None
    """When the step was put on record, of programs and older runs."""
    model_ms: int | None = None
    retries: int = 0
    """How often the model was asked in vain before it said anything."""
    finish: str | None = None
    error: CallError | None = None
    """Why the model gave no whole answer."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost: float | None = None
    messages: MessagesRecord | UnsetType = UNSET
    """With `?messages=true`."""
    asks: list[Any] | UnsetType = UNSET
    """What a program asked for: calls, and times to sleep."""
    log: str | UnsetType = UNSET
    """What a program had printed before it."""
    calls: list[RunCallRecord] = []


class RunChild(Struct, frozen=True, kw_only=True, rename="camel"):
    """A run that a call of this one started."""

    id: str
    kind: str
    call_id: str
    status: CallStatus


class WholeRun(RunRecord, frozen=True, kw_only=True, rename="camel"):
    """A run with all that is on record of it."""

    actions: list[str] = []
    """What can be done with it now: `cancel`, `resume`."""
    input: Any = UNSET
    """What it was asked for: items of a response, `code`, `tools` and `timeout` of a program."""
    events: list[Any] | UnsetType = UNSET
    """What woke an agent."""
    steps: list[StepRecord] = []
    response: Any = UNSET
    """As `/v1/responses/{id}` shows it."""
    result: Raw | UnsetType = UNSET
    """What a program returned."""
    log: str | UnsetType = UNSET
    """All that a program printed."""
    error: CallError | None = None
    waits_for: list[WaitsFor] = []
    parent: RunParent | None = None
    """The call that a program carries out, and the run that made this call."""
    children: list[RunChild] = []
    calls: list[RunCallRecord] = []
    """Those of no step."""


class OneRun(Struct, frozen=True, kw_only=True):
    """A run in its envelope."""

    run: WholeRun


class RunList(Struct, frozen=True, kw_only=True):
    """Runs, newest first. `next_cursor` is where the next page begins; null: this was the last."""

    runs: list[RunRecord]
    next_cursor: str | None


def run_record(listed: ListedRun) -> RunRecord:
    return RunRecord(**_head(listed.run, listed.totals))


def whole_run(
    listed: ListedRun, details: RunDetails, model_steps: Sequence[ModelStep], *, with_messages: bool
) -> WholeRun:
    """All that is on record of a run of some kind."""
    run = listed.run
    steps, rest = _steps(run, details, model_steps, with_messages=with_messages)
    is_program = run.kind == "program"
    return WholeRun(
        **_head(run, listed.totals),
        actions=_actions(run, details),
        input=UNSET if details.input is None else details.input,
        events=UNSET if details.events is None else list(details.events),
        steps=steps,
        response=UNSET if details.response is None else details.response,
        result=UNSET if details.result is None else details.result,
        log="".join(step.log or "" for step in details.steps) if is_program else UNSET,
        error=details.error,
        waits_for=[] if run.is_over else waits_for(_awaited(run, details.calls)),
        parent=details.parent,
        children=_children(details.calls),
        calls=rest,
    )


def whole_calls(run_id: str, calls: Sequence[Call]) -> WholeRun:
    """A bare run: nothing but its calls, the first first."""
    ends = [call.finished_at for call in calls]
    status = status_of(calls)
    return WholeRun(
        id=run_id,
        kind="calls",
        agent_entity_id=calls[0].agent,
        principal=calls[0].principal,
        status=status,
        created_at=iso_time(calls[0].created_at),
        finished_at=None if None in ends else iso_time(max(end for end in ends if end is not None)),
        actions=["cancel"] if status == "running" else [],
        waits_for=waits_for(calls),
        children=_children(calls),
        calls=[run_call(call) for call in calls],
    )


def status_of(calls: Sequence[Call]) -> str:
    """A bare run is over when all of its calls are; it failed if its last one did."""
    if not all(call.status.is_final for call in calls):
        return "running"
    return "completed" if calls[-1].status is CallStatus.COMPLETED else "failed"


def run_call(call: Call, *, step: int | None = None) -> RunCallRecord:
    record = call_record(call)
    values = {name: getattr(record, name) for name in CallRecord.__struct_fields__}
    started = _started_at(call)
    return RunCallRecord(
        **values,
        started_at=None if started is None else iso_time(started),
        step=step,
        child_run=f"prog_{call.id}" if call.source == PROGRAMS else None,
    )


def waits_for(calls: Sequence[Call]) -> list[WaitsFor]:
    """What somebody has to do for a run."""
    return [
        WaitsFor(
            call_id=call.id,
            tool=call.tool,
            status=call.status,
            since=iso_time(call.created_at),
            expires_at=None if call.expires_at is None else iso_time(call.expires_at),
        )
        for call in calls
        if call.status in FOR_SOMEBODY or call.status is CallStatus.WAITING
    ]


def _head(run: RunRow, totals: StepTotals | None) -> dict[str, Any]:
    counted = totals is not None and totals.input_tokens is not None
    is_modelled = run.kind != "program"
    return {
        "id": run.id,
        "kind": run.kind,
        "agent_entity_id": run.agent,
        "principal": run.principal,
        "status": run.status,
        "cycle_number": run.number if run.kind == "cycle" else None,
        "summary": run.summary,
        "asked": _asked(run),
        "reason": run.reason,
        "model": None if totals is None else totals.model,
        "steps_taken": 0 if totals is None else totals.steps,
        "input_tokens": totals.input_tokens if totals and counted else run.input_tokens if is_modelled else None,
        "output_tokens": totals.output_tokens if totals and counted else run.output_tokens if is_modelled else None,
        "cached_tokens": None if totals is None else totals.cached_tokens,
        "cost": None if totals is None or totals.cost is None else round(totals.cost, 9),
        "model_ms": None if totals is None else totals.model_ms,
        "parked_since": None if run.parked_at is None else iso_time(run.parked_at),
        "owner": run.owner,
        "tries": run.tries,
        "created_at": iso_time(run.created_at),
        "finished_at": None if run.finished_at is None else iso_time(run.finished_at),
    }


def _asked(run: RunRow) -> str | None:
    """What tells one run of a list from the next."""
    if run.asked is None:
        return None
    given = msgspec.json.decode(run.asked)
    if isinstance(given, Mapping):
        texts = [given.get("code")]
    else:
        texts = [text for item in given if item.get("role") == "user" for text in _texts(item.get("content"))]
    said = [text for text in texts if isinstance(text, str)]
    return said[-1][:LONGEST_BEGINNING] if said else None


def _texts(content: Any) -> list[Any]:
    if not isinstance(content, list):
        return [content]
    return [part.get("text") for part in content if isinstance(part, Mapping)]


def _awaited(run: RunRow, calls: Sequence[Call]) -> Sequence[Call]:
    """Those that hold it up; what is to come to an agent's inbox does not hold up its cycle."""
    return [call for call in calls if call.delivery is None] if run.kind == "cycle" else calls


def _actions(run: RunRow, details: RunDetails) -> list[str]:
    if not run.is_over:
        return ["cancel"]
    return ["resume"] if details.can_resume else []


def _steps(
    run: RunRow, details: RunDetails, model_steps: Sequence[ModelStep], *, with_messages: bool
) -> tuple[list[StepRecord], list[RunCallRecord]]:
    """The steps with their calls, and the calls of no step."""
    journal = {step.n: step for step in details.steps}
    modelled = {step.n: step for step in model_steps}
    calls: dict[int, list[RunCallRecord]] = {n: [] for n in sorted({*journal, *modelled})}
    asked = {call_id: step.n for step in model_steps for call_id in step.messages.calls}
    rest = []
    for call in details.calls:
        n = (
            call.step
            if call.cycle_id == run.id and call.step is not None
            else asked.get(call.id) or _step_before(call, model_steps)
        )
        if n is not None and n in calls:
            calls[n].append(run_call(call, step=n))
        else:
            rest.append(run_call(call))
    steps = [
        _step(n, journal.get(n), modelled.get(n), calls=made, with_messages=with_messages) for n, made in calls.items()
    ]
    return steps, rest


def _step_before(call: Call, steps: Sequence[ModelStep]) -> int | None:
    """For a call that was refused, and so got a record of its own: the step after which that was."""
    if call.status is not CallStatus.REFUSED:
        return None
    return max((step.n for step in steps if step.answered_at <= call.created_at), default=None)


def _step(
    n: int, journal: JournalStep | None, asked: ModelStep | None, *, calls: list[RunCallRecord], with_messages: bool
) -> StepRecord:
    if asked is None:
        assert journal is not None
        return StepRecord(n=n, calls=calls, **_from_journal(journal))
    items = asked.messages.said if journal is None or journal.items is None else journal.items
    error = None if asked.error_code is None else CallError(asked.error_code, asked.error_message or "")
    return StepRecord(
        n=n,
        items=items,
        usage=_usage(asked) if journal is None else journal.usage or _usage(asked),
        model=asked.model,
        asked_at=iso_time(asked.asked_at),
        first_at=None if asked.first_at is None else iso_time(asked.first_at),
        answered_at=iso_time(asked.answered_at),
        model_ms=asked.answered_at - asked.asked_at,
        retries=asked.retries,
        finish=asked.finish,
        error=error,
        input_tokens=asked.input_tokens,
        output_tokens=asked.output_tokens,
        cached_tokens=asked.cached_tokens,
        cost=None if asked.cost is None else round(asked.cost, 9),
        messages=_messages(asked) if with_messages else UNSET,
        calls=calls,
    )


def _from_journal(step: JournalStep) -> dict[str, Any]:
    usage: Mapping[str, Any] = step.usage or {}
    return {
        "items": step.items or [],
        "usage": step.usage,
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "recorded_at": None if step.recorded_at is None else iso_time(step.recorded_at),
        "asks": UNSET if step.asks is None else step.asks,
        "log": UNSET if step.log is None else step.log,
    }


def _usage(step: ModelStep) -> dict[str, Any] | None:
    if step.input_tokens is None:
        return None
    return {"input_tokens": step.input_tokens, "output_tokens": step.output_tokens}


def _messages(step: ModelStep) -> MessagesRecord:
    said = step.messages
    return MessagesRecord(
        kept=said.kept,
        sent=said.sent,
        instructions=said.instructions,
        tools=said.tools,
        tool_choice=said.tool_choice,
        options=said.options,
        left_out=said.left_out,
    )


def _children(calls: Sequence[Call]) -> list[RunChild]:
    return [
        RunChild(id=f"prog_{call.id}", kind="program", call_id=call.id, status=call.status)
        for call in calls
        if call.source == PROGRAMS
    ]


def _started_at(call: Call) -> int | None:
    """When its tool was started, by the database's clock."""
    if call.status is CallStatus.REFUSED or (call.attempt == 0 and call.status is not CallStatus.COMPLETED):
        return None
    if call.finished_at is not None and call.duration_ms is not None:
        return max(call.created_at, call.finished_at - round(call.duration_ms))
    if call.status is CallStatus.RUNNING and call.deadline is not None:
        return max(call.created_at, call.deadline - call.timeout_ms)
    return call.decided_at or call.created_at
