"""`client.sources` and `client.workers`, for administrators: sources, changed definitions, worker processes."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from jackfield.sdk.connection import GatewayConnection, get, segment, send_json
from jackfield.sdk.types import ToolInfo


class DefinitionDiff(Struct, frozen=True, kw_only=True):
    """The pinned definition of a foreign tool, prompt or template, and the one its source offers now."""

    name: str
    kind: str = "tool"
    """`tool`, `prompt` or `template`."""
    key: str = ""
    """What `accept` names it by."""
    source: str = ""
    held: bool = False
    """Whether the offered definition must be accepted before the tool can be called."""
    digest: str = ""
    """Of the offered definition; `accept` takes it, so that no later change is accepted unseen."""
    pinned: Any = None
    offered: Any = None
    diff: str = ""
    """Unified; empty when the two are equal."""


class SourceInfo(Struct, frozen=True, kw_only=True):
    """One source of tools."""

    name: str
    kind: str = ""
    origin: str = ""
    status: str = ""
    error: str | None = None
    doing: str | None = None
    stderr: tuple[str, ...] = ()
    """The last stderr lines of its process, without secrets."""
    faults: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    resources: int = 0
    templates: int = 0
    calls: int = 0
    since: str | None = None
    checked_at: str | None = None


class Sources:
    """The gateway's sources of tools."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[SourceInfo, ...]:
        """Every source."""
        return await self._connection.fetch(get("/api/v1/sources"), tuple[SourceInfo, ...], "sources")

    async def get(self, name: str) -> SourceInfo:
        """One source, with the last stderr lines of its process."""
        return await self._connection.fetch(get(_source_path(name)), SourceInfo, "source")

    async def diff(self, name: str) -> tuple[DefinitionDiff, ...]:
        """The changed definitions of a source that wait to be accepted."""
        return await self._connection.fetch(get(f"{_source_path(name)}/diff"), tuple[DefinitionDiff, ...], "tools")

    async def accept(self, name: str, digests: Mapping[str, str] | None = None) -> tuple[ToolInfo, ...]:
        """Accept changed definitions of a source: those with these digests, by key, or all that wait now.

        Raises `Conflict`, and accepts none, if one of them has changed again.
        """
        body = {} if digests is None else {"digests": dict(digests)}
        request = send_json("POST", f"{_source_path(name)}/accept", body)
        return await self._connection.fetch(request, tuple[ToolInfo, ...], "tools")


def _source_path(source: str) -> str:
    return f"/api/v1/sources/{segment(source)}"


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
    """One log line of a worker; `span` is set for a line of the tool SDK's `log`."""

    number: int
    at: str
    process: int
    text: str
    span: dict[str, Any] | None = None


class Workers:
    """Tool files that run in processes of their own."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def log(self, name: str, *, limit: int = 200, after: int = 0) -> list[WorkerLine]:
        """The newest log lines of a worker, by its file's name; `after`: only those after that line number."""
        path = f"/api/v1/workers/{segment(name)}/log"
        return await self._connection.fetch(get(path, {"limit": limit, "after": after}), list[WorkerLine], "lines")

    async def list(self) -> list[WorkerInfo]:
        """Every worker."""
        return await self._connection.fetch(get("/api/v1/workers"), list[WorkerInfo], "workers")
