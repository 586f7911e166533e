"""How a facet of a store runs its scripts: the two ways in, as types."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from jackfield.store.moves import Script

T = TypeVar("T")


class Reply(asyncio.Future[T]):
    """The acknowledgement of a write, which cannot be called back.

    Who waits for one and is cancelled learns of it when the write is over, so nobody has to shield it.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - asyncio's own interface
        return False


class Write(Protocol):
    """Runs a script in a shared, durable batch; `wakes` is published after the commit."""

    def __call__(self, script: Callable[[], Script[T]], *, wakes: str | None = None) -> asyncio.Future[T]: ...


class Read(Protocol):
    """Runs a script that writes nothing."""

    def __call__(self, script: Callable[[], Script[T]]) -> Coroutine[Any, Any, T]: ...
