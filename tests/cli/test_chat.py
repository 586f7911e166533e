"""What a chat makes of typed lines, and what it prints of a space's events."""

from typing import Any

import pytest

from jackfield.cli.chat import parse_answer
from jackfield.cli.chat_screen import Screen, is_echo, render_call
from jackfield.sdk import SpaceEvent, SpaceMessage


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", {"confirmed": True}),
        ("Y", {"confirmed": True}),
        ("confirm", {"confirmed": True}),
        ("no", {"confirmed": False}),
        ("reject", {"confirmed": False}),
        ('{"colour": "red"}', {"colour": "red"}),
        ("[1, 2]", [1, 2]),
        ('"red"', "red"),
        ("null", None),
        ("false", False),
    ],
)
def test_a_word_or_json_is_an_answer(text: str, answer: Any) -> None:
    assert parse_answer(text) == (answer,)


@pytest.mark.parametrize("text", ["yes please", "7 of them", "{not json", "[", "nothing", "what?"])
def test_anything_else_is_something_to_say(text: str) -> None:
    assert parse_answer(text) is None


@pytest.mark.parametrize(
    ("tool", "arguments", "lines"),
    [
        ("confirmAction", {"question": "Ship it?\x1b"}, ["Ship it?\\x1b"]),
        ("displayChart", {"title": "T", "bars": [{"label": "a", "value": 2}, {"label": "bb", "value": 0}]}, None),
        ("displayChart", {"title": "T", "bars": [{"label": "a"}]}, ['{"title":"T","bars":[{"label":"a"}]}']),
        ("displayChart", {"title": "T", "bars": []}, ["T"]),
        ("pickColour", {}, []),
        ("pickColour", {"of": ["red"]}, ['{"of":["red"]}']),
    ],
)
def test_calls_are_drawn_by_the_name_of_their_tool_or_by_their_arguments(
    tool: str, arguments: Any, lines: list[str] | None
) -> None:
    assert render_call(tool, arguments) == (["T", "a   " + "█" * 30 + " 2", "bb   0"] if lines is None else lines)


def test_the_echo_of_an_internal_tool_is_known() -> None:
    assert is_echo({"success": True, "args": {}})
    assert not is_echo({"success": True})
    assert not is_echo({"confirmed": True})


def said(text: str, *, stream: str | None = None, name: str = "Ann") -> SpaceEvent:
    message = SpaceMessage(id="m", entity_id="ann", sender_name=name, content=text)
    return SpaceEvent(type="space.message", seq=1, stream_id=stream, message=message)


def piece(stream: str, text: str, *, phase: str = "delta") -> SpaceEvent:
    return SpaceEvent(
        type="space.message.streaming", stream_id=stream, agent_entity_id="ann", phase=phase, offset=0, text=text
    )


def shown(capsys: pytest.CaptureFixture[str], *events: SpaceEvent, live: bool = True) -> str:
    screen = Screen(live=live)
    screen.add_member("ann", "Ann")
    for event in events:
        screen.event(event)
    return capsys.readouterr().out


def test_a_text_appears_while_it_is_written_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    written = (piece("s", "", phase="start"), piece("s", "Hel"), piece("s", "Hello"), said("Hello there", stream="s"))
    assert shown(capsys, *written) == "Ann: Hello there\n"
    assert shown(capsys, *written, live=False) == "Ann: Hello there\n"


def test_what_comes_while_a_text_is_written_waits_for_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    events = (piece("s", "Hel"), piece("t", "Oth"), said("Aside", name="Bob"), said("Hello", stream="s"))
    assert shown(capsys, *events, said("Other", stream="t")) == "Ann: Hello\nBob: Aside\nAnn: Other\n"


def test_a_text_that_comes_to_nothing_is_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    failed = SpaceEvent(type="space.message.failed", stream_id="s")
    assert shown(capsys, piece("s", "Hel"), failed, said("Again")) == "Ann: Hel (withdrawn)\nAnn: Again\n"


def test_a_text_that_became_another_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, piece("s", "Hel"), said("Good day", stream="s")) == "Ann: Hel\nAnn: Good day\n"


def test_who_thinks_is_said_once_until_it_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    active = SpaceEvent(type="agent.active", seq=1, agent_entity_id="ann", agent_name="Ann")
    done = SpaceEvent(type="agent.inactive", seq=2, agent_entity_id="ann", agent_name="Ann")
    assert shown(capsys, active, active, done, active) == "Ann is thinking …\n" * 2
    assert shown(capsys, active, done, live=False) == ""


def test_errors_and_results_of_visible_calls_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    error = SpaceEvent(type="tool.error", seq=1, tool_name="boom", error="no reason")
    done = SpaceEvent(type="tool.done", seq=2, tool_name="ask", result={"colour": "red"})
    assert shown(capsys, error, done) == '  ! boom: "no reason"\n  → ask: {"colour":"red"}\n'
