"""Patterns that name tools."""

import pytest

from jackfield.catalog.globs import Patterns


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
