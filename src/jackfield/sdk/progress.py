"""`progress(…)`: how a function that a tool server runs tells how far it has come.

A context variable knows the call that the function is run for, in its thread or task; outside a served call nothing
happens, so the function can be tried alone. Above: served functions, and `serving.py`, which opens a reporter around
each. Below: a coroutine that sends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from jackfield.errors import JackfieldError
from jackfield.sdk.types import Progress

LAST_WORD_WITHIN = 2.0
"""Seconds that the last report may take before the answer goes out without it."""
_log = logging.getLogger("jackfield.sdk")
_current: ContextVar["Reporter | None"] = ContextVar("jackfield_reporter", default=None)


def progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Say how far the call that this function is run for has come. Returns at once; any thread may say it.

    It buys a waiting call more time, up to the tool's limit. When reports come quicker than they can be sent, only the
    newest is.
    """
    reporter = _current.get()
    if reporter is not None:
        reporter.report(Progress(progress=done, total=total, message=message))


class Reporter:
    """Sends the reports of one call, one at a time."""

    def __init__(self, call_id: str, send: Callable[[Progress], Awaitable[None]]) -> None:
        self._call_id = call_id
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._newest: Progress | None = None
        self._sending: asyncio.Task[None] | None = None

    @contextmanager
    def listening(self) -> Generator[None, None, None]:
        """In this block, and in what is started from it, `progress` reports to this call."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def report(self, news: Progress) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server is gone and nobody listens
            self._loop.call_soon_threadsafe(self._take, news)

    async def close(self) -> None:
        """Let what was reported go out first."""
        await asyncio.sleep(0)  # a report from this very loop is still on its way to `_take`
        if self._sending is not None:
            await asyncio.wait((self._sending,), timeout=LAST_WORD_WITHIN)
            self._sending.cancel()

    def _take(self, news: Progress) -> None:
        self._newest = news
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send_newest(), name=f"progress of {self._call_id}")

    async def _send_newest(self) -> None:
        while self._newest is not None:
            news, self._newest = self._newest, None
            try:
                await self._send(news)
            except JackfieldError as fault:
                _log.info("A report of call %s was lost. %s", self._call_id, fault.message)
