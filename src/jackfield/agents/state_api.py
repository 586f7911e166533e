"""Handlers of an agent's state: memories, goals, plans.

Above: `gateway/routes.py`. Below: the store. The agent's own built-in tools do the same (`builtin_handlers.py`). A PUT
replaces the whole, and what a GET gave may be sent back as it is.
"""

from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from jackfield.agents import transactions as agent_tx
from jackfield.agents.builtin_handlers import goal_fields, memory_fields, plan_draft, plan_fields
from jackfield.agents.builtin_tools import LONGEST_VALUE
from jackfield.agents.builtin_tools import MOST_KEPT as MOST
from jackfield.agents.permissions import AgentPermissions
from jackfield.errors import BadRequest
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Handler, Name, Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import HAS_INBOX, SEES_SPACES, ResponseSpec, Route
from jackfield.model.agent_state import GoalDraft, KeptAgent, Plan, PlanDraft, UnknownIds
from jackfield.model.text import Time
from jackfield.store import Store

_WHEN = ("runAfter", "scheduledAt", "cron", "timeZone")
Key = Annotated[str, Meta(min_length=1, max_length=200, pattern="^[^\\u0000]+(?![\\s\\S])")]
Value = Annotated[str, Meta(min_length=1, pattern="^[^\\u0000]+(?![\\s\\S])")]
Instruction = Annotated[str, Meta(pattern="^[^\\u0000]*(?![\\s\\S])")]
When = Annotated[str, Meta(min_length=1, max_length=100, pattern="^[^\\u0000]+(?![\\s\\S])")]
Moment = Annotated[str, Meta(max_length=100)]


class MemoryRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One thing that an agent remembers. `updatedAt` is ours; it is ignored when it is sent."""

    key: Key
    value: Value
    updated_at: Moment | None = None


class GoalRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that an agent wants; the highest priority comes first. A new one has no id."""

    id: Name | None = None
    description: Value
    status: Annotated[str, Meta(min_length=1, max_length=50, pattern="^[^\\u0000]+(?![\\s\\S])")] | None = None
    priority: Annotated[int, Meta(ge=-1000, le=1000)] | None = None


class PlanRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Something that an agent will be told later: once (`runAfter`, `scheduledAt`) or by `cron`, in `timeZone` or UTC.

    A new one has no id and exactly one of the three; one that is known keeps its time when none is given. What follows
    from that (`nextRunAt`, `lastRunAt`, `isRecurring`, `status`) is ours and is ignored when it is sent.
    """

    id: Name | None = None
    name: Key
    instruction: Instruction | None = None
    run_after: When | None = None
    scheduled_at: When | None = None
    cron: When | None = None
    time_zone: When | None = None
    next_run_at: Moment | None = None
    last_run_at: Moment | None = None
    is_recurring: bool | None = None
    status: Literal["active", "done"] | None = None


class Memories(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that an agent remembers, by key."""

    memories: list[MemoryRecord]


class Goals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All goals of an agent, the most important first."""

    goals: list[GoalRecord]


class Plans(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All plans of an agent, the oldest first."""

    plans: list[PlanRecord]


class ShownPlan(Struct, frozen=True, kw_only=True, rename="camel"):
    """A plan as it is kept."""

    id: str
    name: str
    instruction: str
    cron: str | None
    time_zone: str | None
    scheduled_at: Time | None
    next_run_at: Time | None
    last_run_at: Time | None
    is_recurring: bool
    status: Literal["active", "done"]


class ShownPlans(Struct, frozen=True, kw_only=True):
    """All plans of an agent, the oldest first."""

    plans: list[ShownPlan]


_memories = BodyReader(Memories)
_goals = BodyReader(Goals)
_plans = BodyReader(Plans)


class StateApi:
    """Handlers of an agent's memories, goals and plans."""

    def __init__(self, *, permissions: AgentPermissions, store: Store) -> None:
        self._permissions = permissions
        self._store = store

    async def show_memories(self, request: Request) -> Response:
        """What the agent remembers."""
        kept = await self._permissions.agent_in(request)
        found = await self._store.read(partial(agent_tx.memories, kept.id))
        return json_response({"memories": [memory_fields(memory) for memory in found]})

    async def put_memories(self, request: Request) -> Response:
        """These memories and no others."""
        body = await _memories.read(request)
        kept = await self._agent_to_change(request)
        pairs = [(memory.key, memory.value) for memory in body.memories]
        _check_names([key for key, _ in pairs], "key", "memories")
        _check_lengths([value for _, value in pairs], "memories")
        await self._store.write(partial(agent_tx.replace_memories, kept.id, pairs))
        return await self.show_memories(request)

    async def show_goals(self, request: Request) -> Response:
        """What the agent wants."""
        kept = await self._permissions.agent_in(request)
        found = await self._store.read(partial(agent_tx.goals, kept.id))
        return json_response({"goals": [goal_fields(goal) for goal in found]})

    async def put_goals(self, request: Request) -> Response:
        """These goals and no others."""
        body = await _goals.read(request)
        kept = await self._agent_to_change(request)
        drafts = [GoalDraft(**msgspec.structs.asdict(goal)) for goal in body.goals]
        _check_names([goal.id for goal in body.goals], "id", "goals")
        _check_lengths([goal.description for goal in body.goals], "goals")
        _refuse_unknown(await self._store.write(partial(agent_tx.replace_goals, kept.id, drafts)), "goals")
        return await self.show_goals(request)

    async def show_plans(self, request: Request) -> Response:
        """What the agent will be told later."""
        kept = await self._permissions.agent_in(request)
        found = await self._store.read(partial(agent_tx.plans, kept.id))
        return json_response({"plans": [plan_fields(plan) for plan in found]})

    async def put_plans(self, request: Request) -> Response:
        """These plans and no others."""
        body = await _plans.read(request)
        kept = await self._agent_to_change(request)
        _check_names([plan.id for plan in body.plans], "id", "plans")
        _check_lengths([plan.instruction or "" for plan in body.plans], "plans")
        known = {plan.id: plan for plan in await self._store.read(partial(agent_tx.plans, kept.id))}
        now = await self._store.now_ms()
        drafts = [_draft(number, plan, known=known, now=now) for number, plan in enumerate(body.plans)]
        _refuse_unknown(await self._store.write(partial(agent_tx.replace_plans, kept.id, drafts)), "plans")
        return await self.show_plans(request)

    async def _agent_to_change(self, request: Request) -> KeptAgent:
        """The agent that the path names. Whoever writes its state can have it act."""
        kept = await self._permissions.agent_in(request)
        self._permissions.require_may_act(request.principal, [kept.id], what=f"change the state of agent '{kept.id}'")
        return kept


def routes(*, permissions: AgentPermissions, store: Store) -> list[Route]:
    """Every route of agents' state."""
    api = StateApi(permissions=permissions, store=store)
    return [
        *_pair(
            "memories",
            Memories,
            Memories,
            show=api.show_memories,
            put=api.put_memories,
            says="what an agent remembers",
        ),
        *_pair("goals", Goals, Goals, show=api.show_goals, put=api.put_goals, says="what an agent wants"),
        *_pair(
            "plans",
            Plans,
            ShownPlans,
            show=api.show_plans,
            put=api.put_plans,
            says="what an agent will be told later",
        ),
    ]


def _pair(what: str, body: type, answer: type, *, show: Handler, put: Handler, says: str) -> tuple[Route, Route]:
    """The two routes of one part of an agent's state."""
    reading = Route(
        method="GET",
        path=f"/api/agents/{{id}}/{what}",
        handler=show,
        scope=SEES_SPACES,
        tag="Agents",
        summary=f"{says[0].upper()}{says[1:]}",
        responses={200: ResponseSpec(description="All of them", type=answer)},
        errors=(404,),
    )
    writing = Route(
        method="PUT",
        path=reading.path,
        handler=put,
        scope=HAS_INBOX,
        tag="Agents",
        summary=f"Replace {says}",
        body=body,
        responses={200: ResponseSpec(description="All of them as they are now", type=answer)},
        errors=(404,),
    )
    return reading, writing


def _draft(number: int, record: PlanRecord, *, known: dict[str, Plan], now: int) -> PlanDraft:
    sent = msgspec.to_builtins(record)
    raw: dict[str, Any] = {key: value for key, value in sent.items() if value is not None}
    before = known.get(record.id or "")
    if before is not None and not record.run_after:
        shown = plan_fields(before)
        if all(sent[key] in (None, shown[key]) for key in _WHEN if key in shown):
            raw = {key: value for key, value in raw.items() if key not in _WHEN}  # sent back as it was: not due again
    try:
        return plan_draft(raw, known=known, now=now)
    except BadRequest as fault:
        raise BadRequest(f"Plan '{record.name[:100]}': {fault.message}", param=f"plans[{number}]") from None


def _check_names(names: list[str | None] | list[str], what: str, where: str) -> None:
    if len(names) > MOST:
        raise BadRequest(f"These are {len(names):,} {where}; an agent has {MOST:,} at most. Send fewer.", param=where)
    given = [name for name in names if name is not None]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise BadRequest(f"Two of the {where} have the {what} '{twice[:100]}'. Send it once.", param=where)


def _check_lengths(texts: list[str], where: str) -> None:
    longest = max(map(len, texts), default=0)
    if longest > LONGEST_VALUE:
        said = f"One of the {where} has {longest:,} characters; {LONGEST_VALUE:,} are the most."
        raise BadRequest(f"{said} Shorten it.", param=where)


def _refuse_unknown(kept: object, what: str) -> None:
    if isinstance(kept, UnknownIds):
        ids = ", ".join(kept.ids)[:200]
        raise BadRequest(
            f"The agent has no {what} with these ids: {ids}. Leave the id out to make a new one.", param=what
        )
