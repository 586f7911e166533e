"""The tools of one run, by the names the model uses: who runs each, and how its calls are shown.

Above: the loop and the engine. Below: the catalog's entries.
"""

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from collections.abc import Set as AbstractSet
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct

from jackfield.catalog.catalog import Entry
from jackfield.catalog.names import legal
from jackfield.model.ids import new_id
from jackfield.model.items import (
    ID_PREFIX,
    ClientCall,
    ClientOutput,
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    ToolSearchCall,
    ToolSearchOutput,
)
from jackfield.model.response_request import (
    ClientTool,
    CustomTool,
    FunctionTool,
    NamespaceTool,
    RequestTool,
    ToolSearchTool,
)
from jackfield.model.tool import ToolDefinition, definition_of

ClientKind = Literal["function", "custom", "tool_search"]


class Target(Struct, frozen=True):
    """What a call of a built-in tool that reads is a call of."""

    entry: Entry
    arguments: dict[str, object]


class OfferedTool(Struct, frozen=True, kw_only=True):
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
    defers: bool | None = None
    """Whether the request wants it to be shown only when it is found (`defer_loading`); None: it does not say."""
    searches: bool = False
    """Its results are tools of this run, which the model is shown from then on."""
    target: Callable[[dict[str, object]], Target] | None = None
    """What its calls use, by their arguments: a resource that is read, or a prompt. Raises where there is no such."""

    @property
    def runs_here(self) -> bool:
        return self.entry is not None

    @property
    def definition(self) -> ToolDefinition:
        """As the model is shown it. Its own options, and what the request says over them, are for who executes it."""
        if self.entry is not None:
            told = definition_of(self.entry.tool, self.name)
            if self.searches or self.target is not None:
                told = msgspec.structs.replace(told, description=self.description)
            return msgspec.structs.replace(told, config={**told.config, **self.options}) if self.options else told
        return ToolDefinition(
            type="function",
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            strict=self.strict,
        )


class ToolTable(Mapping[str, OfferedTool]):
    """All tools of a run. Names are unique; whoever fills it keeps them so."""

    def __init__(
        self, tools: Iterable[OfferedTool] = (), *, deferred: AbstractSet[str] = frozenset(), search: str | None = None
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.deferred = deferred
        """Tools that can be called, and that the model is shown when it has found them."""
        self.search = search
        """The tool that finds them."""

    def __getitem__(self, name: str) -> OfferedTool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def items(self) -> ItemsView[str, OfferedTool]:
        return self._tools.items()

    def values(self) -> ValuesView[OfferedTool]:
        return self._tools.values()

    @property
    def any_runs_here(self) -> bool:
        return any(tool.runs_here for tool in self._tools.values())


SEARCH = "tool_search"
"""What a model knows the client's search for tools by."""
INPUT = "input"
_TEXT = {
    "type": "object",
    "properties": {INPUT: {"type": "string"}},
    "required": [INPUT],
    "additionalProperties": False,
}


def client_tools(tools: Iterable[RequestTool]) -> Iterator[OfferedTool]:
    """Every tool of a request that the client runs, with those inside its namespaces."""
    for tool in tools:
        if isinstance(tool, NamespaceTool):
            yield from (_offered(inner, namespace=tool.name) for inner in tool.tools)
        elif isinstance(tool, ClientTool):
            yield _offered(tool, namespace=None)


def begun_call(tool: OfferedTool, call_id: str) -> ClientCall:
    """The item of a call that begins."""
    namespace = UNSET if tool.namespace is None else tool.namespace
    if tool.kind == "custom":
        return CustomToolCall(
            id=new_id(ID_PREFIX[CustomToolCall]),
            call_id=call_id,
            name=tool.bare_name,
            input="",
            namespace=namespace,
            status="in_progress",
        )
    if tool.kind == "tool_search":
        return ToolSearchCall(id=new_id(ID_PREFIX[ToolSearchCall]), call_id=call_id, arguments={}, status="in_progress")
    return FunctionCall(
        id=new_id(ID_PREFIX[FunctionCall]),
        call_id=call_id,
        name=tool.bare_name or tool.name,
        arguments="",
        namespace=namespace,
        status="in_progress",
    )


def finished_call(begun: ClientCall, arguments: str) -> ClientCall:
    """The item as the client gets it, with the arguments that the model wrote."""
    if isinstance(begun, CustomToolCall):
        return msgspec.structs.replace(begun, input=_plain_input(arguments), status="completed")
    if isinstance(begun, ToolSearchCall):
        return msgspec.structs.replace(begun, arguments=_object(arguments) or {}, status="completed")
    return msgspec.structs.replace(begun, arguments=arguments, status="completed")


def call_for_model(call: ClientCall, names: Mapping[tuple[str | None, str], str]) -> FunctionCall:
    """A call of the client's, as the model made it. `names` are the names that the model knows its tools by."""
    if isinstance(call, ToolSearchCall):
        arguments = msgspec.json.encode(call.arguments or {}).decode()
        return FunctionCall(id=call.id, call_id=call.call_id or call.id, name=SEARCH, arguments=arguments)
    namespace = None if call.namespace is UNSET else call.namespace
    name = names.get((namespace, call.name)) or flat_name(namespace, call.name)
    written = msgspec.json.encode({INPUT: call.input}).decode() if isinstance(call, CustomToolCall) else call.arguments
    return FunctionCall(id=call.id, call_id=call.call_id, name=name, arguments=written, status=call.status)


def output_for_model(output: ClientOutput) -> FunctionCallOutput:
    """What the client gave back, as the model is told it."""
    if isinstance(output, ToolSearchOutput):
        found = ", ".join(_found_names(output.tools)) or "nothing"
        text = f"Found: {found}. What was found is among your tools now."
        return FunctionCallOutput(id=output.id, call_id=output.call_id or output.id, output=text)
    if isinstance(output, FunctionCallOutput):
        return output
    return FunctionCallOutput(id=output.id, call_id=output.call_id, output=output.output, status=output.status)


def flat_name(namespace: str | None, name: str) -> str:
    """How a model knows a tool of a namespace: `mcp__docs` and `find` are `mcp__docs__find`."""
    if namespace is None:
        return name
    return legal(f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}")


def _offered(tool: ClientTool, *, namespace: str | None) -> OfferedTool:
    if isinstance(tool, ToolSearchTool):
        return OfferedTool(
            name=SEARCH,
            bare_name=SEARCH,
            description=tool.description or "",
            parameters=tool.parameters,
            kind="tool_search",
        )
    name = flat_name(namespace, tool.name)
    if isinstance(tool, FunctionTool):
        return OfferedTool(
            name=name,
            bare_name=tool.name,
            description=tool.description or "",
            parameters=tool.parameters,
            strict=tool.strict,
            namespace=namespace,
            defers=None if tool.defer_loading is UNSET else tool.defer_loading,
        )
    return OfferedTool(
        name=name,
        bare_name=tool.name,
        description=_described(tool),
        parameters=_TEXT,
        kind="custom",
        namespace=namespace,
        defers=None if tool.defer_loading is UNSET else tool.defer_loading,
    )


def _described(tool: CustomTool) -> str:
    """What the tool says of itself, and the grammar that its input must follow."""
    said = f"{tool.description or ''}\nPut the whole text into '{INPUT}'.".strip()
    form = tool.format or {}
    if form.get("type") != "grammar":
        return said
    return f"{said} It must follow this {form.get('syntax', 'lark')} grammar:\n{form.get('definition', '')}"


def _plain_input(arguments: str) -> str:
    """The text that a model put into its one argument; one that wrote the text alone meant the same."""
    given = _object(arguments)
    text = None if given is None else given.get(INPUT)
    return text if isinstance(text, str) else arguments


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _found_names(tools: Iterable[Any]) -> Iterator[str]:
    for tool in tools:
        if not isinstance(tool, dict):
            continue
        inner = tool.get("tools")
        if tool.get("type") == "namespace" and isinstance(inner, list):
            space = str(tool.get("name", ""))
            yield from (flat_name(space, str(one.get("name"))) for one in inner if isinstance(one, dict))
        elif isinstance(tool.get("name"), str):
            yield tool["name"]
