"""The listings of all sources become one snapshot of the catalog.

Above: `catalog.py`. Below: names, overrides, schemas, pins, manifest. Pure: the same listings in the same order give
the same snapshot in every process. Given the snapshot before, only tools that are new or changed are compiled, hashed
and encoded again, so that one tool's change among 10,000 costs milliseconds.

A tool that cannot be offered (its schema cannot be used, or JSON cannot hold it) is left out with a notice and takes
no name. An output schema that cannot be used costs the tool only that schema. A foreign tool that is held (`pins.py`)
keeps its name, so that nobody else gets its calls meanwhile, and is no entry.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec
from msgspec import Struct

from jackfield.catalog.names import (
    CatalogNotice,
    Identity,
    KeptNames,
    Naming,
    distinct,
    legal,
    mcp_name,
    public_names,
    shown,
)
from jackfield.catalog.overrides import apply_override, assign
from jackfield.catalog.pins import Pins, held_notices, new_notices, pinnable
from jackfield.model.tool import BUILTIN, RESERVED_NAMES, Category, JsonSchema, Tool
from jackfield.protocol.manifest import tool_json, version_of
from jackfield.protocol.schemas import fault_in, not_an_object
from jackfield.settings import ToolOverride
from jackfield.sources.base import Listing

Listings = Sequence[tuple[str, Listing]]
Overrides = Mapping[str, Mapping[str, ToolOverride]]
NO_PINS = Pins(stored={})
NO_NAMES = Naming(names={}, wishes={}, refused={}, notices=())


class Judge(Protocol):
    """Why a schema cannot be used; None when it can. `schemas.fault_in`, or one that reads large ones aside."""

    def __call__(self, schema: JsonSchema, *, is_foreign: bool = False, brings_values: bool = False) -> str | None: ...


class Entry(Struct, frozen=True, kw_only=True):
    """One tool of the catalog under its public name."""

    name: str
    tool: Tool
    version: str
    manifest: bytes
    """Its JSON in seed 004's shape."""
    mcp_name: str
    """How `/mcp` lists it: the public name, but for the `-` of its owner's spelling."""
    deadline_ms: int
    pending_ms: int
    answered_by_others: bool
    """The tool's, computed once."""


class Checked(Struct, frozen=True, kw_only=True):
    """What the merge found out about one tool as its source lists it; kept for the next merge."""

    listed: Tool
    override: ToolOverride | None
    usable: Tool | None
    """With the override, and without an output schema that cannot be used. None: left out."""
    notices: tuple[CatalogNotice, ...]
    digest: str | None = None
    """Of the definition that it is pinned by; None: it is not a foreign tool."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """The whole catalog at one moment."""

    entries: tuple[Entry, ...] = ()
    """Sorted by public name."""
    by_name: dict[str, Entry] = {}
    by_foreign: dict[str, tuple[Entry, ...]] = {}
    """Foreign spellings that nobody has as a public name, with their owners in config order."""
    held: dict[str, Entry] = {}
    """By public name: tools that are offered to nobody, because their definition is not the pinned one."""
    held_as_new: frozenset[Identity] = frozenset()
    """Those of them that nobody has accepted yet."""
    refused: frozenset[Identity] = frozenset()
    """Those of them whose definition a person refused."""
    naming: Naming = NO_NAMES
    named_by: tuple[KeptNames, Mapping[str, str], tuple[str, ...]] | None = None
    """What the naming was made from, besides the tools."""
    pins_are_known: bool = True
    by_identity: dict[Identity, Entry] = {}
    """All, held or not."""
    categories: tuple[Category, ...] = ()
    notices: tuple[CatalogNotice, ...] = ()
    unoffered: dict[str, str] = {}
    """Of tools that their source knows and cannot offer: why."""
    version: str = ""
    """A digest: equal where names, definitions and categories are equal."""
    checked: dict[Identity, Checked] = {}

    def was_named_by(self, kept: KeptNames, prefixes: Mapping[str, str], sources: tuple[str, ...]) -> bool:
        """Whether its tools were named by the very same names, prefixes and order of sources."""
        return self.named_by is not None and self.named_by[0] is kept and self.named_by[1:] == (prefixes, sources)


def merge(
    listings: Listings,
    overrides: Overrides,
    categories: Sequence[Category],
    *,
    prefixes: Mapping[str, str] | None = None,
    kept_names: KeptNames | None = None,
    pins: Pins = NO_PINS,
    asking: AbstractSet[Identity] = frozenset(),
    previous: Snapshot | None = None,
    judge: Judge = fault_in,
    what: str = "Tool",
) -> Snapshot:
    """All listings, in config order, as one catalog. The config's `categories` and `overrides` have the last word.

    `asking` are tools that ask first, besides those that say so themselves. `what`: tools, or prompts.
    """
    before = Snapshot() if previous is None else previous
    given = prefixes or {}
    kept = kept_names or {}
    checked, notices = _check_all(listings, overrides, before, judge, what=what)
    usable = {identity: result.usable for identity, result in checked.items() if result.usable is not None}
    foreign = {identity for identity in usable if checked[identity].digest is not None}
    sources = tuple(source for source, _ in listings)
    if before.was_named_by(kept, given, sources) and before.naming.is_of(usable, foreign):
        naming = before.naming  # of the same tools: one's change among thousands renames nobody
    else:
        naming = public_names(_offers(listings, usable), prefixes=given, kept=kept, foreign=foreign, what=what)
    by_identity = {
        identity: _entry(naming.names[identity], tool, before.by_identity.get(identity), prefix=given.get(tool.source))
        for identity, tool in usable.items()
    }
    as_new = _held_as_new(foreign, pins=pins, naming=naming, usable=usable, asking=asking)
    accepting = frozenset(source for source, listing in listings if listing.accepts_changes)
    held = {
        by_identity[identity].name: by_identity[identity]
        for identity in usable
        if (digest := checked[identity].digest) is not None
        and (identity in as_new or pins.holds(identity, digest, accepting=accepting))
    }
    entries = tuple(sorted((one for one in by_identity.values() if one.name not in held), key=lambda one: one.name))
    pins_are_known = pins.stored is not None
    refused = _refused(held, checked, pins)
    undecided = [(one.tool.source, one.tool.name) for one in held.values()]
    undecided = [identity for identity in undecided if identity not in refused]
    changed = ((one[0], by_identity[one].name) for one in undecided if one not in as_new)
    new = ((one[0], by_identity[one].name) for one in undecided if one in as_new)
    told = (
        *held_notices(changed, pins_are_known=pins_are_known, what=what),
        *new_notices(new, what=what),
    )
    all_categories = _categories(listings, categories, entries)
    return Snapshot(
        entries=entries,
        by_name={entry.name: entry for entry in entries},
        by_foreign=_spellings(by_identity, prefixes=given, kept=kept),
        held=held,
        held_as_new=as_new,
        refused=refused,
        naming=naming,
        named_by=(kept, given, sources),
        pins_are_known=pins_are_known,
        by_identity=by_identity,
        categories=all_categories,
        notices=(*naming.notices, *notices, *told),
        unoffered=_unoffered(listings, prefixes or {}),
        version=_version(entries, all_categories),
        checked=checked,
    )


def naming_with(snapshot: Snapshot, identity: Identity, *, kept: KeptNames) -> Naming:
    """Who would be called what if the operator had this tool too."""
    _, prefixes, sources = snapshot.named_by or ({}, {}, ())
    names: dict[str, list[str]] = {source: [] for source in (*sources, identity[0])}
    for source, name in (*snapshot.naming.names, identity):
        names[source].append(name)
    return public_names(tuple(names.items()), prefixes=prefixes, kept=kept, foreign=snapshot.naming.foreign)


def _held_as_new(
    foreign: AbstractSet[Identity],
    *,
    pins: Pins,
    naming: Naming,
    usable: Mapping[Identity, Tool],
    asking: AbstractSet[Identity],
) -> frozenset[Identity]:
    """Foreign tools that a person has to accept before anybody is offered them.

    One that wants the name of a tool that asks first must not come to stand beside it unseen; of a tool that is not
    listed now nobody knows whether it does.
    """
    if pins.stored is None:
        return frozenset()

    def asks_first(holder: Identity) -> bool:
        return holder in asking or (tool := usable.get(holder)) is None or tool.metadata.requires_approval

    waiting = pins.waiting & foreign
    intruding = {
        identity
        for identity, holder in naming.refused.items()
        if pins.digest(identity) is None and holder[0] != identity[0] and asks_first(holder)
    }
    unseen = {identity for identity in foreign if pins.holds_new(identity)} if pins.holding_new else set()
    return frozenset(waiting | intruding | unseen)


def _refused(held: Mapping[str, Entry], checked: Mapping[Identity, Checked], pins: Pins) -> frozenset[Identity]:
    """The held tools whose definition a person refused."""
    if not pins.refused:
        return frozenset()
    identities = ((entry.tool.source, entry.tool.name) for entry in held.values())
    return frozenset(one for one in identities if pins.is_refused(one, checked[one].digest or ""))


def _unoffered(listings: Listings, prefixes: Mapping[str, str]) -> dict[str, str]:
    """By the name that each would have if nobody else had it."""
    return {
        legal(f"{prefixes.get(source, '')}{name}"): one.why
        for source, listing in listings
        for one in listing.unoffered
        for name in one.names
    }


def check(tool: Tool, override: ToolOverride | None, judge: Judge = fault_in, *, what: str = "Tool") -> Checked:
    """Whether `tool` can be offered, and as what."""
    overridden = tool if override is None else apply_override(tool, override)
    fault = (
        _unspeakable(overridden)
        or not_an_object(overridden.input_schema)
        or judge(overridden.input_schema, is_foreign=tool.definition is not None)
    )
    if fault is not None:
        message = (
            f"{what} '{shown(tool.name)}' of '{tool.source}' is left out: its input schema {fault}. Correct it there."
        )
        return Checked(listed=tool, override=override, usable=None, notices=(_about(tool, message),))
    if overridden.output_schema is None or (fault := _output_fault(overridden, judge)) is None:
        return Checked(listed=tool, override=override, usable=overridden, notices=(), digest=_digest(tool))
    message = (
        f"Results of tool '{shown(tool.name)}' of '{tool.source}' are not checked: its output schema {fault}. "
        "Correct it there."
    )
    unchecked = msgspec.structs.replace(overridden, output_schema=None)
    notices = (_about(tool, message),)
    return Checked(listed=tool, override=override, usable=unchecked, notices=notices, digest=_digest(tool))


def _output_fault(tool: Tool, judge: Judge) -> str | None:
    """Why results cannot be checked. Who sends both the schema and the results may not choose how long that takes."""
    assert tool.output_schema is not None
    is_foreign = tool.definition is not None
    return judge(tool.output_schema, is_foreign=is_foreign, brings_values=is_foreign)


def _digest(tool: Tool) -> str | None:
    return None if tool.definition is None else pinnable(tool.definition).digest


def _check_all(
    listings: Listings, overrides: Overrides, previous: Snapshot, judge: Judge, *, what: str = "Tool"
) -> tuple[dict[Identity, Checked], list[CatalogNotice]]:
    checked: dict[Identity, Checked] = {}
    notices: list[CatalogNotice] = []
    for source, listing in listings:
        meant, unmatched = assign(source, [tool.name for tool in listing.tools], overrides.get(source, {}))
        notices += unmatched
        for listed in listing.tools:
            tool = listed if listed.source == source else msgspec.structs.replace(listed, source=source)
            identity = (source, tool.name)
            if identity in checked:
                notices.append(_twice(tool))
                continue
            before = previous.checked.get(identity)
            override = meant.get(tool.name)
            if before is None or before.override != override or not _same(before.listed, tool):
                before = check(tool, override, judge, what=what)
            checked[identity] = before
            notices += before.notices
    return checked, notices


def _same(before: Tool, now: Tool) -> bool:
    return before is now or before == now


def _unspeakable(tool: Tool) -> str | None:
    """Why JSON cannot hold this tool, to stand after "its input schema"."""
    try:
        msgspec.json.encode(tool)
    except (TypeError, ValueError, RecursionError) as error:
        return f"or another part of it cannot be written as JSON: {error}"
    return None


def _speakable(category: Category) -> bool:
    """Whether JSON can hold it. One that it cannot hold must not spoil the manifest; its tools stay."""
    try:
        msgspec.json.encode(category)
    except ValueError:
        return False
    return True


def _offers(listings: Listings, usable: Mapping[Identity, Tool]) -> list[tuple[str, list[str]]]:
    return [
        (source, [tool.name for tool in listing.tools if (source, tool.name) in usable]) for source, listing in listings
    ]


def _entry(name: str, tool: Tool, before: Entry | None, *, prefix: str | None = None) -> Entry:
    if before is not None and before.name == name and _same(before.tool, tool):
        return before
    version = version_of(name, tool)
    return Entry(
        name=name,
        tool=tool,
        version=version,
        manifest=tool_json(name, tool, version),
        mcp_name=mcp_name(name, source=tool.source, spelled=f"{prefix or ''}{tool.name}"),
        deadline_ms=tool.deadline_ms,
        pending_ms=tool.pending_ms,
        answered_by_others=tool.answered_by_others,
    )


def merge_private(
    source: str,
    listing: Listing,
    *,
    overrides: Mapping[str, ToolOverride] | None = None,
    pins: Pins = NO_PINS,
    previous: Snapshot | None = None,
    judge: Judge = fault_in,
) -> Snapshot:
    """The tools of a source that is in nobody's catalog, under their own names; (source, name) is theirs alone."""
    checked, notices = _check_all(((source, listing),), {source: overrides or {}}, previous or Snapshot(), judge)
    usable = {identity: result.usable for identity, result in checked.items() if result.usable is not None}
    by_identity: dict[Identity, Entry] = {}
    taken: set[str] = set()
    for identity in sorted(usable, key=lambda one: (legal(one[1]) != one[1], one[1])):
        name = distinct(legal(identity[1]), spelled=identity[1], taken=taken)
        taken.add(name)
        by_identity[identity] = _entry(name, usable[identity], None)
    foreign = {identity for identity in usable if checked[identity].digest is not None}
    as_new = frozenset(identity for identity in foreign if pins.awaits(identity) or pins.holds_new(identity))
    accepting = frozenset({source} if listing.accepts_changes else ())
    held = {
        by_identity[identity].name: by_identity[identity]
        for identity in foreign
        if identity in as_new or pins.holds(identity, checked[identity].digest or "", accepting=accepting)
    }
    entries = tuple(sorted((one for one in by_identity.values() if one.name not in held), key=lambda one: one.name))
    refused = _refused(held, checked, pins)
    undecided = [one for one in by_identity if by_identity[one].name in held and one not in refused]
    changed = ((source, by_identity[one].name) for one in undecided if one not in as_new)
    new = ((source, by_identity[one].name) for one in undecided if one in as_new)
    told = (*held_notices(changed, pins_are_known=pins.stored is not None), *new_notices(new))
    return Snapshot(
        entries=entries,
        by_name={entry.name: entry for entry in entries},
        held=held,
        held_as_new=as_new,
        refused=refused,
        pins_are_known=pins.stored is not None,
        by_identity=by_identity,
        notices=(*notices, *told),
        checked=checked,
    )


def named_entry(name: str, tool: Tool) -> Entry:
    """An entry that is in nobody's catalog, under a name that was given to it elsewhere."""
    return _entry(name, tool, None)


def snapshot_of(entries: Iterable[Entry]) -> Snapshot:
    """A small catalog of entries that were made before."""
    ordered = tuple(sorted(entries, key=lambda entry: entry.name))
    by_identity = {(entry.tool.source, entry.tool.name): entry for entry in ordered}
    return Snapshot(
        entries=ordered,
        by_name={entry.name: entry for entry in ordered},
        by_foreign=_spellings(by_identity, prefixes={}, kept={}),
        by_identity=by_identity,
        version=_version(ordered, ()),
    )


def _spellings(
    by_identity: Mapping[Identity, Entry], *, prefixes: Mapping[str, str], kept: KeptNames
) -> dict[str, tuple[Entry, ...]]:
    """Spellings by which a tool can be called besides its public name: its owner's, with the prefix and without.

    None is a name that somebody has, or that is kept for somebody who is not listed now, or one of the gateway's own.
    """
    found: dict[str, tuple[Entry, ...]] = {
        entry.mcp_name: (entry,) for entry in by_identity.values() if entry.mcp_name != entry.name
    }
    public = {entry.name for entry in by_identity.values()}
    away = {known.name for identity, known in kept.items() if identity not in by_identity}
    own_first = sorted(by_identity.items(), key=lambda pair: pair[1].tool.definition is not None)
    for (source, foreign), entry in own_first:
        for spelling in dict.fromkeys((foreign, prefixes.get(source, "") + foreign)):
            is_ours = spelling in RESERVED_NAMES and source != BUILTIN
            if spelling in public or spelling == entry.mcp_name or is_ours or (away and legal(spelling) in away):
                continue
            found[spelling] = (*found.get(spelling, ()), entry)
    return found


def _categories(listings: Listings, configured: Sequence[Category], entries: Sequence[Entry]) -> tuple[Category, ...]:
    """The config's in its order, then the sources' in theirs, then those that a tool names and nobody describes.

    Of two sources that describe one category the later is believed, as in the seed's registry; the config before both.
    """
    found = {category.id: category for category in configured}
    fixed = set(found)
    for _, listing in listings:
        found |= {one.id: one for one in listing.categories if one.id not in fixed and _speakable(one)}
    named = {entry.tool.category for entry in entries if entry.tool.category is not None}
    for id_ in sorted(named - found.keys()):
        found[id_] = Category(id=id_, name=id_.replace("_", " ").replace("-", " ").title())
    return tuple(found.values())


def _version(entries: Sequence[Entry], categories: Sequence[Category]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(categories))
    digest.update("".join(f"\n{entry.name} {entry.version}" for entry in entries).encode())
    return digest.hexdigest()[:16]


def _about(tool: Tool, message: str) -> CatalogNotice:
    return CatalogNotice(public_name=legal(tool.name), sources=(tool.source,), message=message)


def _twice(tool: Tool) -> CatalogNotice:
    return _about(
        tool,
        f"'{tool.source}' offers two tools called '{shown(tool.name)}'; the first is used. Rename or remove the other.",
    )
