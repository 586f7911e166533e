"""Carries MCP between a client on stdio and the `/mcp` of a gateway, for both eras.

Above: `mcp.py`. Below: HTTP, by way of `stdio_gateway.py`. A message passes as it is. What a client on stdio does by a
message and one on HTTP by its connection is translated: calling off a request, and hearing what is said unasked.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Protocol

import msgspec

from jackfield.cli.stdio_gateway import GatewayGone, McpGateway
from jackfield.mcp.wire import (
    INITIALIZE,
    INTERNAL_ERROR,
    PARSE_ERROR,
    Incoming,
    RequestId,
    RpcError,
    RpcNotification,
    RpcRequest,
    RpcResponse,
    error_response,
    message_of,
    notification,
)
from jackfield.protocol.backoff import backoff

log = logging.getLogger(__name__)


CANCELLED = "notifications/cancelled"
LIST_CHANGED = "notifications/tools/list_changed"
LAST_WORD_WITHIN = 2.0

_decode = msgspec.json.Decoder(Incoming).decode


class Lines(Protocol):
    """The client's side."""

    def lines(self) -> AsyncIterator[bytes]: ...

    async def write(self, message: bytes) -> None: ...


class StdioBridge:
    """One client, as long as it is there."""

    def __init__(self, gateway: McpGateway, stdio: Lines) -> None:
        self._gateway = gateway
        self._stdio = stdio
        self._open: dict[RequestId, asyncio.Task[None]] = {}
        """Requests that have no answer yet."""
        self._listening: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until the client hangs up."""
        try:
            async for line in self._stdio.lines():
                await self._take(line)
        finally:
            await self._hang_up()

    async def _hang_up(self) -> None:
        tasks = [*self._open.values(), *([self._listening] if self._listening else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_WORD_WITHIN)
        await self._gateway.end_session(within=LAST_WORD_WITHIN)

    async def _take(self, line: bytes) -> None:
        try:
            message = message_of(_decode(line))
        except RpcError as error:
            await self._stdio.write(error_response(None, error))
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            await self._stdio.write(error_response(None, RpcError(PARSE_ERROR, f"This is not a message: {fault}.")))
        else:
            await self._pass_on(message, line)

    async def _pass_on(self, message: RpcRequest | RpcNotification | RpcResponse, line: bytes) -> None:
        if isinstance(message, RpcRequest):
            task = self._open[message.id] = asyncio.create_task(self._request(message, line))
            task.add_done_callback(lambda _: self._forget(message.id, task))
            if message.method == INITIALIZE:
                await asyncio.wait((task,))  # what follows needs the session
        elif isinstance(message, RpcNotification) and message.method == CANCELLED and not self._gateway.has_session:
            self._cancel(message.params.get("requestId"))
        elif self._gateway.has_session:
            await self._say(line)

    def _forget(self, request_id: RequestId, task: "asyncio.Task[None]") -> None:
        if self._open.get(request_id) is task:
            del self._open[request_id]

    def _cancel(self, request_id: object) -> None:
        """From 2026-07-28 on a request is called off over HTTP by closing it."""
        task = self._open.get(request_id) if isinstance(request_id, (str, int)) else None
        if task is not None:
            task.cancel()

    async def _request(self, request: RpcRequest, line: bytes) -> None:
        """Send a request, and every message that comes for it back to the client."""
        try:
            async with aclosing(self._gateway.ask(request, line)) as messages:
                async for message in messages:
                    await self._stdio.write(message)
        except RpcError as error:
            await self._stdio.write(error_response(request.id, error))
        except GatewayGone as fault:
            await self._stdio.write(error_response(request.id, RpcError(INTERNAL_ERROR, str(fault))))
        except Exception:
            log.exception("the request %s could not be carried to the gateway", request.method)
            broken = RpcError(INTERNAL_ERROR, "The bridge to the gateway failed. Its log (stderr) has the details.")
            await self._stdio.write(error_response(request.id, broken))
        if request.method == INITIALIZE and self._gateway.has_session and self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    async def _say(self, line: bytes) -> None:
        try:
            await self._gateway.tell(line)
        except GatewayGone as fault:
            log.warning("a message of the client is lost: %s", fault)

    async def _listen(self) -> None:
        """What the gateway says unasked, across restarts of it."""
        attempt = 0
        while True:
            try:
                if attempt and await self._gateway.renew_session():
                    await self._stdio.write(notification(LIST_CHANGED))
                async with aclosing(self._gateway.listen()) as messages:
                    async for message in messages:
                        attempt = 0
                        if message is not None:
                            await self._stdio.write(message)
            except GatewayGone as fault:
                log.warning("%s Trying again.", fault)
            await asyncio.sleep(backoff(attempt))
            attempt += 1
