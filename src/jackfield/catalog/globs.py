"""Patterns that name tools: `name`, `glob*`, `source:*`, `source:glob`.

Above: the view of a key (`tools = […]` in its config), later an agent's. Below: fnmatch. A plain pattern means public
names only: were it matched against foreign spellings too, a second source could slip its own `weather` into a key
that was given `weather`. After `source:` both spellings count, because the source is already named. The tools of a
source that is somebody's own (`server@agent`) have no public names: `source:glob` means them, and the bare `*`.
"""

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache

EVERYTHING = "*"
SOMEBODYS = "@"
"""What the name of a source that is somebody's own has in it, and no other has."""


class Patterns:
    """A list of patterns, compiled. An empty list matches nothing: what emptiness means, the caller says."""

    def __init__(self, patterns: Iterable[str]) -> None:
        plain: list[str] = []
        by_source: dict[str, list[str]] = {}
        for pattern in patterns:
            source, colon, glob = pattern.partition(":")
            if colon:
                by_source.setdefault(source, []).append(glob)
            else:
                plain.append(pattern)
        self._has_all = EVERYTHING in plain
        self._plain = _union(plain)
        self._whole_sources = {source for source, globs in by_source.items() if EVERYTHING in globs}
        self._by_source = {source: _union(globs) for source, globs in by_source.items()}

    def match(self, name: str, *, source: str, foreign: str) -> bool:
        """Whether a tool with this public name, of this source and spelled so there, is meant."""
        if self._has_all:
            return True
        if self._plain is not None and SOMEBODYS not in source and self._plain.match(name):
            return True
        within = self._by_source.get(source)
        return within is not None and bool(within.match(name) or within.match(foreign))

    def covers(self, source: str) -> bool:
        """Whether every tool of this source is meant, whatever it is called."""
        return self._has_all or source in self._whole_sources


@lru_cache(maxsize=1024)
def compiled(patterns: tuple[str, ...]) -> Patterns:
    """`Patterns(patterns)`, made once for as long as the config's keys stay the same."""
    return Patterns(patterns)


def _union(globs: list[str]) -> re.Pattern[str] | None:
    """One expression for all globs. `translate` anchors each at its end."""
    return re.compile("|".join(translate(glob) for glob in globs)) if globs else None
