"""`jackfield sources add|edit|…`: how fields are written, and what the command line does not take."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from jackfield.cli.completion import all_words
from jackfield.cli.options import UsageError
from jackfield.cli.source_changes import check_words, fields_of, trial_lines
from jackfield.cli.sources import sources
from jackfield.sdk.sources import OfferedTool, SourceTest
from tests.requirement import requirement


def read(*words: str) -> Namespace:
    return sources.read("sources", list(words))


def test_fields_are_words_json_or_tables() -> None:
    line = read("add", "x", "kind=mcp", "timeout=3", "env.A=1", "env.B=b", 'command=["a", "b"]', "name:=null", "t=")
    expected = {"kind": "mcp", "timeout": 3, "env": {"A": 1, "B": "b"}, "command": ["a", "b"], "name": None, "t": ""}
    assert fields_of(line) == expected
    assert fields_of(read("edit", "x", "--unset", "prefix", "--unset", "url")) == {"prefix": None, "url": None}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.toml", 'kind = "mcp"\nurl = "u"\n'),
        ("a.toml", '[sources.x]\nkind = "mcp"\nurl = "u"\n'),
        ("a.json", '{"kind": "mcp", "url": "u"}'),
        ("a.json", '{"sources": {"x": {"kind": "mcp", "url": "u"}}}'),
    ],
)
def test_fields_of_a_file_come_first(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    assert fields_of(read("add", "x", "url=v", "--file", str(tmp_path / file))) == {"kind": "mcp", "url": "v"}


@requirement("OPS-sources-cli")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add",), "'add' needs the name of a source"),
        (("add", "kind=mcp"), "needs the name of a source before 'kind=mcp'"),
        (("restrat", "x"), "Did you mean 'restart'?"),
        (("remove", "x", "a=b"), "'remove' takes no fields"),
        (("add", "x", "--unset", "a"), "--unset is for 'edit'"),
        (("add", "x", "word"), "'word' is not a field"),
        (("add", "x", "a:={"), "The value of 'a' is not JSON"),
        (("add", "x", "a=1", "a.b=2"), "'a' is a value"),
        (("add", "x", "--file", "/nowhere.toml"), "cannot be read"),
    ],
)
def test_a_wrong_line_is_explained(words: tuple[str, ...], said: str) -> None:
    line = read(*words)
    with pytest.raises(UsageError) as refused:
        _check_and_read(line)
    assert said in refused.value.message


def _check_and_read(line: Namespace) -> dict[str, Any]:
    check_words(line)
    return fields_of(line)


def test_a_trial_is_told() -> None:
    lines = list(trial_lines(SourceTest(ok=True, tools=(OfferedTool(name="a", description="Does."),), prompts=2)))
    assert lines[0].endswith("1 tool, 0 resources, 2 prompts.")
    assert lines[1].split() == ["a", "Does."]
    lines = list(trial_lines(SourceTest(ok=False, error="It is down.", stderr=("Traceback",))))
    assert "It is down." in lines[0]
    assert lines[-1] == "  Traceback"


def test_the_actions_are_completed() -> None:
    [words] = [one for one in all_words() if one.name == "sources"]
    assert words.choices == ("add", "edit", "remove", "test", "restart")
