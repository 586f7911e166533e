"""A route: method and path, the permission it needs, what it takes and what it returns.

Above: `routes.py`, the table of them; `app.py`, which serves them; `openapi.py`, which describes them. One entry
serves all three, so the document cannot say anything else than what is served.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from msgspec import Struct
from starlette.routing import compile_path
from starlette.types import Send

from jackfield.errors import NotFound, Refused
from jackfield.http.request import Handler, Request
from jackfield.model.principal import Principal, Scope


class Permission(Struct, frozen=True):
    """A rule about keys, and how it is told."""

    description: str
    """The scopes that are enough, as they stand in a sentence after "needs"."""
    holds: Callable[[Principal], bool]


def _sees_calls(principal: Principal) -> bool:
    return principal.may(Scope.READ) or principal.may(Scope.ANSWER)


def _answers(principal: Principal) -> bool:
    return principal.may(Scope.ANSWER) or bool(principal.named("worker"))


def _serves(principal: Principal) -> bool:
    return principal.is_admin or bool(principal.named("worker"))


def _has_inbox(principal: Principal) -> bool:
    return principal.is_admin or bool(principal.named("agent"))


def _sees_spaces(principal: Principal) -> bool:
    return principal.may(Scope.READ) and not principal.only_serves


def _speaks(principal: Principal) -> bool:
    return principal.may(Scope.CALL)


ANYBODY_KNOWN = Permission("a key", lambda principal: bool(principal.name))
"""Whoever is signed in, whatever for."""
SEES_CALLS = Permission("the scope 'read' or 'answer'", _sees_calls)
"""Everybody with calls of their own, and who answers those of others."""
ANSWERS = Permission("the scope 'answer' or 'worker:TOOL'", _answers)
"""Whose results are taken; of which calls, the call decides."""
SERVES = Permission("the scope 'worker:TOOL'", _serves)
"""A tool server."""
HAS_INBOX = Permission("the scope 'agent:NAME'", _has_inbox)
"""An agent; which one, the handler asks."""
SEES_SPACES = Permission("the scope 'read' or 'agent:NAME'", _sees_spaces)
"""Who lists, reads and follows spaces; an agent those that it is in."""
SPEAKS = Permission("the scope 'call' or 'agent:NAME'", _speaks)
"""Who says something in spaces, as itself."""

JSON_MEDIA = "application/json"
SSE_MEDIA = "text/event-stream"
UNGUARDED = frozenset({"/healthz", "/readyz"})
"""Paths that answer to any Host, because probes come by address."""


class ResponseSpec(Struct, frozen=True, kw_only=True):
    """What an answer of one status carries: a type, or text of a media type."""

    description: str
    type: Any = None
    media: str = JSON_MEDIA
    streams: bool = False
    """Whether the same status may also be a stream of events, when the client asks for one."""
    headers: dict[str, str] = {}
    """Response headers worth knowing, each with a sentence."""


class HeaderParameter(Struct, frozen=True, kw_only=True):
    """A request header that a route reads."""

    name: str
    description: str
    type: Any = str


class Route(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    scope: Scope | Permission | None = Scope.READ
    """The scope a key must hold, or the rule it must fit; None: open to all."""
    on_refused: Callable[[Request, Refused], Awaitable[None]] | None = None
    """Told when a key is recognised that may not use the route, before the response is sent."""
    for_sessions: bool = False
    """A session's key is accepted too, and sees the tools of that session."""
    is_discovery: bool = False
    """Open without a key where `[discovery] public` says so."""
    takes_tokens: bool = False
    """Takes OAuth tokens as well as keys, and says where to get one."""
    is_cross_origin: bool = False
    """Pages of other origins may read the response, without cookies."""
    takes_key: bool = False
    """Open, but a key that is given is read."""
    operation: str | None = None
    """Its id in the OpenAPI document; without one, the handler's name."""
    always_open: bool = False
    """Also while the gateway is starting or stopping."""
    path_takes_slashes: bool = False
    is_page: bool = False
    """A page for people, or what a protocol of its own describes: not in the OpenAPI document."""
    query: type[Struct] | None = None
    body: Any = None
    """The type of the JSON it takes; None: it takes no body."""
    body_is_optional: bool = False
    headers: tuple[HeaderParameter, ...] = ()
    responses: dict[int, ResponseSpec] = {}
    errors: tuple[int, ...] = ()
    """Error statuses beside those that every route of its kind has."""

    @property
    def name(self) -> str:
        """How it is called in sentences."""
        return f"{self.method} {self.path}"

    @property
    def route(self) -> str:
        """The path as the router reads it."""
        return self.path.replace("}", ":path}") if self.path_takes_slashes else self.path


SocketHandler = Callable[[Request, Send], Awaitable[None]]


class SocketRoute(Struct, frozen=True, kw_only=True):
    """A path that speaks WebSocket."""

    path: str
    handler: SocketHandler
    scope: Scope = Scope.READ
    for_sessions: bool = False
    takes_tokens: bool = False
    is_discovery: bool = False

    @property
    def name(self) -> str:
        return f"WebSocket {self.path}"


T = TypeVar("T")


class Paths(Generic[T]):
    """A map of path patterns (`/calls/{id}`, `/tools/{name:path}`); the first that fits counts."""

    def __init__(self, patterns: Iterable[tuple[str, T]]) -> None:
        self._whole: dict[str, T] = {}
        self._variable: list[tuple[re.Pattern[str], T]] = []
        for pattern, target in patterns:
            if "{" in pattern:
                self._variable.append((compile_path(pattern)[0], target))
            else:
                self._whole[pattern] = target

    def find(self, path: str) -> tuple[T, dict[str, str]]:
        """What stands at `path`, with the variable parts. Raises `NotFound` when nothing does."""
        target = self._whole.get(path)
        if target is not None:
            return target, {}
        for pattern, variable in self._variable:
            found = pattern.match(path)
            if found is not None:
                return variable, found.groupdict()
        raise NotFound(f"There is nothing at {path[:200]}. /openapi.json lists what there is.")
