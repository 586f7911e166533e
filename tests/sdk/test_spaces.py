"""Texts in flight across breaks: each piece once, and the whole text with it."""

from jackfield.sdk.spaces import PartialTexts, SpaceEvent


def piece(delta: str, offset: int, phase: str = "delta", text: str | None = None) -> SpaceEvent:
    kind = "space.message.streaming"
    return SpaceEvent(type=kind, stream_id="s1", phase=phase, offset=offset, delta=delta, text=text)


def taken(texts: PartialTexts, *events: SpaceEvent) -> list[tuple[int | None, str, str | None] | None]:
    told = [texts.merge(event) for event in events]
    return [None if event is None else (event.offset, event.delta, event.text) for event in told]


def test_pieces_carry_the_whole_text() -> None:
    texts = PartialTexts()
    assert taken(texts, piece("", 0, "start"), piece("Hello", 0), piece(" you", 5)) == [
        (0, "", ""),
        (0, "Hello", "Hello"),
        (5, " you", "Hello you"),
    ]


def test_what_is_told_again_after_a_break_is_given_as_far_as_it_is_new() -> None:
    texts = PartialTexts()
    taken(texts, piece("", 0, "start"), piece("Hello", 0))
    texts.merge(SpaceEvent(type="connected", streams=("s1",)))
    assert taken(texts, piece("", 0, "start"), piece("Hello you", 0, text="Hello you"), piece(" all", 9)) == [
        None,
        (5, " you", "Hello you"),
        (9, " all", "Hello you all"),
    ]
    assert taken(texts, piece("Hello you all", 0)) == [None]


def test_a_text_that_began_anew_is_given_from_its_beginning() -> None:
    texts = PartialTexts()
    taken(texts, piece("First", 0))
    assert taken(texts, piece("Second", 0)) == [(0, "Second", "Second")]


def test_what_is_over_is_forgotten() -> None:
    texts = PartialTexts()
    taken(texts, piece("Hello", 0))
    assert taken(texts, piece("", 5, "done", text="Hello")) == [(5, "", "Hello")]
    assert texts._texts == {}
    for kind in ("space.message", "space.message.failed", "tool.done", "tool.error"):
        taken(texts, piece("Hello", 0))
        event = SpaceEvent(type=kind, stream_id="s1")
        assert texts.merge(event) == event
        assert texts._texts == {}
    taken(texts, piece("Hello", 0))
    texts.merge(SpaceEvent(type="connected", streams=()))
    assert texts._texts == {}


def test_an_end_that_brings_what_was_missed_gives_it() -> None:
    texts = PartialTexts()
    taken(texts, piece("Hel", 0))
    assert taken(texts, piece("", 5, "done", text="Hello")) == [(3, "lo", "Hello")]
