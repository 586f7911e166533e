"""Plays moves of `protocol.py` on real stores, by a clock that stands still until it is told to go on.

`clock_ms()` reads a table of one row here, so that a model can know to the millisecond what the database will find
due. Above: `test_moves_machine.py`. Below: the stores.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import Phase, settings
from msgspec import Raw, Struct
from msgspec.structs import replace

from jackfield.agents.cycle_transactions import agents_to_wake, cycle_from, orphaned_cycles
from jackfield.calls import login_transactions as login_tx
from jackfield.calls import operation_transactions as operation_tx
from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import call_from
from jackfield.calls.transactions import Moved, Report
from jackfield.calls.waiting import Slot, slot_of
from jackfield.model.call import Call, CallStatus, Delivery, Done, Failed, FirstReply, LoginWait, Outcome, Pending, done
from jackfield.model.space import call_message_id
from jackfield.spaces import transactions as space_tx
from jackfield.store import Store, open_store, postgres_server, scripts
from jackfield.store.inserts import WORDS
from jackfield.store.scripts import Row as StoredRow
from jackfield.store.scripts import Script, Sql
from jackfield.store.sqlite import SqliteStore
from tests.store.cycles import known
from tests.store.protocol import VERIFY_MS, Cycle, Event, Lease, Row

EPOCH = 1_000_000
AGENTS = ("ada", "bob")
SPACE = "lobby"
"""Where every other call is shown."""
TABLES = ("calls", "inbox", "gateways", "runs", "steps", "consciousness", "space_messages", "space_events")
SWEEPS = ("due_waits", "due_expiries", "overdue_calls", "orphaned_waits", "undelivered_calls")
EVENTS = "SELECT event_id, agent, status, cycle_id, not_before, data FROM inbox ORDER BY seq"
LOGIN = LoginWait(source="test", principal="ops", scopes=("repo", "user"))
CLOCK = "(SELECT now FROM test_clock)"


T = TypeVar("T")


class Bench:
    """One database with as many stores on it as there can be gateways, and a loop to run them on."""

    def __init__(self, stores: Sequence[Store], runner: asyncio.Runner) -> None:
        self.stores = stores
        self.is_shared = stores[0].is_shared
        self.run = runner.get_loop().run_until_complete

    def clear(self) -> None:
        """An empty database at the beginning of time."""
        for table in TABLES:
            self._write(f"DELETE FROM {table}")
        self.set_clock(EPOCH)

    def set_clock(self, now: int) -> None:
        self._write("UPDATE test_clock SET now = :now", now=now)

    def do(self, begin: Callable[[], Awaitable[Any]]) -> Any:
        """Run what must be begun while the loop runs."""

        async def done() -> Any:
            return await begin()

        return self.run(done())

    def write(self, store: Store, script: Callable[[], Script[T]]) -> T:
        """Run a transaction."""

        async def written() -> T:
            return await store.write(script)

        return self.run(written())

    def rows(self) -> dict[str, Row]:
        return {row.id: row for row in map(from_store, self.run(self._read("SELECT * FROM calls")))}

    def events(self) -> dict[str, Event]:
        return events_from(self.run(self._read(EVENTS)))

    def forget(self, call_id: str) -> None:
        """As if this call had never been made."""
        self._write("DELETE FROM calls WHERE id = :id", id=call_id)
        self._write("DELETE FROM inbox WHERE event_id = :id", id=f"tr:{call_id}")
        self._write("DELETE FROM space_messages WHERE id = :id", id=call_message_id(call_id))

    async def look(self, *, tools: Sequence[str], clients: Sequence[str]) -> "Sight":
        """All there is to see now, by every query of the sweeper and the tool servers."""
        store, stored = self.stores[0], await self._read("SELECT * FROM calls")
        gateways = await self._read("SELECT id, alive_until, dead FROM gateways")
        found = {query: set(await store.read(partial(call_tx.ids_in, query))) for query in SWEEPS}
        found["orphaned_calls"] = _ids(await store.read(call_tx.orphaned_calls))
        found["orphaned_parks"] = _ids(await store.read(call_tx.orphaned_parks))
        found["unclaimed_calls"] = _ids(await store.read(call_tx.unclaimed_calls))
        found["settled_among"] = set(
            await store.read(partial(call_tx.settled_among, [*(row["id"] for row in stored), "tools", "offer:x"]))
        )
        found["waiting for a login"] = set(await store.read(partial(login_tx.waiting_for, "test", "ops", limit=500)))
        found["orphaned_cycles"] = {cycle.id for cycle in await store.read(orphaned_cycles)}
        found["agents_to_wake"] = set(await store.read(agents_to_wake))
        for tool in tools:
            found[f"to offer: {tool}"] = _ids(await store.read(partial(call_tx.calls_to_offer, tool)))
        for client in clients:
            found[f"offered to: {client}"] = _ids(await store.read(partial(call_tx.calls_offered_to, client)))
        return Sight(
            stored=stored,
            events=await self._read(EVENTS),
            cycles=await self._read("SELECT * FROM runs WHERE kind = 'cycle'"),
            steps=await self._read("SELECT * FROM steps"),
            minds=await self._read("SELECT * FROM consciousness"),
            shown=[Shown.read(row["metadata"]) for row in await self._read("SELECT metadata FROM space_messages")],
            gateways={row["id"]: Lease(row["alive_until"], bool(row["dead"])) for row in gateways},
            found=found,
        )

    def _write(self, sql: str, **values: Any) -> None:
        self.do(lambda: self.stores[0].write(partial(scripts.run, self._statement(sql), **values)))

    async def _read(self, sql: str) -> list[StoredRow]:
        return list(await self.stores[0].read(partial(scripts.run, self._statement(sql))))

    def _statement(self, sql: str) -> Any:
        return Sql("of the test", sql)


class Shown(Struct, frozen=True, rename="camel"):
    """What a space sees of a call."""

    tool_call_id: str
    status: str
    args: Raw

    @classmethod
    def read(cls, metadata: str) -> "Shown":
        return msgspec.json.decode(metadata, type=cls)


class Sight(Struct, frozen=True, kw_only=True):
    """A database as it is seen after one step."""

    stored: list[StoredRow]
    events: list[StoredRow]
    cycles: list[StoredRow]
    steps: list[StoredRow]
    minds: list[StoredRow]
    shown: list[Shown]
    gateways: dict[str, Lease]
    found: dict[str, set[str]]
    """What each query finds."""


def _ids(calls: Sequence[Call]) -> set[str]:
    return {call.id for call in calls}


@contextmanager
def a_bench(urls: Sequence[str], folder: Path) -> Iterator[Bench]:
    """Open a store for each url, on a clock of the test's own."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        for words in (WORDS, postgres_server.WORDS):
            patch.setitem(words, "clock_ms()", CLOCK)
        stores = [open_store(url, folder=folder, data=folder) for url in urls]
        for store in stores:
            runner.run(store.open())
        bench = Bench(stores, runner)
        bench._write("CREATE TABLE test_clock (now BIGINT)")
        bench._write("INSERT INTO test_clock (now) VALUES (0)")
        runner.run(known(stores[0], *AGENTS))
        bench.do(lambda: stores[0].write(partial(space_tx.ensure_space, SPACE, name="Lobby")))
        try:
            yield bench
        finally:
            bench._write("DROP TABLE test_clock")
            for store in stores:
                runner.run(store.close())


Player = Callable[..., Awaitable[Moved | bool]]

PLAYERS: dict[str, Player] = {
    "submit": lambda store, id_, outcome: store.write(
        partial(call_tx.settle_submitted, id_, to_outcome(outcome), large_result=store.large_result)
    ),
    "executed": lambda store, id_, outcome, attempt: store.write(
        partial(
            call_tx.settle_executed,
            id_,
            to_outcome(outcome),
            attempt=attempt,
            duration_ms=1.0,
            large_result=store.large_result,
        )
    ),
    "reject": lambda store, id_: store.write(
        partial(call_tx.settle_rejected, id_, _failed("rejected"), large_result=store.large_result)
    ),
    "cancel": lambda store, id_: store.write(partial(call_tx.settle_cancelled, id_, _failed("cancelled"))),
    "expire": lambda store, id_: store.write(partial(call_tx.settle_expired, id_, _failed("expired"))),
    "overdue": lambda store, id_: store.write(partial(call_tx.settle_overdue, id_, _failed("timeout"))),
    "flip": lambda store, id_: store.write(partial(call_tx.flip, id_)),
    "abandon": lambda store, id_: store.write(partial(call_tx.abandon_wait, id_)),
    "report": lambda store, id_, limit, holder, offer, begins: store.write(
        partial(
            call_tx.report_progress, id_, limit_ms=limit, report=Report(holder=holder, attempt=offer, begins=begins)
        )
    ),
    "approve_to_run": lambda store, id_, arguments: store.write(
        partial(call_tx.approve, id_, runs_here=True, arguments=arguments)
    ),
    "approve_to_wait": lambda store, id_, arguments: store.write(
        partial(call_tx.approve, id_, runs_here=False, arguments=arguments)
    ),
    "claim": lambda store, id_, owner: store.write(partial(call_tx.claim, id_, owner=owner)),
    "reclaim": lambda store, id_, owner, seen: store.write(partial(call_tx.reclaim, id_, owner=owner, seen=seen)),
    "verify": lambda store, id_, owner, seen, why: store.write(
        partial(call_tx.take_to_verify, id_, owner=owner, seen=seen, why=why, left_ms=VERIFY_MS)
    ),
    "verify_late": lambda store, id_, owner, seen, why: store.write(
        partial(call_tx.take_to_verify, id_, owner=owner, seen=seen, why=why, left_ms=VERIFY_MS, is_late=True)
    ),
    "park": lambda store, id_, owner, attempt: _parked(store, id_, owner=owner, attempt=attempt),
    "park_operation": lambda store, id_, attempt: store.write(
        partial(operation_tx.park_operation, id_, Raw(b"{}"), attempt=attempt)
    ),
    "park_for_login": lambda store, id_, attempt: store.write(
        partial(login_tx.park_for_login, id_, LOGIN, attempt=attempt)
    ),
    "login_done": lambda store, id_: store.write(partial(login_tx.login_done, id_)),
    "resume": lambda store, id_, owner, seen: _resumed(store, id_, owner=owner, attempt=seen),
    "interrupt": lambda store, id_, owner: store.write(
        partial(call_tx.settle_parked, id_, _failed("interrupted"), owner=owner)
    ),
    "mark_sent": lambda store, id_: store.write(partial(call_tx.mark_sent, id_)),
    "give": lambda store, id_: store.write(partial(call_tx.give, id_)),
    "offer": lambda store, id_, client, gateway: store.write(
        partial(call_tx.offer, id_, client=client, gateway=gateway)
    ),
}
"""The move of each name in `protocol.CALL_MOVES`, on a store."""


async def _parked(store: Store, call_id: str, *, owner: str, attempt: int) -> Moved:
    """T13 without the question's own row, which the machine knows nothing of."""
    return await store.write(partial(call_tx.shown_move, "park", call_id, attempt=attempt, owner=owner))


async def _resumed(store: Store, call_id: str, *, owner: str, attempt: int) -> Moved:
    call = await store.read(partial(call_tx.get_call, call_id))
    left_ms = 0 if call is None else call.timeout_ms
    return await store.write(partial(call_tx.resume, call_id, attempt=attempt, owner=owner, left_ms=left_ms))


async def play(store: Store, name: str, call_id: str, **values: Any) -> bool:
    """Make one move; whether it was made, or found zero rows."""
    answer = await PLAYERS[name](store, call_id, **values)
    return answer if isinstance(answer, bool) else answer.moved


def to_outcome(text: str) -> Done | Failed:
    """`done:JSON` or `failed:CODE`."""
    kind, _, rest = text.partition(":")
    return Done(Raw(rest.encode())) if kind == "done" else _failed(rest)


def _failed(code: str) -> Failed:
    return Failed(code, f"It failed: {code}.", done({"error": code}).result)


def is_shown(call_id: str) -> bool:
    return call_id[-1] in "02468"


def to_call(row: Row) -> Call:
    """The call that T1 is given for a row of the model."""
    return Call(
        id=row.id,
        run_id="run_1",
        tool=row.tool,
        source="test",
        tool_version="v1",
        arguments=Raw(row.arguments.encode()),
        principal="ops",
        status=CallStatus(row.status),
        agent=row.agent,
        space_id=SPACE,
        shown="whole" if is_shown(row.id) else None,
        delivery=Delivery(row.delivery) if row.delivery else None,
        first_reply=FirstReply(row.first_reply) if row.first_reply else None,
        idempotent=row.idempotent,
        verify=row.verify,
        attempt=row.attempt,
        owner=row.owner,
        waiter=row.waiter,
        timeout_ms=row.timeout,
        expires_in_ms=row.expires_in,
    )


def from_store(stored: StoredRow) -> Row:
    """A stored row in the model's words."""
    call = call_from(stored)
    return Row(
        id=call.id,
        tool=call.tool,
        agent=call.agent,
        idempotent=call.idempotent,
        waiter=call.waiter,
        timeout=call.timeout_ms,
        expires_in=call.expires_in_ms,
        created=call.created_at,
        arguments=bytes(call.arguments).decode(),
        status=call.status.value,
        delivery=call.delivery.value if call.delivery else None,
        first_reply=call.first_reply.value if call.first_reply else None,
        outcome=_told(call.outcome),
        attempt=call.attempt,
        owner=call.owner,
        sent=call.sent_at,
        deadline=call.deadline,
        expires=call.expires_at,
        finished=call.finished_at,
        offered_to=call.offered_to,
        offered_by=stored["offered_by"],
        offers=call.offers,
        left=stored["server_left_at"],
        begun=stored["begun_offer"],
        cycle=call.cycle_id,
        step=call.step,
        idx=call.idx,
        logins=0 if call.login is None else call.login.times,
        last_attempt=stored["login_attempt"],
        since=stored["login_since"],
        verify=call.verify,
        verifying=call.verifying,
        verifications=call.verifications,
    )


def events_from(stored: Sequence[StoredRow]) -> dict[str, Event]:
    """An inbox in the model's words."""
    return {
        row["event_id"]: Event(
            agent=row["agent"], status=row["status"], cycle=row["cycle_id"], not_before=row["not_before"]
        )
        for row in stored
    }


def cycle_of(stored: StoredRow) -> Cycle:
    """A stored cycle in the model's words."""
    cycle = cycle_from(stored)
    return Cycle(
        id=cycle.id,
        agent=cycle.agent,
        number=cycle.number,
        owner=cycle.owner,
        consumed=cycle.consumed,
        created=cycle.created_at,
        status=cycle.status.value,
        epoch=cycle.epoch,
        tries=cycle.tries,
        finished=cycle.finished_at,
    )


def slot_in(stored: StoredRow) -> str | None:
    """What `slot_of` reads off a stored row, in the model's words."""
    slot: Slot | None = slot_of(call_from(stored))
    if slot is None:
        return None
    if isinstance(slot.outcome, Pending):
        return "pending"
    is_first_reply = stored["first_reply"] == "timeout"
    return "timeout" if is_first_reply and _told(slot.outcome) == "failed:timeout" else _told(slot.outcome)


def _told(outcome: Outcome) -> str | None:
    match outcome:
        case Done(result):
            return f"done:{bytes(result).decode()}"
        case Failed(code):
            return f"failed:{code}"
        case Pending():
            return None


def spoil(bench: Bench, statement: str, *, guard: str, instead: str) -> None:
    """Take one guard out of a statement of the store."""
    [store] = bench.stores
    assert isinstance(store, SqliteStore)
    right = store._statements[statement]
    assert guard in right.sql
    store._statements[statement] = replace(right, sql=right.sql.replace(guard, instead))


def searching(examples: int, steps: int) -> settings:
    """Plays to find a spoilt store with: the same in every run, since by chance alone a rare one would be missed."""
    return settings(
        max_examples=examples, stateful_step_count=steps, phases=[Phase.generate], database=None, derandomize=True
    )
