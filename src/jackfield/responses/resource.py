"""The response object: all 31 keys of Open Responses, valid at every moment of its life.

Above: the writer, the run and the API. Below: the request it echoes. Headers and credentials of MCP servers are never
echoed, stored or shown.
"""

from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.items import Item, Usage
from jackfield.model.response_request import (
    AllowedTools,
    ChosenTool,
    CreateResponse,
    ExtensionTool,
    HostedTool,
    McpTool,
    ReasoningOptions,
    RequestTool,
    TextOptions,
    ToolChoice,
)
from jackfield.runs.events import Ended, RunError

INTERRUPTED = RunError("interrupted", "The gateway stopped while it was making this response. Ask again.")


class ResponseError(Struct, frozen=True, kw_only=True):
    code: str
    message: str


class IncompleteDetails(Struct, frozen=True, kw_only=True):
    reason: str


class ResponseResource(Struct, frozen=True, kw_only=True):
    """A response. Times are whole seconds since 1970."""

    id: str
    object: str = "response"
    created_at: int
    completed_at: int | None = None
    status: str
    incomplete_details: IncompleteDetails | None = None
    model: str
    previous_response_id: str | None = None
    instructions: str | None = None
    output: tuple[Item, ...] = ()
    error: ResponseError | None = None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | dict[str, Any] = "auto"
    truncation: str = "disabled"
    parallel_tool_calls: bool = True
    text: TextOptions
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int = 0
    temperature: float = 1.0
    reasoning: ReasoningOptions | None = None
    usage: Usage | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    store: bool = True
    background: bool = False
    service_tier: str = "default"
    metadata: dict[str, str] = {}
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    user: str | None = None


decode_resource = msgspec.json.Decoder(ResponseResource).decode


def new_resource(request: CreateResponse, *, id: str, created_at: int, status: str) -> ResponseResource:  # noqa: A002 - its name
    """The response to a request, before anything was said."""
    return ResponseResource(
        id=id,
        created_at=created_at,
        status=status,
        model=request.model,
        previous_response_id=request.previous_response_id,
        instructions=request.instructions,
        tools=tuple(_echoed_tool(tool) for tool in request.tools if not isinstance(tool, HostedTool)),
        tool_choice=_echoed_choice(request.tool_choice),
        truncation=request.truncation,
        parallel_tool_calls=request.parallel_tool_calls,
        text=request.text,
        top_p=_or(request.top_p, 1.0),
        presence_penalty=_or(request.presence_penalty, 0.0),
        frequency_penalty=_or(request.frequency_penalty, 0.0),
        top_logprobs=request.top_logprobs or 0,
        temperature=_or(request.temperature, 1.0),
        reasoning=request.reasoning,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        store=request.store,
        background=request.background,
        service_tier=request.service_tier,
        metadata=request.metadata,
        safety_identifier=request.safety_identifier,
        prompt_cache_key=request.prompt_cache_key,
        user=request.user,
    )


def ended_resource(resource: ResponseResource, ended: Ended, *, output: tuple[Item, ...], now: int) -> ResponseResource:
    """The response as it stays."""
    reason = ended.reason or "interrupted"
    return msgspec.structs.replace(
        resource,
        status=ended.status,
        completed_at=now,
        output=output,
        usage=ended.usage,
        incomplete_details=IncompleteDetails(reason=reason) if ended.status == "incomplete" else None,
        error=None if ended.error is None else ResponseError(code=ended.error.code, message=ended.error.message),
    )


def _or(given: float | None, default: float) -> float:
    return default if given is None else given


def _echoed_tool(tool: RequestTool) -> dict[str, Any]:
    """A tool as it is shown; of a server nothing that opens it."""
    if isinstance(tool, ExtensionTool):
        return {"type": tool.type}
    shown: dict[str, Any] = msgspec.to_builtins(tool)
    if isinstance(tool, McpTool):
        shown.pop("headers")
        shown.pop("authorization")
    return shown


def _echoed_choice(choice: ToolChoice) -> str | dict[str, Any]:
    if isinstance(choice, AllowedTools):
        return {"type": "allowed_tools", "mode": choice.mode, "tools": [_echoed_chosen(tool) for tool in choice.tools]}
    return _echoed_chosen(choice) if isinstance(choice, ChosenTool) else choice


def _echoed_chosen(tool: ChosenTool) -> dict[str, Any]:
    return {key: value for key, value in msgspec.structs.asdict(tool).items() if value is not None}
