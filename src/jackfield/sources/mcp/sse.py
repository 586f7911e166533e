"""MCP over HTTP with SSE (2024-11-05): the server has one stream, on which it first says where messages are posted."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import ClassVar
from urllib.parse import urljoin

from msgspec import Raw

from jackfield.outgoing import Outgoing, OutgoingBadUrl, StreamedResponse, with_answer
from jackfield.outgoing.urls import named_origin
from jackfield.protocol.mcp import VERSION_HEADER
from jackfield.protocol.sse import EventParser
from jackfield.sources.authorization import Authorization
from jackfield.sources.mcp.duplex import DuplexRequests
from jackfield.sources.mcp.http_requests import EVENT_STREAM, FORGOTTEN, HttpTransport, body_of, events_of
from jackfield.sources.mcp.transport import SessionLost, TransportListener, UpstreamLost


class SseTransport(HttpTransport):
    """HTTP with SSE."""

    legacy_only: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        url: str,
        *,
        headers: Mapping[str, str],
        outgoing: Outgoing,
        named_by: str | None,
        listener: TransportListener,
        authorization: Authorization | None = None,
    ) -> None:
        super().__init__(
            name,
            url,
            headers=headers,
            outgoing=outgoing,
            named_by=named_by,
            listener=listener,
            authorization=authorization,
        )
        self._requests = DuplexRequests(name, send=self._post, listener=listener)
        self._endpoint: str | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        response = await self._send("GET", self._url, {"accept": EVENT_STREAM})
        if response.status != HTTPStatus.OK:
            body = await body_of(response)
            await response.aclose()
            fault = UpstreamLost(
                f"The server answered HTTP {response.status} where a stream was expected. "
                'If it is a newer server, set transport = "http".'
            )
            raise with_answer(fault, body, redact=self._redact)
        endpoint = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(response, endpoint), name=f"mcp stream of {self._url}")
        self._endpoint = await endpoint

    def agreed(self, revision: str, *, is_modern: bool) -> None:  # noqa: ARG002 - only one era goes over this
        self._headers[VERSION_HEADER] = revision

    async def call(self, number: int, method: str, params: Raw, *, headers: Mapping[str, str]) -> Raw:  # noqa: ARG002 - its revisions have none
        return await self._requests.call(number, method, params)

    async def notify(self, method: str, params: Raw) -> None:
        await self._requests.notify(method, params)

    async def close(self) -> None:
        await self._requests.close()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self, response: StreamedResponse, endpoint: "asyncio.Future[str]") -> None:
        try:
            async with aclosing(events_of(response, EventParser())) as events:
                async for event in events:
                    if event.type == "endpoint" and not endpoint.done():
                        endpoint.set_result(_endpoint(self._url, event.data))
                    elif event.type == "message":
                        self._requests.feed(event.data)
            fault = UpstreamLost("The server ended its stream.")
        except UpstreamLost as error:
            fault = error
        finally:
            await response.aclose()
        if not endpoint.done():
            endpoint.set_exception(fault)
        self._requests.lose(fault)
        self._listener.lost(fault)

    async def _post(self, body: bytes) -> None:
        assert self._endpoint is not None
        response = await self._send("POST", self._endpoint, {"content-type": "application/json"}, body)
        await response.aclose()
        if response.status == HTTPStatus.NOT_FOUND:
            raise SessionLost(FORGOTTEN)
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise UpstreamLost(f"The server answered HTTP {response.status} to a message.")


def _endpoint(url: str, said: str) -> str:
    """Where messages go. Only a url of the server's own origin is taken, since our headers go there."""
    endpoint = urljoin(url, said)
    try:
        same = named_origin(endpoint) == named_origin(url)
    except OutgoingBadUrl:
        same = False
    if not same:
        raise UpstreamLost("The server named a message endpoint on another origin.")
    return endpoint
