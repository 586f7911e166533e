"""What authors of tool files call: configuration, secrets, logs, other tools, and the helpers of `ot_sdk`."""

from __future__ import annotations

import concurrent.futures
import contextvars
import functools
import subprocess
import time
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .call import RunningCall, current_call, in_event_loop, write_log
from .encoding import describe_error

_T = TypeVar("_T")
_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


def get_config(path: str | None = None, default: Any = None) -> Any:
    """This call's configuration: all of it, or what is at a dotted path."""
    call = current_call.get()
    value: Any = {} if call is None else call.config
    for part in path.split(".") if path else ():
        if not isinstance(value, dict) or part not in value:
            return default
        value = value[part]
    return value


def get_secret(name: str) -> str | None:
    """A secret of this call's source; None when it has none of that name."""
    call = current_call.get()
    return None if call is None else call.secrets.get(name)


def call_tool(name: str, /, **kwargs: Any) -> Any:
    """Another tool of the catalog. In a plain function this waits and returns the result; in an `async def` it returns
    an awaitable. Raises `ToolError`.
    """
    call = current_call.get()
    if call is None:
        raise RuntimeError(f"call_tool({name!r}) works only while a call runs, in its own tasks and threads.")
    return call.dispatcher.call_tool(call, name.replace(".", "_"), kwargs)


def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Report progress to whoever follows this call. Does nothing outside of a call."""
    call = current_call.get()
    if call is not None:
        call.dispatcher.report(call, progress, total, message)


def log(name: str, **attributes: Any) -> Span:
    """A span for a `with` block: one JSON line in the worker's log when the block ends."""
    return Span(name, attributes)


class Span:
    """A timed block with attributes."""

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
            entry["error"] = describe_error(error)
        write_log(entry)


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
    """The value of a parameter named `ctx`: the same attributes that a file in the gateway's process gets, except for
    those that only the gateway's process has.
    """

    def __init__(self, call: RunningCall) -> None:
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
        return self._call.dispatcher.call_tool(self._call, name, arguments)

    def call_tool_sync(self, name: str, /, **arguments: Any) -> Any:
        """`call_tool` for a plain `def`, which runs in a thread."""
        if in_event_loop():
            raise RuntimeError("call_tool_sync would stop the event loop here. In an async def, await ctx.call_tool.")
        return self._call.dispatcher.call_tool(self._call, name, arguments)

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """As the function `report_progress`."""
        self._call.dispatcher.report(self._call, progress, total, message)

    def log(self, message: str, *, level: int = 20, **fields: Any) -> None:
        """A line in the worker's log that names the call."""
        write_log({"log": message, "level": level, **fields}, self._call)


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

    def __call__(self, ttl: float = 300.0) -> Callable[[_FunctionT], _FunctionT]:
        def remembering(function: _FunctionT) -> _FunctionT:
            @functools.wraps(function)
            def remembered(*args: Any, **kwargs: Any) -> Any:
                key = (function, repr(args), repr(sorted(kwargs.items())))
                if time.monotonic() >= self._kept.get(key, (0.0, None))[0]:
                    self.set(key, function(*args, **kwargs), ttl)
                return self._kept[key][1]

            return typing.cast("_FunctionT", remembered)

        return remembering


cache = _Cache()
