"""Pins of foreign tools, in every store: the first sight counts, an accepted change replaces it, others are woken."""

import asyncio

from jackfield.store import Store
from jackfield.store.pins import AT_ONCE, PINS_TOPIC, Pin, ToolName

FIRST = Pin(source="acme", tool="a", digest="d1", definition='{"name":"a"}')
CHANGED = Pin(source="acme", tool="a", digest="d2", definition='{"name":"a","x":1}', accepted_by="ops")


async def test_what_was_seen_first_is_pinned_and_stays(store: Store) -> None:
    assert await store.pins.digests() == {}
    await store.pins.add([FIRST])
    await store.pins.add([CHANGED])
    assert await store.pins.digests() == {("acme", "a"): "d1"}
    assert await store.pins.get("acme", "a") == FIRST
    assert await store.pins.get("acme", "b") is None


async def test_an_accepted_change_takes_the_pins_place(store: Store) -> None:
    await store.pins.add([FIRST])
    await store.pins.put([CHANGED])
    assert await store.pins.get("acme", "a") == CHANGED
    assert await store.pins.digests() == {("acme", "a"): "d2"}


async def test_names_are_kept_as_they_are_whatever_they_hold(store: Store) -> None:
    names = ["plain", "with/slash", 'quote"d', "back\\slash", "nul\x00inside", "ü€😀", "line\nbreak", ""]
    await store.pins.add([Pin(source="s", tool=name, digest=f"d{n}", definition="{}") for n, name in enumerate(names)])
    assert await store.pins.digests() == {("s", name): f"d{number}" for number, name in enumerate(names)}
    found = await store.pins.get("s", "nul\x00inside")
    assert found is not None
    assert found.tool == "nul\x00inside"


async def test_thousands_are_pinned_at_once(store: Store) -> None:
    pins = [Pin(source="s", tool=f"t{number}", digest="d", definition="{}") for number in range(AT_ONCE * 2 + 1)]
    await store.pins.add(pins)
    assert len(await store.pins.digests()) == AT_ONCE * 2 + 1


async def test_who_listens_is_woken_by_both(store: Store) -> None:
    with store.bus.listen(PINS_TOPIC) as written:
        for write in (store.pins.add, store.pins.put):
            await write([FIRST])
            await asyncio.wait_for(written.wait(), 5)
            written.clear()


def called(source: str, name: str, *, tool: str = "x") -> ToolName:
    return ToolName(source=source, tool=tool, name=name, wish="x", is_foreign=True)


async def test_a_name_is_one_tools_only_and_freed_before_it_is_given_again(store: Store) -> None:
    await store.pins.rename(freed=[], taken=[called("a", "x"), called("b", "x"), called("c", "c_x", tool="nul\x00")])
    assert await store.pins.names() == [called("a", "x"), called("c", "c_x", tool="nul\x00")]
    await store.pins.rename(freed=[called("a", "another")], taken=[called("a", "a_x")])
    assert (await store.pins.names())[0] == called("a", "x")
    await store.pins.rename(freed=[called("a", "x")], taken=[called("b", "x"), called("a", "a_x")])
    assert {one.source: one.name for one in await store.pins.names()} == {"a": "a_x", "b": "x", "c": "c_x"}
