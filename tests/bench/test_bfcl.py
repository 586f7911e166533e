"""Public tasks as plain calls and as programs, on a small package of the same shape, made here."""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.bfcl.__main__ import play_all
from bench.bfcl.answers import ToolCall, call_of, program_of
from bench.bfcl.backends import public_state
from bench.bfcl.package import FunctionDoc, Package
from bench.bfcl.report import report
from bench.bfcl.sides import Side, script
from bench.bfcl.tool_files import tool_file
from bench.processes import BenchError
from tests.requirement import requirement

PARAMETERS = {"sort": ["file_name"], "diff": ["left", "right"], "now": []}
CONSTANTS = """
MULTI_TURN_FUNC_DOC_FILE_MAPPING = {"Shelf": "shelf.json"}
CLASS_FILE_PATH_MAPPING = {"Shelf": "bfcl_eval.shelf"}
"""
EXECUTOR = """
import json
from bfcl_eval.shelf import Shelf
made = {}
def execute_multi_turn_func_call(func_call_list, initial_config, involved_classes, model_name, test_entry_id):
    name = model_name + test_entry_id
    if name not in made:
        made[name] = Shelf(**initial_config["Shelf"])
    shelf = made[name]
    return [written(eval("shelf." + call, {"shelf": shelf})) for call in func_call_list], {"Shelf": shelf}

def written(told):
    try:
        return json.dumps(told) if isinstance(told, dict) else str(told)
    except TypeError:
        return str(told)
"""
SHELF = """
from fractions import Fraction

class Shelf:
    def __init__(self, books):
        self.books, self.taken, self.inner, self._calls = list(books), {}, self, 0

    def put(self, title, copies=1, owner=None):
        assert owner is None
        self._calls += 1
        self.books += [title] * copies

    def take(self, title):
        if title not in self.books:
            return {"error": f"'{title}' is not here."}
        self.books.remove(title)
        self.taken[len(self.taken)] = title
        return {"left": len(self.books), "weight": Fraction(1, 2)}

    def send_message(self, text):
        self.taken["message"] = text
        return [text, None, True]
"""
DOCS: list[dict[str, Any]] = [
    {
        "name": "put",
        "description": "Puts a book on the shelf.",
        "parameters": {
            "type": "dict",
            "properties": {
                "copies": {"type": "integer", "description": "How many", "default": 1},
                "title": {"type": "string", "description": "Its title"},
                "owner": {"type": "string", "description": "Whose it is", "default": "None"},
            },
            "required": ["title"],
        },
    },
    {
        "name": "take",
        "description": "Takes a book.",
        "parameters": {
            "type": "dict",
            "properties": {"title": {"type": "string", "description": "Its title"}},
            "required": ["title"],
        },
        "response": {"type": "dict", "properties": {"left": {"type": "integer", "description": "What is left"}}},
    },
    {
        "name": "send_message",
        "description": "Has the name of a tool of the gateway's own.",
        "parameters": {"type": "dict", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
]
ANSWERS = [
    ["put('Emma', 2)", "take(title='Emma')", "take(title='Ulysses')"],
    [],
    ["send_message(text='It\\'s \"done\"\\n')"],
]
WRONG = [["put(title='Emma')", "take(title=1)", "put(title='Persuasion')"], [], []]


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Package]:
    folder = tmp_path / "package"
    question = {
        "question": [[{"role": "user", "content": f"Turn {number}"}] for number in range(len(ANSWERS))],
        "initial_config": {"Shelf": {"books": ["Dracula"]}},
        "involved_classes": ["Shelf"],
    }
    files = {
        "constants/executable_backend_config.py": CONSTANTS,
        "eval_checker/multi_turn_eval/multi_turn_utils.py": EXECUTOR,
        "shelf.py": SHELF,
        "data/BFCL_v4_multi_turn_base.json": lines(
            *({**question, "id": name} for name in ("base_0", "base_1", "base_2"))
        ),
        "data/possible_answer/BFCL_v4_multi_turn_base.json": lines(
            {"id": "base_0", "ground_truth": ANSWERS},
            {"id": "base_1", "ground_truth": ANSWERS[::-1]},
            {"id": "base_2", "ground_truth": WRONG},
        ),
        "data/multi_turn_func_doc/shelf.json": lines(*DOCS),
    }
    for name, text in files.items():
        file = folder / "bfcl_eval" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    path = list(sys.path)
    yield Package(folder)
    sys.path[:] = path
    for module in [name for name in sys.modules if name.partition(".")[0] == "bfcl_eval"]:
        del sys.modules[module]


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@requirement("PROG-TASKS")
async def test_both_sides_come_to_the_end_state_of_the_reference_answer(package: Package, tmp_path: Path) -> None:
    *rows, wrong = await play_all(package, package.tasks(), tmp_path / "project", wait=0)
    assert [row.task for row in rows] == ["base_0", "base_1"]
    for row in rows:
        assert row.directly.state["Shelf"]["Shelf"]["books"] == ["Dracula", "Emma"]
        for side in Side:
            assert row.sides[side].ended == row.directly, side
    first = {side: [turn.tokens.steps for turn in rows[0].sides[side].turns] for side in Side}
    assert first == {Side.PLAIN: [4, 1, 2], Side.PROGRAMS: [2, 1, 2]}
    told = report(rows)
    assert "| 2 tasks, 6 turns, 8 calls | plain calls | programs | saved |" in told
    assert "| model steps | 14 | 10 | 29 % |" in told
    assert "differ" not in told
    told = report([wrong])
    assert not wrong.sides_agree  # a refused call ends the program, and a model goes on
    assert "- base_2, plain calls: the results differ." in told
    assert "- base_2, plain calls: the end state differs." not in told
    assert "- base_2, programs: the end state differs." in told


@requirement("PROG-TASKS")
@pytest.mark.parametrize(
    ("answer", "call"),
    [
        ("sort('a b.txt')", ToolCall("sort", {"file_name": "a b.txt"})),
        ("diff('a', right=[1, {'b': None}])", ToolCall("diff", {"left": "a", "right": [1, {"b": None}]})),
        (" now() ", ToolCall("now", {})),
        ("diff(left=-1.5, right=True)", ToolCall("diff", {"left": -1.5, "right": True})),
    ],
)
def test_a_reference_answer_becomes_a_call_with_named_arguments(answer: str, call: ToolCall) -> None:
    assert call_of(answer, PARAMETERS) == call


@requirement("PROG-TASKS")
@pytest.mark.parametrize(
    "answer", ["sort(", "remove('a')", "sort(now())", "os.remove('a')", "1 + 1", "now(1)", "sort(*['a'])", "sort(**{})"]
)
def test_what_is_no_call_with_literals_is_refused(answer: str) -> None:
    with pytest.raises(BenchError, match="The reference answer"):
        call_of(answer, PARAMETERS)


@requirement("PROG-TASKS")
def test_the_calls_of_a_turn_become_one_program_that_returns_their_results() -> None:
    calls = [ToolCall("sort", {"file_name": "it's"}), ToolCall("now", {})]
    assert program_of(calls[:1]) == 'return await tools.sort(file_name="it\'s")'
    assert program_of(calls) == 'return [\n    await tools.sort(file_name="it\'s"),\n    await tools.now(),\n]'
    assert [step.call for step in script(calls, Side.PLAIN)] == [*calls, None]
    assert [step.call and step.call.tool for step in script(calls, Side.PROGRAMS)] == ["run_program", None]


@requirement("PROG-TASKS")
def test_what_a_package_says_of_its_functions_is_text_in_a_tool_file() -> None:
    said = "Adds.\n\"\"\"\nimport os\n'''\\"
    schema = {"type": "dict", "properties": {"a": {"type": "float", "description": said}}, "required": ["a"]}
    [_, function] = ast.parse(tool_file("Shelf", [FunctionDoc(name="add", description=said, parameters=schema)])).body
    assert isinstance(function, ast.FunctionDef)
    assert "import os" in (ast.get_docstring(function) or "")
    assert len(function.body) == 2
    with pytest.raises(BenchError, match="cannot be the name"):
        tool_file("Shelf", [FunctionDoc(name="add(): pass\ndef x", description="", parameters={})])


@requirement("PROG-TASKS")
def test_the_state_of_back_ends_is_what_is_public_whatever_is_in_it() -> None:
    class Folder:
        def __init__(self, parent: Any) -> None:
            self.parent, self._changed = parent, object()
            self.files: dict[Any, Any] = {1: ("a", {"c", "b"}), "1": None}

    outer = Folder(None)
    outer.files["in"] = (Folder(outer), set())
    assert public_state(outer) == {
        "Folder": {
            "parent": None,
            "files": {
                "1": ["a", "['b', 'c']"],
                "'1'": None,
                "'in'": [
                    {"Folder": {"parent": "(what it is in)", "files": {"1": ["a", "['b', 'c']"], "'1'": None}}},
                    "[]",
                ],
            },
        }
    }
