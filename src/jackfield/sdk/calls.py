"""`client.calls`: the records of calls, and watching and stopping them.

Above: the client. Below: `connection.py` and `streams.py`.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from urllib.parse import quote

from msgspec import Struct

from jackfield.sdk.connection import Connection, Message, get
from jackfield.sdk.streams import follow
from jackfield.sdk.types import CallEvent, CallPage, CallRecord


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

    async def cancel(self, call_id: str) -> CallRecord:
        """Stop a call that is not settled, and its record after that. Raises `Conflict` for a settled one."""
        response = await self._connection.ask(Message(method="POST", path=f"{_path_of(call_id)}/cancel"))
        return self._connection.decode(response.content, _OneCall).call

    async def follow(self, *, tool: str | None = None, agent: str | None = None) -> AsyncGenerator[CallEvent, None]:
        """What happens to calls from now on, across reconnects, until the iteration is left."""
        message = get("/api/v1/calls/stream", {"tool": tool, "agent": agent})
        async with aclosing(follow(self._connection, message)) as events:
            async for event in events:
                if event.type.startswith("call."):
                    yield self._connection.decode(event.data, CallEvent)


def _path_of(call_id: str) -> str:
    return f"/api/v1/calls/{quote(call_id, safe='')}"
