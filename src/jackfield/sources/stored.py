"""The sources that list the tools of the config's `[[tools]]` and of the store.

Above: `catalog/stored_tools.py`, which knows the tools. Below: the kinds of sources.
"""

from collections.abc import Callable, Sequence

from jackfield.model.tool import Tool
from jackfield.sources.external import DeclaredSource, InternalSource, OthersSource, SpaceSource
from jackfield.sources.http import HttpSource
from jackfield.sources.outgoing import Outgoing

__all__ = ["DeclaredSource", "StoredSources"]

ListedBy = Callable[[str], tuple[Tool, ...]]
"""The tools that the source of this name lists."""


class StoredSources:
    """One source for each way in which such a tool is executed."""

    def __init__(self, listed_by: ListedBy, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._http = HttpSource(listed_by("http"), outgoing)
        self._others = (
            InternalSource(listed_by("internal")),
            OthersSource("external", listed_by("external")),
            SpaceSource("space", listed_by("space")),
        )

    @property
    def all(self) -> tuple[HttpSource, InternalSource, OthersSource, SpaceSource]:
        return self._http, *self._others

    def replace(self, listed_by: ListedBy, *, foreign: frozenset[str]) -> None:
        """List these tools from now on. The urls of `foreign` ones may not reach private addresses."""
        self._http.replace(listed_by("http"), foreign=foreign)
        for source in self._others:
            source.replace(listed_by(source.name))

    def require_usable(self, tools: Sequence[Tool]) -> None:
        """Raise `ConfigError` for a url that cannot be used."""
        HttpSource(tuple(tools), self._outgoing)
