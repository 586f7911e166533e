"""What a dead gateway left: calls that it ran, and calls that waited for an answer only it could take.

Above: the gateway at its start, and the sweeper. Below: the store decides who recovers a call, the executor runs it.
"""

import asyncio
from functools import partial

from jackfield.calls import transactions as call_tx
from jackfield.calls.executor import Executor
from jackfield.calls.messages import interrupted, question_closed
from jackfield.calls.questions import is_question
from jackfield.calls.verification import Verification
from jackfield.catalog.catalog import Catalog
from jackfield.model.call import Call
from jackfield.model.principal import Principal
from jackfield.store import Store

MAX_ATTEMPTS = 3


class Recovery:
    """Goes on with what may run again, asks about what another tool knows of, and ends the rest."""

    def __init__(
        self,
        *,
        store: Store,
        catalog: Catalog,
        executor: Executor,
        verification: Verification,
        gateway_id: str,
        sources_listed: asyncio.Event,
    ) -> None:
        """`sources_listed`: until then a tool that is not in the catalog may still come."""
        self._verification = verification
        self._store = store
        self._catalog = catalog
        self._executor = executor
        self._gateway_id = gateway_id
        self._sources_listed = sources_listed

    async def recover(self) -> int:
        """Recover calls whose gateway died while it ran them: idempotent ones run again, of others the tool is
        asked that can say whether they took effect, and where there is none they are interrupted.
        """
        # T6
        recovered = 0
        left: set[str] = set()
        while orphans := [one for one in await self._store.read(call_tx.orphaned_calls) if one.id not in left]:
            for call in orphans:
                if self._may_come_back(call):
                    left.add(call.id)
                else:
                    await self._recover_one(call)
                    recovered += 1
        while parked := await self._store.read(call_tx.orphaned_parks):
            for call in parked:
                await self._end_parked(call)
            recovered += len(parked)
        return recovered

    async def _end_parked(self, call: Call) -> None:
        """What a dead gateway held: nobody can go on with the call, so nobody waits for the answer to its question."""
        assert call.owner is not None
        if is_question(call):
            moved = await self._store.write(partial(call_tx.settle_cancelled, call.id, question_closed(call.id)))
        else:
            moved = await self._store.write(
                partial(call_tx.settle_parked, call.id, interrupted(call.id), owner=call.owner)
            )
        if moved.moved and moved.call is not None:
            self._executor.tell_settled(moved.call)

    def _may_come_back(self, call: Call) -> bool:
        """Whether the call is to run again, and its source has not listed its tools yet. A later round runs it."""
        may_repeat = call.idempotent and call.attempt < MAX_ATTEMPTS and call.verifying is None
        return may_repeat and not self._sources_listed.is_set() and self._catalog.used_by(call) is None

    async def _recover_one(self, call: Call) -> None:
        entry = self._catalog.used_by(call)
        if entry is not None and entry.version != call.tool_version:
            entry = None  # not the tool that was asked for any more
        if call.idempotent and call.attempt < MAX_ATTEMPTS and entry is not None and call.verifying is None:
            moved = await self._store.write(
                partial(call_tx.reclaim, call.id, owner=self._gateway_id, seen=call.attempt)
            )
            if moved.moved and moved.call is not None:
                # The key that asked may be gone by now; a repeat asks nobody else for anything.
                nobody = Principal(name=call.principal, scopes=frozenset())
                self._executor.begin(moved.call, entry, principal=nobody)
            return
        if call.may_be_verified:
            await self._verification.take(call, "interrupted")
            return
        outcome = interrupted(call.id)
        moved = await self._store.write(
            partial(
                call_tx.settle_executed,
                call.id,
                outcome,
                attempt=call.attempt,
                duration_ms=None,
                large_result=self._store.large_result,
            )
        )
        if moved.moved and moved.call is not None:
            self._executor.tell_settled(moved.call)
