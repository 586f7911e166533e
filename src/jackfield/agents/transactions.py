"""Transactions of agents and their state: memories, goals, plans.

Scripts as in `scripts.py`, so that a built-in tool's effect is written with the step that asked for it or not at all.
An agent's goals and plans are its own: an id that is not among them is answered with `UnknownIds`, and nothing is
written. Below: `cycle_transactions.py`, the transactions of spaces.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.agents.cycle_transactions import Journal, abandon, cycle_from, cycles_in, read_journal
from jackfield.model.agent_state import (
    AgentOrigin,
    Cycle,
    Goal,
    GoalDraft,
    KeptAgent,
    Memory,
    Plan,
    PlanDraft,
    UnknownIds,
)
from jackfield.model.ids import new_id
from jackfield.model.space import Member, Space
from jackfield.model.text import iso_time
from jackfield.spaces import transactions as space_tx
from jackfield.store.scripts import INBOX_TOPIC, Row, Script, one, wake

AGENTS_TOPIC = "agents"
"""An agent is new, changed or gone."""
PLANS_TOPIC = "plans"
"""Some plan is due at another time than before."""
DONE_PLANS_KEPT = 100
"""Plans of an agent that are over, and still shown: those that were due last."""
REMOVED = "The agent was removed."
NEW_GOAL = {"status": "active", "priority": 0}


class LoadedCycle(Struct, frozen=True, kw_only=True):
    """All that a cycle needs to know before its model is asked."""

    agent: KeptAgent | None
    journal: Journal | None
    context: str | None
    """What its last cycle left, as JSON."""
    spaces: list[Space]
    members: dict[str, list[Member]]
    """By space: the first of those who are in it beside the agent."""
    goals: list[Goal]
    memories: list[Memory]
    plans: list[Plan]


def load_cycle(cycle: Cycle, *, most_spaces: int, most_members: int) -> Script[LoadedCycle]:
    """Read it in one transaction. Members are those of the first `most_spaces` spaces, `most_members` of each."""
    agent = cycle.agent
    kept = yield from get_agent(agent)
    journal = yield from read_journal(cycle.id)
    context = yield from one("get_consciousness", agent=agent)
    spaces = yield from space_tx.spaces_of(agent)
    members = yield from space_tx.members_around(
        [space.id for space in spaces[:most_spaces]], besides=agent, most=most_members
    )
    return LoadedCycle(
        agent=kept,
        journal=journal,
        context=None if context is None else context["data"],
        spaces=spaces,
        members=members,
        goals=(yield from goals(agent)),
        memories=(yield from memories(agent)),
        plans=(yield from plans(agent)),
    )


def put_agent(
    agent_id: str, *, definition: str, origin: AgentOrigin, enabled: bool = True, owner: str | None = None
) -> Script[KeptAgent]:
    """An agent as it is from now on. Its state stays, and so does its owner."""
    values = {"definition": definition, "origin": origin, "enabled": int(enabled), "owner": owner}
    [row] = yield "put_agent", {"agent": agent_id, **values}
    yield wake(AGENTS_TOPIC)
    yield wake(INBOX_TOPIC + agent_id)
    yield wake(PLANS_TOPIC)
    return agent_from(row)


def get_agent(agent_id: str) -> Script[KeptAgent | None]:
    row = yield from one("get_agent", agent=agent_id)
    return None if row is None else agent_from(row)


def list_agents() -> Script[list[KeptAgent]]:
    rows = yield "all_agents", {}
    return [agent_from(row) for row in rows]


def remove_agent(agent_id: str) -> Script[bool]:
    """Delete an agent with its state; it leaves its spaces. False: there was none.

    A cycle that it is in is abandoned in the same transaction, or its commit would leave state behind; what was to
    be told to it is forgotten with it, or a namesake would wake for it. Rows are taken
    in the order of all moves: the cycle, its calls, spaces by their id.
    """
    held = [cycle_from(row) for row in (yield "hold_open_cycle", {"agent": agent_id})]
    for cycle in held:
        yield "hold_calls_of_cycle", {"cycle_id": cycle.id}
    spaces = yield from space_tx.spaces_of(agent_id)
    for cycle in held:
        yield from space_tx.hold_spaces(cycle.id, [space.id for space in spaces])
    for space in spaces:
        yield from space_tx.remove_member(space.id, agent_id)
    for cycle in held:
        yield from abandon(cycle, reason=REMOVED, backoff_ms=0)
    gone = yield "delete_agent", {"agent": agent_id}
    for what in ("all_memories", "all_goals", "all_plans", "consciousness", "inbox"):
        yield f"delete_{what}", {"agent": agent_id}
    yield wake(AGENTS_TOPIC)
    return bool(gone)


def retire_config_agents(besides: Iterable[str]) -> Script[list[str]]:
    """Switch off the agents that the config had and has no longer; who they are."""
    rows = yield "retire_config_agents", {"ids": _json_list(besides)}
    if rows:
        yield wake(AGENTS_TOPIC)
    return sorted(str(row["id"]) for row in rows)


def memories(agent: str, keys: Iterable[str] | None = None) -> Script[list[Memory]]:
    """All of them, or those with these keys, by key."""
    if keys is None:
        rows = yield "memories_of", {"agent": agent}
    else:
        rows = yield "memories_among", {"agent": agent, "ids": _json_list(keys)}
    return [Memory(agent=agent, key=row["key"], value=row["value"], updated_at=row["updated_at"]) for row in rows]


def set_memories(agent: str, pairs: Iterable[tuple[str, str]]) -> Script[int]:
    """Remember each value under its key, in place of what was there; how many keys."""
    wanted = {_without_nul(key): value for key, value in pairs}
    for key in sorted(wanted):  # in one order everywhere, so that two writers never wait for each other in a circle
        yield "put_memory", {"agent": agent, "key": key, "value": wanted[key]}
    return len(wanted)


def replace_memories(agent: str, pairs: Iterable[tuple[str, str]]) -> Script[int]:
    """Remember these and nothing else."""
    wanted = dict(pairs)
    yield "delete_other_memories", {"agent": agent, "ids": _json_list(wanted)}
    return (yield from set_memories(agent, wanted.items()))


def delete_memories(agent: str, keys: Iterable[str]) -> Script[int]:
    """Forget; how many there were."""
    return len((yield "delete_memories", {"agent": agent, "ids": _json_list(keys)}))


def goals(agent: str) -> Script[list[Goal]]:
    """The most important first."""
    rows = yield "goals_of", {"agent": agent}
    return [goal_from(row) for row in rows]


def set_goals(agent: str, drafts: Sequence[GoalDraft]) -> Script[list[Goal] | UnknownIds]:
    """New goals, and changes to those that are named by their id; as they are now."""
    held = yield from _held("hold_goals", agent)
    unknown = _unknown(held, drafts)
    if unknown is not None:
        return unknown
    kept = []
    for draft, goal_id in zip(drafts, _ids_in_order("goal", drafts), strict=True):
        before = held.get(draft.id or "", NEW_GOAL)
        values = {
            "goal_id": goal_id,
            "agent": agent,
            "description": draft.description,
            "status": before["status"] if draft.status is None else draft.status,
            "priority": before["priority"] if draft.priority is None else draft.priority,
        }
        [row] = yield "put_goal", values
        kept.append(goal_from(row))
    return kept


def replace_goals(agent: str, drafts: Sequence[GoalDraft]) -> Script[list[Goal] | UnknownIds]:
    """These goals and no others."""
    kept = yield from set_goals(agent, drafts)
    if not isinstance(kept, UnknownIds):
        yield "delete_other_goals", {"agent": agent, "ids": _json_list(goal.id for goal in kept)}
    return kept


def delete_goals(agent: str, ids: Iterable[str]) -> Script[int]:
    """Give up; how many there were."""
    return len((yield "delete_goals", {"agent": agent, "ids": _json_list(ids)}))


def plans(agent: str) -> Script[list[Plan]]:
    """The oldest first."""
    rows = yield "plans_of", {"agent": agent}
    return [plan_from(row) for row in rows]


def set_plans(agent: str, drafts: Sequence[PlanDraft]) -> Script[list[Plan] | UnknownIds]:
    """New plans, and those that are named by their id as they shall be; as they are now."""
    held = yield from _held("hold_plans", agent)
    unknown = _unknown(held, drafts)
    if unknown is not None:
        return unknown
    kept = []
    for draft, plan_id in zip(drafts, _ids_in_order("plan", drafts), strict=True):
        values = msgspec.structs.asdict(draft) | {"plan_id": plan_id, "agent": agent}
        del values["id"]
        [row] = yield "put_plan", values
        kept.append(plan_from(row))
    yield wake(PLANS_TOPIC)
    return kept


def replace_plans(agent: str, drafts: Sequence[PlanDraft]) -> Script[list[Plan] | UnknownIds]:
    """These plans and no others."""
    kept = yield from set_plans(agent, drafts)
    if not isinstance(kept, UnknownIds):
        yield "delete_other_plans", {"agent": agent, "ids": _json_list(plan.id for plan in kept)}
    return kept


def delete_plans(agent: str, ids: Iterable[str]) -> Script[int]:
    """Drop; how many there were."""
    return len((yield "delete_plans", {"agent": agent, "ids": _json_list(ids)}))


def due_plans(*, limit: int = 500) -> Script[list[Plan]]:
    """Plans whose time has come, of agents that are there and switched on; the longest overdue first."""
    rows = yield "due_plans", {"limit": limit}
    return [plan_from(row) for row in rows]


def next_plan_at() -> Script[int | None]:
    """When the next plan is due, perhaps long ago. None: none ever is."""
    row = yield from one("next_plan")
    return None if row is None or row["next_run_at"] is None else int(row["next_run_at"])


def fire_plan(plan: Plan, *, next_run_at: int | None) -> Script[bool]:
    """The plan's time has come: its agent is told, once, and it is due again then, or done. False: another did it."""
    if plan.next_run_at is None:
        raise ValueError(f"Plan {plan.id} is not due at any time.")
    values = {"plan_id": plan.id, "due": plan.next_run_at, "next_run_at": next_run_at}
    row = yield from one("fire_plan", **values)
    if row is None:
        return False
    if next_run_at is None:
        yield "forget_done_plans", {"agent": row["agent"], "kept": DONE_PLANS_KEPT}
    data = {"planId": plan.id, "planName": row["name"], "instruction": row["instruction"]}
    event = {"event_id": f"{plan.id}:{iso_time(plan.next_run_at)}", "agent": row["agent"], "type": "plan"}
    yield "push_event", event | {"data": msgspec.json.encode(data).decode()}
    yield wake(INBOX_TOPIC + row["agent"])
    return True


def agent_from(row: Row) -> KeptAgent:
    return KeptAgent(
        owner=row["owner"],
        id=row["id"],
        definition=row["definition"],
        origin=row["origin"],
        enabled=bool(row["enabled"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def goal_from(row: Row) -> Goal:
    return Goal(**{name: row[name] for name in Goal.__struct_fields__})


def plan_from(row: Row) -> Plan:
    return Plan(**{name: row[name] for name in Plan.__struct_fields__})


def _ids_in_order(prefix: str, drafts: Sequence[GoalDraft | PlanDraft]) -> list[str]:
    """Their own ids, or new ones in the order of the drafts: what is made at one moment is listed by its id."""
    fresh = iter(sorted(new_id(prefix) for draft in drafts if draft.id is None))
    return [draft.id if draft.id is not None else next(fresh) for draft in drafts]


def _held(statement: str, agent: str) -> Script[dict[str, Mapping[str, Any]]]:
    rows = yield statement, {"agent": agent}
    return {row["id"]: row for row in rows}


def _unknown(held: Mapping[str, object], drafts: Iterable[GoalDraft | PlanDraft]) -> UnknownIds | None:
    unknown = tuple(draft.id for draft in drafts if draft.id is not None and draft.id not in held)
    return UnknownIds(unknown) if unknown else None


def _json_list(ids: Iterable[str]) -> str:
    """As `each_of` takes it."""
    return msgspec.json.encode([*map(_without_nul, ids)]).decode()


def _without_nul(key: str) -> str:
    """PostgreSQL takes that character nowhere, not even in an escape."""
    return key.replace("\x00", "\ufffd")


def last_cycles() -> Script[dict[str, Cycle]]:
    """Each agent's last cycle, by agent."""
    cycles = yield from cycles_in("last_cycles")
    return {cycle.agent: cycle for cycle in cycles}
