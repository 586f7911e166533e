"""HTTP with SSE, the transport of 2024-11-05: one stream from the server, which names where messages are posted.

Above: `upstream.py`. Below: `outgoing`, the guarded client.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import ClassVar
from urllib.parse import urljoin

from msgspec import Raw

from jackfield.protocol.sse import EventParser
from jackfield.sources.mcp.errors import NotDelivered, SessionLost, UpstreamLost
from jackfield.sources.mcp.exchange import Exchange
from jackfield.sources.mcp.wires import MAX_MESSAGE, Listener
from jackfield.sources.outgoing import (
    Outgoing,
    OutgoingBadUrl,
    OutgoingError,
    OutgoingNotSent,
    OutgoingRefused,
    StreamedResponse,
)
from jackfield.sources.outgoing.urls import named_origin


class SseWire:
    """One server at one url."""

    legacy_only: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str],
        outgoing: Outgoing,
        named_by: str | None,
        listener: Listener,
    ) -> None:
        self._url = url
        self._headers = dict(headers)
        self._outgoing = outgoing
        self._named_by = named_by
        self._listener = listener
        self._exchange = Exchange(name, send=self._post, listener=listener)
        self._endpoint: str | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        answer = await self._send("GET", self._url, {"accept": "text/event-stream"})
        if answer.status != HTTPStatus.OK:
            await answer.aclose()
            raise UpstreamLost(
                f"The server answered HTTP {answer.status} where a stream was expected. "
                'If it is a newer server, set transport = "http".'
            )
        named = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(answer, named), name=f"mcp stream of {self._url}")
        self._endpoint = await named

    def agreed(self, revision: str, *, is_modern: bool) -> None:  # noqa: ARG002 - only one era goes over this
        self._headers["mcp-protocol-version"] = revision

    async def call(self, number: int, method: str, params: Raw, *, headers: Mapping[str, str]) -> Raw:  # noqa: ARG002 - its revisions have none
        return await self._exchange.call(number, method, params)

    async def notify(self, method: str, params: Raw) -> None:
        await self._exchange.notify(method, params)

    async def close(self) -> None:
        await self._exchange.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self, answer: StreamedResponse, named: "asyncio.Future[str]") -> None:
        try:
            await self._hear(answer, named)
            fault = UpstreamLost("The server ended its stream.")
        except OutgoingError as error:
            fault = UpstreamLost(error.message)
        except UpstreamLost as error:
            fault = error
        finally:
            await answer.aclose()
        if not named.done():
            named.set_exception(fault)
        self._exchange.lose(fault)
        self._listener.lost(fault)

    async def _hear(self, answer: StreamedResponse, named: "asyncio.Future[str]") -> None:
        parser = EventParser()
        size = 0
        async for part in answer.aiter_bytes():
            events = parser.feed(part)
            size = 0 if events else size + len(part)
            if size > MAX_MESSAGE:
                raise UpstreamLost(f"The server sent an event of more than the {MAX_MESSAGE:,} bytes allowed.")
            for event in events:
                if event.type == "endpoint" and not named.done():
                    named.set_result(_endpoint(self._url, event.data))
                elif event.type == "message":
                    self._exchange.feed(event.data)

    async def _post(self, body: bytes) -> None:
        assert self._endpoint is not None
        answer = await self._send("POST", self._endpoint, {"content-type": "application/json"}, body)
        await answer.aclose()
        if answer.status == HTTPStatus.NOT_FOUND:
            raise SessionLost("The server has forgotten our session.")
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise UpstreamLost(f"The server answered HTTP {answer.status} to a message.")

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> StreamedResponse:
        try:
            return await self._outgoing.send(
                method, url, headers={**self._headers, **headers}, content=body, named_by=self._named_by
            )
        except OutgoingRefused:
            raise
        except OutgoingNotSent as fault:
            raise NotDelivered(fault.message) from None
        except OutgoingError as fault:
            raise UpstreamLost(fault.message) from None


def _endpoint(url: str, said: str) -> str:
    """Where messages go. A server may only name a place at its own origin, since our headers go there."""
    endpoint = urljoin(url, said)
    try:
        same = named_origin(endpoint) == named_origin(url)
    except OutgoingBadUrl:
        same = False
    if not same:
        raise UpstreamLost("The server named a place for messages that is not its own.")
    return endpoint
