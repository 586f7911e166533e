"""Resources and prompts for models: the built-in tools `read_resource` and `get_prompt`.

Above: whoever makes a run's tools. Below: the catalog's views. A call of one of them is a call of what it names: found
when it is made, decided, executed and recorded by the pipeline as a read or a get, like those of `/mcp`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.globs import EVERYTHING
from jackfield.catalog.merge import named_entry
from jackfield.errors import InvalidArguments
from jackfield.model.principal import Principal
from jackfield.model.tool import BUILTIN, GET_PROMPT, READ_RESOURCE, Tool
from jackfield.runs.tools import OfferedTool, Target

MOST_LISTED = 20
"""Resources, templates or prompts that a description names."""
LONGEST_LISTED = 160
LONGEST_URI = 4_096


class ReadArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `read_resource`."""

    uri: Annotated[str, Meta(min_length=1, max_length=LONGEST_URI)]


class GetArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `get_prompt`."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    arguments: dict[str, Any] = {}


READ_ENTRY = named_entry(
    READ_RESOURCE,
    Tool(
        source=BUILTIN,
        name=READ_RESOURCE,
        description="Read a resource by its URI.",
        input_schema={
            "type": "object",
            "properties": {"uri": {"type": "string", "description": "The URI of the resource"}},
            "required": ["uri"],
            "additionalProperties": False,
        },
        annotations={"readOnlyHint": True},
    ),
)
GET_ENTRY = named_entry(
    GET_PROMPT,
    Tool(
        source=BUILTIN,
        name=GET_PROMPT,
        description="Get the messages of a prompt by its name.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The name of the prompt"},
                "arguments": {"type": "object", "description": "The prompt's own arguments, as strings"},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        annotations={"readOnlyHint": True},
    ),
)


def reading_tools(
    catalog: Catalog, principal: Principal, *, label: str = BUILTIN, within: tuple[str, ...] | None = None
) -> tuple[OfferedTool, ...]:
    """`read_resource` and `get_prompt`, each if this principal sees anything that it could be used for.

    `within` are patterns of what a request, or an agent's settings, mean: `source:*`, or the names of prompts.
    """
    view, prompts = catalog.resources(principal, within=within), catalog.prompts(principal, within=within).entries
    tools = []
    if view.resources or view.templates:
        listed = (_said(one.uri, one.listed) for one in view.resources)
        shaped = (_said(one.template, one.tool.listed) for one in view.templates)
        about = [READ_ENTRY.tool.description, _named("Resources", listed, len(view.resources))]
        about.append(_named("Templates, to be filled in", shaped, len(view.templates)))
        tools.append(_offered(READ_ENTRY, about, label, partial(_resource_target, catalog, principal, within)))
    if prompts:
        about = [GET_ENTRY.tool.description, _named("Prompts", map(_prompt, prompts), len(prompts))]
        tools.append(_offered(GET_ENTRY, about, label, partial(_prompt_target, catalog, principal, within)))
    return tuple(tools)


async def reading_tools_within(
    catalog: Catalog, principal: Principal, patterns: Sequence[str], *, label: str
) -> tuple[OfferedTool, ...]:
    """`reading_tools` for the patterns of a request."""
    if EVERYTHING in patterns:
        return reading_tools(catalog, principal, label=label)
    within = tuple(patterns)
    await catalog.find_resources(principal, within=within)
    return reading_tools(catalog, principal, label=label, within=within)


def _resource_target(
    catalog: Catalog, principal: Principal, within: tuple[str, ...] | None, arguments: dict[str, object]
) -> Target:
    wanted = _converted(arguments, ReadArguments, READ_RESOURCE)
    return Target(catalog.resources(principal, within=within).find(wanted.uri), {"uri": wanted.uri})


def _prompt_target(
    catalog: Catalog, principal: Principal, within: tuple[str, ...] | None, arguments: dict[str, object]
) -> Target:
    wanted = _converted(arguments, GetArguments, GET_PROMPT)
    return Target(catalog.prompts(principal, within=within).get(wanted.name), wanted.arguments)


def _converted(arguments: dict[str, object], into: Any, name: str) -> Any:
    try:
        return msgspec.convert(arguments, into)
    except msgspec.ValidationError as fault:
        details = [{"path": "", "message": str(fault)}]
        raise InvalidArguments(f"Tool '{name}' cannot take these arguments: {fault}.", details=details) from None


def _offered(
    entry: Entry, about: Sequence[str], label: str, target: Callable[[dict[str, object]], Target]
) -> OfferedTool:
    return OfferedTool(
        name=entry.name,
        description=" ".join(filter(None, about)),
        parameters=entry.tool.input_schema,
        entry=entry,
        label=label,
        bare_name=entry.name,
        is_private=True,
        is_own=True,
        defers=False,
        target=target,
    )


def _named(what: str, listed: Iterable[str], count: int) -> str:
    if not count:
        return ""
    more = f"; and {count - MOST_LISTED:,} more" if count > MOST_LISTED else ""
    return f"{what}: {'; '.join(islice(listed, MOST_LISTED))}{more}."


def _said(uri: str, listed: dict[str, Any]) -> str:
    words = listed.get("description") or listed.get("title") or listed.get("name")
    said = f"{uri} ({' '.join(words.split())})" if isinstance(words, str) and words.strip() else uri
    return said if len(said) <= LONGEST_LISTED else f"{said[:LONGEST_LISTED]}…"


def _prompt(entry: Entry) -> str:
    names = ", ".join(str(name) for name in entry.tool.input_schema.get("properties", {}))
    return _said(f"{entry.name}({names})", {"description": entry.tool.description})
