"""The result of `tools/call`: content, structured content, and whether it is an error.

Above: `server.py` and `tools_call.py`. Below: `model/content.py` and `calls/records.py`. Pure. Results stay bytes.
"""

from typing import Any

import msgspec
from msgspec import Raw

from jackfield import __version__
from jackfield.calls.records import ExecuteAnswer, execute_answer
from jackfield.catalog.merge import Entry
from jackfield.errors import Refused
from jackfield.http.response import encode
from jackfield.model.call import Call, Delivery
from jackfield.model.content import SERVER_INFO, Content, expand, without_connection, wrapping_of
from jackfield.model.tool import Tool, ToolKind
from jackfield.protocol.large_results import may_be_notice
from jackfield.protocol.mcp import MODERN, WITH_STRUCTURED_CONTENT, WITHOUT_AUDIO, WITHOUT_LINKS

SERVER = {"name": "jackfield", "version": __version__}
CALL_ID_KEY = "jackfield/callId"
"""In `_meta`: the call's id."""
CODE_KEY = "jackfield/code"
"""In `_meta`: why a call was refused, as the HTTP API names it."""

_STAMP = encode({SERVER_INFO: SERVER})[1:-1]
_COMPLETE = b'"resultType":"complete",'


def call_result(call: Call, entry: Entry, *, revision: str, url: str) -> bytes:
    """The result of a call. `url` is the gateway's, for the link to a pending call."""
    answer = execute_answer(call)
    tool = entry.tool
    if not answer.status.is_final:
        assert answer.result is not None
        follow = (
            f"The call goes on without you. Do not repeat it. Its record, with the result once there is one: "
            f"GET {url}/api/v1/calls/{call.id} with the same key."
        )
        return waiting_result(answer.result, follow, call.id, tool, revision=revision)
    return _outcome(answer, tool, revision=revision)


def waiting_result(told: Raw, follow: str, call_id: str, tool: Tool, *, revision: str) -> bytes:
    """The result of a call that is left pending: the contract's object, and what to do about it."""
    promised = promises_output(tool, modern=revision == MODERN)
    object_text, follow_text = encode(bytes(told).decode()), encode(follow)
    blocks = b'[{"type":"text","text":%b},{"type":"text","text":%b}]' % (object_text, follow_text)
    content = Content(blocks=Raw(blocks), structured=told)
    return _encoded(content, revision=revision, call_id=call_id, is_error=promised, is_structured=not promised)


def outcome_result(call: Call, tool: Tool, *, revision: str) -> bytes:
    """The result of a call that is over, wherever its outcome was to go."""
    return _outcome(execute_answer(msgspec.structs.replace(call, delivery=Delivery.INLINE)), tool, revision=revision)


def _outcome(answer: ExecuteAnswer, tool: Tool, *, revision: str) -> bytes:
    promised = promises_output(tool, modern=revision == MODERN)
    wrapping = wrapping_of(tool.output_schema) if tool.kind is ToolKind.MCP else None
    call_id = answer.call_id
    if answer.error is None:
        assert answer.result is not None
        # What stands in for a large result does not fit the schema that the tool promises to keep.
        apart = promised and may_be_notice(answer.result, call_id)
        content = expand(answer.result, wrapping=wrapping)
        return _encoded(content, revision=revision, call_id=call_id, is_error=apart, is_structured=not apart)
    result = answer.result
    content = _text(answer.error.message) if result is None else expand(result, wrapping=wrapping)
    is_structured = tool.output_schema is None
    return _encoded(content, revision=revision, call_id=call_id, is_error=True, is_structured=is_structured)


def promises_output(tool: Tool, *, modern: bool) -> bool:
    """Whether the output schema is listed.

    A client takes it as a promise about every result that is no error. A call that can be left pending cannot keep it,
    and before 2026-07-28 only objects may be promised.
    """
    if tool.output_schema is None or tool.answered_by_others or tool.metadata.requires_approval:
        return False
    return modern or tool.output_schema.get("type") == "object"


def refusal_result(refusal: Refused, *, revision: str) -> bytes:
    """Why the call was not made, for the model to act on."""
    return _encoded(_text(refusal.message), revision=revision, is_error=True, code=refusal.code)


def error_result(message: str, *, revision: str) -> bytes:
    return _encoded(_text(message), revision=revision, is_error=True)


def found_result(tools: bytes, *, revision: str) -> bytes:
    """What `search_tools` found; `tools` is a JSON array of definitions."""
    return _encoded(expand(Raw(b'{"tools":%b}' % tools)), revision=revision)


def object_result(told: Raw, *, revision: str) -> bytes:
    """The result of one of the gateway's own tools."""
    return _encoded(expand(told), revision=revision)


def stamped(members: bytes, *, revision: str, meta: dict[str, Any] | None = None, kind: str = "complete") -> bytes:
    """A result of these members, with what 2026-07-28 wants in every one."""
    if revision != MODERN:
        return b"{%b}" % members
    stamp = _STAMP if meta is None else b"%b,%b" % (_STAMP, encode(meta)[1:-1])
    separator = b"," if members else b""
    return b'{"resultType":"%b","_meta":{%b}%b%b}' % (kind.encode(), stamp, separator, members)


def caching(fresh_ms: int) -> bytes:
    """How long a client of 2026-07-28 may keep a result, as members of it."""
    return b'"ttlMs":%d,"cacheScope":"private"' % fresh_ms


def _text(message: str) -> Content:
    return expand(Raw(encode(message)))


def _encoded(
    content: Content,
    *,
    revision: str,
    call_id: str | None = None,
    is_error: bool = False,
    is_structured: bool = True,
    code: str | None = None,
) -> bytes:
    blocks = _readable(content.blocks, revision) if revision in WITHOUT_LINKS else content.blocks
    parts = [b"{", _COMPLETE if revision == MODERN else b"", b'"content":', blocks]
    if is_structured and content.structured is not None and _takes(content, revision):
        parts += [b',"structuredContent":', content.structured]
    if is_error:
        parts.append(b',"isError":true')
    members = [_STAMP] if revision == MODERN else []
    if call_id is not None:
        members.append(b'"%b":"%b"' % (CALL_ID_KEY.encode(), call_id.encode()))
    if code is not None:
        members.append(b'"%b":"%b"' % (CODE_KEY.encode(), code.encode()))
    if content.meta is not None and (own := without_connection(msgspec.json.decode(content.meta))) is not None:
        members.append(bytes(own)[1:-1])
    if members:
        parts += [b',"_meta":{', b",".join(members), b"}"]
    parts.append(b"}")
    return b"".join(parts)


def _readable(blocks: Raw, revision: str) -> bytes | Raw:
    """The blocks, with a text in place of those that the client's revision does not know."""
    if not any(kind in bytes(blocks) for kind in (b'"resource_link"', b'"audio"')):
        return blocks
    return encode([_known(block, revision) for block in msgspec.json.decode(blocks)])


def _known(block: dict[str, Any], revision: str) -> dict[str, Any]:
    if block.get("type") == "resource_link":
        words = [str(block.get(key)) for key in ("title", "name", "description") if block.get(key)]
        return {"type": "text", "text": f"{': '.join(dict.fromkeys(words))} ({block.get('uri')})"}
    if block.get("type") == "audio" and revision in WITHOUT_AUDIO:
        return {"type": "text", "text": f"[audio, {block.get('mimeType')}: this client's revision of MCP has none]"}
    return block


def _takes(content: Content, revision: str) -> bool:
    return revision == MODERN or (revision in WITH_STRUCTURED_CONTENT and content.has_object)
