"""The catalog over time: what changes, who is told, and that nobody who follows can hold it up."""

import asyncio
import gc
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.changes import Follower, difference, folded
from jackfield.catalog.merge import Snapshot, merge
from jackfield.model.tool import Category, HttpExecution
from jackfield.protocol.records import ToolsChanged
from jackfield.settings import ToolOverride
from jackfield.sources.base import Listing
from tests.catalog.given import key, listing, properties, tool
from tests.requirement import requirement

WAIT = 5.0


async def next_of(follower: Follower) -> ToolsChanged:
    return await asyncio.wait_for(anext(follower), WAIT)


async def hears_nothing(follower: Follower) -> bool:
    """Whether a follower has nothing to take now."""
    waiting = asyncio.ensure_future(anext(follower))
    await asyncio.sleep(0)
    silent = not waiting.done()
    waiting.cancel()
    return silent


@requirement("DISC-provider-registry")
def test_an_update_says_what_came_went_and_changed() -> None:
    catalog = Catalog()
    first = catalog.update([listing("acme", "a", "b"), listing("local", "c")])
    assert first == ToolsChanged(added=("a", "b", "c"), version=catalog.version)
    second = catalog.update([listing("acme", "a", tool("b", description="new"), "d")])
    assert second == ToolsChanged(added=("d",), removed=("c",), changed=("b",), version=catalog.version)
    assert second.version != first.version


def test_an_update_with_the_same_tools_changes_nothing() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", "a")])
    version = catalog.version
    assert catalog.update([listing("acme", "a")]) is None
    assert catalog.version == version


def test_the_version_is_equal_where_the_tools_are() -> None:
    one, two = Catalog(), Catalog()
    one.update([listing("acme", "a", "b")])
    two.update([listing("acme", "b")])
    assert one.version != two.version
    two.update([listing("acme", "b", "a")])
    assert one.version == two.version


def test_the_operators_words_are_applied() -> None:
    catalog = Catalog(
        (Category(id="x", name="X"),), {"acme": {"a": ToolOverride(visible=True)}}, prefixes={"acme": "p_"}
    )
    catalog.update([listing("acme", "a"), listing("local", "a", "search")])
    view = catalog.view(key("read"))
    assert view.get("p_a").tool.visible
    assert not view.get("a").tool.visible
    assert [notice.public_name for notice in catalog.notices] == ["local_search"]


def test_a_tool_that_moved_is_reached_at_its_new_place_although_nothing_changed_for_callers() -> None:
    catalog = Catalog()
    here = tool("a", execution=HttpExecution(url="https://old.example"))
    catalog.update([listing("acme", here)])
    assert catalog.view(key("call")).get("a").tool == here
    moved = msgspec.structs.replace(here, execution=HttpExecution(url="https://new.example"))
    assert catalog.update([listing("acme", moved)]) is None
    assert catalog.view(key("call")).get("a").tool == moved


def test_a_manifest_is_made_once_and_made_anew_after_a_change() -> None:
    times = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number) for number in range(9))
    catalog = Catalog(now=lambda: next(times))
    catalog.update([listing("acme", "a")])
    first = catalog.view(key("read"))
    assert catalog.view(key("read")).manifest is first.manifest
    catalog.update([listing("acme", "b")])
    second = catalog.view(key("read"))
    assert msgspec.json.decode(first.manifest)["generated_at"] == "2026-01-01T00:00:00.000Z"
    assert msgspec.json.decode(second.manifest)["generated_at"] == "2026-01-01T00:00:01.000Z"
    assert first.etag != second.etag


async def test_arguments_and_results_are_checked_against_the_tools_own_schemas() -> None:
    catalog = Catalog()
    schema = properties(city={"type": "string"}) | {"required": ["city"]}
    catalog.update([listing("acme", tool("a", input_schema=schema, output_schema={"type": "string"}), "b")])
    view = catalog.view(key("call"))
    assert await catalog.check_arguments(view.get("a"), {"city": "Oslo"}) == []
    assert await catalog.check_arguments(view.get("a"), {}) == [{"path": "city", "message": "'city' is required"}]
    assert await catalog.check_result(view.get("a"), b'"fine"') == []
    assert await catalog.check_result(view.get("a"), b"3") == [
        {"path": "", "message": "The result must be a string, got a number 3"}
    ]
    assert await catalog.check_result(view.get("b"), b"{") == []


async def test_a_changed_schema_is_the_one_that_counts() -> None:
    catalog = Catalog()
    for kind, right, wrong in (("string", "a", 1), ("integer", 1, "a")):
        catalog.update([listing("acme", tool("a", input_schema=properties(x={"type": kind})))])
        entry = catalog.view(key("call")).get("a")
        assert await catalog.check_arguments(entry, {"x": right}) == []
        assert len(await catalog.check_arguments(entry, {"x": wrong})) == 1


async def test_a_follower_hears_of_what_happens_after_it_began() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", "a")])
    follower = catalog.follow()
    assert await hears_nothing(follower)
    change = catalog.update([listing("acme", "a", "b")])
    assert await next_of(follower) == change
    assert await hears_nothing(follower)


async def test_a_slow_follower_gets_all_it_missed_as_one_change() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", "a", "b")])
    follower = catalog.follow()
    for number in range(100):
        catalog.update([listing("acme", "a", f"tool{number}", tool("b", description=str(number)))])
    catalog.update([listing("acme", "a", "last", "b")])
    assert await next_of(follower) == ToolsChanged(added=("last",), changed=("b",), version=catalog.version)
    assert await hears_nothing(follower)


async def test_every_follower_hears_it_whatever_the_others_do() -> None:
    catalog = Catalog()
    first, gone, third = catalog.follow(), catalog.follow(), catalog.follow()
    del gone
    gc.collect()
    third.close()
    assert len(catalog._followers) == 2
    change = catalog.update([listing("acme", "a")])
    assert await next_of(first) == change
    with pytest.raises(StopAsyncIteration):
        await next_of(third)


async def test_closing_the_catalog_lets_its_followers_go() -> None:
    catalog = Catalog()
    heard: list[ToolsChanged] = []

    async def listen() -> None:
        heard.extend([change async for change in catalog.follow()])

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    catalog.close()
    await asyncio.wait_for(listening, WAIT)
    assert heard == []


async def test_a_key_hears_only_of_tools_it_may_see() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", "get_a", "secret")])
    follower = catalog.follow(key("read", tools=("get_*",)))
    catalog.update([listing("acme", "get_a", "secret2")])
    assert await hears_nothing(follower)
    catalog.update([listing("acme", "get_b", tool("secret2", description="new"))])
    assert await next_of(follower) == ToolsChanged(added=("get_b",), removed=("get_a",), version=catalog.version)


async def test_a_name_that_passes_to_another_source_comes_into_sight() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", "a"), listing("local", "b")])
    mine, theirs = catalog.follow(key("read", tools=("local:*",))), catalog.follow(key("read", tools=("acme:*",)))
    catalog.update([listing("acme"), listing("local", "a", "b")])
    assert await next_of(mine) == ToolsChanged(added=("a",), version=catalog.version)
    assert await next_of(theirs) == ToolsChanged(removed=("a",), version=catalog.version)


async def test_changed_categories_are_told_to_everybody() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", "a")])
    follower = catalog.follow(key("read", tools=("nothing",)))
    described = Listing(tools=(tool("a"),), categories=(Category(id="x", name="X"),))
    assert catalog.update([("acme", described)]) == ToolsChanged(version=catalog.version)
    assert await next_of(follower) == ToolsChanged(version=catalog.version)


async def test_an_update_aside_comes_to_the_same_and_leaves_the_loop_free() -> None:
    many = [listing("acme", *(f"tool{number}" for number in range(3_000)))]
    aside, at_once = Catalog(), Catalog()
    updating = asyncio.create_task(aside.update_aside(many))
    turns = 0
    while not updating.done():
        turns += 1
        await asyncio.sleep(0)
    assert await updating == at_once.update(many)
    assert aside.version == at_once.version
    assert turns > 10
    assert await aside.update_aside(many) is None


async def test_updates_that_overlap_end_with_the_last_one() -> None:
    catalog = Catalog()
    many = [listing("acme", *(f"tool{number}" for number in range(500)))]
    first = asyncio.create_task(catalog.update_aside(many))
    await asyncio.sleep(0)
    catalog.update([listing("acme", "early")])
    second = asyncio.create_task(catalog.update_aside([listing("acme", "last")]))
    change, last = await asyncio.wait_for(asyncio.gather(first, second), WAIT)
    assert change is not None
    assert change.removed == ("early",)
    assert last == ToolsChanged(added=("last",), removed=tuple(sorted(change.added)), version=catalog.version)
    assert [entry.name for entry in catalog.view(key("read")).search("last")] == ["last"]
    assert catalog.view(key("read")).search("tool7") == []


states = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["one", "two"]))


def snapshot(state: dict[str, str]) -> Snapshot:
    return merge([listing("acme", *(tool(name, description=text) for name, text in state.items()))], {}, ())


@given(st.lists(states, min_size=2, max_size=5))
def test_folded_changes_lead_from_the_first_state_to_the_last(history: list[dict[str, str]]) -> None:
    moments = [snapshot(state) for state in history]
    change = difference(moments[0], moments[1])
    for before, after in pairwise(moments[1:]):
        change = folded(change, difference(before, after))
    direct = difference(moments[0], moments[-1])
    assert (change.added, change.removed) == (direct.added, direct.removed)
    assert set(direct.changed) <= set(change.changed) <= set(history[0]) & set(history[-1])
