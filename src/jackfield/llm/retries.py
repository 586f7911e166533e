"""When a model is asked again, and when it is left alone. Above: `openai.py`. Below: nothing; the clock and the dice
are handed in.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic

from msgspec import Struct

from jackfield.llm.base import ModelFailed
from jackfield.model.words import counted
from jackfield.protocol.backoff import backoff

RETRIED_STATUSES = frozenset({408, 409, 429})
_SERVER_FAULTS = 500
_RATE_LIMITED = 429
LONGEST_BACKOFF = 8.0


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often and after how long a request is made again. Seconds."""

    retries: int = 2
    delay: float = 0.5
    max_delay: float = 30.0

    def wait(self, fault: ModelFailed, *, tried: int, chance: float) -> float | None:
        """Seconds until the next try after `tried` failed ones; None when there is none. `chance` is in [0, 1)."""
        if tried > self.retries or not is_passing(fault):
            return None
        if fault.retry_after is None:
            longest = min(LONGEST_BACKOFF, self.max_delay)
            return backoff(tried - 1, first=self.delay, longest=longest, spread=0) * (0.75 + chance / 2)
        return None if fault.retry_after > self.max_delay else max(fault.retry_after, 0.0)


def is_passing(fault: ModelFailed) -> bool:
    """Whether the same request may go well later: nothing was said yet, and the fault is not the request's own."""
    if not fault.before_first_token or fault.code in ("unsupported_input", "quota_exceeded"):
        return False
    return fault.status is None or is_retried(fault.status)


def is_retried(status: int) -> bool:
    return status in RETRIED_STATUSES or status >= _SERVER_FAULTS


def retry_after(value: str | None, *, now: datetime | None = None) -> float | None:
    """Seconds in a `Retry-After` header: a number or a date. None when there is none that can be read."""
    if not value:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max((at - (now or datetime.now(UTC))).total_seconds(), 0.0)


class Breaker:
    """Leaves a model alone that keeps failing: everybody gets an error at once, and one request at a time tries it.

    Counted are requests that failed with all their retries, by the server's fault. A refusal proves that it lives.
    """

    def __init__(self, model: str, *, failures: int, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._model = model
        self._failures = failures
        self._seconds = seconds
        self._clock = clock
        self._in_a_row = 0
        self._last = ""
        self._opens_at: float | None = None
        """From when it may be tried again; None while all is well."""
        self._is_probed = False

    @property
    def is_open(self) -> bool:
        return self._opens_at is not None

    def enter(self) -> bool:
        """Called before each request. Raises while the model is left alone. True: this is the probe."""
        if self._opens_at is None:
            return False
        left = self._opens_at - self._clock()
        if left > 0 or self._is_probed:
            when = f"in {left:.0f} s" if left >= 1 else "in a moment"
            raise ModelFailed(
                f"Model '{self._model}' failed {counted(self._in_a_row, 'request')} in a row and is left alone "
                f"for now; it is tried again {when}. Last: {self._last}",
                code="model_unavailable",
                retry_after=max(left, 1.0),
            )
        self._is_probed = True
        return True

    def succeeded(self) -> None:
        self._in_a_row, self._opens_at = 0, None

    def failed(self, fault: ModelFailed) -> None:
        if fault.status == _RATE_LIMITED or fault.code == "unsupported_input":
            return
        if fault.status is not None and not is_retried(fault.status):
            self.succeeded()
            return
        self._in_a_row, self._last = self._in_a_row + 1, fault.message
        if self._failures and self._in_a_row >= self._failures:
            self._opens_at = self._clock() + self._seconds

    def probe_ended(self) -> None:
        """However it ended: with a verdict before, or because nobody waited for it any more."""
        self._is_probed = False
