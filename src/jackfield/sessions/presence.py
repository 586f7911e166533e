"""Whether a caller is there: it holds a stream open, or gave a sign of life lately.

Above: the relay, which fails what is asked of a caller that is gone. Below: a clock. When its last stream closes, a
caller is gone, whatever it did before; `[relay] grace` gives it time to come back.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SIGN_LASTS = 10.0
"""Seconds for which a poll counts."""


class Presence:
    """One caller of one session. `on_change` is called when it may be gone sooner or later than was thought."""

    def __init__(
        self, *, grace: float, on_change: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._grace = grace
        self._on_change = on_change
        self._clock = clock
        self._streams = 0
        self._until = -math.inf

    @property
    def is_here(self) -> bool:
        return self.seconds_left > 0

    @property
    def seconds_left(self) -> float:
        """After how long without another sign it is gone; endless while a stream is open, 0 when it is gone."""
        return math.inf if self._streams else max(0.0, self._until - self._clock())

    def give_sign(self) -> None:
        """It asked, said or answered something."""
        self._until = max(self._until, self._clock() + SIGN_LASTS)
        self._on_change()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """It listens as long as the block runs."""
        with self._open(lambda: self._grace):
            yield

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """It asked, and waits for the answer as long as the block runs."""
        with self._open(lambda: SIGN_LASTS):
            yield

    @contextmanager
    def _open(self, lasts: Callable[[], float]) -> Iterator[None]:
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            self._until = self._clock() + lasts()
            self._on_change()
