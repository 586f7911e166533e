"""Lines come out the same, however the bytes are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.lines import TOO_LONG, LineSplitter, TooLong

LIMIT = 10


@given(
    lines=st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line), max_size=8),
    rest=st.binary(max_size=10).filter(lambda rest: b"\n" not in rest),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_lines_are_whole_however_they_are_cut(lines: list[bytes], rest: bytes, cuts: list[int]) -> None:
    whole = b"".join(line + b"\n" for line in lines) + rest
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    splitter = LineSplitter(limit=LIMIT)
    found: list[bytes | TooLong] = []
    for start, end in itertools.pairwise(places):
        found += splitter.feed(whole[start:end])
    assert found == [line if len(line) <= LIMIT else TOO_LONG for line in lines]
    assert splitter.partial == rest


@pytest.mark.parametrize(
    "chunks", [[b"12345678901\nx\n"], [b"1234567", b"8901234", b"5\nx\n"], [b"12345678901", b"\n", b"x\n"]]
)
def test_a_line_beyond_the_limit_is_skipped_to_its_end(chunks: list[bytes]) -> None:
    splitter = LineSplitter(limit=LIMIT)
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == [TOO_LONG, b"x"]


def test_nothing_comes_of_nothing() -> None:
    assert LineSplitter(limit=LIMIT).feed(b"") == []
