"""Switches for everybody, in every store."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from jackfield.catalog.switch_transactions import (
    SWITCHES_TOPIC,
    SwitchKind,
    Target,
    all_switches,
    switch_off,
    switch_on,
)
from jackfield.catalog.switches import Switches
from jackfield.errors import Unavailable
from jackfield.store import Store
from jackfield.store.opening import MemoryStore
from jackfield.store.scripts import Script

T = TypeVar("T")
TOOL = Target(SwitchKind.TOOL, "nul\x00inside", "acme")


async def test_what_is_off_is_on_record_until_it_is_on(store: Store) -> None:
    off = await store.write(partial(switch_off, TOOL, title="acme_tool", reason="broken", by="ops"))
    assert await store.read(all_switches) == [off]
    assert (off.target, off.title, off.reason, off.by) == (TOOL, "acme_tool", "broken", "ops")
    again = await store.write(partial(switch_off, TOOL, title="acme_tool", reason="still", by="other"))
    assert await store.read(all_switches) == [again]
    assert await store.write(partial(switch_on, TOOL)) == again
    assert await store.write(partial(switch_on, TOOL)) is None
    assert await store.read(all_switches) == []


async def test_who_listens_is_woken_by_both(store: Store) -> None:
    with store.bus.listen(SWITCHES_TOPIC) as written:
        for script in (partial(switch_off, TOOL, title="t", reason="", by="ops"), partial(switch_on, TOOL)):
            await store.write(script)
            await asyncio.wait_for(written.wait(), 5)
            written.clear()


async def test_the_sentence_says_what_why_and_what_to_do(store: Store) -> None:
    off = await store.write(partial(switch_off, Target(SwitchKind.KEY, "ci"), title="ci", reason="", by="ops"))
    assert off.sentence == "Key 'ci' is switched off for everybody. An administrator can switch it on again."


class Away(MemoryStore):
    """A store that cannot be read."""

    is_away = False

    async def read(self, script: Callable[[], Script[T]]) -> T:
        if self.is_away:
            raise Unavailable("The database does not answer.")
        return await super().read(script)


async def test_switches_that_cannot_be_read_allow_nothing() -> None:
    store, switches = Away(), Switches()
    await store.open()
    store.is_away = True
    with pytest.raises(Unavailable):
        await switches.reload(store)
    with pytest.raises(Unavailable, match="could not be read"):
        _ = switches.all
    store.is_away = False
    await switches.reload(store)
    assert switches.all == ()
    await store.close()
