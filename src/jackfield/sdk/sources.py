"""`client.sources` and `client.workers`, for administrators: sources, changed definitions, worker processes."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, segment, send_json
from jackfield.sdk.types import ToolInfo


class DefinitionDiff(Struct, frozen=True, kw_only=True):
    """The pinned definition of a foreign tool, prompt or template, and the one its source offers now."""

    name: str
    kind: str = "tool"
    """`tool`, `prompt` or `template`."""
    key: str = ""
    """What `accept` and `refuse` name it by."""
    source: str = ""
    held: bool = False
    """Whether the offered definition must be accepted before the tool can be called."""
    digest: str = ""
    """Of the offered definition; `accept` takes it, so that no later change is accepted unseen."""
    pinned: Any = None
    offered: Any = None
    diff: str = ""
    """Unified; empty when the two are equal."""
    refused_by: str | None = None
    """Who refused what is offered now, if anybody did."""
    refused_at: str | None = None


class SourceInfo(Struct, frozen=True, kw_only=True):
    """One source of tools."""

    name: str
    kind: str = ""
    origin: str = ""
    status: str = ""
    error: str | None = None
    doing: str | None = None
    stderr: tuple[str, ...] = ()
    """The last stderr lines of its process, or requests that failed, without secrets."""
    faults: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    resources: int = 0
    templates: int = 0
    calls: int = 0
    since: str | None = None
    checked_at: str | None = None
    listed_at: str | None = None
    reconnects: int = 0
    settings: dict[str, Any] | None = None
    """Of a source that was made at run time: what was given."""


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool that a source would offer."""

    name: str
    description: str = ""


class SourceTest(Struct, frozen=True, kw_only=True):
    """What came of trying a source."""

    ok: bool
    """It came up and was listed."""
    error: str | None = None
    tools: tuple[OfferedTool, ...] = ()
    resources: int = 0
    prompts: int = 0
    faults: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()


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

    async def create(self, name: str, settings: Mapping[str, Any]) -> SourceInfo:
        """Make a source with the fields of `[sources.NAME]` in the config, `${NAME}` for secrets."""
        request = send_json("POST", "/api/v1/sources", {**settings, "name": name})
        return await self._connection.fetch(request, SourceInfo, "source")

    async def change(self, name: str, settings: Mapping[str, Any]) -> SourceInfo:
        """Change some fields of a source that was made at run time, as a JSON merge patch does; None removes one."""
        return await self._connection.fetch(
            send_json("PATCH", _source_path(name), dict(settings)), SourceInfo, "source"
        )

    async def delete(self, name: str) -> None:
        """Remove a source that was made at run time."""
        await self._connection.send(ApiRequest(method="DELETE", path=_source_path(name)))

    async def restart(self, name: str) -> None:
        """Close a source and open it again, at every gateway. Calls that run there fail."""
        await self._connection.send(ApiRequest(method="POST", path=f"{_source_path(name)}/restart"))

    async def test(self, name: str, settings: Mapping[str, Any] | None = None) -> SourceTest:
        """Connect to a source and list it: one with these settings, which is not kept, or the one of that name."""
        if settings is None:
            request = ApiRequest(method="POST", path=f"{_source_path(name)}/test")
        else:
            request = send_json("POST", "/api/v1/sources/test", {**settings, "name": name})
        return await self._connection.fetch(request, SourceTest)

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

    async def refuse(self, name: str, digests: Mapping[str, str] | None = None) -> None:
        """Refuse changed definitions of a source: those with these digests, by key, or all that wait now.

        They stay quarantined, until the source offers something else or somebody accepts them after all. Raises
        `Conflict`, and refuses none, if one of them has changed again.
        """
        body = {} if digests is None else {"digests": dict(digests)}
        await self._connection.send(send_json("POST", f"{_source_path(name)}/refuse", body))


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
