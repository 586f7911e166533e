"""Pieces of Markdown."""

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing where there are no rows."""
    lines = [f"| {' | '.join(cell(one) for one in row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines, ""])


def cell(text: str) -> str:
    """A text that fits into a table."""
    return " ".join(text.split()).replace("|", "\\|")


def anchor(text: str) -> str:
    """The id that a heading with this text has: as GitHub and the site make it."""
    plain = re.sub(r"[^\w\- ]", "", text.replace("`", "").lower())
    return plain.strip().replace(" ", "-")


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", *(part.strip("\n") for part in parts if part.strip())]) + "\n"


def block(text: str) -> str:
    """Text as it is."""
    return f"```text\n{text.rstrip()}\n```"
