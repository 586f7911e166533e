"""Times as clients read them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-01-15T10:30:00.000Z"])]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso_time(milliseconds: int) -> str:
    """ISO 8601 in UTC with milliseconds: `2026-01-15T10:30:00.000Z`."""
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
