"""`client.sessions`: agents that work for this program and may call functions of it (caller tools).

    async with client.sessions.open(agent="helper", tools=[send_response]) as session:
        print(await session.ask("Tell Ada that dinner is ready."))

While a session is open, `CallerToolServer` reads its events, which also shows the gateway that the caller is present;
when it stops, the agent's unanswered requests fail at once.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from types import TracebackType
from typing import Any

from msgspec import Struct

from jackfield.errors import AlreadyResolved, BadRequest, EventsPurged, Expired, JackfieldError, NotFound, TooLarge
from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.functions import Servables, ToolAnswer, ToolFunction, tool_functions
from jackfield.protocol.sse import EventParser
from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, given, read_events, segment, send_json
from jackfield.sdk.errors import AWAY, SessionFailed

CALLER_ID = "caller"
CONCURRENCY = 10
ENDED = ("completed", "failed", "timed_out")
AWAY_SECONDS = 60.0
"""A session lives in one gateway process: one that is unreachable for so long has most likely lost it."""
REMEMBERED = 10_000
"""Requests that are remembered as started; none is run twice."""
_NO_CONTENT = 204
_log = logging.getLogger("jackfield.sdk")


class SessionInfo(Struct, frozen=True, kw_only=True):
    """A session as the gateway reports it."""

    id: str
    agent: str
    kind: str
    status: str
    owner: str
    caller_id: str
    tools: list[str]
    last_event_index: int
    created_at: str
    error: str | None = None
    caller_is_present: bool = False
    open_requests: int = 0
    socket: str | None = None
    token: str | None = None


class SessionEvent(Struct, frozen=True, kw_only=True):
    """One event of a session."""

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


class CallerToolServer:
    """Reads the events of one session and answers the agent's requests, each once."""

    def __init__(
        self,
        connection: GatewayConnection,
        session_id: str,
        functions: Mapping[str, ToolFunction],
        *,
        concurrency: int,
    ) -> None:
        self.functions = functions
        self._connection = connection
        self._path = _session_path(session_id)
        self._slots = asyncio.Semaphore(concurrency)
        self._started: OrderedDict[str, None] = OrderedDict()
        self._queued: set[str] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._subscribers: set[asyncio.Queue[SessionEvent | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False
        self._was_connected = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"jackfield {self._path}")

    async def stop(self) -> None:
        """Stop reading, and cancel what runs."""
        tasks = [*self._running, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @contextmanager
    def subscribed(self) -> Generator[AsyncGenerator[SessionEvent, None], None, None]:
        """The events from now on, inside the block."""
        queue: asyncio.Queue[SessionEvent | None] = asyncio.Queue()
        self._subscribers.add(queue)
        if self._is_over:
            queue.put_nowait(None)
        try:
            yield _drain(queue)
        finally:
            self._subscribers.discard(queue)

    async def _run(self) -> None:
        try:
            await self._listen_to_the_end()
        except JackfieldError as fault:
            _log.error("The events of session %s cannot be read any more. %s", self._path, fault.message)
        finally:
            self._is_over = True
            for queue in self._subscribers:
                queue.put_nowait(None)

    async def _listen_to_the_end(self) -> None:
        parser, delays, away_since = EventParser(), RetryDelays(), time.monotonic()
        while True:
            self._was_connected = False
            try:
                if await self._listen(parser):
                    return
                delays.reset()
            except EventsPurged:
                parser, self._was_connected = EventParser(), True
            except AWAY as fault:
                if not self._was_connected and time.monotonic() - away_since > AWAY_SECONDS:
                    raise
                _log.warning("The session's stream broke. %s Reconnecting.", fault.message)
            if self._was_connected:
                away_since = time.monotonic()
            parser.restart()
            await asyncio.sleep(delays.next())

    async def _listen(self, parser: EventParser) -> bool:
        """Read one stream. True: the session has ended."""
        async with self._connection.stream(get(f"{self._path}/events"), last_id=parser.last_id) as response:
            if response.status_code == _NO_CONTENT:
                return True
            self._was_connected = True
            async with aclosing(read_events(response, parser)) as events:
                async for event in events:
                    self._take(self._connection.decode(event.data, SessionEvent))
        return False

    def _take(self, event: SessionEvent) -> None:
        for queue in self._subscribers:
            queue.put_nowait(event)
        if event.request_id is None:
            return
        if event.type == "caller_tool_settled":
            self._queued.discard(event.request_id)
        if event.type != "caller_tool_request" or event.request_id in self._started:
            return
        self._started[event.request_id] = None
        self._queued.add(event.request_id)
        if len(self._started) > REMEMBERED:
            self._started.popitem(last=False)
        task = asyncio.create_task(self._answer(event, event.request_id))
        self._running.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("A request of the session could not be answered.", exc_info=fault)

    async def _answer(self, event: SessionEvent, request_id: str) -> None:
        async with self._slots:
            if request_id not in self._queued:
                return  # settled while it waited: the agent may have moved on
            self._queued.discard(request_id)
            function = self.functions.get(event.tool or "")
            if function is None:
                answer = ToolAnswer(error=f"This caller does not lend '{event.tool}' any more.")
            else:
                answer = await function.run(event.arguments or {})
        await self._deliver(request_id, answer)

    async def _deliver(self, request_id: str, answer: ToolAnswer) -> None:
        """Send the answer until the gateway has accepted or rejected it."""
        delays = RetryDelays()
        while True:
            try:
                await self._submit(request_id, answer)
            except AWAY as fault:
                if self._is_over:
                    raise
                _log.warning("The answer to %s is not delivered yet. %s", request_id, fault.message)
                await asyncio.sleep(delays.next())
            else:
                return

    async def _submit(self, request_id: str, answer: ToolAnswer) -> None:
        body = {"request_id": request_id, **answer.fields()}
        try:
            await self._connection.send(send_json("POST", f"{self._path}/tool-responses", body))
        except (AlreadyResolved, Expired, NotFound) as fault:
            _log.info("Request %s needs no answer any more. %s", request_id, fault.message)
        except (BadRequest, TooLarge) as fault:
            if answer.error is not None:
                raise
            await self._submit(request_id, ToolAnswer(error=f"The result was not taken: {fault.message}"))


async def _drain(queue: "asyncio.Queue[SessionEvent | None]") -> AsyncGenerator[SessionEvent, None]:
    while (event := await queue.get()) is not None:
        yield event


class Session:
    """An open session, whose agent may call the caller tools while it is open. End it with `end()`."""

    def __init__(
        self, connection: GatewayConnection, info: SessionInfo, *, caller_id: str, caller_tools: CallerToolServer
    ) -> None:
        self.id = info.id
        self.info = info
        """As it was when it was opened."""
        self._connection = connection
        self._caller_id = caller_id
        self._caller_tools = caller_tools

    async def message(self, text: str) -> int:
        """Send a message to the agent. Returns the index after which its events come."""
        return await self._post({"message": text})

    async def ask(self, text: str) -> str:
        """Send a message and wait for the agent's answer; of a program, that is its first line."""
        with self._caller_tools.subscribed() as events:
            after = await self._post({"message": text})
            async for event in events:
                if event.index <= after:
                    continue
                if event.type == "error":
                    raise SessionFailed(event.error or "The agent failed.")
                if event.type == "completion" or (event.type == "message" and self.info.kind == "program"):
                    return event.text or ""
        raise SessionFailed(f"Session '{self.id}' was over before the agent had answered.")

    async def lend(self, tools: Servables) -> None:
        """Replace the caller tools with these functions."""
        functions = tool_functions(tools)
        self._caller_tools.functions = functions
        await self._post({"caller_id": self._caller_id, "caller_tools": _definitions(functions)})

    async def events(self, after: int = -1) -> AsyncGenerator[SessionEvent, None]:
        """Events after an index, past and future, to the end of the session."""
        request = get(f"{_session_path(self.id)}/events", {"since_index": after})
        async with self._connection.stream(request) as response:
            async for raw in read_events(response):
                event = self._connection.decode(raw.data, SessionEvent)
                yield event
                if event.type == "status" and event.status in ENDED:
                    return

    async def show(self) -> SessionInfo:
        """The session as it is now."""
        return await self._connection.fetch(get(_session_path(self.id)), SessionInfo, "session")

    async def end(self) -> None:
        """End the session and its agent. Does nothing when it is over."""
        try:
            await self._connection.send(ApiRequest(method="DELETE", path=_session_path(self.id), repeatable=True))
        finally:
            await self._caller_tools.stop()

    async def _post(self, body: dict[str, Any]) -> int:
        request = send_json("POST", f"{_session_path(self.id)}/messages", body)
        return await self._connection.fetch(request, int, "last_event_index")

    def __repr__(self) -> str:
        return f"Session({self.id!r})"


class SessionOpener:
    """A session to open: `await` it, or use it in `async with`, which ends it at the end of the block."""

    def __init__(
        self,
        connection: GatewayConnection,
        *,
        body: dict[str, Any],
        functions: Mapping[str, ToolFunction],
        concurrency: int,
    ) -> None:
        self._connection = connection
        self._body = body
        self._functions = functions
        self._concurrency = concurrency
        self._session: Session | None = None

    def __await__(self) -> Generator[Any, None, Session]:
        return self.opened().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self.opened()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.end()

    async def opened(self) -> Session:
        connection = self._connection
        info = await connection.fetch(send_json("POST", "/api/sessions", self._body), SessionInfo, "session")
        caller_tools = CallerToolServer(connection, info.id, self._functions, concurrency=self._concurrency)
        caller_tools.start()
        return Session(connection, info, caller_id=self._body["caller_id"], caller_tools=caller_tools)


class Sessions:
    """The sessions of this key."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    def open(
        self,
        agent: str | None = None,
        *,
        tools: Servables = (),
        message: str | None = None,
        session_id: str | None = None,
        caller_id: str = CALLER_ID,
        concurrency: int = CONCURRENCY,
    ) -> SessionOpener:
        """Open a session with `agent`, which sees these functions as `{caller_id}_{name}`.

        `agent` names an entry of the gateway's `[agents]` or `[sessions]`; it may be omitted when there is only one.
        `session_id` reopens a session of this key that has ended, or was lost with its gateway, under the same id; it
        starts afresh. Raises `Conflict` while it is open. Use the session in a `with` block, or `end()` it.
        """
        chosen = tools if isinstance(tools, Mapping) else list(tools)
        functions = tool_functions(chosen) if chosen else {}
        body = {
            "caller_id": caller_id,
            "caller_tools": _definitions(functions),
            **given({"agent": agent, "message": message, "session_id": session_id}),
        }
        return SessionOpener(self._connection, body=body, functions=functions, concurrency=concurrency)

    async def list(self) -> "list[SessionInfo]":
        """Sessions, newest first, including those that ended recently."""
        return await self._connection.fetch(get("/api/sessions"), list[SessionInfo], "sessions")

    async def get(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        return await self._connection.fetch(get(_session_path(session_id)), SessionInfo, "session")


def _definitions(functions: Mapping[str, ToolFunction]) -> list[dict[str, Any]]:
    definitions = [function.definition() for function in functions.values()]
    return [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in definitions]


def _session_path(session_id: str) -> str:
    return f"/api/sessions/{segment(session_id)}"
