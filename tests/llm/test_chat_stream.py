"""A server's bytes as deltas: the same however they are cut, and whatever the server's habits."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.llm.chat_stream import MAX_LINE, BrokenStream, ChatStream
from jackfield.llm.types import CallArguments, CallBegun, Delta, ReasoningDelta, StepEnd, TextDelta
from tests.llm.chat_server import DONE, END, ROLE, USAGE, call, chunk, event, events, text

LONG = (
    b": keep-alive\r\n\r\nevent: message\nid: 7\ndata:\n\n"
    + events(ROLE, chunk({"reasoning_content": "Grüße 🌍"}), text("Zwölf "), done=False)
    + b'data:{"choices":[{"delta":{"content":"no space"}}]}\r\n\r\n'
    + b'data: {"choices":\ndata: [{"delta":{"content":"two lines"}}]}\n\n'
    + b'data: {"choices":[{"delta":{"content":"no blank line"}}]}\n'
    + events(
        call(0, id="a", name="add", arguments='{"x"'),
        call(1, id="b", name="now"),
        call(0, arguments=": 1}"),
        chunk(finish="tool_calls"),
        USAGE,
    )
    + b"data: never read\n\n"
)


def read(parts: Iterable[bytes]) -> list[Delta]:
    stream = ChatStream()
    deltas = [delta for part in parts for delta in stream.feed(part)]
    return deltas + stream.end()


def read_calls(*pieces: object) -> list[Delta]:
    deltas = read([events(*pieces, chunk(finish="tool_calls"))])
    assert deltas.pop() == StepEnd("tool_calls", None)
    return deltas


EXPECTED = read([LONG])


def test_one_stream_with_every_habit_is_read_whole() -> None:
    assert EXPECTED[:-1] == [
        ReasoningDelta("Grüße 🌍"),
        TextDelta("Zwölf "),
        TextDelta("no space"),
        TextDelta("two lines"),
        TextDelta("no blank line"),
        CallBegun(0, "a", "add"),
        CallArguments(0, '{"x"'),
        CallBegun(1, "b", "now"),
        CallArguments(0, ": 1}"),
        CallArguments(1, "{}"),
    ]
    end = EXPECTED[-1]
    assert isinstance(end, StepEnd)
    assert end.usage is not None
    assert end.usage.total_tokens == 17


@given(st.lists(st.integers(0, len(LONG)), max_size=40))
def test_however_the_bytes_are_cut_the_deltas_are_the_same(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(LONG)]
    assert read(LONG[start:end] for start, end in pairwise(edges)) == EXPECTED


def test_byte_by_byte_it_is_the_same() -> None:
    assert read(bytes([byte]) for byte in LONG) == EXPECTED


def test_calls_whole_in_one_chunk_with_one_index_for_all_are_two_calls() -> None:
    assert read_calls(
        call(0, id="a", name="add", arguments='{"x": 1}'), call(0, id="b", name="add", arguments='{"x": 2}')
    ) == [
        CallBegun(0, "a", "add"),
        CallArguments(0, '{"x": 1}'),
        CallBegun(1, "b", "add"),
        CallArguments(1, '{"x": 2}'),
    ]


def test_calls_without_an_index_go_by_id_or_by_order() -> None:
    assert read_calls(
        call(id="a", name="add", arguments='{"x"'),
        call(arguments=": 1}"),
        call(id="b", name="now", arguments="{"),
        call(id="a", arguments=" "),
        call(id="b", arguments="}"),
    ) == [
        CallBegun(0, "a", "add"),
        CallArguments(0, '{"x"'),
        CallArguments(0, ": 1}"),
        CallBegun(1, "b", "now"),
        CallArguments(1, "{"),
        CallArguments(0, " "),
        CallArguments(1, "}"),
    ]


def test_a_name_in_every_chunk_is_said_once_and_odd_indices_are_counted_anew() -> None:
    assert read_calls(
        call(5, id="a", name="add", arguments="{"),
        call(5, id="a", name="add", arguments="}"),
        call(9, id="b", name="now"),
    ) == [
        CallBegun(0, "a", "add"),
        CallArguments(0, "{"),
        CallArguments(0, "}"),
        CallBegun(1, "b", "now"),
        CallArguments(1, "{}"),
    ]


def test_arguments_before_the_name_are_kept_for_it() -> None:
    assert read_calls(call(0, id="a", arguments="{"), call(0, name="add"), call(0, arguments="}")) == [
        CallBegun(0, "a", "add"),
        CallArguments(0, "{"),
        CallArguments(0, "}"),
    ]


def test_calls_without_an_id_or_with_one_id_for_two_get_ids_of_their_own() -> None:
    begun = [
        delta
        for delta in read_calls(
            call(0, name="x"), call(1, id="", name="x"), call(2, id="s", name="x"), call(3, id="s", name="x")
        )
        if isinstance(delta, CallBegun)
    ]
    assert [call.index for call in begun] == [0, 1, 2, 3]
    assert len({call.call_id for call in begun}) == 4
    assert begun[2].call_id == "s"
    assert all(call.call_id for call in begun)


def test_arguments_that_are_an_object_become_text() -> None:
    assert read_calls(call(0, id="a", name="add", arguments={"x": 1})) == [
        CallBegun(0, "a", "add"),
        CallArguments(0, '{"x":1}'),
    ]


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("function_call", "tool_calls"),
        ("eos", "stop"),
    ],
)
def test_why_it_ended_is_told(said: str, finish: str) -> None:
    assert read([events(text("a"), chunk(finish=said))])[-1] == StepEnd(finish, None)  # type: ignore[arg-type]


def test_a_server_that_calls_and_says_stop_has_called() -> None:
    assert read([events(call(0, id="a", name="now"), END)])[-1] == StepEnd("tool_calls", None)


def test_a_limit_reached_within_a_call_is_told_as_that() -> None:
    deltas = read([events(call(0, id="a", name="now", arguments='{"x'), chunk(finish="length"))])
    assert deltas[1:] == [CallArguments(0, '{"x'), StepEnd("length", None)]


def test_done_alone_ends_an_answer() -> None:
    assert read([event(text("a")), DONE]) == [TextDelta("a"), StepEnd("stop", None)]


def test_logprobs_come_with_their_text() -> None:
    odds = [{"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}]
    choice = {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": odds}}
    assert read([events({"choices": [choice]})])[0] == TextDelta("a", tuple(odds))


def test_null_where_something_could_be_is_nothing() -> None:
    odd = {"choices": None, "usage": None, "error": None}
    empty = {"content": None, "reasoning": None, "tool_calls": None, "refusal": None}
    assert read([events(odd, chunk(empty), {"choices": []}, {}, END)]) == [StepEnd("stop", None)]


def test_an_event_without_end_is_not_kept_for_ever() -> None:
    stream = ChatStream()
    with pytest.raises(BrokenStream, match="more than"):
        stream.feed(b"data: " + b"x" * (MAX_LINE + 1))
