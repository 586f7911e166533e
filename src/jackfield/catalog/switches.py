"""Switches for everybody: an administrator turns a tool, a source or a key off for all, at every gateway.

They go before every preference. What is off is not offered to models, and calls are refused with the reason; calls that
run go on. Above: the pipeline, answers, and `switches_api.py`. Below: rows of the store, read as a whole and kept here,
so that a call asks no database. What is not known is refused: switches that could not be read allow nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry
from jackfield.catalog import merge
from jackfield.catalog.switch_transactions import (
    SWITCHES_TOPIC,
    Switch,
    SwitchKind,
    Target,
    all_switches,
    switch_off,
    switch_on,
)
from jackfield.errors import Unavailable
from jackfield.protocol.backoff import RetryDelays
from jackfield.store import Store

log = logging.getLogger("jackfield")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


class Switches:
    """Everything that is off for everybody, as last read."""

    def __init__(self) -> None:
        self._off: dict[Target, Switch] | None = {}
        self._reading = asyncio.Lock()
        self.on_change: Callable[[], None] = lambda: None
        """Called when something was switched, here or at another gateway."""

    @property
    def all(self) -> Sequence[Switch]:
        """By kind and name. Raises `Unavailable` while they are not known."""
        return tuple(self._known().values())

    def names(self, kind: SwitchKind) -> dict[str, Switch]:
        """What is off of this kind, by name; nothing while that is not known."""
        return {target.name: switch for target, switch in (self._off or {}).items() if target.kind is kind}

    def find(self, target: Target) -> Switch | None:
        return self._known().get(target)

    def of(self, entry: merge.Entry) -> Switch | None:
        """The switch that turns this tool, prompt or resource off: its source's, or its own."""
        known = self._off
        if known is not None and not known:
            return None
        tool = entry.tool
        return self.find(Target(SwitchKind.SOURCE, tool.source)) or self.find(
            Target(SwitchKind.TOOL, tool.name, tool.source)
        )

    def of_call(self, entry: merge.Entry, *, principal: str) -> Switch | None:
        """The same, or the one of the key in whose name it is called."""
        known = self._off
        if known is not None and not known:
            return None
        return self.find(Target(SwitchKind.KEY, principal)) or self.of(entry)

    def on(self, entries: Sequence[merge.Entry]) -> Sequence[merge.Entry]:
        """Those that are not off."""
        known = self._off
        return entries if known is not None and not known else [one for one in entries if self.of(one) is None]

    async def switch_off(
        self, target: Target, *, title: str, reason: str, by: str, store: Store, audit: AuditLog
    ) -> Switch:
        """Off at every gateway; here before this returns."""
        script = partial(switch_off, target, title=title, reason=reason, by=by)
        switch = await store.write(audit.noting(script, _was_switched_off))
        await self.reload(store)
        return switch

    async def switch_on(self, target: Target, *, by: str, store: Store, audit: AuditLog) -> None:
        """On again."""
        await store.write(audit.noting(partial(switch_on, target), partial(_was_switched_on, by)))
        await self.reload(store)

    async def reload(self, store: Store) -> None:
        """Read all anew, one reading after another. While that fails, nobody knows what is off, and nothing is on."""
        async with self._reading:
            try:
                self._take(await store.read(all_switches))
            except Exception:
                self._off = None
                raise

    async def follow(self, store: Store) -> None:
        """Read whenever a gateway of this store has switched something; a store that fails is asked again."""
        with store.bus.listen(SWITCHES_TOPIC) as written:
            written.set()  # what was written before this gateway listened
            delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
            while True:
                await written.wait()
                written.clear()
                try:
                    await self.reload(store)
                    delays.reset()
                except Exception:
                    log.exception("what is switched off could not be read, so no call is allowed; it is tried again")
                    await asyncio.sleep(delays.next())
                    written.set()

    def _take(self, switches: Iterable[Switch]) -> None:
        before, self._off = self._off, {switch.target: switch for switch in switches}
        if self._off != before:
            self.on_change()

    def _known(self) -> dict[Target, Switch]:
        if self._off is None:
            raise Unavailable("What is switched off could not be read, so no call is allowed. Try again in a moment.")
        return self._off


def _was_switched_off(switch: Switch) -> Entry:
    action = f"{switch.target.kind.value}.switched_off"
    return Entry(actor=switch.by, action=action, subject=switch.title, after=switch)


def _was_switched_on(by: str, switch: Switch | None) -> Entry | None:
    if switch is None:
        return None
    action = f"{switch.target.kind.value}.switched_on"
    return Entry(actor=by, action=action, subject=switch.title, before=switch)
