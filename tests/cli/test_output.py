import io
import sys

import pytest

from jackfield.cli import output
from tests.requirement import requirement


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stdout as a terminal of 40 columns."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def test_colours_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch)
    assert output.style("x", "red", "bold") == "\x1b[31;1mx\x1b[0m"
    assert output.style("x", "red", stream=io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.style("x", "red") == "x"


def test_foreign_text_cannot_drive_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    output.print_result("\x1b[2Jgone\x07\nnext\tline\u202e")
    assert terminal.getvalue() == "\\x1b[2Jgone\\x07\nnext\tline\\u202e\n"


def test_a_result_that_is_piped_is_not_changed(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_result("\x1b[2Jraw")
    assert capsys.readouterr().out == "\x1b[2Jraw\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [("plain", "plain\n"), (None, "null\n"), (3, "3\n"), ({"a": [1]}, '{\n  "a": [\n    1\n  ]\n}\n'), ("ü", "ü\n")],
)
def test_text_is_printed_as_it_is_and_anything_else_as_json(
    value: object, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.print_result(value)
    assert capsys.readouterr().out == text


def test_columns_stand_one_below_the_other() -> None:
    assert output.table([("a", "bb", "c"), ("aaa", "b", "")]) == ["a    bb  c", "aaa  b"]
    assert output.table([]) == []


@requirement("OPS-CLI-headers")
def test_a_header_stands_above_rows_and_never_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("a", "bb", "c"), ("aaa", "b", "")]
    assert output.table(rows, header=("X", "LONG", "Y")) == ["X    LONG  Y", "a    bb    c", "aaa  b"]
    assert output.table([], header=("X", "Y")) == []
    on_a_terminal(monkeypatch)
    assert output.table([("a", "b")], header=("X", "Y"), styles=("bold",)) == [
        "\x1b[2mX\x1b[0m  \x1b[2mY\x1b[0m",
        "\x1b[1ma\x1b[0m  b",
    ]


def test_a_styled_cell_is_as_wide_as_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch)
    rows = [(output.style("down", "red"), "x"), ("starting", "y")]
    assert output.table(rows) == ["\x1b[31mdown\x1b[0m      x", "starting  y"]


def test_the_last_column_is_cut_at_the_edge_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch)
    (line,) = output.table([("name", "x" * 100)])
    assert len(line) == 40
    assert line.endswith("…")


def test_letters_that_are_two_columns_wide_count_as_two(monkeypatch: pytest.MonkeyPatch) -> None:
    assert output.table([("你好", "x"), ("abc", "y")]) == ["你好  x", "abc   y"]
    on_a_terminal(monkeypatch)
    (line,) = output.table([("name", "你" * 30)])
    assert line == f"name  {'你' * 16}…"


@pytest.mark.parametrize(("value", "text"), [(None, ""), (0.42, "0.4 ms"), (12.3, "12 ms"), (3210, "3.2 s")])
def test_times_are_short(value: float | None, text: str) -> None:
    assert output.milliseconds(value) == text


def test_only_the_first_line_that_says_something_is_a_summary() -> None:
    assert output.first_line("\n  Adds.\nMore.") == "Adds."
    assert output.first_line("") == ""
