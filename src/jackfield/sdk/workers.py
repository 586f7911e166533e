"""`client.workers`: the tool files that run in processes of their own. Needs an admin's key.

Above: the client. Below: `connection.py`.
"""

from typing import Any
from urllib.parse import quote

from msgspec import Struct

from jackfield.sdk.connection import Connection, get


class WorkerProcess(Struct, frozen=True, kw_only=True):
    """One process of a worker."""

    pid: int | None = None
    calls: int = 0
    in_flight: int = 0
    is_retiring: bool = False
    idle_seconds: float = 0.0
    started_at: str = ""


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """One tool file with an environment of its own."""

    name: str
    source: str
    file: str
    version: str
    state: str
    calls: int = 0
    restarts: int = 0
    error: str | None = None
    processes: tuple[WorkerProcess, ...] = ()


class WorkerLine(Struct, frozen=True, kw_only=True):
    """A line that a worker wrote; `span` is what the tool SDK's `log` wrote, if that did."""

    number: int
    at: str
    process: int
    text: str
    span: dict[str, Any] | None = None


class _List(Struct, frozen=True):
    workers: list[WorkerInfo]


class _Log(Struct, frozen=True):
    lines: list[WorkerLine]


class Workers:
    """The workers of the gateway."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def log(self, name: str, *, limit: int = 200, after: int = 0) -> list[WorkerLine]:
        """The newest lines of one worker, by its file's name; `after`: only those after the line of that number."""
        path = f"/api/v1/workers/{quote(name, safe='')}/log"
        response = await self._connection.ask(get(path, {"limit": limit, "after": after}))
        return self._connection.decode(response.content, _Log).lines

    async def list(self) -> list[WorkerInfo]:
        """Every worker as it is now."""
        response = await self._connection.ask(get("/api/v1/workers"))
        return self._connection.decode(response.content, _List).workers
