"""An answer that any framework can send: status, headers, body. Above: `provider.py`. Below: the gateway's answers."""

from collections.abc import Mapping

from msgspec import Struct

from jackfield.errors import Refused
from jackfield.http import response as answers
from jackfield.http.errors import Sanitizer, refusal_response

CACHED: Mapping[str, str] = {name.decode(): value.decode() for name, value in answers.CACHED}
_NOTHING_TO_HIDE = Sanitizer(lambda: ())


class Reply(Struct, frozen=True, kw_only=True):
    """What to send. Header names are in lower case; the length is the sender's to add."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


def json_reply(body: bytes, *, headers: Mapping[str, str] | None = None) -> Reply:
    kept = {"cache-control": "no-store", **(headers or {})}
    return Reply(status=200, headers={"content-type": "application/json", **kept}, body=body)


def empty_reply(status: int, **headers: str) -> Reply:
    return Reply(status=status, headers=headers)


def refused_reply(refusal: Refused) -> Reply:
    """A refusal in the shape that every error of the gateway has."""
    reply = refusal_response(refusal, discretion=_NOTHING_TO_HIDE)
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Reply(status=reply.status, headers=headers, body=reply.body)
