"""One request as a door sees it: who asks, its headers, its path and query. No body yet (`bodies.py`).

Above: every door. Below: the ASGI scope. `Reception` is what the doors share for the life of the server.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct
from starlette.types import Receive, Scope

from jackfield.errors import BadRequest, NotFound
from jackfield.http.errors import Sanitizer
from jackfield.http.hosts import Hosts
from jackfield.http.response import Response
from jackfield.http.streams import Streams
from jackfield.model.principal import Principal
from jackfield.protocol.json_bodies import bad_value

Q = TypeVar("Q", bound=Struct)

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^\\u0000-\\u001f\\u007f]+(?![\\s\\S])")]
"""An id that a client chose or names: no control characters (a last line break counts), short enough for an index."""
NOBODY = Principal(name="nobody", scopes=frozenset())
MAX_PARAMETERS = 64
_ONCE = frozenset(
    {
        b"authorization",
        b"content-length",
        b"content-type",
        b"host",
        b"idempotency-key",
        b"origin",
        b"sec-fetch-site",
        b"x-api-key",
        b"x-secret-key",
    }
)
_JOINED_BY = {b"cookie": b"; "}


class Reception(Struct, frozen=True, kw_only=True):
    """What stands behind all doors: the gateway, and what the doors themselves have to remember."""

    gateway: Any
    document: bytes
    """The OpenAPI document of the doors."""
    hosts: Hosts
    discretion: Sanitizer
    throttle: Any
    logins: Any
    mcp: Any
    responses: Any
    streams: Streams


class Request:
    """One request. `principal` is `NOBODY` behind a door that is open to all."""

    __slots__ = ("headers", "principal", "receive", "reception", "scope")

    def __init__(self, reception: Reception, scope: Scope, receive: Receive) -> None:
        self.reception = reception
        self.scope = scope
        self.receive = receive
        self.headers = headers_of(scope["headers"])
        self.principal = NOBODY

    @property
    def gateway(self) -> Any:
        return self.reception.gateway

    @property
    def address(self) -> str:
        """Where the request comes from; behind a trusted proxy, what that says."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def is_https(self) -> bool:
        return self.reception.hosts.is_https(self.scope["scheme"])

    def part(self, name: str) -> str:
        """A variable part of the path."""
        value: str = self.scope["path_params"][name]
        if "\x00" in value:  # the one character that no database takes
            raise NotFound("There is nothing with a NUL character in its name. Correct the path.", param=name)
        return value

    async def client_gone(self) -> bool:
        """Comes back with True when the client has hung up, with False when the server stops.

        Only to be asked after the body was read.
        """
        watch = self.reception.streams.watch(self.receive)
        try:
            await asyncio.wait((watch,))
            return not watch.cancelled()
        finally:
            await self.reception.streams.release(watch)

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def query(self, into: type[Q]) -> Q:
        """The query string as an `into`; a parameter that does not fit is a `BadRequest` that names it."""
        text = self.scope["query_string"]
        given: dict[str, str] = {}
        try:
            pairs = parse_qsl(
                text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
            )
        except ValueError:
            raise BadRequest(
                "The query string is not UTF-8 in percent encoding, or far too long. Correct it."
            ) from None
        for name, value in pairs:
            if name in given:
                raise BadRequest(f"The query parameter '{name}' is given twice. Give it once.", param=name)
            given[name] = value
        try:
            query = msgspec.convert(given, into, strict=False)
        except msgspec.ValidationError as fault:
            raise bad_value(fault, what="The query string", into=into) from None
        for field, name in zip(into.__struct_fields__, into.__struct_encode_fields__, strict=True):
            if name in given and getattr(query, field) is None:  # the word `null`, which is no value here
                raise BadRequest(
                    f"The query parameter '{name}' has no value. Give it one, or leave it out.", param=name
                )
        return query


Handler = Callable[[Request], Awaitable[Response]]
"""What a door does: take a visit, ask one room, give the answer."""


def headers_of(raw: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name. What decides something may come once only; the rest is joined as HTTP says."""
    headers = dict(raw)
    if len(headers) == len(raw):
        return headers
    headers = {}
    for name, value in raw:
        if name not in headers:
            headers[name] = value
        elif name in _ONCE:
            raise BadRequest(f"The header {name.decode('latin-1')} is given twice. Give it once.")
        else:
            headers[name] += _JOINED_BY.get(name, b", ") + value
    return headers
