"""A tool's function: found in the file's namespace, and its arguments fitted to its signature."""

from __future__ import annotations

import contextlib
import inspect
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .api import Context
from .encoding import error_message
from .hints import UNIONS, Converter, Converters, convert_at

if TYPE_CHECKING:
    from .call import RunningCall

CONTEXT_PARAMETER = "ctx"
"""A parameter of this name receives the call's `Context`; callers cannot set it."""
_PLAIN_HINTS = (str, bool, float, object, dict, list, type(None), Any, inspect.Parameter.empty)


class BadArguments(Exception):
    """Arguments that this function does not take."""


class Function:
    """A tool's function and what its signature tells, worked out before the first call."""

    __slots__ = ("call", "convert", "is_async", "is_direct", "name", "wants_context")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call
        self.is_async = inspect.iscoroutinefunction(call)
        try:
            parameters = dict(inspect.signature(call).parameters)
        except (TypeError, ValueError, NameError):
            parameters = {}
        self.wants_context = CONTEXT_PARAMETER in parameters
        self.convert = _argument_converter(call, parameters)
        self.is_direct = self.convert is None and not self.wants_context

    def arguments(self, given: dict[str, Any], call: RunningCall) -> dict[str, Any]:
        """The arguments as the function wants them. Raises `BadArguments`."""
        if self.convert is not None:
            try:
                given = self.convert(given)
            except (ValueError, OverflowError) as error:
                raise BadArguments(error_message(error)) from None
        return {**given, CONTEXT_PARAMETER: Context(call)} if self.wants_context else given

    def argument_error(self, error: BaseException, given: dict[str, Any]) -> str | None:
        """What is wrong with the arguments, if they are why the call failed."""
        if isinstance(error, BadArguments):
            return error_message(error)
        if not isinstance(error, TypeError):
            return None
        try:
            context = {CONTEXT_PARAMETER: None} if self.wants_context else {}
            inspect.signature(self.call).bind(**{**given, **context})
        except TypeError as unbound:
            return error_message(unbound)
        except ValueError:
            return None
        return None


def public_names(namespace: dict[str, Any]) -> list[str]:
    """`__all__`, or every public name that holds a function and is not one of ours."""
    exported = namespace.get("__all__")
    names = list(namespace) if exported is None else exported
    return sorted(name for name in names if is_tool(name, namespace))


def is_tool(name: str, namespace: dict[str, Any]) -> bool:
    value, exported = namespace.get(name), namespace.get("__all__")
    try:
        if not callable(value) or isinstance(value, type):
            return False
        if exported is not None:
            return name in exported
        return not name.startswith("_") and not f"{getattr(value, '__module__', '')}.".startswith(f"{__package__}.")
    except Exception:  # noqa: BLE001 - a lazy proxy may fail when looked at
        return False


class ArgumentConverter:
    """Converts the arguments of a call to what the function's hints say."""

    def __init__(self, converters: dict[str, Converter], integers: list[str]) -> None:
        self._converters = converters
        self._integers = integers

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        made = {
            name: convert_at(f".{name}", converter, arguments[name])
            for name, converter in self._converters.items()
            if name in arguments
        }
        for name in self._integers:  # `3.0` is an integer to JSON Schema; to Python it is not
            if type(arguments.get(name)) is float:
                made[name] = int(arguments[name])
        return {**arguments, **made} if made else arguments


def _argument_converter(
    function: Callable[..., Any], parameters: dict[str, inspect.Parameter]
) -> ArgumentConverter | None:
    """None when plain JSON values fit all hints."""
    converters, integers, known = {}, [], Converters()
    for name, hint in _hints(function, parameters).items():
        if _without_none(hint) is int:
            integers.append(name)
        elif not _is_plain(hint):
            with contextlib.suppress(Exception):  # a hint is any object, and may refuse to be looked at
                converters[name] = known.of(hint)
    return ArgumentConverter(converters, integers) if converters or integers else None


def _hints(function: Callable[..., Any], parameters: dict[str, inspect.Parameter]) -> dict[str, Any]:
    """The parameters' hints, resolved one by one: an unresolvable one does not affect the others."""
    found: dict[str, Any] = {}
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    for name, parameter in parameters.items():
        unhinted = parameter.annotation is inspect.Parameter.empty
        if unhinted or name == CONTEXT_PARAMETER or parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        holder = types.SimpleNamespace(__annotations__={name: parameter.annotation})
        try:
            hint = typing.get_type_hints(holder, namespace, include_extras=True)[name]
        except Exception:  # noqa: BLE001, S112 - a hint is any expression; one that fails says nothing
            continue
        if parameter.default is None and not _is_plain(hint):
            hint = typing.Optional[hint]  # noqa: UP045 - Python 3.9 has no other way
        found[name] = hint
    return found


def _is_plain(hint: Any) -> bool:
    """Whether plain JSON values fit the hint."""
    if hasattr(hint, "__metadata__"):
        return _is_plain(hint.__origin__)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return True
    if origin in UNIONS or origin in (list, dict):
        return all(_is_plain(part) for part in inner)
    try:
        return hint in _PLAIN_HINTS
    except Exception:  # noqa: BLE001 - comparing is the hint's own affair
        return False


def _without_none(hint: Any) -> Any:
    if hasattr(hint, "__metadata__"):
        return _without_none(hint.__origin__)
    if typing.get_origin(hint) in UNIONS:
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else hint
    return hint
