from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.sse import EventParser, ServerEvent

LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)


def parse(stream: bytes) -> list[ServerEvent]:
    return EventParser().feed(stream)


def parse_in_pieces(stream: bytes, cuts: list[int]) -> list[ServerEvent]:
    parser = EventParser()
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [event for start, end in pairwise(edges) for event in parser.feed(stream[start:end])]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_ends_a_line(end: str) -> None:
    assert parse(f"event: a{end}data: 1{end}data: 2{end}{end}".encode()) == [ServerEvent("a", "1\n2")]


def test_several_data_lines_are_one_text_and_one_leading_space_is_not_data() -> None:
    assert parse(b"data:one\ndata:  two\ndata\n\n") == [ServerEvent("message", "one\n two\n")]


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert parse(b": ping\n\nwhatever: x\n: more\ndata: 1\n\n") == [ServerEvent("message", "1")]


def test_an_event_without_data_is_none_and_its_type_is_forgotten() -> None:
    assert parse(b"event: a\n\ndata: 1\n\n") == [ServerEvent("message", "1")]


def test_an_id_stays_until_the_next_one_and_one_with_a_nul_is_ignored() -> None:
    parser = EventParser()
    events = parser.feed(b"id: 7\ndata: a\n\ndata: b\n\nid: x\0\ndata: c\n\nid\ndata: d\n\n")
    assert [event.id for event in events] == ["7", "7", "7", ""]


def test_the_last_id_counts_only_once_its_event_is_complete() -> None:
    parser = EventParser()
    parser.feed(b"id: 1\ndata: a\n\nid: 2\ndata: half")
    assert parser.last_id == "1"


def test_retry_takes_digits_only() -> None:
    parser = EventParser()
    parser.feed("retry: 250\nretry: soon\nretry: -1\nretry: ٣\n".encode())
    assert parser.retry_ms == 250


def test_a_byte_order_mark_is_no_part_of_the_first_field() -> None:
    assert parse(b"\xef\xbb\xbfdata: 1\n\n") == [ServerEvent("message", "1")]
    assert parse_in_pieces(b"\xef\xbb\xbfdata: 1\n\n", [1, 2]) == [ServerEvent("message", "1")]


def test_an_event_is_given_as_soon_as_its_blank_line_has_come() -> None:
    parser = EventParser()
    assert parser.feed(b"data: 1\r\n\r") == [ServerEvent("message", "1")]
    assert parser.feed(b"\ndata: 2\r\n\r\n") == [ServerEvent("message", "2")]


def test_what_a_broken_stream_left_half_said_is_dropped_and_the_id_kept() -> None:
    parser = EventParser()
    parser.feed(b"id: 1\ndata: a\n\nid: 2\nevent: b\ndata: ha")
    parser.restart()
    assert parser.feed(b"data: c\n\n") == [ServerEvent("message", "c", "1")]


def test_a_long_line_in_many_chunks_is_read_in_linear_time() -> None:
    parser = EventParser()
    events = [event for _ in range(4_000) for event in parser.feed(b"data: " if not parser._rest else b"x" * 8_000)]
    events += parser.feed(b"\n\n")
    assert [len(event.data) for event in events] == [3_999 * 8_000]


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=8))
def test_the_cut_of_the_chunks_changes_nothing_whatever_the_bytes(stream: bytes, cuts: list[int]) -> None:
    assert parse_in_pieces(stream, cuts) == parse(stream)


@given(
    st.lists(st.text(st.sampled_from("dataeventid:retry \r\n1é\0\ufeff"), max_size=30).map(str.encode), max_size=6).map(
        b"".join
    ),
    st.lists(st.integers(0, 300), max_size=12),
)
def test_the_cut_of_the_chunks_changes_nothing_for_what_looks_like_events(stream: bytes, cuts: list[int]) -> None:
    assert parse_in_pieces(stream, cuts) == parse(stream)


@given(
    st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3), st.booleans()), max_size=5),
    st.data(),
)
def test_what_a_server_writes_is_what_comes_out(events: list[tuple[str, list[str], bool]], data: st.DataObject) -> None:
    stream = ""
    for name, lines, with_comment in events:
        end = data.draw(LINE_ENDS)
        stream += f": note{end}" if with_comment else ""
        stream += f"event: {name}{end}" + "".join(f"data: {line}{end}" for line in lines) + end
    cuts = data.draw(st.lists(st.integers(0, 500), max_size=8))
    expected = [ServerEvent(name or "message", "\n".join(lines)) for name, lines, _ in events]
    assert parse_in_pieces(stream.encode(), cuts) == expected
