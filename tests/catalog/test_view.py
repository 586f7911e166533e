"""What each key sees."""

import json

import pytest

from jackfield.catalog.catalog import MAX_VIEWS, Catalog
from jackfield.errors import ToolNotFound
from jackfield.model.tool import Category
from tests.catalog.given import key, listing, tool


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog((Category(id="unused", name="Unused"),))
    catalog.update(
        [
            listing("acme", "get-weather", "get_time", tool("book", category="travel")),
            listing("local", tool("get-weather", "local", category="home"), "drop", "search"),
        ]
    )
    return catalog


EVERYTHING = ["book", "drop", "get_time", "get_weather", "local_get_weather", "local_search"]


@pytest.mark.parametrize(
    ("scopes", "tools", "seen"),
    [
        (("admin",), None, EVERYTHING),
        (("call",), None, EVERYTHING),
        (("read",), None, EVERYTHING),
        (("agent:concierge",), None, EVERYTHING),
        (("worker:get_*", "read"), None, EVERYTHING),
        (("worker:get_*",), None, ["get_time", "get_weather"]),
        (("worker:get_*", "worker:drop"), None, ["drop", "get_time", "get_weather"]),
        (("worker:get_*", "answer"), None, ["get_time", "get_weather"]),
        (("worker:get_*",), ("local:*", "get_time"), ["get_time"]),
        (("worker:acme:*",), None, []),
        (("answer",), None, []),
        (("session:s1",), None, []),
        ((), None, []),
        (("call",), ("get_*",), ["get_time", "get_weather"]),
        (("admin",), ("local:*",), ["drop", "local_get_weather", "local_search"]),
        (("read",), ("local:get-*", "book"), ["book", "local_get_weather"]),
        (("read",), ("nothing",), []),
        (("admin",), (), []),
        (("call",), (), []),
        (("worker:get_*",), (), []),
    ],
)
def test_a_key_sees_what_its_scopes_and_limits_allow(
    catalog: Catalog, scopes: tuple[str, ...], tools: tuple[str, ...] | None, seen: list[str]
) -> None:
    view = catalog.view(key(*scopes, tools=tools))
    assert [entry.name for entry in view.entries] == seen
    assert [shown["name"] for shown in json.loads(view.manifest)["tools"]] == seen


def test_a_tool_is_found_by_its_public_name_and_by_its_owners_spelling(catalog: Catalog) -> None:
    view = catalog.view(key("call"))
    assert view.get("get_weather").tool.source == "acme"
    assert view.get("get-weather").tool.source == "acme"
    assert view.get("local_get_weather").tool.source == "local"
    assert view.get("search").name == "local_search"


def test_a_foreign_spelling_leads_to_the_owner_that_the_key_sees(catalog: Catalog) -> None:
    assert catalog.view(key("call", tools=("local:*",))).get("get-weather").name == "local_get_weather"


@pytest.mark.parametrize("name", ["drop", "local_search", "search"])
def test_a_tool_out_of_sight_does_not_exist_for_the_key(catalog: Catalog, name: str) -> None:
    view = catalog.view(key("call", tools=("acme:*",)))
    with pytest.raises(ToolNotFound):
        view.get(name)
    assert view.search(name, limit=10) == []


def test_a_name_that_is_nearly_right_is_met_with_the_right_one(catalog: Catalog) -> None:
    with pytest.raises(ToolNotFound) as caught:
        catalog.view(key("call")).get("get_wether")
    assert caught.value.message == (
        "There is no tool 'get_wether'. Did you mean 'get_weather'? 'jackfield tools' lists those this key may see."
    )


def test_a_hint_gives_nothing_away(catalog: Catalog) -> None:
    with pytest.raises(ToolNotFound) as caught:
        catalog.view(key("call", tools=("acme:*",))).get("dropp")
    assert "drop'" not in caught.value.message


def test_an_absurd_name_is_told_in_a_short_sentence(catalog: Catalog) -> None:
    with pytest.raises(ToolNotFound) as caught:
        catalog.view(key("call")).get("x\n" * 100_000)
    assert len(caught.value.message) < 250
    assert "\n" not in caught.value.message


def test_an_empty_search_gives_the_first_tools_by_name(catalog: Catalog) -> None:
    assert [entry.name for entry in catalog.view(key("call")).search("  ", limit=2)] == ["book", "drop"]


def test_a_search_gives_entries_best_first(catalog: Catalog) -> None:
    assert [entry.name for entry in catalog.view(key("call")).search("weather")] == ["get_weather", "local_get_weather"]


def test_a_key_that_sees_part_of_the_catalog_sees_the_categories_of_that_part(catalog: Catalog) -> None:
    assert [category.id for category in catalog.view(key("read")).categories] == ["unused", "home", "travel"]
    assert [category.id for category in catalog.view(key("read", tools=("local:*",))).categories] == ["home"]


def test_keys_with_the_same_sight_share_a_view(catalog: Catalog) -> None:
    assert catalog.view(key("call", name="a")) is catalog.view(key("admin", name="b"))
    assert catalog.view(key("call", name="a")).manifest is catalog.view(key("admin", name="b")).manifest
    assert catalog.view(key("call", tools=("book",))) is not catalog.view(key("call"))


def test_only_so_many_views_are_kept(catalog: Catalog) -> None:
    often = key("call")
    kept = catalog.view(often)
    for number in range(MAX_VIEWS * 2):
        catalog.view(key("call", tools=(f"tool{number}",)))
        assert catalog.view(often) is kept
    assert len(catalog._views) == MAX_VIEWS


def test_a_view_shows_its_moment_although_the_catalog_goes_on(catalog: Catalog) -> None:
    view = catalog.view(key("call"))
    etag = view.etag
    catalog.update([listing("acme", "new")])
    assert view.get("drop").tool.source == "local"
    assert [entry.name for entry in view.search("drop", limit=5)] == ["drop"]
    assert view.etag == etag
    assert [entry.name for entry in catalog.view(key("call")).entries] == ["new"]
