"""Tool files in the gateway's own process: loads one version of a file, and runs its functions.

`async def` is awaited in the event loop; `def` runs in a thread. Whatever a function does to end badly is an
outcome here, and its traceback goes to the log only.
Above: `files.py`. Below: `threads.py`, `conversion.py`, `context.py`.
"""

import asyncio
import inspect
import itertools
import logging
import re
import sys
import traceback
import types
import typing
from collections.abc import Callable, Coroutine
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.call import Done, Failed, Outcome, done
from jackfield.model.text import with_article
from jackfield.sources.base import Invocation
from jackfield.sources.context import Context, Lent
from jackfield.sources.pyfile.reader import CONTEXT_PARAMETER
from jackfield.sources.threads import MOST_ABANDONED, Lane, Stuck, Threads

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


logger = logging.getLogger("jackfield.tools")

_CANNOT_ENCODE = (TypeError, ValueError, OverflowError, RecursionError)
_numbers = itertools.count(1)


class LoadedFunction(Struct, frozen=True, kw_only=True):
    """A real function, with all that can be known before its first call."""

    call: Callable[..., Any]
    is_async: bool
    wants_context: bool
    convert: Converter | None


class FileVersion:
    """One text of one file. Loaded at the first call, once; the text is the one whose tools were listed."""

    def __init__(self, path: Path, *, label: str, text: str, threads: Threads, lent: Lent) -> None:
        self.label = label
        self.threads = threads
        self.lent = lent
        self._path = path
        self._text = text
        self._module = f"jackfield_tool_file_{next(_numbers)}_{re.sub(r'[^a-zA-Z0-9_]', '_', path.stem)}"
        self._loading: asyncio.Future[ModuleType | Failed] | None = None
        self._tools: dict[str, InProcessTool] = {}
        self._calls = 0
        self._dropped = False
        self.load_fault: str | None = None
        """Why the last attempt to load it failed, if it did; and its traceback."""
        self.load_trace: str | None = None

    def tool(self, function: str) -> "InProcessTool":
        """The tool that a function of this file is; always the same one, for it counts its own threads."""
        return self._tools.setdefault(function, InProcessTool(self, function))

    async def function(self, name: str) -> LoadedFunction | Failed:
        """The function of this name, after loading the file if nobody has. A failed load is tried again next time."""
        loading = self._loading
        if loading is None:
            loading = self._loading = self.threads.run(self._load)
        module = await asyncio.shield(loading)
        if isinstance(module, Failed):
            if self._loading is loading:
                self._loading = None
            return module
        return await self.threads.run(lambda: self._find(module, name))

    def enter(self) -> None:
        """A call of this version begins."""
        self._calls += 1

    def leave(self) -> None:
        """A call of this version is over."""
        self._calls -= 1
        self._unload()

    def drop(self) -> None:
        """The file has another text now, or is gone. Calls that run finish on this one."""
        self._dropped = True
        self._unload()

    def _unload(self) -> None:
        if self._dropped and not self._calls:
            sys.modules.pop(self._module, None)

    def _load(self) -> ModuleType | Failed:
        module = ModuleType(self._module)
        module.__file__ = str(self._path)
        sys.modules[self._module] = module  # dataclasses and forward references look their module up there
        try:
            code = compile(self._text, str(self._path), "exec", dont_inherit=True)
            exec(code, module.__dict__)  # noqa: S102 - the operator's own tool file
        except BaseException as error:  # the border to a tool file
            sys.modules.pop(self._module, None)
            logger.warning("The tool file %s could not be loaded", self.label, exc_info=error)
            self.load_trace = _traceback(error)
            self.load_fault = (
                f"The file {self.label} could not be loaded: {_words(error)}. Correct it, or install what it imports."
            )
            return Failed("tool_error", self.load_fault)
        self.load_fault = self.load_trace = None
        return module

    def _find(self, module: ModuleType, name: str) -> LoadedFunction | Failed:
        call = getattr(module, name, None)
        if not callable(call):
            return Failed("tool_error", f"'{name}' is not a function after {self.label} was loaded. Correct the file.")
        return LoadedFunction(
            call=call,
            is_async=inspect.iscoroutinefunction(call),
            wants_context=_takes_context(call),
            convert=converter_for(call, leave_out=frozenset({CONTEXT_PARAMETER, "return"})),
        )


class InProcessTool:
    """One function of one file version, as a tool that can be called."""

    def __init__(self, version: FileVersion, function: str) -> None:
        self._version = version
        self._function = function
        self._lane = Lane(version.threads)
        self._loaded: LoadedFunction | None = None

    async def run(self, invocation: Invocation) -> Outcome:
        """One call. Never raises but for cancellation, which stops an `async def` and abandons a thread."""
        self._version.enter()
        try:
            loaded = self._loaded
            if loaded is None:
                found = await self._version.function(self._function)
                if isinstance(found, Failed):
                    if self._version.load_trace is not None:
                        invocation.trace(self._version.load_trace)
                    return found
                loaded = self._loaded = found
            return await self._call(loaded, invocation)
        finally:
            self._version.leave()

    async def _call(self, loaded: LoadedFunction, invocation: Invocation) -> Outcome:
        arguments = invocation.arguments
        if loaded.convert is not None:
            try:
                arguments = loaded.convert(arguments)
            except (msgspec.ValidationError, ValueError, OverflowError) as error:
                return Failed("invalid_arguments", f"The arguments do not fit '{self._function}': {error}")
        if loaded.wants_context:
            context = Context(invocation, self._version.lent, asyncio.get_running_loop())
            arguments = {**arguments, CONTEXT_PARAMETER: context}
        if loaded.is_async:
            return await _awaited(loaded.call, arguments, invocation)
        try:
            ended = await self._lane.run(lambda: _in_thread(loaded.call, arguments, invocation))
        except Stuck:
            return Failed("tool_stuck", _stuck_sentence(invocation.tool.name, self._version.label))
        if isinstance(ended, Done | Failed):
            return ended
        return await _awaited(lambda: ended, {}, invocation)


async def _awaited(call: Callable[..., Any], arguments: dict[str, Any], invocation: Invocation) -> Done | Failed:
    try:
        return _encoded(await call(**arguments))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _failed(error, invocation)
    except BaseException as error:  # noqa: BLE001 - the border to a tool; SystemExit must not end the gateway
        return _failed(error, invocation)


def _in_thread(
    call: Callable[..., Any], arguments: dict[str, Any], invocation: Invocation
) -> Done | Failed | Coroutine[Any, Any, Any]:
    """The whole call of a plain function. A wrapped `async def` gives a coroutine, which belongs to the event loop."""
    try:
        result = call(**arguments)
        return result if inspect.iscoroutine(result) else _encoded(result)
    except BaseException as error:  # noqa: BLE001 - the border to a tool; SystemExit must not end the gateway
        return _failed(error, invocation)


def _encoded(result: Any) -> Done | Failed:
    try:
        return done(result)
    except _CANNOT_ENCODE:
        pass
    try:
        return done(msgspec.to_builtins(result, enc_hook=_plain))
    except _CANNOT_ENCODE as error:
        said = f"The tool returned {with_article(type(result).__name__)} that JSON cannot hold: {error}."
        return Failed("bad_result", f"{said} Return text, numbers, lists, dicts or dataclasses.")


def _plain(value: Any) -> Any:
    """The hook for what msgspec does not know: a path as its text, a pydantic model as its object."""
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{with_article(type(value).__name__)} is not a JSON value")


def _failed(error: BaseException, invocation: Invocation) -> Failed:
    told = None if invocation.tool.metadata.sensitive_output else error  # its words are not for the log
    logger.warning("Tool %s failed in call %s", invocation.tool.name, invocation.call_id, exc_info=told)
    if told is not None:
        invocation.trace(_traceback(error))
    return Failed("tool_error", _words(error))


def _traceback(error: BaseException) -> str:
    """As Python prints it, from the tool's own code on: without the frame that called it."""
    ours = error.__traceback__
    try:
        return "".join(traceback.format_exception(type(error), error, None if ours is None else ours.tb_next))
    except Exception:  # noqa: BLE001 - a tool's own exception class may fail at this
        return type(error).__name__


def _words(error: BaseException) -> str:
    """`ValueError: …`, without the path that an import error carries."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a tool's own exception class may fail at this too
        said = ""
    if isinstance(error, ImportError) and error.path:
        said = said.replace(f" ({error.path})", "")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _stuck_sentence(tool: str, label: str) -> str:
    return (
        f"{MOST_ABANDONED} calls of '{tool}' were given up and still run, so no more are started. "
        f"Correct the function in {label}, for example with a timeout of its own, and save the file."
    )


def _takes_context(call: Callable[..., Any]) -> bool:
    try:
        return CONTEXT_PARAMETER in inspect.signature(call).parameters
    except (TypeError, ValueError):
        return False
