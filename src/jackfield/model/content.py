"""A result that is more than plain JSON: MCP's content, apart from any revision of its wire.

A call has one JSON value as its result (`call.py`). Most MCP answers are one: a text is a string, a structured answer
is its JSON. What JSON alone cannot say (images, audio, resources, several blocks, `_meta`) stays in the *content form*:

    {"content": [blocks as MCP spells them], "structuredContent": any JSON, "_meta": {…}}

with the last two left out where there are none. Any tool, of any source, may return this form to give an image.
A structured `{"result": x}` beside the text of x, or of its items, which Python's servers make of what is no object, is
that object alone; the tool's output schema tells how to say it again (`Wrapping`). Many servers indent the text beside
a structured answer: spaces before the result, which mean nothing in JSON, tell by how much, so that an MCP client gets
the text as the server wrote it.
`collapse` makes the result of an MCP answer, `expand` the MCP answer of a result. Pure.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
OF_THE_CONNECTION = frozenset(
    {SERVER_INFO, "io.modelcontextprotocol/subscriptionId", "io.modelcontextprotocol/related-task"}
)
"""Keys of `_meta` that speak about one connection to one server, and mean nothing behind a gateway."""

_encode = msgspec.json.Encoder().encode
_encode_canonically = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.decode


class Content(Struct, frozen=True, kw_only=True):
    """An MCP answer in no revision's spelling but all of theirs."""

    blocks: Raw
    """A JSON array of content blocks."""
    structured: Raw | None = None
    """Any JSON value but null, which means none. Revisions before 2026-07-28 take only an object here (`has_object`):
    leave others out for them; the blocks say them too."""
    meta: Raw | None = None
    """A JSON object."""

    @property
    def has_object(self) -> bool:
        """Whether the structured part is one that every revision with such a part takes."""
        return self.structured is not None and _first(self.structured) == b"{"


class TextBlock(Struct, tag="text"):
    text: str


class ImageBlock(Struct, tag="image"):
    data: str
    mime_type: str = msgspec.field(name="mimeType")


class AudioBlock(Struct, tag="audio"):
    data: str
    mime_type: str = msgspec.field(name="mimeType")


class LinkBlock(Struct, tag="resource_link"):
    uri: str
    name: str


class Resource(Struct):
    uri: str
    text: str | None = None
    blob: str | None = None


class ResourceBlock(Struct, tag="resource"):
    resource: Resource


Block = TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock
"""What a block must have to be one. It may have more: annotations, `_meta`, what a later revision adds."""


class _Form(Struct, forbid_unknown_fields=True):
    """The content form, in parts."""

    content: Raw
    structured: Raw | UnsetType = msgspec.field(default=UNSET, name="structuredContent")
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


class _PlainText(Struct, tag="text", tag_field="type", forbid_unknown_fields=True):
    """A text block that says nothing but its text."""

    text: str


class _Wrapped(Struct, forbid_unknown_fields=True):
    """What Python's servers make of a result that is no object."""

    result: Raw


class Wrapping(Enum):
    """The text that stands beside a wrapped result."""

    WHOLE = "whole"
    """One text (FastMCP)."""
    ITEMS = "items"
    """A text for each item of a list (MCP's own Python SDK)."""


MIN_INDENT, MAX_INDENT = 2, 8
_LONGEST_HEAD = 40
_decode_wrapped = msgspec.json.Decoder(_Wrapped).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_form = msgspec.json.Decoder(_Form).decode
_decode_blocks = msgspec.json.Decoder(list[Block]).decode
_decode_plain = msgspec.json.Decoder(list[_PlainText]).decode


def collapse(content: Content) -> Raw:
    """The result of a call that was answered with `content`: plain JSON where that says it all."""
    if content.meta is None:
        texts = _plain_texts(content.blocks)
        if content.structured is None:
            if texts is not None and len(texts) == 1:
                return Raw(_encode(texts[0]))
        elif texts is not None and _is_plain(content.structured):
            said = _said_by(texts, content.structured)
            if said is not None:
                return said
    return content_form(content)


def content_form(content: Content) -> Raw:
    """`content` as one JSON object with nothing left out."""
    parts = [b'{"content":', content.blocks]
    if content.structured is not None:
        parts += [b',"structuredContent":', content.structured]
    if content.meta is not None:
        parts += [b',"_meta":', content.meta]
    return Raw(b"".join([*parts, b"}"]))


def expand(result: Raw, *, wrapping: Wrapping | None = None) -> Content:
    """The MCP answer for a result: the content form as it is, a string as text, other JSON structured and as text.

    `wrapping` is how the tool's own server says what it wrapped, if it is one that does.
    """
    first = _first(result)
    if first == b'"':
        return Content(blocks=_one_text(result))
    if first == b"{" and (form := _form(result)) is not None:
        return form
    if wrapping is not None and (inner := _wrapped(result)) is not None:
        return Content(blocks=Raw(_encode(_blocks_beside(inner, wrapping))), structured=result)
    value = bytes(result).strip()
    indent = len(bytes(result)) - len(bytes(result).lstrip(b" "))
    text = msgspec.json.format(value, indent=indent) if MIN_INDENT <= indent <= MAX_INDENT else value
    return Content(blocks=_one_text(Raw(_encode(text.decode()))), structured=None if first == b"n" else Raw(value))


def wrapping_of(output_schema: Mapping[str, Any] | None) -> Wrapping | None:
    """How the server of an MCP tool with this output schema wraps results; None: it does not."""
    if output_schema is None:
        return None
    properties = output_schema.get("properties")
    if not isinstance(properties, Mapping) or properties.keys() != {"result"}:
        return None
    if output_schema.get("x-fastmcp-wrap-result") is True:
        return Wrapping.WHOLE
    inner = properties["result"]
    is_derived = isinstance(inner, Mapping) and inner.get("title") == "Result"
    return Wrapping.ITEMS if is_derived and str(output_schema.get("title")).endswith("Output") else None


def structured_part(result: Raw) -> Raw:
    """What an output schema speaks about: the structured part of the content form, else the result itself."""
    form = _form(result) if _first(result) == b"{" else None
    return result if form is None or form.structured is None else form.structured


def text_of(content: Content) -> str:
    """The texts of all blocks, one below the other, for a sentence about an error."""
    try:
        blocks = _decode_blocks(content.blocks)
    except msgspec.DecodeError:
        return ""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def without_connection(meta: dict[str, Any]) -> Raw | None:
    """A server's `_meta` as it may be passed on; None when nothing is left."""
    kept = {key: value for key, value in meta.items() if key not in OF_THE_CONNECTION}
    return Raw(_encode(kept)) if kept else None


def _form(result: Raw) -> Content | None:
    """The parts of a result in the content form; None where it is any other JSON."""
    try:
        form = _decode_form(result)
        _decode_blocks(form.content)
    except msgspec.DecodeError:
        return None
    structured = None if form.structured is UNSET or _first(form.structured) == b"n" else form.structured
    meta = None if form.meta is UNSET or _first(form.meta) == b"n" else form.meta
    if meta is not None and _first(meta) != b"{":
        return None
    return Content(blocks=form.content, structured=structured, meta=meta)


def _is_plain(structured: Raw) -> bool:
    """Whether this JSON, as a result, would be taken for a structured answer: not for a text, nor for the form."""
    return _first(structured) != b'"' and _form(structured) is None


def _plain_texts(blocks: Raw) -> list[str] | None:
    """The texts, if blocks are nothing but texts."""
    try:
        return [block.text for block in _decode_plain(blocks)]
    except msgspec.DecodeError:
        return None


def _said_by(texts: list[str], structured: Raw) -> Raw | None:
    """The structured part as a result, if the texts add nothing to it: there is none, or it is that JSON as text."""
    if not texts:
        return structured
    if len(texts) == 1 and (said := _spelled(texts[0], structured)) is not None:
        return said
    if (inner := _wrapped(structured)) is None:
        return None
    if len(texts) == 1 and _is_text_of(texts[0], inner):
        return structured
    items = _items(inner)
    return structured if len(items) == len(texts) and all(map(_is_text_of, texts, items)) else None


def _spelled(text: str, structured: Raw) -> Raw | None:
    """The structured part, spelled so that `expand` makes the same text of it; None if the text says something else.

    Text in an unusual spelling is encoded again.
    """
    data, value = text.encode("utf-8", "surrogatepass"), bytes(structured)
    if data == value:
        return structured
    try:
        compact = msgspec.json.format(data, indent=-1)
    except msgspec.DecodeError:
        return None
    if compact != value and not _is_text_of(text, structured):
        return None
    lines = data.split(b"\n", 2)
    if len(lines) == 1:
        return structured if b"\r" in data or data[:1].isspace() or data[-1:].isspace() else Raw(data)
    indent = len(lines[1]) - len(lines[1].lstrip(b" "))
    if not MIN_INDENT <= indent <= MAX_INDENT or msgspec.json.format(compact, indent=indent) != data:
        return structured
    return Raw(b" " * indent + compact)


def _is_text_of(text: str, value: Raw) -> bool:
    """Whether this is the value: a string itself, other JSON however it is spelled."""
    if _first(value) == b'"':
        return bool(text == _decode(value))
    if text.encode("utf-8", "surrogatepass") == bytes(value):
        return True
    try:
        return _encode_canonically(_decode(text)) == _encode_canonically(_decode(value))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _wrapped(structured: Raw) -> Raw | None:
    """What stands in `{"result": …}`; None where this is any other JSON."""
    if b'"result"' not in bytes(memoryview(structured)[:_LONGEST_HEAD]):
        return None
    try:
        return _decode_wrapped(structured).result
    except msgspec.DecodeError:
        return None


def _items(value: Raw) -> list[Raw]:
    """The items of a list, and of lists in it; null is none, another value itself."""
    found: list[Raw] = []
    ahead = [value]
    while ahead:
        one = ahead.pop()
        kind = _first(one)
        if kind == b"[":
            ahead += reversed(_decode_list(one))
        elif kind != b"n":
            found.append(one)
    return found


def _blocks_beside(value: Raw, wrapping: Wrapping) -> list[dict[str, str]]:
    if wrapping is Wrapping.ITEMS:
        texts = [_as_text(item, indent=2) for item in _items(value)]
    else:
        texts = [] if _first(value) == b"n" else [_as_text(value, indent=-1)]
    return [{"type": "text", "text": text} for text in texts]


def _as_text(value: Raw, *, indent: int) -> str:
    if _first(value) == b'"':
        return str(_decode(value))
    return msgspec.json.format(bytes(value), indent=indent).decode()


def _first(json: Raw) -> bytes:
    """The first byte of a JSON value, which tells its type. Looked at in place: a result can be megabytes."""
    view = memoryview(json)
    start = 0
    while view[start] in b" \t\r\n":
        start += 1
    return bytes(view[start : start + 1])


def _one_text(text: Raw) -> Raw:
    return Raw(b'[{"type":"text","text":' + bytes(text) + b"}]")
