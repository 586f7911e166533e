"""Before every door: Host and Origin, then the door by path and method, then the key and its scope.

Above: uvicorn. Below: `routes.py`, whose doors it opens. What a door raises becomes an error answer here, and the
headers that every answer carries are put on here. Pure ASGI: nothing is wrapped twice on the way of a call.
"""

import logging
from typing import TypeVar

from starlette.types import Message, Receive, Scope, Send

from jackfield.errors import NotFound, NotReady, Refused
from jackfield.http.bodies import ClientGone
from jackfield.http.errors import crash_response, refusal_response
from jackfield.http.request import Reception, Request
from jackfield.http.response import EmptyResponse, Header, Response
from jackfield.http.routing import UNGUARDED, Paths, Route, SocketRoute
from jackfield.identity.authentication import admit
from jackfield.protocol.errors import MethodNotAllowed, http_status

log = logging.getLogger(__name__)

D = TypeVar("D")
VISIT = "jackfield.visit"
_ON_EVERY_ANSWER: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class App:
    """The outermost app: lets a request through to its door, and gives every fault its shape."""

    def __init__(self, reception: Reception, doors: tuple[Route, ...], socket_doors: tuple[SocketRoute, ...]) -> None:
        self._reception = reception
        self._doorways = Paths((path, Endpoint(same_path)) for path, same_path in _by_path(doors).items())
        self._socket_doorways = Paths((door.path, SocketEndpoint(door)) for door in socket_doors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"].extend(_ON_EVERY_ANSWER)
            await send(message)

        try:
            self._check(scope, receive)
            await _at(self._doorways, scope)(scope, receive, send_guarded)
        except ClientGone:
            return
        except Exception as fault:  # noqa: BLE001 - the border of one request; `_fault_answer` logs it
            answer = self._fault_answer(fault, f"{scope['method']} {scope['path'][:200]!r}")
            if not started:
                await answer(scope, receive, send_guarded)
        finally:
            _break_cycle(scope)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted = False

        async def send_guarded(message: Message) -> None:
            nonlocal accepted
            accepted = accepted or message["type"] == "websocket.accept"
            await send(message)

        async def send_denial(message: Message) -> None:
            await send({**message, "type": f"websocket.{message['type']}"})

        try:
            self._check(scope, receive)
            await _at(self._socket_doorways, scope)(scope, receive, send_guarded)
        except Exception as fault:  # noqa: BLE001 - the border of one connection; `_fault_answer` logs it
            answer = self._fault_answer(fault, f"WebSocket {scope['path'][:200]!r}")
            if accepted:
                await send({"type": "websocket.close", "code": 1011})
            elif "websocket.http.response" in scope.get("extensions", {}):
                await answer(scope, receive, send_denial)
            else:
                await send({"type": "websocket.close", "code": 1008})
        finally:
            _break_cycle(scope)

    def _check(self, scope: Scope, receive: Receive) -> None:
        visit = Request(self._reception, scope, receive)
        if scope["path"] not in UNGUARDED:
            self._reception.hosts.check_host(visit.headers.get(b"host"))
        self._reception.hosts.check_origin(visit.headers.get(b"origin"))
        scope[VISIT] = visit

    def _fault_answer(self, fault: Exception, what: str) -> Response:
        if not isinstance(fault, Refused):
            return crash_response(fault, what=what)
        log.debug("%s refused with %d: %s", what, http_status(fault), fault)
        return refusal_response(fault, discretion=self._reception.discretion)


class Endpoint:
    """All doors of one path: chooses by method, asks for the key, lets in."""

    def __init__(self, doors: list[Route]) -> None:
        self._doors = {door.method: door for door in doors}
        if "GET" in self._doors:
            self._doors["HEAD"] = self._doors["GET"]
        self._allowed = ", ".join([*self._doors, "OPTIONS"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit: Request = scope[VISIT]
        door = self._doors.get(scope["method"])
        answer: Response
        if door is None:
            answer = self._without_door(scope)
        else:
            if not (door.always_open or visit.gateway.ready):
                raise NotReady("The gateway is starting or stopping. Try again in a moment.")
            if door.needs is not None:
                visit.principal = await admit(visit, door, needs=door.needs)
            answer = await door.handler(visit)
        await answer(scope, receive, send)

    def _without_door(self, scope: Scope) -> Response:
        if scope["method"] == "OPTIONS":
            return EmptyResponse(204, [(b"allow", self._allowed.encode())])
        raise MethodNotAllowed(
            f"This path does not take {scope['method']}. It takes {self._allowed}.", allowed=self._allowed
        )


class SocketEndpoint:
    """A WebSocket door: the same questions, then the connection is the door's."""

    def __init__(self, door: SocketRoute) -> None:
        self._door = door

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        visit: Request = scope[VISIT]
        if not visit.gateway.ready:
            raise NotReady("The gateway is starting or stopping. Try again in a moment.")
        door = self._door
        visit.principal = await admit(visit, door, needs=door.needs)
        await self._door.handler(visit, send)


def _by_path(doors: tuple[Route, ...]) -> dict[str, list[Route]]:
    paths: dict[str, list[Route]] = {}
    for door in doors:
        paths.setdefault(door.route, []).append(door)
    return paths


def _break_cycle(scope: Scope) -> None:
    """The visit knows its scope and the scope its visit: apart, both are freed at once, without the collector."""
    scope.pop(VISIT, None)


def _at(doorways: Paths[D], scope: Scope) -> D:
    """The doorway at the request's path; its variable parts are put into the scope."""
    found = doorways.find(scope["path"])
    if found is None:
        raise NotFound(f"There is nothing at {scope['path'][:200]}. /openapi.json lists what there is.")
    doorway, scope["path_params"] = found
    return doorway
