"""What came of a call, in words for a model. Pure. Above: `chat_request.py`, `scripted.py`. Below: the items."""

from collections.abc import Sequence
from typing import Any

from jackfield.model.items import (
    FunctionCallOutput,
    InputFile,
    InputImage,
    Item,
    McpApprovalResponse,
    McpCall,
    Message,
    ToolImage,
)

NO_RESULT = "This call has no result: it was not run, or its result was not kept."
NOT_APPROVED_YET = "This call has not run: it waits for a person's approval."


def output_text(item: FunctionCallOutput) -> str:
    """The words of what a client's function gave back."""
    if isinstance(item.output, str):
        return item.output
    return "\n".join(part.text for part in item.output if not isinstance(part, InputImage | InputFile))


def output_media(item: FunctionCallOutput) -> tuple[InputImage | InputFile, ...]:
    """Its images and files."""
    if isinstance(item.output, str):
        return ()
    return tuple(part for part in item.output if isinstance(part, InputImage | InputFile))


def has_tool_images(items: Sequence[Item]) -> bool:
    """Whether any result in a conversation has images or files, wherever it is told."""
    return any(
        output_media(item)
        if isinstance(item, FunctionCallOutput)
        else isinstance(item, Message) and any(isinstance(part, ToolImage) for part in item.content)
        for item in items
    )


def mcp_text(item: McpCall) -> str:
    if item.output or item.error is None:
        return NO_RESULT if item.output is None else item.output
    words = getattr(item.error, "message", None)
    return f"Error: {words if words is not None else _block_text(getattr(item.error, 'content', ''))}"


def rejection_text(answer: McpApprovalResponse) -> str:
    return "A person did not allow this call." + (f" Reason: {answer.reason}" if answer.reason else "")


def _block_text(content: Any) -> str:
    """The words of MCP content blocks, or of whatever else a tool said when it failed."""
    if isinstance(content, list | tuple):
        return "\n".join(_block_text(block) for block in content)
    return str(content.get("text", content)) if isinstance(content, dict) else str(content)
