"""The JSON body, status and headers of every error response."""

import math

from msgspec import UNSET, Struct, UnsetType

from jackfield.errors import (
    InvalidArguments,
    LoginNeeded,
    RateLimited,
    Refused,
    Unauthenticated,
    Unavailable,
    status_of,
)

_TYPES = {
    400: "invalid_request",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found",
    409: "conflict",
    410: "expired",
    429: "too_many_requests",
    500: "server_error",
    502: "upstream_error",
    503: "unavailable",
}
"""The type for a status; every other 4xx is an `invalid_request`."""


class MethodNotAllowed(Refused):
    """The path exists, but not for this method (405)."""

    code = "method_not_allowed"

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class TooSlow(Refused):
    """The body did not come in time (408)."""

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
    source: str | UnsetType = UNSET
    """Only with `login_needed`: where a login is missing."""
    login_url: str | UnsetType = UNSET
    """Only with `login_needed`: where to make it, for who may."""


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """Every error of this API has this shape."""

    error: ErrorBody


def error_body(refusal: Refused, message: str | None = None) -> ErrorBody:
    """The body for a refusal; `message` replaces its own."""
    details = [ErrorDetail(**detail) for detail in refusal.details] if isinstance(refusal, InvalidArguments) else UNSET
    return ErrorBody(
        type=error_type(http_status(refusal)),
        code=refusal.code,
        message=refusal.message if message is None else message,
        param=refusal.param,
        details=details,
        source=refusal.source if isinstance(refusal, LoginNeeded) else UNSET,
        login_url=(refusal.login_url or UNSET) if isinstance(refusal, LoginNeeded) else UNSET,
    )


def http_status(refusal: Refused) -> int:
    if isinstance(refusal, MethodNotAllowed):
        return 405
    if isinstance(refusal, TooSlow):
        return 408
    return status_of(refusal)


def error_type(status: int) -> str:
    return _TYPES.get(status, "invalid_request")


def error_headers(refusal: Refused) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that a refusal needs besides those of every JSON response."""
    if isinstance(refusal, RateLimited):
        return ((b"retry-after", b"%d" % max(1, math.ceil(refusal.retry_after))),)
    if isinstance(refusal, Unavailable):
        return ((b"retry-after", b"1"),)
    if refusal.challenge is not None:
        return ((b"www-authenticate", refusal.challenge.encode()),)
    if isinstance(refusal, Unauthenticated):
        return ((b"www-authenticate", b"Bearer"),)
    if isinstance(refusal, MethodNotAllowed):
        return ((b"allow", refusal.allowed.encode()),)
    return ()
