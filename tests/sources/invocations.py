"""An invocation as the pipeline would make it, for sources that are tested alone."""

from typing import Any

from jackfield.model.tool import Tool
from jackfield.sources.base import Invocation


def invocation_of(tool: Tool, *, timeout_ms: int = 5_000, **arguments: Any) -> Invocation:
    return Invocation(
        call_id="call_1",
        run_id="run_1",
        tool=tool,
        arguments=arguments,
        principal="ops",
        timeout_ms=timeout_ms,
        report=lambda _: None,
    )
