"""What `resources/read`, `prompts/get` and `completion/complete` come to. Pure.

Contents and messages are passed on as the server gave them, without what speaks about the connection alone.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.model.call import Done, Failed, on_one_line
from jackfield.model.content import without_connection
from jackfield.model.redaction import cut
from jackfield.model.tool import CallKind
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.jsonrpc import RpcError
from jackfield.protocol.jsonrpc import encode as encode_json
from jackfield.sources.base import CompletionRequest
from jackfield.sources.mcp.transport import McpClientError

MAX_VALUES = 100
MAX_COMPLETION = 256 * 1024
_MAX_FAULT = 500


class _Read(Struct):
    contents: Raw
    ttl_ms: Any = msgspec.field(default=UNSET, name="ttlMs")
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class _Got(Struct):
    messages: Raw
    description: str | UnsetType | None = UNSET
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class _Completion(Struct):
    values: list[str]
    total: int | UnsetType | None = UNSET
    has_more: bool | UnsetType | None = msgspec.field(default=UNSET, name="hasMore")


class _Completed(Struct):
    completion: _Completion
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


_decode_read = msgspec.json.Decoder(_Read).decode
_decode_got = msgspec.json.Decoder(_Got).decode
_decode_completed = msgspec.json.Decoder(_Completed).decode


def contents_of(answer: Raw) -> Done | Failed:
    """The outcome of a read: `{"contents": […]}`."""
    try:
        msgspec.json.decode(answer)  # into Python values once, because only that validates every string and number
        read = _decode_read(answer)
    except UNREADABLE as fault:
        return _unusable(fault)
    members = [b'"contents":%b' % bytes(on_one_line(read.contents))]
    if isinstance(read.ttl_ms, int) and not isinstance(read.ttl_ms, bool):
        members.append(b'"ttlMs":%d' % max(0, read.ttl_ms))
    return _done(members, read.meta, read.contents)


def messages_of(answer: Raw) -> Done | Failed:
    """The outcome of a get: `{"messages": […], "description"?}`."""
    try:
        msgspec.json.decode(answer)
        got = _decode_got(answer)
    except UNREADABLE as fault:
        return _unusable(fault)
    members = [b'"messages":%b' % bytes(on_one_line(got.messages))]
    if isinstance(got.description, str):
        members.insert(0, b'"description":%b' % encode_json(got.description))
    return _done(members, got.meta, got.messages)


def failed_read(error: RpcError) -> Failed:
    """A server's error, kept whole: MCP clients get it as the server put it."""
    whole = {"code": error.number, "message": error.message}
    if error.data is not UNSET:
        whole["data"] = error.data
    return Failed("mcp_error", error.message, Raw(encode_json({"error": whole})))


def completion_params(request: CompletionRequest) -> dict[str, Any]:
    ref = (
        {"type": "ref/prompt", "name": request.name}
        if request.operation is CallKind.PROMPT
        else {"type": "ref/resource", "uri": request.name}
    )
    params: dict[str, Any] = {"ref": ref, "argument": request.argument}
    return params if request.context is None else {**params, "context": request.context}


def completion_of(answer: Raw) -> Raw:
    """`{"completion": {…}}`, with no more values than MCP allows. Raises `McpClientError`."""
    if (size := memoryview(answer).nbytes) > MAX_COMPLETION:
        raise McpClientError(f"The server's completion has {size:,} bytes; {MAX_COMPLETION:,} are allowed.")
    try:
        completed = _decode_completed(answer)
    except UNREADABLE as fault:
        raise McpClientError(f"The server's completion is not valid MCP: {cut(str(fault), _MAX_FAULT)}.") from None
    found = completed.completion
    if len(found.values) > MAX_VALUES:
        found = _Completion(values=found.values[:MAX_VALUES], total=found.total, has_more=True)
    meta = None if completed.meta is None else without_connection(completed.meta)
    return Raw(encode_json({"completion": found} if meta is None else {"completion": found, "_meta": meta}))


def _done(members: list[bytes], meta: dict[str, Any] | None, listed: Raw) -> Done | Failed:
    if not bytes(listed).lstrip().startswith(b"["):
        return Failed("bad_response", "The server's answer is not valid MCP: what it has is no list.")
    if meta and (own := without_connection(meta)) is not None:
        members.append(b'"_meta":%b' % bytes(own))
    return Done(Raw(b"{%b}" % b",".join(members)))


def _unusable(fault: Exception) -> Failed:
    return Failed("bad_response", f"The server's answer is not valid MCP: {cut(str(fault), _MAX_FAULT)}.")
