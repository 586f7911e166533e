"""Patterns that name tools."""

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.catalog.globs import Patterns, check_bounds
from jackfield.errors import BadRequest
from tests.requirement import requirement


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("weather", True),
        ("weath", False),
        ("weather_now", False),
        ("wea*", True),
        ("*", True),
        ("w?ather", True),
        ("Weather", False),
        ("acme:*", True),
        ("acme:wea*", True),
        ("acme:the-weather", True),
        ("acme:other*", False),
        ("local:*", False),
        (":weather", False),
        ("the-weather", False),
    ],
)
def test_a_pattern_means_public_names_or_a_sources_own(*, pattern: str, matches: bool) -> None:
    assert Patterns([pattern]).match("weather", source="acme", foreign="the-weather") is matches


def test_a_list_matches_what_any_of_it_matches() -> None:
    patterns = Patterns(["get_*", "acme:list*", "acme:drop"])
    assert patterns.match("get_x", source="local", foreign="get_x")
    assert patterns.match("drop", source="acme", foreign="drop")
    assert not patterns.match("drop", source="local", foreign="drop")


def test_an_empty_list_matches_nothing() -> None:
    assert not Patterns([]).match("weather", source="acme", foreign="weather")


def test_another_source_cannot_slip_its_tool_into_a_plain_name() -> None:
    assert not Patterns(["weather"]).match("local_weather", source="local", foreign="weather")


@given(
    glob=st.text(alphabet="ab*", max_size=8),
    name=st.text(alphabet="ab", max_size=10),
)
def test_a_star_means_what_it_means_to_a_shell(glob: str, name: str) -> None:
    assert Patterns([glob]).match(name, source="", foreign=name) is fnmatchcase(name, glob)


@requirement("SAFE-globs-bounded")
@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        (["x"] * 501, "'tools' has 501 names; 500 are allowed."),
        (["*a" * 126] * 4, "'tools' has more than 500 '*'."),
        (["x" * 257], "A name in 'tools' has more than the 256 characters allowed."),
        ([f"[ab]?{number}" for number in range(21)], "'tools' has more than 20 globs with '?' or '[…]'."),
    ],
)
def test_a_request_brings_a_bounded_list(patterns: list[str], said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_bounds(patterns, param="tools")
    assert refused.value.message.startswith(said)
    assert refused.value.param == "tools"


@requirement("SAFE-globs-bounded")
def test_the_largest_list_that_is_taken_is_matched_soon() -> None:
    """A regex that goes back would take years for one of these."""
    stars = ["*a" * 20 + "b" + str(number) for number in range(20)]
    classes = ["*[ab]" * 5 + "x"] * 20
    check_bounds([*stars, *classes], param="tools")
    patterns = Patterns([*stars, *classes])
    began = time.process_time()
    for _ in range(100):
        assert not patterns.match("a" * 64, source="s", foreign="a" * 64)
    assert time.process_time() - began < 5
