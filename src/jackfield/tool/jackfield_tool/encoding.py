"""Results and errors as JSON text, written as the gateway writes them for a file in its own process."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from json.encoder import encode_basestring
from typing import Any


def to_json(value: Any) -> str:
    """JSON as the gateway writes it for a file in its own process. Raises when there is none for this value."""
    if type(value) is str:
        return _encode_text(value)
    encode = _encode_long if _holds_long_text(value) else _encode
    try:
        return "".join(encode(value, 0))
    except (ValueError, TypeError):
        return "".join(_encode(_plain(value), 0))


_LONG = 1000
_FEW = 16
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_RARE = tuple(chr(code) for code in range(32) if chr(code) not in "\n\r\t")


def _encode_text(value: str) -> str:
    """A string as JSON. A long one without rare control characters is five times as fast by replacing."""
    if len(value) < _LONG or any(map(value.__contains__, _RARE)):
        return encode_basestring(value)
    for sign, escaped in _ESCAPES:
        if sign in value:
            value = value.replace(sign, escaped)
    return f'"{value}"'


def _holds_long_text(value: Any) -> bool:
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    if len(inner) > _FEW:
        return False
    for part in inner:  # noqa: SIM110 - any() costs more than the rest of a short answer
        if type(part) is str and len(part) >= _LONG:
            return True
    return False


def _encodable(value: Any) -> Any:  # noqa: C901, PLR0911 - one line per kind
    """The encoder's `default`: something that JSON can hold, or that can be converted further."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return list(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, (dt.datetime, dt.time)):
        said = value.isoformat()
        return f"{said[:-6]}Z" if said.endswith("+00:00") else said
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return _iso_duration(value)
    kind = type(value)
    if isinstance(value, pathlib.PurePath) or is_uuid_or_decimal(kind):
        return str(value)
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in _set_fields(value)}
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(kind, "__struct_fields__") and "msgspec" in sys.modules:
        return sys.modules["msgspec"].to_builtins(value)
    if hasattr(kind, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in kind.__attrs_attrs__}
    raise TypeError(f"{with_article(value)} is not a JSON value")


def is_uuid_or_decimal(kind: type) -> bool:
    """By name: importing their modules would cost every worker some milliseconds."""
    return (kind.__module__, kind.__name__) in _UUID_AND_DECIMAL


_UUID_AND_DECIMAL = (("uuid", "UUID"), ("decimal", "Decimal"))


def _set_fields(value: Any) -> Iterator[dataclasses.Field[Any]]:
    return (field for field in dataclasses.fields(value) if hasattr(value, field.name))


def _iso_duration(value: dt.timedelta) -> str:
    """ISO 8601: days and seconds."""
    sign, value = ("-", -value) if value < dt.timedelta(0) else ("", value)
    fraction = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    clock = f"T{value.seconds}{fraction}S" if value.seconds or fraction else ""
    days = f"{value.days}D" if value.days or not clock else ""
    return f"{sign}P{days}{clock}"


def _plain(value: Any) -> Any:
    """The slow path: part by part, NaN as null, keys as text."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_key(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return _plain(_encodable(value))


def _key(key: Any) -> Any:
    plain = key if isinstance(key, (str, int, float)) else _encodable(key)
    if isinstance(plain, (str, int, float)):
        return plain
    raise TypeError("Only dicts with str-like or number-like keys are supported")


def _make_encoder(text: Callable[[str], str]) -> Callable[[Any, int], Iterable[str]]:
    """The encoder inside `JSONEncoder`, made once instead of for every value. A value that holds itself ends in a
    RecursionError; the usual bookkeeping against it is not safe among threads.
    """
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    try:
        return make(None, _encodable, text, None, ":", ",", False, False, False)  # type: ignore[no-any-return]  # noqa: FBT003 - positions are all it takes
    except TypeError:
        encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_encodable)
        return lambda value, _: [encoder.encode(value)]


_encode = _make_encoder(encode_basestring)
_encode_long = _make_encoder(_encode_text)


def describe_error(error: BaseException) -> str:
    """`ValueError: …`, without the path that an import error carries."""
    said = error_message(error)
    if isinstance(error, ImportError) and isinstance(error.path, str):
        said = said.replace(f" ({error.path})", "")
    return f"{class_name(error)}: {said}" if said else class_name(error)


def error_message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - a tool's own exception class may fail at this too
        return ""


def class_name(value: object) -> str:
    """Past a metaclass that has its own idea of names."""
    return str(type.__dict__["__name__"].__get__(type(value)))


def with_article(value: object) -> str:
    """`an object`, `a set`."""
    name = class_name(value)
    return f"{'an' if name[:1].lower() in ('a', 'e', 'i', 'o') else 'a'} {name}"


def json_string(said: str) -> str:
    """The text as JSON. Half of a surrogate pair, which no UTF-8 can hold, becomes a question mark."""
    return encode_basestring(said.encode("utf-8", "replace").decode())
