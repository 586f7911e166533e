"""How the outcome of a call is told: to the model as text, and in an `mcp_call` item. Pure.

Above: the loop. Below: the model's words; `media.py` for what a result says.
"""

import base64
import binascii
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.messages import waiting
from jackfield.calls.rows import whole_result
from jackfield.calls.waiting import slot_of
from jackfield.model.call import Call, Done, Failed, Outcome, Pending
from jackfield.model.content import expand
from jackfield.model.items import InputImage, InputText, McpCallStatus, McpError, McpToolExecutionError, OutputPart
from jackfield.model.text import counted
from jackfield.model.tool import CallKind
from jackfield.protocol.large_results import LargeResult, may_be_notice
from jackfield.store import Store

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What providers take. Any other type would have the whole request refused."""
MOST_IMAGES = 10
"""Images of one result."""
LARGEST_IMAGE = 5_000_000
"""Characters of one image in base64."""
LARGEST_CONTENT = 6_000_000
"""Bytes of a whole result with images; a larger one is told as any large result is."""
LONGEST_TEXT = 1_000_000
"""Characters of the text beside the images."""
NOTHING = "(The tool gave back nothing.)"
_FORMS_BEGIN = ('{"content":', '{"contents":')
"""Of results that may hold images: the content form, and what was read from a resource."""
_decode_notice = msgspec.json.Decoder(LargeResult).decode


class Reading(Struct, frozen=True):
    """What a model is given of a result."""

    text: str
    images: tuple[InputImage, ...] = ()


def read_result(result: Raw) -> Reading:
    """A string as it is, the content form block by block, other JSON as it stands."""
    if bytes(memoryview(result)[:1]) == b'"':
        text: str = msgspec.json.decode(result)
        return Reading(text)
    if b'"content"' not in bytes(result):
        return Reading(bytes(result).decode())
    content = expand(result)
    reader = _Reader()
    if content.structured is not None:
        reader.words.append(bytes(content.structured).decode())
    for block in msgspec.json.decode(content.blocks):
        if content.structured is None or block.get("type") != "text":
            reader.take(block)
    return reader.reading


def _read(call: Call, result: Raw) -> Reading:
    """What the call gave back, by what it used."""
    if call.kind is CallKind.TOOL or may_be_notice(result, call.id):
        return read_result(result)
    given = msgspec.json.decode(result)
    reader = _Reader()
    if call.kind is CallKind.RESOURCE:
        for one in contents_of(call, given):
            reader.take({"type": "resource", "resource": one})
        return reader.reading
    for message in _list(given, "messages"):
        reader.words.append(f"[{message.get('role')}]")
        content = message.get("content")
        for block in content if isinstance(content, list) else [content]:
            reader.take(block if isinstance(block, dict) else {})
    return reader.reading


def contents_of(call: Call, given: Any) -> list[dict[str, Any]]:
    """What a read gave back, by the URI that was asked for."""
    asked = msgspec.json.decode(call.arguments).get("uri", call.tool)
    return [{**one, "uri": asked} if one.get("uri") == call.tool else one for one in _list(given, "contents")]


def _list(given: Any, key: str) -> list[dict[str, Any]]:
    found = given.get(key) if isinstance(given, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


async def with_whole_result(store: Store, call: Call) -> Call:
    """The call with its result as the tool gave it, where it was set aside for its size and may hold images."""
    if not may_be_notice(call.result, call.id):
        return call
    try:
        notice = _decode_notice(call.result or b"")
    except msgspec.DecodeError:
        return call
    if notice.size > LARGEST_CONTENT or not notice.preview.startswith(_FORMS_BEGIN):
        return call
    whole = await whole_result(store, call)
    if whole is None or not _read(call, whole).images:
        return call
    return msgspec.structs.replace(call, result=whole)


class _Reader:
    """Takes MCP's content blocks in their order."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._images: list[InputImage] = []

    @property
    def reading(self) -> Reading:
        text = "\n".join(self.words) or NOTHING
        if len(text) > LONGEST_TEXT:
            text = f"{text[:LONGEST_TEXT]}… ({counted(len(text) - LONGEST_TEXT, 'character')} more)"
        return Reading(text, tuple(self._images))

    def take(self, block: dict[str, Any]) -> None:
        match block:
            case {"type": "text", "text": str(text)}:
                self.words.append(text)
            case {"type": "image", "data": str(data)}:
                self._image(data, str(block.get("mimeType")), name="image")
            case {"type": "audio", "data": str(data)}:
                kind = block.get("mimeType") or "audio"
                self.words.append(f"[{kind}, {_size(data)}, left out: audio is not passed on to models]")
            case {"type": "resource_link", "uri": str(uri)}:
                self.words.append(_link(uri, block))
            case {"type": "resource", "resource": dict(resource)}:
                self._resource(resource)
            case _:
                self.words.append(f"[content of type {str(block.get('type'))[:60]!r} left out]")

    def _resource(self, resource: dict[str, Any]) -> None:
        uri, kind = resource.get("uri"), str(resource.get("mimeType") or "application/octet-stream")
        match resource:
            case {"text": str(text)}:
                self.words.append(f"[resource {uri}]\n{text}")
            case {"blob": str(blob)} if kind.startswith("image/"):
                self._image(blob, kind, name=f"resource {uri}")
            case {"blob": str(blob)}:
                self.words.append(f"[resource {uri}: {kind}, {_size(blob)}, left out: not text and not an image]")
            case _:
                self.words.append(f"[resource {uri}]")

    def _image(self, data: str, kind: str, *, name: str) -> None:
        data = "".join(data.rpartition(",")[2].split()) if "," in data[:100] or "\n" in data else data
        fault = self._fault(data, kind)
        if fault is not None:
            self.words.append(f"[{name}: {kind}, {_size(data)}, left out: {fault}]")
            return
        self._images.append(InputImage(image_url=f"data:{kind};base64,{data}"))
        self.words.append(f"[{name}: {kind}, shown as image {len(self._images)}]")

    def _fault(self, data: str, kind: str) -> str | None:
        """Why a model cannot be given this image."""
        if kind not in IMAGE_TYPES:
            return "not a type that models take"
        if len(data) > LARGEST_IMAGE:
            return "too large"
        if len(self._images) == MOST_IMAGES:
            return f"more than {MOST_IMAGES} images"
        try:
            return None if base64.b64decode(data, validate=True) else "it is empty"
        except (binascii.Error, ValueError):
            return "its data is not base64"


def _link(uri: str, block: dict[str, Any]) -> str:
    name = block.get("title") or block.get("name") or uri
    kind = f" ({block['mimeType']})" if block.get("mimeType") else ""
    about = f": {block['description']}" if block.get("description") else ""
    return f"[link to {name}{kind}: {uri}]{about}"


def _size(data: str) -> str:
    """About how large base64 data is when decoded."""
    size = len(data) * 3 // 4
    return f"{size // 1000} KB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"  # noqa: PLR2004 - a megabyte


class ToolOutput(Struct, frozen=True):
    """What the model reads as the tool's output, and why the call failed if it did."""

    text: str
    error: McpError | None = None
    waits: bool = False
    """Somebody else still has to answer or allow it."""
    parks: bool = False
    """The run waits for that answer, and goes on with it."""
    ends: bool = False
    """The model is not asked again after this."""
    images: tuple[InputImage, ...] = ()
    """What the model sees beside the text."""

    @property
    def output(self) -> str | tuple[OutputPart, ...]:
        """As the output of a call."""
        return (InputText(text=self.text), *self.images) if self.images else self.text

    @property
    def status(self) -> McpCallStatus:
        if self.waits:
            return "incomplete"
        return "completed" if self.error is None else "failed"


def output_of(call: Call, *, login_url: str | None = None) -> ToolOutput:
    """What whoever made the call is told: its slot. `login_url` is where to log in, if it waits for that."""
    slot = slot_of(call)
    return _told(call, call.outcome if slot is None else slot.outcome, login_url)


def latest_output(call: Call, *, login_url: str | None = None) -> ToolOutput:
    """What became of the call since, also if that went another way than to whoever made it."""
    return _told(call, call.outcome) if call.status.is_final else output_of(call, login_url=login_url)


def _told(call: Call, outcome: Outcome, login_url: str | None = None) -> ToolOutput:
    match outcome:
        case Done(result=result):
            reading = _read(call, result)
            return ToolOutput(reading.text, images=reading.images)
        case Failed(code=code, message=message) if call.kind is not CallKind.TOOL:
            return failure_output(Failed(code, message))
        case Failed():
            return failure_output(outcome)
        case Pending(status=status):
            return ToolOutput(bytes(waiting(call, status, login_url=login_url)).decode(), waits=True)


def failure_output(failure: Failed) -> ToolOutput:
    if failure.result is None:
        return ToolOutput(failure.message, error=_error(failure.message))
    reading = read_result(failure.result)
    return ToolOutput(reading.text, error=_error(failure.message), images=reading.images)


def refusal_output(sentence: str) -> ToolOutput:
    """A call that was not made, and why, in words for the model."""
    return ToolOutput(sentence, error=_error(sentence))


def _error(message: str) -> McpToolExecutionError:
    return McpToolExecutionError(content=[{"type": "text", "text": message}])
