"""What went wrong with a provider, in a sentence that names the model and the cure. Pure.

Above: `openai.py`. Below: `base.py`. The provider's own words are quoted, shortened, with the key and the config's
headers taken out.
"""

from typing import Any

import msgspec
from msgspec import Struct

from jackfield.llm.base import ModelFailed
from jackfield.llm.options import OpenAIOptions
from jackfield.llm.retries import is_retried, retry_after

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
_SERVER_FAULTS = 500


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
        except msgspec.DecodeError:
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
