"""Inboxes and cycles of agents, as scripts: the pending-call protocol, T1 in a cycle and T7 to T10.

An inbox is durable and ordered, each event once by its id; results of calls arrive by settling them, in the same
transaction. None says that somebody else was first, and that nothing was written. Whoever holds a `Cycle` holds its
epoch; once another has taken the cycle over, that epoch moves nothing.
Below: the transactions of calls and spaces.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import call_from, identity_values, outcome_values
from jackfield.model.agent_state import Cycle, CycleStatus
from jackfield.model.call import Call, CallError, CallStatus, Delivery, Done, Failed
from jackfield.model.event import Event
from jackfield.model.space import SYSTEM
from jackfield.runs import model_steps
from jackfield.spaces import transactions as space_tx
from jackfield.store.scripts import INBOX_TOPIC, RUN_TOPIC, Row, Script, happened, json_list, one, wake


class InboxEvent(Struct, frozen=True, kw_only=True):
    """Something that an agent should know when it wakes."""

    seq: int
    event_id: str
    agent: str
    type: str
    """`tool_result`, `cycle_failed`, `space_message`, `plan` or `service`."""
    status: str
    """`pending`, `processing` or `processed`."""
    data: Raw
    created_at: int


def push_event(agent: str, *, event_id: str, type: str, data: str) -> Script[bool]:  # noqa: A002 - the column
    """Put an event into an inbox. False: it was there already, and stays as it was."""
    row = yield from one("push_event", agent=agent, event_id=event_id, type=type, data=data)
    yield wake(INBOX_TOPIC + agent)
    return row is not None


def inbox_page(
    agent: str, *, status: str | None = None, limit: int = 100, after: int = 0
) -> Script[tuple[list[InboxEvent], int | None]]:
    """Events in the order they came, and where the next page begins."""
    values: dict[str, Any] = {"agent": agent, "after": after, "limit": limit + 1}
    if status is None:
        rows = yield "inbox_page", values
    else:
        rows = yield "inbox_page_with_status", values | {"status": status}
    events = [event_from(row) for row in rows[:limit]]
    return events, events[-1].seq if len(rows) > limit else None


def event_from(row: Row) -> InboxEvent:
    """The event that a row of `inbox` holds."""
    return InboxEvent(
        seq=row["seq"],
        event_id=row["event_id"],
        agent=row["agent"],
        type=row["type"],
        status=row["status"],
        data=Raw(row["data"].encode()),
        created_at=row["created_at"],
    )


__all__ = ["Cycle", "CycleStatus"]

_encode = msgspec.json.Encoder().encode
STOP_TOPIC = "stop:"
"""Followed by the id of a cycle that was stopped."""
NEWEST = 2**62
"""A number that no cycle reaches."""

Builtin = Callable[[], Script[Done | Failed]]
"""What a built-in tool does, as a script of its own, and what came of it."""


class OpenedCycle(Struct, frozen=True):
    """A cycle that has just begun, and what it is about."""

    cycle: Cycle
    events: tuple[InboxEvent, ...]


class StepCall(Struct, frozen=True):
    """One tool call of a step. A built-in's is over when the step is on record."""

    call: Call
    builtin: Builtin | None = None


class _Where(Struct, frozen=True):
    """The space that an event tells of."""

    space_id: str | None = field(name="spaceId", default=None)


class Step(Struct, frozen=True):
    """One answer of the model as JSON, and the calls it asked for, each with its slot (`calls/waiting.py`)."""

    n: int
    message: str
    calls: tuple[Call, ...]


class Journal(Struct, frozen=True):
    """All that a cycle has read, said and done so far: enough to go on anywhere."""

    cycle: Cycle
    events: tuple[InboxEvent, ...]
    steps: tuple[Step, ...]


class CycleOutcome(Struct, frozen=True, kw_only=True):
    """What is kept of a cycle that is over."""

    summary: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class StoredContext(Struct, frozen=True):
    """An agent's context, as its last cycle left it."""

    version: int
    """How many cycles have written it."""
    data: str


def open_cycle(cycle_id: str, *, agent: str, owner: str) -> Script[OpenedCycle | None]:
    """The agent wakes, for all of its events that are due. None: none is, or another has the agent's cycle."""
    # T8
    ids = {"cycle_id": cycle_id, "agent": agent}
    if not (yield "open_cycle", ids | {"owner": owner}):
        return None
    claimed = yield "claim_events", ids
    if not claimed:  # a whole cycle of another's went by since `open_cycle` looked
        yield "forget_cycle", ids
        return None
    events = sorted(map(event_from, claimed), key=lambda event: event.seq)
    rows = yield "keep_consumed", ids | {"consumed": _json([event.event_id for event in events])}
    for space_id in _spaces_told_of(events):
        yield from space_tx.arrive(space_id, agent=agent, run_id=cycle_id)
    return OpenedCycle(cycle_from(rows[0]), tuple(events))


def _spaces_told_of(events: Sequence[InboxEvent]) -> list[str]:
    told = (msgspec.json.decode(event.data, type=_Where) for event in events if event.type == "space_message")
    return sorted({where.space_id for where in told if where.space_id is not None})


def take_step(
    cycle: Cycle, *, n: int, message: str, calls: Sequence[StepCall] = (), large_result: int
) -> Script[tuple[Call, ...] | None]:
    """Record what the model said with its calls, in their order, before any of them runs. None: fenced.

    Built-in calls come with a script that does what they do, in the same transaction and in the calls' order.
    """
    # T1
    if not (yield "hold_cycle", {"cycle_id": cycle.id, "epoch": cycle.epoch}):
        return None
    spaces = _spaces_of(calls)
    if spaces:
        yield from space_tx.hold_spaces(cycle.id, spaces)
    yield "insert_step", {"cycle_id": cycle.id, "n": n, "message": message}
    written = []
    for idx, asked in enumerate(calls):
        call = replace(asked.call, agent=cycle.agent, cycle_id=cycle.id, step=n, idx=idx)
        written.append((yield from _insert(call, asked.builtin, large_result)))
    yield from space_tx.drop_unshown(cycle)
    yield wake(RUN_TOPIC + cycle.id)
    return tuple(written)


def _spaces_of(calls: Sequence[StepCall]) -> set[str]:
    """The spaces that the calls of a step may write into: where they are shown, spoken in, entered or left."""
    spaces = set()
    for asked in calls:
        if asked.call.space_id is not None and (asked.builtin is not None or asked.call.shown):
            spaces.add(asked.call.space_id)
        if asked.builtin is not None:
            arguments = msgspec.json.decode(asked.call.arguments)
            entered = arguments.get("spaceId") if isinstance(arguments, dict) else None
            spaces |= {entered} if isinstance(entered, str) else set()
    return spaces


def _insert(call: Call, builtin: Builtin | None, large_result: int) -> Script[Call]:
    if builtin is None:
        return (yield from _begin(call))
    outcome = yield from builtin()
    told, large = call_tx.stored_outcome(outcome, call.id, large_result)
    place = {"cycle_id": call.cycle_id, "step": call.step, "idx": call.idx}
    status = call.status if call.status is CallStatus.REFUSED else call_tx.final_status(told)
    values = identity_values(call) | outcome_values(told) | place | {"status": status.value}
    rows = yield "insert_builtin_call", values
    yield from call_tx.keep_large(large)
    written = replace(
        call,
        status=status,
        delivery=Delivery.INLINE,
        result=told.result,
        error=CallError(told.code, told.message) if isinstance(told, Failed) else None,
        attempt=1,
        shown=None,
        created_at=rows[0]["created_at"],
        finished_at=rows[0]["finished_at"],
    )
    if call.shown:  # its model had begun to write it, and it was refused
        yield from space_tx.show_outcome(replace(written, shown=call.shown))
    yield from call_tx.announce(written)
    return written


def _begin(call: Call) -> Script[Call]:
    rows = yield "insert_call", call_tx.insert_values(call, age_ms=0)
    begun = call_tx.inserted(call, rows[0])
    if begun.shown:
        yield from space_tx.show_call(begun, status=space_tx.status_shown(begun))
    yield from call_tx.announce(begun)
    return begun


def take_over(cycle: Cycle, *, owner: str) -> Script[Cycle | None]:
    """Another gateway goes on with a cycle whose owner is dead. None: it lives, or another has it, or it is over."""
    # T7
    rows = yield "take_over_cycle", {"cycle_id": cycle.id, "seen": cycle.epoch, "owner": owner}
    if not rows:
        return None
    yield from space_tx.drop_unshown(cycle)
    return cycle_from(rows[0])


def commit(cycle: Cycle, *, context: str, record: CycleOutcome) -> Script[Cycle | None]:
    """The cycle becomes part of the agent's context. Whoever commits has read every call's slot. None: fenced."""
    # T9
    fence = {"cycle_id": cycle.id, "epoch": cycle.epoch}
    rows = yield "commit_cycle", fence | msgspec.structs.asdict(record)
    if not rows:
        return None
    yield from space_tx.hold_spaces(cycle.id)
    yield "put_consciousness", {"agent": cycle.agent, "data": context}
    yield "process_events", {"cycle_id": cycle.id}
    yield from _end_in_spaces(cycle)
    return cycle_from(rows[0])


class CycleNotice(Struct, frozen=True):
    """What people in a space are told about a cycle that was given up."""

    space_id: str
    text: str


def abandon(cycle: Cycle, *, reason: str, backoff_ms: int, notices: Sequence[CycleNotice] = ()) -> Script[Cycle | None]:
    """Give up. After `backoff_ms` the agent finds its events again, and what it had called. None: fenced.

    `notices` are posted in the same transaction, so that people hear of it exactly if it happened.
    """
    # T10
    of_cycle = {"cycle_id": cycle.id}
    rows = yield "abandon_cycle", of_cycle | {"epoch": cycle.epoch, "reason": reason}
    yield wake(INBOX_TOPIC + cycle.agent)
    if not rows:
        return None
    failed = cycle_from(rows[0])
    # One moment for all of them, so that one cycle finds them all.
    not_before = rows[0]["finished_at"] + backoff_ms
    yield "hold_calls_of_cycle", of_cycle
    yield from space_tx.hold_spaces(cycle.id, [notice.space_id for notice in notices])
    flipped = yield "flip_calls_of_cycle", of_cycle
    for call in map(call_from, flipped):
        yield from call_tx.announce(call)
    yield "decide_calls_of_cycle", of_cycle
    given = yield "give_outcomes_of_cycle", of_cycle
    for call in sorted(map(call_from, given), key=lambda call: (call.step, call.idx)):
        yield from call_tx.tell_inbox(call, not_before=not_before)
    yield "give_events_back", of_cycle | {"not_before": not_before}
    calls = yield "calls_of_cycle", of_cycle
    data = _failure_data(failed, [call_from(row) for row in calls])
    event = {"event_id": f"cf:{cycle.id}", "agent": cycle.agent, "type": "cycle_failed", "data": data}
    yield "insert_inbox_event", event | {"not_before": not_before}
    yield from _end_in_spaces(cycle)
    for notice in notices:
        yield from space_tx.post(
            f"failed_{cycle.id}_{notice.space_id}",
            space_id=notice.space_id,
            sender=SYSTEM,
            content=notice.text,
            metadata={"type": "cycle_failed", "agent": cycle.agent, "cycleId": cycle.id},
            wakes_agents=False,
        )
    about = {"agent": cycle.agent, "run_id": cycle.id, "reason": reason, "tries": failed.tries}
    yield happened(Event(type="agent.failed", agent=cycle.agent, details=about))
    return failed


def stop(cycle_id: str, *, reason: str) -> Script[Cycle | None]:
    """End an open cycle, whoever has it in hand: its epoch moves nothing any more. None: it is over.

    Its events count as handled: what was stopped does not begin again by itself.
    """
    rows = yield "stop_cycle", {"cycle_id": cycle_id, "reason": reason}
    yield wake(STOP_TOPIC + cycle_id)
    if not rows:
        return None
    stopped = cycle_from(rows[0])
    yield from space_tx.hold_spaces(cycle_id)
    yield "process_events", {"cycle_id": cycle_id}
    yield from _end_in_spaces(stopped)
    return stopped


def can_be_tried_again(cycle_id: str) -> Script[bool]:
    """Whether the events of a cycle that failed, or was stopped, wait to be handled."""
    rows = yield "events_to_try_again", {"cycle_id": cycle_id}
    return bool(rows)


def try_again(cycle_id: str) -> Script[bool]:
    """Its agent wakes at once for the events of a cycle that failed, or was stopped. False: there are none left."""
    found = yield "events_to_try_again", {"cycle_id": cycle_id}
    if not found:
        return False
    given = False
    for event in found:
        given |= bool((yield "give_event_now", {"seq": event["seq"]}))
    yield wake(INBOX_TOPIC + found[0]["agent"])
    return given


def _end_in_spaces(cycle: Cycle) -> Script[None]:
    yield from space_tx.drop_unshown(cycle)
    yield from space_tx.leave_all(cycle.id)
    yield wake(RUN_TOPIC + cycle.id)


def read_journal(cycle_id: str) -> Script[Journal | None]:
    """What the cycle has on record. A step that is written meanwhile is there whole or not at all."""
    of_cycle = {"cycle_id": cycle_id}
    found = yield "get_cycle", of_cycle
    if not found:
        return None
    events = yield "events_of_cycle", of_cycle
    steps = yield "steps_of_cycle", of_cycle
    rows = yield "calls_of_cycle", of_cycle
    calls = [call_from(row) for row in rows]
    return Journal(
        cycle_from(found[0]),
        tuple(event_from(row) for row in events),
        tuple(Step(row["n"], row["message"], tuple(c for c in calls if c.step == row["n"])) for row in steps),
    )


def prune(*, before: int, limit: int) -> Script[None]:
    """Delete a few of the cycles that were over by then, with their steps, but for each agent's last."""
    gone = yield "prune_cycles", {"before": before, "limit": limit}
    if gone:
        ids = [row["id"] for row in gone]
        yield "prune_steps", {"ids": json_list(ids)}
        yield from model_steps.forget(ids)


def get_cycle(cycle_id: str) -> Script[Cycle | None]:
    row = yield from one("get_cycle", cycle_id=cycle_id)
    return None if row is None else cycle_from(row)


def cycles_of_agent(agent: str, *, limit: int = 100, before: int = NEWEST) -> Script[list[Cycle]]:
    """The agent's cycles with numbers under `before`, newest first."""
    return cycles_in("cycles_of_agent", agent=agent, before=before, limit=limit)


def orphaned_cycles(*, limit: int = 500) -> Script[list[Cycle]]:
    """Open cycles whose owner is dead."""
    return cycles_in("orphaned_cycles", limit=limit)


def open_cycles_of(gateway: str, *, limit: int = 500) -> Script[list[Cycle]]:
    """Open cycles of one gateway."""
    return cycles_in("open_cycles_of", owner=gateway, limit=limit)


def agents_to_wake(*, limit: int = 500) -> Script[list[str]]:
    """Agents with events that are due and no open cycle, who has waited longest first."""
    rows = yield "agents_to_wake", {"limit": limit}
    return [str(row["agent"]) for row in rows]


def get_context(agent: str) -> Script[StoredContext | None]:
    """The agent's context. None: it has never finished a cycle."""
    row = yield from one("get_consciousness", agent=agent)
    return None if row is None else StoredContext(row["version"], row["data"])


def cycles_in(query: str, **values: Any) -> Script[list[Cycle]]:
    """The cycles that one query finds."""
    rows = yield query, values
    return [cycle_from(row) for row in rows]


def cycle_from(row: Row) -> Cycle:
    """The cycle that a row of `cycles` holds."""
    return Cycle(
        id=row["id"],
        agent=row["agent"],
        number=row["number"],
        status=CycleStatus(row["status"]),
        owner=row["owner"],
        epoch=row["epoch"],
        tries=row["tries"],
        consumed=msgspec.json.decode(row["consumed"], type=tuple[str, ...]),
        summary=row["summary"],
        reason=row["reason"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )


def _failure_data(cycle: Cycle, calls: Sequence[Call]) -> str:
    """What `cf:<cycle>` tells the agent: what it has called already, so that it need not guess."""
    told = [
        {"toolCallId": call.id, "toolName": call.tool, "arguments": call.arguments, "status": call.status.value}
        for call in calls
    ]
    return _json({"cycleId": cycle.id, "reason": cycle.reason, "calls": told})


def _json(value: object) -> str:
    return _encode(value).decode()
