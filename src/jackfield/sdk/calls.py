"""`client.calls`: the records of calls; watching, waiting for, stopping and answering them.

Above: the client. Below: `connection.py`, `streams.py` and `answers.py`.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.errors import AlreadyResolved, Unavailable
from jackfield.protocol.backoff import backoff
from jackfield.sdk.answers import Answer, answer_with, holds, submit
from jackfield.sdk.connection import Connection, Message, get, part
from jackfield.sdk.failures import GatewayFault, GatewayUnreachable, NoAnswer
from jackfield.sdk.results import read_page, read_whole
from jackfield.sdk.streams import follow
from jackfield.sdk.types import FOR_OTHERS, CallEvent, CallPage, CallRecord, Receipt, ResultPage

LONG_POLL = 30.0
"""Seconds that one request of `wait` may stay open at the gateway; then it is asked again."""
REPLY_WITHIN = 15.0
"""Seconds beyond that in which the reply must have come."""
_PAGE = 500


class _OneCall(Struct, frozen=True):
    call: CallRecord


class Calls:
    """The calls that the client's key may see."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, call_id: str) -> CallRecord:
        """One call's record. Raises `CallNotFound`."""
        response = await self._connection.ask(get(_path_of(call_id)))
        return self._connection.decode(response.content, _OneCall).call

    async def list(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        run_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> CallPage:
        """One page of calls, newest first; `cursor` is the page before's `next_cursor`."""
        params = {"status": status, "tool": tool, "agent": agent, "run_id": run_id, "limit": limit, "cursor": cursor}
        response = await self._connection.ask(get("/api/v1/calls", params))
        return self._connection.decode(response.content, CallPage)

    async def iterate(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        run_id: str | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[CallRecord, None]:
        """Every call that fits, newest first, page after page."""
        cursor: str | None = None
        while True:
            page = await self.list(status=status, tool=tool, agent=agent, run_id=run_id, limit=page_size, cursor=cursor)
            for call in page.calls:
                yield call
            if page.next_cursor is None:
                return
            cursor = page.next_cursor

    async def pending(self, *, tool: str | None = None, agent: str | None = None) -> tuple[CallRecord, ...]:
        """Every call that somebody must allow or answer, newest first."""
        waiting = self.iterate(status=",".join(FOR_OTHERS), tool=tool, agent=agent, page_size=_PAGE)
        async with aclosing(waiting) as calls:
            return tuple([call async for call in calls])

    async def wait(self, call_id: str, timeout: float | None = None) -> CallRecord:
        """The record once the call is settled, or as it is after `timeout` seconds: see its `is_settled`.

        Nothing is polled: the gateway holds the request open and answers when the call is settled. A gateway that
        goes away meanwhile is waited for; one that is away from the start raises.
        """
        end = None if timeout is None else time.monotonic() + timeout
        record = await self.get(call_id)
        attempt = 0
        while not record.is_settled and (end is None or time.monotonic() < end):
            asked = time.monotonic()
            patience = LONG_POLL if end is None else min(LONG_POLL, end - asked)
            try:
                record = await self._long_poll(call_id, patience)
            except (GatewayUnreachable, GatewayFault, NoAnswer, Unavailable):
                attempt += 1
            else:
                attempt = 0
            if not record.is_settled and time.monotonic() - asked < patience / 2:
                # It went away, or does not hold requests open.
                await asyncio.sleep(_within(backoff(attempt), end))
        return record

    async def result(self, call_id: str) -> Any:
        """A settled call's result, whole, however large: read by pages and checked against its digest.

        Raises `Conflict` for a call that is not settled. A failed call has a result too: what its caller was told.
        """
        return await read_whole(self._connection, _path_of(call_id))

    async def result_page(self, call_id: str, *, offset: int = 0, limit: int | None = None) -> ResultPage:
        """A piece of a settled call's result as JSON text: up to `limit` bytes from `offset` on."""
        return await read_page(self._connection, _path_of(call_id), offset=offset, limit=limit)

    async def _long_poll(self, call_id: str, seconds: float) -> CallRecord:
        message = get(_path_of(call_id), {"wait": f"{seconds:.3f}"})
        response = await self._connection.send(message, within=seconds + REPLY_WITHIN)
        return self._connection.decode(response.content, _OneCall).call

    async def approve(self, call_id: str, arguments: Mapping[str, Any] | None = None) -> CallRecord:
        """Allow a call that waits for a person, perhaps with other arguments; its record after that.

        Raises `Conflict` for one that does not wait for this any more, `Expired` for one that nobody allowed in time
        and `InvalidArguments` for arguments that the tool cannot take; the call is then as it was.
        """
        body = {} if arguments is None else {"arguments": dict(arguments)}
        return await self._act(call_id, "approve", body)

    async def reject(self, call_id: str, reason: str | None = None) -> CallRecord:
        """Refuse a call that waits for a person; whoever made it is told the reason. Raises as `approve` does."""
        return await self._act(call_id, "reject", {} if reason is None else {"reason": reason})

    async def answer(self, call_id: str, result: Any, *, run_id: str | None = None) -> Receipt:
        """Give a waiting call its result: anything that JSON holds, `None` too.

        Raises `AlreadyResolved` when another answer was first and `Expired` when it comes too late. `run_id` saves a
        look at the record.
        """
        return await self._submit(call_id, answer_with(result), run_id)

    async def fail(self, call_id: str, error: str, *, run_id: str | None = None) -> Receipt:
        """Settle a waiting call without a result; `error` is what the caller is told. Raises as `answer` does."""
        return await self._submit(call_id, Answer(error=error), run_id)

    async def progress(
        self,
        call_id: str,
        progress: float,
        *,
        total: float | None = None,
        message: str | None = None,
        attempt: int | None = None,
    ) -> None:
        """Say how far a waiting call has come. Buys it more time, up to the tool's limit, and resolves nothing.

        `attempt` is for tool servers: the number of the offer. Raises `Conflict` once another server has the call.
        """
        body = {"progress": progress, "total": total, "message": message, "attempt": attempt}
        given = {name: value for name, value in body.items() if value is not None}
        await self._connection.ask(_post(f"{_path_of(call_id)}/progress", given))

    async def cancel(self, call_id: str) -> CallRecord:
        """Stop a call that is not settled, and its record after that. Raises `Conflict` for a settled one."""
        response = await self._connection.ask(Message(method="POST", path=f"{_path_of(call_id)}/cancel"))
        return self._connection.decode(response.content, _OneCall).call

    async def follow(
        self, *, status: str | None = None, tool: str | None = None, agent: str | None = None
    ) -> AsyncGenerator[CallEvent, None]:
        """What happens to calls from now on, across reconnects, until the iteration is left.

        With `status` (one, or several with commas) only calls in it, those that are there now first and again after
        a break, and the event that says that one has left it. `pending` means all that wait for somebody.
        """
        message = get("/api/v1/calls/stream", {"status": status, "tool": tool, "agent": agent})
        async with aclosing(follow(self._connection, message)) as events:
            async for event in events:
                if event.type.startswith("call."):
                    yield self._connection.decode(event.data, CallEvent)

    async def _act(self, call_id: str, verb: str, body: dict[str, Any]) -> CallRecord:
        response = await self._connection.ask(_post(f"{_path_of(call_id)}/{verb}", body))
        return self._connection.decode(response.content, _OneCall).call

    async def _submit(self, call_id: str, answer: Answer, run_id: str | None) -> Receipt:
        """Send it, and once more if the reply was lost: it may have arrived, and then the second copy gets 409."""
        run = run_id or (await self.get(call_id)).run_id or ""
        try:
            return await submit(self._connection, call_id, answer, run_id=run)
        except (GatewayUnreachable, NoAnswer):
            await asyncio.sleep(backoff(0))
        try:
            return await submit(self._connection, call_id, answer, run_id=run)
        except AlreadyResolved:
            record = await self.get(call_id)
            if not holds(record, answer):
                raise
            return Receipt(call_id=call_id, agent=record.agent, delivery=record.delivery)


def _post(path: str, body: dict[str, Any]) -> Message:
    return Message(method="POST", path=path, body=msgspec.json.encode(body))


def _path_of(call_id: str) -> str:
    return f"/api/v1/calls/{part(call_id)}"


def _within(pause: float, end: float | None) -> float:
    """The pause, cut at the moment when the waiting ends."""
    return pause if end is None else max(0.0, min(pause, end - time.monotonic()))
