"""A gateway that writes down which of its own functions run: `python recorder.py FD serve …`.

Started by `scenes` with the interpreter of the checkout that is measured, so it needs the standard library only, and of
the checkout nothing but its `jackfield` command. On a line `start` on stdin it begins to record, on a line `stop` it
waits until the gateway has nothing more to do and writes what it saw to the file descriptor FD, as one line of JSON.
On a line `idle` it learns what the gateway does when nobody asks for anything: timers do not count as something to do.
"""

import json
import os
import sqlite3
import sys
import threading
import time
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

QUIET_SECONDS = 0.25
"""How long none of our functions runs before what was asked for counts as done."""
AT_MOST_SECONDS = 10.0
IDLE_SECONDS = 8.0
TAIL_SECONDS = 0.003
"""What runs so shortly after the last of our functions still belongs to it."""
NOT_FUNCTIONS = frozenset({"<module>", "<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"})
WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


class Recorder:
    """What ran between `start` and `stop`, in every thread."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._is_on = False
        self._last = 0.0
        self._idle: frozenset[CodeType] = frozenset()
        self._functions: dict[CodeType, float] = {}
        self._statements: list[tuple[float, int, int, bool, str]] = []
        self._jobs: dict[int, int] = {}

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """`sys.setprofile`: a function is entered, or a coroutine goes on."""
        if not self._is_on or event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(self._package):
            now = time.monotonic()
            if code not in self._idle:
                self._last = now
            if code.co_name not in NOT_FUNCTIONS:
                self._functions.setdefault(code, now)
        elif code.co_name == "run" and code.co_filename.endswith("concurrent/futures/thread.py"):
            thread = threading.get_ident()
            self._jobs[thread] = self._jobs.get(thread, 0) + 1

    def statement(self, connection: sqlite3.Connection, sql: str) -> None:
        """`set_trace_callback`: a statement of SQLite begins."""
        if self._is_on:
            thread = threading.get_ident()
            job = self._jobs.get(thread, 0)
            self._statements.append((time.monotonic(), thread, job, connection.in_transaction, sql.lstrip()[:8]))

    def learn(self) -> None:
        """What runs while nothing is asked for."""
        self.start()
        time.sleep(IDLE_SECONDS)
        self._is_on = False
        self._idle = frozenset(self._functions)

    def start(self) -> None:
        self._functions, self._statements, self._jobs = {}, [], {}
        self._last = time.monotonic()
        self._is_on = True

    def stop(self) -> dict[str, Any]:
        end = time.monotonic() + AT_MOST_SECONDS
        while time.monotonic() < min(end, self._last + QUIET_SECONDS):
            time.sleep(0.01)
        self._is_on = False
        functions = [
            (os.path.relpath(code.co_filename, self._package), code.co_firstlineno, code.co_qualname)
            for code, at in self._functions.items()
            if at <= self._last + TAIL_SECONDS
        ]
        statements = [what for at, *what in self._statements if at <= self._last + TAIL_SECONDS]
        asked_for = [code.co_qualname for code in self._functions if code not in self._idle]
        return {
            "functions": functions,
            "asked_for": asked_for,
            "reads": _reads(statements),
            "transactions": _transactions(statements),
        }


def _reads(statements: list[list[Any]]) -> int:
    """Trips to the database for reading: a job of a reading thread is one, whatever it asks."""
    return len({(thread, job) for thread, job, within, sql in statements if not within and _is_read(sql)})


def _transactions(statements: list[list[Any]]) -> int:
    """Commits, and writes that are a transaction of their own."""
    return sum(
        sql.upper().startswith("COMMIT") or (not within and sql.upper().startswith(WRITES))
        for _, _, within, sql in statements
    )


def _is_read(sql: str) -> bool:
    return sql.upper().startswith(("SELECT", "WITH"))


def watch_sqlite(recorder: Recorder) -> None:
    """Every connection from now on says what it runs."""
    connect = sqlite3.connect

    def watched(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(lambda sql: recorder.statement(connection, sql))
        return connection

    sqlite3.connect = watched  # type: ignore[assignment]


def obey(recorder: Recorder, answers: int) -> None:
    """The lines of stdin, until it ends."""
    for line in sys.stdin:
        reply: dict[str, Any] = {}
        match line.strip():
            case "stop":
                reply = recorder.stop()
            case "idle":
                recorder.learn()
            case _:
                recorder.start()
        os.write(answers, json.dumps(reply).encode() + b"\n")


def main() -> None:
    answers = int(sys.argv[1])
    spec = find_spec("jackfield")
    assert spec is not None
    assert spec.origin is not None
    recorder = Recorder(str(Path(spec.origin).parent) + os.sep)
    watch_sqlite(recorder)
    threading.Thread(target=obey, args=(recorder, answers), daemon=True).start()
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    (command,) = entry_points(group="console_scripts", name="jackfield")
    sys.argv = ["jackfield", *sys.argv[2:]]
    sys.exit(command.load()())


if __name__ == "__main__":
    main()
