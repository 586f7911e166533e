"""JSON bodies of requests: media type, decoding, depth, and errors that say which key is wrong and how to fix it."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import EnumType
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from jackfield.errors import BadRequest, WrongMediaType
from jackfield.model.text import nearest

T = TypeVar("T")

DEEPEST = 200
"""Levels of nesting in a body; more would exhaust a parser's stack."""
_PLAIN_JSON = b"application/json"
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.+?)`(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<key>[^`]+)`(?: - at `\$\.?(?P<path>[^`]*)`)?$")
_FAULT = re.compile(r"(?P<fault>.*?)(?: - at `(?:key in )?\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_LONGEST = 100
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding foreign JSON raises. For bad UTF-8 and deep nesting msgspec has no errors of its own."""


def check_media_type(header: bytes | None) -> None:
    """Raise `WrongMediaType` unless the body is declared as JSON."""
    if header == _PLAIN_JSON:
        return
    media = (header or b"").partition(b";")[0].strip().lower()
    if media != _PLAIN_JSON and not (media.startswith(b"application/") and media.endswith(b"+json")):
        given = f"'{media.decode('latin-1')[:100]}'" if media else "no Content-Type"
        raise WrongMediaType(f"The body is declared as {given}. Send JSON with 'Content-Type: application/json'.")


def decoded(body: bytes, decode: Callable[[bytes], T], *, into: type[Any]) -> T:
    """The body as `decode` reads it. Raises `BadRequest` with what is wrong."""
    try:
        return decode(body)
    except msgspec.ValidationError as fault:
        if "got `float`" in str(fault):
            with suppress(*UNREADABLE):  # 2.0 is a whole number to JSON Schema
                return decode(msgspec.json.encode(_whole(msgspec.json.decode(body))))
        raise bad_value(fault, what="The body", into=into) from None
    except msgspec.DecodeError as fault:
        raise BadRequest(f"The body is not valid JSON: {_lower_first(str(fault))}.") from None
    except UnicodeDecodeError:
        raise BadRequest("The body is not valid UTF-8. Encode it as UTF-8.") from None
    except RecursionError:
        raise _too_deep() from None


def _whole(value: Any) -> Any:
    """The same JSON with whole numbers written as such."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return {key: _whole(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def check_depth(parts: Iterable[Any]) -> None:
    """Raise `BadRequest` for values that are nested too deeply."""
    level: list[Any] = [value for value in parts if isinstance(value, (dict, list))]
    for _ in range(DEEPEST - 1):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> BadRequest:
    return BadRequest(f"The body is nested more than {DEEPEST} levels deep. Flatten it.")


def _lower_first(text: str) -> str:
    """Within a sentence; `JSON` stays as it is."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def bad_value(fault: msgspec.ValidationError, *, what: str, into: type[Any]) -> BadRequest:
    """A value of the wrong shape: which key, what is wrong with it, and what would be right."""
    text = str(fault)
    if found := _UNKNOWN.match(text):
        key = _short(found["key"])
        known = [field.encode_name for field in msgspec.structs.fields(into)]
        cure = nearest(key, known) or f" Known here: {', '.join(known)}."
        return BadRequest(f"{what} has an unknown key '{key}'.{cure}", param=key)
    if found := _MISSING.match(text):
        return BadRequest(f"{what} needs the key '{found['key']}'. Add it.", param=found["key"])
    found = _FAULT.match(text)
    reason, path = (found["fault"], found["path"]) if found else (text, None)
    if "matching regex" in reason and (form := _form_of(into, path)) is not None:
        reason = f"it does not match the expected form: {form}"
    if reason.startswith("Invalid enum value") and (choices := _choices_of(into, path)):
        reason = f"{reason}. Use {', '.join(choices)}"
    place = f"'{_short(path)}' in {what[0].lower()}{what[1:]}" if path else what
    return BadRequest(f"{place} is invalid: {reason[:1].lower()}{reason[1:]}.", param=_short(path) if path else None)


def _form_of(into: type[Any], key: str | None) -> str | None:
    """The description of a key's type, to show in place of its pattern."""
    return next((meta.description for meta in _metas(_type_of(into, key)) if meta.description), None)


def _choices_of(into: type[Any], key: str | None) -> list[str]:
    """The values that a key of an enum or a literal takes."""
    wanted = _type_of(into, key)
    for kind in (wanted, *get_args(wanted)):
        if isinstance(kind, EnumType):
            return [str(member.value) for member in list[Any](kind)]
        if get_origin(kind) is Literal:
            return [str(value) for value in get_args(kind)]
    return []


def _type_of(into: type[Any], key: str | None) -> Any:
    """The type of a struct's key, or of the list that an item such as `key[0]` is in; None if there is none."""
    key = None if key is None else key.partition("[")[0]
    try:
        return next((field.type for field in msgspec.structs.fields(into) if field.encode_name == key), None)
    except TypeError:  # not a struct
        return None


def _metas(wanted: Any) -> Iterator[msgspec.Meta]:
    """Every `Meta` in a type, at any depth of unions."""
    yield from (meta for meta in getattr(wanted, "__metadata__", ()) if isinstance(meta, msgspec.Meta))
    for inner in get_args(wanted):
        if not isinstance(inner, msgspec.Meta):
            yield from _metas(inner)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
