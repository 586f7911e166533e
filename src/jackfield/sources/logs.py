"""What servers say outside any call, and from which level on anybody listens.

Above: `/mcp`, whose sessions listen. Below: nothing; the MCP sources say. Used on the event loop only.
"""

import time
from collections.abc import Callable

from jackfield.protocol.mcp import LOG_LEVELS
from jackfield.protocol.records import LogNote

LogListener = Callable[[frozenset[str], LogNote], None]
"""Gets the names under which a server is configured here, and what it says. Never blocks."""
MAX_PER_SECOND = 100
"""Messages outside calls that are passed on."""
DEFAULT_LEVEL = "info"
"""What servers are asked for without anybody's wish: the gateway's own log has it."""


def lower_level(first: str, second: str | None) -> str:
    """The one of two levels that lets more through."""
    return first if second is None or LOG_LEVELS.index(first) <= LOG_LEVELS.index(second) else second


class SourceLogs:
    """Passes log messages on. `redact` takes secrets out of a message."""

    def __init__(self, *, redact: Callable[[LogNote], LogNote] = lambda note: note) -> None:
        self._redact = redact
        self._level: str | None = None
        self._listeners: list[LogListener] = []
        self._on_level: set[Callable[[], None]] = set()
        self._second = 0
        self._said = 0

    @property
    def level(self) -> str | None:
        """The lowest level that any listener wants; None: nobody has said."""
        return self._level

    def want(self, level: str | None) -> None:
        """This is the lowest level that any listener wants from now on."""
        if level != self._level:
            self._level = level
            for tell in tuple(self._on_level):
                tell()

    def follow_level(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Have `tell` called when the level changes, until the returned function is called."""
        self._on_level.add(tell)
        return lambda: self._on_level.discard(tell)

    def _has_room(self) -> bool:
        """Servers that talk without end are cut short; the gateway's log has the rest."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._said = second, 0
        self._said += 1
        return self._said <= MAX_PER_SECOND

    def listen(self, listener: LogListener) -> None:
        self._listeners.append(listener)

    def say(self, sources: frozenset[str], note: LogNote) -> None:
        """A server, which these sources use, says something outside any call."""
        if self._listeners and self._has_room():
            note = self._redact(note)
            for listener in self._listeners:
                listener(sources, note)
