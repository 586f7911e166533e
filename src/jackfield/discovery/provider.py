"""A service's own functions as tools that gateways discover and execute, without a web framework.

Above: `mounting.py`, or any server that passes requests to `Provider.respond`. Below: `jackfield.protocol`: functions
as tools, JSON Schema, the manifest, error bodies. Everybody with the key sees the same tools. Approval and rate limits
of the metadata are enforced by the gateway that calls; the timeout is enforced here too.
"""

import asyncio
import hmac
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import CallNotFound, InvalidArguments, NotFound, Refused, TooLarge, ToolNotFound, Unauthenticated
from jackfield.model.call import CallError
from jackfield.model.ids import new_id
from jackfield.model.text import nearest
from jackfield.model.tool import Category, Metadata, Tool
from jackfield.model.trace_context import CALL_HEADER, CANCELS_HEADER, TIMEOUT_HEADER
from jackfield.protocol.errors import ErrorAnswer, MethodNotAllowed, error_body, error_headers, http_status
from jackfield.protocol.functions import Servables, ToolFunction, tool_functions
from jackfield.protocol.json_bodies import check_depth, check_media_type, decoded
from jackfield.protocol.manifest import (
    CACHE_HEADERS,
    Manifest,
    ScenarioInfo,
    assemble,
    etag_matches,
    is_semver,
    tool_json,
    version_of,
)
from jackfield.protocol.schemas import ArgumentChecker, fault_in, not_an_object, summarize

PATH = "/api/v1/tools"
CALLS_PATH = "/api/v1/calls"
MAX_BODY = 32 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_BEARER = "bearer "
_MOST_DIGITS = 12
"""Of a timeout in milliseconds; more than any call may take."""
_JSON = {"content-type": "application/json", "cache-control": "no-store"}


class Reply(Struct, frozen=True, kw_only=True):
    """A response to send. Header names are in lower case; the sender adds the length."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


class _ExecuteBody(Struct, frozen=True, kw_only=True):
    """The body of an execute request; its other fields mean nothing here."""

    arguments: dict[str, Any] = {}


class _ExecuteResponse(Struct, frozen=True, kw_only=True):
    success: bool
    call_id: str
    run_id: str
    status: str
    result: Raw | None
    error: CallError | None
    execution_time_ms: float


class _PublishedTool(Struct, frozen=True, kw_only=True):
    function: ToolFunction
    tool: Tool
    manifest_entry: bytes
    arguments: ArgumentChecker


class ToolProvider(Protocol):
    """A component of a service with tools of its own (seed 004's ToolProvider)."""

    @property
    def name(self) -> str:
        """Unique in the service."""

    def tools(self) -> Servables:
        """Its tools now."""

    def categories(self) -> Iterable[Category]:
        """The categories of its tools. No other provider may describe one differently."""


class ToolSet:
    """A `ToolProvider` with a fixed set of tools."""

    def __init__(
        self,
        name: str,
        tools: Servables,
        categories: Iterable[Category] = (),
    ) -> None:
        self.name = name
        self._tools = dict(tools) if isinstance(tools, Mapping) else list(tools)
        self._categories = tuple(categories)

    def tools(self) -> Servables:
        return self._tools

    def categories(self) -> Iterable[Category]:
        return self._categories


_decode_body = msgspec.json.Decoder(_ExecuteBody).decode


def manifest(
    tools: Servables,
    *,
    name: str,
    version: str = "1.0.0",
    description: str = "",
    base_url: str | None = None,
    categories: Iterable[Category] = (),
) -> Manifest:
    """Seed 004's manifest of these functions: its JSON `body` and its `etag`."""
    provider = Provider(
        tools, name=name, version=version, description=description, base_url=base_url, categories=categories
    )
    return provider.manifest


class Provider:
    """The tools of one service, and the responses to requests for them.

    `tools` are functions, or `ServedTool`s that say more about one; components with tools of their own are registered
    with `register`. `key`: required as `Authorization: Bearer`, `X-Api-Key` or `X-Secret-Key`; None: no key is needed.
    """

    def __init__(
        self,
        tools: Servables = (),
        *,
        name: str,
        version: str = "1.0.0",
        description: str = "",
        base_url: str | None = None,
        categories: Iterable[Category] = (),
        key: str | None = None,
    ) -> None:
        if key is not None and not key:
            raise ValueError("the key is empty; give one, or None for no key")
        if not is_semver(version):
            raise ValueError(f"the version '{version}' is not a semantic version; write it like 1.0.0")
        self._scenario = ScenarioInfo(
            name=name, version=version, description=description or f"Tools of {name}", base_url=base_url
        )
        self._key = key
        self._own = ToolSet(name=name, tools=tools, categories=categories)
        self._providers: dict[str, ToolProvider] = {}
        self._running: dict[str, asyncio.Task[tuple[Raw | None, CallError | None]]] = {}
        """By the id that the calling gateway has for it."""
        self._publish(self._own, self._providers)

    def replace(self, tools: Servables) -> None:
        """Replace the service's own tools. Raises `TypeError` for what cannot be a tool."""
        self._publish(ToolSet(name=self._own.name, tools=tools, categories=self._own.categories()), self._providers)

    def register(self, provider: "ToolProvider") -> None:
        """Publish the tools of a component too; one with the same name is replaced."""
        self._publish(self._own, {**self._providers, provider.name: provider})

    def unregister(self, name: str) -> None:
        """Stop publishing the tools of a component. Raises `KeyError` for an unknown one."""
        rest = dict(self._providers)
        del rest[name]
        self._publish(self._own, rest)

    def refresh(self) -> None:
        """Ask every provider for its tools again."""
        self._publish(self._own, self._providers)

    def _publish(self, own: "ToolSet", providers: "dict[str, ToolProvider]") -> None:
        """Publish the tools of all these. Raises `TypeError`, and then nothing changes."""
        published: dict[str, _PublishedTool] = {}
        owners: dict[str, str] = {}
        categories: dict[str, Category] = {}
        for provider in (own, *providers.values()):
            for category in provider.categories():
                if categories.setdefault(category.id, category) != category:
                    raise TypeError(f"two providers describe the category '{category.id}' differently")
            for name, function in _functions(provider.tools()).items():
                if name in published:
                    raise TypeError(f"'{name}' is offered by both '{owners[name]}' and '{provider.name}'; rename one")
                published[name], owners[name] = _publish(function, source=self._scenario.name), provider.name
        for one in published.values():
            if one.tool.category is not None and one.tool.category not in categories:
                raise TypeError(f"'{one.tool.name}' is in the category '{one.tool.category}', which is not given")
        self._own, self._providers, self._published = own, providers, published
        self.manifest = assemble(
            (one.manifest_entry for one in published.values()),
            scenario=self._scenario,
            categories=tuple(categories.values()),
            generated_at=datetime.now(UTC),
        )

    async def respond(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        """The response to a request for `/api/v1/tools` or below, or for `/api/v1/calls/{id}/cancel`.

        `path` is percent-encoded, without a query.
        """
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        try:
            if PATH not in path and CALLS_PATH in path:
                return self._answer_cancel(method, [unquote(part) for part in _parts(path, below=CALLS_PATH)], lower)
            return await self._answer(method, [unquote(part) for part in _parts(path)], lower, body)
        except Refused as refusal:
            headers = {name.decode(): value.decode() for name, value in error_headers(refusal)}
            body = msgspec.json.encode(ErrorAnswer(error=error_body(refusal)))
            return Reply(status=http_status(refusal), headers={**_JSON, **headers}, body=body)

    async def _answer(self, method: str, parts: list[str], headers: Mapping[str, str], body: bytes) -> Reply:
        answer: Callable[[str, Mapping[str, str], bytes], Awaitable[Reply]]
        match parts:
            case []:
                allowed, answer = "GET", self._all
            case [_]:
                allowed, answer = "GET", self._one
            case [_, "execute"]:
                allowed, answer = "POST", self._execute
            case _:
                raise NotFound(f"There is nothing here. The tools are at {PATH}.")
        if method == "OPTIONS":
            return Reply(status=204, headers={"allow": f"{allowed}, OPTIONS"})
        self._check_key(headers)
        if method != allowed and not (method == "HEAD" and allowed == "GET"):
            raise MethodNotAllowed(f"{method} is not for this path; {allowed} is.", allowed=f"{allowed}, OPTIONS")
        return await answer(parts[0] if parts else "", headers, body)

    def _answer_cancel(self, method: str, parts: list[str], headers: Mapping[str, str]) -> Reply:
        if len(parts) != 2 or parts[1] != "cancel":  # noqa: PLR2004 - an id and the verb
            raise NotFound(f"There is nothing here. The tools are at {PATH}.")
        if method == "OPTIONS":
            return Reply(status=204, headers={"allow": "POST, OPTIONS"})
        self._check_key(headers)
        if method != "POST":
            raise MethodNotAllowed(f"{method} is not for this path; POST is.", allowed="POST, OPTIONS")
        running = self._running.get(parts[0])
        if running is None:
            raise CallNotFound(f"There is no call '{parts[0][:100]}' that runs here.", param="id")
        running.get_loop().call_soon_threadsafe(running.cancel)  # a WSGI server has a loop for each request
        body = msgspec.json.encode({"call": {"id": parts[0], "status": "cancelled"}})
        return Reply(status=200, headers=_JSON, body=body)

    def _check_key(self, headers: Mapping[str, str]) -> None:
        if self._key is None:
            return
        bearer = headers.get("authorization", "")
        given = bearer[len(_BEARER) :].strip() if bearer.lower().startswith(_BEARER) else None
        given = given or headers.get("x-api-key") or headers.get("x-secret-key")
        if not given:
            raise Unauthenticated("The request has no key. Send it as 'Authorization: Bearer KEY'.")
        if not hmac.compare_digest(given.encode(), self._key.encode()):
            raise Unauthenticated("The key is wrong. Check it.")

    async def _all(self, _name: str, headers: Mapping[str, str], _body: bytes) -> Reply:
        cached = {**dict(CACHE_HEADERS), "etag": self.manifest.etag, CANCELS_HEADER: "true"}
        if etag_matches(headers.get("if-none-match"), self.manifest.etag):
            return Reply(status=304, headers=cached)
        return Reply(status=200, headers={**_JSON, **cached}, body=self.manifest.body)

    async def _one(self, name: str, _headers: Mapping[str, str], _body: bytes) -> Reply:
        return Reply(status=200, headers=_JSON, body=self._find(name).manifest_entry)

    async def _execute(self, name: str, headers: Mapping[str, str], body: bytes) -> Reply:
        published = self._find(name)
        arguments = _arguments(headers, body)
        faults = published.arguments.check(arguments)
        if faults:
            raise InvalidArguments(f"Tool '{name}' cannot take these arguments: {summarize(faults)}", details=faults)
        began = time.monotonic()
        result, error = await self._run(published, arguments, headers)
        executed = _ExecuteResponse(
            success=error is None,
            call_id=new_id("call"),
            run_id=new_id("run"),
            status="completed" if error is None else "failed",
            result=result,
            error=error,
            execution_time_ms=round((time.monotonic() - began) * 1000, 3),
        )
        return Reply(status=200, headers={**_JSON, "x-call-id": executed.call_id}, body=msgspec.json.encode(executed))

    async def _run(
        self, published: _PublishedTool, arguments: dict[str, Any], headers: Mapping[str, str]
    ) -> tuple[Raw | None, CallError | None]:
        """The result, or the error; the gateway that calls may cancel it meanwhile."""
        running = asyncio.ensure_future(_run(published, arguments, _time_left(headers)))
        call_id = headers.get(CALL_HEADER, "")
        if call_id:
            self._running[call_id] = running
        try:
            await asyncio.wait((running,))
        finally:
            running.cancel()  # nothing to do, unless whoever asked is gone
            if self._running.get(call_id) is running:
                del self._running[call_id]
        return (None, CallError("cancelled", "The call was cancelled.")) if running.cancelled() else running.result()

    def _find(self, name: str) -> _PublishedTool:
        published = self._published.get(name)
        if published is None:
            raise ToolNotFound(f"There is no tool '{name[:100]}'.{nearest(name[:100], list(self._published))}")
        return published


def _functions(tools: Servables) -> Mapping[str, ToolFunction]:
    given = dict(tools) if isinstance(tools, Mapping) else list(tools)
    return tool_functions(given) if given else {}


def _parts(path: str, *, below: str = PATH) -> list[str]:
    """The segments below `/api/v1/tools`, wherever that is mounted."""
    rest = path.partition(below)[2].strip("/")
    return rest.split("/") if rest else []


def _publish(function: ToolFunction, *, source: str) -> _PublishedTool:
    """The function as a tool. Raises `TypeError` for one that cannot be published."""
    name = function.name
    if not _NAME.fullmatch(name):
        raise TypeError(f"'{name}' cannot be a tool's name; use up to 64 letters, digits or '_'")
    definition = function.definition()
    schema = definition["inputSchema"]
    if (fault := not_an_object(schema) or fault_in(schema)) is not None:
        raise TypeError(f"the schema of '{name}' {fault}")
    try:
        metadata = msgspec.convert(definition["metadata"], Metadata)
    except msgspec.ValidationError as fault:
        raise TypeError(f"the metadata of '{name}' is invalid: {fault}") from None
    tool = Tool(
        source=source,
        name=name,
        description=definition["description"],
        input_schema=schema,
        timeout_ms=definition.get("timeout"),
        category=function.tool.category,
        metadata=metadata,
    )
    version = version_of(name, tool)
    entry = tool_json(name, tool, version)
    return _PublishedTool(function=function, tool=tool, manifest_entry=entry, arguments=ArgumentChecker(schema))


def _arguments(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    if len(body) > MAX_BODY:
        raise TooLarge(f"The body is larger than {MAX_BODY:,} bytes. Send less.")
    if not body:
        return {}
    check_media_type(headers.get("content-type", "").encode("latin-1", "replace"))
    read = decoded(body, _decode_body, into=_ExecuteBody)
    check_depth((read.arguments,))
    return read.arguments


def _time_left(headers: Mapping[str, str]) -> float:
    """Milliseconds that the calling gateway still waits; infinite when the header is missing."""
    given = headers.get(TIMEOUT_HEADER, "")
    is_number = given.isascii() and given.isdecimal() and len(given) <= _MOST_DIGITS
    return max(int(given), 1) if is_number else math.inf


async def _run(
    published: _PublishedTool, arguments: dict[str, Any], time_left: float
) -> tuple[Raw | None, CallError | None]:
    """The result, or the error. A function that timed out may run on in its thread."""
    limit = min(published.tool.deadline_ms, time_left)
    try:
        async with asyncio.timeout(limit / 1000):
            answer = await published.function.run(arguments)
    except TimeoutError:
        return None, CallError("timeout", f"Tool timed out after {round(limit)}ms")
    if answer.error is not None:
        return None, CallError("tool_error", answer.error)
    return answer.result, None
