"""The ASGI app: checks Host and Origin, finds the route, authenticates, calls the handler, sends its response.

Above: uvicorn. Below: the routes. What a handler raises becomes an error response here, and the headers that every
response carries are added here. Pure ASGI: nothing is wrapped twice on the way of a call.
"""

import logging
import time
from collections.abc import Iterable
from typing import Protocol

from starlette.types import Message, Receive, Scope, Send

from jackfield.errors import Forbidden, NotReady, Refused
from jackfield.http.bodies import ClientGone
from jackfield.http.cors import ANY_ORIGIN, Cors, preflight_headers
from jackfield.http.counters import GONE, HttpCounters
from jackfield.http.hosts import Hosts
from jackfield.http.neighbours import HandOver
from jackfield.http.request import NOBODY, Request
from jackfield.http.response import EmptyResponse, Header, Response, Sanitizer, crash_response, refusal_response
from jackfield.http.routing import SSE_MEDIA, UNGUARDED, Paths, Route, SocketRoute
from jackfield.http.streams import Streams
from jackfield.model.principal import Principal
from jackfield.protocol.errors import MethodNotAllowed, http_status

log = logging.getLogger(__name__)

_NOT_READY = "The gateway is starting or stopping. Try again in a moment."
_NO_SNIFFING: Header = (b"x-content-type-options", b"nosniff")
_NO_REFERRER: Header = (b"referrer-policy", b"no-referrer")
"""For what says nothing else; pages with forms do, because without a referrer their forms come without an origin."""
_CROSS_ORIGIN = "jackfield.cross_origin"
"""In the ASGI scope: the headers that tell a browser which pages may read the response."""
_ROUTE = "jackfield.route"
_EVENTS = SSE_MEDIA.encode()


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
        cors: Cors,
        counters: HttpCounters,
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
        self._cors = cors
        self._counters = counters

    def apply(self, *, hosts: Hosts, cors: Cors) -> None:
        """Requests from now on may carry these hosts and origins."""
        self._hosts = hosts
        self._cors = cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        began, started, counters = time.perf_counter(), False, self._counters
        is_stream = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started, is_stream
            if message["type"] == "http.response.start":
                started = True
                counters.count(scope["method"], scope.get(_ROUTE), message["status"], time.perf_counter() - began)
                headers = message["headers"]
                is_stream = _add_headers(headers)
                headers += scope.get(_CROSS_ORIGIN, ())
                counters.streams["sse"] += is_stream
            await send(message)

        try:
            request = self._request(scope, receive)
            response = await self._respond(request)
            await response(scope, receive, send_with_headers)
        except HandOver:
            raise
        except ClientGone:
            if not started:
                counters.count(scope["method"], scope.get(_ROUTE), GONE, time.perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - the border of one request; `_error_response` logs it
            response = self._error_response(error, f"{scope['method']} {scope['path'][:200]!r}")
            if not started:
                await response(scope, receive, send_with_headers)
        finally:
            counters.streams["sse"] -= is_stream

    async def _respond(self, request: Request) -> Response:
        scope = request.scope
        is_let_in = self._lets_in(request)
        endpoint, scope["path_params"] = self._endpoints.find(scope["path"])
        if endpoint.is_cross_origin:
            scope[_CROSS_ORIGIN] = (ANY_ORIGIN,)
        elif not is_let_in:
            self._check_origin(request)
        route = scope[_ROUTE] = endpoint.routes.get(scope["method"])
        if route is None:
            return endpoint.without_route(scope["method"], is_let_in=is_let_in)
        if not (route.always_open or self._availability.ready):
            raise NotReady(_NOT_READY)
        if route.scope is not None:
            try:
                request.principal = await self._authenticator.authenticate(request, route)
            except Forbidden as refusal:
                if route.on_refused is not None and request.principal is not NOBODY:
                    await route.on_refused(request, refusal)
                raise
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
        if not self._lets_in(request):
            self._check_origin(request)
        route, request.scope["path_params"] = self._sockets.find(request.scope["path"])
        if not self._availability.ready:
            raise NotReady(_NOT_READY)
        request.principal = await self._authenticator.authenticate(request, route)
        with self._counters.stream("websocket"):
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

    def _lets_in(self, request: Request) -> bool:
        """Whether a page of another origin asks that `[server] cors_origins` lets in; its cookies do not count then."""
        scope = request.scope
        if not self._cors.is_open(scope["path"]):
            return False
        origin = request.headers.get(b"origin")
        is_let_in = origin is not None and self._cors.lets_in(origin) and not request.is_from_own_page
        scope[_CROSS_ORIGIN] = self._cors.headers(origin if is_let_in else None)
        if is_let_in:
            request.headers.pop(b"cookie", None)
        return is_let_in

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

    def without_route(self, method: str, *, is_let_in: bool) -> Response:
        """The response to a method that no route of this path takes."""
        if method == "OPTIONS":
            preflight: tuple[Header, ...] = ()
            if self.is_cross_origin or is_let_in:
                preflight = preflight_headers(self._allowed, is_public=self.is_cross_origin)
            return EmptyResponse(204, [(b"allow", self._allowed.encode()), *preflight])
        raise MethodNotAllowed(
            f"{method} is not allowed for this path. Allowed: {self._allowed}.", allowed=self._allowed
        )


def _add_headers(headers: list[Header]) -> bool:
    """What every response carries. Whether this one is a stream of events."""
    has_policy = is_stream = False
    for name, value in headers:
        if name == b"referrer-policy":
            has_policy = True
        elif name == b"content-type":
            is_stream = value.startswith(_EVENTS)
    headers.append(_NO_SNIFFING)
    if not has_policy:
        headers.append(_NO_REFERRER)
    return is_stream


def _by_path(routes: Iterable[Route]) -> dict[str, list[Route]]:
    paths: dict[str, list[Route]] = {}
    for route in routes:
        paths.setdefault(route.route, []).append(route)
    return paths
