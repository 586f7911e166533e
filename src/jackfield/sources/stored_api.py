"""Tools that come over the API: made by an administrator, or declared by the tool server that answers them.

Above: `routes.py`. Below: the shelf, which keeps them in the store. What is answered here is what the catalog shows.
"""

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from jackfield.catalog.catalog import Entry
from jackfield.catalog.records import ToolEntry
from jackfield.errors import Conflict
from jackfield.http.bodies import BodyReader, read_object
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.identity.keys import ADMIN
from jackfield.settings import ToolSettings
from jackfield.sources.stored import OWN_SOURCES

_SHELF = frozenset(OWN_SOURCES)


def _camel_case(name: str, *, says: str, optional: str = "") -> type[Struct]:
    """`ToolSettings` as the seed spells it, for the API's document; the shelf reads both spellings."""
    fields = [
        (field.name, field.type, UNSET if field.name == optional else field.default)
        for field in msgspec.structs.fields(ToolSettings)
    ]
    described = {"__doc__": says}
    return msgspec.defstruct(
        name, fields, namespace=described, rename="camel", kw_only=True, forbid_unknown_fields=True
    )


ToolBody = _camel_case("ToolBody", says="Seed 003's tool config. Keys in snake_case are taken too.")
ToolChange = _camel_case("ToolChange", says="The whole definition anew; the path has the name.", optional="name")
DeclaredTool = _camel_case("DeclaredTool", says="A tool that its declarer answers.", optional="execution_type")
ToolsDeclared = msgspec.defstruct("ToolsDeclared", [("tools", list[DeclaredTool])], forbid_unknown_fields=True)  # type: ignore[valid-type]


class DeclareBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All tools of one tool server, each in seed 003's shape; all are external."""

    tools: list[dict[str, Any]]


class OneTool(Struct, frozen=True, kw_only=True):
    """A tool in its envelope."""

    tool: ToolEntry


class Declared(Struct, frozen=True, kw_only=True):
    """What the catalog shows of this source now."""

    source: str
    tools: list[ToolEntry]
    count: int


class _OneTool(Struct, frozen=True, kw_only=True):
    tool: Raw


class _Declared(Struct, frozen=True, kw_only=True):
    source: str
    tools: list[Raw]
    count: int


_declaration = BodyReader(DeclareBody)


async def create_tool(visit: Request) -> Response:
    """Keep a new tool."""
    name = await visit.gateway.shelf.create(await read_object(visit), principal=visit.principal)
    return json_response(await _shown(visit, name), status=201)


async def replace_tool(visit: Request) -> Response:
    """Give a kept tool another definition."""
    raw = await read_object(visit)
    name = await visit.gateway.shelf.replace(_kept_name(visit), raw, principal=visit.principal)
    return json_response(await _shown(visit, name))


async def delete_tool(visit: Request) -> Response:
    """Forget a kept tool. Calls of it that wait can still be answered."""
    await visit.gateway.shelf.delete(_kept_name(visit))
    await visit.gateway.list_kept_tools()
    return EmptyResponse(204)


async def declare_tools(visit: Request) -> Response:
    """A tool server's tools, replacing all that it declared before."""
    body = await _declaration.read(visit)
    source = visit.part("name")
    await visit.gateway.shelf.declare(source, body.tools, principal=visit.principal)
    await visit.gateway.list_kept_tools()
    tools = [Raw(entry.manifest) for entry in _entries(visit, {source})]
    return json_response(_Declared(source=source, tools=tools, count=len(tools)))


async def _shown(visit: Request, name: str) -> _OneTool:
    await visit.gateway.list_kept_tools()
    for entry in _entries(visit, _SHELF):
        if entry.tool.name == name:
            return _OneTool(tool=Raw(entry.manifest))
    raise Conflict(f"Tool '{name}' is kept, but the catalog leaves it out. GET /readyz says why.")


def _kept_name(visit: Request) -> str:
    """The tool in the path by the name it was made with; it may be shown under another."""
    name = visit.part("name")
    entry = None if visit.gateway.shelf.keeps(name) else visit.gateway.catalog.entry(name)
    return entry.tool.name if entry is not None and entry.tool.source in _SHELF else name


def _entries(visit: Request, sources: Collection[str]) -> list[Entry]:
    return [entry for entry in visit.gateway.catalog.view(ADMIN).entries if entry.tool.source in sources]
