"""What a source over a network is given in a test: the outgoing client, and nobody else to turn to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from jackfield.model.call import Outcome
from jackfield.outgoing import Outgoing
from jackfield.sources.base import Invocation, SourceContext
from jackfield.workers.host import WorkerHost


def surroundings_in(folder: Path, *, outgoing: Outgoing, changed: Callable[[str], None], **more: Any) -> SourceContext:
    """`more` is what this source may have besides, by the names of `SourceContext`."""
    bare = SourceContext(
        folder=folder,
        data=folder,
        changed=changed,
        secret=lambda _: None,
        config=dict,
        registry=list,
        call_tool=_no_calls,
        ask_model=_no_model,
        outgoing=outgoing,
        worker_host=more.pop("worker_host", None) or WorkerHost(folder / "workers", redact=str),
    )
    return msgspec.structs.replace(bare, **more)


async def _no_calls(
    name: str, arguments: dict[str, Any], *, parent: Invocation, within: tuple[str, ...] | None = None
) -> Outcome:
    assert within is None
    raise AssertionError(f"{name} was called by {parent.tool.name} with {arguments}")


async def _no_model(*_: object, **__: object) -> str:
    raise AssertionError("a model was asked")
