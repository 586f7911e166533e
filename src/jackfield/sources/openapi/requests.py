"""The request of one call: arguments where the document says, in the style it says; files among them. Pure.

An argument can change neither the host nor the shape of the path, nor a header or parameter that the config sets. A
caller gives a file as an object: its bytes in base64 or its text, and its name and media type where they matter.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct

from jackfield.sources.http import HEADER_VALUE, Unfillable, check_segments, text_of
from jackfield.sources.openapi.arguments import Inputs
from jackfield.sources.openapi.operations import OpenApiOperation
from jackfield.sources.openapi.options import Credentials
from jackfield.sources.openapi.parameters import FILE, ArgumentPlace, Location, Media

OCTETS = "application/octet-stream"
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(; ?[A-Za-z0-9=\"._-]+)*")
_IN_QUOTES = {'"': "%22", "\r": "%0D", "\n": "%0A"}
_SEPARATORS = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_MAX_DEPTH = 8
Pair = tuple[str, str]
"""A name and a value, both percent-encoded."""


class File(Struct, frozen=True, kw_only=True):
    """What a caller gave."""

    content: bytes
    filename: str = "file"
    media_type: str = OCTETS


class Part(Struct, frozen=True, kw_only=True):
    """One part of a body in `multipart/form-data`."""

    name: str
    content: bytes
    filename: str | None = None
    media_type: str | None = None


def file_of(argument: str, value: Any) -> File:
    """The file in an argument. Raises `Unfillable`."""
    if not isinstance(value, dict) or not ("base64" in value or "text" in value):
        raise Unfillable(f"The argument '{argument}' is a file. Give it as an object with 'base64' or 'text'.")
    media_type = str(value.get("media_type") or (OCTETS if "base64" in value else "text/plain; charset=utf-8"))
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise Unfillable(f"The 'media_type' of the argument '{argument}' is none. Give one like image/png.")
    filename = str(value.get("filename") or "file")
    if "text" in value:
        return File(content=str(value["text"]).encode(), filename=filename, media_type=media_type)
    try:
        content = base64.b64decode(str(value["base64"]), validate=True)
    except (binascii.Error, ValueError):
        raise Unfillable(f"The argument '{argument}' has a 'base64' that cannot be decoded. Correct it.") from None
    return File(content=content, filename=filename, media_type=media_type)


def looks_like_file(value: Any) -> bool:
    """Whether a value without a schema is a file: only such an object has these keys."""
    return isinstance(value, dict) and bool({"base64", "text"} & value.keys()) and not value.keys() - FILE["properties"]


def parts_of(argument: str, name: str, value: Any, *, is_file: bool, media_type: str | None) -> list[Part]:
    """The parts of one field: each entry of a list is one, an object is JSON. Null is not sent."""
    entries = value if isinstance(value, list) else [value]
    if is_file:
        files = [file_of(argument, entry) for entry in entries]
        return [
            Part(name=name, content=file.content, filename=file.filename, media_type=file.media_type) for file in files
        ]
    if media_type is not None and not media_type.startswith("text/"):
        return [Part(name=name, content=_written(value, media_type), media_type=media_type)]
    return [
        Part(name=name, content=text_of(entry).encode(), media_type=_type_of(entry, media_type))
        for entry in entries
        if entry is not None
    ]


def written_parts(parts: list[Part]) -> tuple[bytes, str]:
    """A body of these parts, and its content type."""
    boundary = secrets.token_hex(16)
    while any(boundary.encode() in part.content for part in parts):
        boundary = secrets.token_hex(16)
    lines: list[bytes] = []
    for part in parts:
        disposition = f'form-data; name="{_quoted(part.name)}"'
        if part.filename is not None:
            disposition += f'; filename="{_quoted(part.filename)}"'
        lines += [f"--{boundary}".encode(), f"Content-Disposition: {disposition}".encode()]
        if part.media_type is not None:
            lines.append(f"Content-Type: {part.media_type}".encode())
        lines += [b"", part.content]
    return b"\r\n".join([*lines, f"--{boundary}--".encode(), b""]), f"multipart/form-data; boundary={boundary}"


def _written(value: Any, media_type: str) -> bytes:
    if "json" in media_type or not isinstance(value, str):
        return msgspec.json.encode(value)
    return value.encode()


def _type_of(entry: Any, media_type: str | None) -> str | None:
    return media_type or ("application/json" if isinstance(entry, (dict, list)) else None)


def _quoted(text: str) -> str:
    """As browsers write a name in a form, so that no name can end its line."""
    return "".join(_IN_QUOTES.get(character, character) for character in text)


class OpenApiRequest(Struct, frozen=True, kw_only=True):
    """One request, ready to send."""

    url: str
    headers: dict[str, str]
    content: bytes | None = None


def request_of(operation: OpenApiOperation, arguments: Mapping[str, Any], credentials: Credentials) -> OpenApiRequest:
    """The request of a call with these arguments, which fit the schema. Raises `Unfillable`."""
    draft = _Draft(operation.path)
    for place in operation.inputs.places:
        if place.where is Location.PATH:
            draft.path = draft.path.replace(f"{{{place.name}}}", _in_path(place, arguments.get(place.argument)))
        elif place.argument in arguments:
            draft.put(place, arguments[place.argument])
    content, content_type = draft.content(operation.inputs)
    headers = draft.headers
    if draft.cookies:
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in draft.cookies)
    if content is not None:
        headers["Content-Type"] = content_type
    operators = [(_percent_encoded(name), _percent_encoded(value)) for name, value in credentials.params]
    if taken := {name for name, _ in draft.query} & {name for name, _ in operators}:
        # The names within an exploded object are the caller's, and many services go by the first of two.
        raise Unfillable(f"The parameter '{min(taken)}' is set by the gateway's config. Leave it out.")
    query = draft.query + operators
    mark = "?" if query else ""
    url = f"{operation.base.url}{draft.path}{mark}{'&'.join(f'{name}={value}' for name, value in query)}"
    return OpenApiRequest(url=url, headers={**headers, **credentials.headers}, content=content)


class _Draft:
    """A request as it is filled in."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.query: list[Pair] = []
        self.headers: dict[str, str] = {}
        self.cookies: list[Pair] = []
        self._fields: dict[str, Any] = {}
        self._places: dict[str, ArgumentPlace] = {}
        """By field."""
        self._whole: Any = UNSET

    def put(self, place: ArgumentPlace, value: Any) -> None:
        match place.where:
            case Location.QUERY:
                self.query += _in_query(place, value)
            case Location.COOKIE:
                self.cookies += _in_query(place, value)
            case Location.HEADER:
                self.headers[place.name] = _in_header(place, value)
            case Location.FIELD:
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
        return ((_percent_encoded(name), _percent_encoded(text)) for text in _texts(value))

    def _in_parts(self, name: str, value: Any) -> list[Part]:
        place = self._places.get(name)
        if place is None:  # within a body whose fields the document does not name
            return parts_of("body", name, value, is_file=looks_like_file(value), media_type=None)
        return parts_of(place.argument, name, value, is_file=place.as_file, media_type=place.media_type)


def _in_path(place: ArgumentPlace, value: Any) -> str:
    if place.as_json:
        check_segments(place.argument, _json(value))
        return quote(_json(value), safe="")
    pairs = list(value.items()) if isinstance(value, dict) else None
    for name, _ in pairs or ():
        check_segments(place.argument, str(name))
    texts = [text_of(inner) for inner in (value.values() if pairs is not None else _listed(value))]
    for text in texts or [""]:
        check_segments(place.argument, text)
    quoted = [_percent_encoded(text) for text in texts]
    joint = {"simple": ",", "label": "." if place.explode else ",", "matrix": ";" if place.explode else ","}[
        place.style
    ]
    if pairs is not None:
        link = "=" if place.explode else ","
        quoted = [f"{_percent_encoded(str(name))}{link}{text}" for (name, _), text in zip(pairs, quoted, strict=True)]
    elif place.style == "matrix" and place.explode:
        quoted = [f"{_percent_encoded(place.name)}={text}" for text in quoted]
    written = joint.join(quoted)
    if place.style == "label":
        return f".{written}"
    if place.style == "matrix":
        return f";{written}" if place.explode else f";{_percent_encoded(place.name)}={written}"
    return written


def _in_query(place: ArgumentPlace, value: Any) -> Iterator[Pair]:
    """Also for cookies, whose style is the same. Null is not sent."""
    name = _percent_encoded(place.name)
    if value is None:
        return
    if place.as_json:
        yield name, _percent_encoded(_json(value))
    elif isinstance(value, dict):
        yield from _object_in_query(place, name, value)
    elif isinstance(value, list):
        texts = [_percent_encoded(text_of(inner)) for inner in value if inner is not None]
        if place.explode and place.style == "form":
            yield from ((name, text) for text in texts)
        elif texts:
            yield name, _SEPARATORS.get(place.style, ",").join(texts)
    else:
        yield name, _percent_encoded(text_of(value))


def _object_in_query(place: ArgumentPlace, name: str, value: dict[str, Any]) -> Iterator[Pair]:
    if place.style == "deepObject":
        yield from _deep(place.name, value, depth=0)
    elif place.style == "form" and place.explode:
        yield from (
            (_percent_encoded(key), _percent_encoded(text)) for key, inner in value.items() for text in _texts(inner)
        )
    else:
        flat = [
            part for key, inner in value.items() for part in (_percent_encoded(key), _percent_encoded(text_of(inner)))
        ]
        yield name, _SEPARATORS[place.style].join(flat)


def _deep(name: str, value: Any, *, depth: int) -> Iterator[Pair]:
    """`filter[owner][name]=x`"""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _deep(f"{name}[{key}]", inner, depth=depth + 1)
    else:
        yield from ((_percent_encoded(name), _percent_encoded(text)) for text in _texts(value))


def _in_header(place: ArgumentPlace, value: Any) -> str:
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


def _percent_encoded(text: str) -> str:
    return quote(text, safe="")
