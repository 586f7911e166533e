"""Webhooks in the Standard Webhooks format, and requests to any target that is a URL.

The id is the same for every attempt, the timestamp is not.
"""

import time
from collections.abc import Mapping

import msgspec

from jackfield.model.text import iso_time
from jackfield.notify.types import Message, Undelivered
from jackfield.outgoing import Outgoing, OutgoingError
from jackfield.protocol.webhook_signatures import message_headers, signed_headers

JSON_HEADERS = {"content-type": "application/json"}
SECONDS = 20.0
LONGEST_PAUSE = 3600.0
"""Seconds that a target may ask us to wait."""
_TRIED_AGAIN = frozenset({408, 409, 425, 429})
_MOST_READ = 64 * 1024
_encode = msgspec.json.Encoder().encode


def body_of(message: Message) -> bytes:
    """`{"type", "timestamp", "data"}`"""
    return _encode({"type": message.type, "timestamp": iso_time(message.at), "data": message.data})


def webhook_headers(message: Message, body: bytes, *, secret: str | None, now: float) -> dict[str, str]:
    """What a receiver knows the message and its sender by."""
    number, timestamp = message.id, int(now)
    if secret is None:
        return JSON_HEADERS | message_headers(number, timestamp)
    return JSON_HEADERS | signed_headers(body, secret=secret, message_id=number, timestamp=timestamp)


async def send_webhook(outgoing: Outgoing, message: Message, *, url: str, secret: str | None) -> None:
    """Raises `Undelivered`."""
    body = body_of(message)
    await post(outgoing, url, body, headers=webhook_headers(message, body, secret=secret, now=time.time()))


async def post(outgoing: Outgoing, url: str, body: bytes, *, headers: Mapping[str, str]) -> None:
    """One attempt. Redirects are not followed: the operator named this URL, and the message is for it alone."""
    try:
        response = await outgoing.request(
            "POST",
            url,
            headers=headers,
            content=body,
            timeout=SECONDS,
            max_bytes=_MOST_READ,
            named_by=url,
            max_redirects=0,
        )
    except OutgoingError as fault:
        raise Undelivered(str(fault)) from None
    if not 200 <= response.status < 300:  # noqa: PLR2004 - HTTP's own
        is_refused = 400 <= response.status < 500 and response.status not in _TRIED_AGAIN  # noqa: PLR2004 - as above
        raise Undelivered(
            f"The target answered {response.status}.",
            is_refused=is_refused,
            pause=_retry_after(response.headers.get("retry-after", "")),
        )


def _retry_after(value: str) -> float:
    """Seconds; a date is not understood, and our own pauses will do."""
    return min(float(value), LONGEST_PAUSE) if value.isascii() and value.isdecimal() else 0.0
