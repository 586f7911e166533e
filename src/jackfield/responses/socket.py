"""`/v1/responses` as WebSocket: one response after the other, each event one text frame.

Above: the URL map. Below: `service.py`. A connection keeps its last unstored response, so that it can be continued
here and nowhere else; a failed continuation drops it.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from starlette.types import Message, Send

from jackfield.errors import BadRequest, Refused
from jackfield.http.request import Request
from jackfield.http.response import crash_body, encode
from jackfield.http.streams import stop
from jackfield.model.items import Item
from jackfield.protocol.errors import ErrorBody, error_type, http_status
from jackfield.protocol.json_bodies import DEEPEST, check_depth
from jackfield.responses.request import EVENTS_HEADER, read_event_names, read_request
from jackfield.responses.run import ENDS_WITHIN, FrameQueue, RunningResponse
from jackfield.responses.service import ResponseService

CREATE = "response.create"
WAITING = 8
"""Requests that may wait for their turn; then the connection is read no further."""
QUIET = 3600.0


class SocketError(Struct, frozen=True, kw_only=True, tag="error", tag_field="type"):
    """What is wrong with a request, where HTTP would have a status and a body."""

    status: int
    error: ErrorBody


class ResponseSocket:
    """Answers requests for responses over WebSocket."""

    def __init__(self, responses: ResponseService) -> None:
        self._responses = responses

    async def socket_responses(self, request: Request, send: Send) -> None:
        """Answer every request of a connection, one at a time, until either side closes it."""
        if (await request.receive())["type"] != "websocket.connect":
            return
        await send({"type": "websocket.accept", "headers": []})
        incoming: asyncio.Queue[Message] = asyncio.Queue(WAITING)

        async def receive() -> Message:
            message = await request.receive()
            if message["type"] == "websocket.receive":
                await incoming.put(message)
            return message

        gone = request.streams.watch(receive)
        coming = asyncio.ensure_future(incoming.get())
        connection = _Connection(self._responses, request, send, gone)
        try:
            while await _either(coming, gone):
                await connection.answer(coming.result())
                coming = asyncio.ensure_future(incoming.get())
            if (code := request.streams.close_code(gone)) is not None:
                await send({"type": "websocket.close", "code": code})
        finally:
            await stop(coming)
            await request.streams.release(gone)


async def _either(coming: "asyncio.Future[Message]", gone: "asyncio.Future[None]") -> bool:
    await asyncio.wait((coming, gone), return_when=asyncio.FIRST_COMPLETED)
    return not gone.done()


class _Connection:
    """One connection."""

    def __init__(self, responses: ResponseService, request: Request, send: Send, gone: "asyncio.Task[None]") -> None:
        self._responses = responses
        self._request = request
        self._send = send
        self._gone = gone
        self._remembered: dict[str, Sequence[Item]] = {}

    async def answer(self, message: Message) -> None:
        """One request, to its last event."""
        body: dict[str, Any] = {}
        try:
            body = _read(message)
            run = await self._begin(body)
        except Refused as refusal:
            self._forget(body)
            await self._tell(refused(refusal))
            return
        reader = FrameQueue()
        run.listen(reader)
        await self._pump(run, reader)
        await self._end(run, body)

    async def _begin(self, body: dict[str, Any]) -> RunningResponse:
        names = read_event_names(self._request.header(EVENTS_HEADER))
        asked = read_request(body, event_names=names)
        earlier = self._remembered.get(asked.previous_response_id or "")
        kept = body if earlier is None else None
        return await self._responses.begin(asked, principal=self._request.principal, earlier=earlier, body=kept)

    async def _pump(self, run: RunningResponse, reader: FrameQueue) -> None:
        self._gone.add_done_callback(reader.wake)
        try:
            while not self._gone.done() or self._gone.cancelled():
                if (frame := reader.take()) is not None:
                    await self._send({"type": "websocket.send", "text": frame.data.decode()})
                elif reader.is_closed:
                    return
                elif self._gone.done():
                    run.interrupt()
                    if not (await asyncio.wait((run.task,), timeout=ENDS_WITHIN))[0]:
                        return
                else:
                    await reader.wait(QUIET)
            run.cancel()
        finally:
            self._gone.remove_done_callback(reader.wake)

    async def _end(self, run: RunningResponse, body: dict[str, Any]) -> None:
        if self._gone.done():
            return
        await asyncio.wait((run.task,))
        fault = run.task.exception()
        if fault is not None:
            self._forget(body)
            crash = SocketError(status=500, error=crash_body(fault, what="A response over WebSocket"))
            await self._tell(refused(fault) if isinstance(fault, Refused) else crash)
        elif run.resource.status in ("failed", "cancelled"):
            self._forget(body)
        elif not run.request.store:
            self._remembered = {run.id: run.conversation}

    def _forget(self, body: dict[str, Any]) -> None:
        self._remembered.pop(str(body.get("previous_response_id")), None)

    async def _tell(self, error: SocketError) -> None:
        await self._send({"type": "websocket.send", "text": encode(error).decode()})


def refused(refusal: Refused) -> SocketError:
    status = http_status(refusal)
    body = ErrorBody(type=error_type(status), code=refusal.code, message=refusal.message, param=refusal.param)
    return SocketError(status=status, error=body)


def _read(message: Message) -> dict[str, Any]:
    """The body of a request in a text frame."""
    text = message.get("text")
    if text is None:
        raise BadRequest("Requests are text frames with JSON. Send one.")
    try:
        body = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise BadRequest(f"The message is not valid JSON: {fault}.") from None
    if not isinstance(body, dict) or body.pop("type", None) != CREATE:
        raise BadRequest(f"The message must be an object with the type '{CREATE}'.", param="type")
    if text.count("{") + text.count("[") > DEEPEST:
        check_depth((body,))
    if body.pop("background", None):
        raise BadRequest("A response over WebSocket is not made in the background. Use HTTP.", param="background")
    return body
