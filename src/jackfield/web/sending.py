"""Sending something whose arrival counts: piece by piece, with an eye on the client.

A server takes any body at once and holds what the network does not take yet; a client that reads slowly may go, and a
gateway may die, long before that has left. Given pieces, the server makes us wait, and at the end it holds next to
nothing.
Above: `receipts.py` and `sse.py`. Below: the ASGI server.
"""

import asyncio
from typing import Any

from starlette.types import Send

PIECE = 64 * 1024
"""Servers make us wait when they hold about this much."""


async def send_whole(send: Send, body: bytes, *, gone: "asyncio.Future[Any]") -> bool:
    """Send a part of a body and wait until it has left. False: the client hung up (`gone` is done) before that."""
    for start in range(0, len(body), PIECE):
        await send(part(body[start : start + PIECE]))
        if gone.done():
            return False
    if len(body) > PIECE:
        await send(part(b""))  # comes back when the server holds little of what went before
        await asyncio.sleep(0)
    return not gone.done()


def part(body: bytes) -> dict[str, object]:
    """A part of a body after which there is more."""
    return {"type": "http.response.body", "body": body, "more_body": True}
