"""Tools that come over the API: made by an administrator, or declared by the tool server that answers them.

Above: the URL map. Below: `stored_tools.py`, which keeps them in the store. Responses show what the catalog shows.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.records import ToolEntry
from jackfield.catalog.stored_tools import OWN_SOURCES, StoredTools
from jackfield.errors import Conflict
from jackfield.http.bodies import BodyReader, read_object
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import SERVES, ResponseSpec, Route
from jackfield.identity.keys import ADMIN
from jackfield.model.principal import Scope
from jackfield.settings import ToolSettings

_STORED = frozenset(OWN_SOURCES)


def _camel_case(name: str, *, says: str, optional: str = "") -> type[Struct]:
    """`ToolSettings` as the seed spells it, for the API's document; both spellings are read."""
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


class ToolTest(Struct, frozen=True, kw_only=True):
    """What would come of a tool, if it was kept. `ok`: it can be offered, and its server takes connections."""

    ok: bool
    name: str
    notices: list[str]
    server: str | None
    error: str | None


class ToolDefinition(Struct, frozen=True, kw_only=True):
    """What a tool was made with. The values of its headers are hidden."""

    name: str
    definition: dict[str, Any]


class _OneTool(Struct, frozen=True, kw_only=True):
    tool: Raw


class _Declared(Struct, frozen=True, kw_only=True):
    source: str
    tools: list[Raw]
    count: int


_declaration = BodyReader(DeclareBody)


class StoredToolApi:
    """Handlers that make, change and declare tools."""

    def __init__(
        self, stored_tools: StoredTools, catalog: Catalog, *, list_again: Callable[[], Awaitable[None]]
    ) -> None:
        self._stored_tools = stored_tools
        self._catalog = catalog
        self._list_again = list_again
        """Has the catalog show the stored tools as they are now."""

    async def create_tool(self, request: Request) -> Response:
        """Keep a new tool."""
        name = await self._stored_tools.create(await read_object(request), principal=request.principal)
        return json_response(await self._shown(name), status=201)

    async def test_tool(self, request: Request) -> Response:
        """Say what would come of a new tool, without keeping or calling it."""
        tried = await self._stored_tools.test(await read_object(request))
        name, notices = await self._catalog.name_for(tried.identity)
        clean = request.sanitizer.text
        return json_response(
            ToolTest(
                ok=tried.error is None,
                name=name,
                notices=[clean(notice.message) for notice in notices],
                server=tried.server,
                error=None if tried.error is None else clean(tried.error),
            )
        )

    async def show_definition(self, request: Request) -> Response:
        """What a kept tool was made with."""
        name = self._kept_name(request)
        return json_response(ToolDefinition(name=name, definition=self._stored_tools.definition(name)))

    async def replace_tool(self, request: Request) -> Response:
        """Give a kept tool another definition."""
        raw = await read_object(request)
        name = await self._stored_tools.replace(self._kept_name(request), raw, principal=request.principal)
        return json_response(await self._shown(name))

    async def delete_tool(self, request: Request) -> Response:
        """Forget a kept tool. Calls of it that wait can still be answered."""
        await self._stored_tools.delete(self._kept_name(request), principal=request.principal)
        await self._list_again()
        return EmptyResponse(204)

    async def declare_tools(self, request: Request) -> Response:
        """A tool server's tools, replacing all that it declared before."""
        body = await _declaration.read(request)
        source = request.part("name")
        await self._stored_tools.declare(source, body.tools, principal=request.principal)
        await self._list_again()
        tools = [Raw(entry.manifest) for entry in self._entries({source})]
        return json_response(_Declared(source=source, tools=tools, count=len(tools)))

    async def _shown(self, name: str) -> _OneTool:
        await self._list_again()
        for entry in self._entries(_STORED):
            if entry.tool.name == name:
                return _OneTool(tool=Raw(entry.manifest))
        raise Conflict(f"Tool '{name}' is kept, but the catalog leaves it out. GET /readyz says why.")

    def _kept_name(self, request: Request) -> str:
        """The tool in the path by the name it was made with; it may be shown under another."""
        name = request.part("name")
        entry = None if self._stored_tools.keeps(name) else self._catalog.entry(name)
        return entry.tool.name if entry is not None and entry.tool.source in _STORED else name

    def _entries(self, sources: Collection[str]) -> list[Entry]:
        return [entry for entry in self._catalog.view(ADMIN).entries if entry.tool.source in sources]


def definition_routes(
    stored_tools: StoredTools, catalog: Catalog, *, list_again: Callable[[], Awaitable[None]]
) -> list[Route]:
    """What tools were made with; the path comes before `/tools/{name}`, whose names may have slashes."""
    api = StoredToolApi(stored_tools, catalog, list_again=list_again)
    return [
        Route(
            method="GET",
            path="/api/v1/tools/{name}/definition",
            path_takes_slashes=True,
            handler=api.show_definition,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="What a tool that was made here was given, without secrets",
            responses={200: ResponseSpec(description="Its fields, as they can be sent again", type=ToolDefinition)},
            errors=(404,),
        ),
    ]


def routes(stored_tools: StoredTools, catalog: Catalog, *, list_again: Callable[[], Awaitable[None]]) -> list[Route]:
    """Every route of stored tools."""
    api = StoredToolApi(stored_tools, catalog, list_again=list_again)
    return [
        Route(
            method="POST",
            path="/api/v1/tools",
            handler=api.create_tool,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="Make a tool",
            body=ToolBody,
            responses={201: ResponseSpec(description="The tool as the catalog shows it", type=OneTool)},
            errors=(409,),
        ),
        Route(
            method="POST",
            path="/api/v1/sources/test/tool",  # below /tools it would hide a tool that is called `test`
            handler=api.test_tool,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="Check a tool and connect to its server, sending nothing; nothing is kept",
            body=ToolBody,
            responses={200: ResponseSpec(description="What it would be called, or what is wrong", type=ToolTest)},
            errors=(409,),
        ),
        Route(
            method="PUT",
            path="/api/v1/tools/{name}",
            path_takes_slashes=True,
            handler=api.replace_tool,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="Change a tool that was made here",
            body=ToolChange,
            responses={200: ResponseSpec(description="The tool as the catalog shows it", type=OneTool)},
            errors=(404, 409),
        ),
        Route(
            method="DELETE",
            path="/api/v1/tools/{name}",
            path_takes_slashes=True,
            handler=api.delete_tool,
            scope=Scope.ADMIN,
            tag="Tools",
            summary="Forget a tool that was made here",
            responses={204: ResponseSpec(description="It is gone")},
            errors=(404,),
        ),
        Route(
            method="PUT",
            path="/api/v1/sources/{name}/tools",
            handler=api.declare_tools,
            scope=SERVES,
            tag="Tools",
            summary="Declare the tools of a tool server, replacing all that it declared before",
            body=ToolsDeclared,
            responses={200: ResponseSpec(description="What the catalog shows of them", type=Declared)},
            errors=(404, 409),
        ),
    ]
