"""A request for a response, read and checked: what `POST /v1/responses` asks for, in our types.

Above: the engine, which carries it out, and the handler, which reads it (`responses/request.py`) and echoes it. Below:
the items. Every spelling that the handler takes has become one form here, and every default has been put in.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from jackfield.model.items import Item

ChoiceMode = Literal["auto", "none", "required"]
EventNames = Literal["openai", "open-responses"]
"""Whose names the events of a stream have, where the two differ."""


class FunctionTool(Struct, frozen=True, kw_only=True, tag="function"):
    """A tool that the client runs."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: bool | UnsetType = UNSET
    """Whether the model is shown it only when a search has found it."""


class CustomTool(Struct, frozen=True, kw_only=True, tag="custom"):
    """A tool that the client runs and that takes plain text instead of arguments."""

    name: str
    description: str | None = None
    format: dict[str, Any] | None = None
    """`{"type": "text"}`, or a grammar: `{"type": "grammar", "syntax", "definition"}`."""
    defer_loading: bool | UnsetType = UNSET


class NamespaceTool(Struct, frozen=True, kw_only=True, tag="namespace"):
    """Tools of the client under one name. Their calls say which namespace they are in."""

    name: str
    description: str | None = None
    tools: tuple[FunctionTool | CustomTool, ...] = ()


class ToolSearchTool(Struct, frozen=True, kw_only=True, tag="tool_search"):
    """A search that the client runs for tools which it has not listed yet."""

    execution: Literal["client"]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class HostedSearchTool(Struct, frozen=True, kw_only=True, tag="tool_search"):
    """The gateway's own search for tools that are not loaded (`defer_loading`)."""

    execution: Literal["server"] = "server"


class HostedTool(Struct, frozen=True, kw_only=True):
    """A tool that another provider would run and that is not here (`web_search`, …)."""

    type: str


class ToolSubset(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some tools of a server: by name, by whether they only read, or both."""

    tool_names: tuple[str, ...] | None = None
    read_only: bool | None = None


class ApprovalRules(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which tools of a server are asked about."""

    always: ToolSubset | None = None
    never: ToolSubset | None = None


class McpTool(Struct, frozen=True, kw_only=True, tag="mcp"):
    """The tools of a server: one by its url, one of the config, or the catalog (`jackfield`)."""

    server_label: str
    server_url: str | None = None
    server_description: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: tuple[str, ...] | ToolSubset | None = None
    require_approval: Literal["always", "never"] | ApprovalRules | None = None
    defer_loading: bool | UnsetType = UNSET
    """Whether its tools are shown to the model only when a search has found them; not given: if they are many."""


class CatalogTool(Struct, frozen=True, kw_only=True, tag="jackfield:catalog"):
    """The catalog's own tools: names or globs."""

    tools: tuple[str, ...] = ("*",)
    defer_loading: bool | UnsetType = UNSET


class ExtensionTool(Struct, frozen=True, kw_only=True):
    """A tool type of somebody who registered it, spelled `provider:tool_type`, with whatever it takes."""

    type: str
    options: dict[str, Any]


ClientTool = FunctionTool | CustomTool | ToolSearchTool
"""A tool that the client runs."""
RequestTool = ClientTool | NamespaceTool | McpTool | CatalogTool | ExtensionTool | HostedSearchTool | HostedTool


class ChosenTool(Struct, frozen=True, kw_only=True):
    """A tool that `tool_choice` names: a function by its name, or one tool of a server, or all of a server's."""

    type: Literal["function", "custom", "mcp"]
    name: str | None = None
    server_label: str | None = None


class AllowedTools(Struct, frozen=True, kw_only=True):
    """Nothing but these may be called; whether one must be is the mode."""

    mode: ChoiceMode
    tools: tuple[ChosenTool, ...]


ToolChoice = ChoiceMode | ChosenTool | AllowedTools


class ReasoningOptions(Struct, frozen=True, kw_only=True):
    effort: str | None = None
    summary: str | None = None


class TextOptions(Struct, frozen=True, kw_only=True):
    format: dict[str, Any]
    verbosity: Literal["low", "medium", "high"] | UnsetType = UNSET


class CreateResponse(Struct, frozen=True, kw_only=True):
    """What is asked for. `None` is not given, where the model or the operator decides."""

    model: str
    input: tuple[Item, ...] = ()
    """What this request adds to the conversation, each item with an id."""
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: tuple[RequestTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    max_tool_calls: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_logprobs: int | None = None
    reasoning: ReasoningOptions | None = None
    text: TextOptions = TextOptions(format={"type": "text"})
    truncation: Literal["auto", "disabled"] = "disabled"
    include: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str = "default"
    user: str | None = None
    store: bool = True
    stream: bool = False
    background: bool = False
    event_names: EventNames | None = None
    """None: as the config says."""
