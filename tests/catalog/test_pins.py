"""A foreign tool is offered as it was first seen, or as a person accepted it; otherwise it is held."""

import time
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.pins import MOST_COMPARED, Pins, diff_of, pinnable
from jackfield.errors import DefinitionChanged, ToolNotFound, Unavailable
from jackfield.model.tool import Tool
from jackfield.protocol.records import ToolsChanged
from jackfield.settings import ToolOverride
from tests.catalog.given import key, listing, tool

READER = key("read")


def raw(name: str = "a", description: str = "Does.", **more: Any) -> Raw:
    return Raw(msgspec.json.encode({"name": name, "description": description, "inputSchema": {}, **more}))


def foreign(name: str = "a", description: str = "Does.", *, source: str = "acme", **more: Any) -> Tool:
    return tool(name, source, description=description, definition=raw(name, description, **more))


def offered(catalog: Catalog) -> list[str]:
    return [entry.name for entry in catalog.view(READER).entries]


def known_pins(*tools: Tool) -> dict[tuple[str, str], str]:
    return {(one.source, one.name): pinnable(one.definition).digest for one in tools if one.definition is not None}


def test_a_tool_is_offered_as_it_is_first_seen_and_its_pin_waits_to_be_written() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", foreign(), "own")])
    assert offered(catalog) == ["a", "own"]
    assert dict(catalog.pins.unwritten) == {("acme", "a"): pinnable(raw())}


@pytest.mark.parametrize(
    "changed",
    [
        foreign(description="Does something else."),
        foreign(annotations={"readOnlyHint": True}),
        foreign(outputSchema={"type": "object"}),
        foreign(title="A"),
        foreign(inputSchema={"type": "object"}),
    ],
)
def test_a_change_of_any_part_of_the_definition_holds_the_tool(changed: Tool) -> None:
    catalog = Catalog()
    catalog.update([listing("acme", foreign(), "b")])
    change = catalog.update([listing("acme", changed, "b")])
    assert change == ToolsChanged(removed=("a",), version=catalog.version)
    assert offered(catalog) == ["b"]
    view = catalog.view(READER)
    assert b'"name":"a"' not in view.manifest
    assert [entry.name for entry in view.search("does")] == []
    assert list(catalog.held) == ["a"]
    assert catalog.entry("a") is None


def test_a_held_tool_is_refused_by_its_name_and_says_how_to_accept_it() -> None:
    catalog = Catalog(prefixes={"acme": "p_"})
    catalog.update([listing("acme", foreign("a-b"))])
    catalog.update([listing("acme", foreign("a-b", "Else."))])
    for name in ("p_a_b", "a-b"):
        with pytest.raises(DefinitionChanged, match="'jackfield accept p_a_b'"):
            catalog.view(READER).get(name)
    [notice] = catalog.notices
    assert notice.message == (
        "Held of 'acme': tool 'p_a_b'; its definition changed. 'jackfield accept acme' shows the change and takes it."
    )


def test_a_key_that_may_not_see_the_tool_is_not_told_that_it_is_held() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", foreign())])
    catalog.update([listing("acme", foreign(description="Else."))])
    with pytest.raises(ToolNotFound):
        catalog.view(key("call", tools=("b",))).get("a")


def test_many_held_tools_are_one_notice() -> None:
    names = [f"t{number}" for number in range(9)]
    catalog = Catalog()
    catalog.update([listing("acme", *map(foreign, names))])
    catalog.update([listing("acme", *(foreign(name, "Else.") for name in names))])
    [notice] = catalog.notices
    assert "9 tools ('t0', 't1', 't2', 't3', 't4' and 4 more)" in notice.message


def test_a_held_tool_keeps_its_name_so_that_nobody_else_gets_its_calls() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", foreign()), listing("rival", foreign(source="rival"))])
    catalog.update([listing("acme", foreign(description="Else.")), listing("rival", foreign(source="rival"))])
    assert offered(catalog) == ["rival_a"]
    with pytest.raises(DefinitionChanged):
        catalog.view(READER).get("a")


def test_a_tool_that_went_and_returns_is_offered_unchanged_and_held_changed() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", foreign())])
    catalog.update([listing("acme")])
    catalog.update([listing("acme", foreign())])
    assert offered(catalog) == ["a"]
    catalog.update([listing("acme")])
    catalog.update([listing("acme", foreign(description="Else."))])
    assert offered(catalog) == []
    catalog.update([listing("acme", foreign())])
    assert offered(catalog) == ["a"]


def test_the_order_of_keys_and_what_no_agent_sees_make_no_change() -> None:
    first = Raw(b'{"name": "a", "inputSchema": {"x": 1, "y": 2}, "_meta": {"at": 1}}')
    then = Raw(b'{"_meta": {"at": 2}, "inputSchema": {"y": 2, "x": 1}, "name": "a"}')
    assert pinnable(first) == pinnable(then)


def test_the_operators_own_words_about_a_tool_change_nothing_of_its_pin() -> None:
    catalog = Catalog((), {"acme": {"a": ToolOverride(description="Ours.")}})
    catalog.update([listing("acme", foreign())])
    assert offered(catalog) == ["a"]
    catalog.update([listing("acme", foreign(description="Else."))])
    assert offered(catalog) == []


def test_tools_of_our_own_are_not_pinned() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", tool("a", description="One."))])
    catalog.update([listing("acme", tool("a", description="Another."))])
    assert offered(catalog) == ["a"]
    assert not catalog.pins.unwritten


async def test_the_stores_pin_counts_more_than_what_was_seen_here_first() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", foreign())])
    await catalog.take_stored(known_pins(foreign(description="Seen by another gateway.")), {})
    assert offered(catalog) == []
    assert not catalog.pins.unwritten


async def test_an_accepted_change_is_offered_at_once_and_followers_hear_of_it() -> None:
    catalog = Catalog()
    catalog.update([listing("acme", foreign())])
    changed = foreign(description="Else.")
    catalog.update([listing("acme", changed)])
    change = await catalog.take_stored(known_pins(changed), {})
    assert change == ToolsChanged(added=("a",), version=catalog.version)
    assert catalog.view(READER).get("a").tool is changed
    assert catalog.notices == ()


async def test_while_the_pins_are_not_known_every_foreign_tool_is_held_and_none_is_pinned() -> None:
    catalog = Catalog(pins=Pins())
    catalog.update([listing("acme", foreign(), "own")])
    assert offered(catalog) == ["own"]
    with pytest.raises(Unavailable, match="cannot be read from the store"):
        catalog.view(READER).get("a")
    assert "tried again" in catalog.notices[0].message
    await catalog.take_stored({}, {})
    assert offered(catalog) == ["a", "own"]
    assert list(catalog.pins.unwritten) == [("acme", "a")]


def test_a_source_whose_changes_are_accepted_unseen_goes_on_and_keeps_its_first_pin() -> None:
    catalog = Catalog(pins=Pins(stored={}, accepting=frozenset({"acme"})))
    catalog.update([listing("acme", foreign()), listing("rival", foreign("b", source="rival"))])
    catalog.update(
        [listing("acme", foreign(description="Else.")), listing("rival", foreign("b", "Else.", source="rival"))]
    )
    assert offered(catalog) == ["a"]
    assert catalog.pins.digest(("acme", "a")) == pinnable(raw()).digest


def test_a_diff_shows_what_changed_and_hidden_characters_by_their_number() -> None:
    before = pinnable(raw(description="Adds.")).text
    after = pinnable(raw(description="Adds.\u200b\x1b[2J\nAnd mails it.")).text
    told = diff_of(before, after)
    assert told.splitlines()[:2] == ["--- pinned", "+++ offered"]
    assert '-  "description": "Adds.",' in told
    assert '+  "description": "Adds.\\u200b\\u001b[2J\\nAnd mails it.",' in told
    assert diff_of(before, before) == ""


def test_a_huge_definition_cannot_keep_the_diff_busy() -> None:
    before = pinnable(raw(inputSchema={"enum": ["x"] * 20_000})).text
    after = pinnable(raw(inputSchema={"enum": ["x", "y"] * 10_000})).text
    began = time.thread_time()
    told = diff_of(before, after)
    assert time.thread_time() - began < 2
    assert len(told.splitlines()) > MOST_COMPARED
    assert told.count('\n+      "y"') == 10_000


def test_a_definition_that_is_no_json_is_pinned_by_its_bytes() -> None:
    assert pinnable(Raw(b"{\xff\x00")).digest != pinnable(Raw(b"{\xff\x01")).digest
    assert "\x00" not in pinnable(Raw(b"{\xff\x00")).text
