"""Resources as input of a request: an `input_file` whose `file_url`, or an `input_image` whose `image_url`, is a URI
that the key may read.

Above: `engine.py`. Below: the pipeline, by which each is read once and recorded. The response is stored with what they
held, so that a conversation continues with what its model was told, whatever became of them since.
"""

import asyncio
import mimetypes
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest
from jackfield.catalog.catalog import Catalog
from jackfield.errors import BadRequest, Refused, ResourceNotFound
from jackfield.model.call import Call
from jackfield.model.ids import new_id
from jackfield.model.items import (
    CustomToolCallOutput,
    Detail,
    FunctionCallOutput,
    InputFile,
    InputImage,
    InputText,
    Item,
    Message,
    OutputPart,
    Part,
)
from jackfield.model.principal import Principal, Scope
from jackfield.model.tool import CallKind
from jackfield.runs.outputs import IMAGE_TYPES, LONGEST_TEXT, contents_of

MOST_RESOURCES = 20
"""Resources that one request may name."""
LARGEST = 20_000_000
"""Characters of one content, text or base64."""
_WEB = ("http:", "https:")
_Output = FunctionCallOutput | CustomToolCallOutput
_Contents = list[dict[str, Any]]


class ResourceInputs:
    """Puts what resources hold in the place of their URIs."""

    def __init__(self, catalog: Catalog, pipeline: Pipeline) -> None:
        self._catalog = catalog
        self._pipeline = pipeline

    def named_in(self, items: Iterable[Item], principal: Principal) -> list[str]:
        """The URIs of resources that these items name, each once. Raises `BadRequest` for too many."""
        found = dict.fromkeys(uri for part in _parts(items) if (uri := self._uri(part, principal)) is not None)
        if len(found) > MOST_RESOURCES:
            raise BadRequest(
                f"'input' names {len(found)} resources; {MOST_RESOURCES} are allowed. Name fewer.", param="input"
            )
        return list(found)

    async def put_into(
        self, items: tuple[Item, ...], uris: Iterable[str], *, principal: Principal, run_id: str
    ) -> tuple[Item, ...]:
        """The items with what these resources hold. Raises what a read is refused with."""
        async with asyncio.TaskGroup() as group:
            reads = {uri: group.create_task(self._read(uri, principal, run_id)) for uri in uris}
        held: dict[str, _Contents] = {}
        for uri, task in reads.items():
            read = task.result()
            if isinstance(read, Refused):
                raise read
            held[uri] = read
        return tuple(_filled(item, held) for item in items)

    def _uri(self, part: Part, principal: Principal) -> str | None:
        """The resource that a part names. A web address is one only if a source lists it."""
        uri = _named(part)
        if uri is None or not uri.startswith(_WEB):
            return uri
        view = self._catalog.resources(principal)
        if uri not in view.snapshot.by_uri:
            return None
        try:
            view.find(uri)
        except Refused:
            return None
        return uri

    async def _read(self, uri: str, principal: Principal, run_id: str) -> _Contents | Refused:
        call_id = new_id("call")
        try:
            entry = self._catalog.resources(principal).find(uri)
            request = CallRequest(
                tool=entry.name,
                arguments={"uri": uri},
                principal=principal,
                run_id=run_id,
                begins_run=True,
                entry=entry,
                needs=Scope.READ,
            )
            call = await self._pipeline.call(request, call_id=call_id)
            return await self._contents(call, uri)
        except Refused as refusal:
            asked = CallRequest(
                tool=uri,
                arguments={"uri": uri},
                principal=principal,
                run_id=run_id,
                begins_run=True,
                kind=CallKind.RESOURCE,
            )
            await self._pipeline.refused(asked, refusal)
            return BadRequest(refusal.message, param="input") if isinstance(refusal, ResourceNotFound) else refusal
        except asyncio.CancelledError:
            with suppress(Refused):
                await asyncio.shield(self._pipeline.cancel(call_id, principal=principal))
            raise

    async def _contents(self, call: Call, uri: str) -> _Contents:
        if call.error is not None or call.result is None:
            why = f"it is {call.status.value}" if call.error is None else call.error.message.rstrip(".")
            fault = BadRequest(f"The resource '{uri}' could not be read: {why}.", param="input")
            fault.on_record = True
            raise fault
        contents = contents_of(call, msgspec.json.decode(await self._pipeline.whole_result(call) or b"{}"))
        if any(len(str(one.get(key, ""))) > LARGEST for one in contents for key in ("text", "blob")):
            raise BadRequest(f"The resource '{uri}' is larger than the {LARGEST:,} bytes allowed.", param="input")
        return contents


def _parts(items: Iterable[Item]) -> Iterator[Part]:
    for item in items:
        if isinstance(item, Message) and item.role == "user":
            yield from item.content
        elif isinstance(item, _Output) and isinstance(item.output, tuple):
            yield from item.output


def _named(part: Part) -> str | None:
    match part:
        case InputFile(file_url=str(url)) if part.file_data is UNSET and part.file_id is UNSET:
            return url
        case InputImage(image_url=str(url)) if not url.startswith(("data:", *_WEB)) and ":" in url:
            return url
    return None


def _filled(item: Item, held: dict[str, _Contents]) -> Item:
    if isinstance(item, Message) and item.role == "user":
        parts = tuple(made for part in item.content for made in _held_by(part, held))
        return item if parts == item.content else msgspec.structs.replace(item, content=parts)
    if isinstance(item, _Output) and isinstance(item.output, tuple):
        output = tuple(made for part in item.output for made in _held_by(part, held))
        return item if output == item.output else msgspec.structs.replace(item, output=output)
    return item


def _held_by(part: Any, held: dict[str, _Contents]) -> Iterator[Any]:
    """What a part stands for; itself where it names no resource."""
    uri = _named(part)
    if uri is None or uri not in held:
        yield part
        return
    contents = held[uri]
    if not contents:
        yield InputText(text=f"[resource {uri}: it is empty]")
    detail: Detail = part.detail if isinstance(part, InputImage) else "auto"
    name = part.filename if isinstance(part, InputFile) and part.filename is not UNSET else None
    yield from map(partial(_made, detail=detail, name=name), contents)


def _made(content: dict[str, Any], *, detail: Detail, name: str | None) -> OutputPart:
    uri, kind = str(content.get("uri")), str(content.get("mimeType") or "application/octet-stream")
    blob = content.get("blob")
    if not isinstance(blob, str):
        text = str(content.get("text", ""))
        cut = f"{text[:LONGEST_TEXT]}…" if len(text) > LONGEST_TEXT else text
        return InputText(text=f"[resource {uri}]\n{cut}")
    data = f"data:{kind};base64,{blob}"
    if kind in IMAGE_TYPES:
        return InputImage(image_url=data, detail=detail)
    return InputFile(filename=name or _file_name(uri, kind), file_data=data)


def _file_name(uri: str, kind: str) -> str:
    name = uri.rstrip("/").rpartition("/")[2][:100] or "resource"
    return name if "." in name else f"{name}{mimetypes.guess_extension(kind) or ''}"
