"""The operations of a document by name, and which of them the operator wants. Pure.

Above: `operations.py`. Below: `document.py`, and the choices of `options.py`.
"""

import re

from msgspec import Struct

from jackfield.sources.hidden import cleaned
from jackfield.sources.openapi.document import Node, list_in, shown, text_in
from jackfield.sources.openapi.options import Choice, matcher

MOST_TAGS = 20
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")


class Found(Struct, frozen=True, kw_only=True):
    """An operation as the document has it."""

    name: str
    method: str
    path: str
    node: Node
    item: Node

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(cleaned(tag) for tag in list_in(self.node, "tags")[:MOST_TAGS] if isinstance(tag, str))

    def __str__(self) -> str:
        return f"{self.method} {shown(self.path)[1:-1]}"


class Chosen:
    """A choice of the config, and which of its globs have fitted something."""

    def __init__(self, choice: Choice) -> None:
        self._globs = [
            (kind, glob, matcher((glob.upper() if kind == "methods" else glob,)))
            for kind in Choice.__struct_fields__
            for glob in getattr(choice, kind)
        ]
        self._kinds = frozenset(kind for kind, _, _ in self._globs)
        self._matched: set[tuple[str, str]] = set()

    def fits_all(self, found: Found) -> bool:
        return self._kinds <= self._fitting(found)

    def fits_any(self, found: Found) -> bool:
        return bool(self._fitting(found))

    def unmatched(self) -> list[tuple[str, str]]:
        return [(kind, glob) for kind, glob, _ in self._globs if (kind, glob) not in self._matched]

    def _fitting(self, found: Found) -> set[str]:
        texts = {
            "operations": (found.name, text_in(found.node, "operationId")),
            "tags": found.tags,
            "paths": (found.path,),
            "methods": (found.method,),
        }
        fitting = {(kind, glob) for kind, glob, fits in self._globs if any(map(fits, texts[kind]))}
        self._matched |= fitting
        return {kind for kind, _ in fitting}


def found_of(method: str, path: str, node: Node, item: Node, taken: dict[str, int]) -> Found:
    """The operation under its operationId, or under its method and path if it has none or another has the same.

    `taken` has the names so far, and how often each would have been given.
    """
    made = _NOT_IN_NAMES.sub("_", f"{method} {path}").strip("_")
    name = cleaned(text_in(node, "operationId")).strip() or made
    if name in taken:
        name = made
        while name in taken:
            taken[made] = taken.get(made, 1) + 1
            name = f"{made}_{taken[made]}"
    taken[name] = 1
    return Found(name=name, method=method.upper(), path=path, node=node, item=item)
