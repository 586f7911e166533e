"""As long as a session is open: hears what happens in it, runs the functions that are asked for, answers each once.

Above: `sessions.py`. Below: `functions.py` and the connection. While it listens, the gateway knows that the caller is
there; when it stops, what its agent still waits for fails at once.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jackfield.errors import (
    AlreadyResolved,
    BadRequest,
    EventsPurged,
    Expired,
    JackfieldError,
    NotFound,
    TooLarge,
    Unavailable,
)
from jackfield.protocol.backoff import backoff
from jackfield.protocol.sse import EventParser
from jackfield.sdk.answers import Answer
from jackfield.sdk.connection import Connection, Message, get
from jackfield.sdk.failures import GatewayFault, GatewayUnreachable, NoAnswer
from jackfield.sdk.functions import Callee
from jackfield.sdk.streams import read

_log = logging.getLogger("jackfield.sdk")

OVER = ("completed", "failed", "timed_out")
AWAY = (GatewayUnreachable, GatewayFault, NoAnswer, Unavailable)
AWAY_SECONDS = 60.0
"""A session lives in one gateway; one that cannot be reached for so long has most likely taken it along."""
REMEMBERED = 10_000
"""Requests of which it is known that they were begun; none is run twice."""
_NO_CONTENT = 204


class SessionEvent(Struct, frozen=True, kw_only=True):
    """One thing that happened in a session."""

    index: int
    type: str
    session_id: str = ""
    at: str = ""
    text: str | None = None
    role: str | None = None
    tool: str | None = None
    tool_name: str | None = None
    request_id: str | None = None
    arguments: dict[str, Any] | None = None
    status: str | None = None
    error: str | None = None


class Lender:
    """One session's listener."""

    def __init__(
        self, connection: Connection, session_id: str, callees: Mapping[str, Callee], *, concurrency: int
    ) -> None:
        self.callees = callees
        self._connection = connection
        self._path = f"/api/sessions/{quote(session_id, safe='')}"
        self._slots = asyncio.Semaphore(concurrency)
        self._begun: OrderedDict[str, None] = OrderedDict()
        self._waiting: set[str] = set()
        """Requests that wait for their turn."""
        self._running: set[asyncio.Task[None]] = set()
        self._listeners: set[asyncio.Queue[SessionEvent | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False
        self._was_there = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"jackfield {self._path}")

    async def stop(self) -> None:
        """Listen no more, and give up what runs."""
        tasks = [*self._running, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @contextmanager
    def listening(self) -> Generator[AsyncGenerator[SessionEvent, None], None, None]:
        """The events from now on, while the block runs."""
        queue: asyncio.Queue[SessionEvent | None] = asyncio.Queue()
        self._listeners.add(queue)
        if self._is_over:
            queue.put_nowait(None)
        try:
            yield _drain(queue)
        finally:
            self._listeners.discard(queue)

    async def _run(self) -> None:
        try:
            await self._listen_to_the_end()
        except JackfieldError as fault:
            _log.error("Session %s cannot be listened to any more. %s", self._path, fault.message)
        finally:
            self._is_over = True
            for queue in self._listeners:
                queue.put_nowait(None)

    async def _listen_to_the_end(self) -> None:
        parser, attempt, away_since = EventParser(), 0, time.monotonic()
        while True:
            self._was_there = False
            try:
                if await self._listen(parser):
                    return
                attempt = 0
            except EventsPurged:
                parser, self._was_there = EventParser(), True
            except AWAY as fault:
                if not self._was_there and time.monotonic() - away_since > AWAY_SECONDS:
                    raise
                _log.warning("The session's stream is not there. %s Trying again.", fault.message)
            if self._was_there:
                away_since = time.monotonic()
            parser.restart()
            await asyncio.sleep(backoff(attempt))
            attempt += 1

    async def _listen(self, parser: EventParser) -> bool:
        """One stream; whether the session was over at its end."""
        async with self._connection.stream(get(f"{self._path}/events"), last_id=parser.last_id) as response:
            if response.status_code == _NO_CONTENT:
                return True
            self._was_there = True
            async with aclosing(read(response, parser)) as events:
                async for event in events:
                    self._take(self._connection.decode(event.data, SessionEvent))
        return False

    def _take(self, event: SessionEvent) -> None:
        for queue in self._listeners:
            queue.put_nowait(event)
        if event.request_id is None:
            return
        if event.type == "caller_tool_settled":
            self._waiting.discard(event.request_id)
        if event.type != "caller_tool_request" or event.request_id in self._begun:
            return
        self._begun[event.request_id] = None
        self._waiting.add(event.request_id)
        if len(self._begun) > REMEMBERED:
            self._begun.popitem(last=False)
        task = asyncio.create_task(self._work(event))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("A request of the session could not be answered.", exc_info=fault)

    async def _work(self, event: SessionEvent) -> None:
        assert event.request_id is not None
        async with self._slots:
            if event.request_id not in self._waiting:
                return  # its agent was told meanwhile that nobody answered, and may have done something else
            self._waiting.discard(event.request_id)
            callee = self.callees.get(event.tool or "")
            if callee is None:
                answer = Answer(error=f"This caller does not lend '{event.tool}' any more.")
            else:
                answer = await callee.run(event.arguments or {})
        await self._deliver(event.request_id, answer)

    async def _deliver(self, request_id: str, answer: Answer) -> None:
        """Send the answer until the gateway has said something to it: taken, or too late."""
        attempt = 0
        while True:
            try:
                await self._submit(request_id, answer)
            except AWAY as fault:
                if self._is_over:
                    raise
                _log.warning("The answer to %s is not delivered yet. %s", request_id, fault.message)
                await asyncio.sleep(backoff(attempt))
                attempt += 1
            else:
                return

    async def _submit(self, request_id: str, answer: Answer) -> None:
        body: dict[str, Any] = {"request_id": request_id}
        body |= {"result": answer.result} if answer.error is None else {"error": answer.error}
        message = Message(method="POST", path=f"{self._path}/tool-responses", body=msgspec.json.encode(body))
        try:
            await self._connection.ask(message)
        except (AlreadyResolved, Expired, NotFound) as fault:
            _log.info("Request %s needs no answer any more. %s", request_id, fault.message)
        except (BadRequest, TooLarge) as fault:
            if answer.error is not None:
                raise
            await self._submit(request_id, Answer(error=f"The result was not taken: {fault.message}"))


async def _drain(queue: "asyncio.Queue[SessionEvent | None]") -> AsyncGenerator[SessionEvent, None]:
    while (event := await queue.get()) is not None:
        yield event
