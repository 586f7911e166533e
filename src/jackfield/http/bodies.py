"""Reading a JSON body: its media type, its size, its depth, its shape. Every fault is the client's, and is said so.

Above: handlers that take a body. Below: the ASGI channel, and `json_bodies.py`, which says what a body must be.
"""

import asyncio
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from starlette.types import Receive

from jackfield.errors import BadRequest, TooLarge
from jackfield.http.request import Request
from jackfield.protocol.errors import TooSlow
from jackfield.protocol.json_bodies import DEEPEST, check_depth, check_media_type, decoded

B = TypeVar("B", bound=Struct)

BODY_WITHIN = 60.0
"""Seconds in which a body must have come."""
_decode_any = msgspec.json.Decoder().decode


class ClientGone(Exception):
    """The client hung up while it was still sending. There is nobody to answer."""


class BodyReader(Generic[B]):
    """Reads bodies of one type; made once per handler."""

    def __init__(self, into: type[B], *, required: bool = True) -> None:
        self._into = into
        self._decode = msgspec.json.Decoder(into).decode
        self._required = required

    async def read(self, request: Request) -> B:
        """The body of this request, or the refusal that says what is wrong with it."""
        body = await read_bytes(request)
        if not body:
            if self._required:
                raise BadRequest("The request has no body. Send a JSON object.")
            return self._into()
        check_media_type(request.headers.get(b"content-type"))
        value = decoded(body, self._decode, into=self._into)
        if body.count(b"{") + body.count(b"[") > DEEPEST:
            check_depth(msgspec.structs.astuple(value))
        return value


async def read_any(request: Request) -> Any:
    """The body as whatever JSON it is; none at all is null."""
    body = await read_bytes(request)
    if not body:
        return None
    check_media_type(request.headers.get(b"content-type"))
    value = decoded(body, _decode_any, into=Struct)
    if body.count(b"{") + body.count(b"[") > DEEPEST:
        check_depth((value,))
    return value


async def read_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object with any keys."""
    value = await read_any(request)
    if not isinstance(value, dict):
        raise BadRequest("The body is not a JSON object. Send one.")
    return value


async def read_bytes(request: Request) -> bytes:
    """The whole body, as long as it keeps within `[server] max_body`."""
    limit = request.max_body
    declared = request.headers.get(b"content-length")
    if declared is not None and (not declared.isdigit() or int(declared) > limit):
        raise _too_large(limit)
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        body = await _read_rest(request.receive, body, limit)
    if len(body) > limit:
        raise _too_large(limit)
    if request.has_neighbours:
        request.body = body
    return body


async def _read_rest(receive: Receive, first: bytes, limit: int) -> bytes:
    parts = [first]
    size = len(first)
    try:
        async with asyncio.timeout(BODY_WITHIN):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise TooSlow(f"The body was not received completely within {BODY_WITHIN:g} s. Send it again.") from None


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit:,} bytes, the limit that [server] max_body sets. Send less.")
