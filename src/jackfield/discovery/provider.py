"""A service's own functions as tools that others discover and execute: seed 004's provider, without a framework.

Above: `mounting.py`, or whatever a service answers HTTP with. Below: the SDK's functions, which make schemas from type
hints and run a call; the catalog's schemas, which check arguments; the catalog's manifest. One tool list for everybody
who has the key. What the metadata limits (approval, rate) is for the gateway that calls to enforce; the timeout holds
here too.
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

from jackfield.catalog.explain import told
from jackfield.catalog.manifest import Manifest, assemble, tool_json, version_of
from jackfield.catalog.schemas import ArgumentChecker, fault_in, not_an_object
from jackfield.discovery.replies import CACHED, Reply, empty_reply, json_reply, refused_reply
from jackfield.errors import InvalidArguments, NotFound, Refused, TooLarge, ToolNotFound, Unauthenticated
from jackfield.http.errors import MethodNotAllowed
from jackfield.http.json_bodies import check_depth, check_media_type, decoded
from jackfield.http.response import etag_matches
from jackfield.model.call import CallError
from jackfield.model.ids import new_id
from jackfield.model.tool import Category, Metadata, Tool
from jackfield.model.trace_context import TIMEOUT_HEADER
from jackfield.protocol.functions import Servables, ToolFunction, tool_functions
from jackfield.settings import ScenarioSettings
from jackfield.settings.parsing import is_semver, nearest

PATH = "/api/v1/tools"
MAX_BODY = 32 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
_BEARER = "bearer "
_MOST_DIGITS = 12
"""Of a time in milliseconds; more than any call may take."""


class ExecuteBody(Struct, frozen=True, kw_only=True):
    """What is sent to be executed. Who asks, and for whom, means nothing here."""

    arguments: dict[str, Any] = {}


class Executed(Struct, frozen=True, kw_only=True):
    """What a call came to."""

    success: bool
    call_id: str
    run_id: str
    status: str
    result: Raw | None
    error: CallError | None
    execution_time_ms: float


class _Offered(Struct, frozen=True, kw_only=True):
    """One tool, ready."""

    callee: ToolFunction
    tool: Tool
    shown: bytes
    arguments: ArgumentChecker


class ToolProvider(Protocol):
    """A part of a service that brings tools of its own (seed 004's ToolProvider)."""

    @property
    def name(self) -> str:
        """Which part it is, among those of the service."""

    def tools(self) -> Servables:
        """What it offers now."""

    def categories(self) -> Iterable[Category]:
        """The groups that its tools name, and no other part describes otherwise."""


class ToolSet:
    """A `ToolProvider` whose tools are known from the start."""

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


_decode_body = msgspec.json.Decoder(ExecuteBody).decode


def manifest(
    tools: Servables,
    *,
    name: str,
    version: str = "1.0.0",
    description: str = "",
    base_url: str | None = None,
    categories: Iterable[Category] = (),
) -> Manifest:
    """Seed 004's manifest of these functions: `body` is its JSON, `etag` what to send as ETag."""
    provider = Provider(
        tools, name=name, version=version, description=description, base_url=base_url, categories=categories
    )
    return provider.manifest


class Provider:
    """The tools of one service, and the answers to all that is asked about them.

    `tools` are functions, or `ServedTool`s that say more about one; parts of a service that bring tools of their own
    are registered beside them. `key`: whoever asks must bring it, as `Authorization: Bearer`, `X-Api-Key` or
    `X-Secret-Key`; None: nobody is asked.
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
            raise ValueError("the key is empty, so that nobody could be let in or everybody; give one, or None")
        if not is_semver(version):
            raise ValueError(f"the version '{version}' is no semantic version; write it like 1.0.0")
        self._scenario = ScenarioSettings(
            name=name, version=version, description=description or f"Tools of {name}", base_url=base_url
        )
        self._key = key
        self._own = ToolSet(name=name, tools=tools, categories=categories)
        self._providers: dict[str, ToolProvider] = {}
        self._publish(self._own, self._providers)

    def replace(self, tools: Servables) -> None:
        """From now on, these are all of the service's own. Raises `TypeError` for what cannot be a tool."""
        self._publish(ToolSet(name=self._own.name, tools=tools, categories=self._own.categories()), self._providers)

    def register(self, provider: "ToolProvider") -> None:
        """Offer the tools of one more part of the service; one under a known name takes the other's place."""
        self._publish(self._own, {**self._providers, provider.name: provider})

    def unregister(self, name: str) -> None:
        """A part of the service offers nothing any more. Raises `KeyError` for one that is not there."""
        rest = dict(self._providers)
        del rest[name]
        self._publish(self._own, rest)

    def refresh(self) -> None:
        """Ask every part anew what it offers."""
        self._publish(self._own, self._providers)

    def _publish(self, own: "ToolSet", providers: "dict[str, ToolProvider]") -> None:
        """Offer all that these offer. Raises `TypeError`, and then everything stays as it was."""
        offered: dict[str, _Offered] = {}
        owners: dict[str, str] = {}
        categories: dict[str, Category] = {}
        for provider in (own, *providers.values()):
            for category in provider.categories():
                if categories.setdefault(category.id, category) != category:
                    raise TypeError(f"two providers describe the category '{category.id}' differently")
            for name, callee in _callees(provider.tools()).items():
                if name in offered:
                    raise TypeError(f"'{name}' is offered by both '{owners[name]}' and '{provider.name}'; rename one")
                offered[name], owners[name] = _offered(callee, source=self._scenario.name), provider.name
        for one in offered.values():
            if one.tool.category is not None and one.tool.category not in categories:
                raise TypeError(f"'{one.tool.name}' is in the category '{one.tool.category}', which is not given")
        self._own, self._providers, self._offered = own, providers, offered
        self.manifest = assemble(
            (one.shown for one in offered.values()),
            scenario=self._scenario,
            categories=tuple(categories.values()),
            generated_at=datetime.now(UTC),
        )

    async def respond(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        """The answer to a request to `/api/v1/tools` or below it. `path` is percent-encoded, without a query."""
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        try:
            return await self._answer(method, [unquote(part) for part in _parts(path)], lower, body)
        except Refused as refusal:
            return refused_reply(refusal)

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
            return empty_reply(204, allow=f"{allowed}, OPTIONS")
        self._check_key(headers)
        if method != allowed and not (method == "HEAD" and allowed == "GET"):
            raise MethodNotAllowed(f"{method} is not for this path; {allowed} is.", allowed=f"{allowed}, OPTIONS")
        return await answer(parts[0] if parts else "", headers, body)

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
        cached = {**CACHED, "etag": self.manifest.etag}
        if etag_matches(headers.get("if-none-match"), self.manifest.etag):
            return empty_reply(304, **cached)
        return json_reply(self.manifest.body, headers=cached)

    async def _one(self, name: str, _headers: Mapping[str, str], _body: bytes) -> Reply:
        return json_reply(self._find(name).shown)

    async def _execute(self, name: str, headers: Mapping[str, str], body: bytes) -> Reply:
        offered = self._find(name)
        arguments = _arguments(headers, body)
        faults = offered.arguments.check(arguments)
        if faults:
            raise InvalidArguments(f"Tool '{name}' cannot take these arguments: {told(faults)}", details=faults)
        began = time.monotonic()
        result, error = await _run(offered, arguments, _time_left(headers))
        executed = Executed(
            success=error is None,
            call_id=new_id("call"),
            run_id=new_id("run"),
            status="completed" if error is None else "failed",
            result=result,
            error=error,
            execution_time_ms=round((time.monotonic() - began) * 1000, 3),
        )
        return json_reply(msgspec.json.encode(executed), headers={"x-call-id": executed.call_id})

    def _find(self, name: str) -> _Offered:
        offered = self._offered.get(name)
        if offered is None:
            raise ToolNotFound(f"There is no tool '{name[:100]}'.{nearest(name[:100], list(self._offered))}")
        return offered


def _callees(tools: Servables) -> Mapping[str, ToolFunction]:
    given = dict(tools) if isinstance(tools, Mapping) else list(tools)
    return tool_functions(given) if given else {}


def _parts(path: str) -> list[str]:
    """The path below `/api/v1/tools`, wherever a service has put that."""
    below = path.partition(PATH)[2]
    return below.strip("/").split("/") if below.strip("/") else []


def _offered(callee: ToolFunction, *, source: str) -> _Offered:
    """The function as a tool. Raises `TypeError` with a sentence."""
    name = callee.name
    if not _NAME.fullmatch(name):
        raise TypeError(f"'{name}' is no name for a tool; give it one of up to 64 letters, digits or '_'")
    shown = callee.definition()
    schema = shown["inputSchema"]
    if (fault := not_an_object(schema) or fault_in(schema)) is not None:
        raise TypeError(f"the schema of '{name}' {fault}")
    try:
        metadata = msgspec.convert(shown["metadata"], Metadata)
    except msgspec.ValidationError as fault:
        raise TypeError(f"the metadata of '{name}' is not right: {fault}") from None
    tool = Tool(
        source=source,
        name=name,
        description=shown["description"],
        input_schema=schema,
        timeout_ms=shown.get("timeout"),
        category=callee.tool.category,
        metadata=metadata,
    )
    version = version_of(name, tool)
    return _Offered(callee=callee, tool=tool, shown=tool_json(name, tool, version), arguments=ArgumentChecker(schema))


def _arguments(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    if len(body) > MAX_BODY:
        raise TooLarge(f"The body is larger than {MAX_BODY:,} bytes. Send less.")
    if not body:
        return {}
    check_media_type(headers.get("content-type", "").encode("latin-1", "replace"))
    read = decoded(body, _decode_body, into=ExecuteBody)
    check_depth((read.arguments,))
    return read.arguments


def _time_left(headers: Mapping[str, str]) -> float:
    """How many milliseconds a gateway still waits for this call; for ever, where nobody says."""
    said = headers.get(TIMEOUT_HEADER, "")
    is_number = said.isascii() and said.isdecimal() and len(said) <= _MOST_DIGITS
    return max(int(said), 1) if is_number else math.inf


async def _run(offered: _Offered, arguments: dict[str, Any], time_left: float) -> tuple[Raw | None, CallError | None]:
    """The result, or the error. What is cancelled because its time is over may run on in its thread, unheard."""
    limit = min(offered.tool.deadline_ms, time_left)
    try:
        async with asyncio.timeout(limit / 1000):
            answer = await offered.callee.run(arguments)
    except TimeoutError:
        return None, CallError("timeout", f"Tool timed out after {round(limit)}ms")
    if answer.error is not None:
        return None, CallError("tool_error", answer.error)
    return answer.result, None
