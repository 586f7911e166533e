"""The sources that an operator described, in the config or over the API, and their changes while the gateway runs.

Above: the reload of the config, and the sources made at run time. Below: the registry, and whoever keeps something for
each source (the catalog its overrides and prefix, the connections its login), told of every change as a whole.
"""

import asyncio
from collections.abc import Callable, Container, Iterable, Sequence

from jackfield.settings.tools import SourceSettings
from jackfield.sources.base import Source, SourceContext
from jackfield.sources.kinds import make_configured
from jackfield.sources.source_registry import SourceRegistry


class SourceBook:
    """What the operator says about each source, by name: those of the config first."""

    def __init__(self, sources: Iterable[SourceSettings]) -> None:
        self._sources = {source.name: source for source in sources}
        self.stored: frozenset[str] = frozenset()
        """The names of those that were made over the API."""

    @property
    def all(self) -> tuple[SourceSettings, ...]:
        return tuple(self._sources.values())

    def get(self, name: str) -> SourceSettings | None:
        return self._sources.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def is_configured(self, name: str) -> bool:
        return name in self._sources and name not in self.stored

    def take(self, sources: Iterable[SourceSettings], *, stored: frozenset[str]) -> None:
        """These, and no others."""
        self._sources = {source.name: source for source in sources}
        self.stored = stored


class LiveSources:
    """Adds, replaces and removes sources, one change after another. A change that cannot be made changes nothing."""

    def __init__(
        self,
        book: SourceBook,
        *,
        registry: SourceRegistry,
        context: SourceContext,
        apply: Callable[[Sequence[SourceSettings]], None],
    ) -> None:
        """`apply` has the settings of all sources taken; it raises `ConfigError` and takes nothing if it cannot."""
        self.book = book
        self._registry = registry
        self._context = context
        self._apply = apply
        self._changing = asyncio.Lock()

    def make(self, settings: SourceSettings) -> Source:
        """The source that these settings describe, not started. Raises `ConfigError`."""
        return make_configured(settings, self._context)

    async def add(self, settings: SourceSettings) -> None:
        """Begin to keep a source; it comes up by itself. Raises `ConfigError`."""
        await self.replace(settings)

    async def replace(
        self, settings: SourceSettings, *, make: Callable[[], Source] | None = None, is_stored: bool = False
    ) -> None:
        """Have a source run with other settings. Running calls end at the old one. Raises `ConfigError`.

        `is_stored`: it was made over the API. One of the config takes its place, and never the other way round.
        `make`: how it is made, if not by `self.make`.
        """
        async with self._changing:
            if is_stored and self.book.is_configured(settings.name):
                return
            before, stored_before = self.book.all, self.book.stored
            stored = stored_before | {settings.name} if is_stored else stored_before - {settings.name}
            self._take(_with(before, settings), stored=stored)
            try:  # a source that is made asks for its login, which is known by now
                made = self.make(settings) if make is None else make()
            except BaseException:
                self._take(before, stored=stored_before)
                raise
            await self._registry.replace(made)

    async def remove(self, name: str) -> None:
        """Keep a source no longer; its names are free. Without effect where there is none."""
        async with self._changing:
            if name in self.book:
                self._take([one for one in self.book.all if one.name != name], stored=self.book.stored - {name})
                await self._registry.remove(name)

    def check(self, configured: Sequence[SourceSettings], *, remade: Container[str]) -> None:
        """Raise `ConfigError` where `configure` would. Nothing is different afterwards."""
        before, stored = self.book.all, self.book.stored
        self._make(configured, remade=remade)
        self._take(before, stored=stored)

    async def configure(self, configured: Sequence[SourceSettings], *, remade: Container[str]) -> None:
        """Have these for the sources of the config, all at once. Raises `ConfigError`.

        Only the sources named by `remade` are connected anew; of others no more than what is said about their tools
        may be different. Those made over the API stay, unless the config now has one of their name.
        """
        async with self._changing:
            before = {one.name for one in self.book.all}
            come = self._make(configured, remade=remade)
            await self._registry.exchange({name for name in before if name not in self.book}, come)

    def _make(self, configured: Sequence[SourceSettings], *, remade: Container[str]) -> list[Source]:
        """Take the settings, since a source that is made asks for its login, and make what they describe."""
        before, stored_before = self.book.all, self.book.stored
        stored = stored_before - {one.name for one in configured}
        self._take([*configured, *(one for one in before if one.name in stored)], stored=stored)
        try:
            return [self.make(one) for one in configured if one.name in remade]
        except BaseException:
            self._take(before, stored=stored_before)
            raise

    def _take(self, sources: Sequence[SourceSettings], *, stored: frozenset[str]) -> None:
        self._apply(sources)
        self.book.take(sources, stored=stored)


def _with(sources: Sequence[SourceSettings], changed: SourceSettings) -> list[SourceSettings]:
    """The same with one changed, in its place, or added at the end."""
    by_name = {source.name: source for source in sources}
    by_name[changed.name] = changed
    return list(by_name.values())
