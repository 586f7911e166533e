"""The promise of a source. Above: `keeper.py` and the catalog. Below: whatever the tools live in.

To add a kind: write a class with these methods, then name its factory in `sources/kinds.py`, or from
another package in the entry-point group `jackfield.sources`.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from jackfield.model.call import Outcome
from jackfield.model.tool import Category, Tool, ToolKind


class Listing(Struct, frozen=True, kw_only=True):
    """What a source offers at one moment, and what is wrong with the parts it cannot offer."""

    tools: tuple[Tool, ...] = ()
    categories: tuple[Category, ...] = ()
    faults: tuple[str, ...] = ()
    """One sentence each: which file or tool, what is wrong, what to do."""


class Progress(Struct, frozen=True, kw_only=True):
    """How far a running call has come."""

    progress: float
    total: float | None = None
    message: str | None = None


class Invocation(Struct, frozen=True, kw_only=True):
    """One checked call, as a source is given it."""

    call_id: str
    run_id: str
    tool: Tool
    arguments: dict[str, Any]
    principal: str
    agent: str | None = None
    space_id: str | None = None
    timeout_ms: int
    report: Callable[[Progress], None]
    """Tells whoever follows the call how far it is. Never blocks."""


class Source(Protocol):
    """One place that tools come from."""

    name: str
    """The key in the config; tools carry it."""
    kind: ClassVar[str]
    """What sort of place: `files`, `http`, …"""
    tool_kind: ClassVar[ToolKind]
    """Seed 001: which kind of tools this source executes."""
    max_concurrency: int | None
    """How many calls it takes at once; None means as many as come."""

    async def open(self) -> None:
        """Make ready (connect, build an index). Raises to say that the source is down; retried later."""

    async def refresh(self) -> Listing:
        """Read the tools anew."""

    async def execute(self, invocation: Invocation) -> Outcome:
        """Run one call. A failing tool is a `Failed`, not an exception; cancellation stops the work."""

    def can_execute(self, tool: Tool) -> bool:
        """Whether `execute` would take a call of this tool."""

    async def close(self) -> None:
        """Free what `open` took. Called once, also after a failed `open`."""


class ToolCaller(Protocol):
    """How an in-process tool calls another tool of the catalog, in the name of its own caller."""

    def __call__(self, name: str, arguments: dict[str, Any], *, parent: Invocation) -> Awaitable[Outcome]: ...


class Surroundings(Struct, frozen=True, kw_only=True):
    """What the gateway lends to its sources."""

    folder: Path
    """The config's folder: relative paths start here."""
    data: Path
    """The gateway's own folder, for caches and environments."""
    changed: Callable[[str], None]
    """`changed(source_name)`: please refresh me soon. From the event loop only."""
    secret: Callable[[str], str | None]
    """The value of a secret by name: environment, then the secrets file. Asked at execution, never kept."""
    config: Callable[[], dict[str, Any]]
    """The gateway's settings with every secret left out, for in-process tools."""
    registry: Callable[[], list[dict[str, Any]]]
    """The catalog's manifest entries as they are now, for in-process tools."""
    call_tool: ToolCaller
    outgoing: Any
    """The guarded HTTP client (`outgoing.Outgoing`)."""


Factory = Callable[[str, dict[str, Any], Surroundings], Source]
"""`factory(name, options, surroundings)`: options are the source's own keys from the config, checked by it."""
