"""Requests that another process behind the same port has to answer: what they are about lives in its memory.

A name that a gateway gives to something in its memory begins with the gateway's id (`model/ids.py`), so whoever gets
the request knows where it belongs. What a header names is handed over before it is looked at; what a body or the store
names is handed over by the handler, with `Request.hand_over`.
Above: `gateway/siblings.py`, which knows the other processes. Below: ASGI.
"""

from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jackfield.model.ids import owner_of

NEIGHBOURS = "jackfield.neighbours"
"""In the ASGI scope of a request that may be handed over."""
_NAMES = {b"mcp-session-id": b"", b"x-api-key": b"jfs_", b"x-secret-key": b"jfs_", b"authorization": b"Bearer jfs_"}
"""Headers that name something in a gateway's memory, and what comes before the name."""


class Neighbours(Protocol):
    """The other processes behind this port."""

    def has(self, gateway_id: str) -> bool:
        """Whether it is one of them, and lives."""

    async def hand_over(self, gateway_id: str, scope: Scope, receive: Receive, send: Send) -> bool:
        """Have it respond. False: it is gone, and nothing has been sent or received."""


class HandOver(Exception):
    """Raised by a handler whose request belongs to another process; `body` is what it has read of it."""

    def __init__(self, gateway_id: str, body: bytes | None) -> None:
        super().__init__(f"handed over to {gateway_id}")
        self.gateway_id = gateway_id
        self.body = body


class HandingOver:
    """The app of one of several processes, with those requests handed over that are not its own."""

    def __init__(self, app: ASGIApp, neighbours: Neighbours) -> None:
        self._app = app
        self._neighbours = neighbours

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        neighbours = self._neighbours
        owner = owner_in(scope["headers"])
        is_handed_over = owner is not None and neighbours.has(owner)
        if owner is not None and is_handed_over:
            if await neighbours.hand_over(owner, scope, receive, send):
                return
            receive = receive if has_body(scope["headers"]) else _replayed(b"", receive)
        scope[NEIGHBOURS] = neighbours
        try:
            await self._app(scope, receive, send)
        except HandOver as asked:
            again = receive if asked.body is None else _replayed(asked.body, receive)
            if not await neighbours.hand_over(asked.gateway_id, scope, again, send):
                del scope[NEIGHBOURS]
                await self._app(scope, again, send)


def owner_in(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The gateway that a header names, by something that it has in its memory."""
    for name, value in headers:
        before = _NAMES.get(name)
        if before is not None and value.startswith(before):
            owner = owner_of(value[len(before) :].decode("latin-1"))
            if owner is not None:
                return owner
    return None


def has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The channel of a request whose body has been read."""
    is_given = False

    async def receive_again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
