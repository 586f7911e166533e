"""What a door gives back: a whole answer in one piece. Streams are in `sse.py`.

An answer is an ASGI app, so `guard.py` sends every kind the same way. Above: the doors. Below: msgspec.
"""

from collections.abc import Awaitable, Iterable
from typing import Any, Protocol

import msgspec
from starlette.types import Receive, Scope, Send

encode = msgspec.json.Encoder().encode
Header = tuple[bytes, bytes]

JSON = (b"content-type", b"application/json")
NO_STORE = (b"cache-control", b"no-store")
CACHED: tuple[Header, ...] = (
    (b"cache-control", b"public, max-age=60"),
    (b"vary", b"Authorization, X-Api-Key, X-Secret-Key, Cookie"),
)
"""Of a manifest: it may be kept for a minute, by whoever has the same key."""
_JSON_HEADERS = (JSON, NO_STORE)


class Answer(Protocol):
    """Something that can be sent: `Reply`, `EventStream`, or any response of Starlette."""

    def __call__(self, scope: Scope, receive: Receive, send: Send, /) -> Awaitable[None]: ...


class Reply:
    """Status, headers and a body that is ready."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Iterable[Header], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send(self.start())
        await send({"type": "http.response.body", "body": self.body})

    def start(self) -> dict[str, Any]:
        """What is sent before the body."""
        length = (b"content-length", b"%d" % len(self.body))
        return {"type": "http.response.start", "status": self.status, "headers": [*self.headers, length]}


class Empty:
    """An answer without a body: 204, 304."""

    __slots__ = ("headers", "status")

    def __init__(self, status: int, headers: Iterable[Header] = ()) -> None:
        self.status = status
        self.headers = headers

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": b""})


def json_reply(value: Any, *, status: int = 200, headers: Iterable[Header] = ()) -> Reply:
    """`value` as JSON that nobody may keep."""
    return raw_json_reply(encode(value), status=status, headers=headers)


def raw_json_reply(body: bytes, *, status: int = 200, headers: Iterable[Header] = ()) -> Reply:
    """JSON that is encoded already."""
    return Reply(status, (*_JSON_HEADERS, *headers), body)


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Whether an If-None-Match header names this ETag: `*`, or a list, weak or strong."""
    if if_none_match is None:
        return False
    bare = etag.removeprefix("W/")
    given = [one.strip() for one in if_none_match.split(",")]
    return "*" in given or any(one.removeprefix("W/") == bare for one in given)
