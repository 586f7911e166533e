"""The request of one call: arguments where the document says, in the style it says. Pure.

Above: `source.py`, which sends it. Below: `arguments.py`. An argument can change neither the host nor the shape of
the path, nor a header or parameter that is the operator's.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct

from jackfield.sources.http_requests import HEADER_VALUE, Unfillable, check_segments, text_of
from jackfield.sources.openapi.arguments import Inputs
from jackfield.sources.openapi.credentials import Credentials
from jackfield.sources.openapi.files import OCTETS, Part, file_of, looks_like_file, parts_of, written_parts
from jackfield.sources.openapi.operations import Operation
from jackfield.sources.openapi.parameters import Media, Place, Where

_SEPARATORS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_DEEPEST = 8
Pair = tuple[str, str]
"""A name and a value, both percent-encoded."""


class Request(Struct, frozen=True, kw_only=True):
    """One request, ready to send."""

    url: str
    headers: dict[str, str]
    content: bytes | None = None


def request_of(operation: Operation, arguments: Mapping[str, Any], credentials: Credentials) -> Request:
    """The request of a call with these arguments, which fit the schema. Raises `Unfillable`."""
    draft = _Draft(operation.path)
    for place in operation.inputs.places:
        if place.where is Where.PATH:
            draft.path = draft.path.replace(f"{{{place.name}}}", _in_path(place, arguments.get(place.argument)))
        elif place.argument in arguments:
            draft.put(place, arguments[place.argument])
    content, content_type = draft.content(operation.inputs)
    headers = draft.headers
    if draft.cookies:
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in draft.cookies)
    if content is not None:
        headers["Content-Type"] = content_type
    operators = [(_quoted(name), _quoted(value)) for name, value in credentials.params]
    if taken := {name for name, _ in draft.query} & {name for name, _ in operators}:
        # The names within an exploded object are the caller's, and many services go by the first of two.
        raise Unfillable(f"The parameter '{min(taken)}' is set by the gateway's config. Leave it out.")
    query = draft.query + operators
    mark = "?" if query else ""
    url = f"{operation.base.url}{draft.path}{mark}{'&'.join(f'{name}={value}' for name, value in query)}"
    return Request(url=url, headers={**headers, **credentials.headers}, content=content)


class _Draft:
    """A request as it is filled in."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.query: list[Pair] = []
        self.headers: dict[str, str] = {}
        self.cookies: list[Pair] = []
        self._fields: dict[str, Any] = {}
        self._places: dict[str, Place] = {}
        """By field."""
        self._whole: Any = UNSET

    def put(self, place: Place, value: Any) -> None:
        match place.where:
            case Where.QUERY:
                self.query += _in_query(place, value)
            case Where.COOKIE:
                self.cookies += _in_query(place, value)
            case Where.HEADER:
                self.headers[place.name] = _in_header(place, value)
            case Where.FIELD:
                self._fields[place.name] = value
                self._places[place.name] = place
            case _:
                self._whole = value

    def content(self, inputs: Inputs) -> tuple[bytes | None, str]:
        """The body, and of which type it is; None where there is nothing to send."""
        kind = inputs.content_type or Media.JSON.value
        if self._whole is UNSET and not self._fields and not inputs.has_to_send_body:
            return None, kind
        whole = self._fields if self._whole is UNSET else self._whole
        match inputs.media:
            case Media.TEXT:
                return text_of(whole).encode(), kind
            case Media.OCTETS:
                file = file_of("body", whole)
                return file.content, file.media_type if kind == OCTETS and "media_type" in whole else kind
            case Media.FORM | Media.MULTIPART if not isinstance(whole, dict):
                raise Unfillable("The body of this tool is sent as a form, so it must be an object. Give it as one.")
            case Media.FORM:
                pairs = (pair for name, value in whole.items() for pair in self._in_form(name, value))
                return "&".join(f"{name}={text}" for name, text in pairs).encode(), kind
            case Media.MULTIPART:
                return written_parts([part for name, value in whole.items() for part in self._in_parts(name, value)])
            case _:
                return msgspec.json.encode(whole), kind

    def _in_form(self, name: str, value: Any) -> Iterator[Pair]:
        place = self._places.get(name)
        if place is not None and place.style == "deepObject":
            return _deep(name, value, depth=0)
        if place is not None and place.style and isinstance(value, list):
            return _in_query(place, value)
        return ((_quoted(name), _quoted(text)) for text in _texts(value))

    def _in_parts(self, name: str, value: Any) -> list[Part]:
        place = self._places.get(name)
        if place is None:  # within a body whose fields the document does not name
            return parts_of("body", name, value, is_file=looks_like_file(value), media_type=None)
        return parts_of(place.argument, name, value, is_file=place.as_file, media_type=place.media_type)


def _in_path(place: Place, value: Any) -> str:
    if place.as_json:
        check_segments(place.argument, _json(value))
        return quote(_json(value), safe="")
    pairs = list(value.items()) if isinstance(value, dict) else None
    for name, _ in pairs or ():
        check_segments(place.argument, str(name))
    texts = [text_of(inner) for inner in (value.values() if pairs is not None else _listed(value))]
    for text in texts or [""]:
        check_segments(place.argument, text)
    quoted = [_quoted(text) for text in texts]
    joint = {"simple": ",", "label": "." if place.explode else ",", "matrix": ";" if place.explode else ","}[
        place.style
    ]
    if pairs is not None:
        link = "=" if place.explode else ","
        quoted = [f"{_quoted(str(name))}{link}{text}" for (name, _), text in zip(pairs, quoted, strict=True)]
    elif place.style == "matrix" and place.explode:
        quoted = [f"{_quoted(place.name)}={text}" for text in quoted]
    written = joint.join(quoted)
    if place.style == "label":
        return f".{written}"
    if place.style == "matrix":
        return f";{written}" if place.explode else f";{_quoted(place.name)}={written}"
    return written


def _in_query(place: Place, value: Any) -> Iterator[Pair]:
    """Also for cookies, whose style is the same. Null is not sent."""
    name = _quoted(place.name)
    if value is None:
        return
    if place.as_json:
        yield name, _quoted(_json(value))
    elif isinstance(value, dict):
        yield from _object_in_query(place, name, value)
    elif isinstance(value, list):
        texts = [_quoted(text_of(inner)) for inner in value if inner is not None]
        if place.explode and place.style == "form":
            yield from ((name, text) for text in texts)
        elif texts:
            yield name, _SEPARATORS.get(place.style, ",").join(texts)
    else:
        yield name, _quoted(text_of(value))


def _object_in_query(place: Place, name: str, value: dict[str, Any]) -> Iterator[Pair]:
    if place.style == "deepObject":
        yield from _deep(place.name, value, depth=0)
    elif place.style == "form" and place.explode:
        yield from ((_quoted(key), _quoted(text)) for key, inner in value.items() for text in _texts(inner))
    else:
        flat = [part for key, inner in value.items() for part in (_quoted(key), _quoted(text_of(inner)))]
        yield name, _SEPARATORS[place.style].join(flat)


def _deep(name: str, value: Any, *, depth: int) -> Iterator[Pair]:
    """`filter[owner][name]=x`"""
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _deep(f"{name}[{key}]", inner, depth=depth + 1)
    else:
        yield from ((_quoted(name), _quoted(text)) for text in _texts(value))


def _in_header(place: Place, value: Any) -> str:
    if place.as_json:
        text = _json(value)
    elif isinstance(value, dict):
        link = "=" if place.explode else ","
        text = ",".join(f"{key}{link}{text_of(inner)}" for key, inner in value.items())
    else:
        text = ",".join(text_of(inner) for inner in _listed(value))
    if not HEADER_VALUE.fullmatch(text):
        raise Unfillable(
            f"The argument '{place.argument}' is sent as a header and has a character that headers cannot carry. "
            "Use printable ASCII without line breaks."
        )
    return text


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _texts(value: Any) -> list[str]:
    return [text_of(inner) for inner in _listed(value) if inner is not None]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _quoted(text: str) -> str:
    return quote(text, safe="")
