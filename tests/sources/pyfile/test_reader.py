from typing import Any

import msgspec
import pytest

from jackfield.model.tool import Tool, openai_function
from jackfield.sources.pyfile.pep723 import Header
from tests.requirement import requirement
from tests.sources.pyfile.reading import function_of, reading_of

NO_ARGUMENTS = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def names_of(text: str) -> list[str]:
    return [function.tool_name for function in reading_of(text).functions]


@requirement("CON-file-schema")
def test_public_functions_are_the_tools() -> None:
    text = """
    from math import sqrt
    import json
    def one(): ...
    async def two(): ...
    def _private(): ...
    class Three:
        def method(self): ...
    four = lambda: 4
    if True:
        def five(): ...
    """

    assert names_of(text) == ["one", "two"]


@requirement("CON-file-schema")
def test_all_chooses_the_tools_exactly() -> None:
    text = """
    from math import sqrt
    __all__ = ["_two", "sqrt", "Three", "one"]
    def one(): ...
    def _two(): ...
    class Three: ...
    def four(): ...
    """

    assert names_of(text) == ["_two", "one"]
    assert reading_of(text).faults == ()


def test_all_that_names_nothing_is_a_fault_and_the_rest_is_offered() -> None:
    reading = reading_of('__all__ = ["gone", "here"]\ndef here(): ...\n')

    assert [function.name for function in reading.functions] == ["here"]
    assert reading.faults == (
        "tools/here.py, line 1: '__all__' names 'gone', which is not at the file's top level. Define or remove it.",
    )


@pytest.mark.parametrize(
    "line", ["__all__ = names()", '__all__ = ["a"] + ["b"]', '__all__ = ["a"]; __all__ += ["b"]', "__all__ = [1]"]
)
def test_all_that_cannot_be_read_offers_nothing(line: str) -> None:
    reading = reading_of(f"{line}\ndef a(): ...\ndef b(): ...\n")

    assert reading.functions == ()
    assert reading.faults == (
        (
            "tools/here.py, line 1: '__all__' must be one literal list of names. "
            'Write __all__ = ["name"]; until then the file offers no tools.'
        ),
    )


@requirement("CON-file-schema")
def test_pack_stands_before_every_name() -> None:
    assert names_of('pack = "hotel"\ndef search(): ...\n') == ["hotel_search"]
    assert function_of('pack: str = "hotel"\ndef search(): ...\n').name == "search"
    assert names_of('pack = ""\ndef search(): ...\n') == ["search"]


def test_pack_that_cannot_be_read_is_a_fault() -> None:
    assert reading_of("\npack = find()\ndef a(): ...\n").faults == (
        (
            "tools/here.py, line 2: 'pack' must be one literal string. "
            'Write pack = "name"; until then the file offers no tools.'
        ),
    )


@requirement("CON-file-schema", "DISC-param-description", "DISC-params-openai")
def test_a_function_becomes_a_tool_that_a_model_can_be_given() -> None:
    function = function_of('''
    async def search(city: str, stars: int = 3, *, view: bool = False, ctx) -> list[str]:
        """Find hotels.

        Args:
            city: Where to look.
        """
    ''')

    tool = Tool(source="s", name="search", description=function.description, input_schema=function.input_schema)
    assert openai_function(tool, "search") == {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Find hotels.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where to look."},
                    "stars": {"type": "integer", "default": 3},
                    "view": {"type": "boolean", "default": False},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }


def test_a_function_without_parameters_has_the_empty_object() -> None:
    assert function_of("def now(ctx): ...").input_schema == NO_ARGUMENTS


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        ("3", 3),
        ("-1.5", -1.5),
        ("'x'", "x"),
        ("True", True),
        ("None", None),
        ("[1, {'a': None}]", [1, {"a": None}]),
        ("(1, 2)", [1, 2]),
        ("LIMIT", 20),
        ("Color.RED", "red"),
    ],
)
@requirement("DISC-param-default")
def test_a_literal_default_is_kept_whatever_its_type(default: str, expected: Any) -> None:
    before = "import enum\nLIMIT = 20\nclass Color(enum.Enum):\n    RED = 'red'\n"
    schema = function_of(f"{before}def tool(x={default}): ...").input_schema

    assert schema["properties"] == {"x": {"default": expected}}
    assert schema["required"] == []


@pytest.mark.parametrize("default", ["compute()", "object", "1e999", "...", "Color.RED", "'\\ud800'"])
def test_another_default_only_makes_the_parameter_optional(default: str) -> None:
    schema = function_of(f"def tool(x={default}): ...").input_schema

    assert schema["properties"] == {"x": {}}
    assert schema["required"] == []


def test_none_as_default_means_that_none_may_be_given() -> None:
    schema = function_of("def tool(x: str = None, y: int | None = None): ...").input_schema

    assert schema["properties"]["x"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert schema["properties"]["y"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}


def test_keyword_arguments_open_the_object() -> None:
    assert function_of("def tool(x, **more): ...").input_schema["additionalProperties"] is True


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("def tool(*names): ...", "'tool' takes *names, which named arguments cannot fill. Use a list."),
        ("def tool(a, b, /, c): ...", "'tool' takes 'a' by position only. Remove the '/' from its parameters."),
        ("def tool():\n    yield 1", "'tool' is a generator, and a tool gives one result. Return a list."),
        (
            "async def tool():\n    if 1:\n        yield",
            "'tool' is a generator, and a tool gives one result. Return a list.",
        ),
    ],
)
def test_a_function_that_named_arguments_cannot_call_is_a_fault_and_the_others_are_tools(
    function: str, said: str
) -> None:
    reading = reading_of(f"def good(): ...\n{function}\ndef also_good():\n    def inner(): yield 1\n")

    assert [function.name for function in reading.functions] == ["good", "also_good"]
    assert reading.faults == (f"tools/here.py, line 2: {said}",)


def test_the_second_definition_of_a_name_is_the_one_that_counts() -> None:
    assert function_of("def tool(x: int): ...\ndef tool(x: str): ...\n").input_schema["properties"] == {
        "x": {"type": "string"}
    }


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("dict[str, Any]", {"type": "object"}),
        ("'Thing'", {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}),
        ("Alias", {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}),
        ("dict", None),
        ("dict[int, str]", None),
        ("list[Thing]", None),
        ("Thing | None", None),
        ("str", None),
        ("Model", None),
        ("Unknown", None),
    ],
)
def test_only_a_result_that_is_an_object_has_a_schema(returns: str, expected: Any) -> None:
    function = function_of(f"""
    from datetime import datetime
    from typing import Any, TypedDict
    from pydantic import BaseModel
    class Thing(TypedDict):
        at: datetime
    class Model(BaseModel):
        x: int
    Alias = "Thing"
    def tool() -> {returns}: ...
    """)

    assert function.output_schema == expected


def test_a_result_that_holds_itself_has_a_schema_that_holds_itself() -> None:
    schema = function_of("""
    from dataclasses import dataclass
    @dataclass
    class Node:
        below: "list[Node]"
    def tool() -> Node: ...
    """).output_schema

    assert schema is not None
    assert schema["type"] == "object"
    assert schema["properties"] == {"below": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}
    assert set(schema["$defs"]) == {"Node"}


def test_a_syntax_error_names_the_file_and_the_line() -> None:
    reading = reading_of("def good(): ...\ndef bad(:\n")

    assert reading.functions == ()
    assert reading.faults == (
        "tools/here.py, line 2: invalid syntax. Correct it; until then the file offers no tools.",
    )


def test_text_that_is_no_python_at_all_is_a_fault() -> None:
    assert len(reading_of("a = 1\0").faults) == 1
    assert len(reading_of("(" * 100_000).faults) == 1
    assert len(reading_of("x = " + "-" * 100_000 + "1").faults) == 1


@requirement("WORK-inprocess-detected", "WORK-pep723-detected")
def test_a_script_block_takes_a_file_out_of_the_process_and_its_absence_keeps_it_in() -> None:
    text = "def tool(): ...\n"
    block = '# /// script\n# dependencies = ["x"]\n# ///\n'

    assert names_of(text) == ["tool"]
    assert names_of(f'"""\n{block}"""\n{text}') == ["tool"]
    assert reading_of(text).script is None
    assert reading_of(f'"""\n{block}"""\n{text}').script is None
    assert reading_of(block + text).script == Header(line=1, metadata={"dependencies": ["x"]})
    assert names_of(block + text) == ["tool"]


@pytest.mark.parametrize(
    "text",
    [
        "def tool(): ...",
        "from ot_sdk import worker_main\n\nif __name__ == '__main__':\n    worker_main()",
        "import jackfield_tool\n\nif '__main__' == __name__:\n    jackfield_tool.worker_main()",
        "from ot_sdk import worker_main as run\n\nif __name__ == '__main__':\n    run()",
        "from ot_sdk import *\n\nif __name__ == '__main__':\n    worker_main()",
        "if __name__ == '__main__':\n    pass",
        "if __name__ != '__main__':\n    main()",
        "if debugging() == '__main__':\n    main()",
        "main()",
    ],
)
def test_a_file_whose_main_block_does_no_more_than_worker_main_is_imported(text: str) -> None:
    assert reading_of(text).runs_as_script is False


@pytest.mark.parametrize(
    "text",
    [
        "if __name__ == '__main__':\n    main()",
        "if __name__ == '__main__' and sys.argv:\n    main()",
        "if __name__ == '__main__':\n    for line in sys.stdin:\n        print(line)",
        "from ot_sdk import worker_main\n\nif __name__ == '__main__':\n    prepare()\n    worker_main()",
        "from ot_sdk import worker_main\n\nif __name__ == '__main__':\n    worker_main(prepare())",
        "from main import worker_main as run\nfrom x import run\n\nif __name__ == '__main__':\n    run()",
    ],
)
def test_a_file_whose_main_block_calls_anything_else_is_run_as_a_script(text: str) -> None:
    assert reading_of(text).runs_as_script is True


@requirement("WORK-main-no-tool")
@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("def add(): ...\ndef main(): ...\n\nif __name__ == '__main__':\n    main()", ["add"]),
        ("from ot_sdk import worker_main\n\ndef add(): ...\ndef main():\n    worker_main()", ["add"]),
        ("import asyncio\nasync def main(): ...\n\nif __name__ == '__main__':\n    asyncio.run(main())", []),
        ("def add(): ...\ndef main(): ...", ["add", "main"]),
        ("__all__ = ['main']\ndef main(): ...\n\nif __name__ == '__main__':\n    main()", ["main"]),
        ("def add(): ...\n\nif __name__ == '__main__':\n    print(add())", ["add"]),
    ],
)
def test_a_main_that_starts_the_file_as_a_program_is_no_tool(text: str, tools: list[str]) -> None:
    assert names_of(text) == tools


def test_a_malformed_script_block_skips_the_file() -> None:
    reading = reading_of("# /// script\n# = 1\n# ///\ndef tool(): ...\n")

    assert reading.functions == ()
    assert reading.faults[0].startswith("tools/here.py, line 1: its script metadata is malformed: ")


def test_schemas_are_json() -> None:
    function = function_of("def tool(x: tuple[int, str] = (1, 'a'), y: bytes = b'x'): ...")

    assert msgspec.json.decode(msgspec.json.encode(function.input_schema)) == function.input_schema
