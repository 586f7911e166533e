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

import msgspec
from msgspec import Struct

from jackfield.catalog.manifest import tool_json, version_of
from jackfield.catalog.names import BUILTIN_SOURCE, Identity, Notice, legal, public_names, shown
from jackfield.catalog.overrides import apply_override, assign
from jackfield.catalog.pins import Pins, held_notices, pinnable
from jackfield.catalog.schemas import fault_in, not_an_object
from jackfield.model.tool import BUILTIN_NAMES, Category, Tool
from jackfield.settings import ToolOverride
from jackfield.sources.base import Listing

Listings = Sequence[tuple[str, Listing]]
Overrides = Mapping[str, Mapping[str, ToolOverride]]
NO_PINS = Pins(stored={})


class Entry(Struct, frozen=True, kw_only=True):
    """One tool of the catalog under its public name."""

    name: str
    tool: Tool
    version: str
    manifest: bytes
    """Its JSON in seed 004's shape."""


class Checked(Struct, frozen=True, kw_only=True):
    """What the merge found out about one tool as its source lists it; kept for the next merge."""

    listed: Tool
    override: ToolOverride | None
    usable: Tool | None
    """With the override, and without an output schema that cannot be used. None: left out."""
    notices: tuple[Notice, ...]
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
    pins_are_known: bool = True
    by_identity: dict[Identity, Entry] = {}
    """All, held or not."""
    categories: tuple[Category, ...] = ()
    notices: tuple[Notice, ...] = ()
    version: str = ""
    """A digest: equal where names, definitions and categories are equal."""
    checked: dict[Identity, Checked] = {}


def merge(
    listings: Listings,
    overrides: Overrides,
    categories: Sequence[Category],
    *,
    prefixes: Mapping[str, str] | None = None,
    pins: Pins = NO_PINS,
    previous: Snapshot | None = None,
) -> Snapshot:
    """All listings, in config order, as one catalog. The config's `categories` and `overrides` have the last word."""
    before = Snapshot() if previous is None else previous
    checked, notices = _check_all(listings, overrides, before)
    usable = {identity: result.usable for identity, result in checked.items() if result.usable is not None}
    naming = public_names(_offers(listings, usable), prefixes=prefixes)
    by_identity = {
        identity: _entry(naming.names[identity], tool, before.by_identity.get(identity))
        for identity, tool in usable.items()
    }
    held = {
        entry.name: entry
        for identity, entry in by_identity.items()
        if (digest := checked[identity].digest) is not None and pins.holds(identity, digest)
    }
    entries = tuple(sorted((one for one in by_identity.values() if one.name not in held), key=lambda one: one.name))
    pins_are_known = pins.stored is not None
    told = held_notices(((one.tool.source, one.name) for one in held.values()), pins_are_known=pins_are_known)
    all_categories = _categories(listings, categories, entries)
    return Snapshot(
        entries=entries,
        by_name={entry.name: entry for entry in entries},
        by_foreign=_foreign_spellings(by_identity),
        held=held,
        pins_are_known=pins_are_known,
        by_identity=by_identity,
        categories=all_categories,
        notices=(*naming.notices, *notices, *told),
        version=_version(entries, all_categories),
        checked=checked,
    )


def check(tool: Tool, override: ToolOverride | None) -> Checked:
    """Whether `tool` can be offered, and as what."""
    overridden = tool if override is None else apply_override(tool, override)
    fault = _unspeakable(overridden) or not_an_object(overridden.input_schema) or fault_in(overridden.input_schema)
    if fault is not None:
        message = (
            f"Tool '{shown(tool.name)}' of '{tool.source}' is left out: its input schema {fault}. Correct it there."
        )
        return Checked(listed=tool, override=override, usable=None, notices=(_about(tool, message),))
    if overridden.output_schema is None or (fault := _output_fault(overridden)) is None:
        return Checked(listed=tool, override=override, usable=overridden, notices=(), digest=_digest(tool))
    message = (
        f"Results of tool '{shown(tool.name)}' of '{tool.source}' are not checked: its output schema {fault}. "
        "Correct it there."
    )
    unchecked = msgspec.structs.replace(overridden, output_schema=None)
    notices = (_about(tool, message),)
    return Checked(listed=tool, override=override, usable=unchecked, notices=notices, digest=_digest(tool))


def _output_fault(tool: Tool) -> str | None:
    """Why results cannot be checked. Who sends both the schema and the results may not choose how long that takes."""
    assert tool.output_schema is not None
    return fault_in(tool.output_schema, is_foreign=tool.definition is not None)


def _digest(tool: Tool) -> str | None:
    return None if tool.definition is None else pinnable(tool.definition).digest


def _check_all(
    listings: Listings, overrides: Overrides, previous: Snapshot
) -> tuple[dict[Identity, Checked], list[Notice]]:
    checked: dict[Identity, Checked] = {}
    notices: list[Notice] = []
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
                before = check(tool, override)
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


def _entry(name: str, tool: Tool, before: Entry | None) -> Entry:
    if before is not None and before.name == name and _same(before.tool, tool):
        return before
    version = version_of(name, tool)
    return Entry(name=name, tool=tool, version=version, manifest=tool_json(name, tool, version))


def private_entries(listing: Listing, *, owner: str) -> tuple[Entry, ...]:
    """The usable tools of a source that is in nobody's catalog, under names that no other tool has."""
    usable = (check(tool, None).usable for tool in listing.tools)
    return tuple(_entry(legal(f"{tool.name}_{owner}"), tool, None) for tool in usable if tool is not None)


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
        by_foreign=_foreign_spellings(by_identity),
        by_identity=by_identity,
        version=_version(ordered, ()),
    )


def _foreign_spellings(by_identity: Mapping[Identity, Entry]) -> dict[str, tuple[Entry, ...]]:
    """Spellings by which a tool can be called besides its public name. A built-in's name is never one of them."""
    found: dict[str, tuple[Entry, ...]] = {}
    public = {entry.name for entry in by_identity.values()}
    for (source, foreign), entry in by_identity.items():
        if foreign in public or (foreign in BUILTIN_NAMES and source != BUILTIN_SOURCE):
            continue
        found[foreign] = (*found.get(foreign, ()), entry)
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


def _about(tool: Tool, message: str) -> Notice:
    return Notice(public_name=legal(tool.name), sources=(tool.source,), message=message)


def _twice(tool: Tool) -> Notice:
    return _about(
        tool,
        f"'{tool.source}' offers two tools called '{shown(tool.name)}'; the first is used. Rename or remove the other.",
    )
