import shlex
from typing import Any

import pytest

from jackfield.cli.arguments import from_pairs, json_object
from jackfield.cli.tools import call_line, catalog_lines, problem_lines, tool_lines
from jackfield.sdk import Notice, Readiness, SourceReport, ToolInfo, ToolMetadata

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "flag": {"type": "boolean"},
        "names": {"type": "array"},
        "maybe": {"type": ["string", "null"]},
        "either": {"type": ["string", "integer"]},
        "anything": {},
        "odd=name": {"type": "string"},
        "-dash": {"type": "string"},
        "": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"text": 'it\'s "fine" $HOME', "count": -1, "flag": False, "names": ["a b"]},
        {"maybe": None},
        {"maybe": "null"},
        {"either": "3"},
        {"either": 3},
        {"anything": "3"},
        {"anything": {"deep": [None]}},
        {"odd=name": "x"},
        {"-dash": "x"},
        {"": "x"},
    ],
)
def test_a_line_to_paste_means_exactly_these_arguments(arguments: dict[str, Any]) -> None:
    _, _, name, *words = shlex.split(call_line(ToolInfo(name="t", parameters=SCHEMA), arguments))
    assert name == "t"
    read = (
        json_object(words[1], what="The value of --json")
        if words[:1] == ["--json"]
        else from_pairs(words, SCHEMA, tool="t")
    )
    assert read == arguments


def test_a_foreign_description_cannot_drive_the_terminal() -> None:
    tool = ToolInfo(name="t", description="\x1b]0;owned\x07 hello", source="\x1b[31m")
    assert "\x1b" not in "\n".join([*catalog_lines([tool]), *tool_lines(tool)])


def test_an_empty_catalog_says_so() -> None:
    assert catalog_lines([]) == ["No tools."]


def test_everything_the_metadata_limits_is_shown() -> None:
    metadata = ToolMetadata(
        enabled_by_default=False,
        requires_approval=True,
        timeout_seconds=5,
        rate_limit_per_minute=2,
        cost_estimate="high",
        long_running=True,
        idempotent=True,
        tags=("a", "b"),
    )
    said = "\n".join(tool_lines(ToolInfo(name="t", metadata=metadata)))
    for part in (
        "not by default",
        "required for every call",
        "5 s",
        "2 calls a minute",
        "high",
        "idempotent",
        "a, b",
    ):
        assert part in said


def test_trouble_names_the_source_and_says_why() -> None:
    readiness = Readiness(
        status="ready",
        sources=(
            SourceReport(name="fine", status="up"),
            SourceReport(name="gone", status="down", error="Nobody answers."),
            SourceReport(name="half", status="up", faults=("x.py is broken.",)),
        ),
        notices=(Notice(message="Two tools are called 'add'."),),
    )
    assert problem_lines(readiness) == [
        "",
        "gone is down: Nobody answers.",
        "half: x.py is broken.",
        "note: Two tools are called 'add'.",
    ]
    assert problem_lines(Readiness(status="ready")) == []
