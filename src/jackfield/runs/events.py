"""What a run says while it goes on, in the order it happens. Above: routes and journals. Below: the model's words.

`index` is the place of an item in the whole output. An item is added, changes, and is done; then nothing more is said
about it. `Ended` is the last event, and always comes, unless the run is `Parked`.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from jackfield.model.items import Item, Usage

EndStatus = Literal["completed", "incomplete", "failed", "cancelled", "requires_action"]


class RunStarted(Struct, frozen=True):
    """The request can be carried out: always the first event. What is refused is refused (raised) before it."""


class RunItemAdded(Struct, frozen=True):
    """An item begins, with nothing in it yet."""

    index: int
    item: Item


class OutputTextDelta(Struct, frozen=True):
    """More text of a message."""

    index: int
    delta: str


class OutputRefusalDelta(Struct, frozen=True):
    """More of a refusal, in a message."""

    index: int
    delta: str


class OutputReasoningDelta(Struct, frozen=True):
    """More of what the model thinks."""

    index: int
    delta: str


class ArgumentsDelta(Struct, frozen=True):
    """More of a call's arguments."""

    index: int
    delta: str


class ToolRunning(Struct, frozen=True):
    """A server-run call begins to run, or a server's tools are being listed."""

    index: int


class RunToolProgress(Struct, frozen=True):
    """How far a server-run call is."""

    index: int
    progress: float
    total: float | None = None
    message: str | None = None


class RunItemDone(Struct, frozen=True):
    """An item as it stays."""

    index: int
    item: Item


class RunError(Struct, frozen=True):
    """Why a run failed."""

    code: str
    message: str


class Ended(Struct, frozen=True, kw_only=True):
    """The run is over."""

    status: EndStatus
    reason: str | None = None
    """For `incomplete`: which limit was reached."""
    usage: Usage | None = None
    error: RunError | None = None


class Parked(Struct, frozen=True):
    """The run waits for somebody's answer and goes on when it is there, here or elsewhere: nothing more is told now."""


LoopEvent = (
    RunStarted
    | RunItemAdded
    | OutputTextDelta
    | OutputRefusalDelta
    | OutputReasoningDelta
    | ArgumentsDelta
    | ToolRunning
    | RunToolProgress
    | RunItemDone
    | Ended
    | Parked
)
Emit = Callable[[LoopEvent], None]
