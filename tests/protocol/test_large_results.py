"""What is told of a large result, and how it is cut into pages."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from jackfield.model.call import Done, Failed, done
from jackfield.protocol.large_results import (
    SMALLEST_PAGE,
    ResultPage,
    cut,
    is_large,
    may_be_notice,
    page_of,
    set_aside,
    window,
)

LIMIT = 1_000


def page(body: bytes, offset: int, limit: int) -> ResultPage:
    first, count = window(offset, limit)
    part = body[first : first + count]
    return page_of(part, call_id="call_1", digest="", size=len(body), offset=offset, limit=limit)


@given(st.text(), st.integers(SMALLEST_PAGE, 50))
def test_pages_that_follow_each_other_give_the_whole(text: str, limit: int) -> None:
    body = json.dumps(text, ensure_ascii=False).encode("utf-8", "ignore")
    offset: int | None = 0
    read = []
    while offset is not None:
        one = page(body, offset, limit)
        assert one.offset == offset
        assert len(one.text.encode()) <= limit
        read.append(one.text)
        offset = one.next_offset
    assert "".join(read).encode() == body


@given(st.text(alphabet="aü€😀"), st.integers(SMALLEST_PAGE, 20))
def test_pages_at_equal_distances_fit_together_wherever_they_cut(text: str, limit: int) -> None:
    body = text.encode()
    assert "".join(page(body, offset, limit).text for offset in range(0, len(body) + 1, limit)) == text


def test_a_page_within_a_character_begins_at_it() -> None:
    body = "a😀b".encode()
    assert [page(body, offset, 4).offset for offset in range(7)] == [0, 1, 1, 1, 1, 5, 6]
    assert page(body, 3, 4).text == "😀b"
    assert page(body, 0, 4).text == "a"
    assert page(body, 6, 4) == ResultPage(call_id="call_1", digest="", size=6, offset=6, next_offset=None, text="")


def test_a_cut_ends_before_a_character_that_does_not_fit() -> None:
    assert cut("aü".encode(), start=0, first=0, count=2) == (0, "a")
    assert cut("aü".encode(), start=0, first=0, count=3) == (0, "aü")


@pytest.mark.parametrize(
    ("outcome", "limit", "large"),
    [
        (Done(Raw(b"12345")), 5, False),
        (Done(Raw(b"12345")), 4, True),
        (Done(Raw(b"12345")), 0, False),
        (Failed("x", "short", Raw(b"12345")), 4, True),
        (Failed("x", "a long message", Raw(b"1")), 4, False),
        (Failed("x", "a long message"), 4, True),
        (Failed("x", "a long message"), 0, False),
    ],
)
def test_large_is_what_has_more_bytes_than_the_limit_and_nothing_without_one(
    outcome: Done | Failed, limit: int, *, large: bool
) -> None:
    assert is_large(outcome, limit) is large


def test_a_notice_says_what_is_there_and_how_to_read_it() -> None:
    value = "ü" * 2_000
    told, large = set_aside(done(value), "call_1", limit=LIMIT)
    body = json.dumps(value, ensure_ascii=False).encode()
    assert (large.call_id, large.body) == ("call_1", body)
    assert isinstance(told, Done)
    assert may_be_notice(told.result, "call_1")
    assert not may_be_notice(told.result, "call_2")
    notice = json.loads(bytes(told.result))
    message = notice.pop("message")
    assert notice == {
        "large_result": True,
        "call_id": "call_1",
        "size": 4_002,
        "digest": f"sha256:{hashlib.sha256(body).hexdigest()}",
        "preview": '"' + "ü" * 499,
        "url": "/api/v1/calls/call_1/result",
    }
    assert "4002 bytes" in message
    assert "GET /api/v1/calls/call_1/result?offset=0" in message


def test_a_failure_of_too_many_words_keeps_them_and_tells_their_beginning() -> None:
    told, large = set_aside(Failed("tool_error", "no " * 1_000), "call_1", limit=LIMIT)
    assert json.loads(large.body) == {"error": "no " * 1_000, "toolCallId": "call_1"}
    assert isinstance(told, Failed)
    assert (told.code, told.message) == ("tool_error", ("no " * 1_000)[:1_000] + "…")
    assert may_be_notice(told.result, "call_1")


def test_a_failure_with_a_large_result_keeps_its_words() -> None:
    told, large = set_aside(Failed("http_error", "HTTP 500", Raw(b'"' + b"x" * 2_000 + b'"')), "call_1", limit=LIMIT)
    assert json.loads(large.body) == "x" * 2_000
    assert isinstance(told, Failed)
    assert told.message == "HTTP 500"
