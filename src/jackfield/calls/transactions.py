"""Every durable transition of a call, as scripts: the pending-call protocol, T1 to T6, T11 to T13 and T15.

Zero rows always means that somebody else was first. A call that is shown in a space is shown in the transaction that
moves it; one that is not costs nothing more. Every transition publishes the call's id, and one to a status that people
may want to hear of is announced (`announce`).
Above: all that makes and settles calls. Below: the transactions of spaces, `rows.py`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.calls.rows import call_from, identity_values, inbox_data, notes_text, outcome_values
from jackfield.calls.timeline import Arrival
from jackfield.model.call import Call, CallError, CallStatus, Delivery, Done, Doubt, Failed, HookNote
from jackfield.model.event import Event, event_of
from jackfield.protocol.large_results import StoredResult, is_large, set_aside
from jackfield.spaces import transactions as space_tx
from jackfield.store.scripts import INBOX_TOPIC, READY_TOPIC, InsertScript, Row, Script, happened, json_list, one, wake

_WITH_DEADLINE = frozenset({CallStatus.RUNNING, CallStatus.WAITING})
_WITH_EXPIRY = frozenset({CallStatus.PENDING, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN})


class Moved(Struct, frozen=True):
    """What a compare-and-set came to: whether it was ours, and the call as it is now (None: no such call)."""

    call: Call | None
    moved: bool


WAITING_STATUSES = (
    CallStatus.WAITING,
    CallStatus.PENDING,
    CallStatus.PENDING_APPROVAL,
    CallStatus.PENDING_LOGIN,
)
"""Those of calls that wait for somebody."""


class Waiting(Struct, frozen=True, kw_only=True):
    """The calls in one status that wait for somebody."""

    status: CallStatus
    calls: int
    oldest_ms: int
    """How old the oldest is; 0: there is none."""


class Started(Struct, frozen=True):
    """A call that was started, or the earlier one that the same idempotency key had started."""

    call: Call | None
    """None when the key's earlier call has been pruned."""
    fresh: bool
    same_body: bool = True


class Claim(Struct, frozen=True, kw_only=True):
    """An idempotency key as one principal sent it, with the digest of the body it came with."""

    principal: str
    key: str
    digest: str


class Report(Struct, frozen=True, kw_only=True):
    """Who says that a call makes progress, as far as it can be told."""

    holder: str
    """How the ids of the reporting key's tool servers begin."""
    attempt: int = 0
    """The number of the offer it works for; 0: not said."""
    begins: bool = False
    """Whether it asks to begin: nobody else may then."""


class Hooked(Struct, frozen=True, kw_only=True):
    """What hooks made of a call's outcome, besides the outcome itself."""

    notes: tuple[HookNote, ...]
    """Of the whole call, those of earlier hooks too."""
    withheld: Done | Failed | None = None
    """What nobody but administrators may see."""


def start_call(call: Call, *, age_ms: int = 0, claim: Claim | None = None, wakes: str | None = None) -> Script[Started]:
    """Record a call before anything runs, or `age_ms` into it, and take its idempotency key, if it has one."""
    # T1 outside a cycle
    if claim is not None:
        values = {"principal": claim.principal, "key": claim.key}
        taken = yield "insert_idempotency", {**values, "digest": claim.digest, "call_id": call.id}
        if not taken:
            return (yield from _earlier_call(claim))
    rows = yield "insert_call", insert_values(call, age_ms=age_ms)
    if wakes is not None:
        yield wake(wakes)
    started = inserted(call, rows[0])
    if started.shown:
        yield from space_tx.show_call(started, status=space_tx.status_shown(started))
    yield from announce(started)
    return Started(started, fresh=True)


def _earlier_call(claim: Claim) -> Script[Started]:
    kept = yield "get_idempotency", {"principal": claim.principal, "key": claim.key}
    rows = yield "get_call", {"id": kept[0]["call_id"]}
    call = call_from(rows[0]) if rows else None
    return Started(call, fresh=False, same_body=kept[0]["digest"] == claim.digest)


def insert_values(call: Call, *, age_ms: int) -> dict[str, Any]:
    """The row of a call that is not over yet; it was made `age_ms` ago."""
    return identity_values(call) | {
        "cycle_id": call.cycle_id,
        "step": call.step,
        "idx": call.idx,
        "awaited_by": call.awaited_by,
        "status": call.status.value,
        "delivery": call.delivery.value if call.delivery else None,
        "first_reply": call.first_reply.value if call.first_reply else None,
        "verify": call.verify,
        "attempt": call.attempt,
        "waiter": call.waiter,
        "has_deadline": int(call.status in _WITH_DEADLINE and not _unstarted(call)),
        "has_expiry": int(call.status in _WITH_EXPIRY and call.expires_in_ms != 0),
        "age_ms": age_ms,
    }


def inserted(call: Call, row: Row) -> Call:
    """The call as `insert_call` has written it, without reading all of it back."""
    return msgspec.structs.replace(
        call, deadline=row["deadline"], expires_at=row["expires_at"], created_at=row["created_at"]
    )


def _unstarted(call: Call) -> bool:
    return call.status is CallStatus.RUNNING and call.attempt == 0


class SettledCall(InsertScript[Call]):
    """Record a call that ended before it was on record: its final row. A large result is kept beside it."""

    # T1 and T2 in one. Nobody can wait for a call that was never on record, so no topic is published.
    __slots__ = ("_age_ms", "_call", "_duration_ms", "_large_result", "_outcome", "_withheld")
    table = "calls"
    columns = (
        *("id", "run_id", "tool", "source", "tool_version", "kind", "arguments", "principal"),
        *("agent", "space_id", "chat_id"),
        *("status", "delivery", "result", "error_code", "error_message", "idempotent", "attempt", "owner"),
        *("timeout_ms", "expires_in_ms", "shown", "trace_id", "duration_ms", "created_at", "finished_at"),
    )

    def __init__(
        self,
        call: Call,
        outcome: Done | Failed,
        *,
        age_ms: int,
        duration_ms: float,
        large_result: int,
        withheld: Done | Failed | None = None,
    ) -> None:
        self._call = call
        self._withheld = withheld
        self._outcome = outcome
        self._age_ms = age_ms
        self._duration_ms = duration_ms
        self._large_result = large_result

    def __call__(self) -> Script[Call]:
        call = self._call
        outcome, large = stored_outcome(self._outcome, call.id, self._large_result)
        values = identity_values(call) | outcome_values(outcome)
        values |= {"status": final_status(outcome).value, "age_ms": self._age_ms, "duration_ms": self._duration_ms}
        rows = yield "insert_settled_call", values
        yield from keep_large(large)
        yield from _keep_withheld(call.id, self._withheld)
        settled = self.written(rows[0]["finished_at"], outcome)
        if settled.shown:
            yield from space_tx.show_call(settled, status="running")
            yield from space_tx.show_outcome(settled)
        yield from announce(settled)
        return settled

    def event(self) -> Event | None:
        return None if isinstance(self._outcome, Done) else event_of(self.written(0))

    def row(self) -> tuple[object, ...] | None:
        call, outcome = self._call, self._outcome
        if call.shown or call.hooks or call.replay_of or is_large(outcome, self._large_result):
            return None
        failed = outcome if isinstance(outcome, Failed) else None
        return (
            call.id,
            call.run_id,
            call.tool,
            call.source,
            call.tool_version,
            call.kind.value,
            bytes(call.arguments).decode(),
            call.principal,
            call.agent,
            call.space_id,
            call.chat_id,
            "completed" if failed is None else "failed",
            "inline",
            None if outcome.result is None else bytes(outcome.result).decode(),
            failed and failed.code,
            failed and failed.message,
            int(call.idempotent),
            1,
            call.owner,
            call.timeout_ms,
            call.expires_in_ms,
            call.shown,
            call.trace_id,
            self._duration_ms,
            self._age_ms,
        )

    def written(self, finished_at: int, stored: Done | Failed | None = None) -> Call:
        """The call as its row has it, without reading it back."""
        outcome = stored or self._outcome
        failed = outcome if isinstance(outcome, Failed) else None
        return msgspec.structs.replace(
            self._call,
            status=CallStatus.COMPLETED if failed is None else CallStatus.FAILED,
            delivery=Delivery.INLINE,
            result=outcome.result,
            error=failed and CallError(failed.code, failed.message),
            attempt=1,
            created_at=finished_at - self._age_ms,
            finished_at=finished_at,
            duration_ms=self._duration_ms,
        )


def final_status(outcome: Done | Failed) -> CallStatus:
    """The status that an executed call ends in."""
    return CallStatus.COMPLETED if isinstance(outcome, Done) else CallStatus.FAILED


def settle_executed(
    call_id: str,
    outcome: Done | Failed,
    *,
    attempt: int,
    duration_ms: float | None,
    large_result: int,
    hooked: Hooked | None = None,
    trace_id: str | None = None,
    verified_by: str | None = None,
    known: Call | None = None,
) -> Script[Moved]:
    """Settle by the gateway that ran this attempt, or that asked the call `verified_by` how an earlier one went.

    `known`: the call as it is on record, which is then not read back, with the number that its answer most likely has.
    Its run, and that number, are left to the step that follows.
    """
    values = {"attempt": attempt, "duration_ms": duration_ms, "trace_id": trace_id, "verified_by": verified_by}
    if known is None:
        return _settle("settle_executed", call_id, outcome, large_result, hooked, extra=values)
    values |= {"answer": known.answer}
    return _settle("settle_known", call_id, outcome, large_result, hooked, known=known, extra=values)


def settle_submitted(
    call_id: str,
    outcome: Done | Failed,
    *,
    answered_by: str | None = None,
    large_result: int,
    hooked: Hooked | None = None,
) -> Script[Moved]:
    """Settle by whoever answers a call that somebody else executes."""
    return _settle("settle_submitted", call_id, outcome, large_result, hooked, extra={"answered_by": answered_by})


def settle_rejected(
    call_id: str, outcome: Failed, *, decided_by: str | None = None, large_result: int
) -> Script[Moved]:
    """Settle by a person who rejects it."""
    return _settle("settle_rejected", call_id, outcome, large_result, extra={"decided_by": decided_by})


def settle_cancelled(call_id: str, outcome: Failed) -> Script[Moved]:
    """Settle by whoever stops it."""
    return _settle("settle_cancelled", call_id, outcome)


def settle_expired(call_id: str, outcome: Failed) -> Script[Moved]:
    """Settle by the sweeper: nobody answered in time."""
    return _settle("settle_expired", call_id, outcome)


def settle_overdue(call_id: str, outcome: Failed) -> Script[Moved]:
    """Settle by the sweeper: an executor did not keep its own deadline."""
    return _settle("settle_overdue", call_id, outcome)


def settle_parked(call_id: str, outcome: Failed, *, owner: str) -> Script[Moved]:
    """Settle a parked call whose gateway died."""
    return _settle("settle_parked", call_id, outcome, extra={"owner": owner})


def _settle(
    statement: str,
    call_id: str,
    outcome: Done | Failed,
    large_result: int = 0,
    hooked: Hooked | None = None,
    *,
    known: Call | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Script[Moved]:
    """The only way to a final status. The outcome goes inline or to the inbox, decided in this transaction."""
    # T2
    outcome, large = stored_outcome(outcome, call_id, large_result)
    values = {"id": call_id, "status": final_status(outcome).value, **outcome_values(outcome), **(extra or {})}
    values["hooks"] = None if hooked is None else notes_text(hooked.notes)
    rows = yield statement, values
    yield wake(call_id)
    if not rows:
        return (yield from unmoved(call_id))
    yield from keep_large(large)
    if hooked is not None:
        yield from _keep_withheld(call_id, hooked.withheld)
    call = call_from(rows[0]) if known is None else _settled(known, outcome, rows[0], values)
    if call.awaited_by is not None:
        if call.delivery is Delivery.INLINE and known is None:  # else it was decided before, or the step does it
            yield from answer_run(call)
    elif call.delivery is Delivery.INBOX and call.agent is not None:
        yield from tell_inbox(call)
    if call.shown:
        yield from space_tx.show_outcome(call)
    yield from announce(call)
    return Moved(call, moved=True)


def _settled(known: Call, outcome: Done | Failed, row: Row, values: Mapping[str, Any]) -> Call:
    return msgspec.structs.replace(
        known,
        status=final_status(outcome),
        delivery=Delivery(row["delivery"]),
        result=outcome.result,
        error=CallError(outcome.code, outcome.message) if isinstance(outcome, Failed) else None,
        trace_id=known.trace_id or values["trace_id"],
        verified_by=values["verified_by"],
        finished_at=row["finished_at"],
        duration_ms=values["duration_ms"],
    )


def answer_run(call: Call) -> Script[None]:
    """The slot of a call is decided that a run waits for; the last one that it waits for makes it ready."""
    found = yield "answer_run", {"journal_id": call.awaited_by}
    for run in found:  # none: it was deleted
        yield "number_answer", {"id": call.id, "answer": run["answered"]}
        if run["status"] == "ready":
            yield wake(READY_TOPIC + run["kind"])


def announce(call: Call) -> Script[None]:
    """The call has just come to its status: an event, where that is one that people may want to hear of."""
    event = event_of(call)
    if event is not None:
        yield happened(event)


def stored_outcome(
    outcome: Done | Failed, call_id: str, large_result: int
) -> tuple[Done | Failed, StoredResult | None]:
    """The outcome as the call's row holds it, and its result if that is too large for the row."""
    return set_aside(outcome, call_id, limit=large_result) if is_large(outcome, large_result) else (outcome, None)


def keep_large(large: StoredResult | None) -> Script[None]:
    """Keep beside the row what was too large for it, if anything was."""
    if large is not None:
        size = len(large.body)
        values = {"call_id": large.call_id, "body": large.body, "size": size, "digest": large.digest}
        yield "insert_large_result", values


def _keep_withheld(call_id: str, outcome: Done | Failed | None) -> Script[None]:
    if outcome is not None:
        yield "insert_withheld", {"call_id": call_id, "outcome": msgspec.json.encode(outcome).decode()}


def withheld_outcome(call_id: str) -> Script[Done | Failed | None]:
    """What a hook withheld, for administrators."""
    row = yield from one("get_withheld", call_id=call_id)
    return None if row is None else msgspec.json.decode(row["outcome"], type=Done | Failed)


def tell_inbox(call: Call, *, not_before: int = 0) -> Script[None]:
    """The one `tr:` event of a settled call, due at once or later."""
    event = {"event_id": f"tr:{call.id}", "agent": call.agent, "type": "tool_result", "data": inbox_data(call)}
    yield "insert_inbox_event", event | {"not_before": not_before}
    yield wake(INBOX_TOPIC + str(call.agent))


def unmoved(call_id: str) -> Script[Moved]:
    rows = yield "get_call", {"id": call_id}
    return Moved(call_from(rows[0]) if rows else None, moved=False)


def _move(statement: str, call_id: str, **values: Any) -> Script[Moved]:
    """One compare-and-set that leaves the call open."""
    rows = yield statement, {"id": call_id, **values}
    if not rows:
        return (yield from unmoved(call_id))
    return Moved(call_from(rows[0]), moved=True)


def _published_move(statement: str, call_id: str, **values: Any) -> Script[Moved]:
    moved = yield from _move(statement, call_id, **values)
    yield wake(call_id)
    return moved


def shown_move(statement: str, call_id: str, **values: Any) -> Script[Moved]:
    """To another status: published, shown in the call's space, and announced."""
    moved = yield from _announced_move(statement, call_id, **values)
    if moved.moved and moved.call is not None and moved.call.shown:
        yield from space_tx.show_call(moved.call, status=space_tx.status_shown(moved.call))
    return moved


def _announced_move(statement: str, call_id: str, **values: Any) -> Script[Moved]:
    moved = yield from _published_move(statement, call_id, **values)
    if moved.moved and moved.call is not None:
        yield from announce(moved.call)
    return moved


def insert_question(question: Call) -> Script[None]:
    """A question that a tool asks is a call of its own, which somebody is to answer."""
    rows = yield "insert_call", insert_values(question, age_ms=0)
    yield from announce(inserted(question, rows[0]))


def announce_row(row: Row) -> Script[None]:
    """The same for a row of `calls`."""
    return announce(call_from(row))


def flip(call_id: str) -> Script[Moved]:
    """Nobody answered a waiting call by its deadline; from now on the answer goes to the inbox."""
    # T3
    return _flip("flip_one", call_id)


def abandon_wait(call_id: str) -> Script[Moved]:
    """The HTTP client that waited has hung up: the answer goes to the inbox at once."""
    # T3
    return _flip("abandon_wait", call_id)


def _flip(statement: str, call_id: str) -> Script[Moved]:
    moved = yield from _announced_move(statement, call_id)
    if moved.moved and moved.call is not None and moved.call.awaited_by is not None:
        yield from answer_run(moved.call)
    return moved


def move_deadline(call_id: str, *, attempt: int, left_ms: int) -> Script[Moved]:
    """The executor's own: the call has so much time left, from now."""
    return _move("move_deadline", call_id, attempt=attempt, left_ms=left_ms)


def report_progress(call_id: str, *, limit_ms: int, report: Report) -> Script[Moved]:
    """Progress buys a waiting call another timeout, until `limit_ms` after its start, and keeps others from it.

    Not moved: it is over, or another server has it.
    """
    values = {"limit_ms": limit_ms, "attempt": report.attempt, "begins": int(report.begins), "holder": report.holder}
    return _published_move("report_progress", call_id, **values)


def offer(call_id: str, *, client: str, gateway: str) -> Script[Moved]:
    """One tool server takes a call; moved is False when another has it or it is over."""
    return _move("offer", call_id, client=client, gateway=gateway)


def server_left(client: str, *, gateway: str) -> Script[list[str]]:
    """A tool server is gone: the tools of calls that may go to another already."""
    yield "note_server_left", {"client": client, "gateway": gateway}
    return (yield from _released())


def release_offers() -> Script[list[str]]:
    """What servers that are gone no longer have, those of dead gateways too: the tools of calls that may be offered."""
    yield "note_servers_left_with_their_gateway", {}
    return (yield from _released())


def _released() -> Script[list[str]]:
    rows = yield "release_offers", {}
    return sorted({str(row["tool"]) for row in rows})


def approve(
    call_id: str,
    *,
    runs_here: bool,
    arguments: str | None = None,
    decided_by: str | None = None,
    notes: tuple[HookNote, ...] = (),
) -> Script[Moved]:
    """A person said yes, perhaps to other arguments than were asked for; `notes` is what hooks did, all of them."""
    # T4
    statement = "approve_to_run" if runs_here else "approve_to_wait"
    values = {"arguments": arguments, "decided_by": decided_by, "hooks": notes_text(notes)}
    return shown_move(statement, call_id, **values)


def claim(call_id: str, *, owner: str) -> Script[Moved]:
    """This gateway runs an approved call."""
    # T5
    return _move("claim", call_id, owner=owner)


def reclaim(call_id: str, *, owner: str, seen: int) -> Script[Moved]:
    """This gateway runs an idempotent call again whose gateway died."""
    # T6
    return _move("reclaim", call_id, owner=owner, seen=seen)


def take_to_verify(
    call_id: str, *, owner: str, seen: int, why: Doubt, left_ms: int, is_late: bool = False
) -> Script[Moved]:
    """This gateway asks whether a call took effect of which that is not known, and takes at most `left_ms` for it.

    With `is_late` only a call whose executor did not keep its own deadline.
    """
    # T15
    return _move("take_to_verify", call_id, owner=owner, seen=seen, why=why, left_ms=left_ms, is_late=int(is_late))


def park(call_id: str, question: Call, *, attempt: int, owner: str) -> Script[Moved]:
    """The call that `owner` executes waits for the answer to `question`; where the call is over, nobody is asked."""
    # T13
    parked = yield from shown_move("park", call_id, attempt=attempt, owner=owner)
    if parked.moved:
        yield from insert_question(question)
    return parked


def resume(call_id: str, *, attempt: int, owner: str, left_ms: int) -> Script[Moved]:
    """`owner` goes on with a call that it had parked, with so much time left."""
    # The end of T13
    return shown_move("resume", call_id, attempt=attempt, owner=owner, left_ms=left_ms)


def mark_sent(call_id: str) -> Script[bool]:
    """The HTTP caller has the last byte."""
    # T11
    return (yield from one("mark_sent", id=call_id)) is not None


def give(call_id: str) -> Script[Moved]:
    """The HTTP caller is gone: an inline outcome that reached nobody goes to the inbox."""
    # T12
    rows = yield "give_to_inbox", {"id": call_id}
    yield wake(call_id)
    if not rows:
        return (yield from unmoved(call_id))
    call = call_from(rows[0])
    yield from tell_inbox(call)
    return Moved(call, moved=True)


def keep_trace(call_id: str, trace: str) -> Script[None]:
    """Where a tool's own code failed."""
    yield "put_trace", {"call_id": call_id, "trace": trace}


def prune_calls(*, before_id: str, limit: int) -> Script[int]:
    """Forget old calls, and with them what was kept beside them; how many."""
    gone = yield "prune_calls", {"before_id": before_id, "limit": limit}
    if gone:
        ids = {"ids": json_list(row["id"] for row in gone)}
        yield "prune_large_results", ids
        yield "prune_traces", ids
        yield "prune_withheld", ids
        yield "prune_login_joins", ids
    return len(gone)


def get_call(call_id: str) -> Script[Call | None]:
    rows = yield "get_call", {"id": call_id}
    return call_from(rows[0]) if rows else None


def arrival_of(call: Call) -> Script[Arrival | None]:
    """When its outcome came to its agent's inbox, and the cycle that has read it; None: it did not, or is forgotten."""
    if call.agent is None or call.delivery is not Delivery.INBOX:
        return None
    row = yield from one("arrival_of_call", agent=call.agent, event_id=f"tr:{call.id}")
    return None if row is None else Arrival(at=row["created_at"], status=row["status"], cycle_id=row["cycle_id"])


def calls_among(call_ids: Iterable[str]) -> Script[list[Call]]:
    """Those of the calls that are on record, without arguments and results."""
    return calls_in("calls_among", ids=json_list(call_ids))


def settled_among(call_ids: Iterable[str]) -> Script[list[str]]:
    """Those of the calls that are over."""
    return ids_in("settled_among", ids=json_list(call_ids))


def call_under_key(principal: str, key: str) -> Script[str | None]:
    """The id of the call that this principal made with an idempotency key."""
    row = yield from one("get_idempotency", principal=principal, key=key)
    return None if row is None else str(row["call_id"])


def is_key_taken(principal: str, key: str) -> Script[bool]:
    """Whether this principal has made a call with the idempotency key, so that the same request again makes none."""
    return (yield from one("call_under_live_key", principal=principal, key=key)) is not None


def principal_of_run(run_id: str) -> Script[str | None]:
    """Who made this run's calls; None for a run that is not known."""
    row = yield from one("first_call_of_run", run_id=run_id)
    return None if row is None else str(row["principal"])


class Unoffered(Struct, frozen=True, kw_only=True):
    """Calls of one tool that wait for a tool server."""

    calls: int
    oldest_ms: int


def count_waiting() -> Script[list[Waiting]]:
    """How many calls wait in each status, and since when."""
    rows = yield "count_waiting", {}
    found = {row["status"]: row for row in rows}
    waiting = []
    for status in WAITING_STATUSES:
        row, oldest = found.get(status.value), None
        if row is not None:
            oldest = yield from one("age_of_call", id=row["oldest"])
        age = 0 if oldest is None else max(0, int(oldest["age_ms"]))
        waiting.append(Waiting(status=status, calls=0 if row is None else int(row["calls"]), oldest_ms=age))
    return waiting


def count_unoffered(tools: Collection[str]) -> Script[dict[str, Unoffered]]:
    """The calls of these tools that no tool server has, by tool; of those that have any."""
    found: dict[str, Unoffered] = {}
    if not tools:
        return found
    for row in (yield "count_unoffered", {"ids": json_list(tools)}):
        oldest = yield from one("age_of_call", id=row["oldest"])
        age = 0 if oldest is None else max(0, int(oldest["age_ms"]))
        found[row["tool"]] = Unoffered(calls=int(row["calls"]), oldest_ms=age)
    return found


def count_offered(servers: Collection[str]) -> Script[dict[str, int]]:
    """How many unanswered calls each of these tool servers has."""
    if not servers:
        return {}
    rows = yield "count_offered", {"ids": json_list(servers)}
    return {row["offered_to"]: int(row["calls"]) for row in rows}


def trace_of(call_id: str) -> Script[str | None]:
    row = yield from one("get_trace", call_id=call_id)
    return None if row is None else str(row["trace"])


def questions_of(call: Call) -> Script[list[Call]]:
    """Questions in the call's run that are not answered, the oldest first."""
    return calls_in("open_questions", run_id=call.run_id)


def calls_to_offer(tool: str, *, limit: int = 500) -> Script[list[Call]]:
    """Calls of `tool` that no tool server has."""
    return calls_in("calls_to_offer", tool=tool, limit=limit)


def calls_offered_to(client: str, *, limit: int = 500) -> Script[list[Call]]:
    """Calls that this tool server was given and has not answered."""
    return calls_in("calls_offered_to", client=client, limit=limit)


def orphaned_calls(*, limit: int = 500) -> Script[list[Call]]:
    """Calls that a dead gateway was running."""
    return calls_in("orphaned_calls", limit=limit)


def orphaned_parks(*, limit: int = 500) -> Script[list[Call]]:
    """Calls that a dead gateway had parked, and questions that it had asked."""
    return calls_in("orphaned_parks", limit=limit)


def unclaimed_calls(*, limit: int = 500) -> Script[list[Call]]:
    """Approved calls that no gateway has begun."""
    return calls_in("unclaimed_calls", limit=limit)


def ids_in(query: str, *, limit: int = 500, **values: Any) -> Script[list[str]]:
    """The call ids that one query finds."""
    rows = yield query, {"limit": limit, **values}
    return [str(row["id"]) for row in rows]


def calls_in(query: str, **values: Any) -> Script[list[Call]]:
    """The calls that one query finds."""
    rows = yield query, values
    return [call_from(row) for row in rows]
