"""An agent's cycle as a run: what is on record of it, stopping it, and having its agent try again.

Above: the handlers of runs. Below: the transactions of cycles. Stopping is one transition of any gateway: it fences
whoever has the cycle in hand, who hears of it at once.
"""

from contextlib import suppress
from functools import partial

import msgspec

from jackfield.agents import cycle_transactions as cycle_tx
from jackfield.agents.cycle_transactions import Step
from jackfield.agents.records import inbox_event_record
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.waiting import slot_of
from jackfield.errors import Conflict, Refused
from jackfield.model.principal import Principal
from jackfield.runs.kinds import JournalStep, RunDetails, not_resumed
from jackfield.runs.listing import RunRow
from jackfield.store import Store


class CycleRuns:
    """Cycles for `/api/runs`."""

    def __init__(self, *, store: Store, pipeline: Pipeline) -> None:
        self._store = store
        self._pipeline = pipeline

    async def details(self, run: RunRow, _principal: Principal) -> RunDetails | None:
        journal = await self._store.read(partial(cycle_tx.read_journal, run.id))
        if journal is None:
            return None
        can_resume = run.is_over and await self._store.read(partial(cycle_tx.can_be_tried_again, run.id))
        return RunDetails(
            calls=[call for step in journal.steps for call in step.calls],
            steps=[_shown(step) for step in journal.steps],
            events=[inbox_event_record(event) for event in journal.events],
            can_resume=can_resume,
        )

    async def cancel(self, run: RunRow, principal: Principal) -> None:
        """Its events count as handled, and what it waits for is cancelled. Calls that go on without it stay."""
        reason = f"Stopped by {principal.on_record}."
        stopped = await self._store.write(partial(cycle_tx.stop, run.id, reason=reason))
        if stopped is None:
            raise Conflict(f"Run '{run.id}' is over. There is nothing to cancel.")
        journal = await self._store.read(partial(cycle_tx.read_journal, run.id))
        for call in () if journal is None else (call for step in journal.steps for call in step.calls):
            if slot_of(call) is None:
                with suppress(Refused):
                    await self._pipeline.cancel(call.id, principal=_whoever_made(call.principal))

    async def resume(self, run: RunRow, _principal: Principal) -> None:
        """Its agent is given the cycle's events at once, and wakes for them."""
        if run.status not in ("failed", "cancelled"):
            raise not_resumed(run)
        if not await self._store.write(partial(cycle_tx.try_again, run.id)):
            raise Conflict(
                f"The events of cycle '{run.id}' were given to a later cycle of '{run.agent}'. Look at that one."
            )


def _whoever_made(name: str) -> Principal:
    return Principal(name=name, scopes=frozenset())


def _shown(step: Step) -> JournalStep:
    message = msgspec.json.decode(step.message)
    return JournalStep(n=step.n, items=message["items"], usage=message.get("usage"))
