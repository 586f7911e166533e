"""Every move of a call, as a script of named statements: `pending-protocol.md`, T1 to T6, T11 and T12.

Zero rows always means that somebody else was first. A call that is shown in a space is shown in the transaction that
moves it; one that is not costs nothing more.
Above: `base.py`; `cycle_moves.py`, which has the cycles' moves. Below: `space_moves.py`, `scripts.py`, `rows.py`.
"""

from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.call import Call, CallError, CallStatus, Delivery, Done, Failed
from jackfield.model.large_result import LargeResult, is_large, set_aside
from jackfield.store import space_moves
from jackfield.store.rows import call_from, identity_values, inbox_data, outcome_values
from jackfield.store.scripts import INBOX_TOPIC, WAKE, Ask, Script, one, run, wake
from jackfield.store.statements import Statement

__all__ = ["INBOX_TOPIC", "WAKE", "Ask", "Script", "one", "run", "wake"]

_WITH_DEADLINE = frozenset({CallStatus.RUNNING, CallStatus.WAITING})
_WITH_EXPIRY = frozenset({CallStatus.PENDING, CallStatus.PENDING_APPROVAL})


class Moved(Struct, frozen=True):
    """What a compare-and-set came to: whether it was ours, and the call as it is now (None: no such call)."""

    call: Call | None
    moved: bool


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


def start_call(call: Call, *, age_ms: int, claim: Claim | None) -> Script[Started]:
    """T1 outside a cycle, together with taking the idempotency key, if there is one."""
    if claim is not None:
        values = {"principal": claim.principal, "key": claim.key}
        taken = yield "insert_idempotency", {**values, "digest": claim.digest, "call_id": call.id}
        if not taken:
            return (yield from _earlier_call(claim))
    rows = yield "insert_call", insert_values(call, age_ms=age_ms)
    started = call_from(rows[0])
    if started.shown:
        yield from space_moves.show_call(started, status=space_moves.status_shown(started))
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
        "status": call.status.value,
        "delivery": call.delivery.value if call.delivery else None,
        "first_reply": call.first_reply.value if call.first_reply else None,
        "attempt": call.attempt,
        "waiter": call.waiter,
        "has_deadline": int(call.status in _WITH_DEADLINE and not _unstarted(call)),
        "has_expiry": int(call.status in _WITH_EXPIRY and call.expires_in_ms != 0),
        "age_ms": age_ms,
    }


def _unstarted(call: Call) -> bool:
    return call.status is CallStatus.RUNNING and call.attempt == 0


def record_settled(
    call: Call, outcome: Done | Failed, *, large_result: int, age_ms: int, duration_ms: float
) -> Script[Call]:
    """A short call's only write: its final row. A result of more than `large_result` bytes is kept beside it."""
    outcome, large = told(outcome, call.id, large_result)
    values = identity_values(call) | outcome_values(outcome)
    values |= {"status": final_status(outcome).value, "age_ms": age_ms, "duration_ms": duration_ms}
    rows = yield "insert_settled_call", values
    yield from keep_large(large)
    finished_at = rows[0]["finished_at"]
    settled = settled_copy(call, outcome, finished_at=finished_at, age_ms=age_ms, duration_ms=duration_ms)
    if settled.shown:
        yield from space_moves.show_call(settled, status="running")
        yield from space_moves.show_outcome(settled)
    return settled


def settled_copy(call: Call, outcome: Done | Failed, *, finished_at: int, age_ms: int, duration_ms: float) -> Call:
    """The call as `record_settled` wrote it, without reading it back."""
    return msgspec.structs.replace(
        call,
        status=final_status(outcome),
        delivery=Delivery.INLINE,
        result=outcome.result,
        error=CallError(outcome.code, outcome.message) if isinstance(outcome, Failed) else None,
        attempt=1,
        created_at=finished_at - age_ms,
        finished_at=finished_at,
        duration_ms=duration_ms,
    )


def final_status(outcome: Done | Failed) -> CallStatus:
    """The status that an executed call ends in."""
    return CallStatus.COMPLETED if isinstance(outcome, Done) else CallStatus.FAILED


def settle(statement: str, call_id: str, outcome: Done | Failed, *, large_result: int, **extra: Any) -> Script[Moved]:
    """T2: the only way to a final status. The outcome goes inline or to the inbox, decided in this transaction."""
    outcome, large = told(outcome, call_id, large_result)
    values = {"id": call_id, "status": final_status(outcome).value, **outcome_values(outcome), **extra}
    rows = yield statement, values
    if not rows:
        return (yield from _unmoved(call_id))
    yield from keep_large(large)
    call = call_from(rows[0])
    if call.delivery is Delivery.INBOX and call.agent is not None:
        yield from tell_inbox(call)
    if call.shown:
        yield from space_moves.show_outcome(call)
    return Moved(call, moved=True)


def told(outcome: Done | Failed, call_id: str, large_result: int) -> tuple[Done | Failed, LargeResult | None]:
    """The outcome as the call's row holds it, and its result if that is too large for the row."""
    return set_aside(outcome, call_id, limit=large_result) if is_large(outcome, large_result) else (outcome, None)


def keep_large(large: LargeResult | None) -> Script[None]:
    """Keep beside the row what was too large for it, if anything was."""
    if large is not None:
        size = len(large.body)
        values = {"call_id": large.call_id, "body": large.body, "size": size, "digest": large.digest}
        yield "insert_large_result", values


def tell_inbox(call: Call, *, not_before: int = 0) -> Script[None]:
    """The one `tr:` event of a settled call, due at once or later."""
    event = {"event_id": f"tr:{call.id}", "agent": call.agent, "type": "tool_result", "data": inbox_data(call)}
    yield "insert_inbox_event", event | {"not_before": not_before}
    yield wake(INBOX_TOPIC + str(call.agent))


def _unmoved(call_id: str) -> Script[Moved]:
    rows = yield "get_call", {"id": call_id}
    return Moved(call_from(rows[0]) if rows else None, moved=False)


def move(statement: str, call_id: str, **values: Any) -> Script[Moved]:
    """T3, T5, T6: one compare-and-set that leaves the call open."""
    rows = yield statement, {"id": call_id, **values}
    if not rows:
        return (yield from _unmoved(call_id))
    return Moved(call_from(rows[0]), moved=True)


def report_progress(call_id: str, *, limit_ms: int, report: Report) -> Script[Moved]:
    """Progress of a call that somebody else answers. Not moved: it is over, or another server has it."""
    values = {"limit_ms": limit_ms, "attempt": report.attempt, "begins": int(report.begins), "holder": report.holder}
    return (yield from move("report_progress", call_id, **values))


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


def approve(statement: str, call_id: str, *, arguments: str | None, decided_by: str | None) -> Script[Moved]:
    """T4, perhaps with other arguments than were asked for."""
    return (yield from _shown_move(statement, call_id, arguments=arguments, decided_by=decided_by))


def _shown_move(statement: str, call_id: str, **values: Any) -> Script[Moved]:
    """A move that leaves the call open, and that its space sees."""
    moved = yield from move(statement, call_id, **values)
    if moved.moved and moved.call is not None and moved.call.shown:
        yield from space_moves.show_call(moved.call, status=space_moves.status_shown(moved.call))
    return moved


def park(call_id: str, question: Call, *, attempt: int, owner: str) -> Script[Moved]:
    """T13, together with the question that the call waits for: where the call is over, nobody is asked."""
    parked = yield from _shown_move("park", call_id, attempt=attempt, owner=owner)
    if parked.moved:
        yield "insert_call", insert_values(question, age_ms=0)
    return parked


def resume(call_id: str, *, attempt: int, owner: str, left_ms: int) -> Script[Moved]:
    """The end of T13: the answer is there."""
    return (yield from _shown_move("resume", call_id, attempt=attempt, owner=owner, left_ms=left_ms))


def give(call_id: str) -> Script[Moved]:
    """T12: an inline outcome that reached nobody goes to the inbox after all."""
    rows = yield "give_to_inbox", {"id": call_id}
    if not rows:
        return (yield from _unmoved(call_id))
    call = call_from(rows[0])
    yield from tell_inbox(call)
    return Moved(call, moved=True)


def prune_calls(*, before_id: str, limit: int) -> Script[int]:
    """Forget old calls, and with them what was kept beside them; how many."""
    gone = yield "prune_calls", {"before_id": before_id, "limit": limit}
    if gone:
        ids = {"ids": msgspec.json.encode([row["id"] for row in gone]).decode()}
        yield "prune_large_results", ids
        yield "prune_traces", ids
    return len(gone)


def enter_alone(gateway: str) -> Script[None]:
    """A gateway takes a database that only one process uses: whoever else is written there is gone.

    Whoever waited there is gone too, so what is answered from now on goes to the inbox.
    """
    yield "bury_other_gateways", {"id": gateway}
    yield "insert_gateway", {"id": gateway}
    yield "abandon_all_waits", {}


def calls_in(query: str | Statement, **values: Any) -> Script[list[Call]]:
    """The calls that one query finds."""
    rows = yield query, values
    return [call_from(row) for row in rows]
