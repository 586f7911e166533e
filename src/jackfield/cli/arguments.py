"""`key=value` words into a tool's arguments, each typed by the tool's schema.

Above: `call.py`, and for JSON alone `approve.py` and `answer.py`. Below: `schema.py`. Pure, but for reading the file
or stdin that stands for JSON.
"""

import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from jackfield.cli.schema import Schema, properties_of, types_of
from jackfield.cli.usage import UsageError
from jackfield.settings.parsing import nearest

_INTEGER = re.compile(r"[+-]?[0-9]+")
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_ARTICLES = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "null": "null"}
_SHORT = {"integer": "3", "number": "1.5", "boolean": "true", "null": "null", "array": "'[…]'", "object": "'{…}'"}


def from_pairs(pairs: Sequence[str], schema: Schema, *, tool: str) -> dict[str, Any]:
    """`["a=1", "b:=[2]"]` → `{"a": 1, "b": [2]}`. `:=` gives JSON as it is, whatever the schema says."""
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        raw = key.endswith(":")
        key = key.removesuffix(":")
        if not equals or not key:
            raise UsageError(f"'{pair}' is no argument. Write key=value, key:=JSON, or all of them as --json '{{…}}'.")
        if key in arguments:
            raise UsageError(f"The argument '{key}' is given twice. Give it once.")
        if not _is_sendable(pair):
            raise UsageError(f"The argument '{key}' is not UTF-8. Give it as JSON in a file: --json @file.")
        _check_known(key, schema, tool)
        arguments[key] = _json(text, key) if raw else typed(text, key, schema)
    return arguments


def typed(text: str, key: str, schema: Schema) -> Any:
    """The value that `text` stands for in this field. A field that takes text gets it as it is."""
    kinds = types_of(properties_of(schema).get(key), schema)
    if not kinds:
        return _json_or_text(text)
    if kinds - {"null"} == {"string"}:
        return text
    for kind in ("integer", "number", "boolean", "null", "array", "object"):
        if kind in kinds and (found := _read(text, kind)) is not None:
            return found[0]
    if "string" in kinds:
        return text
    wanted = " or ".join(_ARTICLES.get(kind, f"JSON of an {kind}") for kind in sorted(kinds))
    raise UsageError(f"'{key}' takes {wanted}, not '{text}'. Write {key}={_SHORT.get(min(kinds), '…')}.")


def from_json(given: str) -> dict[str, Any]:
    """`--json`: an object, or `@file`, or `-` for stdin."""
    return object_from(given, what="The value of --json")


def object_from(given: str, *, what: str) -> dict[str, Any]:
    """Arguments as JSON, or where that stands."""
    value, place = _read_json(given, what)
    if not isinstance(value, dict):
        raise UsageError(f'{place} must be an object of arguments, like {{"a": 1}}.')
    return value


def json_from(given: str, *, what: str) -> Any:
    """Any JSON value: as it is, in the file after `@`, or on stdin (`-`)."""
    return _read_json(given, what)[0]


def _read_json(given: str, what: str) -> tuple[Any, str]:
    text, place = _text_of(given, what)
    try:
        return msgspec.json.decode(text), place
    except (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError) as fault:
        raise UsageError(f"{place} is not valid JSON: {fault}. Correct it; text needs quotes: '\"…\"'.") from None


def _text_of(given: str, what: str) -> tuple[str | bytes, str]:
    if given == "-":
        return sys.stdin.buffer.read(), "What came on stdin"
    if not given.startswith("@"):
        return given, what
    try:
        return Path(given[1:]).read_bytes(), f"The file {given[1:]}"
    except OSError as fault:
        raise UsageError(f"The file {given[1:]} cannot be read: {fault.strerror}. Give another one.") from None


def _check_known(key: str, schema: Schema, tool: str) -> None:
    known = list(properties_of(schema))
    more = schema.get("additionalProperties")
    takes_more = more is True or isinstance(more, dict) or "patternProperties" in schema or (not known and more is None)
    if key in known or takes_more:
        return
    cure = nearest(key, known) or (f" It takes: {', '.join(known)}." if known else " It takes none.")
    raise UsageError(f"'{tool}' has no argument '{key}'.{cure}")


def _read(text: str, kind: str) -> tuple[Any] | None:
    """The text as a value of that type, in a tuple; None when it is none."""
    if kind == "boolean":
        word = _WORDS.get(text.strip().lower())
        return None if word is None else (word,)
    if kind == "integer":
        return (int(text),) if _INTEGER.fullmatch(text.strip()) and len(text) < sys.get_int_max_str_digits() else None
    if kind == "number":
        return _read(text, "integer") or _number(text)
    if kind == "null":
        return (None,) if text.strip() == "null" else None
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return (value,) if isinstance(value, list if kind == "array" else dict) else None


def _number(text: str) -> tuple[float] | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return (value,) if math.isfinite(value) else None


def _is_sendable(text: str) -> bool:
    """Whether the shell gave real text; bytes that are none come as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(text: str, key: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as fault:
        raise UsageError(f"What follows '{key}:=' is not valid JSON: {fault}. Text needs quotes there.") from None


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
