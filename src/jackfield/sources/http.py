"""Tools that are an HTTP request to a url in the config: `[[tools]]` with `executionType = "gateway"`.

Above: the supervisor. Below: `outgoing` sends the request that the template describes, and here its answer becomes
an outcome. The config's url names its own host, so it may be on this machine or in a private network; where it
redirects to may not.
"""

import re
import time
from collections.abc import Awaitable, Mapping
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import ConfigError, JackfieldError
from jackfield.model.call import NULL, Done, Failed, Outcome, on_one_line
from jackfield.model.redaction import CUT, cut
from jackfield.model.tool import Tool, ToolKind
from jackfield.outgoing import Outgoing, OutgoingError, OutgoingResponse, OutgoingTimedOut
from jackfield.outgoing.errors import OutgoingBadUrl
from jackfield.outgoing.urls import parse_url
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.sources.authorization import NoLogins, SourceLogins, send_authorized, with_login
from jackfield.sources.base import Invocation, Listing

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class HttpSource:
    """The config's HTTP tools."""

    kind: ClassVar[str] = "http"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, tools: tuple[Tool, ...], outgoing: Outgoing, logins: SourceLogins | None = None) -> None:
        self.name = "http"
        self.max_concurrency: int | None = None
        self._outgoing = outgoing
        self._logins = logins or NoLogins()
        self.replace(tools)

    def replace(self, tools: tuple[Tool, ...], *, foreign: frozenset[str] = frozenset()) -> None:
        """From the next refresh on, these are all. `foreign` names those whose url the operator did not write."""
        templates: dict[str, HttpTemplate] = {}
        for tool in tools:
            if tool.name in templates:
                raise ConfigError(f"Two of the [[tools]] are called '{tool.name}'. Rename one of them.")
            templates[tool.name] = template_of(tool)
        self._tools, self._templates, self._foreign = tools, templates, foreign

    async def open(self) -> None:
        """Nothing to do: connections are made when they are needed."""

    async def refresh(self) -> Listing:
        return Listing(tools=self._tools)

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.name in self._templates

    async def execute(self, invocation: Invocation) -> Outcome:
        template = self._templates.get(invocation.tool.name)
        if template is None:
            return Failed("tool_not_found", f"There is no HTTP tool '{invocation.tool.name}' in the config.")
        try:
            message = message_of(template, invocation.arguments)
            if template.connection is not None:
                return await self._execute_with_login(template, message, invocation, template.connection)
            answer = await self._send(template, message, invocation, invocation.timeout_ms / 1000)
        except OutgoingTimedOut:
            return timed_out(invocation)
        except (OutgoingError, Unfillable) as fault:
            return Failed(fault.code, fault.message)
        return outcome_of(answer)

    async def close(self) -> None:
        """Nothing to do: the connections are `Outgoing`'s."""

    async def _execute_with_login(
        self, template: "HttpTemplate", message: "HttpMessage", invocation: Invocation, source: str
    ) -> Outcome:
        """Raises `LoginNeeded`."""
        authorization = self._logins.of(source, invocation.principal)
        if authorization is None:
            return Failed("source_unavailable", f"Source '{source}', whose login this tool uses, has none any more.")
        end = time.monotonic() + invocation.timeout_ms / 1000

        def send(login: Mapping[str, str]) -> Awaitable[OutgoingResponse]:
            left = max(end - time.monotonic(), 0.001)
            return self._send(template, message, invocation, left, headers=with_login(template.headers, login))

        return outcome_of(await send_authorized(authorization, template.method, message.url, send))

    async def _send(
        self,
        template: "HttpTemplate",
        message: "HttpMessage",
        invocation: Invocation,
        seconds: float,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> OutgoingResponse:
        return await self._outgoing.request(
            template.method,
            message.url,
            headers=template.headers if headers is None else headers,
            params=message.params,
            json=message.json,
            timeout=seconds,
            named_by=None if invocation.tool.name in self._foreign else template.url,
        )


def outcome_of(answer: OutgoingResponse) -> Outcome:
    """What an HTTP answer means for the call: its JSON, or a failure that says what came instead."""
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        message = f"HTTP {answer.status}: {_excerpt(answer.content, 200) or phrase_of(answer.status)}"
        return Failed("http_error", message, _error(message))
    return json_outcome(answer)


def json_outcome(answer: OutgoingResponse) -> Done | Failed:
    """The JSON of an answer that says all is well."""
    content = answer.content.removeprefix(_BYTE_ORDER_MARK)
    if not content.strip():
        return Done(NULL)
    try:
        # Into Python values and not into Raw, because only that looks at every string and number.
        msgspec.json.decode(content)
    except UNREADABLE:
        kind = answer.headers.get("content-type", "none")[:80]
        message = f"The answer is not JSON (content type: {kind}); it begins: {_excerpt(content, 80)}"
        return Failed("bad_response", message)
    return Done(on_one_line(content))


def timed_out(invocation: Invocation) -> Failed:
    """What a call comes to whose answer did not come in time."""
    message = f"Tool timed out after {invocation.timeout_ms}ms"
    return Failed("timeout", message, _error(message, toolCallId=invocation.call_id))


def _error(message: str, **more: str) -> Raw:
    return Raw(msgspec.json.encode({"error": message, **more}))


def _excerpt(content: bytes, length: int) -> str:
    """The beginning of a body as one line of text."""
    beginning = content[: length * 8].decode("utf-8", "replace") + (CUT if len(content) > length * 8 else "")
    return cut(" ".join(beginning.split()), length)


def phrase_of(status: int) -> str:
    """What HTTP calls a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no text"


_BODILESS = frozenset({"GET", "HEAD", "DELETE"})
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PLACE_IN_HOST = re.compile(r"[^:/?#]*://[^/?#]*\{")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "upgrade"})


class Unfillable(JackfieldError):
    """The arguments fit the tool's schema but not its url."""

    code = "invalid_arguments"


class HttpTemplate(Struct, frozen=True, kw_only=True):
    """A tool's `execution`, checked once."""

    method: str
    url: str
    headers: dict[str, str]
    connection: str | None = None
    """The source whose login it uses."""
    places: frozenset[str]
    fixed: frozenset[str]
    """The query parameters that the url sets itself; an argument does not set them again."""


class HttpMessage(Struct, frozen=True, kw_only=True):
    """One request, ready to send."""

    url: str
    params: tuple[tuple[str, str], ...] = ()
    json: dict[str, Any] | None = None


def template_of(tool: Tool) -> HttpTemplate:
    """The checked `execution` of a tool. Raises `ConfigError` with the tool, the key and the cure."""
    where = f"The tool '{tool.name}' in [[tools]]:"
    execution = tool.execution
    if execution is None:
        raise ConfigError(f'{where} it is called over HTTP and needs a url. Add execution = {{ url = "…" }}.')
    method = execution.method.upper()
    if not _TOKEN.fullmatch(method):
        raise ConfigError(f'{where} execution.method is {execution.method!r}. Write a method like "GET" or "POST".')
    url = execution.url.partition("#")[0]
    if _PLACE_IN_HOST.match(url):
        raise ConfigError(f"{where} execution.url has a {{place}} in its host. Use places in path and query only.")
    try:
        parse_url(url)
    except OutgoingBadUrl as fault:
        raise ConfigError(f"{where} execution.url is invalid. {fault} Correct it.") from None
    check_headers(execution.headers, where=where, key="execution.headers")
    return HttpTemplate(
        method=method,
        url=url,
        headers=execution.headers,
        connection=execution.connection,
        places=frozenset(_PLACE.findall(url)),
        fixed=frozenset(name for name, _ in parse_qsl(url.partition("?")[2], keep_blank_values=True)),
    )


def check_headers(headers: Mapping[str, str], *, where: str, key: str) -> None:
    """Raises `ConfigError` for what HTTP cannot send. Values are not shown: they may be secrets."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
            raise ConfigError(f"{where} {key} has {name!r}, which cannot be set. Remove or rename it.")
        if not HEADER_VALUE.fullmatch(value):
            raise ConfigError(
                f"{where} the value of the header '{name}' has a character that headers cannot carry. "
                "Use printable ASCII without line breaks."
            )


def message_of(template: HttpTemplate, arguments: Mapping[str, Any]) -> HttpMessage:
    """The request of one call. Raises `Unfillable`."""
    url = fill_url(template, arguments)
    rest = {name: value for name, value in arguments.items() if name not in template.places}
    if template.method not in _BODILESS:
        return HttpMessage(url=url, json=rest)
    return HttpMessage(
        url=url,
        params=tuple(
            (name, text) for name, value in rest.items() if name not in template.fixed for text in _query_texts(value)
        ),
    )


def fill_url(template: HttpTemplate, arguments: Mapping[str, Any]) -> str:
    """The url with every `{place}` filled, percent-encoded. In the path a place must get a real segment."""
    path, mark, query = template.url.partition("?")
    path = _PLACE.sub(lambda found: quote(_path_text(found[1], arguments), safe=""), path)
    query = _PLACE.sub(lambda found: quote(text_of(arguments.get(found[1], "")), safe=""), query)
    return f"{path}{mark}{query}"


def _path_text(name: str, arguments: Mapping[str, Any]) -> str:
    value = arguments.get(name)
    text = text_of(value)
    check_segments(name, text)
    return text


def check_segments(name: str, text: str) -> None:
    """Raises `Unfillable` for a text that would change the shape of the path it is put into."""
    if not text:
        raise Unfillable(f"The argument '{name}' is part of this tool's url and cannot be left empty. Give it a value.")
    # Many servers decode %2F before they look for '..', so encoding alone does not keep a path's shape.
    if any(segment in (".", "..") for segment in re.split(r"[/\\]", text)):
        raise Unfillable(f"The argument '{name}' is part of this tool's url and cannot hold '.' or '..' as a segment.")


def _query_texts(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list):
        return [text_of(item) for item in value if item is not None]
    return [text_of(value)]


def text_of(value: Any) -> str:
    """Text as it is; anything else as compact JSON, so that true is `true` and an object is readable again."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
