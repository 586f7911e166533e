"""An agent's inbox, and the door by which services put something into it.

Above: `routes.py`. Below: the store. Results of calls arrive by themselves, when they are settled.
"""

import uuid
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import inbox_page, push_event
from jackfield.agents.permissions import permissions_of
from jackfield.errors import AgentNotFound, BadRequest, Forbidden, NotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Name, Request
from jackfield.http.response import Response, encode, json_response
from jackfield.model.times import Time, iso_time

MOST_PAYLOAD = 256 * 1024
"""Characters of one service's event. A cycle reads all that has arrived at once; a model is told far less of each."""


class InboxQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events to show; without a status all."""

    status: Literal["pending", "processing", "processed"] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=500, description="How many events at most")] = 100
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,18}$", description="The `next_cursor` of the page before")] | None = (
        None
    )


class InboxEventRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that the agent should know: `tool_result`, `space_message`, `plan` or `service`."""

    event_id: str
    type: str
    timestamp: Time
    data: Raw
    status: str


class InboxPage(Struct, frozen=True, kw_only=True):
    """Events in the order they came. `next_cursor` is where the next page begins; null: this was the last."""

    events: list[InboxEventRecord]
    next_cursor: str | None


class TriggerBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What a service has to say to an agent."""

    service_name: Name
    payload: Any = None


class Triggered(Struct, frozen=True, kw_only=True, rename="camel"):
    """The event is in the inbox."""

    success: Literal[True] = True
    agent_entity_id: str
    event_id: str


_trigger = BodyReader(TriggerBody)


async def show_inbox(visit: Request) -> Response:
    """A page of the agent's events, the oldest first."""
    wanted = visit.query(InboxQuery)
    agent = _agent(visit)
    if not (visit.principal.is_admin or agent in visit.principal.named("agent")):
        raise Forbidden(f"The inbox of '{agent}' is read with the scope 'agent:{agent}' alone. Use that agent's key.")
    events, rest = await visit.gateway.store.read(
        partial(inbox_page, agent, status=wanted.status or None, limit=wanted.limit, after=int(wanted.cursor or 0))
    )
    shown = [
        InboxEventRecord(
            event_id=event.event_id,
            type=event.type,
            timestamp=iso_time(event.created_at),
            data=event.data,
            status=event.status,
        )
        for event in events
    ]
    return json_response(InboxPage(events=shown, next_cursor=None if rest is None else str(rest)))


async def trigger_agent(visit: Request) -> Response:
    """Put a `service` event into the agent's inbox."""
    body = await _trigger.read(visit)
    agent = _agent(visit)
    if not visit.principal.may_act_as(agent):
        raise Forbidden(f"Key '{visit.principal.name}' may not speak to agent '{agent}'. Use another key.")
    if not await _is_known(visit, agent):
        raise _nobody(agent)
    permissions_of(visit).require_may_act(visit.principal, [agent], what=f"trigger agent '{agent}'")
    event_id = f"svc:{uuid.uuid4()}"
    data = encode({"serviceName": body.service_name, "payload": body.payload}).decode()
    if len(data) > MOST_PAYLOAD:
        said = f"The payload has more than {MOST_PAYLOAD:,} characters as JSON."
        raise BadRequest(f"{said} Send a reference to it instead.", param="payload")
    await visit.gateway.store.write(partial(push_event, agent, event_id=event_id, type="service", data=data))
    return json_response(Triggered(agent_entity_id=agent, event_id=event_id))


async def _is_known(visit: Request, agent: str) -> bool:
    """Whether somebody reads this inbox: an agent that lives here, or a program outside that has the agent's key."""
    gateway = visit.gateway
    if gateway.agents.get(agent) is not None or gateway.keyring.acts_as(agent):
        return True
    return await gateway.store.read(partial(agent_tx.get_agent, agent)) is not None


def _nobody(agent: str) -> AgentNotFound:
    return AgentNotFound(
        f"There is no agent '{agent[:100]}', and no key with the scope 'agent:{agent[:100]}'. "
        "GET /api/agents lists the agents.",
        param="id",
    )


def _agent(visit: Request) -> str:
    """The agent in the path, if that can be one's name at all."""
    try:
        return msgspec.convert(visit.part("id"), Name)
    except msgspec.ValidationError:
        raise NotFound(
            "No agent's id has control characters or more than 255 of any. Correct it.", param="id"
        ) from None
