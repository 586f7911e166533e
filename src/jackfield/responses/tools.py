"""The tools of a request and what it says about their use, from every accepted spelling into one form. Pure.

Above: `request.py`. Below: the types of `model/response_request.py`. Seed 001's own spellings are taken too:
`tool_choice: {"forced_tool": {…}}` and a top-level `allowed_tools` of names. Types that nobody here knows are kept as
`HostedTool`: the engine leaves them out or refuses them, as the config says.
"""

import re
from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import UNSET

from jackfield.catalog.globs import MOST, check_bounds
from jackfield.errors import BadRequest
from jackfield.model.items import ToolSearchOutput
from jackfield.model.response_request import (
    AllowedTools,
    ApprovalRules,
    CatalogTool,
    ChoiceMode,
    ChosenTool,
    CustomTool,
    ExtensionTool,
    FunctionTool,
    HostedSearchTool,
    HostedTool,
    McpTool,
    NamespaceTool,
    RequestTool,
    ToolChoice,
    ToolSearchTool,
    ToolSubset,
)
from jackfield.protocol.json_bodies import bad_value

MODES: tuple[ChoiceMode, ...] = get_args(ChoiceMode)
MOST_SERVERS = 64
"""Tools of a request that stand for many: servers, the catalog, extensions."""
_FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_EXTENSION = re.compile(r"[a-zA-Z0-9_-]+:[a-zA-Z0-9_:-]+\Z")
_KINDS = {"function": FunctionTool, "custom": CustomTool, "mcp": McpTool, "jackfield:catalog": CatalogTool}
_KNOWN = ", ".join((*_KINDS, "namespace", "tool_search", "and 'provider:kind'"))
_LONGEST_NAMESPACE = 128
_HINT = "Use 'auto', 'none', 'required', a function, custom or mcp tool, or allowed_tools."


def read_tools(given: list[Any]) -> tuple[RequestTool, ...]:
    """Every tool of a request. A name or a label counts once."""
    tools = tuple(_tool(f"tools[{number}]", raw) for number, raw in enumerate(given))
    _no_doubles("function", (tool.name for tool in tools if isinstance(tool, FunctionTool | CustomTool)))
    _no_doubles("namespace", (tool.name for tool in tools if isinstance(tool, NamespaceTool)))
    _no_doubles("server", (tool.server_label for tool in tools if isinstance(tool, McpTool)))
    _no_doubles("tool", ("tool_search" for tool in tools if isinstance(tool, ToolSearchTool | HostedSearchTool)))
    others = sum(isinstance(tool, McpTool | CatalogTool | ExtensionTool) for tool in tools)
    if others > MOST_SERVERS:
        raise BadRequest(f"'tools' has {others} servers and catalogs; {MOST_SERVERS} are allowed.", param="tools")
    for number, tool in enumerate(tools):
        for key, patterns in _patterns(tool):
            check_bounds(patterns, param=f"tools[{number}].{key}")
    return tools


def _patterns(tool: RequestTool) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Every list of names or globs that a tool of a request brings along, by its key."""
    if isinstance(tool, CatalogTool):
        yield "tools", tool.tools
    elif isinstance(tool, McpTool):
        rules = tool.require_approval if isinstance(tool.require_approval, ApprovalRules) else ApprovalRules()
        for key, names in (
            ("allowed_tools", tool.allowed_tools),
            ("require_approval.always", rules.always),
            ("require_approval.never", rules.never),
        ):
            yield key, (names.tool_names or ()) if isinstance(names, ToolSubset) else names or ()


def read_choice(given: Any, *, allowed: tuple[str, ...]) -> ToolChoice:
    """`tool_choice` in any of its forms, joined with the seed's `allowed_tools` (none: all)."""
    check_bounds(allowed, param="allowed_tools")
    choice = _choice(given)
    if not allowed or choice == "none":
        return choice
    chosen = tuple(ChosenTool(type="function", name=name) for name in allowed)
    if isinstance(choice, str):
        return AllowedTools(mode=choice, tools=chosen)
    if isinstance(choice, AllowedTools):
        raise BadRequest(
            "Tools are allowed twice. Use 'allowed_tools' or 'tool_choice', not both.", param="tool_choice"
        )
    if choice.name not in allowed:
        raise BadRequest(
            f"'tool_choice' forces '{choice.name or choice.server_label}', which 'allowed_tools' does not list. "
            "Add it there, or force another.",
            param="tool_choice",
        )
    return choice


def loaded_tools(searches: Iterable[ToolSearchOutput], present: tuple[RequestTool, ...]) -> tuple[RequestTool, ...]:
    """The tools of a request with those that searches have found; of two with one name the newer holds.

    What the gateway found in the request stays deferred here: the run loads it, in the order of the searches.
    """
    spaces = {tool.name: tool for tool in present if isinstance(tool, NamespaceTool)}
    known = {tool.name: tool for tool in present if isinstance(tool, FunctionTool | CustomTool)}
    others: dict[str, RequestTool] = {}
    for search in searches:
        is_by_client = search.execution == "client"
        for tool in read_tools(list(search.tools)):
            if isinstance(tool, NamespaceTool):
                spaces[tool.name] = _joined(spaces.get(tool.name), tool, is_by_client=is_by_client)
            elif isinstance(tool, FunctionTool | CustomTool):
                own = known.get(tool.name)
                if own is None or (is_by_client and own.defer_loading is True):
                    others[tool.name] = _loaded(tool)
    kept = (tool for tool in present if not isinstance(tool, NamespaceTool))
    still = (tool for tool in kept if not (isinstance(tool, FunctionTool | CustomTool) and tool.name in others))
    return (*still, *spaces.values(), *others.values())


def _joined(known: NamespaceTool | None, found: NamespaceTool, *, is_by_client: bool) -> NamespaceTool:
    tools = {} if known is None else {tool.name: tool for tool in known.tools}
    for tool in found.tools:
        if is_by_client or tool.name not in tools:
            tools[tool.name] = _loaded(tool)
    about = found.description or (None if known is None else known.description)
    return msgspec.structs.replace(found, description=about, tools=tuple(tools.values()))


def _loaded(tool: FunctionTool | CustomTool) -> FunctionTool | CustomTool:
    return msgspec.structs.replace(tool, defer_loading=UNSET)


def _tool(where: str, raw: Any) -> RequestTool:
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        raise BadRequest(f"'{where}' needs a type. Known: {_KNOWN}.", param=where)
    fields = {key: value for key, value in raw.items() if value is not None}
    kind = _KINDS.get(fields["type"])
    if kind is None:
        return _uncommon(fields, where)
    tool: RequestTool = _converted(fields, kind, where)
    if isinstance(tool, FunctionTool | CustomTool) and not _FUNCTION_NAME.match(tool.name):
        raise BadRequest(
            f"'{where}' has the name {tool.name[:80]!r}. Use 1 to 64 letters, digits, '_' and '-'.",
            param=f"{where}.name",
        )
    return tool


def _uncommon(fields: dict[str, Any], where: str) -> RequestTool:
    """A namespace, a search, a registered type, or one that is not here."""
    kind = fields["type"]
    if kind == "namespace":
        return _namespace(fields, where)
    if kind == "tool_search":
        return _search(fields, where)
    if _EXTENSION.match(kind):
        return ExtensionTool(type=fields.pop("type"), options=fields)
    return HostedTool(type=kind[:60])


def _search(fields: dict[str, Any], where: str) -> ToolSearchTool | HostedSearchTool:
    """A search by the client, or by the gateway, which has its own description and parameters."""
    if fields.get("execution", "server") == "client":
        by_client: ToolSearchTool = _converted(fields, ToolSearchTool, where)
        return by_client
    by_gateway: HostedSearchTool = _converted(fields, HostedSearchTool, where)
    return by_gateway


def _namespace(fields: dict[str, Any], where: str) -> NamespaceTool:
    inner, name = fields.get("tools"), fields.get("name")
    if not isinstance(inner, list) or not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAMESPACE:
        raise BadRequest(f"'{where}' is a namespace and needs a 'name' and a list of 'tools'.", param=where)
    read = [_tool(f"{where}.tools[{number}]", raw) for number, raw in enumerate(inner)]
    tools = tuple(tool for tool in read if isinstance(tool, FunctionTool | CustomTool))
    _no_doubles("function", (tool.name for tool in tools))
    about = fields.get("description")
    return NamespaceTool(name=name, description=about if isinstance(about, str) else None, tools=tools)


def _choice(given: Any) -> ToolChoice:
    if given is None:
        return "auto"
    if isinstance(given, str):
        return _mode(given)
    if not isinstance(given, dict):
        raise BadRequest(f"'tool_choice' is invalid. {_HINT}", param="tool_choice")
    if isinstance(given.get("forced_tool"), dict):
        return _chosen(given["forced_tool"], "tool_choice.forced_tool")
    kind = given.get("type")
    if kind == "allowed_tools":
        return _allowed(given)
    if kind in ("function", "custom", "mcp"):
        return _chosen(given, "tool_choice")
    return _mode(kind)


def _mode(word: Any) -> ChoiceMode:
    for mode in MODES:
        if word == mode:
            return mode
    raise BadRequest(f"'tool_choice' is {str(word)[:60]!r}. {_HINT}", param="tool_choice")


def _allowed(given: dict[str, Any]) -> AllowedTools:
    tools = given.get("tools")
    if not isinstance(tools, list) or not tools:
        raise BadRequest("'tool_choice.tools' must list the tools that are allowed.", param="tool_choice.tools")
    if len(tools) > MOST:
        said = f"'tool_choice.tools' lists {len(tools)} tools; {MOST} are allowed"
        raise BadRequest(f"{said}. Leave those out of 'tools' that may not be called.", param="tool_choice.tools")
    chosen = tuple(_chosen(raw, f"tool_choice.tools[{number}]") for number, raw in enumerate(tools))
    return AllowedTools(mode=_mode(given.get("mode") or "auto"), tools=chosen)


def _chosen(raw: Any, where: str) -> ChosenTool:
    if not isinstance(raw, dict):
        raise BadRequest(f"'{where}' must be an object like {{'type': 'function', 'name': …}}.", param=where)
    tool: ChosenTool = _converted({key: value for key, value in raw.items() if value is not None}, ChosenTool, where)
    needed = tool.server_label if tool.type == "mcp" else tool.name
    if not needed:
        missing = "server_label" if tool.type == "mcp" else "name"
        raise BadRequest(f"'{where}' needs the key '{missing}'. Add it.", param=f"{where}.{missing}")
    return tool


def _converted(fields: dict[str, Any], into: Any, where: str) -> Any:
    try:
        return msgspec.convert(fields, into)
    except msgspec.ValidationError as fault:
        refusal = bad_value(fault, what=f"'{where}'", into=into)
        raise BadRequest(refusal.message, param=f"{where}.{refusal.param}" if refusal.param else where) from None


def _no_doubles(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadRequest(f"The {kind} '{name}' is given twice in 'tools'. Give it once.", param="tools")
        seen.add(name)
