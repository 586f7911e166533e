"""Many listings, one catalog."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.merge import Snapshot, merge
from jackfield.model.tool import Category, ExecutionType, HttpExecution, Metadata, Tool
from jackfield.settings import ToolOverride
from jackfield.sources.base import Listing
from tests.catalog.given import listing, properties, tool
from tests.requirement import requirement

WEATHER = tool("weather", description="The weather", input_schema=properties(city={"type": "string"}))


def version(one: Tool) -> str:
    return merge([listing(one.source, one)], {}, ()).entries[0].version


@requirement("DISC-provider-registry", "DISC-reference-registry")
def test_any_number_of_sources_is_gathered_in_order_of_name() -> None:
    snapshot = merge([listing(f"source{number}", f"tool{number}") for number in reversed(range(50))], {}, ())
    assert [entry.name for entry in snapshot.entries] == sorted(f"tool{number}" for number in range(50))
    assert snapshot.by_name["tool7"].tool == tool("tool7", "source7")
    assert snapshot.notices == ()


def test_a_source_without_tools_adds_nothing() -> None:
    assert merge([listing("acme", WEATHER), listing("local")], {}, ()).version == (
        merge([listing("acme", WEATHER)], {}, ()).version
    )


@requirement("CON-names-collision")
def test_both_owners_of_a_name_are_reachable_and_told() -> None:
    mine = tool("weather", "local", description="Another")
    snapshot = merge([listing("acme", WEATHER), listing("local", mine)], {}, ())
    assert snapshot.by_name["weather"].tool is WEATHER
    assert snapshot.by_name["local_weather"].tool is mine
    assert [notice.sources for notice in snapshot.notices] == [("acme", "local")]


def test_a_foreign_spelling_leads_to_its_owners_in_config_order() -> None:
    snapshot = merge([listing("acme", "get-x"), listing("local", "get-x", "get_y")], {}, ())
    assert [entry.name for entry in snapshot.by_foreign["get-x"]] == ["get_x", "local_get_x"]
    assert "get_y" not in snapshot.by_foreign


def test_a_public_name_is_never_a_foreign_spelling_of_another_tool() -> None:
    snapshot = merge([listing("acme", "weather"), listing("local", "weather")], {}, ())
    assert snapshot.by_foreign == {}


def test_a_built_ins_name_does_not_lead_to_a_foreign_tool() -> None:
    snapshot = merge([listing("acme", "send_message")], {}, ())
    assert list(snapshot.by_name) == ["acme_send_message"]
    assert snapshot.by_foreign == {}


def test_a_path_word_still_leads_to_its_tool() -> None:
    assert merge([listing("acme", "search")], {}, ()).by_foreign["search"][0].name == "acme_search"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            {"$ref": "https://evil.example/x"},
            "its input schema refers to 'https://evil.example/x', and nothing outside",
        ),
        ({"type": "strng"}, "its input schema describes 'strng', but arguments are always an object"),
        ({"type": "string"}, "its input schema describes 'string', but arguments are always an object"),
        (properties(a={"type": "strng"}), "its input schema is not valid JSON Schema: properties.a.type must be one"),
        (properties(a={"default": "\ud800"}), "its input schema or another part of it cannot be written as JSON"),
    ],
)
def test_a_tool_with_an_unusable_schema_is_left_out_and_told(schema: dict[str, Any], why: str) -> None:
    snapshot = merge([listing("acme", tool("bad", input_schema=schema), WEATHER)], {}, ())
    assert [entry.name for entry in snapshot.entries] == ["weather"]
    [notice] = snapshot.notices
    assert notice.message.startswith(f"Tool 'bad' of 'acme' is left out: {why}")
    assert notice.message.endswith("Correct it there.")


def test_a_tool_that_is_left_out_takes_no_name() -> None:
    broken = tool("weather", "first", input_schema={"type": "string"})
    snapshot = merge([listing("first", broken), listing("acme", WEATHER)], {}, ())
    assert snapshot.by_name["weather"].tool is WEATHER


@pytest.mark.parametrize("kind", ["object", ["object", "null"], None])
def test_a_schema_may_leave_open_that_it_describes_an_object(kind: Any) -> None:
    schema = {} if kind is None else {"type": kind}
    assert merge([listing("acme", tool("x", input_schema=schema))], {}, ()).notices == ()


def test_an_unusable_output_schema_costs_only_that_schema() -> None:
    odd = tool("odd", output_schema={"$ref": "https://evil.example/x"})
    snapshot = merge([listing("acme", odd)], {}, ())
    assert snapshot.by_name["odd"].tool == tool("odd", output_schema=None)
    assert snapshot.notices[0].message.startswith("Results of tool 'odd' of 'acme' are not checked: its output schema ")


def test_a_name_that_json_cannot_hold_hurts_nobody_else() -> None:
    snapshot = merge([listing("acme", "\ud800", WEATHER)], {}, ())
    assert [entry.name for entry in snapshot.entries] == ["weather"]
    msgspec.json.encode(snapshot.notices)


def test_a_source_that_lists_a_name_twice_is_told() -> None:
    snapshot = merge([listing("acme", WEATHER, tool("weather", description="Again"))], {}, ())
    assert [entry.tool for entry in snapshot.entries] == [WEATHER]
    assert snapshot.notices[0].message == (
        "'acme' offers two tools called 'weather'; the first is used. Rename or remove the other."
    )


def test_a_source_cannot_list_tools_in_anothers_name() -> None:
    snapshot = merge([("acme", Listing(tools=(tool("x", "builtin"),)))], {}, ())
    assert snapshot.entries[0].tool.source == "acme"


def test_overrides_reach_the_tool_of_their_source_alone() -> None:
    listings = [listing("acme", "x"), listing("local", "x")]
    snapshot = merge(listings, {"local": {"x": ToolOverride(category="code", timeout=5_000)}}, ())
    assert snapshot.by_name["x"].tool.category is None
    assert snapshot.by_name["local_x"].tool.category == "code"
    assert snapshot.by_name["local_x"].tool.deadline_ms == 5_000


def test_the_config_describes_a_category_before_any_source() -> None:
    travel = Category(id="travel", name="Travel", icon="plane")
    listings = [
        ("acme", Listing(categories=(Category(id="travel", name="T"), Category(id="code", name="Code")))),
        ("local", Listing(categories=(Category(id="code", name="Coding"),))),
    ]
    assert merge(listings, {}, (travel,)).categories == (travel, Category(id="code", name="Coding"))


def test_a_category_that_nobody_describes_is_named_after_its_id() -> None:
    snapshot = merge([listing("acme", tool("x", category="agent_life-cycle"), tool("y", category="a"))], {}, ())
    assert snapshot.categories == (Category(id="a", name="A"), Category(id="agent_life-cycle", name="Agent Life Cycle"))


def test_a_category_that_json_cannot_hold_is_left_out() -> None:
    snapshot = merge([("acme", Listing(categories=(Category(id="x", name="\ud800"),)))], {}, ())
    assert snapshot.categories == ()


CHANGES: list[dict[str, Any]] = [
    {"description": "Other"},
    {"input_schema": properties(city={"type": "string", "minLength": 1})},
    {"output_schema": {"type": "object"}},
    {"category": "code"},
    {"visible": True},
    {"is_async": True},
    {"timeout_ms": 5},
    {"expires_in_ms": 5},
    {"execution_type": ExecutionType.EXTERNAL},
    {"metadata": Metadata(requires_approval=True)},
    {"metadata": Metadata(tags=("a",))},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_version_changes_with_what_callers_rely_on(change: dict[str, Any]) -> None:
    assert version(msgspec.structs.replace(WEATHER, **change)) != version(WEATHER)


def test_a_version_does_not_change_with_where_a_tool_lives_or_the_order_of_keys() -> None:
    moved = msgspec.structs.replace(WEATHER, execution=HttpExecution(url="https://new.example"), config={"k": 1})
    assert version(moved) == version(WEATHER)
    one = tool("x", input_schema={"type": "object", "properties": {"a": {"type": "string"}, "b": {}}})
    two = tool("x", input_schema={"properties": {"b": {}, "a": {"type": "string"}}, "type": "object"})
    assert version(one) == version(two)


def test_a_version_is_the_same_in_every_process() -> None:
    assert version(WEATHER) == "6ddbea5231720d27b30a04798b6dcf3f"


def test_only_what_changed_is_made_again() -> None:
    first = merge([listing("acme", WEATHER, "a", "b"), listing("local", "c")], {}, ())
    same = Listing(tools=tuple(tool(name) for name in ("a", "b")))
    changed = msgspec.structs.replace(WEATHER, description="New")
    second = merge([("acme", Listing(tools=(*same.tools, changed))), listing("local", "c")], {}, (), previous=first)
    for name in ("a", "b", "c"):
        assert second.by_name[name] is first.by_name[name]
    assert second.by_name["weather"].version != first.by_name["weather"].version
    assert second == merge([("acme", Listing(tools=(*same.tools, changed))), listing("local", "c")], {}, ())


def test_a_changed_override_is_applied_to_an_unchanged_tool() -> None:
    first = merge([listing("acme", WEATHER)], {"acme": {"weather": ToolOverride(visible=True)}}, ())
    second = merge([listing("acme", WEATHER)], {"acme": {"weather": ToolOverride(visible=False)}}, (), previous=first)
    third = merge([listing("acme", WEATHER)], {}, (), previous=first)
    assert [first.entries[0].tool.visible, second.entries[0].tool.visible] == [True, False]
    assert third.entries[0].tool == WEATHER


tools = st.builds(
    tool,
    st.sampled_from(["weather", "a-b", "a_b", "search", "skip", "local_weather", "x" * 70, "天気"]),
    description=st.sampled_from(["", "one", "two"]),
    category=st.sampled_from([None, "travel", "code"]),
    input_schema=st.sampled_from([{"type": "object"}, properties(a={"type": "string"}), {"type": "string"}]),
)
catalogs = st.dictionaries(
    st.sampled_from(["acme", "local", "third"]),
    st.lists(tools, max_size=6).map(lambda found: Listing(tools=tuple(found))),
)


def of(found: dict[str, Listing], previous: Snapshot | None = None) -> Snapshot:
    own = [
        (source, Listing(tools=tuple(msgspec.structs.replace(one, source=source) for one in listed.tools)))
        for source, listed in found.items()
    ]
    return merge(own, {"acme": {"weather": ToolOverride(visible=True)}}, (), previous=previous)


@given(catalogs, catalogs)
def test_a_merge_after_another_gives_what_a_fresh_one_gives(
    before: dict[str, Listing], now: dict[str, Listing]
) -> None:
    assert of(now, previous=of(before)) == of(now)


@given(catalogs)
def test_every_usable_tool_is_reachable_by_its_own_name(found: dict[str, Listing]) -> None:
    snapshot = of(found)
    assert len(snapshot.by_name) == len(snapshot.entries) == len(snapshot.by_identity)
    for entry in snapshot.entries:
        assert snapshot.by_name[entry.name] is entry
        assert msgspec.json.decode(entry.manifest)["name"] == entry.name
