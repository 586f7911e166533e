"""The source of `run_program`. It only lists the tool; its calls are taken off the record by `service.py`."""

from typing import Any

from jackfield.model.tool import PROGRAMS, Metadata, Tool
from jackfield.settings.types import ProgramSettings
from jackfield.sources.external import OthersSource

RUN_PROGRAM = "run_program"
WAITED_MS = 600_000
"""How long a caller waits for a program whose own calls are running; then the call is pending."""
_DESCRIPTION = """\
Run a Python program that calls tools, instead of calling them one by one. `code` is the body of an async function.
`await tools.NAME(argument=value)` calls a tool and returns its result, or raises ToolFailed (`.code`, `.result`).
`await asyncio.gather(...)` makes calls in parallel. `return` gives the result, as JSON; only that is returned.
`print` writes to the log. asyncio, json and the standard library are there; network, files and processes are not.
If a call waits for a person, so does the program."""


def run_program(settings: ProgramSettings) -> Tool:
    """The tool as the catalog has it."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "code": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1_000_000,
                "description": "The body of an async function in Python.",
            },
            "tools": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Names or globs of the tools that it may call. Default: all of yours.",
            },
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": f"Seconds of computing, without the time of its calls; at most {settings.timeout:g}.",
            },
        },
        "required": ["code"],
        "additionalProperties": False,
    }
    return Tool(
        source=PROGRAMS,
        name=RUN_PROGRAM,
        description=_DESCRIPTION,
        input_schema=schema,
        timeout_ms=WAITED_MS,
        metadata=Metadata(idempotent=True),
    )


class ProgramSource(OthersSource):
    """Lists `run_program`."""

    kind = "programs"

    def __init__(self, settings: ProgramSettings) -> None:
        super().__init__(PROGRAMS, (run_program(settings),))


def program_sources(settings: ProgramSettings) -> list[ProgramSource]:
    """The source, where programs are enabled."""
    return [ProgramSource(settings)] if settings.enabled else []
