"""What the house sees of its memory: one method per move, each one transaction, acknowledged after its fsync.

Above: calls, web, app. Below: `moves.py`, run by whichever store this is. A new database is a subclass with `open`,
`close`, `_write` and `_read`; `tests/contracts/` says what it must hold.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import Struct

from jackfield.model.call import Call, CallStatus, Done, Failed
from jackfield.model.large_result import LARGE_RESULT
from jackfield.store import moves, responses
from jackfield.store.bus import Bus
from jackfield.store.cycles import Cycles
from jackfield.store.inboxes import Inbox
from jackfield.store.kept_tools import KeptTools
from jackfield.store.large_results import LargeResults
from jackfield.store.minds import Minds
from jackfield.store.moves import Claim, Moved, Report, Script, Started
from jackfield.store.operations import Operations
from jackfield.store.pins import PinnedTools
from jackfield.store.preferences import Preferences
from jackfield.store.responses import Responses
from jackfield.store.runs import Runs
from jackfield.store.sessions import KeptSessions
from jackfield.store.spaces import Spaces
from jackfield.store.statements import Statement, make_statement

__all__ = ["CallFilter", "Claim", "Login", "Moved", "Page", "Report", "Started", "Store"]

T = TypeVar("T")
DAY_MS = 86_400_000
LOGIN_DAYS = 30


class CallFilter(Struct, frozen=True, kw_only=True):
    """Which calls a page shows; what is not given does not matter."""

    status: tuple[CallStatus, ...] = ()
    tool: str | None = None
    agent: str | None = None
    run_id: str | None = None
    principal: str | None = None
    """This key's own calls."""
    or_for_others_of: tuple[str, ...] = ()
    """Beside them, calls that somebody else is or was asked to answer, of tools that fit one of these globs. A glob
    with `[` may let more through; whoever asks knows its own."""


class Page(Struct, frozen=True):
    """Calls, newest first, and where the next page begins."""

    calls: list[Call]
    next_cursor: str | None


class Login(Struct, frozen=True, kw_only=True):
    """Who is signed in by a cookie, and the digest of the key that opened the login."""

    principal: str
    key: str


class Store(ABC):
    """Durable memory. Every method either happened, on disk, or raised."""

    placeholder: ClassVar[str]
    """How the database writes a parameter: `?` or `$`."""
    is_shared: ClassVar[bool] = False
    """Whether other gateways may use the same database at the same time."""

    def __init__(self, *, large_result: int = LARGE_RESULT) -> None:
        self.bus = Bus()
        self.large_result = large_result
        """Bytes above which a result is kept apart from its call; 0: none is."""
        self.large_results = LargeResults(self._read)
        self.inbox = Inbox(self._write, self._read, placeholder=self.placeholder)
        self.cycles = Cycles(self._write, self._read, large_result=large_result)
        self.spaces = Spaces(self._write, self._read)
        self.minds = Minds(self._write, self._read)
        self.preferences = Preferences(self._write, self._read)
        self.kept_tools = KeptTools(self._write, self._read)
        self.pins = PinnedTools(self._write, self._read)
        self.operations = Operations(self._write, self._read)
        self.responses = Responses(self._write, self._read)
        self.runs = Runs(self._read)
        self.sessions = KeptSessions(self._write, self._read)

    @abstractmethod
    async def open(self) -> None:
        """Connect and bring the schema up to date."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what was accepted, then let go."""

    @abstractmethod
    def _write(self, script: Callable[[], Script[T]], *, wakes: str | None = None) -> asyncio.Future[T]:
        """Run a script in a transaction of a shared, bounded batch. `wakes` is published after the commit.

        Once this returns, the write goes on whether or not somebody still waits for it. A script that raises fails
        alone. More than the queue holds: `StoreBusy`, at once.
        """

    @abstractmethod
    async def _read(self, script: Callable[[], Script[T]]) -> T:
        """Run a script that writes nothing."""

    def wake(self, topic: str) -> None:
        """Wake whoever waits for `topic`, at any gateway, though nothing was written about it just now."""
        self.bus.publish(topic)

    def tell_others(self, topic: str) -> None:  # noqa: B027 - most stores have no others
        """Have the other gateways hear `topic` (`Bus.on_foreign`), within a moment and many at once."""

    async def enter(self, gateway: str) -> None:
        """A gateway begins: it is alive. Where only one can be, those whose place it takes are dead."""
        if self.is_shared:
            await self._write(partial(moves.run, "insert_gateway", id=gateway))
        else:
            await self._write(partial(moves.enter_alone, gateway))

    async def leave(self, gateway: str) -> None:
        """A gateway has stopped its work for good: others may go on with what it left."""
        await self._write(partial(moves.run, "bury_gateway", id=gateway))

    async def bury_late(self, *, besides: str = "") -> list[str]:
        """Declare those gateways dead that have not beaten in time; never the one that asks, which is at work again."""
        rows = await self._write(partial(moves.run, "bury_late_gateways", besides=besides))
        return [str(row["id"]) for row in rows]

    async def beat(self, gateway: str) -> bool:
        """Still alive. False: this gateway has been declared dead and must stop its work."""
        return await self._write(partial(moves.one, "beat", id=gateway)) is not None

    def start_call(
        self, call: Call, *, age_ms: int = 0, claim: Claim | None = None, wakes: str | None = None
    ) -> asyncio.Future[Started]:
        """T1: the call is on record before anything runs, or `age_ms` into it for a short one that grew long."""
        return self._write(partial(moves.start_call, call, age_ms=age_ms, claim=claim), wakes=wakes)

    def record_settled(
        self, call: Call, outcome: Done | Failed, *, age_ms: int, duration_ms: float
    ) -> asyncio.Future[Call]:
        """T1 and T2 in one, for a call that ended before it was on record."""
        # Nobody can wait for a call that was never on record, so it wakes nobody.
        script = partial(moves.record_settled, call, outcome, large_result=self.large_result)
        return self._write(partial(script, age_ms=age_ms, duration_ms=duration_ms))

    async def settle_executed(
        self, call_id: str, outcome: Done | Failed, *, attempt: int, duration_ms: float | None
    ) -> Moved:
        """T2 by the gateway that ran this attempt."""
        extra = {"attempt": attempt, "duration_ms": duration_ms}
        return await self._settle("settle_executed", call_id, outcome, **extra)

    async def settle_submitted(self, call_id: str, outcome: Done | Failed, *, answered_by: str | None = None) -> Moved:
        """T2 by whoever answers a call that somebody else executes."""
        return await self._settle("settle_submitted", call_id, outcome, answered_by=answered_by)

    async def settle_rejected(self, call_id: str, outcome: Failed, *, decided_by: str | None = None) -> Moved:
        """T2 by a person who says no."""
        return await self._settle("settle_rejected", call_id, outcome, decided_by=decided_by)

    async def settle_cancelled(self, call_id: str, outcome: Failed) -> Moved:
        """T2 by whoever stops it."""
        return await self._settle("settle_cancelled", call_id, outcome)

    async def settle_expired(self, call_id: str, outcome: Failed) -> Moved:
        """T2 by the sweeper, when nobody answered in time."""
        return await self._settle("settle_expired", call_id, outcome)

    async def settle_overdue(self, call_id: str, outcome: Failed) -> Moved:
        """T2 by the sweeper, when an executor did not keep its own deadline."""
        return await self._settle("settle_overdue", call_id, outcome)

    async def _settle(self, statement: str, call_id: str, outcome: Done | Failed, **extra: Any) -> Moved:
        script = partial(moves.settle, statement, call_id, outcome, large_result=self.large_result, **extra)
        return await self._write(script, wakes=call_id)

    async def flip(self, call_id: str) -> Moved:
        """T3: nobody answered a waiting call by its deadline; from now on the answer goes to the inbox."""
        return await self._write(partial(moves.move, "flip_one", call_id), wakes=call_id)

    async def abandon_wait(self, call_id: str) -> Moved:
        """T3 at once: the HTTP client that waited has hung up."""
        return await self._write(partial(moves.move, "abandon_wait", call_id), wakes=call_id)

    async def move_deadline(self, call_id: str, *, attempt: int, left_ms: int) -> Moved:
        """The executor's own: the call has so much time left, from now."""
        return await self._write(partial(moves.move, "move_deadline", call_id, attempt=attempt, left_ms=left_ms))

    async def report_progress(self, call_id: str, *, limit_ms: int, report: Report) -> Moved:
        """Progress buys a waiting call another timeout, until `limit_ms` after its start, and keeps others from it."""
        script = partial(moves.report_progress, call_id, limit_ms=limit_ms, report=report)
        return await self._write(script, wakes=call_id)

    async def offer(self, call_id: str, *, client: str, gateway: str) -> Moved:
        """One tool server takes a call; moved is False when another has it or it is over."""
        return await self._write(partial(moves.move, "offer", call_id, client=client, gateway=gateway))

    async def calls_to_offer(self, tool: str, *, limit: int = 500) -> list[Call]:
        """Calls of `tool` that no tool server has."""
        return await self._read(partial(moves.calls_in, "calls_to_offer", tool=tool, limit=limit))

    async def calls_offered_to(self, client: str, *, limit: int = 500) -> list[Call]:
        """Calls that this tool server was given and has not answered."""
        return await self._read(partial(moves.calls_in, "calls_offered_to", client=client, limit=limit))

    async def server_left(self, client: str, *, gateway: str) -> list[str]:
        """A tool server is gone: the tools of calls that may go to another at once."""
        return await self._write(partial(moves.server_left, client, gateway=gateway))

    async def release_offers(self) -> list[str]:
        """The tools of calls that another server may have: their own has been gone for long, or with its gateway."""
        return await self._write(moves.release_offers)

    async def ids_in(self, query: str, *, limit: int = 500, **values: Any) -> list[str]:
        """The call ids that one of the sweeper's queries finds."""
        rows = await self._read(partial(moves.run, query, limit=limit, **values))
        return [str(row["id"]) for row in rows]

    async def settled_among(self, call_ids: Iterable[str]) -> list[str]:
        """Those of the calls that are over, by one query for all."""
        rows = await self._read(partial(moves.run, "settled_among", ids=_json_list(call_ids)))
        return [str(row["id"]) for row in rows]

    async def approve(
        self, call_id: str, *, runs_here: bool, arguments: str | None = None, decided_by: str | None = None
    ) -> Moved:
        """T4: a person said yes, perhaps to other arguments."""
        statement = "approve_to_run" if runs_here else "approve_to_wait"
        script = partial(moves.approve, statement, call_id, arguments=arguments, decided_by=decided_by)
        return await self._write(script, wakes=call_id)

    async def claim(self, call_id: str, *, owner: str) -> Moved:
        """T5: this gateway runs an approved call."""
        return await self._write(partial(moves.move, "claim", call_id, owner=owner))

    async def reclaim(self, call_id: str, *, owner: str, seen: int) -> Moved:
        """T6: this gateway runs an idempotent call again whose gateway died."""
        return await self._write(partial(moves.move, "reclaim", call_id, owner=owner, seen=seen))

    async def park(self, call_id: str, question: Call, *, attempt: int, owner: str) -> Moved:
        """T13: the call that `owner` executes waits for the answer to `question`, which is put on record with it."""
        script = partial(moves.park, call_id, question, attempt=attempt, owner=owner)
        return await self._write(script, wakes=call_id)

    async def resume(self, call_id: str, *, attempt: int, owner: str, left_ms: int) -> Moved:
        """The end of T13: `owner` goes on with a call that it had parked, with so much time left."""
        script = partial(moves.resume, call_id, attempt=attempt, owner=owner, left_ms=left_ms)
        return await self._write(script, wakes=call_id)

    async def settle_parked(self, call_id: str, outcome: Failed, *, owner: str) -> Moved:
        """T2 for a parked call whose gateway died."""
        return await self._settle("settle_parked", call_id, outcome, owner=owner)

    async def orphaned_parks(self, *, limit: int = 500) -> list[Call]:
        """Calls that a dead gateway had parked, and questions that it had asked."""
        return await self._read(partial(moves.calls_in, "orphaned_parks", limit=limit))

    async def questions_of(self, call: Call) -> list[Call]:
        """Questions in the call's run that are not answered, the oldest first."""
        return await self._read(partial(moves.calls_in, "open_questions", run_id=call.run_id))

    def keep_trace(self, call_id: str, trace: str) -> asyncio.Future[Any]:
        """Where a tool's own code failed."""
        return self._write(partial(moves.run, "put_trace", call_id=call_id, trace=trace))

    async def trace_of(self, call_id: str) -> str | None:
        row = await self._read(partial(moves.one, "get_trace", call_id=call_id))
        return None if row is None else str(row["trace"])

    async def mark_sent(self, call_id: str) -> bool:
        """T11: the HTTP caller has the last byte."""
        return await self._write(partial(moves.one, "mark_sent", id=call_id)) is not None

    async def give(self, call_id: str) -> Moved:
        """T12: the HTTP caller is gone; its outcome goes to the inbox."""
        return await self._write(partial(moves.give, call_id), wakes=call_id)

    async def orphaned_calls(self, *, limit: int = 500) -> list[Call]:
        """Calls that a dead gateway was running."""
        return await self._read(partial(moves.calls_in, "orphaned_calls", limit=limit))

    async def unclaimed_calls(self, *, limit: int = 500) -> list[Call]:
        """Approved calls that no gateway has begun."""
        return await self._read(partial(moves.calls_in, "unclaimed_calls", limit=limit))

    async def get_call(self, call_id: str) -> Call | None:
        found = await self._read(partial(moves.calls_in, "get_call", id=call_id))
        return found[0] if found else None

    async def calls_among(self, call_ids: Iterable[str]) -> list[Call]:
        """Those of the calls that are on record, without arguments and results, by one query for all."""
        return await self._read(partial(moves.calls_in, "calls_among", ids=_json_list(call_ids)))

    async def call_under_key(self, principal: str, key: str) -> str | None:
        """The call that this principal made with an idempotency key, by its id."""
        rows = await self._read(partial(moves.run, "get_idempotency", principal=principal, key=key))
        return rows[0]["call_id"] if rows else None

    async def list_calls(self, wanted: CallFilter, *, limit: int, cursor: str | None = None) -> Page:
        """One page, newest first. A cursor is the last id seen."""
        statement, values = _list_statement(wanted, limit=limit + 1, cursor=cursor, placeholder=self.placeholder)
        calls = await self._read(partial(moves.calls_in, statement, **values))
        return Page(calls[:limit], calls[limit - 1].id if len(calls) > limit else None)

    async def principal_of_run(self, run_id: str) -> str | None:
        """Who made this run's calls; None for a run that is not known."""
        row = await self._read(partial(moves.one, "first_call_of_run", run_id=run_id))
        return None if row is None else str(row["principal"])

    async def save_login(self, digest: str, login: Login) -> None:
        """Keep a browser signed in for a month."""
        values = {"principal": login.principal, "key_digest": login.key, "lifetime_ms": LOGIN_DAYS * DAY_MS}
        await self._write(partial(moves.run, "put_login", digest=digest, **values))

    async def find_login(self, digest: str) -> Login | None:
        row = await self._read(partial(moves.one, "get_login", digest=digest))
        return None if row is None else Login(principal=row["principal"], key=row["key_digest"])

    async def drop_login(self, digest: str) -> None:
        await self._write(partial(moves.run, "delete_login", digest=digest))

    async def prune(self, *, keep_days: float, limit: int = 500) -> int:
        """Delete one small step of what is older than `keep_days`; how many went of whatever went most."""
        before = await self.now_ms() - int(keep_days * DAY_MS)
        first_kept = f"call_{max(before, 0):012x}"
        gone = await self._write(partial(moves.prune_calls, before_id=first_kept, limit=limit))
        first_response = f"resp_{max(before, 0):012x}"
        responses_gone = await self._write(partial(responses.prune, before_id=first_response, limit=limit))
        await self.cycles.prune(before=before, limit=limit)
        said_gone = await self.spaces.prune(before=before, limit=limit)
        told_gone = await self._write(partial(moves.run, "prune_inbox", before=before, limit=limit))
        for name, values in (
            ("prune_idempotency", {"limit": limit}),
            ("prune_logins", {"limit": limit}),
            ("prune_ways", {"before": before, "limit": limit}),
            ("prune_sessions", {"before": before, "limit": limit}),
            ("prune_gateways", {"before": before}),
        ):
            await self._write(partial(moves.run, name, **values))
        return max(gone, responses_gone, said_gone, len(told_gone))

    async def now_ms(self) -> int:
        """The database's clock; also the proof that it answers."""
        row = await self._read(partial(moves.one, "ping"))
        assert row is not None
        return int(row["now"])


def _list_statement(
    wanted: CallFilter, *, limit: int, cursor: str | None, placeholder: str
) -> tuple[Statement, dict[str, Any]]:
    """The query for a page, with only the conditions that were asked for, so that each can use its index."""
    equal = {"tool": wanted.tool, "agent": wanted.agent, "run_id": wanted.run_id}
    values: dict[str, Any] = {name: value for name, value in equal.items() if value is not None}
    conditions = [f"{name} = :{name}" for name in values]
    if wanted.principal is not None:
        patterns = {f"glob_{'x' * number}": _like(glob) for number, glob in enumerate(wanted.or_for_others_of)}
        conditions.append(_seen_by(list(patterns)))
        values |= {"principal": wanted.principal, **patterns}
    if wanted.status:
        conditions.append(f"status IN ({_words(wanted.status)})")
    if cursor is not None:
        conditions.append("id < :cursor")
        values["cursor"] = cursor
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql = f"SELECT * FROM calls{where} ORDER BY id DESC LIMIT :limit"  # noqa: S608 - built from our own names
    return make_statement("list_calls", sql, placeholder), values | {"limit": limit}


def _seen_by(patterns: Sequence[str]) -> str:
    """Own calls, or those for others whose tool is like one of the patterns (`Call.for_others`)."""
    if not patterns:
        return "principal = :principal"
    likes = " OR ".join(f"tool LIKE :{name} ESCAPE '!'" for name in patterns)
    return f"(principal = :principal OR ((attempt = 0 OR first_reply IS NOT NULL) AND ({likes})))"


def _like(glob: str) -> str:
    """A glob as a pattern for LIKE; any set of characters becomes any character."""
    plain = re.sub(r"\[!?\]?[^\]]*\]", "?", glob)
    return re.sub(r"[%_!]", r"!\g<0>", plain).replace("*", "%").replace("?", "_")


def _words(statuses: Sequence[CallStatus]) -> str:
    return ", ".join(f"'{status.value}'" for status in statuses)


def _json_list(ids: Iterable[str]) -> str:
    return msgspec.json.encode([*ids]).decode()
