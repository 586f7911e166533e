"""Resources, prompts and completion: lists from the catalog, reads and gets through the pipeline, in both eras.

Above: `server.py`. Below: the catalog's views, `tools_call.py` for the call itself, the sources for completion.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.reading import reading_request, server_error, what_was_read
from jackfield.calls.redaction import Redactor
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.errors import (
    DefinitionChanged,
    InvalidArguments,
    LoginNeeded,
    PromptNotFound,
    Refused,
    ResourceNotFound,
)
from jackfield.http.response import encode
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.results import caching, stamped
from jackfield.mcp.sessions import Caller
from jackfield.mcp.tools_call import ToolCalls
from jackfield.model.call import Call, CallStatus
from jackfield.model.tool import CallKind
from jackfield.protocol.jsonrpc import (
    INVALID_PARAMS,
    SERVER_ERROR,
    RpcError,
    RpcRequest,
    object_param,
    text_param,
)
from jackfield.protocol.mcp import APPS, CANCELLED, MODERN, RESOURCE_NOT_FOUND
from jackfield.sources.base import CompletionRequest
from jackfield.sources.source_registry import SourceRegistry

PAGE = 1_000
FRESH_MS = 60_000
"""How long a client of 2026-07-28 may cache a list."""
_AFTER = "after:"
CAPABILITIES: dict[str, Any] = {
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "extensions": {APPS: {}},
}
"""Declared always: a source may bring resources and prompts later."""


class _Read(Struct):
    """What a read came to, as it is on record."""

    contents: Raw
    ttl_ms: int = field(default=0, name="ttlMs")
    meta: dict[str, Any] | None = field(default=None, name="_meta")


class _Got(Struct):
    """What a get came to, as it is on record."""

    messages: Raw
    description: str | None = None
    meta: dict[str, Any] | None = field(default=None, name="_meta")


class _Completed(Struct):
    completion: Raw
    meta: dict[str, Any] | None = field(default=None, name="_meta")


_decode_completed = msgspec.json.Decoder(_Completed).decode
_decode_read = msgspec.json.Decoder(_Read).decode
_decode_got = msgspec.json.Decoder(_Got).decode


class Reading:
    """The methods of resources, prompts and completion."""

    def __init__(
        self, catalog: Catalog, pipeline: Pipeline, sources: SourceRegistry, calls: ToolCalls, *, redactor: Redactor
    ) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._sources = sources
        self._calls = calls
        self._redactor = redactor
        self.methods = {
            "resources/list": self.list_resources,
            "resources/templates/list": self.list_templates,
            "resources/read": self.read_resource,
            "prompts/list": self.list_prompts,
            "prompts/get": self.get_prompt,
            "completion/complete": self.complete,
        }

    async def list_resources(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        found, last = self._catalog.resources(caller.principal).page(after_cursor(request), size=PAGE)
        return list_page(b"resources", [one.json for one in found], last, caller)

    async def list_templates(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        start = _offset(request)
        templates = self._catalog.resources(caller.principal).templates
        last = str(start + PAGE) if start + PAGE < len(templates) else None
        return list_page(b"resourceTemplates", [one.json for one in templates[start : start + PAGE]], last, caller)

    async def list_prompts(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        start = _offset(request)
        entries = self._catalog.prompts(caller.principal).entries
        last = str(start + PAGE) if start + PAGE < len(entries) else None
        return list_page(b"prompts", [listed_prompt(one) for one in entries[start : start + PAGE]], last, caller)

    async def read_resource(self, request: RpcRequest, caller: Caller, exchange: McpExchange) -> bytes:
        uri = text_param(request.params, "uri")
        if (rounds := self._calls.returned(request, caller)) is not None:
            return await rounds.resume(exchange)
        try:
            entry = self._catalog.resources(caller.principal).find(uri)
        except Refused as refusal:
            await self._calls.refused(uri, {"uri": uri}, refusal, caller, kind=CallKind.RESOURCE)
            if not isinstance(refusal, ResourceNotFound):
                raise
            raise not_found(refusal.message, uri, caller) from None
        call = await self._call(entry, {"uri": uri}, request, caller, exchange)
        result = await self._result(call, caller, entry, asked=uri)
        read = _decode_read(result)
        members = b'"contents":%b' % bytes(read.contents)
        if caller.is_modern:
            members += b"," + caching(read.ttl_ms)
        return _result(members, read.meta, caller)

    async def get_prompt(self, request: RpcRequest, caller: Caller, exchange: McpExchange) -> bytes:
        name = text_param(request.params, "name")
        if (rounds := self._calls.returned(request, caller)) is not None:
            return await rounds.resume(exchange)
        arguments = object_param(request.params, "arguments")
        try:
            entry = self._catalog.prompts(caller.principal).get(name)
        except Refused as refusal:
            await self._calls.refused(name, arguments, refusal, caller, kind=CallKind.PROMPT)
            if not isinstance(refusal, PromptNotFound):
                raise
            raise RpcError(INVALID_PARAMS, f"Unknown prompt: {refusal.message}") from None
        call = await self._call(entry, arguments, request, caller, exchange)
        result = await self._result(call, caller, entry)
        got = _decode_got(result)
        described = b"" if got.description is None else b'"description":%b,' % encode(got.description)
        return _result(b'%b"messages":%b' % (described, bytes(got.messages)), got.meta, caller)

    async def complete(self, request: RpcRequest, caller: Caller, _exchange: McpExchange) -> bytes:
        ref, argument = object_param(request.params, "ref"), object_param(request.params, "argument")
        if not isinstance(argument.get("name"), str) or not isinstance(argument.get("value"), str):
            raise RpcError(INVALID_PARAMS, "'params.argument' needs a 'name' and a 'value', both strings. Add them.")
        operation, source, name = self._referred(ref, caller)
        context = object_param(request.params, "context") or None
        wanted = CompletionRequest(
            operation=operation, name=name, argument=argument, context=context, principal=caller.principal.on_record
        )
        try:
            completed = self._redactor.json(await self._sources.complete(source, wanted))
        except LoginNeeded as need:
            raise await self._pipeline.login_linked(need, principal=caller.principal) from None
        found = _decode_completed(completed)
        return _result(b'"completion":%b' % bytes(found.completion), found.meta, caller)

    def _referred(self, ref: dict[str, Any], caller: Caller) -> tuple[CallKind, str, str]:
        """What a completion is for: its kind, source, and name there."""
        kind = ref.get("type")
        if kind == "ref/prompt":
            name = text_param(ref, "name")
            try:
                tool = self._catalog.prompts(caller.principal).get(name).tool
            except PromptNotFound as refusal:
                raise RpcError(INVALID_PARAMS, f"Unknown prompt: {refusal.message}") from None
            return CallKind.PROMPT, tool.source, tool.name
        if kind == "ref/resource":
            uri = text_param(ref, "uri")
            template = self._catalog.resources(caller.principal).template(uri)
            if template is None:
                raise RpcError(
                    INVALID_PARAMS, "'params.ref.uri' is not a listed resource template. See resources/templates/list."
                )
            return CallKind.RESOURCE, template.source, template.own_template
        raise RpcError(INVALID_PARAMS, "'params.ref.type' must be 'ref/prompt' or 'ref/resource'.")

    async def _call(
        self, entry: Entry, arguments: dict[str, Any], request: RpcRequest, caller: Caller, exchange: McpExchange
    ) -> Call:
        wanted = reading_request(entry, arguments, principal=caller.principal)
        try:
            return await self._calls.read(wanted, request, caller, exchange)
        except InvalidArguments as refusal:
            raise RpcError(INVALID_PARAMS, refusal.message) from None
        except DefinitionChanged as refusal:
            raise RpcError(SERVER_ERROR, refusal.message, {"code": refusal.code}) from None

    async def _result(self, call: Call, caller: Caller, entry: Entry, *, asked: str | None = None) -> Raw:
        """What was read. Raises the `RpcError` that the server, or the way to it, came to."""
        if call.status is CallStatus.CANCELLED:
            raise RpcError(CANCELLED, "Request cancelled")
        if call.error is not None:
            raise reading_error(call, caller)
        return await what_was_read(self._pipeline, call, entry, asked=asked)


def listed_prompt(entry: Entry) -> bytes:
    """A prompt as clients are shown it."""
    return encode({**entry.tool.listed, "name": entry.mcp_name})


def not_found(message: str, uri: str, caller: Caller) -> RpcError:
    """No such resource, in the words of the caller's era."""
    return RpcError(INVALID_PARAMS if caller.is_modern else RESOURCE_NOT_FOUND, message, {"uri": uri})


def reading_error(call: Call, caller: Caller) -> RpcError:
    """A server's own error as it put it; any other with our code."""
    assert call.error is not None
    error = server_error(call.result)
    if error is None:
        return RpcError(SERVER_ERROR, call.error.message, {"code": call.error.code})
    number = error.code
    if number == RESOURCE_NOT_FOUND and caller.is_modern:
        number = INVALID_PARAMS
    elif number == INVALID_PARAMS and not caller.is_modern and isinstance(error.data, dict) and "uri" in error.data:
        number = RESOURCE_NOT_FOUND  # a server of 2026-07-28 has no such number
    return RpcError(number, call.error.message, error.data)


def list_page(member: bytes, listed: list[bytes], following: str | None, caller: Caller) -> bytes:
    members = [b'"%b":[%b]' % (member, b",".join(listed))]
    if following is not None:
        members.append(b'"nextCursor":%b' % encode(f"{_AFTER}{following}"))
    if caller.is_modern:
        members.append(caching(FRESH_MS))
    return stamped(b",".join(members), revision=caller.revision)


def after_cursor(request: RpcRequest) -> str | None:
    """What the cursor of a list says; None at its beginning."""
    if request.params.get("cursor") is None:
        return None
    cursor = text_param(request.params, "cursor")
    if not cursor.startswith(_AFTER):
        raise RpcError(INVALID_PARAMS, "'params.cursor' is not one that this server gave. Leave it out to begin.")
    return cursor[len(_AFTER) :]


def _offset(request: RpcRequest) -> int:
    after = after_cursor(request)
    if after is None:
        return 0
    if not after.isdecimal() or len(after) > len(str(2**31)):
        raise RpcError(INVALID_PARAMS, "'params.cursor' is not one that this server gave. Leave it out to begin.")
    return int(after)


def _result(members: bytes, meta: dict[str, Any] | None, caller: Caller) -> bytes:
    """A result with the server's own `_meta`, if it has any."""
    if caller.is_modern:
        return stamped(members, revision=MODERN, meta=meta or None)
    return b'{%b,"_meta":%b}' % (members, encode(meta)) if meta else b"{%b}" % members
