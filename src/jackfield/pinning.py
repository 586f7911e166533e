"""Pins of foreign tools: read from the store, written at first sight, moved when a person accepts a change.

The catalog judges by the pins it was given and never waits for the store; what it sees for the first time is written
here, a little later. All gateways of a database share their pins.
Above: the app, which runs `follow`, and the doors that show and accept changes. Below: the catalog and the store.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from msgspec import Raw, Struct

from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.pins import Definition, diff_of, pinnable
from jackfield.errors import Conflict, NotFound
from jackfield.store import Store
from jackfield.store.pins import PINS_TOPIC, Pin

log = logging.getLogger("jackfield")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds between tries while the store fails."""


class Difference(Struct, frozen=True, kw_only=True):
    """A foreign tool as it is pinned and as its source offers it now."""

    name: str
    source: str
    is_held: bool
    digest: str
    """Of what is offered; whoever accepts it says which one was seen."""
    pinned: Raw | None
    offered: Raw
    diff: str
    """Unified, of both as indented JSON; empty where they are equal."""


class Pinning:
    """Keeps the catalog's pins and the store's the same."""

    def __init__(self, *, catalog: Catalog, store: Store) -> None:
        self._catalog = catalog
        self._store = store
        self._wanted = asyncio.Event()
        self._reading = asyncio.Lock()
        self._told: frozenset[str] = frozenset()

    def look(self) -> None:
        """The catalog has new listings: what is new there is to be pinned, and what is held now to be told."""
        if self._catalog.pins.unwritten:
            self._wanted.set()
        if self._catalog.pins.stored is None:
            return
        held = self._catalog.held
        for name in sorted(held.keys() - self._told):
            source = held[name].tool.source
            log.warning("tool %s of %s is held: its definition changed. See 'jackfield accept %s'", name, source, name)
        self._told = frozenset(held)

    async def follow(self) -> None:
        """Read when another gateway wrote, write what is new; a store that fails is asked again."""
        with self._store.bus.listen(PINS_TOPIC, event=self._wanted):
            self._wanted.set()  # what was written before this gateway listened, or could not be read at its start
            pause = FIRST_PAUSE
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                if await self.catch_up():
                    pause = FIRST_PAUSE
                    continue
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                self._wanted.set()

    async def catch_up(self) -> bool:
        """Take the store's pins and give it those that are new. False: it failed, which is logged."""
        try:
            await self._read()
            if first := self._catalog.pins.unwritten:
                await self._store.pins.add([_pin(*identity, seen) for identity, seen in first.items()])
                await self._read()  # another gateway may have been first, and seen something else
        except Exception:
            log.exception("the pins of foreign tools could not be read or written; it is tried again")
            return False
        return True

    async def difference(self, entry: Entry) -> Difference:
        """What changed in a foreign tool since it was pinned."""
        offered = offered_definition(entry)
        pinned = await self._pinned(entry)
        return Difference(
            name=entry.name,
            source=entry.tool.source,
            is_held=entry.name in self._catalog.held,
            digest=offered.digest,
            pinned=None if pinned is None else Raw(pinned.encode()),
            offered=Raw(offered.text.encode()),
            diff=await asyncio.to_thread(diff_of, pinned or offered.text, offered.text),
        )

    async def accept(self, entries: Sequence[Entry], *, seen: Mapping[str, str], accepted_by: str) -> None:
        """Pin these tools to what is offered now, all of them or none.

        `seen` has the digests that the person was shown, by public name; if a tool has changed again, nothing happens.
        """
        offered = {entry.name: offered_definition(entry) for entry in entries}
        for name, definition in offered.items():
            if seen.get(name, definition.digest) != definition.digest:
                raise Conflict(f"Tool '{name}' has changed again since you looked. Look at the new change first.")
        pins = [_pin(entry.tool.source, entry.tool.name, offered[entry.name], accepted_by) for entry in entries]
        await self._store.pins.put(pins)
        await self._read()

    async def _read(self) -> None:
        async with self._reading:
            await self._catalog.take_pins(await self._store.pins.digests())
        self.look()

    async def _pinned(self, entry: Entry) -> str | None:
        pin = await self._store.pins.get(entry.tool.source, entry.tool.name)
        if pin is not None:
            return pin.definition
        first = self._catalog.pins.unwritten.get((entry.tool.source, entry.tool.name))
        return None if first is None else first.text


def offered_definition(entry: Entry) -> Definition:
    """What the tool's source says of it now. A tool of our own has no definition that could be pinned."""
    if entry.tool.definition is None:
        raise NotFound(
            f"Tool '{entry.name}' of '{entry.tool.source}' is not a foreign tool, so its definition is not pinned.",
            param="name",
        )
    return pinnable(entry.tool.definition)


def _pin(source: str, tool: str, definition: Definition, accepted_by: str | None = None) -> Pin:
    return Pin(source=source, tool=tool, digest=definition.digest, definition=definition.text, accepted_by=accepted_by)
