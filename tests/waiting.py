"""Waiting for what happens elsewhere: in another process, in a thread, by itself. One way for all tests.

A test asks until the outcome is there. How long that takes says how busy the machine is, so nobody is impatient: a wait
ends early only when it has its answer.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds after which an outcome that did not come is a failure, on any machine."""
_EVERY = 0.02
_TICK = 0.01
_LONGEST = 300.0


def eventually(ask: Callable[[], T], *, within: float = PATIENCE) -> T:
    """The first truthy answer of `ask`. `within` only makes the wait longer."""
    end = time.monotonic() + max(within, PATIENCE)
    while not (answer := ask()):
        if time.monotonic() > end:
            raise AssertionError(f"{ask} was still {answer!r} after {max(within, PATIENCE):g} s")
        time.sleep(_EVERY)
    return answer


@overload
async def eventually_async(ask: Callable[[], Awaitable[T | None]], *, within: float = PATIENCE) -> T: ...
@overload
async def eventually_async(ask: Callable[[], T], *, within: float = PATIENCE) -> T: ...
async def eventually_async(ask: Callable[[], Any], *, within: float = PATIENCE) -> Any:
    """The same while a loop runs; `ask` may be a coroutine function."""
    end = time.monotonic() + max(within, PATIENCE)
    while True:
        asked = ask()
        answer = await asked if isinstance(asked, Awaitable) else asked
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"{ask} was still {answer!r} after {max(within, PATIENCE):g} s")
        await asyncio.sleep(_EVERY)


class Stopwatch:
    """How long something takes, without the time in which this machine ran something else.

    A thread asks for a hundredth of a second again and again; what it gets later than that was not there for anybody.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._late = 0.0
        self._stopped = threading.Event()
        threading.Thread(target=self._measure, daemon=True).start()

    def seconds(self) -> float:
        """Since it was made. It stops with this."""
        took = time.monotonic() - self._began
        self._stopped.set()
        return max(0.0, took - self._late)

    def _measure(self) -> None:
        before = self._began
        while not self._stopped.wait(_TICK):
            now = time.monotonic()
            self._late += max(0.0, now - before - _TICK)
            before = now
            if now - self._began > _LONGEST:
                return
