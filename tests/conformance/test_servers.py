"""The comparison of what a client sees of a server with what it sees through the gateway."""

import pytest

from conformance.servers.differences import Difference, Expected, Mask, differences, unexpected

NEW = "2026-07-28"


def paths(direct: object, through: object, *masks: Mask) -> list[str]:
    return [difference.path for difference in differences(direct, through, masks=masks)]


def test_the_same_is_the_same_in_any_order() -> None:
    assert paths({"a": [1, {"b": None}], "c": 1}, {"c": 1.0, "a": [1, {"b": None}]}) == []


@pytest.mark.parametrize(
    ("direct", "through", "path"),
    [
        ({"a": {"b": 1}}, {"a": {}}, "a.b"),
        ({"a": {}}, {"a": {"b": 1}}, "a.b"),
        ({"a": [1, 2]}, {"a": [1]}, "a[1]"),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}]}, "a[0].b"),
        ({"a": 1}, {"a": True}, "a"),
        ({"a": []}, {"a": {}}, "a"),
        ({"a": "1"}, {"a": 1}, "a"),
        ({"_meta": {"theirs": 1}}, {}, "_meta"),
    ],
)
def test_every_difference_is_told_as_a_path(direct: object, through: object, path: str) -> None:
    assert paths(direct, through) == [path]


def test_what_a_gateway_adds_and_what_is_the_default_is_no_difference() -> None:
    ours = {"jackfield/callId": "call_1", "io.modelcontextprotocol/serverInfo": {"name": "jackfield"}}
    through = {"content": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": ours}
    assert paths({"content": [], "isError": False}, through) == []
    assert paths({"_meta": {"a": 1}}, {"_meta": {"a": 1, **ours}}) == []
    assert paths({"isError": True}, {}) == ["isError"]


def test_what_differs_each_time_is_masked_on_both_sides() -> None:
    clock = Mask(r"\d\d:\d\d", "(time)", "It says what time it is.")
    assert paths({"a": ["It is 10:15"]}, {"a": ["It is 10:16"]}, clock) == []
    assert paths({"a": ["It is 10:15"]}, {"a": ["It was 10:16"]}, clock) == ["a[0]"]


def test_a_difference_that_is_meant_has_a_pattern_and_one_that_is_gone_must_go() -> None:
    found = [Difference("call a.error", 1, 2), Difference("call b.error", 1, 2)]
    meant = (Expected(r"call a\..*", "why"), Expected("call c", "why"), Expected("call d", "why", "2025-11-25"))
    rest, stale = unexpected(found, meant, revision=NEW)
    assert [one.path for one in rest] == ["call b.error"]
    assert [one.path for one in stale] == ["call c"]


def test_a_difference_is_shown_in_a_line_of_bounded_length() -> None:
    (gone,) = differences({"a": "x" * 1_000}, {})
    assert str(gone).startswith("a: 'xxx")
    assert str(gone).endswith("became (nothing)")
    assert len(str(gone)) < 300
