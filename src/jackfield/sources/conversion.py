"""Arguments as a function's hints want them: JSON values into dataclasses, enums, dates, paths, sets.

Above: `inprocess.py`. Below: msgspec. Functions with plain hints only are not converted at all. What a hint
cannot be checked for by msgspec is passed as it came.
"""

import inspect
import types
import typing
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import msgspec

Arguments = dict[str, Any]
Converter = Callable[[Arguments], Arguments]

_PLAIN = frozenset({str, bool, float, object, dict, list, type(None), Any, inspect.Parameter.empty})
_CONTAINERS = frozenset({list, dict})
_UNIONS = frozenset({typing.Union, types.UnionType})


def converter_for(function: Callable[..., Any], *, leave_out: frozenset[str]) -> Converter | None:
    """What turns checked arguments into those that `function` takes; None when they are so already."""
    hints = {name: hint for name, hint in _hints(function).items() if name not in leave_out}
    whole = frozenset(name for name, hint in hints.items() if _without_none(hint) is int)
    typed = {name: hint for name, hint in hints.items() if name not in whole and not _is_plain(hint)}
    shapes = {name: hint for name, hint in typed.items() if _can_convert(hint)}
    if shapes:
        return _Shapes(shapes, whole)
    return _WholeNumbers(whole) if whole else None


class _WholeNumbers:
    """`3.0` is an integer to JSON Schema; to Python it is not."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def __call__(self, arguments: Arguments) -> Arguments:
        floats = [name for name in self._names if type(arguments.get(name)) is float]
        return {**arguments, **{name: int(arguments[name]) for name in floats}} if floats else arguments


class _Shapes:
    """Converts the parameters that need it, all in one step."""

    def __init__(self, shapes: dict[str, Any], whole: frozenset[str]) -> None:
        make: Any = typing.TypedDict
        self._type = make("Arguments", shapes, total=False)
        self._whole = _WholeNumbers(whole)
        self._convert(dict[str, Any]())  # msgspec builds its plan for the type now, not in the first call

    def __call__(self, arguments: Arguments) -> Arguments:
        try:
            converted = self._convert(arguments)
        except msgspec.ValidationError:
            converted = self._convert(_whole_numbers(arguments))
        return {**self._whole(arguments), **converted}

    def _convert(self, arguments: Arguments) -> Arguments:
        converted: Arguments = msgspec.convert(arguments, self._type, dec_hook=_made, str_keys=True)
        return converted


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters' hints, resolved one by one: one that cannot be resolved does not spoil the others."""
    hints: dict[str, Any] = {}
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError, NameError):
        return hints
    for name, parameter in parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD or parameter.annotation is inspect.Parameter.empty:
            continue
        holder = types.SimpleNamespace(__annotations__={name: parameter.annotation})
        try:
            hint = typing.get_type_hints(holder, getattr(function, "__globals__", {}), include_extras=True)[name]
            hints[name] = hint if parameter.default is not None or _is_plain(hint) else hint | None
        except Exception:  # noqa: BLE001, S112 - a hint is any expression; one that fails says nothing
            continue
    return hints


def _is_plain(hint: Any) -> bool:
    """Whether JSON's own values are what the hint wants."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _is_plain(inner[0])
    if origin is typing.Literal:
        return True
    if origin in _UNIONS or origin in _CONTAINERS:
        return all(_is_plain(part) for part in inner)
    try:
        return hint in _PLAIN
    except TypeError:
        return False


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) is typing.Annotated:
        return _without_none(typing.get_args(hint)[0])
    if typing.get_origin(hint) in _UNIONS:
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else hint
    return hint


def _can_convert(hint: Any) -> bool:
    """Whether msgspec, with our help for paths and models, knows every type in the hint."""
    try:
        return all(_is_made_here(kind) for kind in _foreign_types(msgspec.inspect.type_info(hint)))
    except Exception:  # noqa: BLE001 - a hint is any object, and msgspec may refuse it in many ways
        return False


def _foreign_types(info: msgspec.inspect.Type) -> list[type]:
    """The types in `info` that msgspec does not know itself."""
    found: list[type] = []
    seen: set[int] = set()
    waiting: list[Any] = [info]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field) and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, msgspec.inspect.CustomType):
                found.append(part.cls)
            waiting.extend(getattr(part, name) for name in part.__struct_fields__)
    return found


def _is_made_here(kind: type) -> bool:
    return issubclass(kind, PurePath) or hasattr(kind, "model_validate")


def _made(kind: type, value: Any) -> Any:
    """The hook for types that msgspec does not know: a path from its text, a pydantic model from its object."""
    if issubclass(kind, PurePath):
        return kind(value)
    return kind.model_validate(value)  # type: ignore[attr-defined]


def _whole_numbers(value: Any) -> Any:
    """The same JSON value with every `3.0` as `3`; where a float is wanted, msgspec makes it one again."""
    if isinstance(value, dict):
        return {key: _whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
