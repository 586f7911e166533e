"""What a conversation is made of: the items of Open Responses, in their own spelling.

The wire's shape is ours, so an item is decoded once at the handler and encoded once at the end. A field that the wire
leaves out, rather than says as null, is `UNSET` here. Above: llm, agents, store and the Responses API. Below: nothing.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

Role = Literal["user", "assistant", "system", "developer"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]
McpCallStatus = Literal["in_progress", "calling", "completed", "incomplete", "failed"]
Detail = Literal["low", "high", "auto", "original"]
Phase = Literal["commentary", "final_answer"]


class InputText(Struct, frozen=True, kw_only=True, tag="input_text"):
    text: str


class InputImage(Struct, frozen=True, kw_only=True, tag="input_image"):
    image_url: str | None = None
    """An address or a data URL."""
    detail: Detail = "auto"
    file_id: str | UnsetType = UNSET


class ToolImage(InputImage, frozen=True, kw_only=True, tag="input_image"):
    """An image in a message that came from a tool: a model without eyes is asked without it."""


class InputFile(Struct, frozen=True, kw_only=True, tag="input_file"):
    filename: str | UnsetType = UNSET
    file_url: str | UnsetType = UNSET
    file_data: str | UnsetType = UNSET
    file_id: str | UnsetType = UNSET


class OutputText(Struct, frozen=True, kw_only=True, tag="output_text"):
    text: str
    annotations: tuple[dict[str, Any], ...] = ()
    logprobs: tuple[dict[str, Any], ...] = ()


class Refusal(Struct, frozen=True, kw_only=True, tag="refusal"):
    refusal: str


class SummaryText(Struct, frozen=True, kw_only=True, tag="summary_text"):
    text: str


class ReasoningText(Struct, frozen=True, kw_only=True, tag="reasoning_text"):
    text: str


class PlainText(Struct, frozen=True, kw_only=True, tag="text"):
    text: str


Part = InputText | InputImage | InputFile | OutputText | Refusal | SummaryText | ReasoningText | PlainText
OutputPart = InputText | InputImage | InputFile
"""What the output of a client-run function may hold beside plain text."""


class Message(Struct, frozen=True, kw_only=True, tag="message"):
    """Somebody said something."""

    id: str = ""
    status: ItemStatus = "completed"
    role: Role
    content: tuple[Part, ...] = ()
    phase: Phase | UnsetType = UNSET


class FunctionCall(Struct, frozen=True, kw_only=True, tag="function_call"):
    """The model asks the client to run one of its functions."""

    id: str = ""
    call_id: str
    name: str
    arguments: str
    """JSON as the model wrote it, which need not parse."""
    namespace: str | UnsetType = UNSET
    """Which of the request's namespaces the function is in."""
    status: ItemStatus = "completed"


class FunctionCallOutput(Struct, frozen=True, kw_only=True, tag="function_call_output"):
    """The client's answer to a `FunctionCall`."""

    id: str = ""
    call_id: str
    output: str | tuple[OutputPart, ...]
    status: ItemStatus = "completed"


class CustomToolCall(Struct, frozen=True, kw_only=True, tag="custom_tool_call"):
    """The model asks the client to run one of its tools that take plain text."""

    id: str = ""
    call_id: str
    name: str
    input: str
    namespace: str | UnsetType = UNSET
    status: ItemStatus = "completed"


class CustomToolCallOutput(Struct, frozen=True, kw_only=True, tag="custom_tool_call_output"):
    """The client's answer to a `CustomToolCall`."""

    id: str = ""
    call_id: str
    output: str | tuple[OutputPart, ...]
    status: ItemStatus = "completed"


class ToolSearchCall(Struct, frozen=True, kw_only=True, tag="tool_search_call"):
    """The model asks which other tools there are: the client, or the gateway (`server`)."""

    id: str = ""
    call_id: str | None = None
    """None where the gateway runs it."""
    execution: Literal["client", "server"] = "client"
    arguments: Any = None
    """The arguments themselves, not as text."""
    status: ItemStatus = "completed"


class ToolSearchOutput(Struct, frozen=True, kw_only=True, tag="tool_search_output"):
    """The answer to a `ToolSearchCall`: tools that can be called from here on."""

    id: str = ""
    call_id: str | None = None
    execution: Literal["client", "server"] = "client"
    tools: tuple[Any, ...] = ()
    """As in the `tools` of a request."""
    status: ItemStatus = "completed"


class Reasoning(Struct, frozen=True, kw_only=True, tag="reasoning"):
    """What the model thought, in full or in summary."""

    id: str = ""
    summary: tuple[Part, ...] = ()
    content: tuple[Part, ...] = ()
    encrypted_content: str | UnsetType = UNSET
    status: ItemStatus = "completed"


class ListedMcpTool(Struct, frozen=True, kw_only=True):
    """One tool of a listing."""

    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    annotations: dict[str, Any] | None = None


class McpListTools(Struct, frozen=True, kw_only=True, tag="mcp_list_tools"):
    """The tools that a server offered, or why it offered none."""

    id: str = ""
    server_label: str
    tools: tuple[ListedMcpTool, ...] = ()
    error: str | None = None


class McpProtocolError(Struct, frozen=True, kw_only=True, tag="mcp_protocol_error"):
    """The call was not carried out: unknown tool, bad arguments, refused."""

    code: int
    message: str


class McpToolExecutionError(Struct, frozen=True, kw_only=True, tag="mcp_tool_execution_error"):
    """The tool ran and failed; `content` is what it said, as MCP content blocks."""

    content: Any


class HttpError(Struct, frozen=True, kw_only=True, tag="http_error"):
    """The server was not reached, or answered with an HTTP error."""

    code: int
    message: str


McpError = McpProtocolError | McpToolExecutionError | HttpError


class McpCall(Struct, frozen=True, kw_only=True, tag="mcp_call"):
    """A tool that the server side ran, with how it went."""

    id: str = ""
    server_label: str
    name: str
    arguments: str
    output: str | None = None
    error: McpError | None = None
    status: McpCallStatus = "completed"
    approval_request_id: str | None = None
    images: int | UnsetType = UNSET
    """How many images its result has for the model; they are in the call's record. Beyond OpenAI's fields."""
    step: int | UnsetType = UNSET
    """Calls next to each other with the same number were made in one step of the model. Beyond OpenAI's fields."""


class McpApprovalRequest(Struct, frozen=True, kw_only=True, tag="mcp_approval_request"):
    """A call that a person must allow first. The response ends here and continues with the answer."""

    id: str = ""
    server_label: str
    name: str
    arguments: str


class McpApprovalResponse(Struct, frozen=True, kw_only=True, tag="mcp_approval_response"):
    """The answer to a `McpApprovalRequest`."""

    id: str = ""
    approval_request_id: str
    approve: bool
    reason: str | None = None


class Compaction(Struct, frozen=True, kw_only=True, tag="compaction"):
    """A longer conversation in a form that only we read."""

    id: str = ""
    encrypted_content: str


class ItemReference(Struct, frozen=True, kw_only=True, tag="item_reference"):
    """An item that is known already, by its id. The handler puts the item in its place; the loop never sees one."""

    id: str


Item = (
    Message
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | ToolSearchCall
    | ToolSearchOutput
    | Reasoning
    | McpListTools
    | McpCall
    | McpApprovalRequest
    | McpApprovalResponse
    | Compaction
    | ItemReference
)

ClientCall = FunctionCall | CustomToolCall | ToolSearchCall
"""A call that the client runs."""
ClientOutput = FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput
"""What came of it."""

ID_PREFIX: dict[type[Struct], str] = {
    Message: "msg",
    FunctionCall: "fc",
    FunctionCallOutput: "fco",
    CustomToolCall: "ctc",
    CustomToolCallOutput: "ctco",
    ToolSearchCall: "tsc",
    ToolSearchOutput: "tso",
    Reasoning: "rs",
    McpListTools: "mcpl",
    McpCall: "mcp",
    McpApprovalRequest: "mcpr",
    McpApprovalResponse: "mcpa",
    Compaction: "cmp",
}
"""How the ids of each kind begin; `new_id` makes the rest."""


class InputTokens(Struct, frozen=True, kw_only=True):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokens(Struct, frozen=True, kw_only=True):
    reasoning_tokens: int = 0


class Usage(Struct, frozen=True, kw_only=True):
    """What a response cost, summed over its steps."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: InputTokens = InputTokens()
    output_tokens_details: OutputTokens = OutputTokens()

    def plus(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            input_tokens_details=InputTokens(
                cached_tokens=self.input_tokens_details.cached_tokens + other.input_tokens_details.cached_tokens,
                cache_write_tokens=self.input_tokens_details.cache_write_tokens
                + other.input_tokens_details.cache_write_tokens,
            ),
            output_tokens_details=OutputTokens(
                reasoning_tokens=self.output_tokens_details.reasoning_tokens
                + other.output_tokens_details.reasoning_tokens
            ),
        )


def text_of(item: Message | Reasoning) -> str:
    """All that is said in an item's content, put together."""
    return "".join(_words(part) for part in item.content)


def _words(part: Part) -> str:
    if isinstance(part, Refusal):
        return part.refusal
    return "" if isinstance(part, InputImage | InputFile) else part.text


decode_items = msgspec.json.Decoder(tuple[Item, ...]).decode
encode_items = msgspec.json.Encoder().encode
