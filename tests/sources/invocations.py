"""An invocation as the pipeline would make it, for sources that are tested alone."""

from collections.abc import Awaitable, Callable
from typing import Any

from jackfield.model.tool import Tool
from jackfield.sources.base import Invocation
from jackfield.sources.client import AskClient, ClientAnswer


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


def asking(answer: Callable[[Any], Awaitable[ClientAnswer]]) -> AskClient:
    """A client that is asked one request after the other."""

    async def ask(requests: tuple[Any, ...]) -> tuple[ClientAnswer, ...]:
        return tuple([await answer(one) for one in requests])

    return ask
