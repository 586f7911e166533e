"""Keys as terminals send them, and the line that comes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.cli.line_editor import Ended, LineEditor, Offered, Typed, window
from jackfield.cli.output import width_of

UP, DOWN, RIGHT, LEFT, HOME, END, DELETE = (f"\x1b[{end}" for end in ("A", "B", "C", "D", "H", "F", "3~"))


def editor(*earlier: str) -> LineEditor:
    names = ["Ann", "Annabel", "Émile Zola", "/help", "/members"]

    def complete(word: str, is_first: bool) -> list[str]:  # noqa: FBT001 - as `Complete` has it
        return [name for name in names if word and name.startswith(word) and (is_first or name[0] != "/")]

    return LineEditor(earlier, complete=complete)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("hello", "hello"),
        ("helo\x7f\x7fllo", "hello"),
        (f"ello{HOME}h", "hello"),
        (f"hllo{LEFT * 3}e", "hello"),
        (f"xhello{HOME}{DELETE}", "hello"),
        (f"hel{LEFT}{LEFT}{END}lo", "hello"),
        (f"hello{LEFT * 9}{RIGHT * 9}", "hello"),
        ("hello there\x17\x7f", "hello"),
        ("there hello\x1b[1;5D\x15", "hello"),
        ("hello there\x1bb\x02\x0b", "hello"),
        ("ello there\x01h\x1bf\x0b", "hello"),
        ("xhello\x01\x04", "hello"),
        ("he\x00\x07\x1b[99~\x1bOPllo", "hello"),
        ("grüße 你好 🎉", "grüße 你好 🎉"),
    ],
)
def test_keys_make_a_line(keys: str, line: str) -> None:
    assert editor().feed(f"{keys}\r".encode()) == [Typed(line)]


def test_keys_may_come_byte_by_byte() -> None:
    typed = editor()
    keys = f"你o{LEFT}{LEFT}h\n".encode()
    assert [event for key in keys for event in typed.feed(bytes([key]))] == [Typed("h你o")]


def test_arrows_go_through_the_history_and_back_to_what_was_being_typed() -> None:
    typed = editor("one", "two")
    typed.feed(f"thr{UP}".encode())
    assert typed.text == "two"
    typed.feed(f"{UP}{UP}{UP}".encode())
    assert typed.text == "one"
    typed.feed(f"{DOWN}{DOWN}{DOWN}ee".encode())
    assert typed.feed(f"\n{UP}\n".encode()) == [Typed("three"), Typed("three")]
    typed.feed(f"{UP}{UP}".encode())
    assert typed.text == "two", "a line that is repeated is in the history once"


@pytest.mark.parametrize(
    ("keys", "text", "offered"),
    [
        ("A\t", "Ann", []),
        ("Ann\t", "Ann", ["Ann", "Annabel"]),
        ("ask Anna\t", "ask Annabel ", []),
        ("É\t", "Émile Zola ", []),
        ("/h\t", "/help ", []),
        ("ask /h\t", "ask /h", []),
        ("\t", "", []),
        ("Zoe\t", "Zoe", []),
        (f"Anna!{LEFT}\t", "Annabel !", []),
    ],
)
def test_tab_completes_a_word_as_far_as_it_is_clear(keys: str, text: str, offered: list[str]) -> None:
    typed = editor()
    assert typed.feed(keys.encode()) == ([Offered(tuple(offered))] if offered else [])
    assert typed.text == text


def test_ctrl_d_ends_only_an_empty_line() -> None:
    typed = editor()
    assert typed.feed(b"a\x04\x7f\x04") == [Ended()]


@pytest.mark.parametrize(
    ("text", "cursor", "room", "shown"),
    [
        ("hello", 5, 10, ("hello", 5)),
        ("hello there", 11, 5, ("there", 5)),
        ("hello there", 0, 5, ("hello", 0)),
        ("hello there", 8, 6, ("o ther", 4)),
        ("hello there", 10, 6, (" there", 5)),
        ("你好吗", 3, 4, ("好吗", 4)),
        ("", 0, 4, ("", 0)),
    ],
)
def test_the_part_around_the_cursor_is_shown(text: str, cursor: int, room: int, shown: tuple[str, int]) -> None:
    assert window(text, cursor, room) == shown


@given(st.binary(max_size=60), st.integers(1, 20))
def test_whatever_comes_the_cursor_is_in_the_text_and_the_window_fits(keys: bytes, room: int) -> None:
    typed = editor("one", "two")
    for event in typed.feed(keys):
        assert not isinstance(event, Typed) or event.line.isprintable()
    assert 0 <= typed.cursor <= len(typed.text)
    assert typed.text.isprintable()
    shown, column = window(typed.text, typed.cursor, room)
    assert column <= width_of(shown) <= room
