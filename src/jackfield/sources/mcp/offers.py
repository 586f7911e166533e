"""A server's resources, templates and prompts as a source offers them, and a sentence for each that cannot be. Pure.

Definitions are foreign text, passed on as they are but for hidden characters. Their number and size are bounded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from jackfield.model.content import OF_THE_CONNECTION
from jackfield.model.resource import REPEATABLE, SCHEME, Resource
from jackfield.model.tool import CallKind, JsonSchema, Tool, ToolKind
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.sources.base import Listing
from jackfield.sources.foreign import (
    MAX_DEFINITION,
    MAX_NAME,
    MAX_URI,
    ListingRules,
    Unremovable,
    UnusableTool,
    cleaned,
    cleaned_schema,
    has_hidden,
    is_plain,
    shown,
)

T = TypeVar("T")
MAX_OFFERS = 20_000
"""Resources or prompts of one server."""
MAX_TEMPLATES = 1_000
"""Fewer, because a URI that is not listed is held against each of them."""
MAX_TEMPLATE = 2_000
"""Bytes of a template: what it is pinned by has to fit into an index of any database."""
MAX_ARGUMENTS = 100
MAX_FAULTS = 50
_TEXTS = ("title", "description")


def resources_of(definitions: Sequence[Raw], rules: ListingRules) -> tuple[tuple[Resource, ...], list[str]]:
    """Those that can be offered, and what is wrong with the others."""

    def made(raw: Raw) -> tuple[str, Resource]:
        listed = _parsed(raw, "resource", key="uri", longest=MAX_URI)
        uri = listed["uri"]
        if uri.startswith(SCHEME):
            raise UnusableTool(f"Resource {shown(uri)} is left out: URIs that begin with {SCHEME} are the gateway's.")
        return uri, Resource(source=rules.source, uri=uri, listed=listed)

    return _collected(definitions, made, "resource")


def templates_of(definitions: Sequence[Raw], rules: ListingRules) -> tuple[tuple[Tool, ...], list[str]]:
    """Those that can be offered, and what is wrong with the others."""

    def made(raw: Raw) -> tuple[str, Tool]:
        listed = _parsed(raw, "resource template", key="uriTemplate", longest=MAX_URI)
        if len(listed["uriTemplate"].encode()) > MAX_TEMPLATE:
            said = f"Resource template {shown(listed['uriTemplate'])} is left out"
            raise UnusableTool(f"{said}: it has more than the {MAX_TEMPLATE:,} bytes allowed.")
        if listed["uriTemplate"].startswith(SCHEME):
            said = f"Resource template {shown(listed['uriTemplate'])} is left out"
            raise UnusableTool(f"{said}: URIs that begin with {SCHEME} are the gateway's.")
        return listed["uriTemplate"], _offer(listed, listed["uriTemplate"], raw, rules, operation=CallKind.RESOURCE)

    return _collected(definitions, made, "resource template", most=MAX_TEMPLATES)


def prompts_of(definitions: Sequence[Raw], rules: ListingRules) -> tuple[tuple[Tool, ...], list[str]]:
    """Those that can be offered, and what is wrong with the others."""

    def made(raw: Raw) -> tuple[str, Tool]:
        listed = _parsed(raw, "prompt", key="name", longest=MAX_NAME)
        schema = _schema(listed.get("arguments"), listed["name"])
        return listed["name"], _offer(listed, listed["name"], raw, rules, operation=CallKind.PROMPT, schema=schema)

    return _collected(definitions, made, "prompt")


def _collected(
    definitions: Sequence[Raw], made: Callable[[Raw], tuple[str, T]], what: str, *, most: int = MAX_OFFERS
) -> tuple[tuple[T, ...], list[str]]:
    found: dict[str, T] = {}
    faults: list[str] = []
    for raw in definitions[:most]:
        try:
            key, offer = made(raw)
        except UnusableTool as fault:
            faults.append(str(fault))
            continue
        if key in found:
            faults.append(f"{what.capitalize()} {shown(key)} is listed twice; the first is used.")
        else:
            found[key] = offer
    if len(definitions) > most:
        faults.insert(0, f"The server lists more than {most:,} {what}s; the first {most:,} are used.")
    return tuple(found.values()), faults


def _parsed(raw: Raw, what: str, *, key: str, longest: int) -> dict[str, Any]:
    """The definition without hidden characters. Raises `UnusableTool`."""
    if len(bytes(raw)) > MAX_DEFINITION:
        raise UnusableTool(f"A {what} is left out: its definition has more than the {MAX_DEFINITION:,} bytes allowed.")
    try:
        definition = msgspec.json.decode(raw, type=dict[str, Any])
    except UNREADABLE as fault:
        raise UnusableTool(f"A {what} is left out: {fault}. Correct it at the server.") from None
    name = definition.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= longest:
        raise UnusableTool(f"A {what} is left out: its '{key}' is not a string of 1 to {longest:,} characters.")
    if not is_plain(name):
        raise UnusableTool(f"{what.capitalize()} {shown(name)} is left out: its '{key}' has control characters.")
    meta = definition.get("_meta")
    if isinstance(meta, dict):
        definition["_meta"] = {key: value for key, value in meta.items() if key not in OF_THE_CONNECTION}
    return _without_hidden(definition, name, what) if has_hidden(definition) else definition


def _without_hidden(definition: dict[str, Any], name: str, what: str) -> dict[str, Any]:
    try:
        return {
            **cleaned_schema({key: value for key, value in definition.items() if key not in _TEXTS}),
            **{key: cleaned(definition[key]) for key in _TEXTS if isinstance(definition.get(key), str)},
        }
    except (Unremovable, RecursionError):
        raise UnusableTool(
            f"{what.capitalize()} {shown(name)} is left out: its definition has hidden characters. "
            "Ask the server's owner why."
        ) from None


def _offer(
    listed: dict[str, Any],
    name: str,
    raw: Raw,
    rules: ListingRules,
    *,
    operation: CallKind,
    schema: JsonSchema | None = None,
) -> Tool:
    title, description = listed.get("title"), listed.get("description")
    return Tool(
        source=rules.source,
        name=name,
        title=title if isinstance(title, str) else None,
        description=description if isinstance(description, str) else "",
        input_schema=schema or {"type": "object"},
        kind=ToolKind.MCP,
        type="mcp",
        server=rules.server,
        timeout_ms=rules.timeout_ms,
        definition=raw,
        metadata=REPEATABLE,
        operation=operation,
        listed=listed,
    )


def _schema(arguments: Any, prompt: str) -> JsonSchema:
    """The arguments of a prompt as JSON Schema: all are strings."""
    declared: Iterable[Any] = arguments if isinstance(arguments, list) else ()
    named = [one for one in declared if isinstance(one, dict) and isinstance(one.get("name"), str)]
    if len(named) > MAX_ARGUMENTS:
        raise UnusableTool(f"Prompt {shown(prompt)} is left out: it has more than {MAX_ARGUMENTS} arguments.")
    return {
        "type": "object",
        "properties": {one["name"]: _property(one) for one in named},
        "required": [one["name"] for one in named if one.get("required") is True],
    }


def _property(argument: dict[str, Any]) -> JsonSchema:
    described = argument.get("description")
    return {"type": "string", "description": described} if isinstance(described, str) else {"type": "string"}


def with_offers(listing: Listing, offered: Mapping[str, list[Raw]], rules: ListingRules, *, reads: bool) -> Listing:
    """The listing of a server's tools, with its resources, templates and prompts. `reads`: it has resources."""
    resources, first = resources_of(offered.get("resources", []), rules)
    templates, second = templates_of(offered.get("resourceTemplates", []), rules)
    prompts, third = prompts_of(offered.get("prompts", []), rules)
    faults = [*first, *second, *third]
    if len(faults) > MAX_FAULTS:
        faults = [*faults[:MAX_FAULTS], f"{len(faults) - MAX_FAULTS:,} more of its resources and prompts are left out."]
    return replace(
        listing,
        resources=resources,
        templates=templates,
        prompts=prompts,
        reads_unlisted=reads,
        read_timeout_ms=rules.timeout_ms,
        faults=(*listing.faults, *faults),
    )
