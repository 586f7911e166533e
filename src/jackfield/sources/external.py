"""Tools that somebody else answers: a connected tool server (`external`) or a person in a space (`space`).

The source only lists them. A call of one never comes here to be executed; it waits in the store until its answer is
submitted, which `calls/` sees to.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from jackfield.errors import ConfigError
from jackfield.model.call import Failed, Outcome, done
from jackfield.model.tool import Tool, ToolKind
from jackfield.outgoing import Outgoing
from jackfield.sources.authorization import SourceLogins
from jackfield.sources.base import Invocation, Listing
from jackfield.sources.http import HttpSource


class OthersSource:
    """Lists tools that can be replaced as a whole at any time."""

    kind: ClassVar[str] = "external"
    tool_kind: ClassVar[ToolKind] = ToolKind.FUNCTION

    def __init__(self, name: str, tools: tuple[Tool, ...] = ()) -> None:
        self.name = name
        self.max_concurrency: int | None = None
        self._tools = tools

    def replace(self, tools: tuple[Tool, ...]) -> None:
        """From the next refresh on, these are all."""
        self._tools = tools

    async def open(self) -> None:
        """Nothing to do: whoever answers comes by itself."""

    async def refresh(self) -> Listing:
        return Listing(tools=self._tools)

    def can_execute(self, tool: Tool) -> bool:  # noqa: ARG002 - a promise of every source
        return False

    async def execute(self, invocation: Invocation) -> Outcome:
        return Failed("not_executed_here", f"Tool '{invocation.tool.name}' is answered by somebody else.")

    async def close(self) -> None:
        """Nothing to do."""


class SpaceSource(OthersSource):
    """Tools that a person answers."""

    kind: ClassVar[str] = "space"


class DeclaredSource(OthersSource):
    """Tools that a tool server declared, and may declare anew."""

    async def refresh(self) -> Listing:
        return Listing(tools=self._tools, accepts_changes=True)


class InternalSource:
    """The config's internal tools."""

    kind: ClassVar[str] = "internal"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.name = "internal"
        self.max_concurrency: int | None = None
        self.replace(tools)

    def replace(self, tools: tuple[Tool, ...]) -> None:
        """From the next refresh on, these are all."""
        found: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in found:
                raise ConfigError(f"Two of the [[tools]] are called '{tool.name}'. Rename one of them.")
            found[tool.name] = tool
        self._tools = found

    async def open(self) -> None:
        """Nothing to do."""

    async def refresh(self) -> Listing:
        return Listing(tools=tuple(self._tools.values()))

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.name in self._tools

    async def execute(self, invocation: Invocation) -> Outcome:
        return done({"success": True, "args": invocation.arguments})

    async def close(self) -> None:
        """Nothing to do."""


__all__ = ["DeclaredSource", "StoredSources"]

ListedBy = Callable[[str], tuple[Tool, ...]]
"""The tools that the source of this name lists."""


class StoredSources:
    """One source for each way in which such a tool is executed."""

    def __init__(self, listed_by: ListedBy, outgoing: Outgoing, logins: SourceLogins | None = None) -> None:
        self._outgoing = outgoing
        self._http = HttpSource(listed_by("http"), outgoing, logins)
        self._others = (
            InternalSource(listed_by("internal")),
            OthersSource("external", listed_by("external")),
            SpaceSource("space", listed_by("space")),
        )

    @property
    def all(self) -> tuple[HttpSource, InternalSource, OthersSource, SpaceSource]:
        return self._http, *self._others

    def replace(self, listed_by: ListedBy, *, foreign: frozenset[str]) -> None:
        """List these tools from now on. The urls of `foreign` ones may not reach private addresses."""
        self._http.replace(listed_by("http"), foreign=foreign)
        for source in self._others:
            source.replace(listed_by(source.name))

    async def reach(self, url: str, *, timeout: float) -> str:
        """Connect to the server of a url that the operator did not write, sending nothing. Raises `OutgoingError`."""
        return await self._outgoing.reach(url, timeout=timeout)

    def require_usable(self, tools: Sequence[Tool]) -> None:
        """Raise `ConfigError` for a url that cannot be used."""
        HttpSource(tuple(tools), self._outgoing)
