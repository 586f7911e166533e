"""Sessions with one MCP server: one for all callers, or one for each principal where each has a login of their own.

Nothing that came over one principal's session is used for another: its connection, streams, subscriptions, tasks and
what its skills were described as belong to the session. A principal's is opened when it is first used, and closed when
it was not used for a while, when too many are open, or when the login ends.
Above: `source.py`. Below: `upstream.py`.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from jackfield.protocol.jsonrpc import RpcError
from jackfield.sources.base import Updated
from jackfield.sources.mcp.connection import Connection
from jackfield.sources.mcp.core_questions import CoreQuestions
from jackfield.sources.mcp.skills import ServerSkills
from jackfield.sources.mcp.transport import McpClientError
from jackfield.sources.mcp.upstream import Offered, Upstream, User

MOST_SESSIONS = 200
"""Principals' sessions with one server; beyond, those without calls are closed, the longest unused first."""
IDLE_SECONDS = 300.0
"""After so long without a call a principal's session is closed."""


class ServerSession:
    """A server as somebody reaches it. `user` is told when the server's lists should be read anew."""

    def __init__(self, source: str, upstream: Upstream, *, user: User) -> None:
        self.upstream = upstream
        self.skills = ServerSkills(source, changed=user)
        self.core_questions = CoreQuestions()
        self.uses = 0
        """Calls in flight."""
        self.used_at = 0.0
        self._user = user

    async def connect(self) -> Connection:
        """The connection, opened if there is none. Raises `McpClientError` or `RpcError`."""
        return await self.upstream.connect(self._user)

    async def list(self) -> Offered:
        return await self.upstream.list(self._user)

    async def close(self) -> None:
        """Safe to call twice; it may be used again afterwards."""
        self.core_questions.close()
        await self.upstream.release(self._user)


class PrincipalSessions:
    """A server's sessions by principal."""

    def __init__(
        self,
        make: Callable[[str], ServerSession],
        *,
        most: int = MOST_SESSIONS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._make = make
        self._most = most
        self._idle_seconds = idle_seconds
        self._sessions: OrderedDict[str, ServerSession] = OrderedDict()
        """The last used last."""
        self._retired: set[ServerSession] = set()
        """Of earlier logins, until their calls are over."""
        self._followers: dict[str, list[tuple[str, Updated]]] = {}
        """By principal: the resources that it follows. A new session follows them again."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.last_user: str | None = None
        """Whose session was used last, and answered."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ServerSession]:
        return iter(tuple(self._sessions.values()))

    @contextmanager
    def using(self, principal: str) -> Iterator[ServerSession]:
        """The principal's session, which stays open while the block runs."""
        session = self._sessions.get(principal) or self._added(principal)
        self._sessions.move_to_end(principal)
        session.uses += 1
        try:
            yield session
        finally:
            session.uses -= 1
            session.used_at = time.monotonic()
            if not session.uses and self._sessions.get(principal) is not session:
                self._retired.discard(session)
                self._start(session.close())
            elif len(self._sessions) > self._most:
                self._make_room()

    async def follow(self, principal: str, uri: str, updated: Updated) -> None:
        """Have `updated` called when the resource changes. Raises `McpClientError` or `RpcError`."""
        with self.using(principal) as session:
            await session.connect()
            await session.upstream.subscriptions.add(uri, updated)
        self._followers.setdefault(principal, []).append((uri, updated))

    def unfollow(self, principal: str, uri: str, updated: Updated) -> None:
        followed = self._followers.get(principal, [])
        if (uri, updated) in followed:
            followed.remove((uri, updated))
        if not followed:
            self._followers.pop(principal, None)
        session = self._sessions.get(principal)
        if session is not None:
            session.upstream.subscriptions.remove(uri, updated)

    def end(self, principal: str) -> None:
        """The principal's login has ended: close its session at once, whatever runs there."""
        session = self._sessions.pop(principal, None)
        if session is not None:
            self._start(session.close())
        if self.last_user == principal:
            self.last_user = None

    def renew(self, principal: str) -> None:
        """The principal has another login: from now on another session; calls in flight end in the old one."""
        session = self._sessions.pop(principal, None)
        if session is not None and session.uses:
            self._retired.add(session)
        elif session is not None:
            self._start(session.close())
        if principal in self._followers:
            self._added(principal)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        sessions = [*self._sessions.values(), *self._retired]
        self._sessions.clear()
        self._retired.clear()
        for session in sessions:
            self._start(session.close())
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _added(self, principal: str) -> ServerSession:
        session = self._sessions[principal] = self._make(principal)
        session.used_at = time.monotonic()
        if len(self._sessions) > self._most:
            self._make_room(keep=session)
        if principal in self._followers:
            self._start(self._follow_again(principal))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._close_idle)
        return session

    async def _follow_again(self, principal: str) -> None:
        with self.using(principal) as session:
            for uri, updated in tuple(self._followers.get(principal, ())):
                if self._sessions.get(principal) is not session:
                    return
                with suppress(McpClientError, RpcError):
                    await session.connect()
                    await session.upstream.subscriptions.add(uri, updated)
                    updated(uri)  # it may have changed meanwhile

    def _make_room(self, *, keep: ServerSession | None = None) -> None:
        for principal, session in tuple(self._sessions.items()):
            if len(self._sessions) <= self._most:
                return
            if not session.uses and session is not keep and principal not in self._followers:
                del self._sessions[principal]
                self._start(session.close())

    def _close_idle(self) -> None:
        """Those that follow resources stay: they are in use."""
        now = time.monotonic()
        for principal, session in tuple(self._sessions.items()):
            is_idle = not session.uses and now - session.used_at >= self._idle_seconds
            if is_idle and principal not in self._followers:
                del self._sessions[principal]
                self._start(session.close())
        pause = self._idle_seconds / 2
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(pause, self._close_idle) if self._sessions else None

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
