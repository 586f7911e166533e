"""JSON values to Python values, by type hint. A hint that is not fully understood passes its argument unchanged, as in
the gateway's process.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import dataclasses
import datetime as dt
import enum
import functools
import itertools
import json
import pathlib
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from .encoding import class_name, error_message, is_uuid_or_decimal


class Mismatch(ValueError):
    """A value that does not fit its hint."""

    def __init__(self, said: str, path: str = "") -> None:
        super().__init__(f"{said} - at `${path}`" if path else said)
        self.said = said
        self.path = path

    def inside(self, step: str) -> Mismatch:
        return Mismatch(self.said, step + self.path)


class UnsupportedHint(Exception):
    """A hint for which no converter can be built."""


Convert = Callable[[Any], Any]
_JSON_TYPES: dict[type, str] = {
    str: "str", bool: "bool", int: "int", float: "float", type(None): "null", list: "array", dict: "object",
}  # fmt: skip
UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_NUMBERS = ("int", "float")


class Converter:
    """Makes values for one hint, from these JSON types; from any if there are none."""

    __slots__ = ("is_foreign", "kinds", "make")

    def __init__(self, kinds: tuple[str, ...], make: Convert, *, is_foreign: bool = False) -> None:
        self.kinds = kinds
        self.make = make
        self.is_foreign = is_foreign

    def __call__(self, value: Any) -> Any:
        if self.kinds and json_type(value) not in self.kinds:
            raise Mismatch(f"Expected `{' | '.join(self.kinds)}`, got `{json_type(value)}`")
        try:
            return self.make(value)
        except Mismatch:
            raise
        except (ValueError, TypeError, ArithmeticError, LookupError) as error:
            raise Mismatch(error_message(error) or class_name(error)) from None


def json_type(value: Any) -> str:
    return _JSON_TYPES.get(type(value)) or class_name(value)


class Converters:
    """Converters by hint. A recursive class finds its own converter here while it is being built."""

    def __init__(self) -> None:
        self._known: dict[Any, Converter] = {}

    def of(self, hint: Any) -> Converter:
        try:
            known = self._known.get(hint)
        except TypeError as error:
            raise UnsupportedHint from error
        if known is None:
            known = self._known[hint] = Converter((), _not_built)
            try:
                built = self._build(hint)
            except BaseException:
                del self._known[hint]
                raise
            known.kinds, known.make, known.is_foreign = built.kinds, built.make, built.is_foreign
        return known

    def _build(self, hint: Any) -> Converter:
        if hint in _SIMPLE:
            kinds, make = _SIMPLE[hint]
            return Converter(kinds, make)
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin is not None:
            return self._generic(hint, origin, inner)
        if isinstance(hint, TypeVar):
            return Converter((), _identity)
        inside = getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)
        if inside is not None and not isinstance(hint, type):
            return self.of(inside)
        if isinstance(hint, type):
            return self._class(hint)
        raise UnsupportedHint

    def _generic(self, hint: Any, origin: Any, inner: tuple[Any, ...]) -> Converter:  # noqa: PLR0911 - one per kind
        if origin is typing.Literal:
            return _literal(inner)
        if origin in UNIONS:
            return self._union(inner)
        if hasattr(hint, "__metadata__") or origin in _WRAPPERS:
            return self.of(hint.__origin__ if hasattr(hint, "__metadata__") else inner[0])
        if origin in _LISTS:
            return self._items(_LISTS[origin], inner[0])
        if origin is tuple:
            return self._tuple(inner)
        if origin in _DICTS:
            return self._dict(*inner)
        if isinstance(origin, type) and dataclasses.is_dataclass(origin):
            return self._class(origin)
        raise UnsupportedHint

    def _union(self, inner: tuple[Any, ...]) -> Converter:
        by_type: dict[str, Converter] = {}
        converters = [self.of(part) for part in inner]
        others = [converter for converter in converters if converter.kinds != ("null",)]
        if len(others) > 1 and any(converter.is_foreign or not converter.kinds for converter in others):
            raise UnsupportedHint
        for converter in converters:
            main = [kind for kind in converter.kinds if kind not in _NUMBERS] or converter.kinds[:1]
            if any(kind in by_type for kind in main):
                raise UnsupportedHint
            by_type.update(dict.fromkeys(main, converter))
        for converter in converters:
            for kind in converter.kinds:
                by_type.setdefault(kind, converter)
        lone = others[0] if len(others) == 1 else None
        if lone is not None and not lone.kinds:
            return Converter((), lambda value: None if value is None else lone(value), is_foreign=lone.is_foreign)
        return Converter(tuple(by_type), lambda value: by_type[json_type(value)](value))

    def _items(self, collect: Callable[[Iterable[Any]], Any], item: Any) -> Converter:
        converter = self.of(item)
        return Converter(("array",), lambda value: collect(_convert_each(value, itertools.repeat(converter))))

    def _tuple(self, inner: tuple[Any, ...]) -> Converter:
        if len(inner) == 2 and inner[1] is ...:  # noqa: PLR2004 - `tuple[X, ...]`
            return self._items(tuple, inner[0])
        converters = [] if inner == ((),) else [self.of(part) for part in inner]

        def make(given: list[Any]) -> tuple[Any, ...]:
            if len(given) != len(converters):
                raise Mismatch(f"Expected `array` of length {len(converters)}, got {len(given)}")
            return tuple(_convert_each(given, converters))

        return Converter(("array",), make)

    def _dict(self, key: Any, value: Any) -> Converter:
        make_key, make_value = self._key(key), self.of(value)

        def make(given: dict[str, Any]) -> dict[Any, Any]:
            return {
                make_key(name): convert_at(f"[{json.dumps(name)}]", make_value, inner) for name, inner in given.items()
            }

        return Converter(("object",), make)

    def _key(self, hint: Any) -> Convert:
        converter = self.of(hint)
        if "str" in converter.kinds or not converter.kinds:
            return converter
        if "int" in converter.kinds:
            return lambda name: converter(int(name))
        if "float" in converter.kinds:
            return lambda name: converter(float(name))
        raise UnsupportedHint

    def _class(self, kind: type) -> Converter:  # noqa: PLR0911 - one line per kind of class
        if issubclass(kind, enum.Enum):
            return _literal([member.value for member in kind], kind)
        if is_uuid_or_decimal(kind):
            return Converter(("str",), kind) if kind.__name__ == "UUID" else _decimal(kind)
        if issubclass(kind, pathlib.PurePath):
            return Converter(("str",), kind, is_foreign=True)
        if hasattr(kind, "model_validate"):
            return Converter((), kind.model_validate, is_foreign=True)
        if hasattr(kind, "__struct_fields__") and "msgspec" in sys.modules:
            return Converter((), functools.partial(sys.modules["msgspec"].convert, type=kind), is_foreign=True)
        if dataclasses.is_dataclass(kind):
            fields = {field.name: _is_required(field) for field in dataclasses.fields(kind) if field.init}
            return self._fields(kind, fields, _resolved(kind))
        if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
            hints = _resolved(kind)
            return self._fields(kind, {name: name in kind.__required_keys__ for name in hints}, hints)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._named_tuple(kind)
        raise UnsupportedHint

    def _fields(self, kind: type, fields: dict[str, bool], hints: dict[str, Any]) -> Converter:
        """`fields` says which are required. Others in the object are ignored."""
        converters = {name: self.of(hints[name]) for name in fields}
        required = [name for name, is_required in fields.items() if is_required]

        def make(given: dict[str, Any]) -> Any:
            for name in required:
                if name not in given:
                    raise Mismatch(f"Object missing required field `{name}`")
            present = ((name, converter) for name, converter in converters.items() if name in given)
            return kind(**{name: convert_at(f".{name}", converter, given[name]) for name, converter in present})

        return Converter(("object",), make)

    def _named_tuple(self, kind: Any) -> Converter:
        hints = _resolved(kind)
        converters = [self.of(hints.get(name, Any)) for name in kind._fields]
        least = len(converters) - len(kind._field_defaults)

        def make(given: list[Any]) -> Any:
            if not least <= len(given) <= len(converters):
                raise Mismatch(f"Expected `array` of length {least} to {len(converters)}, got {len(given)}")
            return kind(*_convert_each(given, converters))

        return Converter(("array",), make)


def _identity(value: Any) -> Any:
    return value


def _not_built(value: Any) -> Any:
    raise Mismatch(f"A converter was used before it was built, for {value!r}")


def convert_at(step: str, converter: Converter, value: Any) -> Any:
    try:
        return converter(value)
    except Mismatch as mismatch:
        raise mismatch.inside(step) from None


def _convert_each(values: list[Any], converters: Iterable[Converter]) -> Iterator[Any]:
    pairs = enumerate(zip(values, converters))  # noqa: B905 - `strict` is younger than Python 3.9
    return (convert_at(f"[{number}]", converter, value) for number, (value, converter) in pairs)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _literal(values: Iterable[Any], make: Convert = _identity) -> Converter:
    """One of these values and no other: `True` is not 1 here."""
    allowed = {(type(value), value) for value in values}
    kinds = {_JSON_TYPES.get(kind) for kind, _ in allowed}
    if None in kinds:
        raise UnsupportedHint

    def check(value: Any) -> Any:
        if make is _identity and (type(value), value) not in allowed:
            raise Mismatch(f"Invalid value {value!r}")
        return make(value)

    return Converter(tuple(sorted(typing.cast("set[str]", kinds))), check)


def _resolved(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception as error:
        raise UnsupportedHint from error


def _base64(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise Mismatch("Invalid base64 encoded string") from None


def _integer(value: float) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise Mismatch("Expected `int`, got `float`")
    return int(value)


def _datetime(value: str) -> dt.datetime:
    if "T" not in value and "t" not in value and " " not in value:
        raise Mismatch("Invalid RFC3339 encoded datetime")
    return dt.datetime.fromisoformat(_for_old_python(value))


def _for_old_python(value: str) -> str:
    """Python before 3.11 knows no `Z`, and no fraction but of three or six digits."""
    value = re.sub(r"[zZ]$", "+00:00", value)
    return re.sub(r"\.(\d+)", lambda found: f".{found[1][:6]:0<6}", value)


_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


def _timedelta(value: str) -> dt.timedelta:
    found = _DURATION.fullmatch(value)
    if found is None or value[-1] in "PpTt":
        raise Mismatch("Invalid ISO8601 duration")
    parts = {name: float(part) for name, part in found.groupdict().items() if part and name != "sign"}
    length = dt.timedelta(**parts)
    return -length if found["sign"] == "-" else length


def _decimal(kind: type) -> Converter:
    def make(value: Any) -> Any:
        try:
            return kind(value if isinstance(value, str) else repr(value))
        except ArithmeticError:
            raise Mismatch("Invalid decimal string") from None

    return Converter(("str", *_NUMBERS), make)


_SIMPLE: dict[Any, tuple[tuple[str, ...], Convert]] = {
    Any: ((), _identity),
    object: ((), _identity),
    str: (("str",), _identity),
    bool: (("bool",), _identity),
    type(None): (("null",), _identity),
    None: (("null",), _identity),
    int: (_NUMBERS, _integer),
    float: (("float", "int"), float),
    list: (("array",), _identity),
    dict: (("object",), _identity),
    set: (("array",), set),
    frozenset: (("array",), frozenset),
    tuple: (("array",), tuple),
    bytes: (("str",), _base64),
    bytearray: (("str",), lambda value: bytearray(_base64(value))),
    dt.datetime: (("str",), _datetime),
    dt.date: (("str",), dt.date.fromisoformat),
    dt.time: (("str",), lambda value: dt.time.fromisoformat(_for_old_python(value))),
    dt.timedelta: (("str",), _timedelta),
}
_LISTS: dict[Any, Callable[[Iterable[Any]], Any]] = {
    list: list,
    collections.abc.Collection: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    set: set,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
}
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_WRAPPERS = tuple(
    getattr(typing, name) for name in ("Final", "Required", "NotRequired", "ReadOnly") if hasattr(typing, name)
)
