"""Pins of foreign tools and names of all: read from the store, written at first sight, changed when a person accepts.

The catalog judges by the pins and names it was given and never waits for the store; what it sees for the first time is
written here, a little later. All gateways of a database share both.
Above: the gateway, which runs `follow`, and `pins_api.py`. Below: the catalog and the store.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Raw, Struct

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry as AuditedChange
from jackfield.catalog import transactions as pin_tx
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.kinds import PinnedKind, identity_of, kind_of, pin_key
from jackfield.catalog.names import Identity, KeptName, KeptNames
from jackfield.catalog.pins import Definition, diff_of, pinnable
from jackfield.catalog.transactions import PINS_TOPIC, Pin, RefusedDefinition, ToolName
from jackfield.errors import Conflict, NotFound
from jackfield.model.event import Event
from jackfield.protocol.backoff import RetryDelays
from jackfield.sources.supervisor import SourceState, SourceStatus
from jackfield.store import Store
from jackfield.store.scripts import Script

log = logging.getLogger("jackfield")

T = TypeVar("T")
AT_ONCE = 500
"""Rows in one transaction at most."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds between tries while the store fails."""


class Difference(Struct, frozen=True, kw_only=True):
    """A foreign tool, prompt or template as it is pinned and as its source offers it now."""

    name: str
    kind: PinnedKind
    key: str
    source: str
    is_held: bool
    refused: RefusedDefinition | None
    """Who refused what is offered now, if somebody did."""
    digest: str
    """Of what is offered; whoever accepts it says which one was seen."""
    pinned: Raw | None
    offered: Raw
    diff: str
    """Unified, of both as indented JSON; empty where they are equal."""


class Pinning:
    """Keeps the catalog's pins and the store's the same."""

    def __init__(self, *, catalog: Catalog, store: Store, audit: AuditLog) -> None:
        self._audit = audit
        self._catalog = catalog
        self._store = store
        self._wanted = asyncio.Event()
        self._reading = asyncio.Lock()
        self._told: frozenset[tuple[Identity, str]] = frozenset()
        """What is held, with the digests of the definitions."""
        self._refused: Mapping[Identity, RefusedDefinition] = {}
        self._freed: dict[Identity, KeptName] = {}
        self._given: dict[Identity, KeptName] = {}
        """What this gateway has said about names. One that has another config may not agree; it is not said again."""

    def look(self) -> None:
        """The catalog has new listings: what is new there is to be pinned, and what is held now to be told."""
        if self.is_behind:
            self._wanted.set()
        if self._catalog.pins.stored is None:
            return
        own = (entry for source in self._catalog.own_sources for entry in self._catalog.held_of(source))
        held = {
            (identity_of(entry.tool), offered_definition(entry).digest): entry
            for entry in (*self._catalog.all_held, *own)
            if not self._catalog.is_refused(entry)
        }
        for identity, digest in sorted(held.keys() - self._told):
            entry = held[identity, digest]
            name, source = pin_key(entry).replace(":", " ", 1), identity[0]
            why = "is new" if self._catalog.pins.awaits(identity) else "changed its definition"
            log.warning("%s of %s is held: it %s. See 'jackfield accept %s'", name, source, why, source)
            self._store.tell(_held_event(entry, digest=digest, reason=f"It {why}."))
        self._told = frozenset(held)

    @property
    def is_behind(self) -> bool:
        """Whether the catalog knows something that the store does not."""
        freed, given = self._unwritten_names()
        return bool(self._catalog.pins.unwritten or freed or given)

    def free_names(self, sources: Mapping[str, SourceStatus]) -> None:
        """At the start: keep no names for sources that are gone, nor for the operator's own tools that are gone."""

        def is_gone(identity: Identity, known: KeptName) -> bool:
            status = sources.get(identity[0])
            if status is None or known.is_foreign:
                return status is None
            return status.status is SourceState.UP and not status.faults and not self._catalog.lists(identity)

        kept = self._catalog.names.current
        self._catalog.free_names({identity for identity, known in kept.items() if is_gone(identity, known)})

    async def follow(self) -> None:
        """Read when another gateway wrote, write what is new; a store that fails is asked again."""
        with self._store.bus.listen(PINS_TOPIC, event=self._wanted):
            self._wanted.set()  # what was written before this gateway listened, or could not be read at its start
            delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                if await self.catch_up():
                    delays.reset()
                    continue
                await asyncio.sleep(delays.next())
                self._wanted.set()

    async def catch_up(self) -> bool:
        """Take the store's pins and give it those that are new. False: it failed, which is logged."""
        try:
            await self._read()
            if first := self._catalog.pins.unwritten:
                await self._in_steps(pin_tx.add_pins, [_pin(*identity, seen) for identity, seen in first.items()])
            given_up = self._catalog.names.given_up  # all that is written from here on is without them
            freed, given = self._unwritten_names()
            if freed or given:
                await self._in_steps(pin_tx.free_names, _names(freed))
                await self._in_steps(pin_tx.take_names, _names(given))
                self._freed = {one: known for one, known in (self._freed | freed).items() if one not in given}
                self._given = {one: known for one, known in self._given.items() if one not in freed} | given
            if first or freed or given:
                await self._read()  # another gateway may have been first, and seen something else
            self._catalog.forget_names(given_up)
        except Exception:
            log.exception("the pins of foreign tools could not be read or written; it is tried again")
            return False
        return True

    async def _in_steps(self, script: Callable[[Sequence[T]], Script[None]], rows: Sequence[T]) -> None:
        """Write in small transactions: a server with thousands of tools does not hold up other writes."""
        for start in range(0, len(rows), AT_ONCE):
            await self._store.write(partial(script, rows[start : start + AT_ONCE]))

    async def difference(self, entry: Entry) -> Difference:
        """What changed in a foreign tool since it was pinned."""
        offered = offered_definition(entry)
        pinned = await self._pinned(entry)
        is_refused = self._catalog.is_refused(entry)
        return Difference(
            name=entry.name,
            kind=kind_of(entry.tool),
            key=pin_key(entry),
            source=entry.tool.source,
            is_held=entry in self._catalog.held_of(entry.tool.source),
            refused=self._refused.get(identity_of(entry.tool)) if is_refused else None,
            digest=offered.digest,
            pinned=Raw(pinned.encode()) if pinned else None,
            offered=Raw(offered.text.encode()),
            diff=await asyncio.to_thread(diff_of, offered.text if pinned is None else pinned, offered.text),
        )

    async def accept(self, entries: Sequence[Entry], *, seen: Mapping[str, str], accepted_by: str) -> None:
        """Pin these tools to what is offered now, all of them or none.

        `seen` has the digests that the person was shown, by `pin_key`; if a tool has changed again, nothing happens.
        """
        pins = [
            _pin(*identity_of(entry.tool), definition, accepted_by) for entry, definition in _meant(entries, seen=seen)
        ]
        await self._store.write(partial(self._accepted, pins, accepted_by))
        await self._read()

    async def refuse(self, entries: Sequence[Entry], *, seen: Mapping[str, str], refused_by: str) -> None:
        """Leave these tools held as they are offered now, all of them or none, until they are offered otherwise.

        `seen` as for `accept`.
        """
        digests = {identity_of(entry.tool): definition.digest for entry, definition in _meant(entries, seen=seen)}
        await self._store.write(partial(self._refused_now, digests, refused_by))
        await self._read()

    def _accepted(self, pins: Sequence[Pin], accepted_by: str) -> Script[None]:
        changes = []
        for pin in pins:
            before = yield from pin_tx.get_pin(pin.source, pin.tool)
            changes.append(
                AuditedChange(
                    actor=accepted_by,
                    action="definition.accepted",
                    subject=f"{pin.source}:{pin.tool}",
                    before=None if before is None else {"sha256": before.digest},
                    after={"sha256": pin.digest},
                )
            )
        yield from pin_tx.put_pins(pins)
        yield from self._audit.record(*changes)

    def _refused_now(self, digests: Mapping[Identity, str], refused_by: str) -> Script[None]:
        changes = []
        for (source, tool), digest in sorted(digests.items()):
            pin = yield from pin_tx.get_pin(source, tool)
            before = None if pin is None or not pin.digest else {"sha256": pin.digest}
            changes.append(
                AuditedChange(
                    actor=refused_by,
                    action="definition.refused",
                    subject=f"{source}:{tool}",
                    before=before,
                    after={"sha256": digest},
                )
            )
        yield from pin_tx.refuse_definitions(digests, refused_by=refused_by)
        yield from self._audit.record(*changes)

    async def _read(self) -> None:
        async with self._reading:
            pins, names = await self._store.read(pin_tx.pin_digests), await self._store.read(pin_tx.tool_names)
            self._refused = await self._store.read(pin_tx.refused_definitions)
            refused = {identity: one.digest for identity, one in self._refused.items()}
            await self._catalog.take_stored(pins, _kept(names), refused)
        self.look()

    def _unwritten_names(self) -> tuple[dict[Identity, KeptName], dict[Identity, KeptName]]:
        """The names that are to be freed in the store, and those that are to be kept there."""
        names = self._catalog.names
        freed = {one: known for one, known in names.freed.items() if self._freed.get(one) != known}
        given = {one: known for one, known in names.unwritten.items() if self._given.get(one) != known}
        return freed, given

    async def _pinned(self, entry: Entry) -> str | None:
        identity = identity_of(entry.tool)
        pin = await self._store.read(partial(pin_tx.get_pin, *identity))
        if pin is not None:
            return pin.definition
        first = self._catalog.pins.unwritten.get(identity)
        return None if first is None else first.text


def offered_definition(entry: Entry) -> Definition:
    """What the tool's source says of it now. A tool of our own has no definition that could be pinned."""
    if entry.tool.definition is None:
        raise NotFound(
            f"Tool '{entry.name}' of '{entry.tool.source}' is not a foreign tool, so its definition is not pinned.",
            param="name",
        )
    return pinnable(entry.tool.definition)


def _meant(entries: Sequence[Entry], *, seen: Mapping[str, str]) -> Iterator[tuple[Entry, Definition]]:
    """What each offers now, which must be what the person was shown, where that is known."""
    for entry in entries:
        definition = offered_definition(entry)
        if seen.get(pin_key(entry), definition.digest) != definition.digest:
            what = kind_of(entry.tool).capitalize()
            raise Conflict(f"{what} '{entry.name}' has changed again since you looked. Look at the new change first.")
        yield entry, definition


def _held_event(entry: Entry, *, digest: str, reason: str) -> Event:
    """Every gateway finds it so; it is told once for each definition."""
    source = entry.tool.source
    return Event(
        type="tool.quarantined",
        tool=entry.name,
        source=source,
        details={
            "tool": entry.name,
            "kind": kind_of(entry.tool),
            "source": source,
            "reason": reason,
            "digest": digest,
            "command": f"jackfield accept {source}",
        },
        key=f"tool.quarantined {source} {pin_key(entry)} {digest}",
    )


def _kept(names: Iterable[ToolName]) -> dict[Identity, KeptName]:
    return {(one.source, one.tool): KeptName(name=one.name, wish=one.wish, is_foreign=one.is_foreign) for one in names}


def _names(kept: KeptNames) -> list[ToolName]:
    """In one order at every gateway, so that two that write at once wait for each other once only."""
    return [
        ToolName(source=source, tool=tool, name=known.name, wish=known.wish, is_foreign=known.is_foreign)
        for (source, tool), known in sorted(kept.items(), key=lambda pair: pair[0])
    ]


def _pin(source: str, tool: str, definition: Definition, accepted_by: str | None = None) -> Pin:
    return Pin(source=source, tool=tool, digest=definition.digest, definition=definition.text, accepted_by=accepted_by)
