"""What one door is: method and path, who may pass, what it takes and what it may answer.

Above: `routes.py`, the table of them; `guard.py`, which opens them; `openapi.py`, which describes them. One entry
serves all three, so the document cannot say anything else than what is served.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from starlette.types import Send

from jackfield.model.principal import Scope
from jackfield.web.needs import Need
from jackfield.web.visit import Handler, Visit

JSON_MEDIA = "application/json"
SSE_MEDIA = "text/event-stream"
UNGUARDED = frozenset({"/healthz", "/readyz"})
"""Paths that answer to any Host, because probes come by address."""


class Body(Struct, frozen=True, kw_only=True):
    """What an answer of one status carries: a type, or text of a media type."""

    says: str
    type: Any = None
    media: str = JSON_MEDIA
    streams: bool = False
    """Whether the same status may also be a stream of events, when the client asks for one."""
    headers: dict[str, str] = {}
    """Response headers worth knowing, each with a sentence."""


class HeaderParameter(Struct, frozen=True, kw_only=True):
    """A request header that a door reads."""

    name: str
    says: str
    type: Any = str


class Door(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    summary: str
    group: str
    needs: Scope | Need | None = Scope.READ
    """The scope a key must hold, or the rule it must fit; None: the door is open to all."""
    for_sessions: bool = False
    """A session's key passes too; behind the door it finds what is lent to that session."""
    is_discovery: bool = False
    """Open without a key where `[discovery] public` says so."""
    takes_key: bool = False
    """Open, but a key that is given is read."""
    operation: str | None = None
    """Its id in the OpenAPI document; without one, the handler's name."""
    always_open: bool = False
    """Also while the gateway is starting or stopping."""
    path_takes_slashes: bool = False
    query: type[Struct] | None = None
    body: Any = None
    """The type of the JSON it takes; None: it takes no body."""
    body_is_optional: bool = False
    headers: tuple[HeaderParameter, ...] = ()
    answers: dict[int, Body] = {}
    refusals: tuple[int, ...] = ()
    """Error statuses beside those that every door of its kind has."""

    @property
    def name(self) -> str:
        """How it is called in sentences."""
        return f"{self.method} {self.path}"

    @property
    def route(self) -> str:
        """The path as the router reads it."""
        return self.path.replace("}", ":path}") if self.path_takes_slashes else self.path


SocketHandler = Callable[[Visit, Send], Awaitable[None]]


class SocketDoor(Struct, frozen=True, kw_only=True):
    """A path that speaks WebSocket."""

    path: str
    handler: SocketHandler
    needs: Scope = Scope.READ
    for_sessions: bool = False
    is_discovery: bool = False

    @property
    def name(self) -> str:
        return f"WebSocket {self.path}"
