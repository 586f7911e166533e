"""The outcome of a call, from a server's result of `tools/call`. Pure."""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.model.call import Done, Failed, on_one_line
from jackfield.model.content import Content, collapse, text_of, without_connection
from jackfield.model.redaction import cut
from jackfield.protocol.json_bodies import UNREADABLE

_MAX_FAULT = 500


class _CallResult(Struct):
    content: Raw | UnsetType = UNSET
    structured: Raw | UnsetType = msgspec.field(default=UNSET, name="structuredContent")
    is_error: bool | None = msgspec.field(default=None, name="isError")
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    tool_result: Raw | UnsetType = msgspec.field(default=UNSET, name="toolResult")
    """What servers before 2024-11-05 gave instead of content."""


_decode_result = msgspec.json.Decoder(_CallResult).decode


def outcome_of(answer: Raw) -> Done | Failed:
    """The outcome of a call with this raw result of `tools/call`."""
    try:
        # Into Python values once, because only that validates every string and number.
        msgspec.json.decode(answer)
        parts = _decode_result(answer)
    except UNREADABLE as fault:
        return Failed("bad_response", f"The server's response is not valid MCP: {cut(str(fault), _MAX_FAULT)}.")
    if parts.content is UNSET and parts.structured is UNSET and parts.tool_result is not UNSET:
        return Done(on_one_line(parts.tool_result))
    structured = None if parts.structured is UNSET or bytes(parts.structured) == b"null" else parts.structured
    content = Content(
        blocks=Raw(b"[]") if parts.content is UNSET else on_one_line(parts.content),
        structured=None if structured is None else on_one_line(structured),
        meta=without_connection(parts.meta) if parts.meta else None,
    )
    if not bytes(content.blocks).startswith(b"["):
        return Failed("bad_response", "The server's response is not valid MCP: its content is not a list.")
    result = collapse(content)
    if parts.is_error:
        return Failed("tool_error", text_of(content) or "The tool failed without saying why.", result)
    return Done(result)
