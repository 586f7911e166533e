"""What agents' built-in tools do: scripts that run inside the transaction which records the step (T1).

So a message is seen at once and never twice, and what the model is told is what was written. Membership is looked up in
the same transaction. A script may run in a thread of the store. Above: `sources/builtin.py`. Below: the transactions of
spaces and agents.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.agents import transactions as agent_tx
from jackfield.agents.builtin_tools import MOST_KEPT
from jackfield.agents.cycle_transactions import Cycle, event_from
from jackfield.agents.inbox import line_of
from jackfield.agents.plans import times_of
from jackfield.errors import BadRequest
from jackfield.model.agent_state import Goal, GoalDraft, Memory, Plan, PlanDraft, UnknownIds
from jackfield.model.call import Done, Failed, done
from jackfield.model.space import SYSTEM, Sender, SpaceMessage, call_message_id
from jackfield.model.text import iso_time
from jackfield.sources.base import InTransaction, Invocation
from jackfield.sources.builtin import Handler
from jackfield.spaces import exchanges
from jackfield.spaces import transactions as space_tx
from jackfield.store.scripts import Script

HISTORY = 30
"""Messages that `enter_space` brings along."""
NOT_A_MEMBER = "Not a member of this space."
NOT_SENT = "MESSAGE NOT SENT — you are not in any space. Call enter_space first."

Outcome = Script[Done | Failed]


class StepContext(Struct, frozen=True, kw_only=True):
    """The step of a cycle that records the calls of built-in tools."""

    cycle: Cycle
    agent_name: str
    hops: int
    max_exchanges: int


class BuiltinCall(Struct, frozen=True, kw_only=True):
    """One call of a built-in tool: who does what, where."""

    step: StepContext
    call_id: str
    arguments: dict[str, Any]
    space_id: str | None
    """The active space at this point of the step."""

    @property
    def agent(self) -> str:
        return self.step.cycle.agent

    @property
    def cycle(self) -> Cycle:
        return self.step.cycle


def agent_handlers() -> dict[str, Handler]:
    """The handlers of the tools that agents alone have."""
    return dict.fromkeys(_SCRIPTS, _in_step)


async def _in_step(invocation: Invocation) -> InTransaction:
    return InTransaction(partial(_script, invocation))


def _script(invocation: Invocation, step: StepContext) -> Outcome:
    call = BuiltinCall(
        step=step, call_id=invocation.call_id, arguments=invocation.arguments, space_id=invocation.space_id
    )
    return _SCRIPTS[invocation.tool.name](call)


def space_after(space_id: str | None, name: str, arguments: dict[str, Any], outcome: Done | Failed) -> str | None:
    """The active space after a call of a built-in tool came to this."""
    if isinstance(outcome, Failed):
        return space_id
    if name == "enter_space":
        return str(arguments["spaceId"])
    return None if name == "leave_space" else space_id


def _enter_space(call: BuiltinCall) -> Outcome:
    space_id = str(call.arguments["spaceId"])
    member = yield from space_tx.get_member(space_id, call.agent)
    space = None if member is None else (yield from space_tx.get_space(space_id))
    if space is None:
        return _refused("not_a_member", NOT_A_MEMBER)
    history = yield from space_tx.messages(space_id, limit=HISTORY)
    total = yield from space_tx.count_messages(space_id)
    yield from space_tx.arrive(space_id, agent=call.agent, agent_name=call.step.agent_name, run_id=call.cycle.id)
    told = {"success": True, "spaceId": space.id, "spaceName": space.name}
    return done(told | {"history": [_message(message) for message in history], "totalMessages": total})


def _leave_space(call: BuiltinCall) -> Outcome:
    if call.space_id is not None:
        yield from space_tx.leave(call.space_id, run_id=call.cycle.id)
    return done({"success": True})


def _send_message(call: BuiltinCall) -> Outcome:
    if call.space_id is None:
        return _refused("no_space", NOT_SENT, action="enter_space")
    member = yield from space_tx.get_member(call.space_id, call.agent)
    if member is None:
        return _refused("not_a_member", f"MESSAGE NOT SENT. {NOT_A_MEMBER}")
    hops = call.step.hops + 1
    message = yield from space_tx.post(
        call_message_id(call.call_id),
        space_id=call.space_id,
        sender=Sender(call.agent, call.step.agent_name, "agent"),
        content=call.arguments["text"],
        metadata=None,
        run_id=call.cycle.id,
        stream_id=call.call_id,
        hops=hops,
        wakes_agents=hops <= call.step.max_exchanges,
    )
    if message is None:
        return _refused("no_space", NOT_SENT, action="enter_space")
    if hops > call.step.max_exchanges:
        yield from _stop_exchange(call)
    return done({"success": True, "messageId": message.id, "status": "delivered"})


def _stop_exchange(call: BuiltinCall) -> Script[None]:
    """Agents have answered each other long enough: nobody is woken any more, and people are told."""
    assert call.space_id is not None
    text, metadata = exchanges.notice(call.agent, most=call.step.max_exchanges)
    yield from space_tx.post(
        f"{call_message_id(call.call_id)}_stop",
        space_id=call.space_id,
        sender=SYSTEM,
        content=text,
        metadata=metadata,
        run_id=call.cycle.id,
        wakes_agents=False,
    )


def _read_messages(call: BuiltinCall) -> Outcome:
    space_id = call.arguments.get("spaceId") or call.space_id
    if space_id is None:
        return _refused("no_space", "You are not in any space. Give a spaceId, or call enter_space first.")
    if (yield from space_tx.get_member(space_id, call.agent)) is None:
        return _refused("not_a_member", NOT_A_MEMBER)
    limit, offset = int(call.arguments.get("limit", 50)), int(call.arguments.get("offset", 0))
    messages = yield from space_tx.messages_at(space_id, offset=offset, limit=limit)
    total = yield from space_tx.count_messages(space_id)
    return done({"messages": [_message(message) for message in messages], "total": total})


def _skip(call: BuiltinCall) -> Outcome:
    yield from ()
    return done({"success": True, "skipped": True} | ({"reason": r} if (r := call.arguments.get("reason")) else {}))


def _set_goals(call: BuiltinCall) -> Outcome:
    drafts = [msgspec.convert(goal, GoalDraft) for goal in call.arguments["goals"]]
    count = len((yield from agent_tx.goals(call.agent)))
    if count + sum(draft.id is None for draft in drafts) > MOST_KEPT:
        return _too_many("goals", count)
    kept = yield from agent_tx.set_goals(call.agent, drafts)
    if isinstance(kept, UnknownIds):
        return _unknown("goals", kept)
    return done({"success": True, "count": len(kept), "goals": [goal_fields(goal) for goal in kept]})


def _delete_goals(call: BuiltinCall) -> Outcome:
    return _deleted((yield from agent_tx.delete_goals(call.agent, call.arguments["goalIds"])))


def _set_memories(call: BuiltinCall) -> Outcome:
    pairs = [(memory["key"], memory["value"]) for memory in call.arguments["memories"]]
    known = {memory.key for memory in (yield from agent_tx.memories(call.agent))}
    if len(known.union(key for key, _ in pairs)) > MOST_KEPT:
        return _too_many("memories", len(known))
    count = yield from agent_tx.set_memories(call.agent, pairs)
    return done({"success": True, "count": count})


def _delete_memories(call: BuiltinCall) -> Outcome:
    return _deleted((yield from agent_tx.delete_memories(call.agent, call.arguments["keys"])))


def _get_memories(call: BuiltinCall) -> Outcome:
    found = yield from agent_tx.memories(call.agent, call.arguments.get("keys"))
    return done({"memories": [memory_fields(memory) for memory in found]})


def _set_plans(call: BuiltinCall) -> Outcome:
    now = yield from _now()
    known = {plan.id: plan for plan in (yield from agent_tx.plans(call.agent))}
    try:
        drafts = [plan_draft(plan, known=known, now=now) for plan in call.arguments["plans"]]
    except BadRequest as fault:
        return _refused("invalid_arguments", fault.message)
    count = sum(plan.status == "active" for plan in known.values())
    if count + sum(draft.id is None for draft in drafts) > MOST_KEPT:
        return _too_many("plans", count)
    kept = yield from agent_tx.set_plans(call.agent, drafts)
    if isinstance(kept, UnknownIds):
        return _unknown("plans", kept)
    return done({"success": True, "count": len(kept), "plans": [plan_fields(plan) for plan in kept]})


def _delete_plans(call: BuiltinCall) -> Outcome:
    return _deleted((yield from agent_tx.delete_plans(call.agent, call.arguments["planIds"])))


def _get_plans(call: BuiltinCall) -> Outcome:
    wanted = call.arguments.get("status")
    found = yield from agent_tx.plans(call.agent)
    return done({"plans": [plan_fields(plan) for plan in found if wanted in (None, plan.status)]})


def _peek_inbox(call: BuiltinCall) -> Outcome:
    count = int(call.arguments.get("count", 1))
    now = yield from _now()
    rows = yield "pending_events", {"agent": call.agent, "limit": count}
    [waiting] = yield "count_pending_events", {"agent": call.agent}
    shown = [line_of(event_from(row), now=now) for row in rows]
    return done({"events": shown, "remaining": max(0, int(waiting["total"]) - len(shown))})


_SCRIPTS: dict[str, Callable[[BuiltinCall], Outcome]] = {
    "enter_space": _enter_space,
    "leave_space": _leave_space,
    "send_message": _send_message,
    "read_messages": _read_messages,
    "skip": _skip,
    "set_goals": _set_goals,
    "delete_goals": _delete_goals,
    "set_memories": _set_memories,
    "delete_memories": _delete_memories,
    "get_memories": _get_memories,
    "set_plans": _set_plans,
    "delete_plans": _delete_plans,
    "get_plans": _get_plans,
    "peek_inbox": _peek_inbox,
}


def _now() -> Script[int]:
    [row] = yield "ping", {}
    return int(row["now"])


def plan_draft(raw: dict[str, Any], *, known: dict[str, Plan], now: int) -> PlanDraft:
    """A plan in its outer spelling as it is kept. What a change leaves out stays as it was."""
    before = known.get(raw.get("id") or "")
    times = {"run_after": raw.get("runAfter"), "scheduled_at": raw.get("scheduledAt"), "cron": raw.get("cron")}
    zone = raw.get("timeZone") or (before.time_zone if before else None)
    instruction = raw.get("instruction", before.instruction if before else "")
    if before is not None and not any(times.values()):
        kept = msgspec.structs.asdict(before)
        same = {key: kept[key] for key in ("cron", "time_zone", "scheduled_at", "next_run_at", "status")}
        return PlanDraft(id=before.id, name=raw["name"], instruction=instruction, **same)
    due = times_of(now=now, time_zone=zone, **times)
    return PlanDraft(id=raw.get("id"), name=raw["name"], instruction=instruction, **msgspec.structs.asdict(due))


def goal_fields(goal: Goal) -> dict[str, Any]:
    """A goal as agents and programs outside see it."""
    return {"id": goal.id, "description": goal.description, "status": goal.status, "priority": goal.priority}


def memory_fields(memory: Memory) -> dict[str, Any]:
    """A memory as agents and programs outside see it."""
    return {"key": memory.key, "value": memory.value, "updatedAt": iso_time(memory.updated_at)}


def plan_fields(plan: Plan) -> dict[str, Any]:
    """A plan as agents and programs outside see it."""
    return {
        "id": plan.id,
        "name": plan.name,
        "instruction": plan.instruction,
        "cron": plan.cron,
        "timeZone": plan.time_zone,
        "scheduledAt": None if plan.scheduled_at is None else iso_time(plan.scheduled_at),
        "nextRunAt": None if plan.next_run_at is None else iso_time(plan.next_run_at),
        "lastRunAt": None if plan.last_run_at is None else iso_time(plan.last_run_at),
        "isRecurring": plan.cron is not None,
        "status": plan.status,
    }


def _message(message: SpaceMessage) -> dict[str, Any]:
    sender = {"senderName": message.sender_name, "senderType": message.sender_type, "entityId": message.entity_id}
    return {"id": message.id, "content": message.content, **sender, "timestamp": iso_time(message.created_at)}


def _deleted(count: int) -> Done:
    return done({"success": True, "deleted": count})


def _too_many(what: str, count: int) -> Failed:
    text = f"You have {count:,} {what}; {MOST_KEPT:,} are the most. Delete some first. Nothing was changed."
    return _refused("too_many", text)


def _unknown(what: str, unknown: UnknownIds) -> Failed:
    ids: Sequence[str] = unknown.ids
    return _refused("not_found", f"You have no {what} with these ids: {', '.join(ids)}. Nothing was changed.")


def _refused(code: str, text: str, **more: str) -> Failed:
    told = {"success": False, "error": text, **more}
    return Failed(code, text, Raw(msgspec.json.encode(told)))
