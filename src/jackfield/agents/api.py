"""Agents: who there is, made and changed by administrators, and what their cycles came to.

Above: `routes_agents.py`. Below: the agents' book and the store. What they have in mind is in `minds.py`.
"""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from jackfield.agents import run_transactions as run_tx
from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import NEWEST, cycles_of_agent
from jackfield.agents.permissions import agent_in
from jackfield.agents.records import (
    AgentList,
    CyclePage,
    NewAgent,
    OneAgent,
    agent_record,
    changed,
    cycle_record,
    read_body,
    read_change,
)
from jackfield.agents.registry import settings_of
from jackfield.errors import BadRequest
from jackfield.http.bodies import read_object
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.model.agent_state import KeptAgent
from jackfield.model.ids import new_id
from jackfield.model.words import nearest
from jackfield.settings.types import AgentSettings
from jackfield.spaces.permissions import agents_of
from jackfield.spaces.records import Success


class CyclesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which cycles."""

    limit: Annotated[int, Meta(ge=1, le=200, description="How many cycles at most")] = 50
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,18}$", description="The `next_cursor` of the page before")] | None = (
        None
    )


async def list_agents(visit: Request) -> Response:
    """Every agent; for an agent's key itself."""
    store, own = visit.gateway.store, agents_of(visit.principal)
    last = await store.read(run_tx.last_cycles)
    shown = [kept for kept in await store.read(agent_tx.list_agents) if not own or kept.id in own]
    return json_response(AgentList(agents=[agent_record(kept, last.get(kept.id)) for kept in shown]))


async def show_agent(visit: Request) -> Response:
    """One agent."""
    return json_response(await _one(visit, await agent_in(visit)))


async def create_agent(visit: Request) -> Response:
    """A new agent, which wakes as soon as something arrives for it."""
    body = read_body(await read_object(visit))
    settings = changed(AgentSettings(), body)
    _check_model(visit, settings)
    kept = await visit.gateway.agents.create(body.id or new_id("agent"), settings)
    return json_response(NewAgent(agent=agent_record(kept, None), entity_id=kept.id), status=201)


async def change_agent(visit: Request) -> Response:
    """Other settings; from the next cycle on."""
    change = read_change(await read_object(visit))
    agents = visit.gateway.agents
    kept = await agents.kept(visit.part("id"))
    settings = changed(settings_of(kept), change)
    _check_model(visit, settings)
    return json_response(await _one(visit, await agents.change(kept.id, settings)))


async def delete_agent(visit: Request) -> Response:
    """An agent is gone, with its memories, goals and plans; what it said stays."""
    await visit.gateway.agents.remove(visit.part("id"))
    return json_response(Success())


async def list_cycles(visit: Request) -> Response:
    """What an agent did, cycle by cycle."""
    wanted = visit.query(CyclesQuery)
    kept = await agent_in(visit)
    before = NEWEST if wanted.cursor is None else int(wanted.cursor)
    cycles = await visit.gateway.store.read(partial(cycles_of_agent, kept.id, limit=wanted.limit + 1, before=before))
    shown = cycles[: wanted.limit]
    rest = str(shown[-1].number) if len(cycles) > wanted.limit else None
    return json_response(CyclePage(cycles=[cycle_record(cycle) for cycle in shown], next_cursor=rest))


async def _one(visit: Request, kept: KeptAgent) -> OneAgent:
    last = await visit.gateway.store.read(partial(cycles_of_agent, kept.id, limit=1))
    return OneAgent(agent=agent_record(kept, last[0] if last else None))


def _check_model(visit: Request, settings: AgentSettings) -> None:
    names = visit.gateway.models.names
    if settings.model is not None and settings.model not in names:
        known = f"Known: {', '.join(names)}." if names else "Add [models.NAME] to the config."
        said = f"There is no model '{settings.model}'."
        raise BadRequest(f"{said}{nearest(settings.model, list(names))} {known}", param="model")
