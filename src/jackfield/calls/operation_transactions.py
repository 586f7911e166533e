"""Work that goes on at a tool's owner: which of it has to be looked after, when, and who does it now.

Above: `operations.py`. Every row is in at most one gateway's hands: each claim
raises its epoch, and who comes back with an older one changes nothing.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.transactions import (
    Moved,
    announce,
    calls_in,
    get_call,
    insert_question,
    questions_of,
    settle_cancelled,
)
from jackfield.model.call import Call, Failed
from jackfield.spaces import transactions as space_tx
from jackfield.store.scripts import Row, Script, json_list, one, wake

OFFERED_TO = "operation"
"""In place of a tool server: all gateways together have the calls of operations."""
BEGUN_TOPIC = "operation begun"
"""Published when work has to be looked after that no gateway has in hand."""


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """Something that the work's owner wants to know."""

    key: str
    """Its owner's name for it."""
    call_id: str
    """The call that somebody answers."""
    is_told: bool = False
    """Whether its owner has the answer."""


class Operation(Struct, frozen=True, kw_only=True):
    """One piece of work."""

    call_id: str
    epoch: int
    owner: str | None
    reference: Raw | None
    """How it is found again at its owner; None: it was begun, and nobody knows what came of that."""
    begins: int
    looks: int
    faults: int
    """Looks in a row that came to nothing."""
    said: str | None = None
    """How it stands, in its owner's words."""
    questions: tuple[OpenQuestion, ...] = ()
    updated_at: int | None = None
    """When either changed last."""


def untaken_operations(tools: Iterable[str], *, limit: int) -> Script[list[Call]]:
    """Calls of these tools that nobody has in hand, the oldest first."""
    return calls_in("untaken_operations", ids=json_list(tools), limit=limit)


def take_operation(call_id: str, *, owner: str, lease_ms: int) -> Script[Operation | None]:
    """Take a new call in hand, to begin its work; None: another has it, or it is over."""
    offered = yield "offer", {"id": call_id, "client": OFFERED_TO, "gateway": owner}
    if not offered:
        return None
    row = yield from one("insert_operation", call_id=call_id, owner=owner, lease_ms=lease_ms)
    return None if row is None else _operation(row)


def park_operation(call_id: str, reference: Raw, *, attempt: int) -> Script[Moved]:
    """The work of a running call goes on at its owner. Not moved: the call is over, and the work is to be stopped."""
    # T13
    rows = yield "park_operation", {"id": call_id, "attempt": attempt}
    yield "insert_begun_operation", {"call_id": call_id, "reference": bytes(reference).decode()}
    yield wake(call_id)
    yield wake(BEGUN_TOPIC)
    call = yield from get_call(call_id)
    if rows and call is not None and call.shown:
        yield from space_tx.show_call(call, status=space_tx.status_shown(call))
    if rows and call is not None:
        yield from announce(call)
    return Moved(call, moved=bool(rows))


def ask_questions(operation: Operation, asked: Iterable[Call]) -> Script[bool]:
    """Put the newest questions of the work on record; False: it is in other hands, or the call is over."""
    call = yield from get_call(operation.call_id)
    if call is None or call.status.is_final:
        return False
    values = {"call_id": operation.call_id, "epoch": operation.epoch, "questions": _encode_questions(operation)}
    if not (yield "note_questions", values):
        return False
    yield wake(operation.call_id)
    for question in asked:
        yield from insert_question(question)
    return True


def close_questions(call: Call, *, among: Iterable[str], outcome: Failed) -> Script[list[Call]]:
    """The call is over, or its owner has stopped asking: nobody need answer these questions any more."""
    wanted, closed = set(among), []
    for question in (yield from questions_of(call)):
        if question.id in wanted:
            moved = yield from settle_cancelled(question.id, outcome)
            if moved.moved and moved.call is not None:
                closed.append(moved.call)
    return closed


def claim_operation(operation: Operation, *, owner: str, lease_ms: int) -> Script[Operation | None]:
    """Take known work in hand, as it was seen; None: another was quicker."""
    values = {"call_id": operation.call_id, "epoch": operation.epoch, "owner": owner, "lease_ms": lease_ms}
    row = yield from one("claim_operation", **values, begins=operation.begins)
    return None if row is None else _operation(row)


def put_off_operation(operation: Operation, *, pause_ms: int, is_news: bool = False) -> Script[bool]:
    """Let go of it, as it is now, until so much time has passed; False: it is in other hands.

    News is what whoever follows the call should see.
    """
    values: dict[str, Any] = {
        "call_id": operation.call_id,
        "epoch": operation.epoch,
        "reference": None if operation.reference is None else bytes(operation.reference).decode(),
        "begins": operation.begins,
        "looks": operation.looks,
        "faults": operation.faults,
        "pause_ms": pause_ms,
        "said": operation.said,
        "questions": _encode_questions(operation),
        "is_news": int(is_news),
    }
    is_ours = (yield from one("put_off_operation", **values)) is not None
    if is_ours and is_news:
        yield wake(operation.call_id)
    return is_ours


def forget_operation(call_id: str) -> Script[None]:
    """It is over."""
    yield "delete_operation", {"call_id": call_id}


def due_operations(*, limit: int) -> Script[list[Operation]]:
    """What has to be looked after now."""
    rows = yield "due_operations", {"limit": limit}
    return [_operation(row) for row in rows]


def operations_among(call_ids: Iterable[str]) -> Script[list[Operation]]:
    """The work of these calls, as far as it is not over."""
    rows = yield "operations_among", {"ids": json_list(call_ids)}
    return [_operation(row) for row in rows]


def keep_way(call_id: str, via: tuple[str, ...], *, config: dict[str, Any] | None = None) -> Script[None]:
    """Remember what a call brought along, before it is on record: the gateways it came through, its options."""
    text = msgspec.json.encode(config).decode() if config else None
    yield "put_way", {"call_id": call_id, "via": ",".join(via), "config": text}


def brought_along(call_id: str) -> Script[tuple[tuple[str, ...], dict[str, Any]]]:
    """The gateways that a call came through, and the options that its request gave the tool."""
    row = yield from one("get_way", call_id=call_id)
    if row is None:
        return (), {}
    way = tuple(part for part in str(row["via"]).split(",") if part)
    return way, msgspec.json.decode(row["config"]) if row["config"] else {}


def way_of(call_id: str) -> Script[tuple[str, ...]]:
    return (yield from brought_along(call_id))[0]


def _operation(row: Row) -> Operation:
    return Operation(
        call_id=row["call_id"],
        epoch=row["epoch"],
        owner=row["owner"],
        reference=None if row["reference"] is None else Raw(row["reference"].encode()),
        begins=row["begins"],
        looks=row["looks"],
        faults=row["faults"],
        said=row["said"],
        questions=() if row["questions"] is None else _decode_questions(row["questions"]),
        updated_at=row["updated_at"],
    )


def _encode_questions(operation: Operation) -> str | None:
    return msgspec.json.encode(operation.questions).decode() if operation.questions else None


_decode_questions = msgspec.json.Decoder(tuple[OpenQuestion, ...]).decode
