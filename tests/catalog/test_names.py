"""Public names: legal, unique, stable, and both owners of a name reachable."""

import re
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.names import MAX_NAME, PATH_WORDS, KeptName, legal, mcp_name, public_names, shown
from jackfield.model.tool import BUILTIN_NAMES
from tests.requirement import requirement

LEGAL = re.compile(r"[a-zA-Z0-9_]{1,64}")


def test_a_legal_name_stays_as_it_is() -> None:
    naming = public_names([("acme", ["get_weather", "x" * 64, "_private", "9lives"])])
    assert {foreign: name for (_, foreign), name in naming.names.items()} == {
        "get_weather": "get_weather",
        "x" * 64: "x" * 64,
        "_private": "_private",
        "9lives": "9lives",
    }
    assert naming.notices == ()


@requirement("DISC-tool-name-charset")
def test_other_characters_become_underscores_and_the_rest_is_untouched() -> None:
    naming = public_names([("acme", ["get-weather", "weather/now", "plain"])])
    assert naming.names == {
        ("acme", "get-weather"): "get_weather",
        ("acme", "weather/now"): "weather_now",
        ("acme", "plain"): "plain",
    }


def test_a_long_name_ends_in_a_hash_of_the_whole_of_it() -> None:
    first, second = legal("x" * 70 + "a"), legal("x" * 70 + "b")
    assert first == "x" * 55 + "_6e42a575"
    assert len(second) == MAX_NAME
    assert first != second


@pytest.mark.parametrize("name", ["", "_", "____", "天気", "---", "\ud800"])
def test_a_name_that_says_nothing_is_named_after_its_hash(name: str) -> None:
    assert re.fullmatch(r"tool_[0-9a-f]{8}", legal(name))
    naming = public_names([("acme", [name])])
    assert naming.names == {("acme", name): legal(name)}
    assert [notice.sources for notice in naming.notices] == [("acme",)]


@requirement("CON-names-collision")
def test_the_first_source_keeps_a_name_and_the_later_one_carries_its_source() -> None:
    naming = public_names([("acme", ["weather"]), ("local", ["weather", "other"])])
    assert naming.names == {
        ("acme", "weather"): "weather",
        ("local", "weather"): "local_weather",
        ("local", "other"): "other",
    }
    [notice] = naming.notices
    assert notice.public_name == "local_weather"
    assert notice.sources == ("acme", "local")
    assert notice.message == (
        "Tool 'weather' is offered by both 'acme' and 'local'. 'acme' keeps the name; "
        "the other is 'local_weather'. Set a prefix on one of them."
    )


@requirement("CON-names-collision")
@pytest.mark.parametrize("word", sorted(PATH_WORDS))
def test_a_tool_called_like_a_path_word_carries_its_source(word: str) -> None:
    naming = public_names([("acme", [word])])
    assert naming.names == {("acme", word): f"acme_{word}"}
    [notice] = naming.notices
    assert f"'acme_{word}'" in notice.message
    assert notice.sources == ("acme",)


@pytest.mark.parametrize("offers", [[("acme", ["send_message"])], [("acme", ["send-message"])]])
def test_a_built_in_name_is_never_given_to_another_source(offers: list[tuple[str, list[str]]]) -> None:
    naming = public_names(offers)
    assert list(naming.names.values()) == [legal(f"acme_{offers[0][1][0]}")]
    assert naming.notices[0].sources == ("builtin", "acme")


def test_a_built_in_keeps_its_name_although_its_source_comes_last() -> None:
    naming = public_names([("acme", ["skip"]), ("builtin", ["skip"])])
    assert naming.names == {("acme", "skip"): "acme_skip", ("builtin", "skip"): "skip"}


def test_a_derived_name_does_not_land_on_a_built_in() -> None:
    naming = public_names([("acme", ["message"]), ("send", ["message"])])
    assert naming.names["send", "message"] not in BUILTIN_NAMES
    assert naming.names["send", "message"].startswith("send_message_")


def test_inside_one_source_the_exact_spelling_keeps_the_name() -> None:
    naming = public_names([("acme", ["a-b", "a_b", "a.b"])])
    assert naming.names["acme", "a_b"] == "a_b"
    assert naming.names["acme", "a-b"] == "acme_a_b"
    assert naming.names["acme", "a.b"].startswith("acme_a_b_")
    assert "Tools 'a_b' and 'a-b' of 'acme' would both be 'a_b'." in naming.notices[0].message


def test_a_tools_own_name_comes_before_a_derived_one() -> None:
    naming = public_names([("acme", ["weather"]), ("local", ["weather"]), ("third", ["local_weather"])])
    assert naming.names["third", "local_weather"] == "local_weather"
    assert re.fullmatch(r"local_weather_[0-9a-f]{8}", naming.names["local", "weather"])


def test_the_order_in_which_a_source_lists_its_tools_changes_no_name() -> None:
    names = ["a-b", "a_b", "a.b", "a b"]
    namings = [public_names([("acme", order)]).names for order in permutations(names)]
    assert all(naming == namings[0] for naming in namings)


def test_a_prefix_stands_before_every_name_of_its_source() -> None:
    naming = public_names([("acme", ["weather"]), ("git-hub", ["weather"])], prefixes={"git-hub": "gh_"})
    assert naming.names == {("acme", "weather"): "weather", ("git-hub", "weather"): "gh_weather"}
    assert naming.notices == ()


def test_a_source_with_a_dash_gives_a_legal_derived_name() -> None:
    naming = public_names([("acme", ["weather"]), ("my-src", ["weather"]), ("my_src", ["weather"])])
    assert naming.names["my-src", "weather"] == "my_src_weather"
    assert naming.names["my_src", "weather"].startswith("my_src_weather_")


def test_a_foreign_name_cannot_break_a_sentence() -> None:
    assert shown("a\nb\u202ec\ud800") == "a�b�c�"
    assert shown("x" * 200) == "x" * 80 + "…"


def had(name: str, wish: str | None = None, *, foreign: bool = True) -> KeptName:
    return KeptName(name=name, wish=wish or name, is_foreign=foreign)


@requirement("SAFE-own-names-first")
def test_an_own_tool_has_its_name_before_a_foreign_one_whatever_the_order_and_whoever_had_it() -> None:
    offers = [("acme", ["pay"]), ("local", ["pay"])]
    for kept in ({}, {("acme", "pay"): had("pay")}):
        naming = public_names(offers, foreign={("acme", "pay")}, kept=kept)
        assert naming.names == {("local", "pay"): "pay", ("acme", "pay"): "acme_pay"}
    assert public_names(offers, foreign={("acme", "pay")}).refused == {("acme", "pay"): ("local", "pay")}


@requirement("SAFE-names-stay")
def test_a_name_that_a_tool_has_had_stays_its_own_and_is_kept_for_it_while_it_is_away() -> None:
    a, b, own = ("a", "x"), ("b", "x"), ("own", "x")
    kept = {b: had("x")}
    assert public_names([("a", ["x"]), ("b", ["x"])], foreign={a, b}, kept=kept).names == {a: "a_x", b: "x"}
    alone = public_names([("a", ["x"]), ("b", [])], foreign={a}, kept=kept)
    assert (alone.names, alone.refused) == ({a: "a_x"}, {a: b})
    assert public_names([("own", ["x"])], kept=kept).names == {own: "x"}  # what a stranger had does not hold us up
    away = {own: had("x", foreign=False)}
    assert public_names([("a", ["x"]), ("other", ["x"])], foreign={a}, kept=away).names == {
        a: "a_x",
        ("other", "x"): "other_x",
    }


@requirement("SAFE-names-stay")
def test_a_derived_name_stays_with_a_foreign_tool_and_an_own_one_gets_its_own_back() -> None:
    a, own = ("a", "x"), ("own", "x")
    kept = {a: had("a_x", "x"), own: had("own_x", "x", foreign=False)}
    assert public_names([("a", ["x"])], foreign={a}, kept=kept).names == {a: "a_x"}
    assert public_names([("own", ["x"])], kept=kept).names == {own: "x"}
    renamed = public_names([("a", ["x"])], prefixes={"a": "p_"}, foreign={a}, kept=kept)
    assert renamed.names == {a: "p_x"}


@pytest.mark.parametrize(
    ("name", "source", "spelled", "listed"),
    [
        ("a_b", "acme", "a-b", "a-b"),
        ("acme_a_b", "acme", "a-b", "acme_a-b"),
        ("a_b_c", "acme", "a.b-c", "a_b-c"),
        ("my_src_a", "my-src", "a", "my-src_a"),
        ("a_b", "acme", "a_b", "a_b"),
        ("acme_a_b_12345678", "acme", "a-b", "acme_a_b_12345678"),
    ],
)
@requirement("CON-mcp-dash-names")
def test_mcp_lists_a_name_with_its_dashes(name: str, source: str, spelled: str, listed: str) -> None:
    assert mcp_name(name, source=source, spelled=spelled) == listed


sources = st.sampled_from(["builtin", "acme", "local", "my-src", "my_src", "send", "a"])
foreign_names = st.one_of(
    st.text(max_size=80),
    st.sampled_from([*PATH_WORDS, *BUILTIN_NAMES, "weather", "local_weather", "a_weather", "a-b", "a_b", "message"]),
)
offers_of_sources = st.dictionaries(sources, st.lists(foreign_names, max_size=8), max_size=5)


@given(offers_of_sources, st.sets(sources), st.lists(st.tuples(sources, foreign_names), max_size=6))
def test_names_are_always_legal_unique_and_complete(
    offers: dict[str, list[str]], strangers: set[str], before: list[tuple[str, str]]
) -> None:
    earlier: dict[str, list[str]] = {}
    for source, foreign in before:
        earlier.setdefault(source, []).append(foreign)
    was = public_names(list(earlier.items()))
    kept = {
        one: KeptName(name=name, wish=was.wishes[one], is_foreign=one[0] in strangers)
        for one, name in was.names.items()
    }
    foreign_ones = {(source, one) for source, ones in offers.items() for one in ones if source in strangers}
    naming = public_names(list(offers.items()), foreign=foreign_ones, kept=kept)
    names = list(naming.names.values())
    assert set(naming.names) == {(source, foreign) for source, names in offers.items() for foreign in names}
    assert len(set(names)) == len(names)
    assert all(LEGAL.fullmatch(name) for name in names)
    assert not PATH_WORDS & set(names)
    assert all(source == "builtin" for (source, _), name in naming.names.items() if name in BUILTIN_NAMES)


@given(offers_of_sources)
def test_every_name_that_changed_its_meaning_is_told(offers: dict[str, list[str]]) -> None:
    naming = public_names(list(offers.items()))
    renamed = {name for (_, foreign), name in naming.names.items() if name != legal(foreign)}
    assert renamed <= {notice.public_name for notice in naming.notices}


@given(offers_of_sources, st.randoms(use_true_random=False))
def test_names_do_not_depend_on_the_order_inside_a_source(offers: dict[str, list[str]], random: Random) -> None:
    shuffled = {source: random.sample(names, len(names)) for source, names in offers.items()}
    assert public_names(list(offers.items())).names == public_names(list(shuffled.items())).names
