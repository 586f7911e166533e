"""Tools that run nothing: `[[tools]]` with `executionType = "internal"`. A call's result is its own arguments.

Above: the keeper. Below: nothing. They exist for what is shown around a call, such as a chart in a space, which
the frontend draws from the arguments.
"""

from typing import ClassVar

from jackfield.errors import ConfigError
from jackfield.model.call import Outcome, done
from jackfield.model.tool import Tool, ToolKind
from jackfield.sources.base import Invocation, Listing


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
