"""A session as a run: the calls of its agent and the steps of its model.

Above: the handlers of runs. Below: the registry of sessions.
"""

from functools import partial

from jackfield.calls.permissions import may_see
from jackfield.errors import Conflict
from jackfield.model.principal import Principal
from jackfield.runs.api import calls_of_run
from jackfield.runs.kinds import RunDetails, not_resumed
from jackfield.runs.listing import RunRow
from jackfield.sessions.registry import SessionRegistry
from jackfield.store import Store


class SessionRuns:
    """Sessions for `/api/runs`."""

    def __init__(self, *, store: Store, sessions: SessionRegistry) -> None:
        self._store = store
        self._sessions = sessions

    async def details(self, run: RunRow, principal: Principal) -> RunDetails | None:
        calls = await self._store.read(partial(calls_of_run, run.id))
        return RunDetails(calls=[call for call in calls if may_see(principal, call)])

    async def cancel(self, run: RunRow, principal: Principal) -> None:
        """It ends."""
        if not self._sessions.is_known(run.id):
            raise Conflict(
                f"Session '{run.id}' lives in gateway '{run.owner}', and this is another one. End it there, with "
                f"DELETE /api/sessions/{run.id}."
            )
        await self._sessions.end(self._sessions.find(run.id, principal))

    async def resume(self, run: RunRow, _principal: Principal) -> None:
        if not run.is_over:
            raise not_resumed(run)
        raise Conflict(
            f'A session is opened again by who speaks in it: POST /api/sessions {{"session_id": "{run.id}"}}.'
        )
