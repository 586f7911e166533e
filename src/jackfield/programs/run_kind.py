"""A program as a run: its code, its log, what it asked for, and the call that it carries out.

Above: the handlers of runs. Below: the journal. A program ends with its call, whose outcome never changes, so one that
failed is not resumed.
"""

from functools import partial

import msgspec

from jackfield.calls import transactions as call_tx
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.rows import whole_result
from jackfield.errors import Conflict
from jackfield.model.call import Failed
from jackfield.model.principal import Principal
from jackfield.programs import transactions as program_tx
from jackfield.programs.execution import ProgramCode
from jackfield.programs.journal import StepRecord
from jackfield.runs import transactions as run_tx
from jackfield.runs.kinds import JournalStep, RunDetails, RunParent, not_resumed
from jackfield.runs.listing import RunRow
from jackfield.runs.transactions import RunStep
from jackfield.store import Store


class ProgramRuns:
    """Programs for `/api/runs`."""

    def __init__(self, *, store: Store, pipeline: Pipeline) -> None:
        self._store = store
        self._pipeline = pipeline

    async def details(self, run: RunRow, _principal: Principal) -> RunDetails | None:
        journal = await self._store.read(partial(run_tx.read_journal, run.id))
        if journal is None:
            return None
        call = await self._store.read(partial(call_tx.get_call, program_tx.call_of(run.id)))
        made = [one for step in journal.steps for one in step.calls]
        steps = [_shown(step) for step in journal.steps]
        if call is None:  # pruned before its run
            return RunDetails(calls=made, steps=steps)
        return RunDetails(
            calls=made,
            steps=steps,
            input=msgspec.json.decode(call.arguments, type=ProgramCode),
            result=None if call.is_withheld or call.error is not None else await whole_result(self._store, call),
            error=call.error if isinstance(call.outcome, Failed) else None,
            parent=RunParent(call_id=call.id, run_id=call.run_id),
        )

    async def cancel(self, run: RunRow, principal: Principal) -> None:
        await self._pipeline.cancel(program_tx.call_of(run.id), principal=principal)

    async def resume(self, run: RunRow, _principal: Principal) -> None:
        if run.status not in ("failed", "cancelled"):
            raise not_resumed(run)
        raise Conflict(
            f"Program '{run.id}' ended with its call, which has told its failure to whoever made it. The calls that it "
            "made stand: call run_program again for the rest."
        )


def _shown(step: RunStep) -> JournalStep:
    record = msgspec.json.decode(step.message, type=StepRecord)
    asks = [msgspec.to_builtins(ask) for ask in record.asks]
    return JournalStep(n=step.n, asks=asks, log=record.log, recorded_at=step.created_at)
