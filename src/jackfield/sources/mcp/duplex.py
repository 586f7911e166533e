"""Requests and answers over one two-way stream: who waits for which answer. Used by the wires that have such a stream.

Above: `stdio.py`, `sse.py`. Below: a function that sends bytes; incoming bytes are fed in.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import Raw

from jackfield.sources.mcp import messages
from jackfield.sources.mcp.messages import Message
from jackfield.sources.mcp.transport import INTERNAL_ERROR, NotDelivered, RpcError, TransportListener, UpstreamLost

TELL_SECONDS = 2.0
"""How long we try to tell a server that a call was cancelled, or our answer to its question."""

MOST_ERRANDS = 1_000
"""Questions of one server that are open at a time; one that asks more means us no good."""


class DuplexRequests:
    """The calls in flight on one stream."""

    def __init__(self, name: str, *, send: Callable[[bytes], Awaitable[None]], listener: TransportListener) -> None:
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._send = send
        self._listener = listener
        self._waiting: dict[int | str, asyncio.Future[Raw]] = {}
        self._lost: UpstreamLost | None = None
        self.errands = BackgroundTasks(self._log)

    async def call(self, number: int, method: str, params: Raw) -> Raw:
        if self.lost is not None:
            raise self.lost
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._send(messages.request(number, method, params))
            return await answer
        except asyncio.CancelledError:
            if method not in ("initialize", "server/discover") and self._lost is None:
                self.errands.start(self._tell(cancelled(number)))
            raise
        finally:
            del self._waiting[number]
            if answer.done() and not answer.cancelled():
                answer.exception()  # lost while it was being sent: nobody reads that

    @property
    def lost(self) -> NotDelivered | None:
        """Why nothing can be sent any more."""
        return None if self._lost is None else NotDelivered(self._lost.message)

    async def notify(self, method: str, params: Raw) -> None:
        await self._send(messages.notification(method, params))

    def feed(self, frame: bytes | str) -> None:
        """Take one frame from the server. What is no message is logged and skipped."""
        try:
            incoming = messages.parse(frame)
        except messages.NotAMessage as fault:
            self._log.warning("skipped what is %s", fault)
            return
        for message in incoming:
            self._take(message)

    def lose(self, error: UpstreamLost) -> None:
        """The stream is gone: nobody gets an answer any more."""
        self._lost = error
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)

    async def close(self) -> None:
        self.lose(UpstreamLost("The connection was closed."))
        await self.errands.close()

    def _take(self, message: Message) -> None:
        if message.method is None:
            answer = None if message.id is None else self._waiting.get(message.id)
            if message.is_response and answer is not None and not answer.done():
                try:
                    answer.set_result(message.taken())
                except RpcError as error:
                    answer.set_exception(error)
        elif message.id is None:
            self._listener.notified(message.method, message.params, during=None)
        elif self.errands.has_room:
            self.errands.start(self._answer(message.id, message.method, message.params))

    async def _answer(self, number: int | str, method: str, params: Raw) -> None:
        await self._tell(await answer_to(self._listener, number, method, params, during=None))

    async def _tell(self, message: bytes) -> None:
        async with asyncio.timeout(TELL_SECONDS):
            await self._send(message)


class BackgroundTasks:
    """Small things to do beside a call. They end by themselves, or when the wire closes."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def has_room(self) -> bool:
        """Whether one more question of the server is taken up. What is beyond stays unanswered."""
        return len(self._tasks) < MOST_ERRANDS

    def start(self, errand: Coroutine[Any, Any, None] | Awaitable[None]) -> None:
        task = asyncio.ensure_future(errand)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._log.debug("could not tell the server: %s", fault)


def cancelled(number: int) -> bytes:
    return messages.notification(
        "notifications/cancelled", messages.encoded({"requestId": number, "reason": "nobody waits for it any more"})
    )


async def answer_to(
    listener: TransportListener, number: int | str, method: str, params: Raw, *, during: int | None
) -> bytes:
    """The listener's answer to a server's request, as bytes to send."""
    try:
        return messages.response(number, await listener.asked(method, params, during=during))
    except RpcError as refusal:
        return messages.error_response(number, refusal)
    except Exception:  # a border: one question of a server
        logging.getLogger("jackfield.mcp").exception("could not answer %s", method)
        return messages.error_response(number, RpcError("The client could not answer.", number=INTERNAL_ERROR))
