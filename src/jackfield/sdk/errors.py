"""What the SDK raises: the gateway's own errors, rebuilt by their codes, and six situations of the client's side.

JackfieldError
├── Refused …              the gateway refused the request: the class of `jackfield.errors` with that code
├── ToolFailed             the call was made and failed; carries the tool's result
├── CallPending            the call was made and waits for an approval or an answer
├── GatewayUnreachable     no connection, or it broke
├── NoAnswer               the caller's timeout expired; the call may still run
├── GatewayFault           an internal error of the gateway, or the response of something else
└── SessionFailed          the agent of a session failed, or the session ended
"""

from typing import Any

import msgspec
from msgspec import Struct

from jackfield.errors import STATUS, InvalidArguments, JackfieldError, LoginNeeded, RateLimited, Refused, Unavailable
from jackfield.sdk.types import CallAnswer

DEFAULT_RETRY_AFTER = 1.0
_CLIENT_ERRORS = range(400, 500)


class ToolFailed(JackfieldError):
    """The call was made and ended without a result. `code` is the failure's own, as in the call's record."""

    code = "tool_failed"

    def __init__(self, message: str, *, code: str, call_id: str, result: Any = None, status: str = "failed") -> None:
        super().__init__(message)
        _set_code(self, code)
        self.call_id = call_id
        self.result = result
        self.status = status


class CallPending(JackfieldError):
    """The call was made and has no outcome yet: it waits for an approval or for an answer from elsewhere."""

    code = "pending"

    def __init__(self, message: str, *, call_id: str, status: str) -> None:
        super().__init__(message)
        self.call_id = call_id
        self.status = status


class GatewayUnreachable(JackfieldError):
    """Nothing listens at that url, or the connection broke before the response."""

    code = "gateway_unreachable"


class NoAnswer(JackfieldError, TimeoutError):
    """The gateway took longer than the caller's timeout. The request may still take effect."""

    code = "no_answer"


class GatewayFault(JackfieldError):
    """The gateway failed, or what responded is not a gateway."""

    code = "gateway_fault"


class SessionFailed(JackfieldError):
    """The agent of a session failed, or the session ended before it answered."""

    code = "session_failed"


AWAY = (GatewayUnreachable, GatewayFault, NoAnswer, Unavailable)
"""The gateway may be back in a moment."""


class _ErrorBody(Struct, frozen=True, kw_only=True):
    code: str
    message: str
    param: str | None = None
    details: list[dict[str, Any]] = []
    source: str = ""
    login_url: str | None = None


class _Envelope(Struct, frozen=True, kw_only=True):
    error: _ErrorBody


def refusal(status: int, body: bytes, *, url: str, retry_after: str | None = None) -> JackfieldError:
    """The error that a response with this status and body stands for."""
    try:
        error = msgspec.json.decode(body, type=_Envelope).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = None
    if error is None or (error.code not in BY_CODE and status not in _CLIENT_ERRORS and status not in BY_STATUS):
        why = f": {error.message}" if error else ", which is not a response of a gateway."
        return GatewayFault(f"{url} responded with HTTP {status}{why} Check the url and the gateway's log.")
    return _build(BY_CODE.get(error.code) or BY_STATUS.get(status, Refused), error, retry_after)


def outcome_of(tool: str, answer: CallAnswer) -> Any:
    """The plain result of a completed call. Raises for one that failed or has no outcome yet."""
    if answer.success:
        return answer.result
    if not answer.is_settled:
        wait = _WAITS_FOR.get(answer.status, "it is answered elsewhere")
        if answer.login_url is not None:
            wait += f" at {answer.login_url}"
        raise CallPending(
            f"Call {answer.call_id} of '{tool}' is {answer.status}: {wait}. client.calls.wait(…) waits for its end.",
            call_id=answer.call_id,
            status=answer.status,
        )
    raise ToolFailed(
        answer.error.message if answer.error else f"Call {answer.call_id} of '{tool}' ended as {answer.status}.",
        code=answer.error.code if answer.error else answer.status,
        call_id=answer.call_id,
        result=answer.result,
        status=answer.status,
    )


_WAITS_FOR = {"pending_approval": "it needs approval", "pending_login": "somebody has to log in"}


def _build(kind: type[Refused], error: _ErrorBody, retry_after: str | None) -> Refused:
    refused: Refused
    if issubclass(kind, InvalidArguments):
        refused = kind(error.message, details=error.details)
    elif issubclass(kind, RateLimited):
        refused = kind(error.message, retry_after=retry_seconds(retry_after))
    elif issubclass(kind, LoginNeeded):
        refused = kind(error.message, source=error.source, principal=None, login_url=error.login_url)
    else:
        refused = kind(error.message, param=error.param)
    if error.code != kind.code:
        _set_code(refused, error.code)
    return refused


def retry_seconds(retry_after: str | None) -> float:
    """The seconds of a `Retry-After` header; its date form and invalid values count as one."""
    try:
        return max(0.0, float(retry_after or DEFAULT_RETRY_AFTER))
    except ValueError:
        return DEFAULT_RETRY_AFTER


def _set_code(error: JackfieldError, code: str) -> None:
    """Set the code of one error: a failing tool's own, or one of a newer gateway that has no class here."""
    vars(error)["code"] = code


def _classes(root: type[Refused]) -> list[type[Refused]]:
    return [root, *(inner for child in root.__subclasses__() for inner in _classes(child))]


BY_CODE = {kind.code: kind for kind in _classes(Refused) if kind.__module__ == Refused.__module__}
BY_STATUS = {status: kind for kind, status in STATUS.items()}
