"""`GET /api/tools/stream`: an external tool server listens here for the calls it is to answer.

Frames are data only, as clients of seed 003's era read them. A call goes to one server; what was not answered is
offered again when a server comes back under the same `client`.
Below: `tool_servers.py`.
"""

import time
from collections.abc import AsyncGenerator
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from jackfield.calls.tool_servers import DEFAULT_LIMIT, Cancelled, Offer, ToolServers
from jackfield.catalog.catalog import Catalog
from jackfield.errors import BadRequest, Forbidden
from jackfield.http.request import Request
from jackfield.http.response import Response
from jackfield.http.routing import SERVES, SSE_MEDIA, HeaderParameter, ResponseSpec, Route
from jackfield.http.sse import Comment, EventMessage, EventStream
from jackfield.model.ids import new_id
from jackfield.model.text import iso_time

PING_EVERY = 30.0
CANCELS = b"jackfield-cancels"


class ToolStreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls this server takes, and who it is."""

    tools: (
        Annotated[str, Meta(min_length=1, max_length=10_000, description="Tools it answers, separated by commas")]
        | None
    ) = None
    client: (
        Annotated[
            str,
            Meta(pattern="^[A-Za-z0-9._:-]{1,128}$", description="Its stable id, so that it is known when it returns"),
        ]
        | None
    ) = None
    limit: Annotated[
        int,
        Meta(ge=0, le=500, description="Unanswered calls that it has at most; 0: it finishes those that it has"),
    ] = DEFAULT_LIMIT


class ToolServerConnected(Struct, frozen=True, kw_only=True):
    """The first frame: from here on nothing is missed."""

    type: Literal["connected"] = "connected"
    client: str
    ts: str


class ToolCall(Struct, frozen=True, kw_only=True, rename="camel"):
    """One call to answer. `attempt` counts how often it was offered."""

    type: Literal["tool.call"] = "tool.call"
    tool_call_id: str
    tool_name: str
    args: Raw
    run_id: str
    agent_entity_id: str | None
    deadline: str | None
    ts: str
    attempt: int


class ToolCancel(Struct, frozen=True, kw_only=True, rename="camel"):
    """A call that was cancelled or has expired, for a server that asks for these with `Jackfield-Cancels: 1`."""

    type: Literal["tool.cancel"] = "tool.cancel"
    tool_call_id: str
    ts: str


class ToolServerApi:
    """The handler that offers calls to tool servers."""

    def __init__(self, servers: ToolServers, *, catalog: Catalog) -> None:
        self._servers = servers
        self._catalog = catalog

    async def stream_tool_calls(self, request: Request) -> Response:
        """Calls of external tools, as they come."""
        wanted = request.query(ToolStreamQuery)
        tools = None if wanted.tools is None else tuple(dict.fromkeys(wanted.tools.split(",")))
        for name in tools or ():
            self._check_servable(request, name)
        client = wanted.client or new_id("client")
        messages = self._messages(request, tools, client=client, limit=wanted.limit)
        return EventStream(messages, streams=request.streams, ping_every=PING_EVERY)

    async def _messages(
        self, request: Request, tools: tuple[str, ...] | None, *, client: str, limit: int
    ) -> AsyncGenerator[EventMessage | Comment]:
        takes_cancels = request.headers.get(CANCELS) == b"1"
        async with self._servers.connect(
            client, tools, principal=request.principal, limit=limit, takes_cancels=takes_cancels
        ) as server:
            yield EventMessage(data=ToolServerConnected(client=client, ts=_now()))
            async for offer in server:
                if isinstance(offer, Cancelled):
                    yield EventMessage(data=ToolCancel(tool_call_id=offer.call_id, ts=_now()))
                else:
                    yield EventMessage(data=_tool_call(offer))

    def _check_servable(self, request: Request, name: str) -> None:
        """Refuse what can never come. A tool that is not there yet may still be declared."""
        catalog, principal = self._catalog, request.principal
        owners = [entry.name for entry in catalog.external_tools() if name in (entry.name, entry.tool.name)]
        if not any(map(principal.may_serve, owners or [name])):
            raise Forbidden(f"Key '{principal.name}' may not serve '{name[:100]}'. It needs 'worker:{name[:100]}'.")
        entry = catalog.entry(name)
        if not owners and entry is not None and not entry.tool.is_external:
            raise BadRequest(f"Tool '{name}' is not external: no tool server answers it.", param="tools")


def _tool_call(offer: Offer) -> ToolCall:
    call = offer.call
    until = call.deadline or call.expires_at
    return ToolCall(
        tool_call_id=call.id,
        tool_name=offer.tool,
        args=call.arguments,
        run_id=call.run_id,
        agent_entity_id=call.agent,
        deadline=None if until is None else iso_time(until),
        ts=_now(),
        attempt=call.offers,
    )


def _now() -> str:
    return iso_time(time.time_ns() // 1_000_000)


def routes(servers: ToolServers, *, catalog: Catalog) -> list[Route]:
    """The stream of tool servers."""
    api = ToolServerApi(servers, catalog=catalog)
    return [
        Route(
            method="GET",
            path="/api/tools/stream",
            handler=api.stream_tool_calls,
            scope=SERVES,
            tag="Pending calls",
            summary="The calls that an external tool server is to answer, live",
            query=ToolStreamQuery,
            headers=(
                HeaderParameter(
                    name="Jackfield-Cancels", description="`1`: send `tool.cancel` for calls that end unanswered"
                ),
            ),
            responses={
                200: ResponseSpec(description="`connected`, then `tool.call` and `tool.cancel` frames", media=SSE_MEDIA)
            },
        ),
    ]
