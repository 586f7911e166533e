"""The catalog at one moment, and the next one: what listings, pins and names make of the one before.

Above: `catalog.py`. Below: merge, names, pins, resources, search. Pure, so that it may run in a thread.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from jackfield.catalog.changes import difference
from jackfield.catalog.kinds import PROMPT, TEMPLATE, identity_of, marked, pins_of
from jackfield.catalog.merge import Judge, Listings, Overrides, Snapshot, merge
from jackfield.catalog.name_history import Names, freed_by
from jackfield.catalog.names import Identity, KeptNames
from jackfield.catalog.pins import Pins
from jackfield.catalog.resources import ResourceSnapshot, merge_resources, offers_resources
from jackfield.catalog.search import Index
from jackfield.model.tool import Category
from jackfield.protocol.records import ToolsChanged
from jackfield.sources.base import Listing


class Stored(Struct, frozen=True):
    """What the store knows of tools."""

    pins: Mapping[Identity, str]
    names: KeptNames
    refused: Mapping[Identity, str]
    """The digests of refused definitions."""


class Moment(Struct, frozen=True):
    """A snapshot with all that was made from it."""

    snapshot: Snapshot
    index: Index
    change: ToolsChanged | None
    pins: Pins
    names: Names
    prompts: Snapshot = Snapshot()
    resources: ResourceSnapshot = ResourceSnapshot()
    sources: frozenset[str] = frozenset()
    """Whose listings it was made from."""


class Merging(Struct, frozen=True, kw_only=True):
    """How listings become a moment: what the operator says about tools."""

    categories: Sequence[Category]
    overrides: Overrides
    prefixes: Mapping[str, str]
    asking: Callable[[], AbstractSet[Identity]]
    """The tools that ask first, besides those that say so themselves."""
    judge: Judge

    def following(self, before: Moment, listings: Listings, stored: Stored | None = None) -> Moment:
        """The next moment. Touches nothing, so it may run in a thread."""
        old = before.snapshot
        pins = before.pins if stored is None else before.pins.reading(stored.pins, stored.refused)
        names = before.names if stored is None else before.names.reading(stored.names)
        by_source = dict(listings)
        names = names.freeing(
            freed_by(old, by_source, sources=before.sources)
            | marked((one for one in before.prompts.by_identity if one[0] not in by_source), PROMPT)
        )
        new = merge(
            listings,
            self.overrides,
            self.categories,
            prefixes=self.prefixes,
            kept_names=names.current,
            pins=pins,
            asking=self.asking(),
            previous=old,
            judge=self.judge,
        )
        prompts = self._prompts_following(before, listings, pins=pins, names=names)
        resources = self._resources_following(before, listings, pins=pins)
        # What is seen for the first time is pinned and has its name now, and in the store a little later.
        pins = _pinned(pins, new, prompts, resources)
        if new.naming is not old.naming or prompts.naming is not before.prompts.naming or names is not before.names:
            names = names.following(new, prompts)
        sources = frozenset(by_source)
        if new.version == old.version:
            return Moment(new, before.index, None, pins, names, prompts, resources, sources)
        change = difference(old, new)
        index = before.index.following(
            removed=[old.by_name[name] for name in (*change.removed, *change.changed)],
            added=[new.by_name[name] for name in (*change.added, *change.changed)],
        )
        return Moment(new, index, change, pins, names, prompts, resources, sources)

    def _prompts_following(self, before: Moment, listings: Listings, *, pins: Pins, names: Names) -> Snapshot:
        """The prompts of these listings, merged, named and pinned as tools are."""
        old = before.prompts
        if not old.by_identity and not any(listing.prompts for _, listing in listings):
            return old
        offered = [
            (source, Listing(tools=listing.prompts, faults=listing.faults, accepts_changes=listing.accepts_changes))
            for source, listing in listings
        ]
        return merge(
            offered,
            {},
            (),
            prefixes=self.prefixes,
            kept_names=names.prompts,
            pins=pins_of(pins, PROMPT),
            previous=old,
            judge=self.judge,
            what="Prompt",
        )

    def _resources_following(self, before: Moment, listings: Listings, *, pins: Pins) -> ResourceSnapshot:
        old = before.resources
        if not old.made_from and not any(offers_resources(listing) for _, listing in listings):
            return old
        return merge_resources(listings, pins=pins_of(pins, TEMPLATE), previous=old)


def _pinned(pins: Pins, tools: Snapshot, prompts: Snapshot, resources: ResourceSnapshot) -> Pins:
    """With a pin for everything foreign that is seen for the first time."""
    sightings = [
        (identity_of(entry.tool), entry.tool.definition)
        for snapshot in (tools, prompts)
        for entry in snapshot.by_identity.values()
        if entry.tool.definition is not None
    ]
    templates = (one.tool for one in (*resources.templates, *resources.held))
    sightings += [(identity_of(tool), tool.definition) for tool in templates if tool.definition is not None]
    held = tools.held_as_new | marked(prompts.held_as_new, PROMPT) | marked(resources.held_as_new, TEMPLATE)
    return pins.seeing(sightings, held=held)
