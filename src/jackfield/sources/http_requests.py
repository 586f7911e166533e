"""Which HTTP request a call of a configured tool makes. Pure.

Above: `http.py`, which sends it. Below: the words of a tool. The operator's url decides where a request goes; an
argument fills a `{place}` in its path or query, or becomes a query parameter or a field of the body, and can
never change the host or the shape of the path.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Struct

from jackfield.errors import ConfigError, JackfieldError
from jackfield.model.tool import Tool
from jackfield.sources.outgoing.errors import OutgoingBadUrl
from jackfield.sources.outgoing.urls import parse_url

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
        raise ConfigError(f"{where} execution.url is not right. {fault} Correct it.") from None
    check_headers(execution.headers, where=where, key="execution.headers")
    return HttpTemplate(
        method=method,
        url=url,
        headers=execution.headers,
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
