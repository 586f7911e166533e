"""uvicorn's HTTP protocol, with one extension: a response that is ready leaves in one write.

ASGI has two messages for a response, and uvicorn writes and checks each by itself: two system calls and two packets.
Here the first message may carry the whole body (`WHOLE`, an ASGI extension of ours). Everything else, streams among it,
is uvicorn's own. Above: `BytesResponse`. Below: uvicorn.
"""

import re
from collections.abc import MutableMapping
from typing import Any, cast

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from jackfield.http.response import PIECE, WHOLE

_FORBIDDEN = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""What no header may have in it: with a line break, a value would become headers of its own."""


class _Cycle(RequestResponseCycle):
    """One request and its response."""

    async def send(self, message: ASGISendEvent) -> None:
        whole = cast("MutableMapping[str, Any]", message)
        body: bytes | None = whole.get(WHOLE)
        if body is None:
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if not self.disconnected:
            self._send_whole(whole["status"], whole["headers"], body)

    def _send_whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        if self.response_started:
            raise RuntimeError("A whole response was sent after another had begun.")
        self.response_started = True
        self.waiting_for_100_continue = False
        fields = [*self.default_headers, *headers]
        if not self.keep_alive:
            fields.append((b"connection", b"close"))
        lines = [name + b": " + value for name, value in fields]
        if _FORBIDDEN.search(b"\t".join(lines)):
            raise RuntimeError("A header of the response has a control character in it.")
        head = STATUS_LINE[status] + b"\r\n".join(lines) + b"\r\n\r\n"
        if len(body) < PIECE:
            self.transport.write(head + body)
        else:  # a copy would cost more than a second write
            self.transport.write(head)
            self.transport.write(body)
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class ServerProtocol(HttpToolsProtocol):
    """One connection."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        cycle = self.cycle
        if cycle is not None and self.scope["method"] != "HEAD":
            # uvicorn makes the cycle itself; nobody has used it yet
            cycle.__class__ = _Cycle
            self.scope["extensions"] = {WHOLE: {}}
