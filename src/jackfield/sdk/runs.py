"""`client.runs`: what made calls, agents' cycles and responses, and following one to its end.

Above: the client. Below: `connection.py`, `streams.py`.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from jackfield.sdk.agent_types import RunEvent, RunInfo, RunPage
from jackfield.sdk.connection import Connection, get, part
from jackfield.sdk.streams import follow


class _OneRun(Struct, frozen=True):
    run: RunInfo


class Runs:
    """The runs that the client's key may see."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, agent: str | None = None, limit: int | None = None, cursor: str | None = None) -> RunPage:
        """One page of cycles and responses, newest first; with `agent`, its cycles alone."""
        response = await self._connection.ask(get("/api/runs", {"agent": agent, "limit": limit, "cursor": cursor}))
        return self._connection.decode(response.content, RunPage)

    async def get(self, run_id: str) -> RunInfo:
        """One run with all that is on record of it. Raises `RunNotFound`."""
        response = await self._connection.ask(get(_path_of(run_id)))
        return self._connection.decode(response.content, _OneRun).run

    async def stream(self, run_id: str) -> AsyncGenerator[RunEvent, None]:
        """What happened to the run's calls and what happens, each once, across breaks; its end is the last event."""
        told: set[tuple[str, str | None]] = set()
        async with aclosing(follow(self._connection, get(f"{_path_of(run_id)}/stream"))) as events:
            async for raw in events:
                event = self._connection.decode(raw.data, RunEvent)
                if (event.type, event.stream_id) in told:
                    continue  # after a break the gateway tells all again
                told.add((event.type, event.stream_id))
                yield event
                if event.is_end:
                    return


def _path_of(run_id: str) -> str:
    return f"/api/runs/{part(run_id)}"
