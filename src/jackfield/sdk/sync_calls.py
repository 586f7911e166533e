"""`client.calls` of the blocking client: `calls.py`, method for method, run on the loop's thread."""

from collections.abc import Generator, Mapping
from typing import Any

from jackfield.sdk.calls import Calls
from jackfield.sdk.loop import LoopThread
from jackfield.sdk.types import CallEvent, CallPage, CallRecord, Receipt, ResultPage


class SyncCalls:
    """`Calls`, blocking."""

    def __init__(self, calls: Calls, loop: LoopThread) -> None:
        self._calls = calls
        self._loop = loop

    def get(self, call_id: str) -> CallRecord:
        """One call's record. Raises `CallNotFound`."""
        return self._loop.run(self._calls.get(call_id))

    def list(
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
        return self._loop.run(
            self._calls.list(status=status, tool=tool, agent=agent, run_id=run_id, limit=limit, cursor=cursor)
        )

    def iterate(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        agent: str | None = None,
        run_id: str | None = None,
        page_size: int | None = None,
    ) -> Generator[CallRecord, None, None]:
        """Every call that fits, newest first, page after page."""
        return self._loop.iterate(
            self._calls.iterate(status=status, tool=tool, agent=agent, run_id=run_id, page_size=page_size)
        )

    def pending(self, *, tool: str | None = None, agent: str | None = None) -> tuple[CallRecord, ...]:
        """Every call that somebody must allow or answer, newest first."""
        return self._loop.run(self._calls.pending(tool=tool, agent=agent))

    def wait(self, call_id: str, timeout: float | None = None) -> CallRecord:
        """The record once the call is settled, or as it is after `timeout` seconds: see its `is_settled`."""
        return self._loop.run(self._calls.wait(call_id, timeout))

    def result(self, call_id: str) -> Any:
        """A settled call's result, whole, however large. Raises as `Calls.result` does."""
        return self._loop.run(self._calls.result(call_id))

    def result_page(self, call_id: str, *, offset: int = 0, limit: int | None = None) -> ResultPage:
        """A piece of a settled call's result as JSON text: up to `limit` bytes from `offset` on."""
        return self._loop.run(self._calls.result_page(call_id, offset=offset, limit=limit))

    def approve(self, call_id: str, arguments: Mapping[str, Any] | None = None) -> CallRecord:
        """Allow a call that waits for a person, perhaps with other arguments. Raises as `Calls.approve` does."""
        return self._loop.run(self._calls.approve(call_id, arguments))

    def reject(self, call_id: str, reason: str | None = None) -> CallRecord:
        """Refuse a call that waits for a person; whoever made it is told the reason."""
        return self._loop.run(self._calls.reject(call_id, reason))

    def answer(self, call_id: str, result: Any, *, run_id: str | None = None) -> Receipt:
        """Give a waiting call its result. Raises as `Calls.answer` does."""
        return self._loop.run(self._calls.answer(call_id, result, run_id=run_id))

    def fail(self, call_id: str, error: str, *, run_id: str | None = None) -> Receipt:
        """Settle a waiting call without a result; `error` is what the caller is told."""
        return self._loop.run(self._calls.fail(call_id, error, run_id=run_id))

    def progress(
        self,
        call_id: str,
        progress: float,
        *,
        total: float | None = None,
        message: str | None = None,
        attempt: int | None = None,
    ) -> None:
        """Say how far a waiting call has come."""
        self._loop.run(self._calls.progress(call_id, progress, total=total, message=message, attempt=attempt))

    def cancel(self, call_id: str) -> CallRecord:
        """Stop a call that is not settled, and its record after that. Raises `Conflict` for a settled one."""
        return self._loop.run(self._calls.cancel(call_id))

    def follow(
        self, *, status: str | None = None, tool: str | None = None, agent: str | None = None
    ) -> Generator[CallEvent, None, None]:
        """What happens to calls from now on, across reconnects, until the iteration is left."""
        return self._loop.iterate(self._calls.follow(status=status, tool=tool, agent=agent))
