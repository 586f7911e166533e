"""`client.sessions`: an agent that works for this program, and may call functions that this program lends it.

    async with client.sessions.open(agent="helper", tools=[send_response]) as session:
        print(await session.ask("Tell Ada that dinner is ready."))

Above: `client.py`. Below: `lending.py`, which listens and answers as long as a session is open.
"""

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.protocol.sse import EventParser
from jackfield.sdk.connection import Connection, Message, get
from jackfield.sdk.functions import Callee, Servable, callees_of
from jackfield.sdk.lending import OVER, Lender, SessionEvent
from jackfield.sdk.streams import read

CALLER_ID = "caller"
CONCURRENCY = 10

Lendable = Mapping[str, Servable] | Iterable[Servable]


class SessionFailed(JackfieldError):
    """The agent in the session could not do what it was told, or the session is over."""

    code = "session_failed"


class SessionInfo(Struct, frozen=True, kw_only=True):
    """A session as the gateway has it."""

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


class _Opened(Struct, frozen=True, kw_only=True):
    session_id: str
    last_event_index: int
    session: SessionInfo


class _One(Struct, frozen=True, kw_only=True):
    session: SessionInfo


class _Many(Struct, frozen=True, kw_only=True):
    sessions: list[SessionInfo]


class Session:
    """An open session. Functions that were lent run while it is open; end it, or leave the `async with`."""

    def __init__(self, connection: Connection, opened: SessionInfo, *, caller_id: str, lender: Lender) -> None:
        self.id = opened.id
        self.info = opened
        """As it was when it was opened."""
        self._connection = connection
        self._caller_id = caller_id
        self._lender = lender

    async def message(self, text: str) -> int:
        """Say something to the agent. Gives the index after which its events come."""
        return await self._post({"message": text})

    async def ask(self, text: str) -> str:
        """Say something and wait for what the agent has to say to it. A program's first line is its answer."""
        with self._lender.listening() as events:
            after = await self._post({"message": text})
            async for event in events:
                if event.index <= after:
                    continue
                if event.type == "error":
                    raise SessionFailed(event.error or "The agent failed.")
                if event.type == "completion" or (event.type == "message" and self.info.kind == "program"):
                    return event.text or ""
        raise SessionFailed(f"Session '{self.id}' was over before the agent had answered.")

    async def lend(self, tools: Lendable) -> None:
        """Lend these functions from now on, in place of those before."""
        callees = callees_of(tools)
        self._lender.callees = callees
        await self._post({"caller_id": self._caller_id, "caller_tools": declared(callees)})

    async def events(self, after: int = -1) -> AsyncGenerator[SessionEvent, None]:
        """What happened after an index, then each event as it comes, to the session's end."""
        parser = EventParser()
        message = get(f"{_path(self.id)}/events", {"since_index": after})
        async with self._connection.stream(message) as response:
            async for event in read(response, parser):
                told = self._connection.decode(event.data, SessionEvent)
                yield told
                if told.type == "status" and told.status in OVER:
                    return

    async def show(self) -> SessionInfo:
        """The session as it is now."""
        response = await self._connection.ask(get(_path(self.id)))
        return self._connection.decode(response.content, _One).session

    async def end(self) -> None:
        """End it and everything in it. Harmless when it is over."""
        try:
            await self._connection.ask(Message(method="DELETE", path=_path(self.id), repeatable=True))
        finally:
            await self._lender.stop()

    async def _post(self, body: dict[str, Any]) -> int:
        message = Message(method="POST", path=f"{_path(self.id)}/messages", body=msgspec.json.encode(body))
        response = await self._connection.ask(message)
        return self._connection.decode(response.content, _Opened).last_event_index

    def __repr__(self) -> str:
        return f"Session({self.id!r})"


class Opening:
    """A session to be: `await` it, or use it in `async with`, which ends it at the end of the block."""

    def __init__(self, open_it: "_OpenIt") -> None:
        self._open_it = open_it
        self._session: Session | None = None

    def __await__(self) -> Generator[Any, None, Session]:
        return self._open_it().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._open_it()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.end()


class _OpenIt(Struct, frozen=True, kw_only=True):
    connection: Connection
    agent: str | None
    callees: dict[str, Callee]
    caller_id: str
    message: str | None
    session_id: str | None
    concurrency: int

    async def __call__(self) -> Session:
        body: dict[str, Any] = {"caller_id": self.caller_id, "caller_tools": declared(self.callees)}
        if self.agent is not None:
            body["agent"] = self.agent
        if self.message is not None:
            body["message"] = self.message
        if self.session_id is not None:
            body["session_id"] = self.session_id
        request = Message(method="POST", path="/api/sessions", body=msgspec.json.encode(body))
        response = await self.connection.ask(request)
        opened = self.connection.decode(response.content, _Opened).session
        lender = Lender(self.connection, opened.id, self.callees, concurrency=self.concurrency)
        lender.start()
        return Session(self.connection, opened, caller_id=self.caller_id, lender=lender)


class Sessions:
    """The sessions of this key on one gateway."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def open(
        self,
        agent: str | None = None,
        *,
        tools: Lendable = (),
        message: str | None = None,
        session_id: str | None = None,
        caller_id: str = CALLER_ID,
        concurrency: int = CONCURRENCY,
    ) -> Opening:
        """A session with `agent`, which sees these functions as `{caller_id}_{name}`.

        `agent` names an entry of the gateway's `[agents]` or `[sessions]`; it may be left out where there is one only.
        `session_id` is that of a session of this key which is over or was lost with its gateway: it is opened again
        under this id, and begins anew. Raises `Conflict` while it is open.
        """
        given = tools if isinstance(tools, Mapping) else list(tools)
        callees = callees_of(given) if given else {}
        return Opening(
            _OpenIt(
                connection=self._connection,
                agent=agent,
                callees=callees,
                caller_id=caller_id,
                message=message,
                session_id=session_id,
                concurrency=concurrency,
            )
        )

    async def list(self) -> "list[SessionInfo]":
        """Those of this key, the newest first, with those that ended lately."""
        response = await self._connection.ask(get("/api/sessions"))
        return self._connection.decode(response.content, _Many).sessions

    async def get(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        response = await self._connection.ask(get(_path(session_id)))
        return self._connection.decode(response.content, _One).session


def declared(callees: Mapping[str, Callee]) -> "list[dict[str, Any]]":
    """Functions as a caller declares them."""
    shown = [callee.definition() for callee in callees.values()]
    return [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in shown]


def _path(session_id: str) -> str:
    return f"/api/sessions/{quote(session_id, safe='')}"
