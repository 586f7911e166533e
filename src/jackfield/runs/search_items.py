"""Searches for tools that the gateway ran, as items of a response: OpenAI's `tool_search_call` and
`tool_search_output` with `execution: "server"`. Pure.

Above: the tool executor, which makes them, and the conversation, which tells a model of earlier ones. A call and its
output have ids that end alike. A function that was found is shown whole; of servers, which tools were.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from jackfield.model.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    ToolSearchCall,
    ToolSearchOutput,
)
from jackfield.runs.step import record_id
from jackfield.runs.tool_search import found_result
from jackfield.runs.tools import OfferedTool, ToolTable


def tools_on_wire(found: Iterable[OfferedTool]) -> tuple[dict[str, Any], ...]:
    """Tools that were found, as `tools` of a request has them."""
    shown: dict[tuple[str, str], dict[str, Any]] = {}
    for tool in found:
        if tool.entry is not None:
            server = {"type": "mcp", "server_label": tool.label, "allowed_tools": []}
            shown.setdefault(("mcp", tool.label), server)["allowed_tools"].append(tool.bare_name)
        elif tool.namespace is not None:
            space = {"type": "namespace", "name": tool.namespace, "description": "", "tools": []}
            shown.setdefault(("namespace", tool.namespace), space)["tools"].append(_client_tool(tool))
        else:
            shown["tool", tool.name] = _client_tool(tool)
    return tuple(shown.values())


def _client_tool(tool: OfferedTool) -> dict[str, Any]:
    described = {"name": tool.bare_name or tool.name, "description": tool.description, "defer_loading": True}
    if tool.kind == "custom":
        return {"type": "custom", **described}
    return {"type": "function", **described, "parameters": tool.parameters, "strict": tool.strict}


class SearchHistory:
    """Earlier searches of a conversation, as calls of the tool that searches now."""

    def __init__(self, items: Sequence[Item], tools: ToolTable) -> None:
        self._tools = tools
        self._call_ids = _pairs(items) if tools.search is not None else {}

    def told(self, item: ToolSearchCall | ToolSearchOutput) -> Iterator[Item]:
        """The item in the model's words; nothing where it has no search now, or where it was cut off."""
        search, call_id = self._tools.search, self._call_ids.get(item.id)
        if search is None or call_id is None:
            return
        if isinstance(item, ToolSearchCall):
            arguments = msgspec.json.encode(item.arguments or {}).decode()
            yield FunctionCall(call_id=call_id, name=search, arguments=arguments)
        else:
            found = found_result(self._found(item.tools), deferred=self._tools.deferred)
            yield FunctionCallOutput(call_id=call_id, output=msgspec.json.encode(found).decode())

    @cached_property
    def _by_place(self) -> dict[tuple[str | None, str], OfferedTool]:
        return {
            (tool.label if tool.runs_here else tool.namespace, tool.bare_name or tool.name): tool
            for tool in self._tools.values()
        }

    def _found(self, shown: Iterable[Any]) -> Iterator[OfferedTool]:
        """Those that this request still has."""
        for place in _places(shown):
            tool = self._by_place.get(place)
            if tool is not None:
                yield tool


def _pairs(items: Sequence[Item]) -> dict[str, str]:
    """For each item of a search that came to its end the id of its call. Of other providers they go by their order."""
    calls = [item.id for item in items if isinstance(item, ToolSearchCall) and item.execution == "server"]
    outputs = [item.id for item in items if isinstance(item, ToolSearchOutput) and item.execution == "server"]
    own = {record_id(call): call for call in calls}
    pairs = {output: own[record_id(output)] for output in outputs if record_id(output) in own}
    paired = set(pairs.values())
    foreign = [call for call in calls if call not in paired]
    pairs |= dict(zip((output for output in outputs if output not in pairs), foreign, strict=False))
    return pairs | {call: call for call in pairs.values()}


def _places(shown: Iterable[Any]) -> Iterator[tuple[str | None, str]]:
    """Label or namespace, and the own name, of each tool. Items that the client sends may hold anything."""
    for tool in shown:
        match tool:
            case {"type": "mcp", "server_label": str(label), "allowed_tools": [*names]}:
                yield from ((label, str(name)) for name in names)
            case {"type": "namespace", "name": str(space), "tools": [*inner]}:
                yield from ((space, one["name"]) for one in inner if isinstance(one, dict) and _is_named(one))
            case {"name": str(name)}:
                yield None, name


def _is_named(tool: dict[Any, Any]) -> bool:
    return isinstance(tool.get("name"), str)
