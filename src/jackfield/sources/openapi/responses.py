"""The outcome of a call: the response's JSON, trimmed to the fields that were asked for, or its failure. Pure."""

import base64
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.model.call import Done, Failed, done
from jackfield.model.content import Content, content_form
from jackfield.model.redaction import CUT, cut
from jackfield.sources.http import json_outcome, phrase_of
from jackfield.sources.outgoing import OutgoingResponse

MAX_MESSAGE = 500
MAX_PATHS = 200
_MESSAGE_KEYS = ("message", "detail", "error_description", "title", "error", "errors", "reason", "description")
_PAGE = "text/html"
"""What comes from a login or an error page; no service answers an operation with it."""
_NOT_A_FILE = frozenset({"", _PAGE, "application/json"})
"""Where JSON was to come, and something else is a fault."""
_TEXTUAL = ("text/", "application/xml", "application/yaml", "application/x-yaml", "application/javascript")


def outcome_of(answer: OutgoingResponse, *, fields: Sequence[str] = ()) -> Done | Failed:
    """The outcome of a call with this response, trimmed to `fields` if there are any."""
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return _failure(answer)
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _PAGE and (kind.startswith(_TEXTUAL) or kind.endswith("+xml")):
        return done(answer.content.decode("utf-8", "replace"))
    outcome = json_outcome(answer)
    if isinstance(outcome, Failed) and kind not in _NOT_A_FILE:
        return Done(_as_content(kind, answer))
    if not fields or not isinstance(outcome, Done):
        return outcome
    try:
        trimmed = only(msgspec.json.decode(outcome.result), fields)
        return outcome if trimmed is None else done(trimmed)
    except (RecursionError, OverflowError):  # lists in lists in lists, or a number that cannot be written again
        return outcome


def _as_content(kind: str, answer: OutgoingResponse) -> Raw:
    """Bytes in the content form: an image or a sound as one, anything else as an embedded resource."""
    data = base64.b64encode(answer.content).decode()
    block: dict[str, Any]
    if kind.startswith(("image/", "audio/")):
        block = {"type": kind.partition("/")[0], "data": data, "mimeType": kind}
    else:
        address = answer.url.partition("?")[0].partition("#")[0]
        block = {"type": "resource", "resource": {"uri": address, "mimeType": kind, "blob": data}}
    return content_form(Content(blocks=Raw(msgspec.json.encode([block]))))


def only(value: Any, fields: Iterable[str]) -> Any:
    """The parts of a JSON value that dotted paths name. None: nothing in it has such a name.

    A path goes through lists, so that `items.id` is the id of each item, and `id` works on a list of objects.
    """
    return _part(value, [tuple(field.split(".")) for field in list(fields)[:MAX_PATHS]])


def _part(value: Any, paths: list[tuple[str, ...]]) -> Any:
    if isinstance(value, list):
        parts = [part for inner in value if (part := _part(inner, paths)) is not None]
        return parts or None
    if not isinstance(value, dict):
        return None
    kept: dict[str, Any] = {}
    for key, inner in value.items():
        below = [path[1:] for path in paths if path[0] == key]
        if not below:
            continue
        if () in below:
            kept[key] = inner
        elif (part := _part(inner, below)) is not None:
            kept[key] = part
    return kept or None


def _failure(answer: OutgoingResponse) -> Failed:
    said = _said(answer.content) or phrase_of(answer.status)
    message = f"HTTP {answer.status}: {said}"
    return Failed("http_error", message, Raw(msgspec.json.encode({"error": message, "status": answer.status})))


def _said(content: bytes) -> str:
    """What a service says went wrong: the message in its JSON, wherever services put it, else how the text begins."""
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _line(_beginning(content))
    return _line(_message_in(value, depth=0) or _beginning(content))


def _beginning(content: bytes) -> str:
    most = MAX_MESSAGE * 8
    return content[:most].decode("utf-8", "replace") + (CUT if len(content) > most else "")


def _message_in(value: Any, *, depth: int) -> str:
    if isinstance(value, str):
        return value
    if depth > 3:  # noqa: PLR2004 - errors → [0] → error → message
        return ""
    if isinstance(value, list):
        return "; ".join(dict.fromkeys(filter(None, (_message_in(inner, depth=depth + 1) for inner in value[:5]))))
    if isinstance(value, dict):
        found = (_message_in(value[key], depth=depth + 1) for key in _MESSAGE_KEYS if key in value)
        return next(filter(None, found), "")
    return ""


def _line(text: str) -> str:
    return cut(" ".join(text.split()), MAX_MESSAGE)
