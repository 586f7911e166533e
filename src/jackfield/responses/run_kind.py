"""A response as a run. Above: the handlers of runs. Below: the service of responses."""

from functools import partial

from jackfield.calls.permissions import may_see
from jackfield.errors import ResponseNotFound
from jackfield.model.call import CallError
from jackfield.model.principal import Principal
from jackfield.responses.service import ResponseService
from jackfield.runs import transactions as run_tx
from jackfield.runs.api import calls_of_run
from jackfield.runs.kinds import RunDetails
from jackfield.runs.listing import RunRow
from jackfield.store import Store


class ResponseRuns:
    """Responses for `/api/runs`."""

    def __init__(self, *, store: Store, responses: ResponseService) -> None:
        self._store = store
        self._responses = responses

    async def details(self, run: RunRow, principal: Principal) -> RunDetails | None:
        try:
            found = await self._responses.find(run.id, principal)
        except ResponseNotFound:
            return None
        error = found.resource.error
        calls = await self._store.read(partial(calls_of_run, run.id))
        return RunDetails(
            calls=[call for call in calls if may_see(principal, call)],
            input=found.input,
            response=found.resource,
            error=None if error is None else CallError(error.code, error.message),
            can_resume=await self._can_resume(run),
        )

    async def cancel(self, run: RunRow, principal: Principal) -> None:
        await self._responses.cancel(run.id, principal)

    async def resume(self, run: RunRow, principal: Principal) -> None:
        await self._responses.resume(run.id, principal)

    async def _can_resume(self, run: RunRow) -> bool:
        """Whether it failed, and its journal is there."""
        if run.status != "failed":
            return False
        journaled = await self._store.read(partial(run_tx.get_run, run.id))
        return journaled is not None and journaled.status == "failed" and journaled.request is not None
