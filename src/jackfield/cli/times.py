"""Times and durations as people type them: 90s, 15m, 12h, 30d.

Above: the commands with such options. Below: nothing.
"""

import re
from datetime import UTC, datetime, timedelta

from jackfield.cli.options import UsageError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(rf"(\d{{1,9}})([{''.join(_UNITS)}]?)")
_AGO = re.compile(r"([0-9]{1,9})([smhd])")


def seconds_in(text: str, flag: str) -> int:
    """A duration such as 30d, in seconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{flag} is '{text}', which is not a duration. Write for example 90s, 15m, 12h or 30d.")
    return int(found[1]) * _UNITS[found[2] or "s"]


def moment_in(text: str) -> str:
    """A time in ISO 8601; `2h` is two hours ago. What is neither is for the gateway to refuse."""
    found = _AGO.fullmatch(text.strip())
    if found is None:
        return text
    try:
        moment = datetime.now(UTC) - timedelta(seconds=int(found[1]) * _UNITS[found[2]])
    except OverflowError:
        return text
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
