"""Tools that the client runs: how a model is shown each kind, and how its calls are handed out and told. Pure.

A model knows functions only. A tool that takes plain text (`custom`) is a function with one string; a tool in a
namespace has the namespace in its name; a search for tools is a function like any other. Above: `offers.py`,
`speech.py`, `running.py`, `conversation.py`. Below: the items.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

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
from jackfield.runs.tools import Offered

SEARCH = "tool_search"
"""What a model knows the client's search for tools by."""
INPUT = "input"
_TEXT = {
    "type": "object",
    "properties": {INPUT: {"type": "string"}},
    "required": [INPUT],
    "additionalProperties": False,
}


def client_tools(tools: Iterable[RequestTool]) -> Iterator[Offered]:
    """Every tool of a request that the client runs, with those inside its namespaces."""
    for tool in tools:
        if isinstance(tool, NamespaceTool):
            yield from (_offered(inner, namespace=tool.name) for inner in tool.tools)
        elif isinstance(tool, ClientTool):
            yield _offered(tool, namespace=None)


def begun_call(tool: Offered, call_id: str) -> ClientCall:
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


def made_call(begun: ClientCall, arguments: str) -> ClientCall:
    """The item as the client gets it, with the arguments that the model wrote."""
    if isinstance(begun, CustomToolCall):
        return msgspec.structs.replace(begun, input=_plain_input(arguments), status="completed")
    if isinstance(begun, ToolSearchCall):
        return msgspec.structs.replace(begun, arguments=_object(arguments) or {}, status="completed")
    return msgspec.structs.replace(begun, arguments=arguments, status="completed")


def call_as_told(call: ClientCall, names: Mapping[tuple[str | None, str], str]) -> FunctionCall:
    """A call of the client's, as the model made it. `names` are the names that the model knows its tools by."""
    if isinstance(call, ToolSearchCall):
        arguments = msgspec.json.encode(call.arguments or {}).decode()
        return FunctionCall(id=call.id, call_id=call.call_id or call.id, name=SEARCH, arguments=arguments)
    namespace = None if call.namespace is UNSET else call.namespace
    name = names.get((namespace, call.name)) or flat_name(namespace, call.name)
    written = msgspec.json.encode({INPUT: call.input}).decode() if isinstance(call, CustomToolCall) else call.arguments
    return FunctionCall(id=call.id, call_id=call.call_id, name=name, arguments=written, status=call.status)


def output_as_told(output: ClientOutput) -> FunctionCallOutput:
    """What the client gave back, as the model is told it."""
    if isinstance(output, ToolSearchOutput):
        found = ", ".join(_found_names(output.tools)) or "nothing"
        text = f"Found: {found}. What was found is among your tools now."
        return FunctionCallOutput(id=output.id, call_id=output.call_id, output=text)
    if isinstance(output, FunctionCallOutput):
        return output
    return FunctionCallOutput(id=output.id, call_id=output.call_id, output=output.output, status=output.status)


def flat_name(namespace: str | None, name: str) -> str:
    """How a model knows a tool of a namespace: `mcp__docs` and `find` are `mcp__docs__find`."""
    if namespace is None:
        return name
    return legal(f"{namespace}{name}" if namespace.endswith("__") else f"{namespace}__{name}")


def _offered(tool: ClientTool, *, namespace: str | None) -> Offered:
    if isinstance(tool, ToolSearchTool):
        return Offered(
            name=SEARCH,
            bare_name=SEARCH,
            description=tool.description or "",
            parameters=tool.parameters,
            kind="tool_search",
        )
    name = flat_name(namespace, tool.name)
    if isinstance(tool, FunctionTool):
        return Offered(
            name=name,
            bare_name=tool.name,
            description=tool.description or "",
            parameters=tool.parameters,
            strict=tool.strict,
            namespace=namespace,
        )
    return Offered(
        name=name,
        bare_name=tool.name,
        description=_described(tool),
        parameters=_TEXT,
        kind="custom",
        namespace=namespace,
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
