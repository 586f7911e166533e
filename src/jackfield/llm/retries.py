"""When a model is asked again, and when it is left alone. Above: `openai.py`. Below: nothing; the clock and the dice
are handed in.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.llm.types import ModelFailed, OpenAIOptions
from jackfield.model.text import counted
from jackfield.protocol.backoff import backoff
from jackfield.protocol.json_bodies import UNREADABLE

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


MAX_QUOTE = 300
SHORTEST_SECRET = 8
"""A header's value of fewer characters is no secret, and would be found by chance."""
_CONTEXT_WORDS = (
    "context length",
    "context_length",
    "context size",
    "context window",
    "maximum context",
    "too many tokens",
)
_IMAGE_WORDS = ("image", "multimodal", "multi-modal", "vision", "mmproj")
_TOO_MANY = 429


class Fault(Struct, frozen=True, kw_only=True):
    """An error as a server sent it: `{"error": {"message", "code", …}}` and what others make of it."""

    words: str
    code: str | None = None
    status: int | None = None


class Failures:
    """Makes the errors of one model."""

    def __init__(self, name: str, options: OpenAIOptions) -> None:
        self._name = name
        self._options = options
        self._address = options.base_url.partition("?")[0]
        """Without the query, in which some servers want their key."""

    def answered(
        self, status: int, body: bytes | Any, *, after: str | None = None, before_first_token: bool = True
    ) -> ModelFailed:
        """The server answered with an error. `after` is its `Retry-After`."""
        fault = read_fault(body)
        wait = retry_after(after)
        code = _code(status, fault)
        said = self._quote(fault.words)
        return ModelFailed(
            f"Model '{self._name}' at {self._address} answered {status}{said}. {self._cure(status, code, wait)}",
            code=code,
            status=status,
            retry_after=wait,
            before_first_token=before_first_token,
        )

    def unreachable(self, fault: BaseException, *, before_first_token: bool = True) -> ModelFailed:
        if not before_first_token:
            return self.broken(f"broke off ({self._without_key(str(fault))})", before_first_token=False)
        said = self._quote(str(fault) or type(fault).__name__)
        return ModelFailed(
            f"Model '{self._name}' at {self._address} was not reached{said}. "
            f"Check that its server is up, and base_url under [models.{self._name}].",
            code="model_unavailable",
        )

    def silent(self, seconds: float, *, before_first_token: bool) -> ModelFailed:
        where = "did not begin to answer" if before_first_token else "stopped in the middle of its answer"
        return ModelFailed(
            f"Model '{self._name}' at {self._address} {where}: nothing came for {seconds:g} s. "
            f"If it needs longer, raise timeout under [models.{self._name}].",
            code="model_timeout",
            before_first_token=before_first_token,
        )

    def broken(self, what: str, *, before_first_token: bool) -> ModelFailed:
        return ModelFailed(
            f"Model '{self._name}' at {self._address} {what}. Try again; if it stays, look at its server.",
            before_first_token=before_first_token,
        )

    def in_stream(self, body: Any, *, before_first_token: bool) -> ModelFailed:
        """The server said within a stream that began well that it failed."""
        status = read_fault(body).status or _SERVER_FAULTS
        return self.answered(status, {"error": body}, before_first_token=before_first_token)

    def _cure(self, status: int, code: str, wait: float | None) -> str:
        table = f"[models.{self._name}]"
        by_code = {
            "context_length_exceeded": "Send less: a shorter conversation, smaller tool results or fewer tools.",
            "quota_exceeded": "Look at the account's credit and plan.",
            "rate_limited": "Try again later." if wait is None else f"Try again in {wait:.0f} s.",
        }
        by_status = {
            401: f"Check api_key under {table}.",
            403: f"Check api_key under {table}.",
            404: f"Check base_url and model ('{self._options.model}') under {table}.",
        }
        by_default = (
            "Try again; if it stays, look at its server."
            if is_retried(status)
            else f"If the request is right, the server does not know one of its options: see body under {table}."
        )
        return by_code.get(code) or by_status.get(status) or by_default

    def _quote(self, words: str) -> str:
        words = " ".join(self._without_key(words).split())
        return f" ('{words[: MAX_QUOTE - 1]}…')" if len(words) > MAX_QUOTE else f" ('{words}')" if words else ""

    def _without_key(self, words: str) -> str:
        key = self._options.api_key
        words = words.replace(key, "[api_key]") if key else words
        for name, value in self._options.headers.items():
            words = words.replace(value, f"[{name}]") if len(value) >= SHORTEST_SECRET else words
        return words


def is_about_images(fault: ModelFailed) -> bool:
    """Whether a server refused a request for its images: a model without eyes, or an image that it cannot read."""
    words = fault.message.partition(f" answered {fault.status}")[2].lower()  # not the model's name, nor its address
    return fault.before_first_token and fault.status is not None and any(word in words for word in _IMAGE_WORDS)


def read_fault(body: bytes | Any) -> Fault:
    """What an error's body says, in any of the shapes that servers use."""
    if isinstance(body, bytes):
        try:
            body = msgspec.json.decode(body)
        except UNREADABLE:
            return Fault(words=body.decode("utf-8", "replace").strip())
    inner = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(inner, dict):
        return Fault(words=inner if isinstance(inner, str) else "")
    words = next((inner[key] for key in ("message", "detail", "error") if isinstance(inner.get(key), str)), "")
    code = inner.get("code") or inner.get("type")
    status = next((n for n in (inner.get("code"), inner.get("status")) if isinstance(n, int) and 400 <= n < 600), None)  # noqa: PLR2004
    return Fault(words=words, code=code if isinstance(code, str) else None, status=status)


def _code(status: int, fault: Fault) -> str:
    words = f"{fault.code or ''} {fault.words}".lower()
    if status < _SERVER_FAULTS and any(hint in words for hint in _CONTEXT_WORDS):
        return "context_length_exceeded"
    if fault.code == "insufficient_quota":
        return "quota_exceeded"
    return "rate_limited" if status == _TOO_MANY else "model_error"
