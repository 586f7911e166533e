"""Who is found, and who first."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.catalog import Catalog
from jackfield.catalog.merge import Entry, merge
from jackfield.catalog.search import Index
from jackfield.model.tool import Metadata, Tool
from tests.catalog.given import key, listing, properties, tool

TOOLS = (
    tool("get_weather", description="Current weather in a city", category="travel"),
    tool("get_weather_forecast", description="The coming days", metadata=Metadata(tags=("meteorology",))),
    tool("book_flight", description="Books a flight", category="travel", input_schema=properties(passenger_name={})),
    tool("sendEmail", description="Sends a message to people; say if the weather is bad"),
    tool("listInvoices", description="All open invoices of a customer"),
    tool("set_thermostat", description="Warmer or colder", metadata=Metadata(tags=("weather", "home"))),
)


def entries(*tools: Tool) -> tuple[Entry, ...]:
    return merge([listing("acme", *tools)], {}, ()).entries


def index_of(*tools: Tool) -> Index:
    return Index().following(removed=(), added=entries(*tools))


@pytest.fixture(scope="module")
def index() -> Index:
    return index_of(*TOOLS)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("get_weather", ["get_weather", "get_weather_forecast"]),
        ("get weather", ["get_weather", "get_weather_forecast"]),
        ("GET-WEATHER", ["get_weather", "get_weather_forecast"]),
        ("forecast", ["get_weather_forecast"]),
        ("meteorology", ["get_weather_forecast"]),
        ("meteo", ["get_weather_forecast"]),
        ("email", ["sendEmail"]),
        ("emails", ["sendEmail"]),
        ("sendemail", ["sendEmail"]),
        ("send_email", ["sendEmail"]),
        ("sendEmail", ["sendEmail"]),
        ("invoice", ["listInvoices"]),
        ("passenger", ["book_flight"]),
        ("customer", ["listInvoices"]),
        ("thermosat", ["set_thermostat"]),
        ("fligth", ["book_flight"]),
        ("nonsense", []),
        ("???", []),
    ],
)
def test_a_tool_is_found_by_its_words(index: Index, query: str, found: list[str]) -> None:
    assert index.find(query, limit=10)[: len(found) or 10] == found


def test_a_word_counts_more_in_the_name_than_in_a_tag_than_in_the_description(index: Index) -> None:
    assert index.find("weather", limit=10) == [
        "get_weather",
        "get_weather_forecast",
        "set_thermostat",
        "sendEmail",
    ]


def test_a_tool_with_more_of_the_words_comes_first(index: Index) -> None:
    assert index.find("weather thermostat", limit=1) == ["set_thermostat"]
    assert index.find("the travel flight of a passenger", limit=2)[0] == "book_flight"


def test_two_words_that_fit_count_more_than_a_rare_one() -> None:
    index = index_of(tool("zebra"), *(tool(f"weather_report_{number}") for number in range(5)))
    assert index.find("zebra weather report", limit=6)[-1] == "zebra"


def test_the_tool_that_is_called_like_the_query_is_first() -> None:
    long = tool("note_note_note", metadata=Metadata(tags=("note",)), description="note", category="note")
    assert index_of(tool("note"), long).find("note", limit=1) == ["note"]


def test_ties_go_by_name() -> None:
    assert index_of(*(tool(f"{letter}_thing") for letter in "cabd")).find("thing", limit=3) == [
        "a_thing",
        "b_thing",
        "c_thing",
    ]


def test_no_more_than_the_limit_is_returned(index: Index) -> None:
    assert len(index.find("weather", limit=2)) == 2


def test_an_index_follows_changes_and_stays_what_it_was(index: Index) -> None:
    [old] = entries(TOOLS[4])
    [new] = entries(tool("listInvoices", description="Bills"))
    after = index.following(removed=[old], added=[new])
    assert after.find("customer", limit=5) == []
    assert after.find("bill", limit=5) == ["listInvoices"]
    assert index.find("customer", limit=5) == ["listInvoices"]
    gone = after.following(removed=[new], added=[])
    assert gone.find("invoice", limit=5) == []
    assert gone.following(removed=(), added=()) is gone


def test_an_absurd_query_is_answered(index: Index) -> None:
    assert index.find("weather " * 100_000, limit=1) == ["get_weather"]
    assert index.find("x" * 1_000_000, limit=1) == []


words = st.sampled_from(["weather", "get", "city", "tool", "mail", "flight", "set"])
some_tools = st.lists(
    st.builds(
        lambda name, text: tool("_".join(name), description=" ".join(text)),
        st.lists(words, min_size=1, max_size=3),
        st.lists(words, max_size=4),
    ),
    max_size=12,
)


@given(some_tools, some_tools, st.lists(words, max_size=3))
def test_an_index_that_followed_finds_what_a_fresh_one_finds(
    before: list[Tool], now: list[Tool], query: list[str]
) -> None:
    old, new = entries(*before), entries(*now)
    followed = Index().following(removed=(), added=old).following(removed=old, added=new)
    fresh = Index().following(removed=(), added=new)
    assert followed.find(" ".join(query), limit=50) == fresh.find(" ".join(query), limit=50)


@given(some_tools, st.text(max_size=20) | words, st.sampled_from(["get*", "*weather*", "nothing", "*"]))
def test_a_search_finds_only_what_the_view_has(tools: list[Tool], query: str, limit: str) -> None:
    catalog = Catalog()
    catalog.update([listing("acme", *tools)])
    view = catalog.view(key("call", tools=(limit,)))
    assert {entry.name for entry in view.search(query, limit=50)} <= {entry.name for entry in view.entries}


def test_a_limited_view_is_searched_in_full_although_others_have_the_rarer_word() -> None:
    many = [tool(f"get_{number}", description="common") for number in range(2_000)]
    index = index_of(tool("rare_one"), *many)
    assert index.find("rare get", limit=5, among={"get_7"}) == ["get_7"]


def test_ten_thousand_tools_are_searched() -> None:
    chosen = random.Random(7)
    vocabulary = ["weather", "invoice", "user", *(f"word{number}" for number in range(500))]
    many = [
        tool(f"get_{chosen.choice(vocabulary)}_{number}", description=" ".join(chosen.choices(vocabulary, k=20)))
        for number in range(10_000)
    ]
    index = index_of(*many)
    for query in ("weather", "get weather", "get user invoice", "wea", "wether", "get", "word12 user", "get_user_77"):
        assert index.find(query, limit=20)
