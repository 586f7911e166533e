"""From a path to what stands there. Whole paths by one lookup, paths with variable parts in their order.

Above: `guard.py`. Below: Starlette's own reading of path patterns. Its router does more than we need on every request.
"""

import re
from collections.abc import Iterable
from typing import Generic, TypeVar

from starlette.routing import compile_path

T = TypeVar("T")


class Paths(Generic[T]):
    """A map of path patterns (`/calls/{id}`, `/tools/{name:path}`); the first that fits counts."""

    def __init__(self, patterns: Iterable[tuple[str, T]]) -> None:
        self._whole: dict[str, T] = {}
        self._variable: list[tuple[re.Pattern[str], T]] = []
        for pattern, target in patterns:
            if "{" in pattern:
                self._variable.append((compile_path(pattern)[0], target))
            else:
                self._whole[pattern] = target

    def find(self, path: str) -> tuple[T, dict[str, str]] | None:
        """What stands at `path`, with the variable parts; None when nothing does."""
        target = self._whole.get(path)
        if target is not None:
            return target, {}
        for pattern, variable in self._variable:
            found = pattern.match(path)
            if found is not None:
                return variable, found.groupdict()
        return None
