"""One request as a handler sees it: who asks, its headers, its path and query. The body is read by `bodies.py`.

Above: every handler. Below: the ASGI scope.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct
from starlette.types import Receive, Scope

from jackfield.errors import BadRequest, NotFound
from jackfield.http.hosts import Hosts
from jackfield.http.neighbours import NEIGHBOURS, HandOver, Neighbours
from jackfield.http.response import Response, Sanitizer
from jackfield.http.streams import Streams
from jackfield.model.principal import Principal
from jackfield.protocol.json_bodies import bad_value

Q = TypeVar("Q", bound=Struct)

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^\\u0000-\\u001f\\u007f]+(?![\\s\\S])")]
"""An id that a client chose or names: no control characters (a last line break counts), short enough for an index."""
When = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="ISO 8601, such as 2026-01-15T10:30:00Z",
        extra_json_schema={"anyOf": [{"format": "date-time"}, {"format": "date"}]},
    ),
]
"""A time in a query string, for `time_in`."""
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


class Request:
    """One request. `principal` is `NOBODY` on a route that is open to all."""

    __slots__ = (
        "_hosts",
        "_streams",
        "body",
        "headers",
        "login",
        "max_body",
        "principal",
        "receive",
        "sanitizer",
        "scope",
    )

    def __init__(
        self, scope: Scope, receive: Receive, *, hosts: Hosts, streams: Streams, sanitizer: Sanitizer, max_body: int
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.body: bytes | None = None
        """What was read of it, where the request may turn out to be another process's."""
        self.headers = headers_of(scope["headers"])
        self.principal = NOBODY
        self.login: str | None = None
        """The digest of the login by which the principal is known, where it is by one."""
        self._streams = streams
        self.sanitizer = sanitizer
        """Takes the operator's secrets out of what is sent."""
        self.max_body = max_body
        """Bytes that a body may have."""
        self._hosts = hosts

    @property
    def streams(self) -> Streams:
        """The open streams of the server, for those that this request opens: they end with its principal and login."""
        return self._streams.of(self.principal, self.login)

    @property
    def address(self) -> str:
        """Where the request comes from; behind a trusted proxy, what that says."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def is_https(self) -> bool:
        return self._hosts.is_https(self.scope["scheme"])

    @property
    def is_from_own_page(self) -> bool:
        """Whether a page of this very gateway makes the request."""
        origin = self.headers.get(b"origin")
        if origin is None:
            return self.headers.get(b"sec-fetch-site") in (b"same-origin", b"none")
        scheme = "https" if self.scope["scheme"] in ("https", "wss") else "http"
        return self._hosts.is_own_origin(origin, scheme=scheme, host=self.headers.get(b"host", b""))

    @property
    def has_neighbours(self) -> bool:
        """Whether other processes listen at this port, and the request may be theirs."""
        return NEIGHBOURS in self.scope

    def hand_over(self, owner: str | None) -> None:
        """Have another process behind this port respond, where `owner` is one.

        Comes back only if that cannot be: then whatever the request names is not to be found.
        """
        neighbours: Neighbours | None = self.scope.get(NEIGHBOURS)
        if neighbours is not None and owner is not None and neighbours.has(owner):
            raise HandOver(owner, self.body)

    def part(self, name: str) -> str:
        """A variable part of the path."""
        value: str = self.scope["path_params"][name]
        if "\x00" in value:  # the one character that no database takes
            raise NotFound("The path contains a NUL character. Remove it.", param=name)
        return value

    async def client_gone(self) -> bool:
        """Comes back with True when the client has hung up, with False when the server stops.

        Only to be asked after the body was read.
        """
        streams = self.streams
        watch = streams.watch(self.receive)
        try:
            await asyncio.wait((watch,))
            return not watch.cancelled()
        finally:
            await streams.release(watch)

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


def time_in(text: str | None, *, param: str) -> int | None:
    """Milliseconds since 1970 of a time in a query string; one without an offset is UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.upper().replace(" ", "+"))  # a plus sign that was not percent-encoded
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"The query parameter '{param}' is not a time in ISO 8601. Write it as 2026-01-15T10:30:00Z.", param=param
        ) from None


Handler = Callable[[Request], Awaitable[Response]]
"""What a route does: take a request, ask a service, return the response."""


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
