"""Resources and prompts for models: the built-in tools `read_resource` and `get_prompt`.

Above: whoever makes a run's tools. Below: the catalog's views. A call of one of them is a call of what it names: found
when it is made, decided, executed and recorded by the pipeline as a read or a get, like those of `/mcp`.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.globs import compiled
from jackfield.catalog.merge import named_entry
from jackfield.errors import InvalidArguments, PromptNotFound, ResourceNotFound, ToolNotFound
from jackfield.model.principal import Principal
from jackfield.model.tool import BUILTIN, GET_PROMPT, READ_RESOURCE, Tool
from jackfield.runs.tools import OfferedTool, Target

MOST_LISTED = 20
"""Resources, templates or prompts that a description names."""
LONGEST_LISTED = 160
LONGEST_URI = 4_096

Covers = Callable[[str, str, str], bool]
"""Whether a resource or prompt is meant: its public name (a resource has none), its source, its name there."""


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
    catalog: Catalog, principal: Principal, *, label: str = BUILTIN, covers: Covers | None = None
) -> tuple[OfferedTool, ...]:
    """`read_resource` and `get_prompt`, each if this principal sees anything that it could be used for.

    `covers` leaves out what a request, or an agent's settings, do not mean.
    """
    view = catalog.resources(principal)
    resources, templates, prompts = view.resources, view.templates, catalog.prompts(principal).entries
    if covers is not None:
        resources = tuple(one for one in resources if covers("", one.source, one.own_uri))
        templates = tuple(one for one in templates if covers("", one.source, one.own_template))
        prompts = tuple(one for one in prompts if covers(one.name, one.tool.source, one.tool.name))
    tools = []
    if resources or templates:
        listed = (_said(one.uri, one.listed) for one in resources)
        shaped = (_said(one.template, one.tool.listed) for one in templates)
        about = [READ_ENTRY.tool.description, _named("Resources", listed, len(resources))]
        about.append(_named("Templates, to be filled in", shaped, len(templates)))
        tools.append(_offered(READ_ENTRY, about, label, _resource_target(catalog, principal, covers)))
    if prompts:
        about = [GET_ENTRY.tool.description, _named("Prompts", map(_prompt, prompts), len(prompts))]
        tools.append(_offered(GET_ENTRY, about, label, _prompt_target(catalog, principal, covers)))
    return tuple(tools)


def covered_by(patterns: Sequence[str]) -> Covers | None:
    """What these patterns mean: `source:*` its resources and prompts, a plain one prompts by their names."""
    if "*" in patterns:
        return None
    wanted = compiled(tuple(patterns))
    return lambda name, source, foreign: wanted.match(name, source=source, foreign=foreign)


def find_resource(catalog: Catalog, principal: Principal, uri: str, *, covers: Covers | None = None) -> Entry:
    """What a call that reads this URI uses. Raises `ResourceNotFound`, also for what is not covered."""
    entry = catalog.resources(principal).find(uri)
    if covers is not None and not covers("", entry.tool.source, entry.tool.name):
        raise ResourceNotFound(f"There is no resource '{uri[:200]}' among those that can be read here.")
    return entry


def _resource_target(catalog: Catalog, principal: Principal, covers: Covers | None) -> Callable[[Any], Target]:
    def target(arguments: dict[str, object]) -> Target:
        wanted = _converted(arguments, ReadArguments, READ_RESOURCE)
        return Target(find_resource(catalog, principal, wanted.uri, covers=covers), {"uri": wanted.uri})

    return target


def _prompt_target(catalog: Catalog, principal: Principal, covers: Covers | None) -> Callable[[Any], Target]:
    def target(arguments: dict[str, object]) -> Target:
        wanted = _converted(arguments, GetArguments, GET_PROMPT)
        try:
            entry = catalog.prompts(principal).get(wanted.name)
        except ToolNotFound:
            entry = None
        if entry is None or not (covers is None or covers(entry.name, entry.tool.source, entry.tool.name)):
            raise PromptNotFound(f"There is no prompt '{wanted.name[:100]}' among those that can be used here.")
        return Target(entry, wanted.arguments)

    return target


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
