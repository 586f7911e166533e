"""Requests over one two-way stream, for the transports that have such a stream; background tasks for all of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import Raw

from jackfield.protocol import jsonrpc
from jackfield.protocol.jsonrpc import INTERNAL_ERROR, NotAMessage, RpcError, RpcMessage
from jackfield.protocol.mcp import DISCOVER, INITIALIZE
from jackfield.sources.mcp.transport import NotDelivered, TransportListener, UpstreamLost

TELL_SECONDS = 2.0
"""How long sending a cancellation, or our response to the server's request, may take."""
MAX_TASKS = 1_000
"""Requests of one server that are open at a time; those beyond are not answered."""
HANDSHAKES = frozenset({INITIALIZE, DISCOVER})
"""Requests that are not cancelled by a notification."""


class DuplexRequests:
    """The requests in flight on one stream. Incoming bytes are fed in."""

    def __init__(self, name: str, *, send: Callable[[bytes], Awaitable[None]], listener: TransportListener) -> None:
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._send = send
        self._listener = listener
        self._waiting: dict[int | str, asyncio.Future[Raw]] = {}
        self._lost: UpstreamLost | None = None
        self._tasks = BackgroundTasks(self._log)

    @property
    def lost(self) -> NotDelivered | None:
        """Why nothing can be sent any more."""
        return None if self._lost is None else NotDelivered(self._lost.message)

    async def call(self, number: int, method: str, params: Raw) -> Raw:
        if self._lost is not None:
            raise NotDelivered(self._lost.message)
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._send(jsonrpc.request(number, method, params))
            return await answer
        except asyncio.CancelledError:
            if method not in HANDSHAKES and self._lost is None:
                self._tasks.start(self._tell(cancellation(number)))
            raise
        finally:
            del self._waiting[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # lost while it was being sent: nobody reads that

    async def notify(self, method: str, params: Raw) -> None:
        await self._send(jsonrpc.notification(method, params))

    def feed(self, frame: bytes | str) -> None:
        """Take one frame from the server. What is no message is logged and skipped."""
        try:
            incoming = jsonrpc.parse(frame)
        except NotAMessage as fault:
            self._log.warning("skipped what is %s", fault)
            return
        for message in incoming:
            self._take(message)

    def lose(self, error: UpstreamLost) -> None:
        """The stream is gone: no request gets its response any more."""
        self._lost = error
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)

    async def close(self) -> None:
        self.lose(UpstreamLost("The connection was closed."))
        await self._tasks.close()

    def _take(self, message: RpcMessage) -> None:
        if message.method is not None:
            self._tasks.dispatch(message, self._listener, during=None, send=self._tell)
            return
        answer = None if message.id is None else self._waiting.get(message.id)
        if answer is None or answer.done() or not message.is_response:
            return
        try:
            answer.set_result(message.unwrap())
        except RpcError as error:
            answer.set_exception(error)

    async def _tell(self, message: bytes) -> None:
        async with asyncio.timeout(TELL_SECONDS):
            await self._send(message)


class BackgroundTasks:
    """Small tasks beside the requests. They end by themselves, or when the transport closes."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def dispatch(
        self,
        message: RpcMessage,
        listener: TransportListener,
        *,
        during: int | None,
        send: Callable[[bytes], Awaitable[None]],
    ) -> None:
        """Hand a notification to the listener, or have it answer a request, as long as not too many are open."""
        assert message.method is not None
        if message.id is None:
            listener.notified(message.method, message.params, during=during)
        elif len(self._tasks) < MAX_TASKS:
            self.start(_answer(message, listener, during=during, send=send))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._log.debug("could not tell the server: %s", fault)


def cancellation(number: int) -> bytes:
    params = {"requestId": number, "reason": "nobody waits for it any more"}
    return jsonrpc.notification("notifications/cancelled", params)


async def _answer(
    message: RpcMessage, listener: TransportListener, *, during: int | None, send: Callable[[bytes], Awaitable[None]]
) -> None:
    assert message.id is not None
    assert message.method is not None
    number, method = message.id, message.method
    try:
        body = jsonrpc.response(number, await listener.asked(method, message.params, during=during))
    except RpcError as refusal:
        body = jsonrpc.error_response(number, refusal)
    except Exception:  # a border: one request of a server
        logging.getLogger("jackfield.mcp").exception("could not answer %s", method)
        body = jsonrpc.error_response(number, RpcError(INTERNAL_ERROR, "The client could not answer."))
    await send(body)
