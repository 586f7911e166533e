"""Tools, listings and keys, as short as a test wants to say them."""

from typing import Any

from jackfield.catalog.merge import Entry, merge
from jackfield.model.principal import Principal
from jackfield.model.tool import Tool
from jackfield.sources.base import Listing


def tool(name: str, source: str = "acme", **fields: Any) -> Tool:
    return Tool(source=source, name=name, **fields)


def listing(source: str, *tools: str | Tool) -> tuple[str, Listing]:
    return source, Listing(tools=tuple(one if isinstance(one, Tool) else tool(one, source) for one in tools))


def properties(**schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas}


def entry(name: str = "weather", source: str = "acme", **fields: Any) -> Entry:
    return merge([listing(source, tool(name, source, **fields))], {}, ()).entries[0]


def key(*scopes: str, tools: tuple[str, ...] | None = None, name: str = "ops") -> Principal:
    return Principal(name=name, scopes=frozenset(scopes), tools=tools)
