"""Times as clients read them."""

import difflib
from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-01-15T10:30:00.000Z"])]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # without a zone: `isoformat` would write it as +00:00


def iso_time(milliseconds: int) -> str:
    """ISO 8601 in UTC with milliseconds: `2026-01-15T10:30:00.000Z`."""
    return f"{(_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec='milliseconds')}Z"


def counted(number: int, noun: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def with_article(word: str) -> str:
    """`an object`, `a dict`, `a UUID`."""
    return f"{'an' if word[:1].lower() in ('a', 'e', 'i', 'o') else 'a'} {word}"


def nearest(word: str, known: list[str]) -> str:
    """` Did you mean 'x'?`, or nothing when no known word is near."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""
