"""What may not leave the gateway in a sentence about itself: the operator's secrets, and where things are on its disk.

Above: the doors that show why a source is down or what is wrong with a tool file. Below: settings. A tool's own words
are not its business; those the pipeline looks after.
"""

import logging
import math
import re
import secrets
from collections.abc import Callable, Collection
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from jackfield.errors import (
    InvalidArguments,
    RateLimited,
    Refused,
    SourceUnavailable,
    Unauthenticated,
    Unavailable,
    status_of,
)
from jackfield.http.response import BytesResponse, Header, json_response
from jackfield.model.redaction import KnownSecrets
from jackfield.settings import Settings

_ABSOLUTE = re.compile(r"(?<![\w.:/~-])~?/(?:[^\s'\"<>|:,;()\[\]/]+/)*([^\s'\"<>|:,;()\[\]/]+)/?")
"""A path from the root, not one within a url or a relative one; its last part is kept."""


class Sanitizer:
    """Cleans sentences before strangers read them."""

    def __init__(self, secrets: Callable[[], Collection[str]], folders: tuple[Path, ...] = ()) -> None:
        self._secrets = KnownSecrets(secrets)
        self._roots = [f"{folder}/" for folder in folders]

    @classmethod
    def of(cls, settings: Settings) -> "Sanitizer":
        return cls(lambda: settings.secrets.used, (settings.data, settings.folder))

    def text(self, sentence: str) -> str:
        """The sentence without secrets, and with paths as the operator wrote them, or their last part only."""
        sentence = self._secrets.text(sentence)
        for root in self._roots:
            sentence = sentence.replace(root, "")
        return _ABSOLUTE.sub(r"…/\1", sentence)


log = logging.getLogger(__name__)

INTERNAL_ERROR = 500
_TYPES = {
    400: "invalid_request",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found",
    409: "conflict",
    410: "expired",
    429: "too_many_requests",
    500: "server_error",
    503: "unavailable",
}
"""What kind of error a status is; every other 4xx is the request's fault too."""


class MethodNotAllowed(Refused):
    """405: the path exists, but not for this method."""

    code = "method_not_allowed"

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class TooSlow(Refused):
    """408: the body did not come in time."""

    code = "request_timeout"


class ErrorDetail(Struct, frozen=True, kw_only=True):
    """One fault of the arguments: where it is, and what it is."""

    path: str
    message: str


class ErrorBody(Struct, frozen=True, kw_only=True):
    """What went wrong: its kind, a stable code for programs, a sentence for people, the parameter at fault."""

    type: str
    code: str
    message: str
    param: str | None
    details: list[ErrorDetail] | UnsetType = UNSET
    """Only with `invalid_arguments`: one entry per fault."""


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """Every error of this API has this shape."""

    error: ErrorBody


def http_status(refusal: Refused) -> int:
    """The status for a refusal, those that only HTTP knows included."""
    if isinstance(refusal, MethodNotAllowed):
        return 405
    if isinstance(refusal, TooSlow):
        return 408
    return status_of(refusal)


def refusal_response(refusal: Refused, *, discretion: Sanitizer) -> BytesResponse:
    """What the client is told. Why a source is down may name what strangers need not know."""
    status = http_status(refusal)
    message = discretion.text(refusal.message) if isinstance(refusal, SourceUnavailable) else refusal.message
    details = [ErrorDetail(**detail) for detail in refusal.details] if isinstance(refusal, InvalidArguments) else UNSET
    body = ErrorBody(type=error_type(status), code=refusal.code, message=message, param=refusal.param, details=details)
    return json_response(ErrorAnswer(error=body), status=status, headers=_extra_headers(refusal))


def crash_response(fault: BaseException, *, what: str) -> BytesResponse:
    """500: the client gets a reference and no detail, the log gets both."""
    return json_response(ErrorAnswer(error=crash_body(fault, what=what)), status=INTERNAL_ERROR)


def crash_body(fault: BaseException, *, what: str) -> ErrorBody:
    """What a client is told of a fault of ours, which is logged."""
    reference = secrets.token_hex(6)
    log.error("%s failed (reference %s)", what, reference, exc_info=fault)
    message = f"Something went wrong inside the gateway. Its log has the details under reference {reference}."
    return ErrorBody(type=error_type(INTERNAL_ERROR), code="internal_error", message=message, param=None)


def error_type(status: int) -> str:
    return _TYPES.get(status, "invalid_request")


def _extra_headers(refusal: Refused) -> tuple[Header, ...]:
    if isinstance(refusal, RateLimited):
        return ((b"retry-after", b"%d" % max(1, math.ceil(refusal.retry_after))),)
    if isinstance(refusal, Unavailable):
        return ((b"retry-after", b"1"),)
    if isinstance(refusal, Unauthenticated):
        return ((b"www-authenticate", b"Bearer"),)
    if isinstance(refusal, MethodNotAllowed):
        return ((b"allow", refusal.allowed.encode()),)
    return ()
