"""JSON lines that are sent as they are read, in constant memory: exports.

Above: handlers of exports. A page is made when the one before has left. A fault in the middle breaks the connection
off, so no client takes a part for the whole.
"""

from collections.abc import AsyncGenerator

from starlette.types import Receive, Scope, Send

from jackfield.http.response import NO_STORE, Header, send_whole
from jackfield.http.sse import Interruptible
from jackfield.http.streams import Streams

LINES_MEDIA = "application/x-ndjson"


class JsonLines:
    """A response of lines, given in pieces of whole lines."""

    def __init__(self, pieces: AsyncGenerator[bytes], *, streams: Streams, filename: str) -> None:
        self._pieces = pieces
        self._streams = streams
        self._headers: list[Header] = [
            (b"content-type", LINES_MEDIA.encode()),
            (b"content-disposition", f'attachment; filename="{filename}"'.encode()),
            NO_STORE,
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        if scope["method"] != "HEAD" and not await self._send_all(receive, send):
            return
        await send({"type": "http.response.body", "body": b""})

    async def _send_all(self, receive: Receive, send: Send) -> bool:
        gone = self._streams.watch(receive)
        waiting = Interruptible(gone)
        try:
            while (piece := await waiting.next_of(self._pieces)) is not None:
                if not await send_whole(send, piece, gone=gone):
                    return False
            return not gone.done()
        finally:
            await self._pieces.aclose()
            await self._streams.release(gone)
