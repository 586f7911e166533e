"""One call as the worker sees it, the error that nested calls raise, and the worker's log."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
import traceback
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

from .encoding import class_name, error_message, json_string, to_json, with_article

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

MAX_TRACE = 16_000


class ToolError(Exception):
    """A tool called with `call_tool` failed. `code` says why; `result` is what it returned with the error."""

    __module__ = "jackfield_tool"  # as tracebacks show it

    def __init__(self, message: str, *, code: str = "tool_error", result: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.result = result


class RunningCall:
    """One request and what it may see. A plain function's thread and a cancellation race to answer it: the first to
    set `begun`, under the worker's lock, wins.
    """

    begun = False
    answered = False
    cancelled = False
    task: asyncio.Task[None] | None = None

    def __init__(self, dispatcher: Dispatcher, message: dict[str, Any]) -> None:
        self.dispatcher = dispatcher
        self.message = message
        self.id = given = message.get("id")
        self.key: Any = given
        if type(given) is str:
            self.head = f'{{"id":{encode_basestring(given)},'
        elif type(given) is int:
            self.head = f'{{"id":{given},'
        else:  # an `ot_sdk` parent sends no ids
            self.key = self
            self.head = f'{{"id":{to_json(given)},' if "id" in message else "{"

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
        """The answer with this result, or with an error if it is not JSON."""
        try:
            return f'{self.head}"result":{to_json(result)},"error":null}}\n'.encode()
        except Exception as error:  # noqa: BLE001 - the tool's own objects take part in this
            said = f"The tool returned {with_article(result)} that JSON cannot hold: {error_message(error)}."
            return self.failed("bad_result", f"{said} Return text, numbers, lists, dicts or dataclasses.")

    def failed(self, code: str, said: str, *, trace: str = "") -> bytes:
        more = f',"trace":{json_string(trace[-MAX_TRACE:])}' if trace else ""
        return f'{self.head}"result":null,"error":{json_string(said)},"code":"{code}"{more}}}\n'.encode()


current_call: contextvars.ContextVar[RunningCall | None] = contextvars.ContextVar("jackfield_call", default=None)


_log_lock = threading.Lock()


def write_log(entry: dict[str, Any], call: RunningCall | None = None) -> None:
    """One JSON line, whole, on stderr, whatever the tool has done to `sys.stderr`."""
    call = call or current_call.get()
    if call is not None:
        entry = {**entry, "call": call.id}
    try:
        line = to_json(entry)
    except Exception:  # noqa: BLE001 - what a tool notes may be anything
        line = to_json({key: _describe_value(value) for key, value in entry.items()})
    _write_stderr(f"{line}\n")


def _describe_value(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float)):
        return value
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a tool's own object may fail at this
        return with_article(value)


def write_traceback(title: str, error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
    except BaseException:  # noqa: BLE001 - a tool's own exception class may fail at this
        lines = [f"{class_name(error)}\n"]
    trace = "".join(lines)
    _write_stderr(f"{title}\n{trace}")
    return trace


def _write_stderr(text: str) -> None:
    data = memoryview(text.encode("utf-8", "backslashreplace"))
    with _log_lock, contextlib.suppress(OSError):  # a tool may have closed fd 2
        while data:
            data = data[os.write(2, data) :]


def in_event_loop() -> bool:
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - public in asyncio.events, and cheap
