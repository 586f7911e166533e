"""The events of a response's stream, as Open Responses and OpenAI's API spell them, one struct each.

Above: the writer, which alone gives them their sequence numbers. Below: the items. Events about server-run tools are
OpenAI's, and progress is our own extension event: neither is sent to a request without such tools, and progress only
to one that asks for it. Where the two differ there is a struct for each.
"""

from msgspec import Struct

from jackfield.http.response import encode
from jackfield.model.items import Item, Part
from jackfield.protocol.sse import encode_event
from jackfield.responses.resource import ResponseResource

DONE = b"data: [DONE]\n\n"


class Frame(Struct, frozen=True):
    """One event, encoded once for every reader it has."""

    type: str
    sequence_number: int
    data: bytes

    @property
    def as_sse(self) -> bytes:
        """Its lines, in one piece: a reader may lose an event that comes in two."""
        return encode_event(self.data, event=self.type)


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """What all events have."""

    sequence_number: int

    @property
    def frame(self) -> Frame:
        return Frame(str(self.__struct_config__.tag), self.sequence_number, encode(self))


class _Lifecycle(Event, frozen=True, kw_only=True):
    response: ResponseResource


class Created(_Lifecycle, frozen=True, kw_only=True, tag="response.created"): ...


class Queued(_Lifecycle, frozen=True, kw_only=True, tag="response.queued"): ...


class InProgress(_Lifecycle, frozen=True, kw_only=True, tag="response.in_progress"): ...


class Completed(_Lifecycle, frozen=True, kw_only=True, tag="response.completed"): ...


class Incomplete(_Lifecycle, frozen=True, kw_only=True, tag="response.incomplete"): ...


class FailedEvent(_Lifecycle, frozen=True, kw_only=True, tag="response.failed"): ...


class Cancelled(_Lifecycle, frozen=True, kw_only=True, tag="response.cancelled"): ...


TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class ErrorPayload(Struct, frozen=True, kw_only=True):
    type: str
    code: str | None
    message: str
    param: str | None = None


class ErrorEvent(Event, frozen=True, kw_only=True, tag="error"):
    error: ErrorPayload


class ItemAddedEvent(Event, frozen=True, kw_only=True, tag="response.output_item.added"):
    output_index: int
    item: Item


class ItemDoneEvent(Event, frozen=True, kw_only=True, tag="response.output_item.done"):
    output_index: int
    item: Item


class _OfItem(Event, frozen=True, kw_only=True):
    item_id: str
    output_index: int


class _OfContent(_OfItem, frozen=True, kw_only=True):
    content_index: int


class PartAdded(_OfContent, frozen=True, kw_only=True, tag="response.content_part.added"):
    part: Part


class PartDone(_OfContent, frozen=True, kw_only=True, tag="response.content_part.done"):
    part: Part


class TextDeltaEvent(_OfContent, frozen=True, kw_only=True, tag="response.output_text.delta"):
    delta: str
    logprobs: tuple[()] = ()


class TextDone(_OfContent, frozen=True, kw_only=True, tag="response.output_text.done"):
    text: str
    logprobs: tuple[()] = ()


class RefusalDeltaEvent(_OfContent, frozen=True, kw_only=True, tag="response.refusal.delta"):
    delta: str


class RefusalDone(_OfContent, frozen=True, kw_only=True, tag="response.refusal.done"):
    refusal: str


class ReasoningDeltaEvent(_OfContent, frozen=True, kw_only=True, tag="response.reasoning.delta"):
    delta: str


class ReasoningDone(_OfContent, frozen=True, kw_only=True, tag="response.reasoning.done"):
    text: str


class ReasoningTextDelta(_OfContent, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    """As OpenAI spells it."""

    delta: str


class ReasoningTextDone(_OfContent, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    text: str


class _OfSummary(_OfItem, frozen=True, kw_only=True):
    summary_index: int


class SummaryPartAdded(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_part.added"):
    part: Part


class SummaryPartDone(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_part.done"):
    part: Part


class SummaryDelta(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_text.delta"):
    delta: str


class SummaryDone(_OfSummary, frozen=True, kw_only=True, tag="response.reasoning_summary_text.done"):
    text: str


class CustomInputDelta(_OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.delta"):
    delta: str


class CustomInputDone(_OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.done"):
    input: str


class FunctionArgumentsDelta(_OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"):
    delta: str


class FunctionArgumentsDone(_OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.done"):
    arguments: str


class McpArgumentsDelta(_OfItem, frozen=True, kw_only=True, tag="response.mcp_call_arguments.delta"):
    delta: str


class McpArgumentsDone(_OfItem, frozen=True, kw_only=True, tag="response.mcp_call_arguments.done"):
    arguments: str


class McpCallInProgress(_OfItem, frozen=True, kw_only=True, tag="response.mcp_call.in_progress"): ...


class McpCallCompleted(_OfItem, frozen=True, kw_only=True, tag="response.mcp_call.completed"): ...


class McpCallFailed(_OfItem, frozen=True, kw_only=True, tag="response.mcp_call.failed"): ...


class McpListInProgress(_OfItem, frozen=True, kw_only=True, tag="response.mcp_list_tools.in_progress"): ...


class McpListCompleted(_OfItem, frozen=True, kw_only=True, tag="response.mcp_list_tools.completed"): ...


class McpListFailed(_OfItem, frozen=True, kw_only=True, tag="response.mcp_list_tools.failed"): ...


class ToolProgressEvent(_OfItem, frozen=True, kw_only=True, tag="jackfield:tool_progress"):
    """How far a server-run call is, as its tool says."""

    progress: float
    total: float | None
    message: str | None
