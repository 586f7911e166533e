"""Pins of foreign tools, in every store: the first sight counts, an accepted change replaces it, others are woken."""

import asyncio
from collections.abc import Sequence
from functools import partial

from jackfield.catalog.transactions import (
    PINS_TOPIC,
    Pin,
    ToolName,
    add_pins,
    free_names,
    get_pin,
    pin_digests,
    put_pins,
    refuse_definitions,
    refused_definitions,
    take_names,
    tool_names,
)
from jackfield.store import Store

FIRST = Pin(source="acme", tool="a", digest="d1", definition='{"name":"a"}')
CHANGED = Pin(source="acme", tool="a", digest="d2", definition='{"name":"a","x":1}', accepted_by="ops")


async def test_what_was_seen_first_is_pinned_and_stays(store: Store) -> None:
    assert await store.read(pin_digests) == {}
    await store.write(partial(add_pins, [FIRST]))
    await store.write(partial(add_pins, [CHANGED]))
    assert await store.read(pin_digests) == {("acme", "a"): "d1"}
    assert await store.read(partial(get_pin, "acme", "a")) == FIRST
    assert await store.read(partial(get_pin, "acme", "b")) is None


async def test_an_accepted_change_takes_the_pins_place(store: Store) -> None:
    await store.write(partial(add_pins, [FIRST]))
    await store.write(partial(put_pins, [CHANGED]))
    assert await store.read(partial(get_pin, "acme", "a")) == CHANGED
    assert await store.read(pin_digests) == {("acme", "a"): "d2"}


async def test_a_refused_definition_is_kept_beside_the_pin_until_one_is_accepted(store: Store) -> None:
    await store.write(partial(add_pins, [FIRST]))
    await store.write(partial(refuse_definitions, {("acme", "a"): "d2", ("acme", "new"): "d3"}, refused_by="ops"))
    refused = await store.read(refused_definitions)
    assert {one: (row.digest, row.refused_by) for one, row in refused.items()} == {
        ("acme", "a"): ("d2", "ops"),
        ("acme", "new"): ("d3", "ops"),
    }
    assert await store.read(partial(get_pin, "acme", "a")) == FIRST
    await store.write(partial(put_pins, [CHANGED]))
    assert list(await store.read(refused_definitions)) == [("acme", "new")]


async def test_names_are_kept_as_they_are_whatever_they_hold(store: Store) -> None:
    names = ["plain", "with/slash", 'quote"d', "back\\slash", "nul\x00inside", "ü€😀", "line\nbreak", ""]
    await store.write(
        partial(
            add_pins,
            [Pin(source="s", tool=name, digest=f"d{n}", definition="{}") for n, name in enumerate(names)],
        )
    )
    assert await store.read(pin_digests) == {("s", name): f"d{number}" for number, name in enumerate(names)}
    found = await store.read(partial(get_pin, "s", "nul\x00inside"))
    assert found is not None
    assert found.tool == "nul\x00inside"


async def test_thousands_are_pinned_at_once(store: Store) -> None:
    pins = [Pin(source="s", tool=f"t{number}", digest="d", definition="{}") for number in range(1001)]
    await store.write(partial(add_pins, pins))
    assert len(await store.read(pin_digests)) == 1001


async def test_who_listens_is_woken_by_both(store: Store) -> None:
    with store.bus.listen(PINS_TOPIC) as written:
        for script in (add_pins, put_pins):
            await store.write(partial(script, [FIRST]))
            await asyncio.wait_for(written.wait(), 5)
            written.clear()


def called(source: str, name: str, *, tool: str = "x") -> ToolName:
    return ToolName(source=source, tool=tool, name=name, wish="x", is_foreign=True)


async def rename(store: Store, *, freed: Sequence[ToolName] = (), taken: Sequence[ToolName] = ()) -> None:
    await store.write(partial(free_names, freed))
    await store.write(partial(take_names, taken))


async def test_a_name_is_one_tools_only_and_freed_before_it_is_given_again(store: Store) -> None:
    await rename(store, taken=[called("a", "x"), called("b", "x"), called("c", "c_x", tool="nul\x00")])
    assert await store.read(tool_names) == [called("a", "x"), called("c", "c_x", tool="nul\x00")]
    await rename(store, freed=[called("a", "another")], taken=[called("a", "a_x")])
    assert (await store.read(tool_names))[0] == called("a", "x")
    await rename(store, freed=[called("a", "x")], taken=[called("b", "x"), called("a", "a_x")])
    assert {one.source: one.name for one in await store.read(tool_names)} == {"a": "a_x", "b": "x", "c": "c_x"}
