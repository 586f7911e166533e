"""`async_behavior` of a tool: how work that goes on at its owner is followed to its end. Pure.

Above: tools carry it, their source reads it, and `calls/operations.py` keeps its pauses. Below: nothing.
Paths are dotted: `run.items.0.id` takes the field `run`, then `items`, its first element, then `id`.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0, le=31_622_400)]


class Backoff(Struct, frozen=True, kw_only=True):
    """How the pauses between two looks grow."""

    initial: Seconds = 5
    max: Seconds = 30
    multiplier: Annotated[float, Meta(ge=1, le=100)] = 1.5


class StatusPolling(Struct, frozen=True, kw_only=True):
    """Which tool of the same owner says how the work stands, and how often it is asked."""

    status_tool: str
    operation_id_field: str
    """Where the first answer has the work's id."""
    status_tool_id_param: str
    """The argument of the status tool that takes it."""
    poll_interval_seconds: Seconds = 5
    max_poll_duration_seconds: Seconds = 3600
    backoff: Backoff | None = None

    def pause(self, looks: int) -> float:
        """Seconds to wait after so many looks."""
        if self.backoff is None:
            return self.poll_interval_seconds
        steps = min(looks, 64)  # past that every multiplier above 1 has reached its maximum, and floats end
        return min(self.backoff.initial * self.backoff.multiplier**steps, self.backoff.max)


class CompletionConditions(Struct, frozen=True, kw_only=True):
    """When the work is over, and where its result or its error is."""

    status_field: str
    success_values: tuple[str, ...] = ()
    failure_values: tuple[str, ...] = ()
    pending_values: tuple[str, ...] = ()
    error_field: str | None = None
    error_details_field: str | None = None
    result_field: str | None = None


class ProgressTracking(Struct, frozen=True, kw_only=True):
    """Where the status tool's answer says how far the work is."""

    progress_field: str | None = None
    message_field: str | None = None
    phase_field: str | None = None
    current_step_field: str | None = None
    total_steps_field: str | None = None
    estimated_remaining_field: str | None = None


class Cancellation(Struct, frozen=True, kw_only=True):
    """Which tool of the same owner stops the work."""

    cancel_tool: str
    cancel_tool_id_param: str
    graceful: bool = False
    cancel_timeout_seconds: Seconds = 30


class AsyncBehavior(Struct, frozen=True, kw_only=True):
    """All of it."""

    status_polling: StatusPolling
    completion_conditions: CompletionConditions
    progress_tracking: ProgressTracking | None = None
    cancellation: Cancellation | None = None


def at_path(value: Any, path: str | None) -> Any:
    """What is at a dotted path; None where there is nothing. An empty path is the value itself."""
    if path is None:
        return None
    for part in path.split(".") if path else ():
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
