"""One request on its way to its answer: what is said before the answer, and how it is called off.

Above: the door, which sends, and the methods, which answer. Below: asyncio. Knows neither HTTP nor what is asked.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from jackfield.calls.receipts import StreamedCall
from jackfield.protocol.jsonrpc import INTERNAL_ERROR, RpcError, RpcRequest

BACKLOG = 1_000
"""Messages that may wait for one client."""
Settled = bytes | RpcError
"""What a request came to: the bytes of its result, or an error."""
_STOPPED = RpcError(INTERNAL_ERROR, "The gateway stopped before this was answered. See the record of the call.")


class McpExchange:
    """A request that is being answered. Used on the event loop only."""

    __slots__ = (
        "_asked",
        "_outbox",
        "_successor",
        "_waiter",
        "call_off",
        "interim",
        "is_called_off",
        "receipt",
        "request",
        "work",
    )

    def __init__(self, request: RpcRequest) -> None:
        self.request = request
        self.work: asyncio.Task[Settled] | None = None
        self.call_off: Callable[[], None] | None = None
        """Stops what the request began; None: there is nothing to stop."""
        self.is_called_off = False
        self.receipt: StreamedCall | None = None
        """Notes whether the client got the outcome of the call that it made."""
        self.interim: bytes | None = None
        """A result that ends this request and not the work: the client is to come back with more."""
        self._outbox: list[bytes] = []
        self._asked: list[asyncio.Future[Any]] = []
        self._successor: McpExchange | None = None
        self._waiter: asyncio.Future[bool] | None = None

    def begin(self, work: "asyncio.Task[Settled]") -> None:
        """This task is the request being answered."""
        self.work = work
        work.add_done_callback(self.wake)

    def say(self, message: bytes) -> None:
        """Something for the client before its answer. Never blocks."""
        if self._successor is not None:
            self._successor.say(message)
            return
        self._outbox.append(message)
        self.wake()

    def ask(self, message: bytes, answer: "asyncio.Future[Any]") -> None:
        """Something that the client is to answer, unless it hangs up."""
        self._asked.append(answer)
        self.say(message)

    def give_interim(self, result: bytes) -> None:
        """End this request with a result that asks the client to come back."""
        if self._successor is not None:
            self._successor.give_interim(result)
            return
        self.interim = result
        self.wake()

    @property
    def latest(self) -> RpcRequest:
        """The request that is open now: this one, or the last that the client came back with."""
        return self.request if self._successor is None else self._successor.latest

    def hand_over(self, successor: "McpExchange") -> None:
        """The client came back: what is said from now on is for the request that it came back with."""
        self._successor = successor
        successor.call_off, successor.receipt = self.call_off, self.receipt

    @property
    def has_room(self) -> bool:
        """Whether more may be said that can be done without: a client that reads slowly must not fill our memory."""
        return len(self._outbox) < BACKLOG if self._successor is None else self._successor.has_room

    def take(self) -> list[bytes]:
        """What was said and not taken yet."""
        said, self._outbox = self._outbox, []
        return said

    @property
    def has_more_than_an_answer(self) -> bool:
        """Something was said before it, or somebody has to know whether it arrives."""
        return bool(self._outbox) or (self.receipt is not None and self.receipt.is_owed)

    @property
    def settled(self) -> Settled | None:
        """What it came to, once it has come to something."""
        if self.work is not None and self.work.done():
            return _STOPPED if self.work.cancelled() else self.work.result()
        return self.interim

    def cancel(self) -> None:
        """The client does not want it any more."""
        self.is_called_off = True
        if self.call_off is not None:
            self.call_off()

    def let_go(self) -> None:
        """The client is gone and answers nothing any more."""
        for answer in self._asked:
            if not answer.done():
                answer.set_result(None)

    async def wait(self, *, within: float) -> bool:
        """Until there is something to send or something else woke us; False: nothing did for `within` seconds."""
        if self._outbox or self.settled is not None:
            return True
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(within, self._give_up_waiting)
        try:
            return await self._waiter
        finally:
            timer.cancel()

    def _give_up_waiting(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(False)

    def wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)
