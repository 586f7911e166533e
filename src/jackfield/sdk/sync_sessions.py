"""`client.sessions` of the blocking client: `sessions.py`, method for method, run on the loop's thread."""

from collections.abc import Generator
from types import TracebackType
from typing import Self

from jackfield.sdk.lending import SessionEvent
from jackfield.sdk.loop import LoopThread
from jackfield.sdk.sessions import CALLER_ID, CONCURRENCY, Lendable, Session, SessionInfo, Sessions


class SyncSession:
    """`Session`, blocking. Functions that were lent run in threads of their own."""

    def __init__(self, session: Session, loop: LoopThread) -> None:
        self._session = session
        self._loop = loop
        self.id = session.id
        self.info = session.info

    def message(self, text: str) -> int:
        """Say something to the agent. Gives the index after which its events come."""
        return self._loop.run(self._session.message(text))

    def ask(self, text: str) -> str:
        """Say something and wait for what the agent has to say to it. A program's first line is its answer."""
        return self._loop.run(self._session.ask(text))

    def lend(self, tools: Lendable) -> None:
        """Lend these functions from now on, in place of those before."""
        self._loop.run(self._session.lend(tools))

    def events(self, after: int = -1) -> Generator[SessionEvent, None, None]:
        """What happened after an index, then each event as it comes, to the session's end."""
        return self._loop.iterate(self._session.events(after))

    def show(self) -> SessionInfo:
        """The session as it is now."""
        return self._loop.run(self._session.show())

    def end(self) -> None:
        """End it and everything in it. Harmless when it is over."""
        self._loop.run(self._session.end())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def __repr__(self) -> str:
        return f"SyncSession({self.id!r})"


class SyncSessions:
    """`Sessions`, blocking."""

    def __init__(self, sessions: Sessions, loop: LoopThread) -> None:
        self._sessions = sessions
        self._loop = loop

    def open(
        self,
        agent: str | None = None,
        *,
        tools: Lendable = (),
        message: str | None = None,
        session_id: str | None = None,
        caller_id: str = CALLER_ID,
        concurrency: int = CONCURRENCY,
    ) -> SyncSession:
        """A session with `agent`, as `Sessions.open`; use it in `with`, or `end()` it."""
        opening = self._sessions.open(
            agent, tools=tools, message=message, session_id=session_id, caller_id=caller_id, concurrency=concurrency
        )

        async def opened() -> Session:
            return await opening

        return SyncSession(self._loop.run(opened()), self._loop)

    def list(self) -> "list[SessionInfo]":
        """Those of this key, the newest first, with those that ended lately."""
        return self._loop.run(self._sessions.list())

    def get(self, session_id: str) -> SessionInfo:
        """One session. Raises `SessionNotFound`."""
        return self._loop.run(self._sessions.get(session_id))
