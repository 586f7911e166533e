"""What a script of the store is: a generator without I/O that knows no database, so that one text serves every store.

It yields a statement (mostly by its name) with its values, is sent the rows, and returns what the move came to. Whoever
runs it runs all of it in one transaction, or none. Above: the moves. Below: the named statements in `sql/`.
"""

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from jackfield.store.rows import Row
from jackfield.store.statements import Statement

T = TypeVar("T")
Ask = tuple[str | Statement, dict[str, Any]]
Script = Generator[Ask, Sequence[Row], T]

INBOX_TOPIC = "inbox:"
RUN_TOPIC = "run:"
"""A cycle has taken a step, or is over."""
WAKE = "wake"
"""What a script asks for in place of a statement to have a topic published once it is committed."""


def wake(topic: str) -> Ask:
    """Yielded by a script: whoever waits for `topic`, at any gateway, is woken after the commit. Never the first."""
    return WAKE, {"topic": topic}


def one(query: str, /, **values: Any) -> Script[Row | None]:
    """The first row of one statement."""
    rows = yield query, values
    return rows[0] if rows else None


def run(query: str | Statement, /, **values: Any) -> Script[Sequence[Row]]:
    """All rows of one statement."""
    return (yield query, values)
