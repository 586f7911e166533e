"""What each kind of run does for `/api/runs`, beside what is the same for all.

Above: `api.py`. Below: nothing; agents, responses, programs and sessions each have one.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Raw, Struct

from jackfield.errors import Conflict
from jackfield.model.call import Call, CallError
from jackfield.model.principal import Principal
from jackfield.runs.listing import RunRow


class JournalStep(Struct, frozen=True, kw_only=True):
    """One step of a run's journal."""

    n: int
    items: list[Any] | None = None
    """What the model thought, said and asked for, where the journal has it."""
    usage: dict[str, Any] | None = None
    asks: list[Any] | None = None
    """What a program asked for at once."""
    log: str | None = None
    """What it had printed before."""
    recorded_at: int | None = None


class RunParent(Struct, frozen=True, kw_only=True, rename="camel"):
    """The call that a run carries out, and the run that made it."""

    call_id: str
    run_id: str


class RunDetails(Struct, frozen=True, kw_only=True):
    """What is on record of one run beside its row."""

    calls: Sequence[Call] = ()
    """Its own, the first first."""
    steps: Sequence[JournalStep] = ()
    input: Any = None
    """What it was asked for."""
    events: Sequence[Any] | None = None
    """What woke an agent."""
    response: Any = None
    result: Raw | None = None
    error: CallError | None = None
    parent: RunParent | None = None
    can_resume: bool = False


class RunKind(Protocol):
    """One kind of run."""

    async def details(self, run: RunRow, principal: Principal) -> RunDetails | None:
        """All that is on record of it; None: it is gone."""

    async def cancel(self, run: RunRow, principal: Principal) -> None:
        """End a run that is not over. Raises `Conflict` for one that cannot be."""

    async def resume(self, run: RunRow, principal: Principal) -> None:
        """Go on with a run that failed or was interrupted. Raises `Conflict` for one that cannot."""


def not_resumed(run: RunRow) -> Conflict:
    """For a run that is not one that failed."""
    how = "is not over" if not run.is_over else f"is {run.status}"
    return Conflict(f"Run '{run.id}' {how}, so there is nothing to resume. Only a failed run can be resumed.")
