"""Times and durations as people type them: 90s, 15m, 12h, 30d.

Above: the commands with such options. Below: nothing.
"""

import re
from datetime import UTC, datetime, timedelta

from jackfield.cli.options import UsageError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(rf"([0-9]{{1,9}})([{''.join(_UNITS)}]?)")


def seconds_in(text: str, flag: str) -> int:
    """A duration such as 30d, in seconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{flag} is '{text}', which is not a duration. Write for example 90s, 15m, 12h or 30d.")
    return int(found[1]) * _UNITS[found[2] or "s"]


def moment_in(text: str) -> str:
    """A time in ISO 8601; `2h` is two hours ago."""
    found = _DURATION.fullmatch(text.strip())
    try:
        if found is not None and found[2]:
            moment = datetime.now(UTC) - timedelta(seconds=int(found[1]) * _UNITS[found[2]])
            return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        return datetime.fromisoformat(text.strip().upper()).isoformat()
    except (ValueError, OverflowError):
        raise UsageError(
            f"'{text}' is not a time. Write it as 2026-01-15 or 2026-01-15T10:30:00Z, or how long ago: 30m, 12h, 7d."
        ) from None
