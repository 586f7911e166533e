"""The tools of one run, by the names the model uses: who runs each, and how its calls are shown.

Above: the loop and the engine. Below: the catalog's entries.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from jackfield.catalog.catalog import Entry
from jackfield.model.tool import ToolDefinition, definition_of

ClientKind = Literal["function", "custom", "tool_search"]


class Offered(Struct, frozen=True, kw_only=True):
    """One tool as the model sees it. Without an entry the client runs it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    entry: Entry | None = None
    """The tool itself, where the gateway runs it."""
    label: str = ""
    """Under which server its calls are shown."""
    bare_name: str = ""
    """How it is called there."""
    is_private: bool = False
    """It belongs to this request alone and is in nobody's catalog."""
    is_own: bool = False
    """It is of the agent's own servers, or lent to it, so that no list of tools has to name it."""
    kind: ClientKind = "function"
    """How a call is handed to the client, where the client runs it."""
    namespace: str | None = None
    options: dict[str, Any] = {}
    """What the request says to it, where it is of a registered type."""
    asks_first: bool = False
    """The request wants to be asked before it is called; the tool's own metadata may want that as well."""

    @property
    def runs_here(self) -> bool:
        return self.entry is not None

    @property
    def definition(self) -> ToolDefinition:
        """As the model is shown it. Its own options, and what the request says over them, are for who executes it."""
        if self.entry is not None:
            told = definition_of(self.entry.tool, self.name)
            return msgspec.structs.replace(told, config={**told.config, **self.options}) if self.options else told
        return ToolDefinition(
            type="function",
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            strict=self.strict,
        )


class ToolTable(Mapping[str, Offered]):
    """All tools of a run. Names are unique; whoever fills it keeps them so."""

    def __init__(self, tools: Iterable[Offered] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def __getitem__(self, name: str) -> Offered:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(tool.definition for tool in self._tools.values())

    @property
    def any_runs_here(self) -> bool:
        return any(tool.runs_here for tool in self._tools.values())
