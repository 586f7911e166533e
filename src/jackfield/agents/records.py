"""How agents, their cycles and their inboxes look on the wire, and what is sent about agents. Pure.

Above: `api.py`. Below: the agents' settings. The credentials of an agent's own servers are not shown.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jackfield.agents.cycle_transactions import InboxEvent
from jackfield.agents.registry import settings_of
from jackfield.errors import BadRequest
from jackfield.http.request import Name
from jackfield.model.agent_state import AgentOrigin, Cycle, CycleStatus, KeptAgent
from jackfield.model.text import Time, iso_time
from jackfield.protocol.json_bodies import bad_value
from jackfield.settings.types import AgentSettings
from jackfield.spaces.records import SpaceId

AgentId = SpaceId
"""Ids of agents are as those of spaces: both appear in paths, scopes and logs."""
Words = Annotated[str, Meta(pattern="^[^\\u0000]*(?![\\s\\S])")]
LONGEST = 100_000
"""Characters of a description or of instructions."""


class AgentChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What is to be another; the rest stays. Lists and `mcp` are replaced as a whole. snake_case is taken too."""

    model: Name | UnsetType | None = UNSET
    name: Name | UnsetType | None = UNSET
    description: Words | UnsetType = UNSET
    instructions: Words | UnsetType = UNSET
    tools: tuple[Name, ...] | UnsetType = UNSET
    spaces: tuple[SpaceId, ...] | UnsetType = UNSET
    max_steps: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET
    timeout: Annotated[float, Meta(gt=0)] | UnsetType = UNSET
    context_tokens: Annotated[int, Meta(ge=1000)] | UnsetType = UNSET
    max_exchanges: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET
    search_tools_above: Annotated[int, Meta(ge=0)] | UnsetType | None = UNSET
    mcp: dict[str, Any] | UnsetType = UNSET


B = TypeVar("B", bound=AgentChange)


class AgentBody(AgentChange, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A new agent. Without an id it gets one. `configJson` is for clients of seed 003's era."""

    id: AgentId | None = None
    config_json: dict[str, Any] | str | None = None


class CycleRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """One wake-up of an agent: `open`, `done` or `failed`; `consumed` are the ids of the events it was about."""

    id: str
    number: int
    status: CycleStatus
    summary: str | None
    reason: str | None
    consumed: list[str]
    input_tokens: int
    output_tokens: int
    created_at: Time
    finished_at: Time | None


class CyclePage(Struct, frozen=True, kw_only=True):
    """Cycles, newest first. `next_cursor` is where the next page begins; null: this was the last."""

    cycles: list[CycleRecord]
    next_cursor: str | None


class OwnServer(Struct, frozen=True, kw_only=True, rename="camel"):
    """An MCP server of one agent."""

    name: str
    transport: str | None
    allowed_tools: list[str] | None


class AgentRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent, asleep or awake. `spaces` are those that it was given; it may have been made a member of others."""

    id: str
    entity_id: str
    name: str
    description: str
    model: str | None
    instructions: str
    tools: list[str]
    spaces: list[str]
    max_steps: int
    timeout: float
    context_tokens: int
    max_exchanges: int
    search_tools_above: int | None
    mcp_servers: list[OwnServer]
    origin: AgentOrigin
    owner: str | None
    """Who made it: with their logins it calls sources that want one. null: an administrator makes those."""
    enabled: bool
    status: Literal["asleep", "awake"]
    last_cycle: CycleRecord | None
    created_at: Time
    updated_at: Time


class OneAgent(Struct, frozen=True, kw_only=True):
    """An agent in its envelope."""

    agent: AgentRecord


class NewAgent(Struct, frozen=True, kw_only=True, rename="camel"):
    """An agent that was just made, and the name it goes by in spaces."""

    agent: AgentRecord
    entity_id: str


class AgentList(Struct, frozen=True, kw_only=True):
    """Every agent that the key may see, by id."""

    agents: list[AgentRecord]


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


def agent_record(kept: KeptAgent, last: Cycle | None) -> AgentRecord:
    settings = _settings(kept)
    return AgentRecord(
        id=kept.id,
        entity_id=kept.id,
        name=settings.name or kept.id,
        description=settings.description,
        model=settings.model,
        instructions=settings.instructions,
        tools=list(settings.tools),
        spaces=list(settings.spaces),
        max_steps=settings.max_steps,
        timeout=settings.timeout,
        context_tokens=settings.context_tokens,
        max_exchanges=settings.max_exchanges,
        search_tools_above=settings.search_tools_above,
        mcp_servers=[_server(server) for server in settings.mcp.get("servers", ()) if isinstance(server, dict)],
        origin=kept.origin,
        owner=kept.owner,
        enabled=kept.enabled,
        status="awake" if last is not None and last.status is CycleStatus.OPEN else "asleep",
        last_cycle=None if last is None else cycle_record(last),
        created_at=iso_time(kept.created_at),
        updated_at=iso_time(kept.updated_at),
    )


def inbox_event_record(event: InboxEvent) -> InboxEventRecord:
    return InboxEventRecord(
        event_id=event.event_id,
        type=event.type,
        timestamp=iso_time(event.created_at),
        data=event.data,
        status=event.status,
    )


def cycle_record(cycle: Cycle) -> CycleRecord:
    return CycleRecord(
        id=cycle.id,
        number=cycle.number,
        status=cycle.status,
        summary=cycle.summary,
        reason=cycle.reason,
        consumed=list(cycle.consumed),
        input_tokens=cycle.input_tokens,
        output_tokens=cycle.output_tokens,
        created_at=iso_time(cycle.created_at),
        finished_at=None if cycle.finished_at is None else iso_time(cycle.finished_at),
    )


def read_body(given: dict[str, Any]) -> AgentBody:
    """A new agent, in our own spelling or in that of seed 003's era."""
    body = _converted(given, AgentBody)
    if body.config_json is None:
        return body
    return _converted(_from_config_json(body.config_json) | {key: given[key] for key in given}, AgentBody)


def read_change(given: dict[str, Any]) -> AgentChange:
    return _converted(given, AgentChange)


def changed(settings: AgentSettings, change: AgentChange) -> AgentSettings:
    """The settings after a change."""
    given = {name: value for name in AgentChange.__struct_fields__ if (value := getattr(change, name)) is not UNSET}
    for name in ("description", "instructions"):
        if len(given.get(name, "")) > LONGEST:
            raise BadRequest(f"'{name}' has more than {LONGEST:,} characters. Shorten it.", param=name)
    return msgspec.structs.replace(settings, **given)


def _settings(kept: KeptAgent) -> AgentSettings:
    """What is kept of it; one that another version of ours wrote and this one cannot read is shown by its id."""
    try:
        return settings_of(kept)
    except msgspec.ValidationError:
        return AgentSettings()


def _server(server: dict[str, Any]) -> OwnServer:
    allowed = server.get("allowedTools", server.get("allowed_tools"))
    return OwnServer(
        name=str(server.get("name", "")),
        transport=server.get("transport"),
        allowed_tools=None if allowed is None else [str(name) for name in allowed],
    )


def _converted(given: dict[str, Any], into: type[B]) -> B:
    spelling = {field.name: field.encode_name for field in msgspec.structs.fields(into)}
    respelled: dict[str, Any] = {}
    for key, value in given.items():
        name = spelling.get(key, key)
        if name in respelled:
            raise BadRequest(f"The body has '{name}' twice, in both spellings. Send one.", param=name)
        respelled[name] = value
    try:
        return msgspec.convert(respelled, into)
    except msgspec.ValidationError as fault:
        raise bad_value(fault, what="The body", into=into) from None


def _from_config_json(config: dict[str, Any] | str) -> dict[str, Any]:
    """The fields of seed 003's era that say the same as ours; others are left alone."""
    if isinstance(config, str):
        try:
            config = msgspec.json.decode(config, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            raise BadRequest("'configJson' is not a JSON object. Correct it.", param="configJson") from None
    about = config.get("agent")
    told = {**(about if isinstance(about, dict) else {}), **config}
    found: dict[str, Any] = {}
    instructions = next((told[key] for key in ("instructions", "systemPrompt", "system") if key in told), None)
    if instructions is not None:
        found["instructions"] = instructions
    model = told.get("model")
    if isinstance(model, dict):
        model = model.get("name", model.get("model"))
    if model is not None:
        found["model"] = model
    if "tools" in config:
        tools = config["tools"] or []
        found["tools"] = [_tool_name(tool) for tool in tools] if isinstance(tools, list) else tools
    return found | {key: config[key] for key in ("mcp", "spaces") if key in config}


def _tool_name(tool: object) -> object:
    if not isinstance(tool, dict):
        return tool
    if set(tool) != {"name"}:
        raise BadRequest(
            "A tool in 'configJson' is described there. Declare it with POST /api/v1/tools, and give its name here.",
            param="configJson.tools",
        )
    return tool["name"]
