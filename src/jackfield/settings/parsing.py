"""Converts config data to types; an error names the file, the key and the fix."""

import re
from enum import EnumType
from typing import Any, TypeVar

import msgspec

from jackfield.errors import ConfigError
from jackfield.model.text import nearest

T = TypeVar("T")

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]+)`(?: - at `\$(?P<path>[^`]*)`)?")
_FAULT = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$")
_MISSING = re.compile(r"Object missing required field `(?P<key>[^`]+)`(?: - at `\$(?P<path>[^`]*)`)?")


def parse_config(value: Any, into: type[T], *, where: str) -> T:
    """Convert `value`, or raise a `ConfigError`. `where` is a file with a colon at its end, or a key."""
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as fault:
        raise ConfigError(_sentence(str(fault), value, into, where)) from None


def snake_case(key: str) -> str:
    """`executionType` → `execution_type`"""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def snake_keys(value: dict[str, Any]) -> dict[str, Any]:
    """The object with its own keys, not those of nested objects, in snake_case."""
    return {snake_case(key): inner for key, inner in value.items()}


def _sentence(fault: str, value: Any, into: Any, where: str) -> str:
    if found := _UNKNOWN.match(fault):
        key, path = found["key"], found["path"] or ""
        known = _fields_at(into, path)
        cure = nearest(key, known) or (f" Known here: {', '.join(known)}." if known else "")
        return f"{_place(where, path, value, into)} has an unknown key '{key}'.{cure} Remove or rename it."
    if found := _MISSING.match(fault):
        return f"{_place(where, found['path'] or '', value, into)} needs the key '{found['key']}'. Add it."
    found = _FAULT.match(fault)
    what, path = (found["what"], found["path"] or "") if found else (fault, "")
    cure = f"Known: {', '.join(choices)}." if (choices := _choices_at(into, path)) else "Correct it."
    return f"{_place(where, path, value, into)} is invalid: {what[0].lower()}{what[1:]}. {cure}"


def _place(where: str, path: str, value: Any, into: Any) -> str:
    inner = _with_names(path, value, into).lstrip(".").replace("[...]", "")
    if where.endswith(":"):
        return f"{where} {inner}" if inner else where[:-1]
    return f"{where}.{inner}" if inner else where


def _with_names(path: str, value: Any, into: Any) -> str:
    """Msgspec's path with `[...]` replaced by the name of the first invalid table."""
    seen = plain = ""
    for part in re.findall(r"\.[^.\[]+|\[\d+\]|\[\.\.\.\]", path):
        name = part
        if part == "[...]":
            kind = getattr(_type_at(into, plain), "cls", None)
            tables = value if isinstance(value, dict) and kind is not None else {}
            name = "." + next((key for key, table in tables.items() if not _fits(table, kind)), "")
        if name == ".":
            return path
        plain += part
        seen += name
        value = _at(value, name)
    return seen


def _at(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part[1:])
    return value[int(part[1:-1])] if isinstance(value, list) and part.startswith("[") else None


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, TypeError):
        return False
    return True


def _fields_at(into: Any, path: str) -> list[str]:
    """The fields of the struct at `path`; empty if unknown."""
    return [field.encode_name for field in getattr(_type_at(into, path), "fields", ())]


def _choices_at(into: Any, path: str) -> list[str]:
    """The values of the enum or literal at `path`."""
    kind = _type_at(into, path)
    if isinstance(kind, msgspec.inspect.LiteralType):
        return [str(value) for value in kind.values]
    choices: Any = getattr(kind, "cls", None)
    members: list[Any] = list(choices) if isinstance(choices, EnumType) else []
    return [str(member.value) for member in members]


def _type_at(into: Any, path: str) -> Any:
    """The type that msgspec expects at `path`; None if unknown."""
    try:
        info: Any = msgspec.inspect.type_info(into)
        for part in (part for part in re.split(r"\.|\[\d+\]|\[\.\.\.\]", path) if part):
            info = _below(info, part)
        return _unwrapped(info)
    except (TypeError, AttributeError, StopIteration):
        return None


def _below(info: Any, part: str) -> Any:
    fields = _unwrapped(info).fields
    return next(field.type for field in fields if field.encode_name == part)


def _unwrapped(info: Any) -> Any:
    """The type inside `X | None`, lists and mappings."""
    while True:
        if isinstance(info, msgspec.inspect.UnionType):
            info = next(kind for kind in info.types if not isinstance(kind, msgspec.inspect.NoneType))
        elif isinstance(info, msgspec.inspect.DictType):
            info = info.value_type
        elif isinstance(info, (msgspec.inspect.ListType, msgspec.inspect.VarTupleType)):
            info = info.item_type
        else:
            return info
