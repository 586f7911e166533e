"""A server's tool definitions as our tools, and a sentence for each that cannot be offered. Pure.

Definitions are foreign text: hidden characters are removed and reported, annotations are shown and not trusted.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.model.content import OF_THE_CONNECTION
from jackfield.model.tool import Tool, ToolKind
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.mcp import ParamHeader, declared_headers, header_fault
from jackfield.sources.base import Listing
from jackfield.sources.foreign import (
    MAX_DEFINITION,
    MAX_NAME,
    MAX_TOOLS,
    ListingRules,
    ToolAllowlist,
    Unremovable,
    UnusableTool,
    cleaned,
    cleaned_schema,
    has_hidden,
    shown,
)

_SUPPORT = ("required", "optional", "forbidden")


class _Hints(Struct, frozen=True):
    read_only: bool | None = msgspec.field(default=None, name="readOnlyHint")
    idempotent: bool | None = msgspec.field(default=None, name="idempotentHint")


class _Execution(Struct, frozen=True):
    task_support: Any = msgspec.field(default=None, name="taskSupport")


class _Named(Struct):
    name: str


class McpDefinition(Struct, frozen=True):
    """A tool as MCP spells it."""

    name: str
    input_schema: dict[str, Any] = msgspec.field(name="inputSchema")
    description: str | None = None
    title: str | None = None
    output_schema: dict[str, Any] | None = msgspec.field(default=None, name="outputSchema")
    annotations: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    execution: _Execution = _Execution()


_KNOWN = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"})


class McpListing(Struct, frozen=True, kw_only=True):
    """What a server offers, and what its calls need besides."""

    listing: Listing = Listing()
    headers: dict[str, tuple[ParamHeader, ...]] = {}
    """By tool: arguments that are sent as headers too."""


def mcp_listing(definitions: Sequence[Raw], rules: ListingRules) -> McpListing:
    """The tools of a server that may be offered."""
    tools: dict[str, Tool] = {}
    headers: dict[str, tuple[ParamHeader, ...]] = {}
    faults: list[str] = []
    allowed = ToolAllowlist(rules.allowed)
    for raw in definitions[:MAX_TOOLS]:
        try:
            definition = _parsed(raw)
            name = definition.name
            if not allowed.permits(name):
                continue
            if name in tools:
                raise UnusableTool(f"Tool {shown(name, most=MAX_NAME)} is offered twice; the first is used.")  # noqa: TRY301 - reported like the others
            tools[name] = _tool(definition, raw, rules)
            if found := declared_headers(definition.input_schema):
                headers[name] = found
            if has_hidden(msgspec.json.decode(raw)):
                faults.append(
                    f"Tool {shown(name, most=MAX_NAME)} has hidden characters in what it says of itself. They were "
                    "taken out; ask the server's owner why they are there."
                )
        except UnusableTool as fault:
            faults.append(str(fault))
    if len(definitions) > MAX_TOOLS:
        faults.append(f"The server offers {len(definitions):,} tools; the first {MAX_TOOLS:,} are used.")
    key = f"sources.{rules.source}.allowed_tools"
    faults += [
        f"{key} names '{pattern}', which the server does not offer. Correct or remove it."
        for pattern in allowed.unmatched()
    ]
    listing = Listing(tools=tuple(tools.values()), faults=tuple(faults))
    return McpListing(listing=listing, headers=headers)


def may_be_repeated(tool: Tool) -> bool:
    """Whether a call that the server refused unread may be sent again: the config, or the server itself, says so."""
    try:
        hints = msgspec.convert(tool.annotations, _Hints)
    except msgspec.ValidationError:
        hints = _Hints()
    return tool.metadata.idempotent or bool(hints.idempotent) or bool(hints.read_only)


def _parsed(raw: Raw) -> McpDefinition:
    if len(bytes(raw)) > MAX_DEFINITION:
        raise UnusableTool(f"A tool is left out: its definition has more than the {MAX_DEFINITION:,} bytes allowed.")
    try:
        msgspec.json.decode(raw)  # all of it: what is no field of ours is looked at later
        definition = msgspec.json.decode(raw, type=McpDefinition)
    except UNREADABLE as fault:
        raise UnusableTool(f"{_which(raw)} is left out: {fault}. Correct it at the server.") from None
    if not 0 < len(definition.name) <= MAX_NAME:
        raise UnusableTool(f"A tool is left out: its name does not have 1 to {MAX_NAME} characters.")
    return definition


def _which(raw: Raw) -> str:
    try:
        return f"Tool {shown(msgspec.json.decode(raw, type=_Named).name, most=MAX_NAME)}"
    except UNREADABLE:
        return "A tool"


def _tool(definition: McpDefinition, raw: Raw, rules: ListingRules) -> Tool:
    name = shown(definition.name, most=MAX_NAME)
    if (fault := header_fault(definition.input_schema)) is not None:
        raise UnusableTool(f"Tool {name} is left out: its schema {fault}. Correct it at the server.")
    try:
        input_schema = cleaned_schema(definition.input_schema)
        output_schema = None if definition.output_schema is None else cleaned_schema(definition.output_schema)
        annotations = cleaned_schema(definition.annotations or {})
        own_meta = {key: value for key, value in (definition.meta or {}).items() if key not in OF_THE_CONNECTION}
        meta = cleaned_schema(own_meta)
        passed_on = cleaned_schema(_unknown_members(raw))
    except (Unremovable, RecursionError):
        raise UnusableTool(
            f"Tool {name} is left out: hidden characters stand in the names or values of its schema. "
            "Ask the server's owner why."
        ) from None
    return Tool(
        source=rules.source,
        name=definition.name,
        title=None if definition.title is None else cleaned(definition.title),
        description=cleaned(definition.description or ""),
        input_schema=input_schema,
        output_schema=output_schema,
        kind=ToolKind.MCP,
        type="mcp",
        server=rules.server,
        timeout_ms=rules.timeout_ms,
        annotations=annotations,
        meta=meta,
        listed=passed_on,
        definition=raw,
        task_support=support if (support := definition.execution.task_support) in _SUPPORT else None,
    )


def _unknown_members(raw: Raw) -> dict[str, Any]:
    """Those of a definition that the gateway has no use for; a later revision may have more of them."""
    members = msgspec.json.decode(raw, type=dict[str, Raw])
    return {key: msgspec.json.decode(value) for key, value in members.items() if key not in _KNOWN}
