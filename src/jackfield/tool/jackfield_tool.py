"""What a tool file may import, and the loop that runs it in a worker process. One file, standard library only.

For authors of tool files (`import jackfield_tool`, or `ot_sdk` in files of that era):

    from jackfield_tool import get_config, get_secret, log, call_tool, report_progress

    async def forecast(city: str) -> dict:
        with log("forecast", city=city) as span:
            place = await call_tool("geocode", city=city)     # in a plain def: without await
            report_progress(1, total=2, message="found the place")
            span.add(country=place["country"])
            return {"units": get_config("units", "metric"), "signed": bool(get_secret("WEATHER_KEY"))}

For the gateway, which starts one process per file version, fd 0 and 1 being one end of a socketpair:

    python FOLDER-OF-THIS-FILE serve FILE --options JSON    the file is imported, many calls at once
    python FOLDER-OF-THIS-FILE script FILE --options JSON   the file reads stdin and prints answers itself

(Naming this file instead of its folder does the same; it only costs Python the time to compile it.)

Above: the author's file. Below: the channel to the gateway, one JSON object per line. Order of this file: the
authors' part, a call, results to JSON, arguments to Python, functions, threads, the channel, the loop, the start.
Runs on Python 3.9 and later, in an environment that holds the tool file's dependencies and nothing of ours.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import collections.abc
import concurrent.futures
import contextlib
import contextvars
import dataclasses
import datetime as dt
import enum
import faulthandler
import fcntl
import functools
import gc
import importlib.util
import inspect
import itertools
import json
import math
import os
import pathlib
import queue
import re
import runpy
import select
import selectors
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import traceback
import types
import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from json.encoder import encode_basestring
from typing import Any, TypeVar

_IS_STARTED = __name__ == "__main__"
if _IS_STARTED:
    __name__ = "jackfield_tool"  # what is defined below carries this name, however the process was started
    sys.modules[__name__] = sys.modules["__main__"]

__all__ = [
    "Context",
    "Span",
    "ToolError",
    "batch_execute",
    "cache",
    "call_tool",
    "format_batch_results",
    "format_error",
    "get_config",
    "get_pack",
    "get_secret",
    "log",
    "normalize_items",
    "report_progress",
    "run_command",
    "truncate",
    "worker_main",
]

PROTOCOL = 1
"""Said in the READY line; another number means that gateway and worker do not fit."""
CONTEXT_PARAMETER = "ctx"
"""A parameter of this name is not the caller's to give: it gets the call's `Context`."""
DEFAULT_THREADS = 16
READ_BYTES = 262_144
PROGRESS_BACKLOG = 1_048_576
"""Bytes that wait to be sent at which progress reports are dropped; answers never are."""
SWITCH_SECONDS = 0.001
"""How long a busy thread may keep the loop from its turn; Python's own five milliseconds are felt in every call."""

_LONGEST_TRACE = 16_000
_T = TypeVar("_T")
_Function_T = TypeVar("_Function_T", bound=Callable[..., Any])


# For authors of tool files


class ToolError(Exception):
    """A tool that was called with `call_tool` gave no result. `code` says why, `result` is what it sent along."""

    def __init__(self, message: str, *, code: str = "tool_error", result: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.result = result


def get_config(path: str | None = None, default: Any = None) -> Any:
    """This call's configuration: all of it, or what is at a dotted path."""
    call = _current.get()
    value: Any = {} if call is None else call.config
    for part in path.split(".") if path else ():
        if not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value


def get_secret(name: str) -> str | None:
    """A secret that this call may use; None when there is none of that name."""
    call = _current.get()
    return None if call is None else call.secrets.get(name)


def call_tool(name: str, /, **kwargs: Any) -> Any:
    """Another tool of the catalog. In a plain function this waits and returns the result; in an `async def` it gives
    something to await. Raises `ToolError`.
    """
    call = _current.get()
    if call is None:
        raise RuntimeError(f"call_tool({name!r}) works only while a call runs, in its own tasks and threads.")
    return call.worker.call_tool(call, name.replace(".", "_"), kwargs)


def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Tell whoever follows this call how far it is. Outside of a call nobody does."""
    call = _current.get()
    if call is not None:
        call.worker.report(call, progress, total, message)


def log(name: str, **attributes: Any) -> Span:
    """A span for a `with` block, which becomes one JSON line in the worker's log when the block ends."""
    return Span(name, attributes)


class Span:
    """A piece of work: how long it took, and what was noted about it."""

    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        self.name = name
        self.attributes = attributes
        self._began = time.perf_counter()

    def add(self, key: str | None = None, value: Any = None, **attributes: Any) -> Span:
        """Note `add("hits", 3)` or `add(hits=3, cached=True)`."""
        if key is not None:
            self.attributes[key] = value
        self.attributes.update(attributes)
        return self

    def __enter__(self) -> Span:  # noqa: PYI034 - `Self` is younger than Python 3.9
        self._began = time.perf_counter()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        elapsed = round((time.perf_counter() - self._began) * 1000, 2)
        entry = {"span": self.name, "elapsed_ms": elapsed, **self.attributes}
        if error is not None:
            entry["error"] = _words(error)
        _write_log(entry)


def get_pack(name: str) -> Any:
    """The tools of a pack as functions: `get_pack("brave").search(query=…)` calls the tool `brave_search`."""
    return _Pack(name)


class _Pack:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Callable[..., Any]:
        if function.startswith("_"):
            raise AttributeError(function)
        return functools.partial(call_tool, f"{self._name}_{function}")


class Context:
    """`ctx`: the call as a function sees it that has a parameter of this name. The names are those that a file
    without a process of its own gets; what only the gateway's process has is refused with a sentence.
    """

    def __init__(self, call: _Call) -> None:
        self._call = call

    def __repr__(self) -> str:
        return f"Context(function={self._call.function!r}, call_id={self.call_id!r})"

    def __getattr__(self, name: str) -> Any:
        said = f"ctx.{name} is not there in a worker process."
        if name in _GATEWAY_ONLY:
            said += " Remove the '# /// script' block to run the file in the gateway's process, which has it."
        raise AttributeError(said)

    @property
    def call_id(self) -> Any:
        return self._call.id

    @property
    def config(self) -> dict[str, Any]:
        """This source's `config`, as of this call; yours to change."""
        return self._call.config

    def secret(self, name: str) -> str | None:
        """The secret's value; None when it is not set, or not among this source's `secrets`."""
        return self._call.secrets.get(name)

    def call_tool(self, name: str, /, **arguments: Any) -> Any:
        """As the function `call_tool`."""
        return self._call.worker.call_tool(self._call, name, arguments)

    def call_tool_sync(self, name: str, /, **arguments: Any) -> Any:
        """`call_tool` for a plain `def`, which runs in a thread."""
        if _in_event_loop():
            raise RuntimeError("call_tool_sync would stop the event loop here. In an async def, await ctx.call_tool.")
        return self._call.worker.call_tool(self._call, name, arguments)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell whoever follows this call how far it is."""
        self._call.worker.report(self._call, progress, total, message)

    def log(self, message: str, *, level: int = 20, **fields: Any) -> None:
        """A line in the worker's log that names the call."""
        _write_log({"log": message, "level": level, **fields}, self._call)


_GATEWAY_ONLY = frozenset({"agent", "model", "registry", "run_id", "settings"})


def truncate(text: str, max_length: int = 4000, indicator: str = "...") -> str:
    """The text, cut to `max_length` characters with the indicator among them."""
    return text if len(text) <= max_length else text[: max(0, max_length - len(indicator))] + indicator


def format_error(message: str, details: dict[str, Any] | None = None) -> str:
    """`Error: message (key=value, …)`."""
    noted = ", ".join(f"{key}={value}" for key, value in (details or {}).items())
    return f"Error: {message} ({noted})" if noted else f"Error: {message}"


def run_command(args: list[str], *, timeout: float = 30.0, cwd: str | None = None) -> tuple[int, str, str]:
    """A program's exit code, output and error output."""
    ended = subprocess.run(args, timeout=timeout, cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603 - the author's own command
    return ended.returncode, ended.stdout, ended.stderr


def normalize_items(items: Iterable[str | tuple[str, str]]) -> list[tuple[str, str]]:
    """Each item as (value, label); a bare string is both."""
    return [(item, item) if isinstance(item, str) else (item[0], item[1]) for item in items]


def batch_execute(
    func: Callable[[str, str], tuple[str, _T]],
    items: list[tuple[str, str]],
    *,
    max_workers: int | None = None,
    preserve_order: bool = True,
) -> dict[str, _T]:
    """`func(value, label)` for every item, in threads that belong to this call; its (label, result) pairs as a dict."""
    if not items:
        return {}
    most = max_workers or min(len(items), 10)
    with concurrent.futures.ThreadPoolExecutor(max_workers=most) as threads:
        begun = [threads.submit(contextvars.copy_context().run, func, value, label) for value, label in items]
        results = dict(future.result() for future in concurrent.futures.as_completed(begun))
    if not preserve_order:
        return results
    return {label: results[label] for _, label in items if label in results}


def format_batch_results(results: dict[str, Any], items: list[tuple[str, str]], separator: str = "===") -> str:
    """The results in the items' order, each under a line with its label."""
    parts = (f"{separator} {label} {separator}\n{results[label]}" for _, label in items if label in results)
    return "\n\n".join(parts)


class _Cache:
    """`@cache(ttl=60)` remembers a function's results; `cache.set`, `cache.get` and `cache.clear` remember anything."""

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[float, Any]] = {}

    def get(self, key: Any) -> Any:
        until, value = self._kept.get(key, (0.0, None))
        return value if time.monotonic() < until else None

    def set(self, key: Any, value: Any, ttl: float = 300.0) -> None:
        self._kept[key] = (time.monotonic() + ttl, value)

    def clear(self, key: Any = None) -> None:
        if key is None:
            self._kept.clear()
        else:
            self._kept.pop(key, None)

    def __call__(self, ttl: float = 300.0) -> Callable[[_Function_T], _Function_T]:
        def remembering(function: _Function_T) -> _Function_T:
            @functools.wraps(function)
            def remembered(*args: Any, **kwargs: Any) -> Any:
                key = (function, repr(args), repr(sorted(kwargs.items())))
                if time.monotonic() >= self._kept.get(key, (0.0, None))[0]:
                    self.set(key, function(*args, **kwargs), ttl)
                return self._kept[key][1]

            return typing.cast("_Function_T", remembered)

        return remembering


cache = _Cache()


def worker_main() -> None:
    """Serve the calling file's public functions on stdin and stdout, until they end. A file that the gateway has
    imported is served anyway, and this does nothing.
    """
    if _state.serving:
        return
    _serve_by_hand(sys._getframe(1).f_globals)  # noqa: SLF001 - the only way to the caller's functions


_NOT_PROVIDED = re.compile(
    "http|safe_request|api_headers|check_api_key|(lazy_c|LazyC)lient|(requires|check|ensure)_(cli|lib)|check_deps|"
    "Dependency|DepsCheckResult|get_ot_dir|(expand|get_config|get_project|resolve|resolve_cwd|resolve_ot)_path"
)
"""Names of the seed's era that need more than the standard library, or its own folders."""


def __getattr__(name: str) -> Any:
    if _NOT_PROVIDED.fullmatch(name):
        cure = "Use a package for it: import it in your file, and list it under dependencies in its script block."
        if "path" in name or name == "get_ot_dir":
            cure = "Use pathlib, and get_config() for what depends on the place."
        raise ImportError(f"jackfield_tool has no '{name}': it is one file of the standard library. {cure}")
    raise AttributeError(f"module 'jackfield_tool' has no attribute '{name}'. It has: {', '.join(__all__)}.")


# A call


class _Call:
    """One request and what it may see. A plain function's thread and a cancellation may both want to be the one who
    answers: it is who sets `begun`, under the worker's lock.
    """

    begun = False
    answered = False
    cancelled = False
    task: asyncio.Task[None] | None = None

    def __init__(self, worker: _Worker, message: dict[str, Any]) -> None:
        self.worker = worker
        self.message = message
        self.id = given = message.get("id")
        self.key: Any = given
        if type(given) is str:
            self.head = f'{{"id":{encode_basestring(given)},'
        elif type(given) is int:
            self.head = f'{{"id":{given},'
        else:  # a parent of the seed's era knows no ids
            self.key = self
            self.head = f'{{"id":{_to_json(given)},' if "id" in message else "{"

    @property
    def function(self) -> Any:
        return self.message.get("function")

    @property
    def config(self) -> dict[str, Any]:
        return self.message.get("config") or {}

    @property
    def secrets(self) -> dict[str, str]:
        return self.message.get("secrets") or {}

    def done(self, result: Any) -> bytes:
        """The answer that carries a result, or says that JSON cannot hold it."""
        try:
            return f'{self.head}"result":{_to_json(result)},"error":null}}\n'.encode()
        except Exception as error:  # noqa: BLE001 - the tool's own objects take part in this
            said = f"The tool returned {_a(result)} that JSON cannot hold: {_message(error)}."
            return self.failed("bad_result", f"{said} Return text, numbers, lists, dicts or dataclasses.")

    def failed(self, code: str, said: str, *, trace: str = "") -> bytes:
        more = f',"trace":{_sentence(trace[-_LONGEST_TRACE:])}' if trace else ""
        return f'{self.head}"result":null,"error":{_sentence(said)},"code":"{code}"{more}}}\n'.encode()


_current: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("jackfield_call", default=None)


def _words(error: BaseException) -> str:
    """`ValueError: …`, without the path that an import error carries."""
    said = _message(error)
    if isinstance(error, ImportError) and isinstance(error.path, str):
        said = said.replace(f" ({error.path})", "")
    return f"{_class_name(error)}: {said}" if said else _class_name(error)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - a tool's own exception class may fail at this too
        return ""


def _class_name(value: object) -> str:
    """Past a metaclass that has its own idea of names."""
    return str(type.__dict__["__name__"].__get__(type(value)))


def _a(value: object) -> str:
    """`an object`, `a set`."""
    name = _class_name(value)
    return f"{'an' if name[:1].lower() in ('a', 'e', 'i', 'o') else 'a'} {name}"


def _sentence(said: str) -> str:
    """The text as JSON. Half of a surrogate pair, which no UTF-8 can hold, becomes a question mark."""
    return encode_basestring(said.encode("utf-8", "replace").decode())


# Results to JSON


def _to_json(value: Any) -> str:
    """JSON as the gateway writes it for a file in its own process. Raises when there is none for this value."""
    if type(value) is str:
        return _text(value)
    encode = _encode_long if _holds_long_text(value) else _encode
    try:
        return "".join(encode(value, 0))
    except (ValueError, TypeError):
        return "".join(_encode(_plain(value), 0))


_LONG = 1000
_FEW = 16
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_RARE = tuple(chr(code) for code in range(32) if chr(code) not in "\n\r\t")


def _text(value: str) -> str:
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


def _object(value: Any) -> Any:  # noqa: C901, PLR0911 - one line per kind
    """What JSON's encoder does not know, as something that it does or that is asked for again."""
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
        return _duration(value)
    kind = type(value)
    if isinstance(value, pathlib.PurePath) or _is_late(kind):
        return str(value)
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in _fields_set(value)}
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(kind, "__struct_fields__") and "msgspec" in sys.modules:
        return sys.modules["msgspec"].to_builtins(value)
    if hasattr(kind, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in kind.__attrs_attrs__}
    raise TypeError(f"{_a(value)} is no JSON value")


def _is_late(kind: type) -> bool:
    """A UUID or a Decimal, by name: importing their modules would cost every worker some milliseconds."""
    return (kind.__module__, kind.__name__) in _LATE


_LATE = (("uuid", "UUID"), ("decimal", "Decimal"))


def _fields_set(value: Any) -> Iterator[dataclasses.Field[Any]]:
    return (field for field in dataclasses.fields(value) if hasattr(value, field.name))


def _duration(value: dt.timedelta) -> str:
    """ISO 8601: days and seconds."""
    sign, value = ("-", -value) if value < dt.timedelta(0) else ("", value)
    fraction = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    clock = f"T{value.seconds}{fraction}S" if value.seconds or fraction else ""
    days = f"{value.days}D" if value.days or not clock else ""
    return f"{sign}P{days}{clock}"


def _plain(value: Any) -> Any:
    """The slow way: every part by itself, NaN as null, keys as text."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_key(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return _plain(_object(value))


def _key(key: Any) -> Any:
    plain = key if isinstance(key, (str, int, float)) else _object(key)
    if isinstance(plain, (str, int, float)):
        return plain
    raise TypeError("Only dicts with str-like or number-like keys are supported")


def _make_encoder(text: Callable[[str], str]) -> Callable[[Any, int], Iterable[str]]:
    """The encoder inside `JSONEncoder`, made once instead of for every value. A value that holds itself ends in a
    RecursionError; the usual bookkeeping against it is not safe among threads.
    """
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    try:
        return make(None, _object, text, None, ":", ",", False, False, False)  # type: ignore[no-any-return]  # noqa: FBT003 - positions are all it takes
    except TypeError:
        encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_object)
        return lambda value, _: [encoder.encode(value)]


_encode = _make_encoder(encode_basestring)
_encode_long = _make_encoder(_text)


# Arguments to Python: JSON values into what the hints want. As in the gateway's process, a hint that is not
# understood whole passes its argument as it came.


class _Misfit(ValueError):
    """A value that its hint does not take."""

    def __init__(self, said: str, path: str = "") -> None:
        super().__init__(f"{said} - at `${path}`" if path else said)
        self.said = said
        self.path = path

    def under(self, step: str) -> _Misfit:
        return _Misfit(self.said, step + self.path)


class _NotUnderstood(Exception):
    """A hint with something in it that only its author knows how to make."""


_Make = Callable[[Any], Any]
_KINDS: dict[type, str] = {
    str: "str", bool: "bool", int: "int", float: "float", type(None): "null", list: "array", dict: "object",
}  # fmt: skip
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_JSON_TYPES = (str, bool, float, object, dict, list, type(None), Any, inspect.Parameter.empty)
_NUMBERS = ("int", "float")


class _Shape:
    """How a value of one hint is made, and from which kinds of JSON value."""

    __slots__ = ("is_foreign", "kinds", "make")

    def __init__(self, kinds: tuple[str, ...], make: _Make, *, is_foreign: bool = False) -> None:
        self.kinds = kinds
        self.make = make
        self.is_foreign = is_foreign

    def __call__(self, value: Any) -> Any:
        if self.kinds and _kind(value) not in self.kinds:
            raise _Misfit(f"Expected `{' | '.join(self.kinds)}`, got `{_kind(value)}`")
        try:
            return self.make(value)
        except _Misfit:
            raise
        except (ValueError, TypeError, ArithmeticError, LookupError) as error:
            raise _Misfit(_message(error) or _class_name(error)) from None


def _kind(value: Any) -> str:
    return _KINDS.get(type(value)) or _class_name(value)


class _Shapes:
    """Shapes by hint. A class that holds itself finds its shape here while it is being made."""

    def __init__(self) -> None:
        self._known: dict[Any, _Shape] = {}

    def of(self, hint: Any) -> _Shape:
        try:
            known = self._known.get(hint)
        except TypeError as error:
            raise _NotUnderstood from error
        if known is None:
            known = self._known[hint] = _Shape((), _unmade)
            try:
                made = self._made(hint)
            except BaseException:
                del self._known[hint]
                raise
            known.kinds, known.make, known.is_foreign = made.kinds, made.make, made.is_foreign
        return known

    def _made(self, hint: Any) -> _Shape:
        if hint in _LEAVES:
            kinds, make = _LEAVES[hint]
            return _Shape(kinds, make)
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin is not None:
            return self._generic(hint, origin, inner)
        if isinstance(hint, TypeVar):
            return _Shape((), _same)
        inside = getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)
        if inside is not None and not isinstance(hint, type):
            return self.of(inside)
        if isinstance(hint, type):
            return self._class(hint)
        raise _NotUnderstood

    def _generic(self, hint: Any, origin: Any, inner: tuple[Any, ...]) -> _Shape:  # noqa: PLR0911 - one per kind
        if origin is typing.Literal:
            return _literal(inner)
        if origin in _UNIONS:
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
        raise _NotUnderstood

    def _union(self, inner: tuple[Any, ...]) -> _Shape:
        by_kind: dict[str, _Shape] = {}
        shapes = [self.of(part) for part in inner]
        others = [shape for shape in shapes if shape.kinds != ("null",)]
        if len(others) > 1 and any(shape.is_foreign or not shape.kinds for shape in others):
            raise _NotUnderstood
        for shape in shapes:
            main = [kind for kind in shape.kinds if kind not in _NUMBERS] or shape.kinds[:1]
            if any(kind in by_kind for kind in main):
                raise _NotUnderstood
            by_kind.update(dict.fromkeys(main, shape))
        for shape in shapes:
            for kind in shape.kinds:
                by_kind.setdefault(kind, shape)
        lone = others[0] if len(others) == 1 else None
        if lone is not None and not lone.kinds:
            return _Shape((), lambda value: None if value is None else lone(value), is_foreign=lone.is_foreign)
        return _Shape(tuple(by_kind), lambda value: by_kind[_kind(value)](value))

    def _items(self, collect: Callable[[Iterable[Any]], Any], item: Any) -> _Shape:
        shape = self.of(item)
        return _Shape(("array",), lambda value: collect(_each(value, itertools.repeat(shape))))

    def _tuple(self, inner: tuple[Any, ...]) -> _Shape:
        if len(inner) == 2 and inner[1] is ...:  # noqa: PLR2004 - `tuple[X, ...]`
            return self._items(tuple, inner[0])
        shapes = [] if inner == ((),) else [self.of(part) for part in inner]
        return _Shape(("array",), lambda value: tuple(_each(_of_length(value, len(shapes)), shapes)))

    def _dict(self, key: Any, value: Any) -> _Shape:
        make_key, make_value = self._key(key), self.of(value)

        def make(given: dict[str, Any]) -> dict[Any, Any]:
            return {make_key(name): _at(f"[{json.dumps(name)}]", make_value, inner) for name, inner in given.items()}

        return _Shape(("object",), make)

    def _key(self, hint: Any) -> _Make:
        shape = self.of(hint)
        if "str" in shape.kinds or not shape.kinds:
            return shape
        if "int" in shape.kinds:
            return lambda name: shape(int(name))
        if "float" in shape.kinds:
            return lambda name: shape(float(name))
        raise _NotUnderstood

    def _class(self, kind: type) -> _Shape:  # noqa: PLR0911 - one line per kind of class
        if issubclass(kind, enum.Enum):
            return _literal([member.value for member in kind], kind)
        if _is_late(kind):
            return _Shape(("str",), kind) if kind.__name__ == "UUID" else _decimal(kind)
        if issubclass(kind, pathlib.PurePath):
            return _Shape(("str",), kind, is_foreign=True)
        if hasattr(kind, "model_validate"):
            return _Shape((), kind.model_validate, is_foreign=True)
        if hasattr(kind, "__struct_fields__") and "msgspec" in sys.modules:
            return _Shape((), functools.partial(sys.modules["msgspec"].convert, type=kind), is_foreign=True)
        if dataclasses.is_dataclass(kind):
            fields = {field.name: _is_required(field) for field in dataclasses.fields(kind) if field.init}
            return self._fields(kind, fields, _resolved(kind))
        if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
            hints = _resolved(kind)
            return self._fields(kind, {name: name in kind.__required_keys__ for name in hints}, hints)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._named_tuple(kind)
        raise _NotUnderstood

    def _fields(self, kind: type, fields: dict[str, bool], hints: dict[str, Any]) -> _Shape:
        """`fields` says which are required. Others in the object are ignored."""
        shapes = {name: self.of(hints[name]) for name in fields}
        required = [name for name, is_required in fields.items() if is_required]

        def make(given: dict[str, Any]) -> Any:
            for name in required:
                if name not in given:
                    raise _Misfit(f"Object missing required field `{name}`")
            return kind(
                **{name: _at(f".{name}", shape, given[name]) for name, shape in shapes.items() if name in given}
            )

        return _Shape(("object",), make)

    def _named_tuple(self, kind: Any) -> _Shape:
        hints = _resolved(kind)
        shapes = [self.of(hints.get(name, Any)) for name in kind._fields]
        least = len(shapes) - len(kind._field_defaults)

        def make(given: list[Any]) -> Any:
            if not least <= len(given) <= len(shapes):
                raise _Misfit(f"Expected `array` of length {least} to {len(shapes)}, got {len(given)}")
            return kind(*_each(given, shapes))

        return _Shape(("array",), make)


def _same(value: Any) -> Any:
    return value


def _unmade(value: Any) -> Any:
    raise _Misfit(f"A shape was used before it was made, for {value!r}")


def _at(step: str, shape: _Shape, value: Any) -> Any:
    try:
        return shape(value)
    except _Misfit as misfit:
        raise misfit.under(step) from None


def _each(values: list[Any], shapes: Iterable[_Shape]) -> Iterator[Any]:
    return (_at(f"[{number}]", shape, value) for number, (value, shape) in enumerate(zip(values, shapes)))  # noqa: B905 - as many shapes as asked for


def _of_length(value: list[Any], length: int) -> list[Any]:
    if len(value) != length:
        raise _Misfit(f"Expected `array` of length {length}, got {len(value)}")
    return value


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _literal(values: Iterable[Any], make: _Make = _same) -> _Shape:
    """One of these values and no other: `True` is not 1 here."""
    allowed = {(type(value), value) for value in values}
    kinds = {_KINDS.get(kind) for kind, _ in allowed}
    if None in kinds:
        raise _NotUnderstood

    def chosen(value: Any) -> Any:
        if make is _same and (type(value), value) not in allowed:
            raise _Misfit(f"Invalid value {value!r}")
        return make(value)

    return _Shape(tuple(sorted(typing.cast("set[str]", kinds))), chosen)


def _resolved(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception as error:
        raise _NotUnderstood from error


def _base64(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise _Misfit("Invalid base64 encoded string") from None


def _whole(value: float) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise _Misfit("Expected `int`, got `float`")
    return int(value)


def _moment(value: str) -> dt.datetime:
    if "T" not in value and "t" not in value and " " not in value:
        raise _Misfit("Invalid RFC3339 encoded datetime")
    return dt.datetime.fromisoformat(_old_spelling(value))


def _old_spelling(value: str) -> str:
    """Python before 3.11 knows no `Z`, and no fraction but of three or six digits."""
    value = re.sub(r"[zZ]$", "+00:00", value)
    return re.sub(r"\.(\d+)", lambda found: f".{found[1][:6]:0<6}", value)


_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<hours>\d+(?:\.\d+)?)H)?(?:(?P<minutes>\d+(?:\.\d+)?)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


def _span_of_time(value: str) -> dt.timedelta:
    found = _DURATION.fullmatch(value)
    if found is None or value[-1] in "PpTt":
        raise _Misfit("Invalid ISO8601 duration")
    parts = {name: float(part) for name, part in found.groupdict().items() if part and name != "sign"}
    length = dt.timedelta(**parts)
    return -length if found["sign"] == "-" else length


def _decimal(kind: type) -> _Shape:
    def make(value: Any) -> Any:
        try:
            return kind(value if isinstance(value, str) else repr(value))
        except ArithmeticError:
            raise _Misfit("Invalid decimal string") from None

    return _Shape(("str", *_NUMBERS), make)


_LEAVES: dict[Any, tuple[tuple[str, ...], _Make]] = {
    Any: ((), _same),
    object: ((), _same),
    str: (("str",), _same),
    bool: (("bool",), _same),
    type(None): (("null",), _same),
    None: (("null",), _same),
    int: (_NUMBERS, _whole),
    float: (("float", "int"), float),
    list: (("array",), _same),
    dict: (("object",), _same),
    set: (("array",), set),
    frozenset: (("array",), frozenset),
    tuple: (("array",), tuple),
    bytes: (("str",), _base64),
    bytearray: (("str",), lambda value: bytearray(_base64(value))),
    dt.datetime: (("str",), _moment),
    dt.date: (("str",), dt.date.fromisoformat),
    dt.time: (("str",), lambda value: dt.time.fromisoformat(_old_spelling(value))),
    dt.timedelta: (("str",), _span_of_time),
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


class _Conversion:
    """What turns a call's arguments into those that the function takes."""

    def __init__(self, shapes: dict[str, _Shape], whole: list[str]) -> None:
        self._shapes = shapes
        self._whole = whole

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        made = {
            name: _at(f".{name}", shape, arguments[name]) for name, shape in self._shapes.items() if name in arguments
        }
        for name in self._whole:  # `3.0` is an integer to JSON Schema; to Python it is not
            if type(arguments.get(name)) is float:
                made[name] = int(arguments[name])
        return {**arguments, **made} if made else arguments


def _conversion_for(function: Callable[..., Any], parameters: dict[str, inspect.Parameter]) -> _Conversion | None:
    """None when the hints want JSON's own values only."""
    shapes, whole, known = {}, [], _Shapes()
    for name, hint in _hints(function, parameters).items():
        if _without_none(hint) is int:
            whole.append(name)
        elif not _is_plain(hint):
            with contextlib.suppress(Exception):  # a hint is any object, and may refuse to be looked at
                shapes[name] = known.of(hint)
    return _Conversion(shapes, whole) if shapes or whole else None


def _hints(function: Callable[..., Any], parameters: dict[str, inspect.Parameter]) -> dict[str, Any]:
    """The parameters' hints, resolved one by one: one that cannot be resolved does not spoil the others."""
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
    """Whether JSON's own values are what the hint wants."""
    if hasattr(hint, "__metadata__"):
        return _is_plain(hint.__origin__)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return True
    if origin in _UNIONS or origin in (list, dict):
        return all(_is_plain(part) for part in inner)
    try:
        return hint in _JSON_TYPES
    except Exception:  # noqa: BLE001 - comparing is the hint's own affair
        return False


def _without_none(hint: Any) -> Any:
    if hasattr(hint, "__metadata__"):
        return _without_none(hint.__origin__)
    if typing.get_origin(hint) in _UNIONS:
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else hint
    return hint


# Functions


class _Unfit(Exception):
    """Arguments that this function does not take."""


class _Function:
    """A tool, with all that can be known before its first call."""

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
        self.convert = _conversion_for(call, parameters)
        self.is_direct = self.convert is None and not self.wants_context

    def arguments(self, given: dict[str, Any], call: _Call) -> dict[str, Any]:
        """The arguments as the function wants them. Raises `_Unfit`."""
        if self.convert is not None:
            try:
                given = self.convert(given)
            except (ValueError, OverflowError) as error:
                raise _Unfit(_message(error)) from None
        return {**given, CONTEXT_PARAMETER: Context(call)} if self.wants_context else given

    def misfit(self, error: BaseException, given: dict[str, Any]) -> str | None:
        """What is wrong with the arguments, if it is they who made the call fail."""
        if isinstance(error, _Unfit):
            return _message(error)
        if not isinstance(error, TypeError):
            return None
        try:
            context = {CONTEXT_PARAMETER: None} if self.wants_context else {}
            inspect.signature(self.call).bind(**{**given, **context})
        except TypeError as unbound:
            return _message(unbound)
        except ValueError:
            return None
        return None


def _public_names(namespace: dict[str, Any]) -> list[str]:
    """`__all__`, or every public name that holds a function and is not one of ours."""
    exported = namespace.get("__all__")
    names = list(namespace) if exported is None else exported
    return sorted(name for name in names if _is_tool(name, namespace))


def _is_tool(name: str, namespace: dict[str, Any]) -> bool:
    value, exported = namespace.get(name), namespace.get("__all__")
    try:
        if not callable(value) or isinstance(value, type):
            return False
        if exported is not None:
            return name in exported
        return not name.startswith("_") and getattr(value, "__module__", None) != __name__
    except Exception:  # noqa: BLE001 - a stand-in for something that is not there yet may refuse to be looked at
        return False


# Threads


class _Threads:
    """At most `limit` functions at once; more wait in order. A thread that waits for another tool is lent out, so
    that tools that call each other in a circle of threads do not wait for themselves.
    """

    def __init__(self, limit: int) -> None:
        self._limit = max(1, limit)
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._waiting = 0
        self._idle = 0
        self._count = 0

    def submit(self, job: Callable[[], object]) -> None:
        with self._lock:
            self._waiting += 1
            self._start_if_needed()
        self._jobs.put(job)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """The calling thread only waits; another may run meanwhile."""
        with self._lock:
            self._limit += 1
            self._start_if_needed()
        try:
            yield
        finally:
            with self._lock:
                self._limit -= 1

    def _start_if_needed(self) -> None:
        if self._waiting > self._idle and self._count < self._limit:
            self._count += 1
            try:
                threading.Thread(target=self._work, name="jackfield-tool", daemon=True).start()
            except RuntimeError:  # the machine has no more threads; those there are take the job in turn
                self._count -= 1
                if not self._count:
                    raise

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._count > self._limit:
                    self._count -= 1
                    return
                self._idle += 1
            job: Callable[[], object] | None = self._jobs.get()
            with self._lock:
                self._idle -= 1
                self._waiting -= 1
            assert job is not None
            job()
            job = None  # an idle thread holds on to no result


# The channel


class _Selector(selectors.DefaultSelector):
    """Reads the channel at once, before the loop's turn: the tasks of what arrived run in that turn, not in the
    next one. A reader of the loop's own would cost a fifth of a short call's time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._channel = -1
        self._read: Callable[[], None] = _nothing

    def watch(self, channel: int, read: Callable[[], None]) -> None:
        self._channel, self._read = channel, read
        self.register(channel, selectors.EVENT_READ, (None, None))  # no reader and no writer, in the loop's words

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(timeout)
        for key, mask in events:
            if key.fd == self._channel and mask & selectors.EVENT_READ:
                self._read()
        return events


def _nothing() -> None:
    return


class _Channel:
    """Lines to and from the gateway, on a socket that does not block. `send` may be called by any thread."""

    def __init__(self, connection: socket.socket, *, lost: Callable[[], None]) -> None:
        connection.settimeout(0)
        self._selector = _Selector()
        self.loop: asyncio.AbstractEventLoop = asyncio.SelectorEventLoop(self._selector)
        self._socket = connection
        self._lost = lost
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)
        self._begun_line: list[bytes] = []

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    def open(self, lines: Callable[[list[bytes]], None], ended: Callable[[], None]) -> None:
        """From now on `lines` gets what arrives, and `ended` is told when nothing more will."""
        self._selector.watch(self._socket.fileno(), functools.partial(self._read, lines, ended))

    def send(self, data: bytes) -> None:
        with self._lock:
            sent = 0
            if not self._unsent:
                try:
                    sent = self._socket.send(data)
                except OSError as error:
                    sent = self._not_sent(error, data)
                if sent == len(data):
                    return
                self.loop.call_soon_threadsafe(self._watch)
            self._unsent.append(memoryview(data)[sent:])
            self._unsent_bytes += len(data) - sent

    def send_now(self, data: bytes) -> None:
        """For the process's last words: waits until they are sent."""
        self._socket.settimeout(None)
        with contextlib.suppress(OSError):
            self._socket.sendall(b"".join([*self._unsent, data]))

    def stop_reading(self) -> None:
        self.loop.remove_reader(self._socket.fileno())

    def shut(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def abandon(self) -> None:
        """In a forked child: the channel is the parent's."""
        self._socket.close()

    def _read(self, lines: Callable[[list[bytes]], None], ended: Callable[[], None]) -> None:
        try:
            size = self._socket.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if not size:
            ended()
            return
        first = self._buffer.find(b"\n", 0, size)
        if first == size - 1 and not self._begun_line:
            lines([bytes(self._view[:first])])
            return
        self._begun_line.append(bytes(self._view[:size]))
        if first >= 0:
            *whole, rest = b"".join(self._begun_line).split(b"\n")
            self._begun_line = [rest] if rest else []
            lines(whole)

    def _not_sent(self, error: OSError, data: bytes | memoryview) -> int:
        """How much of the data need not be sent again."""
        if isinstance(error, BlockingIOError):
            return 0
        self._lost()
        return len(data)

    def _watch(self) -> None:
        self.loop.add_writer(self._socket.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        with self._lock:
            while self._unsent:
                first = self._unsent[0]
                try:
                    sent = self._socket.send(first)
                except OSError as error:
                    sent = self._not_sent(error, first)
                self._unsent_bytes -= sent
                if sent < len(first):
                    self._unsent[0] = first[sent:]
                    return
                self._unsent.popleft()
            self.loop.remove_writer(self._socket.fileno())


# The loop


_EAGER = sys.version_info >= (3, 12)
"""Whether a task runs to its first wait while it is made."""
_start: Callable[..., asyncio.Task[None]] = (
    functools.partial(asyncio.Task, eager_start=True) if _EAGER else asyncio.Task  # type: ignore[call-arg]
)
"""As the loop's own `create_task`, which does more than is needed for every call."""


class _Worker:
    """Takes requests from the channel, runs them, answers each once."""

    def __init__(self, channel: _Channel, *, threads: int) -> None:
        self.namespace: dict[str, Any] = {}
        self._channel = channel
        self._loop = channel.loop
        self._threads = _Threads(threads)
        self._lock = threading.Lock()
        self._functions: dict[str, _Function] = {}
        self._calls: dict[Any, _Call] = {}
        self._replies: dict[int, tuple[_Call, concurrent.futures.Future[Any]]] = {}
        self._numbers = itertools.count(1)
        self._held = 0
        self._answers: list[bytes] = []
        self._is_ending = False
        self.is_forked = False

    def run(self) -> None:
        """Until the channel ends. What a tool does to the loop itself (a task of its own that exits) ends nothing."""
        while self._calls or not self._is_ending:
            try:
                self._loop.run_forever()
            except SystemExit as error:
                _write_log({"log": f"A task of the tool tried to end the worker: {_words(error)}", "level": 30})

    def take(self, lines: list[bytes]) -> None:
        """Answers of calls that arrived together leave together, if they are ready together."""
        if len(lines) == 1:
            self._take(lines[0])
            return
        self._held += 1
        for line in lines:
            self._take(line)
        self._held -= 1
        if not self._held:
            self._flush()

    def end_when_idle(self) -> None:
        """Nothing more will be asked: finish what runs, then stop."""
        self._channel.stop_reading()
        self._is_ending = True
        self._stop_if_idle()

    def call_tool(self, call: _Call, name: str, kwargs: dict[str, Any]) -> Any:
        """Ask the gateway for another tool's result, in the name of this call."""
        if call.answered:
            raise ToolError(f"The call that asks for '{name}' is over, so nobody may call it.", code="call_over")
        if call.head == "{":
            raise ToolError(f"'{name}' cannot be called: who started this worker knows no calls back.", code="no_way")
        number = next(self._numbers)
        asked = f'{call.head}"call":{number},"tool":{_sentence(name)},"kwargs":{_to_json(kwargs)}}}\n'.encode()
        reply: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._replies[number] = call, reply
        if call.cancelled:
            self._stop_asking(call)
        else:
            self._channel.send(asked)
        if _in_event_loop():
            return asyncio.wrap_future(reply)
        with self._threads.lent():
            return reply.result()

    def report(self, call: _Call, progress: Any, total: Any, message: Any) -> None:
        """Raises before anything is sent that the gateway cannot read; a number without end is no progress."""
        done, whole = _amount(progress), None if total is None else _amount(total)
        if done is None or call.answered or call.head == "{" or self._channel.unsent_bytes >= PROGRESS_BACKLOG:
            return
        said = "null" if message is None else _sentence(str(message))
        part = f'{{"progress":{done!r},"total":{_to_json(whole)},"message":{said}}}'
        self._channel.send(f'{call.head}"progress":{part}}}\n'.encode())

    def _take(self, line: bytes) -> None:
        try:
            message = _decode(line)
        except RecursionError:
            self._refuse_too_deep(line)
            return
        except ValueError as error:
            if line.strip():
                self._channel.send(
                    f'{{"result":null,"error":{_sentence(f"Invalid JSON: {_message(error)}")}}}\n'.encode()
                )
            return
        if "function" in message:
            self._begin(_Call(self, message), message["function"], message.get("kwargs"))
        elif "reply" in message:
            self._settle(message)
        elif "cancel" in message:
            self._cancel(message["cancel"])
        else:
            self._channel.send(_Call(self, message).failed("invalid_request", "Missing 'function' field"))

    def _refuse_too_deep(self, line: bytes) -> None:
        """Of what cannot be read, the gateway's first word tells what it is."""
        found = re.match(rb'\{"reply":(\d+),', line)
        if found:
            said = "The tool returned something that is nested too deeply."
            self._settle({"reply": int(found[1]), "error": said, "code": "bad_result"})
        else:
            self._channel.send(_too_deep(line))

    def _begin(self, call: _Call, name: Any, kwargs: Any) -> None:
        function = self._functions.get(name) if type(name) is str else None
        function = function or self._find(name)
        arguments = {} if kwargs is None else kwargs
        if function is None:
            available = ", ".join(_public_names(self.namespace))
            said = f"Unknown function '{name}'. Available: {available}"
            self._answer(call, call.failed("unknown_function", said))
        elif type(arguments) is not dict:
            said = f"The arguments do not fit '{function.name}': Expected `object`, got `{_kind(arguments)}`"
            self._answer(call, call.failed("invalid_arguments", said))
        elif function.is_async:
            self._calls[call.key] = call
            self._held += not _EAGER
            call.task = _start(self._run(call, function, arguments), loop=self._loop, name=function.name)
        else:
            self._calls[call.key] = call
            context = contextvars.copy_context()
            self._threads.submit(functools.partial(context.run, self._run_in_thread, call, function, arguments))

    def _find(self, name: Any) -> _Function | None:
        if type(name) is not str or not _is_tool(name, self.namespace):
            return None
        function = self._functions[name] = _Function(name, self.namespace[name])
        return function

    async def _run(self, call: _Call, function: _Function, arguments: dict[str, Any]) -> None:
        call.begun = True
        self._held -= not _EAGER
        _current.set(call)
        try:
            given = arguments if function.is_direct else function.arguments(arguments, call)
            answer = call.done(await function.call(**given))
        except BaseException as error:  # noqa: BLE001 - the border to a tool; SystemExit must not end the worker
            answer = _failure(call, function, error, arguments)
        self._answer(call, answer)

    async def _run_on(self, call: _Call, function: _Function, coroutine: Any) -> None:
        """What a plain function that wraps an `async def` gave back belongs to the loop."""
        try:
            answer = call.done(await coroutine)
        except BaseException as error:  # noqa: BLE001 - as above
            answer = _failure(call, function, error, {})
        self._answer(call, answer)

    def _run_in_thread(self, call: _Call, function: _Function, arguments: dict[str, Any]) -> None:
        with self._lock:
            if call.begun:
                return  # cancelled while it waited for a thread
            call.begun = True
        _current.set(call)
        try:
            given = arguments if function.is_direct else function.arguments(arguments, call)
            result = function.call(**given)
            if inspect.iscoroutine(result):
                self._loop.call_soon_threadsafe(self._adopt, call, function, result, contextvars.copy_context())
                return
            answer = call.done(result)
        except BaseException as error:  # noqa: BLE001 - as above
            answer = _failure(call, function, error, arguments)
        if self._claim(call):
            self._channel.send(answer)
        if self._is_ending:
            self._loop.call_soon_threadsafe(self._stop_if_idle)

    def _adopt(self, call: _Call, function: _Function, coroutine: Any, context: contextvars.Context) -> None:
        def over(_: asyncio.Task[None]) -> None:
            """A task that was cancelled before its first step has answered nothing."""
            coroutine.close()
            self._answer(call, call.failed("cancelled", "cancelled"))

        call.task = context.run(self._loop.create_task, self._run_on(call, function, coroutine))
        call.task.add_done_callback(over)
        if call.cancelled:
            call.task.cancel()

    def _answer(self, call: _Call, answer: bytes) -> None:
        """In the loop's thread only."""
        if not self._claim(call):
            return
        if self._held:
            if not self._answers:
                self._loop.call_soon(self._flush)
            self._answers.append(answer)
        elif self._answers:
            self._answers.append(answer)
            self._flush()
        else:
            self._channel.send(answer)
        if self._is_ending:
            self._stop_if_idle()

    def _claim(self, call: _Call) -> bool:
        """Whether this is the call's one answer."""
        if self.is_forked:
            os._exit(0)  # a child that forgot to leave: the answer is its parent's to give
        if call.answered:
            return False
        call.answered = True
        self._calls.pop(call.key, None)
        return True

    def _flush(self) -> None:
        if self._answers:
            together, self._answers = self._answers, []
            self._channel.send(b"".join(together))

    def _stop_if_idle(self) -> None:
        if not self._calls:
            self._flush()
            self._loop.call_soon(self._loop.stop)

    def _cancel(self, key: Any) -> None:
        call = self._calls.get(key) if type(key) in (int, str) else None
        if call is None:
            return
        with self._lock:
            call.cancelled = True
            is_first, call.begun = not call.begun, True
        if call.task is not None:
            call.task.cancel()
        self._stop_asking(call)
        if is_first:
            self._held -= call.task is not None and not _EAGER
            self._answer(call, call.failed("cancelled", "cancelled"))

    def _stop_asking(self, call: _Call) -> None:
        """For a call that was cancelled the gateway asks no tool any more, so nothing will come."""
        for number, (asker, reply) in list(self._replies.items()):
            if asker is not call or self._replies.pop(number, None) is None:
                continue
            if reply.set_running_or_notify_cancel():
                reply.set_exception(ToolError("The call that asked was cancelled.", code="cancelled"))

    def _settle(self, message: dict[str, Any]) -> None:
        number = message["reply"]
        _, reply = self._replies.pop(number, (None, None)) if type(number) is int else (None, None)
        if reply is None or not reply.set_running_or_notify_cancel():
            return
        said = message.get("error")
        if said is None:
            reply.set_result(message.get("result"))
        else:
            code = message.get("code") or "tool_error"
            reply.set_exception(ToolError(str(said) or code, code=code, result=message.get("result")))


def _failure(call: _Call, function: _Function, error: BaseException, arguments: dict[str, Any]) -> bytes:
    """The answer that tells an error. Never raises: every call gets its answer."""
    if isinstance(error, asyncio.CancelledError) and call.cancelled:
        return call.failed("cancelled", "cancelled")
    try:
        misfit = function.misfit(error, arguments)
        if misfit is not None:
            return call.failed("invalid_arguments", f"The arguments do not fit '{function.name}': {misfit}")
        trace = _write_traceback(f"{function.name} failed in call {call.id}", error)
        return call.failed("tool_error", _words(error), trace=trace)
    except BaseException:  # noqa: BLE001 - a tool's own exception class takes part in this
        return call.failed("tool_error", f"'{function.name}' failed, and its error cannot be put in words.")


_scan: Callable[[str, int], tuple[Any, int]] = getattr(json.JSONDecoder(), "scan_once")  # noqa: B009 - untyped


def _decode(line: bytes) -> dict[str, Any]:
    text = line.decode()
    try:
        message, end = _scan(text, 0)
        if end != len(text):
            message = json.loads(text)
    except StopIteration:
        message = json.loads(text)
    if type(message) is not dict:
        raise ValueError("a message is one object")
    return message


def _too_deep(line: bytes) -> bytes:
    """The answer to a request that cannot be read, by the id with which the gateway begins it."""
    found = re.match(rb'\{"id": ?("[^"\\]*"|\d+),', line)
    head = f'{{"id":{found[1].decode()},' if found else "{"
    return f'{head}"result":null,"error":"The arguments are nested too deeply.","code":"invalid_arguments"}}\n'.encode()


def _amount(value: Any) -> float | None:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"Progress is told in numbers, not as {_a(value)}; words go into message.")
    try:
        amount = float(value)
    except OverflowError:
        return None
    return amount if math.isfinite(amount) else None


def _in_event_loop() -> bool:
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - public in asyncio.events, and cheap


def _write_log(entry: dict[str, Any], call: _Call | None = None) -> None:
    """One JSON line, whole, on stderr, whatever the tool has done to `sys.stderr`."""
    call = call or _current.get()
    if call is not None:
        entry = {**entry, "call": call.id}
    try:
        line = _to_json(entry)
    except Exception:  # noqa: BLE001 - what a tool notes may be anything
        line = _to_json({key: _described(value) for key, value in entry.items()})
    _write_error_output(f"{line}\n")


def _described(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a tool's own object may fail at this
        return _a(value)


def _write_traceback(title: str, error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
    except BaseException:  # noqa: BLE001 - a tool's own exception class may fail at this
        lines = [f"{_class_name(error)}\n"]
    trace = "".join(lines)
    _write_error_output(f"{title}\n{trace}")
    return trace


def _write_error_output(text: str) -> None:
    data = memoryview(text.encode("utf-8", "backslashreplace"))
    with _state.log_lock, contextlib.suppress(OSError):  # a tool may have closed fd 2
        while data:
            data = data[os.write(2, data) :]


# The start


class _State:
    """Of this process."""

    def __init__(self) -> None:
        self.serving = False
        self.log_lock = threading.Lock()


_state = _State()


def _serve(path: str, options: dict[str, Any]) -> None:
    """Import the file, say READY, answer calls until the gateway goes."""
    _state.serving = True
    channel = _take_channel()
    asyncio.set_event_loop(channel.loop)
    worker = _Worker(channel, threads=options.get("threads", DEFAULT_THREADS))
    _leave_the_channel_to_the_parent(channel, worker)
    try:
        worker.namespace = _imported(path, options).__dict__
    except BaseException as error:  # noqa: BLE001 - the border to a tool file
        _write_traceback(f"{pathlib.PurePath(path).name} could not be loaded", error)
        channel.send_now(f'{{"ready":false,"error":{_sentence(_words(error))}}}\n'.encode())
        os._exit(1)
    gc.freeze()
    channel.send(f'{{"ready":true,"protocol":{PROTOCOL},"pid":{os.getpid()}}}\n'.encode())
    channel.open(worker.take, _go)
    _run_until_gone(worker)


def _serve_by_hand(namespace: dict[str, Any]) -> None:
    """`worker_main()`: on the gateway's socket as above; on pipes, finish what was asked, then return."""
    if _is_channel():
        channel = _take_channel()
        worker = _Worker(channel, threads=DEFAULT_THREADS)
        worker.namespace = namespace
        _leave_the_channel_to_the_parent(channel, worker)
        channel.open(worker.take, _go)
        _run_until_gone(worker)
    ours, theirs = socket.socketpair()
    channel = _Channel(ours, lost=_go)
    worker = _Worker(channel, threads=DEFAULT_THREADS)
    worker.namespace = namespace
    questions, out = _take_streams()
    answers = _pump(theirs, questions, out)
    channel.open(worker.take, worker.end_when_idle)
    worker.run()
    channel.send_now(b"")
    channel.shut()
    answers.join()
    os.dup2(out, 1)


def _run_until_gone(worker: _Worker) -> typing.NoReturn:
    while True:
        try:
            worker.run()
        except KeyboardInterrupt:
            continue  # a task of the tool; the gateway ends a worker by other means
        except BaseException as error:  # noqa: BLE001 - a loop that is broken (its descriptors closed) must end
            _write_traceback("The worker's loop failed", error)
            os._exit(1)


def _is_channel() -> bool:
    """Whether fd 0 and fd 1 are one socket, as the gateway gives them."""
    first, second = os.fstat(0), os.fstat(1)
    return stat.S_ISSOCK(first.st_mode) and first.st_ino == second.st_ino


def _take_streams() -> tuple[int, int]:
    """Move stdin and stdout to private descriptors. From then on stdin is empty, and stdout is the log: for `print`,
    for C code and for child processes.
    """
    ours = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        typing.cast("Any", stream).reconfigure(line_buffering=True, errors="backslashreplace")
    return ours


def _take_channel() -> _Channel:
    descriptor, same = _take_streams()
    os.close(same)
    connection = socket.socket(fileno=descriptor)
    faulthandler.enable()
    sys.setswitchinterval(SWITCH_SECONDS)
    threading.Thread(target=_go_with, args=(connection.fileno(),), name="jackfield-lifeline", daemon=True).start()
    return _Channel(connection, lost=_go)


def _go_with(descriptor: int) -> None:
    """Sleeps until the gateway's end is closed, so that a tool that blocks the loop cannot outlive it."""
    lifeline = select.poll()
    lifeline.register(descriptor, 0)
    lifeline.poll()
    _go()


def _go() -> None:
    """The gateway is gone, or has let go of this worker: leave nothing behind."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _leave_the_channel_to_the_parent(channel: _Channel, worker: _Worker) -> None:
    def in_child() -> None:
        worker.is_forked = True
        channel.abandon()

    os.register_at_fork(after_in_child=in_child)


def _pump(connection: socket.socket, questions: int, out: int) -> threading.Thread:
    """Carry questions to the socket and its answers out; gives the thread that ends with the last answer."""

    def ask() -> None:
        while data := os.read(questions, READ_BYTES):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)

    def answer() -> None:
        while data := connection.recv(READ_BYTES):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(out, rest) :]

    answers = threading.Thread(target=answer, daemon=True)
    threading.Thread(target=ask, daemon=True).start()
    answers.start()
    return answers


def _imported(path: str, options: dict[str, Any]) -> types.ModuleType:
    stem = pathlib.PurePath(path).stem
    name = stem if _is_free(stem) else f"jackfield_tool_file_{re.sub(r'[^a-zA-Z0-9_]', '_', stem)}"
    _see_siblings(options)
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{pathlib.PurePath(path).name} is no Python file. Name it with the ending .py.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    sys.argv = [path]
    specification.loader.exec_module(module)
    return module


def _is_free(stem: str) -> bool:
    """Whether a file may be a module by its own name: a tool file `email.py` must not become Python's `email`."""
    return stem.isidentifier() and stem not in sys.modules and importlib.util.find_spec(stem) is None


def _see_siblings(options: dict[str, Any]) -> None:
    """The file's own folder and ours come last, so that no file in them hides a package."""
    here = str(pathlib.Path(__file__).resolve().parent)
    last = [here, str(options["folder"])] if options.get("folder") else [here]
    sys.path[:] = [entry for entry in sys.path if entry and str(pathlib.Path(entry).resolve()) not in last] + last


def _run_script(path: str, options: dict[str, Any]) -> None:
    _see_siblings(options)
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")


def start(arguments: list[str]) -> None:
    """The process's own work, from its command line."""
    sys.modules["ot_sdk"] = sys.modules[__name__]
    usage = "Usage: jackfield_tool.py serve|script FILE [--options JSON]"
    modes: dict[str, Callable[[str, dict[str, Any]], None]] = {"serve": _serve, "script": _run_script}
    if len(arguments) not in (2, 4) or arguments[0] not in modes or arguments[2:3] not in ([], ["--options"]):
        raise SystemExit(usage)
    options = json.loads(arguments[3]) if len(arguments) > 2 else {}  # noqa: PLR2004 - the options' place
    modes[arguments[0]](arguments[1], options)


if _IS_STARTED:
    start(sys.argv[1:])
