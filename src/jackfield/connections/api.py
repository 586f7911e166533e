"""Connections over HTTP: who is logged in where, a link to log in, and the end of a login. No token is ever shown.

Above: the URL map. Below: `connections.py` and `flows.py`.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from jackfield.connections.connections import Connections
from jackfield.connections.flows import LoginFlows, require_may_log_in
from jackfield.connections.types import SHARED, ConnectedSource, Connection, connection_id
from jackfield.errors import Forbidden, NotFound
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import ANYBODY_KNOWN, ResponseSpec, Route
from jackfield.model.principal import Principal, Scope
from jackfield.model.text import Time, iso_time

SeesSource = Callable[[Principal, str], bool]
"""Whether a principal may know of a source."""


class ConnectionRecord(Struct, frozen=True, kw_only=True):
    """A login at a source, without its tokens."""

    source: str
    auth: Literal["shared", "user"]
    principal: str | None
    """Whose it is; null: everybody's."""
    status: Literal["connected", "login_needed", "automatic"]
    """`automatic`: the gateway logs in by itself whenever it has to."""
    scopes: tuple[str, ...]
    issuer: str | None
    """The authorization server that gave the tokens."""
    connected_at: Time | None
    refreshed_at: Time | None


class ConnectionList(Struct, frozen=True, kw_only=True):
    """Your own connections and the shared ones; for administrators everybody's."""

    connections: list[ConnectionRecord]


class LoginLink(Struct, frozen=True, kw_only=True):
    """Where to log in, with a browser that is signed in here as the same principal. Good for an hour, and once."""

    login_url: str


class WhoseQuery(Struct, frozen=True, kw_only=True):
    """For administrators: whose login to end, if not their own."""

    principal: Annotated[str, Meta(min_length=1, max_length=300)] | None = None


class ConnectionsApi:
    """Handlers of `/api/v1/connections`."""

    def __init__(self, connections: Connections, flows: LoginFlows, *, sees_source: SeesSource) -> None:
        self._connections = connections
        self._flows = flows
        self._sees_source = sees_source

    async def list_connections(self, request: Request) -> Response:
        """Who is logged in where."""
        principal = request.principal
        found: dict[str, ConnectionRecord] = {}
        for source in self._connections.sources.values():
            if self._sees_source(principal, source.name):
                own = connection_id(source.name, source.principal(principal.on_record))
                found[own] = _record(source, source.principal(principal.on_record), self._connections.book.get(own))
        if principal.is_admin and not principal.is_limited:
            for one in self._connections.book.all:
                if one.is_connected and one.source in self._connections.sources:
                    found[one.id] = _record(self._connections.sources[one.source], one.principal, one)
        return json_response(ConnectionList(connections=[found[name] for name in sorted(found)]))

    async def begin_login(self, request: Request) -> Response:
        """A link to log in with."""
        source = self._source(request)
        return json_response(LoginLink(login_url=await self._flows.open(source, request.principal)))

    async def end_login(self, request: Request) -> Response:
        """End a login here, and at the server where it can be."""
        source = self._source(request)
        principal = request.principal
        asked = request.query(WhoseQuery).principal
        whose = source.principal(principal.on_record if asked is None else asked)
        if whose not in (principal.on_record, SHARED):
            if not principal.is_admin or principal.is_limited:
                raise Forbidden("Only an administrator ends somebody else's login. Leave `principal` out.")
        else:
            require_may_log_in(principal, source, whose)
        if not await self._connections.disconnect(source, whose, by=principal.name):
            whom = "nobody is" if whose == SHARED else f"'{whose[:100]}' is not"
            raise NotFound(f"There is no login to end: {whom} logged in at source '{source.name}'.")
        return EmptyResponse(204)

    def _source(self, request: Request) -> ConnectedSource:
        name = request.part("source")
        if name in self._connections.sources and not self._sees_source(request.principal, name):
            raise NotFound(f"There is no source '{name[:100]}' that has logins.")
        return self._connections.source(name)


def _record(source: ConnectedSource, principal: str, known: Connection | None) -> ConnectionRecord:
    is_connected = known is not None and known.is_connected
    status: Literal["connected", "login_needed", "automatic"] = "connected" if is_connected else "login_needed"
    return ConnectionRecord(
        source=source.name,
        auth=source.auth,
        principal=principal or None,
        status="automatic" if source.is_for_machines else status,
        scopes=known.scopes if known is not None and is_connected else (),
        issuer=known.issuer if known is not None and is_connected else None,
        connected_at=iso_time(known.created_at) if known is not None and is_connected else None,
        refreshed_at=iso_time(known.updated_at) if known is not None and is_connected else None,
    )


def routes(connections: Connections, flows: LoginFlows, *, sees_source: SeesSource) -> list[Route]:
    """Every route of connections."""
    api = ConnectionsApi(connections, flows, sees_source=sees_source)
    return [
        Route(
            method="GET",
            path="/api/v1/connections",
            handler=api.list_connections,
            scope=ANYBODY_KNOWN,
            tag="Identity",
            summary="Who is logged in at which source; your own, for administrators everybody's",
            responses={200: ResponseSpec(description="Without any token", type=ConnectionList)},
        ),
        Route(
            method="POST",
            path="/api/v1/connections/{source}",
            handler=api.begin_login,
            scope=Scope.CALL,
            tag="Identity",
            summary="A link to log in at a source with, in a browser that is signed in here",
            responses={200: ResponseSpec(description="The link", type=LoginLink)},
            errors=(404, 409),
        ),
        Route(
            method="DELETE",
            path="/api/v1/connections/{source}",
            handler=api.end_login,
            scope=Scope.CALL,
            tag="Identity",
            summary="End a login at a source; it is revoked there where that can be done",
            query=WhoseQuery,
            responses={204: ResponseSpec(description="It has ended")},
            errors=(404,),
        ),
    ]
