"""Runs one program inside the sandbox: its tools, a clock and chance that can be repeated, and a loop without I/O.

A turn is what the program does between two answers. The gateway delivers answers one after another; after each, the
program runs until everything in it waits, and what it asked for on the way is reported. Time moves only with an
answer, and randomness comes from a seed, so the same answers in the same order always lead to the same requests.
Standard library only: the gateway runs this file in the sandbox with `python FILE`.
Above: `process.py` in the gateway. Below: nothing.
"""

import ast
import asyncio
import builtins
import ctypes
import datetime as dt
import difflib
import functools
import io
import json
import keyword
import linecache
import os
import platform
import random
import re
import socket
import struct
import sys
import time
import traceback
import types
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NoReturn

FILE = "<program>"
MAX_LOG = 64 * 1024
"""Characters of `print` that are kept; the rest is counted."""
MAX_TRACE = 4_000
LONGEST_SLEEP = 10 * 365 * 86_400.0
RUN_PROGRAM = "run_program"


class ToolFailed(Exception):
    """A tool failed. `code` says why; `result` is what it returned with the error."""

    __module__ = "builtins"  # as tracebacks show it

    def __init__(self, message: str, *, code: str = "tool_error", result: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.result = result


class Clock:
    """The program's time: the moment of the last answer. Milliseconds since 1970."""

    now = 0
    started = 0

    def time_ns(self) -> int:
        return self.now * 1_000_000

    def elapsed_ns(self) -> int:
        return (self.now - self.started) * 1_000_000


class ProgramTask(asyncio.Task):  # type: ignore[type-arg] # not generic at run time
    """A task whose place in a set does not depend on its address."""

    _numbers: Iterator[int] = iter(range(1, sys.maxsize))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


_Loop: Any = asyncio.AbstractEventLoop


class ProgramLoop(_Loop):  # type: ignore[misc] # most of what a loop can do is missing on purpose
    """An event loop that only knows its own tasks and what the gateway delivers."""

    def __init__(self, clock: Clock, log: "Log") -> None:
        self._clock = clock
        self._log = log
        self._ready: deque[asyncio.Handle] = deque()
        self._answers: dict[int, Callable[[dict[str, Any]], None]] = {}
        self._count = 0
        self._timers: dict[int, int] = {}
        """Numbers of timers by the identities of their handles."""
        self.asks: list[dict[str, Any]] = []
        """What was asked for in this turn."""
        self.dropped: list[int] = []
        """Timers that were cancelled in this turn."""

    def turn(self) -> None:
        """Run until everything waits."""
        while self._ready:
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001 - what every event loop does with it

    def ask(self, request: dict[str, Any], answer: Callable[[dict[str, Any]], None]) -> int:
        """Ask the gateway for something; `answer` is called when it is delivered. Its number."""
        number, self._count = self._count, self._count + 1
        self._answers[number] = answer
        self.asks.append({"n": number, **request})
        return number

    def deliver(self, message: dict[str, Any]) -> None:
        self._clock.now = max(self._clock.now, message["now"])
        answer = self._answers.pop(message["n"], None)
        if answer is not None:  # else an answer before it in this turn has cancelled a timer that was due as well
            answer(message)

    def time(self) -> float:
        return self._clock.elapsed_ns() / 1e9

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        seconds = when - self.time()
        if seconds > 0:
            self._timers[id(handle)] = self.ask(
                {"sleep": round(min(seconds, LONGEST_SLEEP), 3)}, lambda _: self._fire(handle)
            )
        else:
            self._ready.append(handle)
        return handle

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        del self._timers[id(handle)]
        self._ready.append(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        number = self._timers.pop(id(handle), None)
        if number is not None:
            del self._answers[number]
            self.dropped.append(number)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> "asyncio.Task[Any]":
        return ProgramTask(coro, loop=self, **options)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._log.write(f"{context.get('message')}" + (f": {describe(error)}\n" if error is not None else "\n"))

    def run_in_executor(self, *_: Any) -> NoReturn:
        raise RuntimeError("A program has no threads. Call the function directly.")


class Log(io.TextIOBase):
    """`print`: sent with the turn, up to a limit."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._room = MAX_LOG
        self.left_out = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = plain(text[: self._room])
        self._room -= len(kept)
        self.left_out += len(text) - len(kept)
        if kept:
            self._parts.append(kept)
        return len(text)

    def take(self) -> str:
        text, self._parts = "".join(self._parts), []
        return text


class Tools:
    """`tools.NAME(**arguments)`, or `tools["name"](**arguments)` for a name that Python cannot write."""

    def __init__(self, names: list[str], loop: ProgramLoop) -> None:
        self.__names = {name: name for name in names}
        self.__loop = loop
        for name in names:
            self.__names.setdefault(python_name(name), name)

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        tool = self.__names.get(name)
        if tool is None:
            near = difflib.get_close_matches(str(name), self.__names, n=3)
            hint = f" Did you mean {' or '.join(repr(one) for one in near)}?" if near else ""
            if name == RUN_PROGRAM:
                raise AttributeError("A program cannot run another one. Put all of it into one program.")
            raise AttributeError(f"There is no tool {name!r} for this program.{hint}")
        return functools.partial(self.__call, tool)

    def __dir__(self) -> list[str]:
        return sorted(self.__names)

    async def __call(self, tool: str, *positional: Any, **arguments: Any) -> Any:
        if positional:
            raise TypeError(f"tools.{python_name(tool)} takes its arguments by name: {python_name(tool)}(name=value).")
        try:
            json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"The arguments of {tool} are not JSON: {error}.") from None
        future = self.__loop.create_future()
        self.__loop.ask({"tool": tool, "arguments": arguments}, functools.partial(settle, future))
        return await future


def settle(future: "asyncio.Future[Any]", message: dict[str, Any]) -> None:
    if future.done():  # its task was cancelled
        return
    failed = message.get("failed")
    if failed is None:
        future.set_result(message.get("result"))
    else:
        future.set_exception(ToolFailed(failed["message"], code=failed["code"], result=failed.get("result")))


def python_name(name: str) -> str:
    """A tool's name as an attribute."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{word}_" if keyword.iskeyword(word) else f"_{word}" if word[:1].isdigit() else word


def repeatable(clock: Clock, seed: int) -> None:
    """Replace what would differ when the program is run again: the clock, and every source of chance."""
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose

    class Random(random.Random):
        def __init__(self, x: Any = None) -> None:
            super().__init__(chance.getrandbits(64) if x is None else x)

        def seed(self, a: Any = None, version: int = 2) -> None:
            super().seed(chance.getrandbits(64) if a is None else a, version)

    class SystemRandom(Random):
        def seed(self, *_: Any, **__: Any) -> None:
            super().seed(None)

    changed: dict[str, Any] = {"Random": Random, "SystemRandom": SystemRandom, "_urandom": chance.randbytes}
    vars(random).update(changed)
    random.seed(seed)
    os.urandom = chance.randbytes
    os.getrandom = lambda size, flags=0: chance.randbytes(size)  # noqa: ARG005 - by either name
    set_time(clock)


def set_time(clock: Clock) -> None:
    real = types.SimpleNamespace(**{name: getattr(time, name) for name in ("gmtime", "localtime", "strftime", "ctime")})

    def now() -> float:
        return clock.time_ns() / 1e9

    def blocked(_: float) -> NoReturn:
        raise RuntimeError("time.sleep would stop the whole program. Use: await asyncio.sleep(seconds).")

    changed: dict[str, Any] = {
        "time": now,
        "time_ns": clock.time_ns,
        "sleep": blocked,
        "gmtime": lambda secs=None: real.gmtime(now() if secs is None else secs),
        "localtime": lambda secs=None: real.localtime(now() if secs is None else secs),
        "ctime": lambda secs=None: real.ctime(now() if secs is None else secs),
        "strftime": lambda form, t=None: real.strftime(form, real.localtime(now()) if t is None else t),
    }
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        changed[name] = lambda: clock.elapsed_ns() / 1e9
        changed[f"{name}_ns"] = clock.elapsed_ns
    vars(time).update(changed)

    class Date(dt.date):
        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(now())

    class DateTime(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(now(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.fromtimestamp(now(), dt.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

    for name, kind in (("date", Date), ("datetime", DateTime)):
        kind.__name__ = kind.__qualname__ = name
        kind.__module__ = "datetime"
        setattr(dt, name, kind)


def in_order() -> None:
    """`asyncio.as_completed` would start coroutines in the order of their addresses."""
    original = asyncio.as_completed

    def as_completed(fs: Any, **options: Any) -> Any:
        return original([asyncio.ensure_future(one) for one in fs], **options)

    asyncio.as_completed = as_completed


def compiled(code: str) -> types.CodeType:
    """The body of an async function called `program`."""
    tree = ast.parse(code, FILE)
    function = ast.parse("async def program(): pass").body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    if tree.body:
        function.body = tree.body
    module = ast.fix_missing_locations(ast.Module(body=[function], type_ignores=[]))
    return compile(module, FILE, "exec")


class Program:
    """One program from its code to its end."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._clock = clock = Clock()
        clock.now = clock.started = start["now"]
        self._log = Log()
        self.loop = ProgramLoop(clock, self._log)
        self._task: asyncio.Task[Any] | None = None
        self._code = start["code"]
        repeatable(clock, start["seed"])
        in_order()
        sys.stdout = sys.stderr = self._log
        self._namespace = {
            "__name__": "program",
            "__builtins__": builtins,
            "asyncio": asyncio,
            "json": json,
            "tools": Tools(start["tools"], self.loop),
            "ToolFailed": ToolFailed,
        }

    def begin(self) -> dict[str, Any]:
        linecache.cache[FILE] = (len(self._code), None, self._code.splitlines(keepends=True), FILE)
        try:
            exec(compiled(self._code), self._namespace)  # noqa: S102 - what this process is for
        except SyntaxError as error:
            return self._failed("invalid_program", f"Line {error.lineno}: {error.msg}.")
        except (ValueError, RecursionError, MemoryError) as error:
            return self._failed("invalid_program", f"The code cannot be compiled: {describe(error)}.")
        asyncio._set_running_loop(self.loop)  # noqa: SLF001 - what every event loop does
        program: Any = self._namespace["program"]
        self._task = self.loop.create_task(program(), name="program")
        return self._turn()

    def deliver(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Each is followed by a turn of its own; what they asked for is reported together."""
        report: dict[str, Any] = {}
        for message in messages:
            self.loop.deliver(message)
            report = self._turn()
            if "asks" not in report:
                break
        return report

    def _turn(self) -> dict[str, Any]:
        assert self._task is not None
        try:
            self.loop.turn()
        except SystemExit:
            return self._failed("program_failed", "The program called exit(). Use `return` to end it with a result.")
        except BaseException as error:  # noqa: BLE001 - the border to the program's code
            return self._failed("program_failed", describe(error), error)
        if not self._task.done():
            return self._with_log({"asks": self.loop.asks, "dropped": self.loop.dropped})
        return self._ended(self._task)

    def _ended(self, task: "asyncio.Task[Any]") -> dict[str, Any]:
        if task.cancelled():
            return self._failed("program_failed", "The program cancelled itself.")
        error = task.exception()
        if isinstance(error, ToolFailed):
            return self._failed(error.code, str(error), error)
        if error is not None:
            return self._failed("program_failed", describe(error), error)
        try:
            result = json.dumps(task.result(), allow_nan=False, ensure_ascii=False)
            result.encode()
        except (TypeError, ValueError, RecursionError) as fault:
            said = f"The program returned {type(task.result()).__name__}, which is not JSON: {fault}."
            return self._failed("bad_result", f"{said} Return text, numbers, lists or dicts.")
        return self._with_log({"done": types.SimpleNamespace(json=result)})

    def _failed(self, code: str, message: str, error: BaseException | None = None) -> dict[str, Any]:
        told = plain(message[:MAX_TRACE]), plain(own_trace(error))
        return self._with_log({"failed": {"code": code, "message": told[0], "trace": told[1]}})

    def _with_log(self, report: dict[str, Any]) -> dict[str, Any]:
        report["log"] = self._log.take()
        report["left_out"] = self._log.left_out
        return report


def plain(text: str) -> str:
    """Without halves of characters, which JSON cannot hold."""
    return text.encode(errors="replace").decode()


def describe(error: BaseException) -> str:
    try:
        said = str(error)
    except BaseException:  # noqa: BLE001 - the program's own class
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def own_trace(error: BaseException | None) -> str:
    """The lines of the program that led to an error, without ours."""
    if error is None:
        return ""
    try:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
        return "".join(traceback.format_list(frames))[-MAX_TRACE:]
    except BaseException:  # noqa: BLE001 - the program's own class
        return ""


ARCHITECTURES = {
    "x86_64": (
        0xC000003E,
        (41, 42, 53, 56, 57, 58, 59, 101, 155, 165, 166, 272, 298, 308, 310, 311, 321, 322, 425, 435),
    ),
    "aarch64": (0xC00000B7, (97, 117, 198, 199, 203, 220, 221, 241, 268, 270, 271, 280, 281, 39, 40, 41, 425, 435)),
}
"""Audit number of the architecture, and the system calls that a program never needs: processes, threads, programs,
sockets, namespaces, mounts, ptrace, other processes' memory, bpf, perf, io_uring.
"""


def confine() -> None:
    """No processes, programs, threads or sockets from here on: a filter in the kernel, which cannot be taken off."""
    known = ARCHITECTURES.get(platform.machine())
    if known is None or sys.platform != "linux":
        return  # the sandbox around it still holds
    arch, refused = known
    refuse = 0x0005_0000 | 1  # EPERM
    load, equal, at_least, end = 0x20, 0x15, 0x35, 0x06
    lines = [(load, 0, 0, 4), (equal, 1, 0, arch), (end, 0, 0, refuse), (load, 0, 0, 0)]
    lines += [(at_least, 0, 1, 0x4000_0000), (end, 0, 0, refuse)]  # the other ABI of the same processor
    for number in refused:
        lines += [(equal, 0, 1, number), (end, 0, 0, refuse)]
    lines.append((end, 0, 0, 0x7FFF_0000))  # everything else is allowed
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    program = struct.pack("@HP", len(lines), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((38, 1, 0, 0, 0), (22, 2, program, 0, 0)):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
        if libc.prctl(words[0], *(word if isinstance(word, bytes) else ctypes.c_ulong(word) for word in words[1:])):
            raise OSError(ctypes.get_errno(), "the program could not be confined")


def encode(report: dict[str, Any]) -> bytes:
    done = report.pop("done", None)
    if done is None:
        return json.dumps(report).encode() + b"\n"
    return f'{{"done":{done.json},{json.dumps(report)[1:]}\n'.encode()


def main() -> None:
    """Take the socket from stdin, become confined, run one program."""
    connection = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    requests = connection.makefile("rb")
    confine()
    connection.sendall(b'{"ready":true}\n')
    line = requests.readline()
    if not line:
        return
    program = Program(json.loads(line))
    report = program.begin()
    while True:
        is_over = "asks" not in report
        connection.sendall(encode(report))
        program.loop.asks.clear()
        program.loop.dropped.clear()
        line = requests.readline()
        if is_over or not line:
            os._exit(0)
        report = program.deliver(json.loads(line))


if __name__ == "__main__":
    main()
