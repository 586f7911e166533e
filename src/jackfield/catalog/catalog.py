"""The catalog itself: the snapshot that holds now, the views cut from it, and those who follow its changes.

Above: app, calls, web. Below: merge, view, search, changes. All methods are called from the event loop; `update` works
at once, and `update_aside` leaves the loop free while thousands of new tools are read.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, TypeVar
from weakref import WeakSet

import msgspec
from msgspec import Raw, Struct

from jackfield.catalog.changes import Follower, ListFollower, difference, resighted, seen_by
from jackfield.catalog.checking import Checking, with_defaults
from jackfield.catalog.kinds import PROMPT, identity_of
from jackfield.catalog.merge import (
    NO_PINS,
    Entry,
    Listings,
    Overrides,
    Snapshot,
    merge,
    merge_private,
    naming_with,
    snapshot_of,
)
from jackfield.catalog.moment import Merging, Moment, Stored
from jackfield.catalog.name_history import Names
from jackfield.catalog.names import CatalogNotice, Identity, KeptNames
from jackfield.catalog.pins import Pins, pinnable
from jackfield.catalog.resource_view import ResourceView, changed_for
from jackfield.catalog.resources import is_cut, resource_changes
from jackfield.catalog.search import Index
from jackfield.catalog.view import View, Visibility, visibility_of
from jackfield.errors import InvalidArguments
from jackfield.model.call import Call
from jackfield.model.principal import Principal
from jackfield.model.tool import CallKind, Category
from jackfield.protocol.manifest import ScenarioInfo
from jackfield.protocol.records import ToolsChanged
from jackfield.protocol.schemas import ARGUMENTS, RESULT, Fault, summarize
from jackfield.settings import ToolOverride
from jackfield.settings.tools import SourceSettings
from jackfield.sources.base import Listing

__all__ = ["Catalog", "CatalogNotice", "Entry", "Follower", "ListFollower", "ToolsChanged", "View"]

F = TypeVar("F", Follower, ListFollower)
FEW = 20_000
"""Resources times patterns that are matched in some milliseconds."""
MAX_VIEWS = 64
"""Sights with a view of their own at one time; a whole manifest of 10,000 tools is some megabytes."""
EVERYTHING = Visibility(all_tools=True)


class _Own(Struct, frozen=True):
    """What is known of one agent's own server."""

    listing: Listing
    overrides: dict[str, ToolOverride]
    holds_new: bool
    snapshot: Snapshot

    def is_of(self, listing: Listing, overrides: Mapping[str, ToolOverride], *, holds_new: bool) -> bool:
        return self.listing == listing and self.overrides == overrides and self.holds_new == holds_new


class Catalog:
    """All tools, and what each key may see of them."""

    def __init__(
        self,
        categories: Sequence[Category] = (),
        overrides: Overrides | None = None,
        scenario: ScenarioInfo | None = None,
        *,
        prefixes: Mapping[str, str] | None = None,
        read_limits: Mapping[str, int] | None = None,
        pins: Pins = NO_PINS,
        asking: Callable[[], AbstractSet[Identity]] = frozenset,
        checking: Checking | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """What the operator says: categories, overrides by source and tool, the scenario, name prefixes by source,
        how many reads of resources and prompts a source takes per minute.

        `asking` gives the tools that ask first, besides those that say so themselves.
        """
        self.checking = checking or Checking()
        self._merging = Merging(
            categories=tuple(categories),
            overrides=overrides or {},
            prefixes=prefixes or {},
            asking=asking,
            judge=self.checking.fault_in,
        )
        self.read_limits = read_limits or {}
        self._scenario = scenario or ScenarioInfo()
        self._now = now
        self._moment = Moment(merge((), {}, tuple(categories)), Index(), None, pins, Names())
        self._listings: Listings = ()
        self._is_stale = False
        """Whether the operator has said something else about tools since the last update."""
        self._views: OrderedDict[Visibility, View] = OrderedDict()
        self._prompt_views: dict[Visibility, View] = {}
        self._resource_views: dict[Visibility, ResourceView] = {}
        self._lent: dict[Identity, list[Entry]] = {}
        """Tools of sources that are in nobody's catalog, by source and name, once for each who uses them now."""
        self._off: frozenset[str] = frozenset()
        """Sources that are off for everybody: their prompts and resources are not listed."""
        self._own: dict[str, _Own] = {}
        """The tools of agents' own servers, by source."""
        self._of_sessions: dict[str, View] = {}
        """What the keys of sessions see."""
        self._followers: WeakSet[Follower] = WeakSet()
        self._list_followers: WeakSet[ListFollower] = WeakSet()
        self._updating = asyncio.Lock()

    @property
    def version(self) -> str:
        """A digest of all names, definitions and categories: equal on every gateway that has the same tools."""
        return self._moment.snapshot.version

    @property
    def notices(self) -> tuple[CatalogNotice, ...]:
        """What the operator should know: names that changed, tools that were left out, overrides that met nothing."""
        own = (notice for one in self._own.values() for notice in one.snapshot.notices)
        moment = self._moment
        return (*moment.snapshot.notices, *moment.prompts.notices, *moment.resources.notices, *own)

    async def name_for(self, identity: Identity) -> tuple[str, tuple[CatalogNotice, ...]]:
        """What a tool of the operator's that is not listed yet would be called, and who would be renamed for it."""
        snapshot, kept = self._moment.snapshot, self._moment.names.current
        naming = await asyncio.to_thread(naming_with, snapshot, identity, kept=kept)
        known = set(snapshot.naming.notices)
        return naming.names[identity], tuple(notice for notice in naming.notices if notice not in known)

    @property
    def pins(self) -> Pins:
        """What foreign tools are pinned to, as of now."""
        return self._moment.pins

    @property
    def names(self) -> Names:
        """The names that are kept for tools, as of now."""
        return self._moment.names

    @property
    def held(self) -> Mapping[str, Entry]:
        """By public name: foreign tools that wait for a person to accept their new definition."""
        return self._moment.snapshot.held

    def held_of(self, source: str) -> list[Entry]:
        """The held tools of a source, which may be an agent's own, by name."""
        if (own := self._own.get(source)) is not None:
            return [own.snapshot.held[name] for name in sorted(own.snapshot.held)]
        return [entry for entry in self.all_held if entry.tool.source == source]

    @property
    def all_held(self) -> list[Entry]:
        """Held tools, prompts and templates, by name."""
        moment = self._moment
        templates = moment.resources
        return [
            *(entry for _, entry in sorted(self.held.items())),
            *(entry for _, entry in sorted(moment.prompts.held.items())),
            *(templates.entry_of(one) for one in templates.held),
        ]

    def is_refused(self, entry: Entry) -> bool:
        """Whether a person refused the definition of this held tool, prompt or template."""
        refused, definition = self._moment.pins.refused, entry.tool.definition
        identity = identity_of(entry.tool)
        return identity in refused and definition is not None and pinnable(definition).digest == refused[identity]

    @property
    def own_sources(self) -> frozenset[str]:
        """The agents' own servers that were listed here."""
        return frozenset(self._own)

    async def take_own(
        self, source: str, listing: Listing, *, overrides: Mapping[str, ToolOverride], holds_new: bool
    ) -> tuple[Entry, ...]:
        """The tools of an agent's own server as it may use them: with the operator's overrides, judged by its pins."""
        async with self._updating:
            known = self._own.get(source)
            if known is None or not known.is_of(listing, overrides, holds_new=holds_new):
                known = _Own(listing, dict(overrides), holds_new, Snapshot() if known is None else known.snapshot)
                self._own[source] = await self._judged(source, known)
            return self._own[source].snapshot.entries

    def forget_own(self, source: str) -> None:
        """Nobody uses the server now. What is held of it stays, so that somebody sees it."""
        own = self._own.get(source)
        if own is not None and not own.snapshot.held:
            del self._own[source]

    async def _judged(self, source: str, own: _Own) -> _Own:
        """The server's tools by the pins as they are now; those that are seen for the first time are pinned."""
        pins = self._moment.pins
        if own.holds_new:
            pins = msgspec.structs.replace(pins, holding_new=pins.holding_new | {source})
        snapshot = await asyncio.to_thread(
            merge_private,
            source,
            own.listing,
            overrides=own.overrides,
            pins=pins,
            previous=own.snapshot,
            judge=self.checking.fault_in,
        )
        sightings = [
            (identity, entry.tool.definition)
            for identity, entry in snapshot.by_identity.items()
            if entry.tool.definition is not None
        ]
        moment = self._moment
        seen = moment.pins.seeing(sightings, held=snapshot.held_as_new)
        self._moment = msgspec.structs.replace(moment, pins=seen)
        return msgspec.structs.replace(own, snapshot=snapshot)

    def apply(self, categories: Sequence[Category]) -> None:
        """Have these for the operator's categories; the next update shows it."""
        if tuple(categories) != self._merging.categories:
            self._merging = msgspec.structs.replace(self._merging, categories=tuple(categories))
            self._is_stale = True

    def apply_sources(self, sources: Sequence[SourceSettings]) -> None:
        """Take what the operator says about these sources as all there is to say; the next update shows it."""
        self._merging = msgspec.structs.replace(
            self._merging,
            overrides={source.name: source.tools for source in sources},
            prefixes={source.name: source.prefix for source in sources if source.prefix},
        )
        self.read_limits = read_limits_of(sources)
        pins = msgspec.structs.replace(
            self._moment.pins,
            accepting=frozenset(source.name for source in sources if source.accepts_changes),
            holding_new=frozenset(source.name for source in sources if source.holds_new),
        )
        self._moment = msgspec.structs.replace(self._moment, pins=pins)
        self._is_stale = True

    def update(self, listings: Listings) -> ToolsChanged | None:
        """Take these listings, in config order, as all there is. Says what changed and tells the followers."""
        if self._has_taken(listings):
            return None
        return self._take(self._merging.following(self._moment, listings), listings)

    async def update_aside(self, listings: Listings) -> ToolsChanged | None:
        """As `update`, in a thread: 10,000 new tools take a second, and the loop goes on meanwhile."""
        async with self._updating:
            if self._has_taken(listings):
                return None
            return await self._follow_aside(listings)

    async def take_stored(
        self, pins: Mapping[Identity, str], names: KeptNames, refused: Mapping[Identity, str] | None = None
    ) -> ToolsChanged | None:
        """Judge every foreign tool by these pins, and name all tools by these names, from now on."""
        async with self._updating:
            moment, refused = self._moment, refused or {}
            if (moment.pins.stored, moment.pins.refused, moment.names.stored) == (pins, refused, names):
                return None
            change = await self._follow_aside(self._listings, Stored(pins, names, refused))
            for source, own in list(self._own.items()):
                self._own[source] = await self._judged(source, own)
            return change

    def free_names(self, gone: AbstractSet[Identity]) -> None:
        """Keep no name any more for these tools."""
        moment = self._moment
        self._moment = msgspec.structs.replace(moment, names=moment.names.freeing(gone))

    def forget_names(self, given_up: KeptNames) -> None:
        """No write that knew these names is under way any more."""
        names = self._moment.names.forgetting(given_up)
        if names is not self._moment.names:
            self._moment = msgspec.structs.replace(self._moment, names=names)

    async def _follow_aside(self, listings: Listings, stored: Stored | None = None) -> ToolsChanged | None:
        before = self._moment
        made = await asyncio.to_thread(self._merging.following, before, listings, stored)
        if self._moment is not before:
            made = self._merging.following(self._moment, listings, stored)
        return self._take(made, listings)

    def visibility(self, principal: Principal) -> Visibility:
        """What this key may see, by its scopes and limits."""
        return visibility_of(principal)

    def view(self, principal: Principal) -> View:
        """What this key sees now."""
        sight = self.visibility(principal)
        if sight.session is not None:
            return self._of_sessions.get(sight.session) or self._view_of(())
        found = self._views.get(sight)
        if found is not None:
            self._views.move_to_end(sight)
            return found
        moment = self._moment
        made = self._views[sight] = View(
            moment.snapshot, index=moment.index, sight=sight, scenario=self._scenario, generated_at=self._now()
        )
        if len(self._views) > MAX_VIEWS:
            self._views.popitem(last=False)
        return made

    def prompts(self, principal: Principal, *, within: tuple[str, ...] | None = None) -> View:
        """The prompts that this key sees now; of those that these patterns mean, where they are given."""
        sight = _narrowed(self.visibility(principal), within)
        found = self._prompt_views.get(sight)
        if found is None:
            if len(self._prompt_views) >= MAX_VIEWS:
                self._prompt_views.clear()
            found = self._prompt_views[sight] = View(
                self._moment.prompts if sight.all_tools else Snapshot(),
                index=Index(),
                sight=sight,
                scenario=self._scenario,
                generated_at=self._now(),
                of=CallKind.PROMPT,
                unlisted=self._off,
            )
        return found

    def resources(self, principal: Principal, *, within: tuple[str, ...] | None = None) -> ResourceView:
        """The resources that this key sees now; of those that these patterns mean, where they are given."""
        sight = _narrowed(self.visibility(principal), within)
        found = self._resource_views.get(sight)
        return (
            self._kept(ResourceView(self._moment.resources, sight=sight, unlisted=self._off), sight)
            if found is None
            else found
        )

    async def find_resources(self, principal: Principal, *, within: tuple[str, ...]) -> ResourceView:
        """`resources`, in a thread where a request's patterns meet many of them."""
        snapshot, sight = self._moment.resources, _narrowed(self.visibility(principal), within)
        if sight in self._resource_views or len(snapshot.resources) * len(within) <= FEW:
            return self.resources(principal, within=within)
        off = self._off
        made = await asyncio.to_thread(ResourceView, snapshot, sight=sight, unlisted=off)
        return self._kept(made, sight) if self._moment.resources is snapshot and self._off is off else made

    def _kept(self, view: ResourceView, sight: Visibility) -> ResourceView:
        if len(self._resource_views) >= MAX_VIEWS:
            self._resource_views.clear()
        self._resource_views[sight] = view
        return view

    def lend_to(self, session: str, entries: Iterable[Entry]) -> None:
        """From now on the key of this session sees these, and who follows with it is told what changed."""
        before, now = self._of_sessions.get(session) or self._view_of(()), self._view_of(entries)
        self._of_sessions[session] = now
        change = difference(before.snapshot, now.snapshot)
        for follower in list(self._followers):
            if follower.sight.session == session and change.names_tools:
                follower.offer(change)
        for listening in list(self._list_followers):
            if listening.sight.session == session and change.names_tools:
                listening.offer("tools")

    def end_lending_to(self, session: str) -> None:
        """Its key sees nothing any more, and who follows with it is let go."""
        self._of_sessions.pop(session, None)
        for follower in list(self._followers):
            if follower.sight.session == session:
                follower.close()
        for listening in list(self._list_followers):
            if listening.sight.session == session:
                listening.close()

    def let_go(self, principals: AbstractSet[str]) -> None:
        """End what these principals follow: their keys are revoked."""
        followers: list[Follower | ListFollower] = [*self._followers, *self._list_followers]
        for follower in followers:
            if follower.principal is not None and follower.principal.name in principals:
                follower.close()

    def regroup(self, *, exists: Callable[[Principal], bool]) -> None:
        """What is in groups has changed: tell those who follow what came and went for them.

        `exists`: whether the group that a principal is in is still there; who follows within one that is not is let go.
        """
        changes = cache(partial(resighted, self._moment.snapshot))  # many followers have the same sight
        lists = cache(self._lists_of)
        for follower, sight in self._regrouped(self._followers, exists=exists):
            change = changes(before=follower.sight, after=sight)
            follower.sight = sight
            if change.names_tools:
                follower.offer(change)
        for listening, sight in self._regrouped(self._list_followers, exists=exists):
            before, listening.sight = listening.sight, sight
            for name in lists(before, sight):
                listening.offer(name)

    def switched(self, off: frozenset[str]) -> None:
        """Something was switched for everybody; these sources are off. Who follows lists is told to read them."""
        lists = ("tools",) if off == self._off else ("tools", "prompts", "resources")
        if off != self._off:
            self._off = off
            self._prompt_views.clear()
            self._resource_views.clear()
        for follower in list(self._list_followers):
            for name in lists:
                follower.offer(name)

    def _lists_of(self, before: Visibility, after: Visibility) -> tuple[str, ...]:
        """The lists that are not the same by these two."""
        moment = self._moment
        saw, sees = (ResourceView(moment.resources, sight=one) for one in (before, after))
        is_changed = {
            "tools": resighted(moment.snapshot, before=before, after=after).names_tools,
            "prompts": resighted(moment.prompts, before=before, after=after).names_tools,
            "resources": (saw.resources, saw.templates, saw.skills) != (sees.resources, sees.templates, sees.skills),
        }
        return tuple(name for name, changed in is_changed.items() if changed)

    def _regrouped(
        self, followers: Iterable[F], *, exists: Callable[[Principal], bool]
    ) -> Iterator[tuple[F, Visibility]]:
        """Those who see something else than before, and what."""
        for follower in list(followers):
            principal = follower.principal
            if principal is None or (principal.groups is None and principal.group is None):
                continue
            if not exists(principal):
                follower.close()
            elif (sight := self.visibility(principal)) != follower.sight:
                yield follower, sight

    def _view_of(self, entries: Iterable[Entry]) -> View:
        snapshot = snapshot_of(entries)
        index = Index().following(removed=(), added=snapshot.entries)
        return View(snapshot, index=index, sight=EVERYTHING, scenario=self._scenario, generated_at=self._now())

    def used_by(self, call: Call) -> Entry | None:
        """What a call that was decided before uses: a tool, a prompt or a resource, as far as its record names it."""
        if call.kind is CallKind.TOOL:
            return self.entry(call.tool, source=call.source)
        if call.kind is CallKind.RESOURCE:
            return None if is_cut(call.tool) else self._moment.resources.read(call.source, call.tool)
        found = self._moment.prompts.by_name.get(call.tool)
        return found if found is not None and found.tool.source == call.source else None

    def entry(self, name: str, *, source: str | None = None) -> Entry | None:
        """The tool of this public name, whoever may see it; for calls that were decided before.

        With its source also one that is in nobody's catalog, and never another source's tool that has the name by now.
        """
        found = self._moment.snapshot.by_name.get(name)
        if source is None or (found is not None and found.tool.source == source):
            return found
        if lent := self._lent.get((source, name)):
            return lent[0]
        own = self._own.get(source)
        return None if own is None else own.snapshot.by_name.get(name)

    @contextmanager
    def lending(self, entries: Iterable[Entry]) -> Iterator[None]:
        """While the block runs, `entry` finds these too; no view shows them."""
        lent = [((entry.tool.source, entry.name), entry) for entry in entries]
        for key, entry in lent:
            self._lent.setdefault(key, []).append(entry)
        try:
            yield
        finally:
            for key, entry in lent:
                self._lent[key].remove(entry)
                if not self._lent[key]:
                    del self._lent[key]

    def known(self, name: str) -> Entry | None:
        """The tool of this public name or foreign spelling, held or not, whoever may see it."""
        snapshot = self._moment.snapshot
        found = snapshot.by_name.get(name) or snapshot.held.get(name)
        return found or next(iter(snapshot.by_foreign.get(name, ())), None)

    def lists(self, identity: Identity) -> bool:
        """Whether a source offers this tool or prompt now, usable or not."""
        moment, (source, name) = self._moment, identity
        if name.startswith(PROMPT):
            return (source, name[len(PROMPT) :]) in moment.prompts.checked
        return identity in moment.snapshot.checked

    def external_tools(self) -> list[Entry]:
        """Every tool that tool servers answer, by name."""
        return [entry for entry in self._moment.snapshot.entries if entry.tool.is_external]

    def operations(self) -> list[Entry]:
        """Every tool whose calls go on at its owner, by name."""
        return [entry for entry in self._moment.snapshot.entries if entry.tool.is_operation]

    def offered_by(self, source: str) -> list[Entry]:
        """Every tool of a source, by name."""
        return [entry for entry in self._moment.snapshot.entries if entry.tool.source == source]

    def follow(self, principal: Principal | None = None) -> Follower:
        """Changes from now on; for a principal only those of tools it may see. Dropping the iterator ends it."""
        follower = Follower(EVERYTHING if principal is None else self.visibility(principal), principal)
        self._followers.add(follower)
        return follower

    def follow_lists(self, principal: Principal) -> ListFollower:
        """Which lists changed, from now on, for this principal. Dropping the iterator ends it."""
        follower = ListFollower(self.visibility(principal), principal)
        self._list_followers.add(follower)
        return follower

    async def check_arguments(self, entry: Entry, arguments: Any) -> list[Fault]:
        """What is wrong with a call's arguments, as `{"path", "message"}` each."""
        return await self.checking.faults(entry.version, entry.tool.input_schema, arguments, whole=ARGUMENTS)

    async def require_arguments(self, entry: Entry, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the tool gets them. Raises `InvalidArguments`, in words a model can act on, unless it can
        take them.

        What its schema demands and has a default for is filled in, and so on record.
        """
        if entry.tool.operation is CallKind.RESOURCE:
            return arguments
        schema = entry.tool.input_schema
        faults = await self.checking.faults(entry.version, schema, arguments, whole=ARGUMENTS)
        if faults:
            filled = with_defaults(schema, arguments)
            if filled is not arguments and not await self.check_arguments(entry, filled):
                return filled
            raise InvalidArguments(
                f"{entry.tool.operation.value.capitalize()} '{entry.name}' cannot take these arguments: "
                f"{summarize(faults)}",
                details=faults,
            )
        return arguments

    async def check_result(self, entry: Entry, result: bytes | Raw) -> list[Fault]:
        """What is wrong with a call's result, which is JSON; nothing where the tool has no output schema."""
        schema = entry.tool.output_schema
        return [] if schema is None else await self.checking.faults_in_json(entry.version, schema, result, whole=RESULT)

    def close(self) -> None:
        """Let all followers go."""
        for follower in list(self._followers):
            follower.close()
        for listening in list(self._list_followers):
            listening.close()

    def _has_taken(self, listings: Listings) -> bool:
        """Whether these are the very listings of the last update: a source that went down keeps its listing."""
        return (
            not self._is_stale
            and len(listings) == len(self._listings)
            and all(
                name == known and listing is taken
                for (name, listing), (known, taken) in zip(listings, self._listings, strict=True)
            )
        )

    def _take(self, moment: Moment, listings: Listings) -> ToolsChanged | None:
        """Make `moment` the present. Also when nothing changed for callers: where a tool lives may have."""
        last, self._moment = self._moment, moment
        self._is_stale = False
        before = last.snapshot
        self._listings = tuple(listings)
        self._views.clear()
        self._prompt_views.clear()
        self._resource_views.clear()
        self._tell_lists(last, moment)
        if moment.change is None:
            return None
        told: dict[Visibility, ToolsChanged | None] = {}
        for follower in list(self._followers):
            sight = follower.sight
            if sight not in told:
                told[sight] = seen_by(sight, moment.change, before=before, after=moment.snapshot)
            change = told[sight]
            if change is not None:
                follower.offer(change)
        return moment.change

    def _tell_lists(self, before: Moment, after: Moment) -> None:
        """Tell followers of lists which of them changed, as far as each may see it."""
        if not self._list_followers:
            return
        prompts = difference(before.prompts, after.prompts)
        resources = resource_changes(before.resources, after.resources)
        told: dict[Visibility, tuple[str, ...]] = {}
        for follower in list(self._list_followers):
            sight = follower.sight
            if sight.session is not None:
                continue
            if sight not in told:
                tools = after.change and seen_by(sight, after.change, before=before.snapshot, after=after.snapshot)
                other = seen_by(sight, prompts, before=before.prompts, after=after.prompts)
                is_changed = {
                    "tools": tools is not None and tools.names_tools,
                    "prompts": other is not None and other.names_tools,
                    "resources": changed_for(sight, resources),
                }
                told[sight] = tuple(name for name, changed in is_changed.items() if changed)
            for name in told[sight]:
                follower.offer(name)


def read_limits_of(sources: Iterable[SourceSettings]) -> dict[str, int]:
    """How many reads of resources and prompts each source takes per minute, where it says so."""
    return {one.name: one.rate_limit_per_minute for one in sources if one.rate_limit_per_minute is not None}


def _narrowed(sight: Visibility, within: tuple[str, ...] | None) -> Visibility:
    return sight if within is None else msgspec.structs.replace(sight, limits=(*sight.limits, within))
