"""Patterns that name tools: `name`, `glob*`, `source:*`, `source:glob`.

Above: the view of a key (`tools = […]` in its config), an agent's, a request's. Below: nothing. A plain pattern means
public names only: were it matched against foreign spellings too, a second source could slip its own `weather` into a
key that was given `weather`. After `source:` both spellings count, because the source is already named. The tools of a
source that is somebody's own (`server@agent`) have no public names: `source:glob` means them, and the bare `*`.
"""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache, partial

from jackfield.errors import BadRequest

MOST = 500
LONGEST = 256
"""How many patterns a request may bring along, and how long each of them may be; also how many `*` they have."""
MOST_CLASSES = 20
"""Patterns with `?` or `[…]` among them."""

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
        self._plain = _Union(plain)
        self._whole_sources = {source for source, globs in by_source.items() if EVERYTHING in globs}
        self._by_source = {source: _Union(globs) for source, globs in by_source.items()}

    def match(self, name: str, *, source: str, foreign: str) -> bool:
        """Whether a tool with this public name, of this source and spelled so there, is meant."""
        if self._has_all:
            return True
        if SOMEBODYS not in source and self._plain.match(name):
            return True
        within = self._by_source.get(source)
        return within is not None and (within.match(name) or within.match(foreign))

    def covers(self, source: str) -> bool:
        """Whether every tool of this source is meant, whatever it is called."""
        return self._has_all or source in self._whole_sources


@lru_cache(maxsize=1024)
def compiled(patterns: tuple[str, ...]) -> Patterns:
    """`Patterns(patterns)`, made once for as long as the config's keys stay the same."""
    return Patterns(patterns)


def check_bounds(patterns: Iterable[str], *, param: str) -> None:
    """Raise `BadRequest` where a request brings more patterns, or longer ones, than are matched for it."""
    given = tuple(patterns)
    if len(given) > MOST:
        raise BadRequest(f"'{param}' has {len(given)} names; {MOST} are allowed. Use globs like 'mail_*'.", param=param)
    if any(len(pattern) > LONGEST for pattern in given):
        raise BadRequest(f"A name in '{param}' has more than the {LONGEST} characters allowed.", param=param)
    if sum(pattern.count("*") for pattern in given) > MOST:
        raise BadRequest(f"'{param}' has more than {MOST} '*'. Name the tools, or use fewer globs.", param=param)
    if sum("?" in pattern or "[" in pattern for pattern in given) > MOST_CLASSES:
        said = f"'{param}' has more than {MOST_CLASSES} globs with '?' or '[…]'"
        raise BadRequest(f"{said}. Use '*' instead, or name the tools.", param=param)


class _Union:
    """Whether one of several globs fits: names are looked up, `*` is found in one pass, the rest is a regex each."""

    def __init__(self, globs: list[str]) -> None:
        self._names = frozenset(glob for glob in globs if not set(glob) & set("*?["))
        self._tests = tuple(map(_test, sorted(set(globs) - self._names)))

    def match(self, name: str) -> bool:
        return name in self._names or any(test(name) for test in self._tests)


def _test(glob: str) -> Callable[[str], bool]:
    if "?" in glob or "[" in glob:
        expression = re.compile(translate(glob))
        return lambda name: expression.match(name) is not None
    first, *middle, last = glob.split("*")
    return partial(fits, first, tuple(filter(None, middle)), last)


def fits(first: str, middle: tuple[str, ...], last: str, name: str) -> bool:
    """Whether a name has these parts in this order, with anything between them. In linear time.

    Each part at the first place where it is found: if the parts fit at all, they fit so.
    """
    place, end = len(first), len(name) - len(last)
    if place > end or not name.startswith(first) or not name.endswith(last):
        return False
    for part in middle:
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
