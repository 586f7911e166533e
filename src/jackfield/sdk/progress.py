"""`progress(…)`: how a served function reports its progress.

A context variable holds the reporter of the call that the function runs for, in its thread or task. Outside a served
call `progress` does nothing, so the function can be run alone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from jackfield.errors import JackfieldError
from jackfield.protocol.records import Progress

LAST_REPORT_TIMEOUT = 2.0
"""Seconds that the last report may delay the answer."""
_log = logging.getLogger("jackfield.sdk")
_current: ContextVar["ProgressReporter | None"] = ContextVar("jackfield_reporter", default=None)


def progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Report the progress of the call that this function runs for. Returns at once; callable from any thread.

    Extends the call's deadline, up to the tool's limit. When reports come faster than they can be sent, only the
    newest is sent.
    """
    reporter = _current.get()
    if reporter is not None:
        reporter.report(Progress(progress=done, total=total, message=message))


class ProgressReporter:
    """Sends the reports of one call, one at a time."""

    def __init__(self, call_id: str, send: Callable[[Progress], Awaitable[None]]) -> None:
        self._call_id = call_id
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._newest: Progress | None = None
        self._sending: asyncio.Task[None] | None = None

    @contextmanager
    def active(self) -> Generator[None, None, None]:
        """Inside this block, and in what it starts, `progress` reports for this call."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def report(self, progress: Progress) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server is gone
            self._loop.call_soon_threadsafe(self._take, progress)

    async def close(self) -> None:
        """Send what was reported."""
        await asyncio.sleep(0)  # lets a report from this loop reach `_take`
        if self._sending is not None:
            await asyncio.wait((self._sending,), timeout=LAST_REPORT_TIMEOUT)
            self._sending.cancel()

    def _take(self, report: Progress) -> None:
        self._newest = report
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send_newest(), name=f"progress of {self._call_id}")

    async def _send_newest(self) -> None:
        while self._newest is not None:
            report, self._newest = self._newest, None
            try:
                await self._send(report)
            except JackfieldError as fault:
                _log.info("A report of call %s was lost. %s", self._call_id, fault.message)
