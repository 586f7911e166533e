"""`client.calls`: records of calls; following, waiting for, approving, answering and cancelling them."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.errors import AlreadyResolved
from jackfield.protocol.backoff import backoff
from jackfield.protocol.functions import ToolAnswer
from jackfield.protocol.large_results import LargeResult, ResultPage, digest_of
from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, given, segment, send_json
from jackfield.sdk.errors import AWAY, GatewayFault, GatewayUnreachable, NoAnswer
from jackfield.sdk.types import FOR_OTHERS, CallEvent, CallPage, CallRecord, Receipt

LONG_POLL = 30.0
"""Seconds that one request of `wait` may stay open at the gateway."""
LONG_POLL_SLACK = 15.0
"""Seconds beyond that until the response must have arrived."""
PAGE_SIZE = 500
PAGE_BYTES = 1_000_000
"""Bytes of a result in one page: the most that a gateway sends."""


class Calls:
    """The calls that this key may see."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def get(self, call_id: str) -> CallRecord:
        """One call's record. Raises `CallNotFound`."""
        return await self._connection.fetch(get(_call_path(call_id)), CallRecord, "call")

    async def list(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        kind: str | None = None,
        agent: str | None = None,
        run_id: str | None = None,
        principal: str | None = None,
        source: str | None = None,
        since: str | None = None,
        until: str | None = None,
        q: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> CallPage:
        """One page of calls, newest first; `cursor` is the `next_cursor` of the page before.

        `kind`: `tool`, `resource` (then `tool` is a URI) or `prompt`. `since` and `until` are ISO 8601. `q` is a text
        in the tool's name, the arguments, the result or the error.
        """
        params = {
            "status": status,
            "tool": tool,
            "kind": kind,
            "agent": agent,
            "run_id": run_id,
            "principal": principal,
            "source": source,
            "since": since,
            "until": until,
            "q": q,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._connection.fetch(get("/api/v1/calls", params), CallPage)

    async def iterate(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        kind: str | None = None,
        agent: str | None = None,
        run_id: str | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[CallRecord, None]:
        """Every matching call, newest first, page after page."""
        cursor: str | None = None
        while True:
            page = await self.list(
                status=status, tool=tool, kind=kind, agent=agent, run_id=run_id, limit=page_size, cursor=cursor
            )
            for call in page.calls:
                yield call
            if page.next_cursor is None:
                return
            cursor = page.next_cursor

    async def pending(self, *, tool: str | None = None, agent: str | None = None) -> tuple[CallRecord, ...]:
        """Every call that waits for an approval or an answer, newest first."""
        waiting = self.iterate(status=",".join(FOR_OTHERS), tool=tool, agent=agent, page_size=PAGE_SIZE)
        async with aclosing(waiting) as calls:
            return tuple([call async for call in calls])

    async def wait(self, call_id: str, timeout: float | None = None) -> CallRecord:
        """The record once the call is settled, or as it is after `timeout` seconds: see its `is_settled`.

        The gateway holds the request open until the call is settled. A gateway that goes away meanwhile is waited
        for; one that is unreachable from the start raises.
        """
        end = None if timeout is None else time.monotonic() + timeout
        record = await self.get(call_id)
        attempt = 0
        while not record.is_settled and (end is None or time.monotonic() < end):
            asked = time.monotonic()
            poll = LONG_POLL if end is None else min(LONG_POLL, end - asked)
            try:
                record = await self._long_poll(call_id, poll)
            except AWAY:
                attempt += 1
            else:
                attempt = 0
            if not record.is_settled and time.monotonic() - asked < poll / 2:
                # The gateway is away, or does not hold requests open.
                pause = backoff(attempt)
                await asyncio.sleep(pause if end is None else max(0.0, min(pause, end - time.monotonic())))
        return record

    async def _long_poll(self, call_id: str, seconds: float) -> CallRecord:
        request = get(_call_path(call_id), {"wait": f"{seconds:.3f}"})
        response = await self._connection.send_long(request, timeout=seconds + LONG_POLL_SLACK)
        return self._connection.decode(response.content, CallRecord, "call")

    async def result(self, call_id: str) -> Any:
        """A settled call's whole result, however large: read by pages and checked against its digest.

        Raises `Conflict` for a call that is not settled. A failed call has a result too: what its caller received.
        """
        page = await self.result_page(call_id, limit=PAGE_BYTES)
        texts = [page.text]
        while page.next_offset is not None:
            offset = page.next_offset
            page = await self.result_page(call_id, offset=offset, limit=PAGE_BYTES)
            if page.next_offset is not None and page.next_offset <= offset:
                raise self._corrupt_result(call_id)
            texts.append(page.text)
        body = "".join(texts).encode()
        if digest_of(body) != page.digest:
            raise self._corrupt_result(call_id)
        return self._connection.decode(body, Any)

    async def result_page(self, call_id: str, *, offset: int = 0, limit: int | None = None) -> ResultPage:
        """A part of a settled call's result as JSON text: up to `limit` bytes from `offset` on."""
        params = {"offset": offset, "limit": limit}
        return await self._connection.fetch(get(f"{_call_path(call_id)}/result", params), ResultPage)

    def _corrupt_result(self, call_id: str) -> GatewayFault:
        return GatewayFault(
            f"The pages of {self._connection.url}{_call_path(call_id)}/result do not match the result's "
            "digest. Check whether a proxy between you and the gateway changes responses."
        )

    async def approve(self, call_id: str, arguments: Mapping[str, Any] | None = None) -> CallRecord:
        """Approve a call that waits for it, perhaps with other arguments. Returns its new record.

        Raises `Conflict` for one that does not wait for approval any more, `Expired` for one that expired before and
        `InvalidArguments` for arguments that the tool does not accept; the call is then unchanged.
        """
        return await self._act(call_id, "approve", {} if arguments is None else {"arguments": dict(arguments)})

    async def reject(self, call_id: str, reason: str | None = None) -> CallRecord:
        """Reject a call that waits for approval; its caller gets the reason. Raises as `approve` does."""
        return await self._act(call_id, "reject", given({"reason": reason}))

    async def cancel(self, call_id: str) -> CallRecord:
        """Cancel a call and return its new record. Raises `Conflict` for a settled one."""
        request = ApiRequest(method="POST", path=f"{_call_path(call_id)}/cancel")
        return await self._connection.fetch(request, CallRecord, "call")

    async def _act(self, call_id: str, verb: str, body: dict[str, Any]) -> CallRecord:
        request = send_json("POST", f"{_call_path(call_id)}/{verb}", body)
        return await self._connection.fetch(request, CallRecord, "call")

    async def progress(
        self,
        call_id: str,
        progress: float,
        *,
        total: float | None = None,
        message: str | None = None,
        attempt: int | None = None,
    ) -> None:
        """Report the progress of a waiting call. Extends its deadline, up to the tool's limit.

        `attempt` is for tool servers: the number of the offer. Raises `Conflict` once another server has the call.
        """
        body = given({"progress": progress, "total": total, "message": message, "attempt": attempt})
        await self._connection.send(send_json("POST", f"{_call_path(call_id)}/progress", body))

    async def answer(self, call_id: str, result: Any, *, run_id: str | None = None) -> Receipt:
        """Give a waiting call its result: any JSON value, `None` included.

        Raises `AlreadyResolved` when another answer was first and `Expired` when it comes too late. `run_id` saves
        reading the record.
        """
        return await self._answer(call_id, ToolAnswer.of(result), run_id)

    async def fail(self, call_id: str, error: str, *, run_id: str | None = None) -> Receipt:
        """Settle a waiting call with an error message. Raises as `answer` does."""
        return await self._answer(call_id, ToolAnswer(error=error), run_id)

    async def _answer(self, call_id: str, answer: ToolAnswer, run_id: str | None) -> Receipt:
        """Submit it, and once more if the response was lost: if the first copy arrived, the second gets 409."""
        run = run_id or (await self.get(call_id)).run_id or ""
        try:
            return await submit(self._connection, call_id, answer, run_id=run)
        except (GatewayUnreachable, NoAnswer):
            await asyncio.sleep(backoff(0))
        try:
            return await submit(self._connection, call_id, answer, run_id=run)
        except AlreadyResolved:
            record = await self.get(call_id)
            if not is_settled_with(record, answer):
                raise
            return Receipt(call_id=call_id, agent=record.agent, delivery=record.delivery)

    async def follow(
        self, *, status: str | None = None, tool: str | None = None, agent: str | None = None
    ) -> AsyncGenerator[CallEvent, None]:
        """Events of calls from now on, across reconnects, until the iteration is left.

        With `status` (one, or several with commas) only calls in it: those that are in it now, which come again
        after a reconnect, and the event of one that leaves it. `pending` means all that wait for somebody.
        """
        request = get("/api/v1/calls/stream", {"status": status, "tool": tool, "agent": agent})
        async with aclosing(self._connection.follow(request)) as events:
            async for event in events:
                if event.type.startswith("call."):
                    yield self._connection.decode(event.data, CallEvent)


async def submit(connection: GatewayConnection, call_id: str, answer: ToolAnswer, *, run_id: str) -> Receipt:
    """Send an answer once. A second one for the same call, even an equal one, raises `AlreadyResolved`."""
    body = {"callId": call_id, **answer.fields()}
    return await connection.fetch(send_json("POST", f"/api/runs/{segment(run_id)}/tool-results", body), Receipt)


def large_result(result: Any, *, call_id: str) -> LargeResult | None:
    """The notice that stands in place of a large result; None for a result that is no notice.

    A tool may return something that looks like a notice, but it cannot know its own call id.
    """
    if not isinstance(result, dict) or result.get("large_result") is not True or result.get("call_id") != call_id:
        return None
    try:
        return msgspec.convert(result, LargeResult)
    except msgspec.ValidationError:
        return None


def is_settled_with(record: CallRecord, answer: ToolAnswer) -> bool:
    """Whether the call was settled with this very answer."""
    if answer.error is not None:
        is_equal = record.error is not None and record.error.message == answer.error
        return is_equal or _has_notice_of(record, {"error": answer.error})
    result = msgspec.json.decode(answer.result or Raw(b"null"))
    return record.status == "completed" and (record.result == result or _has_notice_of(record, result))


def _has_notice_of(record: CallRecord, result: Any) -> bool:
    notice = large_result(record.result, call_id=record.id)
    return notice is not None and notice.digest == digest_of(msgspec.json.encode(result))


def _call_path(call_id: str) -> str:
    return f"/api/v1/calls/{segment(call_id)}"
