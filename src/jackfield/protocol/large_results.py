"""Results that are too large to inline: the notice in their place, and their pages.

Sizes and offsets are bytes of the result's JSON text in UTF-8, the text that the digest is of. Above:
`calls/transactions.py`, which stores the whole when it settles a call, the API that serves pages, and the SDK.
"""

import hashlib

import msgspec
from msgspec import Raw, Struct

from jackfield.model.call import Done, Failed

LARGE_RESULT = 1_000_000
"""Bytes above which a result is large, unless the config says otherwise."""
PREVIEW = 1_000
"""Bytes of it that the notice shows."""
_LONGEST_CHARACTER = 4
"""Bytes of one character in UTF-8 at most."""
_CONTINUING = range(0x80, 0xC0)
"""Bytes that are within a character and never its first."""
_encode = msgspec.json.Encoder().encode


class StoredResult(Struct, frozen=True, kw_only=True):
    """A result that is stored separately from its call."""

    call_id: str
    body: bytes
    digest: str


class LargeResult(Struct, frozen=True, kw_only=True):
    """The notice in place of a large result; `client.calls.result(call_id)` reads the whole."""

    large_result: bool = True
    call_id: str
    size: int
    digest: str
    preview: str
    url: str
    message: str


class ResultPage(Struct, frozen=True, kw_only=True):
    """A part of a result's JSON text, and the offset of the next page; None after the last.

    A page starts and ends between two characters, both moved back where needed, so that pages join without a gap.
    `digest` and `size` are those of the whole result.
    """

    call_id: str
    digest: str
    size: int
    offset: int
    next_offset: int | None
    text: str


SMALLEST_PAGE = _LONGEST_CHARACTER
"""Any character fits into a page of this size, so every page makes progress."""


def is_large(outcome: Done | Failed, limit: int) -> bool:
    """Whether an outcome has more bytes than may be inlined; with a limit of 0 none has."""
    if outcome.result is not None:
        return 0 < limit < len(outcome.result)
    return isinstance(outcome, Failed) and 0 < limit < len(outcome.message)


def set_aside(outcome: Done | Failed, call_id: str, *, limit: int) -> tuple[Done | Failed, StoredResult]:
    """A large outcome with a notice as its result, and the whole to store."""
    if isinstance(outcome, Done):
        large = _stored(outcome.result, call_id)
        return Done(Raw(_encode(notice_of(large)))), large
    result = outcome.result
    if result is None:  # the message itself is what is large
        result = Raw(_encode({"error": outcome.message, "toolCallId": call_id}))
    large = _stored(result, call_id)
    message = outcome.message if len(outcome.message) <= limit else f"{outcome.message[:PREVIEW]}…"
    return Failed(outcome.code, message, Raw(_encode(notice_of(large)))), large


def notice_of(large: StoredResult) -> LargeResult:
    url, size = f"/api/v1/calls/{large.call_id}/result", len(large.body)
    return LargeResult(
        call_id=large.call_id,
        size=size,
        digest=large.digest,
        preview=cut(large.body[: PREVIEW + 1], start=0, first=0, count=PREVIEW)[1],
        url=url,
        message=f"This result has {size} bytes, too many to give at once. 'preview' is its beginning; read on with "
        f"GET {url}?offset=0&limit=…, each page says where the next begins.",
    )


def may_be_notice(result: Raw | None, call_id: str) -> bool:
    """Whether this is the notice of `set_aside`, or a tool's imitation of it, which only the store can tell."""
    return result is not None and bytes(result).startswith(_notice_head(call_id))


def _notice_head(call_id: str) -> bytes:
    return b'{"large_result":true,"call_id":' + _encode(call_id)


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def window(offset: int, limit: int) -> tuple[int, int]:
    """Where to start reading for a page, and how many bytes: enough on both sides to see where characters start."""
    first = max(0, offset - _LONGEST_CHARACTER + 1)
    return first, offset + limit + 1 - first


def cut(read: bytes, *, start: int, first: int, count: int) -> tuple[int, str]:
    """The page of `count` bytes at `start`, out of the bytes read from `first` on: its offset and its text."""
    begin = _moved_back(read, start - first)
    end = _moved_back(read, min(start - first + count, len(read)))
    return first + begin, read[begin:end].decode()


def page_of(read: bytes, *, call_id: str, digest: str, size: int, offset: int, limit: int) -> ResultPage:
    """A page, out of the bytes that `window` asked for."""
    first, _ = window(offset, limit)
    begin, text = cut(read, start=offset, first=first, count=limit)
    end = begin + len(text.encode())
    return ResultPage(
        call_id=call_id, digest=digest, size=size, offset=begin, next_offset=end if end < size else None, text=text
    )


def _moved_back(text: bytes, place: int) -> int:
    """The nearest place at or before `place` where a character starts."""
    while 0 < place < len(text) and text[place] in _CONTINUING:
        place -= 1
    return place


def _stored(result: Raw, call_id: str) -> StoredResult:
    body = bytes(result)
    return StoredResult(call_id=call_id, body=body, digest=digest_of(body))
