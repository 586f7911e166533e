"""How visible calls look in a terminal: some tools by their name, all others by their arguments. Pure.

Above: `chat_screen.py`. Below: nothing. The names are those that user interfaces know too (seed 003's `by_name`).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from jackfield.cli.show import harmless

WIDEST_BAR = 30
LONGEST = 400
"""Characters of arguments or of a result that are shown."""


def drawing_of(tool: str, arguments: Any) -> list[str]:
    """What a call is about, as lines."""
    draw = BY_NAME.get(tool)
    drawn = draw(arguments) if draw is not None and isinstance(arguments, dict) else None
    return drawn or ([] if arguments in (None, {}) else [compact(arguments)])


def compact(value: Any) -> str:
    """A value on one line."""
    text = harmless(msgspec.json.encode(value).decode())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def is_echo(result: Any) -> bool:
    """The result of an internal tool: its arguments, which were shown."""
    return isinstance(result, dict) and result.get("success") is True and set(result) == {"success", "args"}


def _question(arguments: dict[str, Any]) -> list[str] | None:
    question = arguments.get("question")
    return [harmless(question)] if isinstance(question, str) else None


def _chart(arguments: dict[str, Any]) -> list[str] | None:
    title, bars = arguments.get("title"), arguments.get("bars")
    if not isinstance(title, str) or not isinstance(bars, list):
        return None
    try:
        pairs = [(harmless(str(bar["label"])), float(bar["value"])) for bar in bars]
    except (KeyError, TypeError, ValueError):
        return None
    width = max((len(label) for label, _ in pairs), default=0)
    most = max((abs(value) for _, value in pairs), default=0) or 1
    lines = [f"{label.ljust(width)}  {_bar(value / most)} {value:g}" for label, value in pairs]
    return [harmless(title), *lines]


def _bar(share: float) -> str:
    return "█" * max(1 if share > 0 else 0, round(WIDEST_BAR * max(share, 0)))


BY_NAME: dict[str, Callable[[dict[str, Any]], list[str] | None]] = {"confirmAction": _question, "displayChart": _chart}
