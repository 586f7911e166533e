"""`client.sources` and what `client.tools` gives of pins: foreign tools whose definition changed, and accepting it.

Above: the client. Below: `connection.py`.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jackfield.sdk.connection import Connection, Message, get
from jackfield.sdk.types import ToolInfo


class DefinitionDiff(Struct, frozen=True, kw_only=True):
    """A foreign tool as it is pinned and as its source offers it now."""

    name: str
    source: str = ""
    held: bool = False
    """Whether it waits for a person to accept what is offered."""
    digest: str = ""
    """Of what is offered; given back when it is accepted, it says which change was seen."""
    pinned: Any = None
    offered: Any = None
    diff: str = ""
    """Unified; empty where the two are equal."""


class _Diffs(Struct, frozen=True):
    tools: tuple[DefinitionDiff, ...] = ()


class _Accepted(Struct, frozen=True):
    tool: ToolInfo


class _AllAccepted(Struct, frozen=True):
    tools: tuple[ToolInfo, ...] = ()


async def tool_diff(connection: Connection, path: str) -> DefinitionDiff:
    """The change of the tool at `path`."""
    response = await connection.ask(get(f"{path}/diff"))
    return connection.decode(response.content, DefinitionDiff)


async def accept_tool(connection: Connection, path: str, digest: str | None) -> ToolInfo:
    """Accept the change of the tool at `path`."""
    body = b"{}" if digest is None else msgspec.json.encode({"digest": digest})
    response = await connection.ask(Message(method="POST", path=f"{path}/accept", body=body))
    return connection.decode(response.content, _Accepted).tool


class SourceInfo(Struct, frozen=True, kw_only=True):
    """One source of tools, for whoever runs the gateway."""

    name: str
    kind: str = ""
    origin: str = ""
    status: str = ""
    error: str | None = None
    doing: str | None = None
    stderr: tuple[str, ...] = ()
    """The newest lines that its process said, without secrets."""
    faults: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    calls: int = 0
    since: str | None = None
    checked_at: str | None = None


class _OneSource(Struct, frozen=True):
    source: SourceInfo


class _AllSources(Struct, frozen=True):
    sources: tuple[SourceInfo, ...] = ()


class Sources:
    """The gateway's sources of tools, for an administrator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> tuple[SourceInfo, ...]:
        """Every source as it is now."""
        response = await self._connection.ask(get("/api/v1/sources"))
        return self._connection.decode(response.content, _AllSources).sources

    async def get(self, name: str) -> SourceInfo:
        """One source as it is now, with what its process said last."""
        response = await self._connection.ask(get(_path_of(name)))
        return self._connection.decode(response.content, _OneSource).source

    async def diff(self, name: str) -> tuple[DefinitionDiff, ...]:
        """The changes of all tools of a source that are held."""
        response = await self._connection.ask(get(f"{_path_of(name)}/diff"))
        return self._connection.decode(response.content, _Diffs).tools

    async def accept(self, name: str, digests: Mapping[str, str] | None = None) -> tuple[ToolInfo, ...]:
        """Accept the changes of a source's tools: those with these digests, by tool, or all that are held now.

        Raises `Conflict`, and accepts none, if one of them has changed again.
        """
        body = msgspec.json.encode({} if digests is None else {"digests": dict(digests)})
        response = await self._connection.ask(Message(method="POST", path=f"{_path_of(name)}/accept", body=body))
        return self._connection.decode(response.content, _AllAccepted).tools


def _path_of(source: str) -> str:
    return f"/api/v1/sources/{quote(source, safe='')}"
