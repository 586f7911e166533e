"""What one key sees of the catalog. Immutable: it shows one moment, however long somebody reads from it.

Above: the handlers and the pipeline. Below: the snapshot it is cut from. Views are made per `Visibility`, not per key,
so a thousand keys with the same rights share one manifest.
"""

from collections.abc import Set as AbstractSet
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache

from msgspec import Struct

from jackfield.catalog.globs import compiled
from jackfield.catalog.merge import Entry, Snapshot
from jackfield.catalog.names import neighbours, shown
from jackfield.catalog.pins import refusal
from jackfield.catalog.search import Index
from jackfield.errors import NotFound, PromptNotFound, ToolNotFound
from jackfield.model.principal import Principal, Scope
from jackfield.model.text import nearest
from jackfield.model.tool import CallKind, Category
from jackfield.protocol.manifest import Manifest, ScenarioInfo, assemble

DEFAULT_LIMIT = 20
MAX_HINTED = 200


class Visibility(Struct, frozen=True, kw_only=True):
    """Which tools a key's scopes and limits let it see."""

    all_tools: bool
    """The scopes read the whole catalog."""
    serves: tuple[str, ...] = ()
    """Otherwise: globs of the tools that the key serves."""
    session: str | None = None
    """A session's key: it sees what is lent to that session, and nothing of the catalog."""
    limits: tuple[tuple[str, ...], ...] = ()
    """Lists of patterns: the key's own `tools`, those of its groups. Each of them has to match."""

    @property
    def is_whole(self) -> bool:
        return self.all_tools and not self.limits

    def admits(self, name: str, *, source: str, foreign: str) -> bool:
        """Whether a tool, prompt or resource with this public name, of this source and spelled so there, is seen."""
        if not self.all_tools and not any(fnmatchcase(name, glob) for glob in self.serves):
            return False
        return self.is_within_limits(name, source=source, foreign=foreign)

    def is_within_limits(self, name: str, *, source: str, foreign: str) -> bool:
        """The same, whatever the key's scopes let it see."""
        return all(compiled(patterns).match(name, source=source, foreign=foreign) for patterns in self.limits)

    def covers(self, source: str) -> bool:
        """Whether everything of this source is within the limits, whatever it is called."""
        return all(compiled(patterns).covers(source) for patterns in self.limits)

    def sees(self, entry: Entry) -> bool:
        return self.admits(entry.name, source=entry.tool.source, foreign=entry.tool.name)

    def sees_pinned(self, entry: Entry) -> bool:
        """As `sees`, also of a template."""
        if entry.tool.operation is CallKind.RESOURCE:
            return self.sees_resource(entry.tool.source, entry.tool.name)
        return self.sees(entry)

    def sees_resource(self, source: str, uri: str) -> bool:
        """Whether `source:*` or a glob of URIs after `source:` lets this be read. Plain names mean tools."""
        return self.all_tools and self.is_within_limits("", source=source, foreign=uri)


def visibility_of(principal: Principal) -> Visibility:
    """`admin`, `call`, `read` and `agent:` see everything, `worker:` what it serves, all others nothing.

    A key that only answers has no catalog of its own. One of a session has that session's.
    """
    return _visibility(principal, principal.limits)


@lru_cache(maxsize=1024)
def _visibility(principal: Principal, limits: tuple[tuple[str, ...], ...]) -> Visibility:
    if principal.session is not None:
        return Visibility(all_tools=False, session=principal.session)
    reads = (Scope.ADMIN.value, Scope.CALL.value, Scope.READ.value)
    if any(scope in principal.scopes for scope in reads) or principal.named("agent"):
        return Visibility(all_tools=True, limits=limits)
    return Visibility(all_tools=False, serves=principal.named("worker"), limits=limits)


class View:
    """The tools of one sight at one moment."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        index: Index,
        sight: Visibility,
        scenario: ScenarioInfo,
        generated_at: datetime,
        of: CallKind = CallKind.TOOL,
        unlisted: AbstractSet[str] = frozenset(),
    ) -> None:
        """`of`: whether these are tools, or prompts. `unlisted`: sources whose entries are found, and not listed."""
        self.version = snapshot.version
        self.entries: tuple[Entry, ...]
        """Sorted by name."""
        if sight.is_whole:
            self.entries, self._by_name = snapshot.entries, snapshot.by_name
        else:
            self.entries = tuple(entry for entry in snapshot.entries if sight.sees(entry))
            self._by_name = {entry.name: entry for entry in self.entries}
        if unlisted:
            self.entries = tuple(entry for entry in self.entries if entry.tool.source not in unlisted)
        self.snapshot = snapshot
        self._index = index
        self._sight = sight
        self._scenario = scenario
        self._generated_at = generated_at
        self._of = of

    def get(self, name: str) -> Entry:
        """The tool with this public name, else with this foreign spelling; of several the first in config order.

        Raises `ToolNotFound` or `PromptNotFound`, also for one that exists and is not this key's to see; for one that
        is held, `DefinitionChanged`.
        """
        found = self._by_name.get(name)
        if found is not None:
            return found
        for entry in self.snapshot.by_foreign.get(name, ()):
            if entry.name in self._by_name:
                return entry
        self._refuse_held(name)
        if self._sight.is_whole and (why := self.snapshot.unoffered.get(name)) is not None:
            raise ToolNotFound(f"Tool '{shown(name)}' cannot be used now. {why}")
        raise self._not_found(name)

    def _not_found(self, name: str) -> NotFound:
        hint = nearest(name, neighbours(name, tuple(self._by_name))) if len(name) <= MAX_HINTED else ""
        what = self._of.value
        said = f"There is no {what} '{shown(name)}'.{hint} 'jackfield {what}s' lists those this key may see."
        return PromptNotFound(said) if self._of is CallKind.PROMPT else ToolNotFound(said)

    def _refuse_held(self, name: str) -> None:
        held = self.snapshot.held
        if not held:
            return
        for entry in (held.get(name), *self.snapshot.by_foreign.get(name, ())):
            if entry is not None and entry.name in held and self._sight.sees(entry):
                is_new = (entry.tool.source, entry.tool.name) in self.snapshot.held_as_new
                known = self.snapshot.pins_are_known
                what = self._of.value.capitalize()
                raise refusal(
                    entry.name,
                    entry.tool.source,
                    pins_are_known=known,
                    is_new=is_new,
                    is_refused=(entry.tool.source, entry.tool.name) in self.snapshot.refused,
                    what=what,
                )

    @property
    def index(self) -> Index:
        """The index of the whole catalog; `find` takes the names that may be found."""
        return self._index

    def search(self, query: str, *, limit: int = DEFAULT_LIMIT) -> list[Entry]:
        """The best matches, best first. An empty query gives the first tools by name."""
        if not query.strip():
            return list(self.entries[:limit])
        among = None if self._sight.is_whole else self._by_name.keys()
        return [self._by_name[name] for name in self._index.find(query, limit=limit, among=among)]

    @property
    def manifest(self) -> bytes:
        """Seed 004's manifest of this view. Made at the first asking, then the same bytes."""
        return self._manifest.body

    @property
    def etag(self) -> str:
        """The manifest's strong ETag, quoted. It does not change with `generated_at`."""
        return self._manifest.etag

    @cached_property
    def sources(self) -> frozenset[str]:
        """The sources of its tools."""
        return frozenset(entry.tool.source for entry in self.entries)

    @cached_property
    def _manifest(self) -> Manifest:
        return assemble(
            (entry.manifest for entry in self.entries),
            scenario=self._scenario,
            categories=self.categories,
            generated_at=self._generated_at,
        )

    @cached_property
    def categories(self) -> tuple[Category, ...]:
        """All of the catalog's, or for a key that sees part of it those that its tools are in."""
        if self._sight.is_whole:
            return self.snapshot.categories
        used = {entry.tool.category for entry in self.entries}
        return tuple(category for category in self.snapshot.categories if category.id in used)
