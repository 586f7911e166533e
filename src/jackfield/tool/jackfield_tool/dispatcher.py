"""Runs calls: coroutines in the event loop, plain functions in threads. Each call is answered once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import itertools
import json
import math
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .call import RunningCall, ToolError, current_call, in_event_loop, write_log, write_traceback
from .encoding import describe_error, error_message, json_string, to_json, with_article
from .functions import Function, is_tool, public_names
from .hints import json_type

if TYPE_CHECKING:
    from .channel import GatewayChannel

PROGRESS_BACKLOG = 1_048_576
"""Unsent bytes above which progress reports are dropped; answers never are."""

_EAGER = sys.version_info >= (3, 12)
"""Whether a task runs to its first await when it is created."""
_create_task: Callable[..., asyncio.Task[None]] = (
    functools.partial(asyncio.Task, eager_start=True) if _EAGER else asyncio.Task  # type: ignore[call-arg]
)
"""Cheaper than the loop's own `create_task`."""


class Dispatcher:
    """Reads requests from the channel and answers each once."""

    def __init__(self, channel: GatewayChannel, *, threads: int) -> None:
        self.namespace: dict[str, Any] = {}
        self._channel = channel
        self._loop = channel.loop
        self._threads = ThreadPool(threads)
        self._lock = threading.Lock()
        self._functions: dict[str, Function] = {}
        self._calls: dict[Any, RunningCall] = {}
        self._replies: dict[int, tuple[RunningCall, concurrent.futures.Future[Any]]] = {}
        self._numbers = itertools.count(1)
        self._batched = 0
        self._answers: list[bytes] = []
        self._is_ending = False
        self.is_forked = False

    def run(self) -> None:
        """Until the channel ends. A tool's own task that raises SystemExit does not end the worker."""
        while self._calls or not self._is_ending:
            try:
                self._loop.run_forever()
            except SystemExit as error:
                write_log({"log": f"A task of the tool tried to end the worker: {describe_error(error)}", "level": 30})

    def handle(self, lines: list[bytes]) -> None:
        """Requests that arrive together are answered in one write, if they finish together."""
        if len(lines) == 1:
            self._handle_line(lines[0])
            return
        self._batched += 1
        for line in lines:
            self._handle_line(line)
        self._batched -= 1
        if not self._batched:
            self._flush()

    def end_when_idle(self) -> None:
        """No more requests will come: finish the running calls, then stop."""
        self._channel.stop_reading()
        self._is_ending = True
        self._stop_if_idle()

    def call_tool(self, call: RunningCall, name: str, kwargs: dict[str, Any]) -> Any:
        """Ask the gateway to call another tool on behalf of this call."""
        if call.answered:
            raise ToolError(f"The call that asks for '{name}' is over, so it cannot be called.", code="call_over")
        if call.head == "{":
            raise ToolError(f"'{name}' cannot be called: the parent of this worker does not support it.", code="no_way")
        number = next(self._numbers)
        asked = f'{call.head}"call":{number},"tool":{json_string(name)},"kwargs":{to_json(kwargs)}}}\n'.encode()
        reply: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._replies[number] = call, reply
        if call.cancelled:
            self._fail_nested(call)
        else:
            self._channel.send(asked)
        if in_event_loop():
            return asyncio.wrap_future(reply)
        with self._threads.released():
            return reply.result()

    def report(self, call: RunningCall, progress: Any, total: Any, message: Any) -> None:
        """Infinity and NaN are not reported; the gateway could not read them."""
        done, whole = _finite(progress), None if total is None else _finite(total)
        if done is None or call.answered or call.head == "{" or self._channel.unsent_bytes >= PROGRESS_BACKLOG:
            return
        said = "null" if message is None else json_string(str(message))
        part = f'{{"progress":{done!r},"total":{to_json(whole)},"message":{said}}}'
        self._channel.send(f'{call.head}"progress":{part}}}\n'.encode())

    def _handle_line(self, line: bytes) -> None:
        try:
            message = _decode(line)
        except RecursionError:
            self._refuse_too_deep(line)
            return
        except ValueError as error:
            if line.strip():
                self._channel.send(
                    f'{{"result":null,"error":{json_string(f"Invalid JSON: {error_message(error)}")}}}\n'.encode()
                )
            return
        if "function" in message:
            self._start_call(RunningCall(self, message), message["function"], message.get("kwargs"))
        elif "reply" in message:
            self._handle_reply(message)
        elif "cancel" in message:
            self._cancel(message["cancel"])
        else:
            self._channel.send(RunningCall(self, message).failed("invalid_request", "Missing 'function' field"))

    def _refuse_too_deep(self, line: bytes) -> None:
        """The line cannot be parsed; its first key tells what it is."""
        found = re.match(rb'\{"reply":(\d+),', line)
        if found:
            said = "The tool returned something that is nested too deeply."
            self._handle_reply({"reply": int(found[1]), "error": said, "code": "bad_result"})
        else:
            self._channel.send(_nested_too_deeply(line))

    def _start_call(self, call: RunningCall, name: Any, kwargs: Any) -> None:
        function = self._functions.get(name) if type(name) is str else None
        function = function or self._find_function(name)
        arguments = {} if kwargs is None else kwargs
        if function is None:
            available = ", ".join(public_names(self.namespace))
            said = f"Unknown function '{name}'. Available: {available}"
            self._answer(call, call.failed("unknown_function", said))
        elif type(arguments) is not dict:
            said = f"The arguments do not fit '{function.name}': Expected `object`, got `{json_type(arguments)}`"
            self._answer(call, call.failed("invalid_arguments", said))
        elif function.is_async:
            self._calls[call.key] = call
            self._batched += not _EAGER
            call.task = _create_task(self._run(call, function, arguments), loop=self._loop, name=function.name)
        else:
            self._calls[call.key] = call
            context = contextvars.copy_context()
            self._threads.submit(functools.partial(context.run, self._run_in_thread, call, function, arguments))

    def _find_function(self, name: Any) -> Function | None:
        if type(name) is not str or not is_tool(name, self.namespace):
            return None
        function = self._functions[name] = Function(name, self.namespace[name])
        return function

    async def _run(self, call: RunningCall, function: Function, arguments: dict[str, Any]) -> None:
        call.begun = True
        self._batched -= not _EAGER
        current_call.set(call)
        try:
            given = arguments if function.is_direct else function.arguments(arguments, call)
            answer = call.done(await function.call(**given))
        except BaseException as error:  # noqa: BLE001 - the border to a tool; SystemExit must not end the worker
            answer = _failure(call, function, error, arguments)
        self._answer(call, answer)

    async def _run_on(self, call: RunningCall, function: Function, coroutine: Any) -> None:
        """The coroutine that a plain function returned."""
        try:
            answer = call.done(await coroutine)
        except BaseException as error:  # noqa: BLE001 - as above
            answer = _failure(call, function, error, {})
        self._answer(call, answer)

    def _run_in_thread(self, call: RunningCall, function: Function, arguments: dict[str, Any]) -> None:
        with self._lock:
            if call.begun:
                return  # cancelled while it waited for a thread
            call.begun = True
        current_call.set(call)
        try:
            given = arguments if function.is_direct else function.arguments(arguments, call)
            result = function.call(**given)
            if inspect.iscoroutine(result):
                self._loop.call_soon_threadsafe(self._await_in_loop, call, function, result, contextvars.copy_context())
                return
            answer = call.done(result)
        except BaseException as error:  # noqa: BLE001 - as above
            answer = _failure(call, function, error, arguments)
        if self._claim(call):
            self._channel.send(answer)
        if self._is_ending:
            self._loop.call_soon_threadsafe(self._stop_if_idle)

    def _await_in_loop(
        self, call: RunningCall, function: Function, coroutine: Any, context: contextvars.Context
    ) -> None:
        def over(_: asyncio.Task[None]) -> None:
            """A task that was cancelled before its first step has not answered."""
            coroutine.close()
            self._answer(call, call.failed("cancelled", "cancelled"))

        call.task = context.run(self._loop.create_task, self._run_on(call, function, coroutine))
        call.task.add_done_callback(over)
        if call.cancelled:
            call.task.cancel()

    def _answer(self, call: RunningCall, answer: bytes) -> None:
        """In the loop's thread only."""
        if not self._claim(call):
            return
        if self._batched:
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

    def _claim(self, call: RunningCall) -> bool:
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
        self._fail_nested(call)
        if is_first:
            self._batched -= call.task is not None and not _EAGER
            self._answer(call, call.failed("cancelled", "cancelled"))

    def _fail_nested(self, call: RunningCall) -> None:
        """The gateway drops the nested calls of a cancelled call, so their replies never come."""
        for number, (asker, reply) in list(self._replies.items()):
            if asker is not call or self._replies.pop(number, None) is None:
                continue
            if reply.set_running_or_notify_cancel():
                reply.set_exception(ToolError("The call that asked was cancelled.", code="cancelled"))

    def _handle_reply(self, message: dict[str, Any]) -> None:
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


def _failure(call: RunningCall, function: Function, error: BaseException, arguments: dict[str, Any]) -> bytes:
    """The answer to a failed call. Never raises: every call gets its answer."""
    if isinstance(error, asyncio.CancelledError) and call.cancelled:
        return call.failed("cancelled", "cancelled")
    try:
        mismatch = function.argument_error(error, arguments)
        if mismatch is not None:
            return call.failed("invalid_arguments", f"The arguments do not fit '{function.name}': {mismatch}")
        trace = write_traceback(f"{function.name} failed in call {call.id}", error)
        return call.failed("tool_error", describe_error(error), trace=trace)
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


def _nested_too_deeply(line: bytes) -> bytes:
    """The answer to a request that cannot be parsed, with the id that the line starts with."""
    found = re.match(rb'\{"id": ?("[^"\\]*"|\d+),', line)
    head = f'{{"id":{found[1].decode()},' if found else "{"
    return f'{head}"result":null,"error":"The arguments are nested too deeply.","code":"invalid_arguments"}}\n'.encode()


def _finite(value: Any) -> float | None:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"Progress must be a number, not {with_article(value)}; put text into message.")
    try:
        amount = float(value)
    except OverflowError:
        return None
    return amount if math.isfinite(amount) else None


class ThreadPool:
    """At most `limit` functions at once; more wait in order. A thread that waits for another tool does
    not count, so tools that call each other cannot deadlock.
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
    def released(self) -> Iterator[None]:
        """The calling thread only waits; another may run in its place."""
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
