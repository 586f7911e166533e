"""Short ways to what a piece of a tool file is read as."""

from textwrap import dedent
from typing import Any

import jsonschema_rs

from jackfield.sources.pyfile.reader import FileFunction, FileReading, read_file


def reading_of(text: str) -> FileReading:
    return read_file(dedent(text), label="tools/here.py")


def function_of(text: str) -> FileFunction:
    """The only tool of a file that has no faults."""
    reading = reading_of(text)
    assert reading.faults == ()
    assert len(reading.functions) == 1
    return reading.functions[0]


def hint_of(hint: str, *, before: str = "") -> Any:
    """The schema of one parameter with this hint."""
    schema = function_of(f"{dedent(before)}\ndef tool(x: {hint}): ...\n").input_schema
    return schema["properties"]["x"]


def accepts(schema: Any, value: Any) -> bool:
    """Whether JSON Schema 2020-12, formats enforced, takes the value."""
    return bool(jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(value))
