"""What an agent keeps of its past: the newest word by word, the older in summary, never more than it has room for."""

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from jackfield.agents.context import (
    CHARACTERS_PER_TOKEN,
    SUMMARY_CHARACTERS,
    AgentContext,
    PastCycle,
    decode_context,
    encode_context,
    summary_of,
    tokens_of,
    with_cycle,
)
from jackfield.model.items import FunctionCall, FunctionCallOutput, InputText, Item, Message, OutputText, text_of

ROOM = 1_000


def inbox(text: str) -> Message:
    return Message(role="user", content=(InputText(text=text),))


def said(text: str) -> Message:
    return Message(role="assistant", content=(OutputText(text=text),))


def cycle(number: int, *, size: int = 100, output: int = 0, summary: str = "Fine.") -> PastCycle:
    items: tuple[Item, ...] = (inbox("x" * size),)
    if output:
        call = FunctionCall(call_id="c1", name="look", arguments="{}")
        items = (*items, call, FunctionCallOutput(call_id="c1", output="y" * output))
    return PastCycle(number=number, summary=summary, items=(*items, said("Done.")))


def lived(*cycles: PastCycle, room: int = ROOM) -> AgentContext:
    mind = AgentContext()
    for past in cycles:
        mind = with_cycle(mind, past, room=room, hops=0)
    return mind


cycles_of_all_sizes = st.lists(
    st.tuples(st.integers(0, 6_000), st.integers(0, 60_000), st.text(max_size=SUMMARY_CHARACTERS)),
    min_size=1,
    max_size=30,
)


@given(cycles_of_all_sizes)
@example(sizes=[(0, 1407, ""), (0, 1721, "")])  # each rounded down they fit, together they do not
def test_history_takes_no_more_than_the_token_limit_and_a_fourth_of_it_for_summaries(
    sizes: list[tuple[int, int, str]],
) -> None:
    past = [cycle(n, size=size, output=output, summary=s) for n, (size, output, s) in enumerate(sizes, 1)]
    mind = lived(*past)
    word_by_word = [item for one in mind.cycles for item in one.items]
    assert tokens_of(word_by_word) <= ROOM
    brief = [one for one in mind.cycles if not one.items]
    assert sum(len(one.summary) for one in brief) <= ROOM // 4 * CHARACTERS_PER_TOKEN
    numbers = [one.number for one in mind.cycles]
    assert numbers == list(range(len(past) - len(numbers) + 1, len(past) + 1)), "the oldest go first, none in between"
    kinds = [bool(one.items) for one in mind.cycles]
    assert kinds == sorted(kinds), "summaries are older than what is kept word by word"
    assert decode_context(encode_context(mind)) == mind


@given(cycles_of_all_sizes)
def test_a_call_is_never_kept_without_its_output_nor_an_output_without_its_call(
    sizes: list[tuple[int, int, str]],
) -> None:
    past = [cycle(n, size=size, output=output, summary=s) for n, (size, output, s) in enumerate(sizes, 1)]
    for one in lived(*past).cycles:
        calls = [item.call_id for item in one.items if isinstance(item, FunctionCall)]
        assert calls == [item.call_id for item in one.items if isinstance(item, FunctionCallOutput)]


def test_a_short_life_is_kept_word_by_word() -> None:
    past = [cycle(number) for number in (1, 2, 3)]
    mind = lived(*past)
    assert [one.items for one in mind.cycles] == [one.items for one in past]
    assert [one.size for one in mind.cycles] == [
        sum(len(msgspec.json.encode(item)) for item in one.items) for one in past
    ]
    assert mind.items == tuple(item for one in past for item in one.items)


def test_the_oldest_become_summaries_and_are_told_as_such() -> None:
    mind = lived(*(cycle(number, size=1_500, summary=f"Sum {number}.") for number in range(1, 6)))
    assert [bool(one.items) for one in mind.cycles] == [False, False, False, True, True]
    first = mind.items[0]
    assert isinstance(first, Message)
    told = "Summaries of your earlier cycles, the oldest first:\nCycle 1: Sum 1.\nCycle 2: Sum 2.\nCycle 3: Sum 3."
    assert text_of(first) == told


def test_a_cycle_longer_than_the_token_limit_loses_what_it_read_and_not_what_it_said() -> None:
    mind = lived(cycle(1), cycle(2, size=300, output=50_000))
    newest = mind.cycles[-1]
    outputs = [item.output for item in newest.items if isinstance(item, FunctionCallOutput)]
    assert outputs == ["y" * 2_000 + "… (the rest is forgotten)"]
    assert newest.items[-1] == said("Done.")
    assert mind.cycles[0].items == cycle(1).items, "what still has room stays"


def test_a_cycle_that_cannot_be_cut_short_enough_is_summed_up() -> None:
    calls = tuple(FunctionCall(call_id=f"c{n}", name="look", arguments="{}" + " " * 900) for n in range(10))
    mind = lived(PastCycle(number=1, summary="Looked around.", items=calls))
    assert [(one.summary, one.items) for one in mind.cycles] == [("Looked around.", ())]


def test_nobody_has_a_past_before_the_first_cycle() -> None:
    assert decode_context(None) == AgentContext()
    assert decode_context(None).items == ()


def test_a_summary_is_the_last_words_else_what_was_called_else_what_was_read() -> None:
    items = (inbox("INBOX (1 events)"),)
    assert summary_of(items, said="Told\nthem.", called=("a",), ended=None) == "Told them."
    assert summary_of(items, said="", called=("a", "b", "a"), ended=None) == "Called a, b."
    assert summary_of(items, said="", called=(), ended=None) == "Read: INBOX (1 events)"
    assert summary_of(items, said="x", called=(), ended="Stopped.") == "Stopped. x"
    long = summary_of(items, said="w" * 1_000, called=(), ended=None)
    assert long == "w" * SUMMARY_CHARACTERS + "…"
