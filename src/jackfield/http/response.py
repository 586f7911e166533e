"""Responses that are sent whole. Streams are in `sse.py`.

A response is an ASGI app, so `app.py` sends every kind the same way. Above: the handlers. Below: msgspec.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from starlette.types import Receive, Scope, Send

from jackfield.errors import Refused, SourceUnavailable
from jackfield.model.redaction import KnownSecrets, LongSecrets
from jackfield.protocol.errors import ErrorAnswer, ErrorBody, error_body, error_headers, error_type, http_status
from jackfield.settings import Settings

encode = msgspec.json.Encoder().encode
Header = tuple[bytes, bytes]

WHOLE: Final = "jackfield.http.response.whole"
"""An ASGI extension of ours: with it, the first message of a response carries its whole body under this key."""
JSON = (b"content-type", b"application/json")
NO_STORE = (b"cache-control", b"no-store")
_JSON_HEADERS = (JSON, NO_STORE)


class Response(Protocol):
    """Something that can be sent: `BytesResponse`, `EventStream`, or any response of Starlette."""

    def __call__(self, scope: Scope, receive: Receive, send: Send, /) -> Awaitable[None]: ...


class BytesResponse:
    """Status, headers and a body that is ready."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Iterable[Header], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        start = self.start()
        if "extensions" in scope and WHOLE in scope["extensions"]:
            start[WHOLE] = self.body
            await send(start)
            return
        await send(start)
        await send({"type": "http.response.body", "body": self.body})

    def start(self) -> dict[str, Any]:
        """What is sent before the body."""
        length = (b"content-length", b"%d" % len(self.body))
        return {"type": "http.response.start", "status": self.status, "headers": [*self.headers, length]}


class EmptyResponse:
    """An answer without a body: 204, 304."""

    __slots__ = ("headers", "status")

    def __init__(self, status: int, headers: Iterable[Header] = ()) -> None:
        self.status = status
        self.headers = headers

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": b""})


def json_response(value: Any, *, status: int = 200, headers: Iterable[Header] = ()) -> BytesResponse:
    """`value` as JSON that nobody may keep."""
    return raw_json_response(encode(value), status=status, headers=headers)


def raw_json_response(body: bytes, *, status: int = 200, headers: Iterable[Header] = ()) -> BytesResponse:
    """JSON that is encoded already."""
    return BytesResponse(status, (*_JSON_HEADERS, *headers), body)


PIECE = 64 * 1024
"""Servers make us wait when they hold about this much."""


async def send_whole(send: Send, body: bytes, *, gone: "asyncio.Future[Any]") -> bool:
    """Send a part of a body and wait until it has left. False: the client hung up (`gone` is done) before that."""
    for start in range(0, len(body), PIECE):
        await send(part(body[start : start + PIECE]))
        if gone.done():
            return False
    if len(body) > PIECE:
        await send(part(b""))  # comes back when the server holds little of what went before
        await asyncio.sleep(0)
    return not gone.done()


def part(body: bytes) -> dict[str, object]:
    """A part of a body after which there is more."""
    return {"type": "http.response.body", "body": body, "more_body": True}


_METHODS = "".join(f"(?<!{method} )" for method in ("GET", "POST", "PUT", "PATCH", "DELETE"))
_ABSOLUTE = re.compile(_METHODS + r"(?<![\w.:/~-])~?/(?:[^\s'\"<>|:,;()\[\]/]+/)*([^\s'\"<>|:,;()\[\]/]+)/?")
"""A path from the root, not one within a url or a relative one; its last part is kept."""


class Sanitizer:
    """Cleans sentences before strangers read them."""

    def __init__(
        self,
        secrets: Callable[[], Collection[str]],
        folders: tuple[Path, ...] = (),
        *,
        tokens: LongSecrets | None = None,
    ) -> None:
        self._secrets = KnownSecrets(secrets, tokens)
        self._roots = [f"{folder}/" for folder in folders]

    @classmethod
    def of(cls, settings: Settings) -> "Sanitizer":
        return cls(lambda: settings.secrets.used, (settings.data, settings.folder), tokens=settings.secrets.tokens)

    def for_admins(self, sentence: str) -> str:
        """The sentence without secrets. Paths stay, for whoever has to mend what is wrong there."""
        return self._secrets.text(sentence)

    def text(self, sentence: str) -> str:
        """The sentence without secrets, and with paths as the operator wrote them, or their last part only."""
        sentence = self._secrets.text(sentence)
        for root in self._roots:
            sentence = sentence.replace(root, "")
        return _ABSOLUTE.sub(r"…/\1", sentence)


log = logging.getLogger(__name__)

INTERNAL_ERROR = 500


def refusal_response(refusal: Refused, *, sanitizer: Sanitizer) -> BytesResponse:
    """The error response for a refusal. Why a source is down may name secrets and paths."""
    message = sanitizer.text(refusal.message) if isinstance(refusal, SourceUnavailable) else None
    body = ErrorAnswer(error=error_body(refusal, message))
    return json_response(body, status=http_status(refusal), headers=error_headers(refusal))


def crash_response(fault: BaseException, *, what: str) -> BytesResponse:
    """500: the client gets a reference and no detail, the log gets both."""
    return json_response(ErrorAnswer(error=crash_body(fault, what=what)), status=INTERNAL_ERROR)


def crash_body(fault: BaseException, *, what: str) -> ErrorBody:
    """What a client is told of a fault of ours, which is logged."""
    reference = secrets.token_hex(6)
    log.error("%s failed (reference %s)", what, reference, exc_info=fault)
    message = f"Something went wrong inside the gateway. Its log has the details under reference {reference}."
    return ErrorBody(type=error_type(INTERNAL_ERROR), code="internal_error", message=message, param=None)
