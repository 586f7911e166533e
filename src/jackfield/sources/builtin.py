"""The gateway's own tools: those that every agent has, `search_tools` and the session tools on `/mcp`.

Above: the pipeline, which every call of one goes through. Below: the handlers that each package brings. They are in
nobody's catalog: whoever has one to offer lists it. Their names are reserved (`model/tool.py`).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar

from jackfield.model.call import Outcome
from jackfield.model.tool import BUILTIN, Tool, ToolKind
from jackfield.sources.base import InTransaction, Invocation, Listing

Handler = Callable[[Invocation], Awaitable[Outcome | InTransaction]]


class BuiltinSource:
    """Executes built-in tools, each by its handler."""

    kind: ClassVar[str] = BUILTIN
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self.name = BUILTIN
        self.max_concurrency: int | None = None
        self._handlers = dict(handlers)

    async def open(self) -> None:
        """Nothing to do."""

    async def refresh(self) -> Listing:
        return Listing()

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.name in self._handlers

    async def execute(self, invocation: Invocation) -> Outcome | InTransaction:
        return await self._handlers[invocation.tool.name](invocation)

    async def close(self) -> None:
        """Nothing to do."""
