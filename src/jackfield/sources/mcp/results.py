"""What a server's answer to `tools/call` means for the call. Pure.

Above: `source.py`. Below: `model/content.py`, which says how content becomes a result.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.model.call import Done, Failed
from jackfield.model.content import Content, collapse, text_of, without_connection
from jackfield.model.redaction import cut
from jackfield.sources.mcp.transport import McpClientError

_ANSWER_LIMIT = 500


class _Answer(Struct):
    content: Raw | UnsetType = UNSET
    structured: Raw | UnsetType = msgspec.field(default=UNSET, name="structuredContent")
    is_error: bool | None = msgspec.field(default=None, name="isError")
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    tool_result: Raw | UnsetType = msgspec.field(default=UNSET, name="toolResult")
    """What servers before 2024-11-05 gave instead of content."""


class InputRequest(Struct):
    """Something a server wants to know before it goes on."""

    method: str
    params: Raw = Raw(b"{}")


class InputRequired(Struct):
    """An answer of 2026-07-28 that is a question."""

    result_type: str = msgspec.field(default="complete", name="resultType")
    requests: dict[str, InputRequest] | None = msgspec.field(default=None, name="inputRequests")
    state: str | None = msgspec.field(default=None, name="requestState")

    @property
    def is_question(self) -> bool:
        return self.result_type == "input_required"


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_question = msgspec.json.Decoder(InputRequired).decode


def question_in(answer: Raw) -> InputRequired | None:
    """The question, if the answer is one. Raises `McpClientError` for what is neither."""
    if b"input_required" not in bytes(answer):
        return None
    try:
        question = _decode_question(answer)
    except msgspec.DecodeError as fault:
        raise McpClientError(f"The server's answer is not MCP's: {fault}.") from None
    return question if question.is_question else None


def outcome_of(answer: Raw) -> Done | Failed:
    """The outcome of a call that was answered so."""
    try:
        # Into Python values once, because only that looks at every string and number.
        msgspec.json.decode(answer)
        parts = _decode_answer(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        return Failed("bad_response", f"The server's answer is not MCP's: {cut(str(fault), _ANSWER_LIMIT)}.")
    if parts.content is UNSET and parts.structured is UNSET and parts.tool_result is not UNSET:
        return Done(_on_one_line(parts.tool_result))
    content = Content(
        blocks=Raw(b"[]") if parts.content is UNSET else _on_one_line(parts.content),
        structured=None if _is_absent(parts.structured) else _on_one_line(parts.structured),
        meta=without_connection(parts.meta or {}),
    )
    if not bytes(content.blocks).startswith(b"["):
        return Failed("bad_response", "The server's answer is not MCP's: its content is no list.")
    result = collapse(content)
    if parts.is_error:
        return Failed("tool_error", text_of(content) or "The tool failed without saying why.", result)
    return Done(result)


def _is_absent(part: Raw | UnsetType) -> bool:
    return part is UNSET or bytes(part) == b"null"


def _on_one_line(json: Raw | UnsetType) -> Raw:
    """Results travel in formats where a line break ends the message."""
    data = bytes(json) if not isinstance(json, UnsetType) else b"null"
    return Raw(msgspec.json.format(data, indent=-1) if b"\n" in data or b"\r" in data else data)
