"""The ASGI app: checks Host and Origin, finds the route, authenticates, calls the handler, sends its response.

Above: uvicorn. Below: the routes. What a handler raises becomes an error response here, and the headers that every
response carries are added here. Pure ASGI: nothing is wrapped twice on the way of a call.
"""

import logging
from collections.abc import Iterable
from typing import Protocol

from starlette.types import Message, Receive, Scope, Send

from jackfield.errors import NotReady, Refused
from jackfield.http.bodies import ClientGone
from jackfield.http.hosts import Hosts
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Header, Response, Sanitizer, crash_response, refusal_response
from jackfield.http.routing import UNGUARDED, Paths, Route, SocketRoute
from jackfield.http.streams import Streams
from jackfield.model.principal import Principal
from jackfield.protocol.errors import MethodNotAllowed, http_status

log = logging.getLogger(__name__)

_NOT_READY = "The gateway is starting or stopping. Try again in a moment."
_NO_SNIFFING: Header = (b"x-content-type-options", b"nosniff")
_NO_REFERRER: Header = (b"referrer-policy", b"no-referrer")
"""For what says nothing else; pages with forms do, because without a referrer their forms come without an origin."""

_CROSS_ORIGIN = "jackfield.cross_origin"
_ANY_ORIGIN: Header = (b"access-control-allow-origin", b"*")
_PREFLIGHT: tuple[Header, ...] = (
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type, mcp-protocol-version"),
    (b"access-control-max-age", b"600"),
)


class RequestAuthenticator(Protocol):
    """Says who makes a request, or raises because nobody may without a key, or not with this one."""

    async def authenticate(self, request: Request, route: Route | SocketRoute) -> Principal: ...


class Availability:
    """Whether the service takes requests now. Whoever starts and stops it sets `ready`."""

    __slots__ = ("ready",)

    def __init__(self) -> None:
        self.ready = False


class App:
    """Every route, as one ASGI application."""

    def __init__(
        self,
        routes: Iterable[Route],
        sockets: Iterable[SocketRoute],
        *,
        authenticator: RequestAuthenticator,
        availability: Availability,
        hosts: Hosts,
        streams: Streams,
        sanitizer: Sanitizer,
        max_body: int,
    ) -> None:
        self.routes = tuple(routes)
        self._endpoints = Paths((path, _Endpoint(same)) for path, same in _by_path(self.routes).items())
        self._sockets = Paths((route.path, route) for route in sockets)
        self._authenticator = authenticator
        self._availability = availability
        self._hosts = hosts
        self._streams = streams
        self._sanitizer = sanitizer
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = message["headers"]
                headers.append(_NO_SNIFFING)
                if all(name != b"referrer-policy" for name, _ in headers):
                    headers.append(_NO_REFERRER)
                if _CROSS_ORIGIN in scope:
                    headers.append(_ANY_ORIGIN)
            await send(message)

        try:
            request = self._request(scope, receive)
            response = await self._respond(request)
            await response(scope, receive, send_with_headers)
        except ClientGone:
            return
        except Exception as error:  # noqa: BLE001 - the border of one request; `_error_response` logs it
            response = self._error_response(error, f"{scope['method']} {scope['path'][:200]!r}")
            if not started:
                await response(scope, receive, send_with_headers)

    async def _respond(self, request: Request) -> Response:
        scope = request.scope
        endpoint, scope["path_params"] = self._endpoints.find(scope["path"])
        if endpoint.is_cross_origin:
            scope[_CROSS_ORIGIN] = True
        else:
            self._check_origin(request)
        route = endpoint.routes.get(scope["method"])
        if route is None:
            return endpoint.without_route(scope["method"])
        if not (route.always_open or self._availability.ready):
            raise NotReady(_NOT_READY)
        if route.scope is not None:
            request.principal = await self._authenticator.authenticate(request, route)
        return await route.handler(request)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted = False

        async def send_watched(message: Message) -> None:
            nonlocal accepted
            accepted = accepted or message["type"] == "websocket.accept"
            await send(message)

        async def send_denial(message: Message) -> None:
            await send({**message, "type": f"websocket.{message['type']}"})

        try:
            request = self._request(scope, receive)
            await self._connect(request, send_watched)
        except Exception as error:  # noqa: BLE001 - the border of one connection; `_error_response` logs it
            response = self._error_response(error, f"WebSocket {scope['path'][:200]!r}")
            if accepted:
                await send({"type": "websocket.close", "code": 1011})
            elif "websocket.http.response" in scope.get("extensions", {}):
                await response(scope, receive, send_denial)
            else:
                await send({"type": "websocket.close", "code": 1008})

    async def _connect(self, request: Request, send: Send) -> None:
        self._check_origin(request)
        route, request.scope["path_params"] = self._sockets.find(request.scope["path"])
        if not self._availability.ready:
            raise NotReady(_NOT_READY)
        request.principal = await self._authenticator.authenticate(request, route)
        await route.handler(request, send)

    def _request(self, scope: Scope, receive: Receive) -> Request:
        request = Request(
            scope,
            receive,
            hosts=self._hosts,
            streams=self._streams,
            sanitizer=self._sanitizer,
            max_body=self._max_body,
        )
        if scope["path"] not in UNGUARDED:
            self._hosts.check_host(request.headers.get(b"host"))
        return request

    def _check_origin(self, request: Request) -> None:
        if (origin := request.headers.get(b"origin")) is not None:  # without one, no page makes the request
            self._hosts.check_origin(origin)

    def _error_response(self, error: Exception, what: str) -> Response:
        if not isinstance(error, Refused):
            return crash_response(error, what=what)
        log.debug("%s refused with %d: %s", what, http_status(error), error)
        return refusal_response(error, sanitizer=self._sanitizer)


class _Endpoint:
    """The routes of one path, by method."""

    def __init__(self, routes: list[Route]) -> None:
        self.routes = {route.method: route for route in routes}
        if "GET" in self.routes:
            self.routes["HEAD"] = self.routes["GET"]
        self.is_cross_origin = any(route.is_cross_origin for route in routes)
        self._allowed = ", ".join([*self.routes, "OPTIONS"])

    def without_route(self, method: str) -> Response:
        """The response to a method that no route of this path takes."""
        if method == "OPTIONS":
            preflight = _PREFLIGHT if self.is_cross_origin else ()
            return EmptyResponse(204, [(b"allow", self._allowed.encode()), *preflight])
        raise MethodNotAllowed(
            f"{method} is not allowed for this path. Allowed: {self._allowed}.", allowed=self._allowed
        )


def _by_path(routes: Iterable[Route]) -> dict[str, list[Route]]:
    paths: dict[str, list[Route]] = {}
    for route in routes:
        paths.setdefault(route.route, []).append(route)
    return paths
