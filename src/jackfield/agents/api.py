"""Handlers of agents, what their cycles came to, and their inboxes.

Above: `gateway/routes.py`. Below: the registry and the store. Results of calls arrive in an inbox by themselves, when
they are settled. An agent's memories, goals and plans are in `state_api.py`.
"""

import uuid
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import NEWEST, cycles_of_agent, inbox_page, push_event
from jackfield.agents.permissions import AgentPermissions
from jackfield.agents.records import (
    AgentBody,
    AgentChange,
    AgentList,
    CyclePage,
    InboxPage,
    InboxQuery,
    NewAgent,
    OneAgent,
    TriggerBody,
    Triggered,
    agent_record,
    changed,
    cycle_record,
    inbox_event_record,
    read_body,
    read_change,
)
from jackfield.agents.registry import AgentRegistry, settings_of
from jackfield.agents.transactions import last_cycles
from jackfield.errors import AgentNotFound, BadRequest, Forbidden, NotFound
from jackfield.http.bodies import BodyReader, read_object
from jackfield.http.request import Name, Request
from jackfield.http.response import Response, encode, json_response
from jackfield.http.routing import HAS_INBOX, SEES_SPACES, ResponseSpec, Route
from jackfield.identity.keys import Keyring
from jackfield.llm.models import Models
from jackfield.model.agent_state import KeptAgent
from jackfield.model.ids import new_id
from jackfield.model.principal import Scope
from jackfield.model.text import nearest
from jackfield.settings.types import AgentSettings
from jackfield.spaces.permissions import agents_of
from jackfield.spaces.records import Success
from jackfield.store import Store

MOST_PAYLOAD = 256 * 1024
"""Characters of one service's event. A cycle reads all that has arrived at once; a model is told far less of each."""


class CyclesQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which cycles."""

    limit: Annotated[int, Meta(ge=1, le=200, description="How many cycles at most")] = 50
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,18}$", description="The `next_cursor` of the page before")] | None = (
        None
    )


_trigger = BodyReader(TriggerBody)


class AgentApi:
    """Handlers of `/api/agents`."""

    def __init__(
        self,
        agents: AgentRegistry,
        *,
        permissions: AgentPermissions,
        models: Models,
        keyring: Keyring,
        store: Store,
    ) -> None:
        self._agents = agents
        self._permissions = permissions
        self._models = models
        self._keyring = keyring
        self._store = store

    async def show_inbox(self, request: Request) -> Response:
        """A page of the agent's events, the oldest first."""
        wanted = request.query(InboxQuery)
        agent = _agent(request)
        principal = request.principal
        if not ((principal.is_admin and principal.reaches_agent(agent)) or agent in principal.named("agent")):
            raise Forbidden(
                f"The inbox of '{agent}' is read with the scope 'agent:{agent}' alone. Use that agent's key."
            )
        events, rest = await self._store.read(
            partial(inbox_page, agent, status=wanted.status or None, limit=wanted.limit, after=int(wanted.cursor or 0))
        )
        shown = [inbox_event_record(event) for event in events]
        return json_response(InboxPage(events=shown, next_cursor=None if rest is None else str(rest)))

    async def trigger_agent(self, request: Request) -> Response:
        """Put a `service` event into the agent's inbox."""
        body = await _trigger.read(request)
        agent = _agent(request)
        if not request.principal.may_act_as(agent):
            raise Forbidden(f"Key '{request.principal.name}' may not speak to agent '{agent}'. Use another key.")
        if not await self._is_known(agent):
            raise _nobody(agent)
        self._permissions.require_may_act(request.principal, [agent], what=f"trigger agent '{agent}'")
        event_id = f"svc:{uuid.uuid4()}"
        data = encode({"serviceName": body.service_name, "payload": body.payload}).decode()
        if len(data) > MOST_PAYLOAD:
            said = f"The payload has more than {MOST_PAYLOAD:,} characters as JSON."
            raise BadRequest(f"{said} Send a reference to it instead.", param="payload")
        await self._store.write(partial(push_event, agent, event_id=event_id, type="service", data=data))
        return json_response(Triggered(agent_entity_id=agent, event_id=event_id))

    async def _is_known(self, agent: str) -> bool:
        """Whether somebody reads this inbox: an agent of this gateway, or a program that has the agent's key."""
        if self._agents.get(agent) is not None or self._keyring.acts_as(agent):
            return True
        return await self._store.read(partial(agent_tx.get_agent, agent)) is not None

    async def list_agents(self, request: Request) -> Response:
        """Every agent; for an agent's key itself."""
        own = agents_of(request.principal)
        last = await self._store.read(last_cycles)
        reached = request.principal.reaches_agent
        shown = [
            kept
            for kept in await self._store.read(agent_tx.list_agents)
            if (not own or kept.id in own) and reached(kept.id)
        ]
        return json_response(AgentList(agents=[agent_record(kept, last.get(kept.id)) for kept in shown]))

    async def show_agent(self, request: Request) -> Response:
        """One agent."""
        return json_response(await self._one(await self._permissions.agent_in(request)))

    async def create_agent(self, request: Request) -> Response:
        """A new agent, which wakes as soon as something arrives for it."""
        body = read_body(await read_object(request))
        settings = changed(AgentSettings(), body)
        self._check_model(settings)
        owner = request.principal.on_record
        kept = await self._agents.create(body.id or new_id("agent"), settings, owner=owner)
        return json_response(NewAgent(agent=agent_record(kept, None), entity_id=kept.id), status=201)

    async def change_agent(self, request: Request) -> Response:
        """Other settings; from the next cycle on."""
        change = read_change(await read_object(request))
        kept = await self._agents.kept(request.part("id"))
        settings = changed(settings_of(kept), change)
        self._check_model(settings)
        return json_response(await self._one(await self._agents.change(kept.id, settings)))

    async def delete_agent(self, request: Request) -> Response:
        """An agent is gone, with its memories, goals and plans; what it said stays."""
        await self._agents.remove(request.part("id"))
        return json_response(Success())

    async def list_cycles(self, request: Request) -> Response:
        """What an agent did, cycle by cycle."""
        wanted = request.query(CyclesQuery)
        kept = await self._permissions.agent_in(request)
        before = NEWEST if wanted.cursor is None else int(wanted.cursor)
        cycles = await self._store.read(partial(cycles_of_agent, kept.id, limit=wanted.limit + 1, before=before))
        shown = cycles[: wanted.limit]
        rest = str(shown[-1].number) if len(cycles) > wanted.limit else None
        return json_response(CyclePage(cycles=[cycle_record(cycle) for cycle in shown], next_cursor=rest))

    async def _one(self, kept: KeptAgent) -> OneAgent:
        last = await self._store.read(partial(cycles_of_agent, kept.id, limit=1))
        return OneAgent(agent=agent_record(kept, last[0] if last else None))

    def _check_model(self, settings: AgentSettings) -> None:
        names = self._models.names
        if settings.model is not None and settings.model not in names:
            known = f"Known: {', '.join(names)}." if names else "Add [models.NAME] to the config."
            said = f"There is no model '{settings.model}'."
            raise BadRequest(f"{said}{nearest(settings.model, list(names))} {known}", param="model")


def routes(
    agents: AgentRegistry, *, permissions: AgentPermissions, models: Models, keyring: Keyring, store: Store
) -> list[Route]:
    """Every route of agents and their inboxes; those of their state are in `state_api.py`."""
    api = AgentApi(agents, permissions=permissions, models=models, keyring=keyring, store=store)
    return [
        Route(
            method="GET",
            path="/api/agents/{id}/inbox",
            handler=api.show_inbox,
            scope=HAS_INBOX,
            tag="Agents",
            summary="What an agent has been told, the oldest first",
            query=InboxQuery,
            responses={200: ResponseSpec(description="A page of events", type=InboxPage)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/agents/{id}/trigger",
            handler=api.trigger_agent,
            scope=Scope.CALL,
            tag="Agents",
            summary="Tell an agent something, in a service's name",
            body=TriggerBody,
            responses={200: ResponseSpec(description="The event is in the inbox", type=Triggered)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/api/agents",
            handler=api.list_agents,
            scope=SEES_SPACES,
            tag="Agents",
            summary="Every agent, asleep or awake",
            responses={200: ResponseSpec(description="The agents, by id", type=AgentList)},
        ),
        Route(
            method="POST",
            path="/api/agents",
            handler=api.create_agent,
            scope=Scope.ADMIN,
            tag="Agents",
            summary="Make an agent",
            body=AgentBody,
            responses={201: ResponseSpec(description="The agent", type=NewAgent)},
            errors=(409,),
        ),
        Route(
            method="GET",
            path="/api/agents/{id}",
            handler=api.show_agent,
            scope=SEES_SPACES,
            tag="Agents",
            summary="One agent",
            responses={200: ResponseSpec(description="The agent", type=OneAgent)},
            errors=(404,),
        ),
        Route(
            method="PATCH",
            path="/api/agents/{id}",
            handler=api.change_agent,
            scope=Scope.ADMIN,
            tag="Agents",
            summary="Change an agent that was made here; one of the config is changed there",
            body=AgentChange,
            responses={200: ResponseSpec(description="The agent as it is now", type=OneAgent)},
            errors=(404, 409),
        ),
        Route(
            method="DELETE",
            path="/api/agents/{id}",
            handler=api.delete_agent,
            scope=Scope.ADMIN,
            tag="Agents",
            summary="Delete an agent with all its state",
            responses={200: ResponseSpec(description="It is gone", type=Success)},
            errors=(404, 409),
        ),
        Route(
            method="GET",
            path="/api/agents/{id}/cycles",
            handler=api.list_cycles,
            scope=SEES_SPACES,
            tag="Agents",
            summary="What an agent did each time it woke, newest first",
            query=CyclesQuery,
            responses={200: ResponseSpec(description="A page of cycles", type=CyclePage)},
            errors=(404,),
        ),
    ]


def _nobody(agent: str) -> AgentNotFound:
    return AgentNotFound(
        f"There is no agent '{agent[:100]}', and no key with the scope 'agent:{agent[:100]}'. "
        "GET /api/agents lists the agents.",
        param="id",
    )


def _agent(request: Request) -> str:
    """The agent in the path, if that can be one's name at all."""
    try:
        return msgspec.convert(request.part("id"), Name)
    except msgspec.ValidationError:
        raise NotFound(
            "An agent's id has at most 255 characters and no control characters. Correct it.", param="id"
        ) from None
