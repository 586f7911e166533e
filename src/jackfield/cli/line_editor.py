"""A line as it is typed at a terminal: keys in, finished lines out. Draws nothing."""

import codecs
import re
from collections.abc import Callable, Sequence
from itertools import takewhile

from msgspec import Struct

from jackfield.cli.output import width_of

Complete = Callable[[str, bool], Sequence[str]]
"""The words that begin like this one; the flag says whether it is the first of its line."""
MAX_CHARS = 100_000
"""Characters of a line; what is typed beyond them is dropped."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|[^\[O])", re.DOTALL)
_PARTIAL = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|O)?\Z")


class Typed(Struct, frozen=True):
    """A finished line."""

    line: str


class Offered(Struct, frozen=True):
    """The words that a Tab could mean."""

    words: tuple[str, ...]


class Ended(Struct, frozen=True):
    """Ctrl-D on an empty line."""


class LineEditor:
    """The text, the cursor in it, and earlier lines."""

    def __init__(self, earlier: Sequence[str] = (), *, complete: Complete = lambda _word, _is_first: ()) -> None:
        self.text = ""
        self.cursor = 0
        self._lines = [*earlier]
        self._place = len(self._lines)
        """Which line of the history is shown; the end is the line that is being typed."""
        self._draft = ""
        self._complete = complete
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._unread = ""
        self._keys: dict[str, Callable[[], None]] = {
            **dict.fromkeys(("\x7f", "\x08"), self._backspace),
            **dict.fromkeys(("\x1b[3~",), self._delete),
            **dict.fromkeys(("\x01", "\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"), lambda: self._move_to(0)),
            **dict.fromkeys(("\x05", "\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"), lambda: self._move_to(len(self.text))),
            **dict.fromkeys(("\x02", "\x1b[D", "\x1bOD"), lambda: self._move_to(self.cursor - 1)),
            **dict.fromkeys(("\x06", "\x1b[C", "\x1bOC"), lambda: self._move_to(self.cursor + 1)),
            **dict.fromkeys(("\x1b[1;5D", "\x1bb"), lambda: self._move_to(self._word_start())),
            **dict.fromkeys(("\x1b[1;5C", "\x1bf"), lambda: self._move_to(self._word_end())),
            **dict.fromkeys(("\x10", "\x1b[A", "\x1bOA"), lambda: self._show(self._place - 1)),
            **dict.fromkeys(("\x0e", "\x1b[B", "\x1bOB"), lambda: self._show(self._place + 1)),
            "\x0b": lambda: self._cut(self.cursor, len(self.text)),
            "\x15": lambda: self._cut(0, self.cursor),
            "\x17": lambda: self._cut(self._word_start(), self.cursor),
        }

    def feed(self, data: bytes) -> list[Typed | Offered | Ended]:
        """Take what the terminal sent. A key may come in pieces."""
        found: list[Typed | Offered | Ended] = []
        keys = self._unread + self._decode(data)
        place = 0
        while place < len(keys) and _PARTIAL.match(keys, place) is None:
            sequence = _SEQUENCE.match(keys, place)
            key = keys[place] if sequence is None else sequence[0]
            place += len(key)
            found += self._press(key)
        self._unread = keys[place:]
        return found

    def _press(self, key: str) -> list[Typed | Offered | Ended]:
        if key in ("\r", "\n"):
            return [Typed(self._finish())]
        if key == "\t":
            return self._tab()
        if key == "\x04":
            if not self.text:
                return [Ended()]
            self._delete()
        elif key in self._keys:
            self._keys[key]()
        elif key.isprintable():
            self._insert(key)
        return []

    def _finish(self) -> str:
        line, self.text, self.cursor = self.text, "", 0
        if line and self._lines[-1:] != [line]:
            self._lines.append(line)
        self._place, self._draft = len(self._lines), ""
        return line

    def _insert(self, text: str) -> None:
        if len(self.text) + len(text) <= MAX_CHARS:
            self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
            self.cursor += len(text)

    def _cut(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def _backspace(self) -> None:
        self._cut(max(0, self.cursor - 1), self.cursor)

    def _delete(self) -> None:
        self._cut(self.cursor, self.cursor + 1)

    def _move_to(self, cursor: int) -> None:
        self.cursor = min(max(0, cursor), len(self.text))

    def _word_start(self) -> int:
        before = self.text[: self.cursor].rstrip()
        return before.rfind(" ") + 1

    def _word_end(self) -> int:
        start = self.cursor + len(self.text[self.cursor :]) - len(self.text[self.cursor :].lstrip())
        end = self.text.find(" ", start)
        return len(self.text) if end < 0 else end

    def _show(self, place: int) -> None:
        """A line of the history, or at its end the one that was being typed."""
        if not 0 <= place <= len(self._lines):
            return
        if self._place == len(self._lines):
            self._draft = self.text
        self._place = place
        self.text = self._draft if place == len(self._lines) else self._lines[place]
        self.cursor = len(self.text)

    def _tab(self) -> list[Typed | Offered | Ended]:
        """Complete the word before the cursor, as far as it is clear."""
        start = self.text[: self.cursor].rfind(" ") + 1
        word = self.text[start : self.cursor]
        words = tuple(self._complete(word, not self.text[:start].strip()))
        shared = _shared_start(words)
        if len(words) == 1 or len(shared) > len(word):
            self._cut(start, self.cursor)
            self._insert(f"{shared} " if len(words) == 1 else shared)
            return []
        return [Offered(words)] if words else []


def _shared_start(words: Sequence[str]) -> str:
    columns = zip(*words, strict=False)
    return "".join(letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, columns))


def window(text: str, cursor: int, room: int) -> tuple[str, int]:
    """The part of the text around the cursor that fits into `room` columns, and the cursor's column in it."""
    start = end = cursor
    used = 0

    def grow_left(limit: int) -> None:
        nonlocal start, used
        while start > 0 and used + width_of(text[start - 1]) <= limit:
            start -= 1
            used += width_of(text[start])

    grow_left(room if cursor == len(text) else room * 2 // 3)
    while end < len(text) and used + width_of(text[end]) <= room:
        used += width_of(text[end])
        end += 1
    grow_left(room)
    return text[start:end], width_of(text[start:cursor])
