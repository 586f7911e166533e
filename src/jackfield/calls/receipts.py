"""Whether an HTTP caller got the response to its call: T11 and T12 of the pending-call protocol.

Only the request that made the call counts; a repeat with the same Idempotency-Key reads the record, and reading is not
delivery. A call without an agent owes nobody anything.
Above: `execute_api.py` and MCP. Below: the pipeline.
"""

import asyncio

import msgspec
from starlette.types import Receive, Scope, Send

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest
from jackfield.http.response import BytesResponse, send_whole
from jackfield.http.streams import stop, until_disconnect
from jackfield.model.call import Call, Delivery


def is_owed(call: Call, call_id: str) -> bool:
    """Whether the answer to the request that was to make call `call_id` is the delivery of its outcome."""
    return call.waiter is not None and call.delivery is Delivery.INLINE and call.id == call_id


class OwedAnswer:
    """An answer that is marked after its last byte, or goes to the agent's inbox if the client is gone before."""

    def __init__(self, reply: BytesResponse, call: Call, pipeline: Pipeline) -> None:
        self._reply = reply
        self._call = call
        self._pipeline = pipeline

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(until_disconnect(receive))
        await asyncio.sleep(0)
        try:
            was_sent = not gone.done() and await self._send(send, gone)
        except Exception:
            await self._pipeline.not_sent(self._call)
            raise
        finally:
            await stop(gone)
        await (self._pipeline.sent if was_sent else self._pipeline.not_sent)(self._call)

    async def _send(self, send: Send, gone: "asyncio.Future[None]") -> bool:
        await send(self._reply.start())
        if not await send_whole(send, self._reply.body, gone=gone):
            return False
        await send({"type": "http.response.body", "body": b""})
        return True


class StreamedCall:
    """A call whose client listens to it; the same two endings, whenever its stream ends."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._gone = asyncio.Event()
        self._owed: Call | None = None
        self.late: Call | None = None
        """A call whose outcome the client has waited for beyond the answer that it was due at first."""

    async def make(self, request: CallRequest, *, call_id: str) -> Call:
        request = msgspec.structs.replace(request, client_gone=self._gone.wait)
        call = await self._pipeline.call(request, call_id=call_id)
        if is_owed(call, call_id):
            self._owed = call
        if self._gone.is_set():
            await self._give()
        return call

    @property
    def is_owed(self) -> bool:
        """Whether somebody must know if the answer arrives."""
        return self._owed is not None or self.late is not None

    async def sent(self) -> None:
        """The last message is on its way."""
        call, self._owed = self._owed, None
        if call is not None:
            await self._pipeline.sent(call)
        late, self.late = self.late, None
        if late is not None:
            await self._pipeline.collected(late)

    async def end(self) -> None:
        """The stream is over. What was not sent goes to the inbox; what is not there yet will."""
        self._gone.set()
        await self._give()

    async def _give(self) -> None:
        call, self._owed = self._owed, None
        if call is not None:
            await self._pipeline.not_sent(call)
