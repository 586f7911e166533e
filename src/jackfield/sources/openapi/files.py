"""Files among the arguments of a call: how a caller gives one, and how they are sent. Pure.

Above: `arguments.py`, `messages.py`. A caller gives a file as an object: its bytes in base64 or its text, and what it
is called and is, where that matters.
"""

import base64
import binascii
import re
import secrets
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.sources.http_requests import Unfillable, text_of
from jackfield.sources.openapi.document import Node

OCTETS = "application/octet-stream"
FILE: Node = {
    "type": "object",
    "description": "A file: its bytes in base64, or its text.",
    "properties": {
        "base64": {"type": "string", "contentEncoding": "base64"},
        "text": {"type": "string"},
        "filename": {"type": "string"},
        "media_type": {"type": "string", "description": "For example image/png."},
    },
    "oneOf": [{"required": ["base64"]}, {"required": ["text"]}],
    "additionalProperties": False,
}
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(; ?[A-Za-z0-9=\"._-]+)*")
_IN_QUOTES = {'"': "%22", "\r": "%0D", "\n": "%0A"}


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


def is_file(schema: Node) -> bool:
    """Whether a field with this schema is bytes: as OpenAPI 3.0 says it, or as 3.1 does."""
    if schema.get("format") in ("binary", "base64"):
        return True
    return "contentMediaType" in schema and "contentEncoding" not in schema and schema.get("type") in (None, "string")


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
    """As forms in browsers write a name: no name can end its line."""
    return "".join(_IN_QUOTES.get(character, character) for character in text)
