"""What a server answered instead of what was asked for: noted on the error, for whoever looks for the reason.

Notes are no part of an error's message, which callers read: an error page may say more than they should know.
Above: the sources, which note it; their supervisor, which shows it to administrators. Below: nothing.
"""

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from jackfield.model.redaction import cut

E = TypeVar("E", bound=Exception)
MOST_QUOTED = 500
"""Characters of an answer."""
_TAGS = re.compile(r"<[^<>]{0,1000}>")
MOST_ERRORS = 10
"""Errors that may have led to one another."""


def with_answer(error: E, content: bytes, *, redact: Callable[[str], str] = str) -> E:
    """The error, with the beginning of the answer's body as a note. `redact` takes out what was sent there."""
    text = content[: 8 * MOST_QUOTED].decode("utf-8", "replace")
    if text.lstrip().startswith("<"):
        text = _TAGS.sub(" ", text)
    words = " ".join(text.split())
    printable = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in words)
    if printable:
        error.add_note(f"The answer: {redact(cut(printable, MOST_QUOTED))}")
    return error


def answers_noted_on(error: BaseException) -> tuple[str, ...]:
    """The notes on the error, and on those that it came from."""
    return tuple(dict.fromkeys(note for one in _led_to(error) for note in getattr(one, "__notes__", ())))


def _led_to(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    for _ in range(MOST_ERRORS):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__
