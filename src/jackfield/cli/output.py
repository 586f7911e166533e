"""Terminal output: colors only on a terminal, untrusted text escaped there, JSON for programs, confirmation prompts."""

import difflib
import os
import re
import shutil
import sys
import unicodedata
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, TextIO

import msgspec

from jackfield.cli.options import UsageError

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_DIFF_STYLES = {"+++": "bold", "---": "bold", "@@": "cyan", "+": "green", "-": "red"}
_STYLED = re.compile("\x1b\\[[0-9;]*m")
_NARROWEST = 10
"""Columns below which a cell is not truncated."""


def style(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """`text` in these styles if the stream (stdout by default) is a terminal and NO_COLOR is not set."""
    has_color = (stream or sys.stdout).isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    codes = ";".join(_CODES[name] for name in styles if name)
    return f"\x1b[{codes}m{text}\x1b[0m" if text and codes and has_color else text


def escape(text: str) -> str:
    """Untrusted text with control characters escaped, so that it cannot drive a terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) <= 0xFF else f"\\u{ord(char):04x}"  # noqa: PLR2004 - Latin-1


def first_line(text: str) -> str:
    """The first line that is not blank."""
    return escape(next((line.strip() for line in text.splitlines() if line.strip()), ""))


def compact(value: Any) -> str:
    """A value as JSON on one line."""
    return escape(msgspec.json.encode(value).decode())


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def print_json(value: Any) -> None:
    print(_indented(value))


def print_json_line(value: Any) -> None:
    """One object of a stream, flushed."""
    print(msgspec.json.encode(value).decode(), flush=True)


def print_either(options: Namespace, value: Any, lines: Iterable[str]) -> None:
    """The value as JSON with `--json`, else the lines."""
    if options.json:
        print_json(value)
    else:
        print_lines(lines)


def print_result(value: Any) -> None:
    """A tool's result: text unchanged, anything else as JSON."""
    text = value if isinstance(value, str) else _indented(value)
    print(escape(text) if sys.stdout.isatty() else text)


def _indented(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def print_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def table(
    rows: Sequence[Sequence[str]], *, header: Sequence[str] = (), styles: Sequence[str] = (), indent: str = ""
) -> list[str]:
    """Aligned columns, below their header; on a terminal the last one is truncated at its edge. No rows, no header.

    A cell may be styled, except in the last column.
    """
    if not rows:
        return []
    lined = [header, *rows] if header else rows
    widths = [max(width_of(row[column]) for row in lined) for column in range(len(rows[0]) - 1)]
    terminal = shutil.get_terminal_size().columns if sys.stdout.isatty() else float("inf")
    room = terminal - len(indent) - sum(width + 2 for width in widths)
    lines = []
    for row in lined:
        cells = [cell + " " * (width - width_of(cell)) for cell, width in zip(row, widths, strict=False)]
        cells.append(_truncated(row[-1], room))
        chosen = [*styles, *[""] * (len(row) - len(styles))] if row is not header else ["dim"] * len(row)
        lines.append((indent + "  ".join(map(style, cells, chosen))).rstrip())
    return lines


def width_of(text: str) -> int:
    """Columns that a text, styled or not, takes at a terminal."""
    plain = _STYLED.sub("", text)
    return len(plain) if plain.isascii() else sum(map(_width, plain))


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _truncated(text: str, room: float) -> str:
    if room < _NARROWEST or width_of(text) <= room:
        return text
    ends = accumulate(map(_width, text))
    return "".join(char for char, end in zip(text, ends, strict=True) if end < room) + "…"


def milliseconds(value: float | None) -> str:
    """`0.4 ms`, `12 ms`, `3.2 s`"""
    if value is None:
        return ""
    if value >= 1000:  # noqa: PLR2004 - a second
        return f"{value / 1000:.1f} s"
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"  # noqa: PLR2004 - one digit is enough from here


def duration(time: timedelta) -> str:
    """`4 s`, `12 min`, `3 h`, `2 d`: rounded down, never negative."""
    seconds = max(0, int(time.total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def timestamp(text: str | None) -> datetime | None:
    """An ISO 8601 timestamp; None if there is none."""
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None


def local_time(text: str | None) -> str:
    """A timestamp in local time: `12:30:05`"""
    at = timestamp(text)
    return "--:--:--" if at is None else f"{at.astimezone():%H:%M:%S}"


def local_datetime(text: str | None) -> str:
    """A timestamp in local time: `2026-01-15 12:30:05`"""
    at = timestamp(text)
    return "-" if at is None else f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def json_lines(value: Any, *, indent: str = "  ") -> list[str]:
    """A value in lines below a title: text as it is, anything else as indented JSON."""
    text = value if isinstance(value, str) else _indented(value)
    return [f"{indent}{escape(line)}".rstrip() for line in text.splitlines()]


def print_diff(diff: str) -> None:
    """A unified diff, colored."""
    for line in diff.split("\n"):
        color = next((color for start, color in _DIFF_STYLES.items() if line.startswith(start)), "")
        print(style(escape(line).replace("\t", "    "), color))


def print_file_diff(before: str, after: str, *, name: str) -> None:
    """What will change in a file."""
    print_diff("\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="")))


def confirm(question: str, *, yes: bool) -> bool:
    """Ask on the terminal. Without a terminal `--yes` is required."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("Not confirmed: stdin is not a terminal. Nothing was changed; pass --yes to apply the change.")
    print()
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    return answer.strip().lower() in ("y", "yes")
