"""How things look: colours only on a terminal, foreign text made harmless there, JSON for programs.

Above: every command. Below: the standard streams.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TextIO

import msgspec

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_KEPT = "\n\t"


def has_colours(stream: TextIO) -> bool:
    """Whether colours may go there: a terminal, and nobody set NO_COLOR."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """`text` in these styles, if the stream (stdout) shows them."""
    if not text or not has_colours(stream or sys.stdout):
        return text
    return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


def harmless(text: str) -> str:
    """Foreign text without what could drive a terminal: control characters are shown by their number."""
    return "".join(
        character if character.isprintable() or character in _KEPT else _numbered(character) for character in text
    )


def one_line(text: str) -> str:
    """The first line that says something."""
    return harmless(next((line.strip() for line in text.splitlines() if line.strip()), ""))


def put(text: str = "") -> None:
    """One piece of output for people."""
    print(text)


def put_json(value: Any) -> None:
    """Output for programs: JSON, indented, in UTF-8."""
    print(pretty(value))


def put_json_line(value: Any) -> None:
    """One object of a stream, on one line, at once."""
    print(msgspec.json.encode(value).decode(), flush=True)


def note(text: str) -> None:
    """Something beside the result, on stderr."""
    print(text, file=sys.stderr)


def pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def put_result(value: Any) -> None:
    """A tool's result: text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else pretty(value)
    print(harmless(text) if sys.stdout.isatty() else text)


def columns(rows: Sequence[Sequence[str]], *, styles: Sequence[str] = (), indent: str = "") -> list[str]:
    """The rows with their cells one below the other; on a terminal the last cell is cut at its edge."""
    if not rows:
        return []
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    room = _room() - len(indent) - sum(width + 2 for width in widths[:-1])
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        cells.append(_cut(row[-1], room))
        painted = [
            paint(cell, style) if style else cell for cell, style in zip(cells, _filled(styles, row), strict=True)
        ]
        lines.append((indent + "  ".join(painted)).rstrip())
    return lines


def milliseconds(value: float | None) -> str:
    """`0.4 ms`, `12 ms`, `3.2 s`"""
    if value is None:
        return ""
    if value >= 1000:  # noqa: PLR2004 - a second
        return f"{value / 1000:.1f} s"
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"  # noqa: PLR2004 - one digit is enough from here


def clock(at: str | None) -> str:
    """A moment by this machine's clock: `12:30:05`"""
    try:
        return f"{datetime.fromisoformat(at or '').astimezone():%H:%M:%S}"
    except ValueError:
        return "--:--:--"


def _filled(styles: Sequence[str], row: Sequence[str]) -> list[str]:
    return [*styles, *[""] * (len(row) - len(styles))]


def _room() -> int | float:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else float("inf")


def _cut(text: str, room: float) -> str:
    if len(text) <= room or room < 10:  # noqa: PLR2004 - too narrow to be worth cutting
        return text
    return text[: int(room) - 1] + "…"


def _numbered(character: str) -> str:
    return f"\\x{ord(character):02x}" if ord(character) <= 0xFF else f"\\u{ord(character):04x}"  # noqa: PLR2004 - Latin-1
