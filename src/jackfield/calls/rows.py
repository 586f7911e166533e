"""Calls and their rows; pages of calls; results that are kept apart from their calls because they are large.

A filter that no index answers alone (a text, a source, a tool and a status together) is looked for in windows: a
bounded number of calls at a time, along the index that leads furthest back.
"""

import re
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.model.call import (
    NULL,
    Call,
    CallError,
    CallStatus,
    Decision,
    Delivery,
    Done,
    Failed,
    FirstReply,
    HookNote,
    LoginWait,
)
from jackfield.model.tool import CallKind
from jackfield.protocol.large_results import ResultPage, digest_of, may_be_notice, page_of, window
from jackfield.store.base import Store
from jackfield.store.scripts import Row, Script, Sql, one

_encode = msgspec.json.Encoder().encode
_notes = msgspec.json.Decoder(tuple[HookNote, ...]).decode


def call_from(row: Row) -> Call:
    """The call that a row of `calls` holds."""
    return Call(
        id=row["id"],
        run_id=row["run_id"],
        tool=row["tool"],
        source=row["source"],
        tool_version=row["tool_version"],
        kind=CallKind(row["kind"]),
        arguments=_raw(row["arguments"]),
        principal=row["principal"],
        status=CallStatus(row["status"]),
        agent=row["agent"],
        space_id=row["space_id"],
        chat_id=row["chat_id"],
        cycle_id=row["cycle_id"],
        step=row["step"],
        idx=row["idx"],
        awaited_by=row["awaited_by"],
        answer=row["answer"],
        delivery=Delivery(row["delivery"]) if row["delivery"] else None,
        result=_raw(row["result"]) if row["result"] is not None else None,
        error=CallError(row["error_code"], row["error_message"]) if row["error_code"] else None,
        first_reply=FirstReply(row["first_reply"]) if row["first_reply"] else None,
        idempotent=bool(row["idempotent"]),
        verify=row["verify"],
        verifying=row["verifying"],
        verifications=row["verifications"],
        verified_by=row["verified_by"],
        attempt=row["attempt"],
        owner=row["owner"],
        waiter=row["waiter"],
        sent_at=row["sent_at"],
        deadline=row["deadline"],
        expires_at=row["expires_at"],
        timeout_ms=row["timeout_ms"],
        expires_in_ms=row["expires_in_ms"],
        offered_to=row["offered_to"],
        offers=row["offers"],
        offered_at=row["offered_at"],
        begun_at=row["begun_at"],
        answered_by=row["answered_by"],
        decision=Decision(row["decision"]) if row["decision"] else None,
        decided_by=row["decided_by"],
        decided_at=row["decided_at"],
        asked_arguments=_raw(row["asked_arguments"]) if row["asked_arguments"] is not None else None,
        shown=row["shown"],
        login=None if row["login_source"] is None else _login(row),
        count=row["count"],
        hooks=() if row["hooks"] is None else _notes(row["hooks"]),
        trace_id=row["trace_id"],
        replay_of=row["replay_of"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        duration_ms=row["duration_ms"],
    )


def _login(row: Row) -> LoginWait:
    return LoginWait(
        source=row["login_source"],
        principal=row["login_principal"],
        scopes=tuple(str(row["login_scopes"] or "").split()),
        times=row["login_times"],
        since=row["login_since"],
    )


def identity_values(call: Call) -> dict[str, Any]:
    """The columns that are written once, when the call is made."""
    return {
        "id": call.id,
        "run_id": call.run_id,
        "tool": call.tool,
        "source": call.source,
        "tool_version": call.tool_version,
        "kind": call.kind.value,
        "arguments": bytes(call.arguments).decode(),
        "principal": call.principal,
        "agent": call.agent,
        "space_id": call.space_id,
        "chat_id": call.chat_id,
        "idempotent": int(call.idempotent),
        "owner": call.owner,
        "timeout_ms": call.timeout_ms,
        "expires_in_ms": call.expires_in_ms,
        "shown": call.shown,
        "asked_arguments": None if call.asked_arguments is None else bytes(call.asked_arguments).decode(),
        "hooks": notes_text(call.hooks),
        "trace_id": call.trace_id,
        "replay_of": call.replay_of,
    }


def notes_text(notes: Sequence[HookNote]) -> str | None:
    """What hooks did, as a row holds it."""
    return _encode(notes).decode() if notes else None


def outcome_values(outcome: Done | Failed) -> dict[str, Any]:
    """The columns that say how a call ended."""
    result = None if outcome.result is None else bytes(outcome.result).decode()
    if isinstance(outcome, Failed):
        return {"result": result, "error_code": outcome.code, "error_message": outcome.message}
    return {"result": result, "error_code": None, "error_message": None}


def inbox_data(call: Call) -> str:
    """What the `tool_result` event of a settled call tells its agent (contract §6)."""
    told = call.result
    if told is None:
        told = Raw(_encode({"error": call.error.message, "toolCallId": call.id} if call.error else None))
    data = {"toolCallId": call.id, "toolName": call.tool, "originRunId": call.run_id, "result": told}
    return _encode(data).decode()


def _raw(text: str) -> Raw:
    return Raw(text.encode())


CLOCKS_DIFFER_MS = 60 * 60 * 1000
"""By how much a gateway's clock may differ from its database's for filters by time to find its calls."""
WINDOW = 5_000
"""Calls that are looked at together."""
TEXT_WINDOW = 1_000
"""The same where their arguments and results are searched."""
MOST_IDS = 100
FEW_IDS = 10
"""Ids are asked for in two sizes, so that there are two statements and not a hundred."""


class CallFilter(Struct, frozen=True, kw_only=True):
    """Which calls a page shows; what is not given does not matter."""

    ids: tuple[str, ...] = ()
    status: tuple[CallStatus, ...] = ()
    tool: str | None = None
    agent: str | None = None
    run_id: str | None = None
    kind: CallKind | None = None
    made_by: str | None = None
    source: str | None = None
    since: int | None = None
    until: int | None = None
    """Made from `since` on and before `until`, in milliseconds since 1970 by the database's clock."""
    text: str | None = None
    """Is in the tool's name, the arguments, the result or the error, in whatever case. Not in results kept apart."""
    principal: str | None = None
    """This key's own calls."""
    or_for_others_of: tuple[str, ...] = ()
    """Beside them, calls that somebody else is or was asked to answer, of tools that fit one of these globs. A glob
    with `[` may let more through; whoever asks knows its own."""


class Page(Struct, frozen=True):
    """Calls, newest first, and where the next page begins; None: this was the last."""

    calls: list[Call]
    next_cursor: str | None


def call_page(wanted: CallFilter, *, limit: int, cursor: str | None = None) -> Script[Page]:
    """One page, newest first, in one transaction. A cursor is the last id looked at."""
    calls: list[Call] = []
    while True:
        page = yield from call_window(wanted, limit=limit - len(calls), cursor=cursor)
        calls += page.calls
        cursor = page.next_cursor
        if cursor is None or len(calls) >= limit:
            return Page(calls, cursor)


def call_window(wanted: CallFilter, *, limit: int, cursor: str | None = None) -> Script[Page]:
    """What a bounded look finds of a page: perhaps less than `limit`, though `next_cursor` says that there is more."""
    rows: list[Row] = []
    horizon: str | None = None
    for status in wanted.status or (None,):  # each by its own: no index has the calls of several in order
        part, reached = yield from _part(wanted, status, limit=limit + 1, cursor=cursor)
        rows += part
        if reached is not None:
            horizon = reached if horizon is None else max(horizon, reached)
    if horizon is not None:
        rows = [row for row in rows if row["id"] >= horizon]
    rows.sort(key=lambda row: row["id"], reverse=True)
    last = rows[limit - 1]["id"] if len(rows) > limit else horizon
    return Page([call_from(row) for row in rows[:limit]], last)


def _part(
    wanted: CallFilter, status: CallStatus | None, *, limit: int, cursor: str | None
) -> Script[tuple[Sequence[Row], str | None]]:
    """Rows in one status or any, and the id down to which all were looked at; None: there are no more."""
    conditions = _conditions(wanted, status, cursor)
    driver, edge = yield from _driver(conditions, TEXT_WINDOW if wanted.text is not None else WINDOW)
    if edge is not None:
        conditions.bounds.append("id >= :edge")
        conditions.values["edge"] = edge
    rows = yield Sql("list_calls", conditions.select("*", driver)), conditions.values | {"limit": limit}
    return rows, rows[-1]["id"] if len(rows) == limit else edge


class _Conditions:
    """The parts of a WHERE clause, told apart by what an index can do for them."""

    def __init__(self) -> None:
        self.indexed: dict[str, str] = {}
        """Column → condition that its index answers in the order of ids."""
        self.bounds: list[str] = []
        """Of the id."""
        self.others: list[str] = []
        self.values: dict[str, Any] = {}
        self.names_calls = False

    @property
    def is_plain(self) -> bool:
        """Whether an index answers all of it, or few calls are asked about."""
        return self.names_calls or (not self.others and len(self.indexed) <= 1)

    def select(self, what: str, driver: str | None) -> str:
        """The query along the index of `driver`, or of the id; the other conditions are checked row by row."""
        indexed = [
            text if column == driver else f"COALESCE({column}, '') {text.removeprefix(column)}"
            for column, text in self.indexed.items()
        ]
        return self._sql(what, [*indexed, *self.others])

    def edge(self, driver: str | None) -> str:
        """Where a window along this index ends."""
        return self._sql("id", [] if driver is None else [self.indexed[driver]]) + " OFFSET :window"

    def _sql(self, what: str, conditions: list[str]) -> str:
        every = [*conditions, *self.bounds]
        where = f" WHERE {' AND '.join(every)}" if every else ""
        return f"SELECT {what} FROM calls{where} ORDER BY id DESC LIMIT :limit"  # noqa: S608 - built from our own names


def _driver(conditions: _Conditions, window: int) -> Script[tuple[str | None, str | None]]:
    """The index along which to look, and where the window ends there: the one that leads furthest back."""
    candidates: list[str | None] = [*conditions.indexed] or [None]
    if conditions.is_plain:
        return None if conditions.names_calls else candidates[0], None
    best: tuple[str | None, str | None] | None = None
    for candidate in candidates:
        sql = conditions.edge(candidate)
        rows = yield Sql("edge_of_calls", sql), conditions.values | {"limit": 1, "window": window}
        if not rows:
            return candidate, None
        if best is None or rows[0]["id"] < (best[1] or ""):
            best = candidate, rows[0]["id"]
    assert best is not None
    return best


def _conditions(wanted: CallFilter, status: CallStatus | None, cursor: str | None) -> _Conditions:
    """Only what was asked for."""
    found = _Conditions()
    equal = {"run_id": wanted.run_id, "agent": wanted.agent, "tool": wanted.tool, "principal": wanted.made_by}
    for column, value in equal.items():
        if value is not None:
            found.indexed[column] = f"{column} = :{column}"
            found.values[column] = value
    if status is not None:
        found.indexed["status"] = f"status = '{status.value}'"
    if wanted.kind is not None and wanted.kind is not CallKind.TOOL:  # that of tools, which most are, has no index
        found.indexed["kind"] = f"kind = '{wanted.kind.value}'"
    elif wanted.kind is not None:
        found.others.append(f"kind = '{wanted.kind.value}'")
    if wanted.source is not None:
        found.others.append("source = :source")
        found.values["source"] = wanted.source
    if wanted.text is not None:
        found.others.append(_CONTAINS)
        escaped = _encode(wanted.text)[1:-1].decode()
        found.values |= {"plain": _containing(wanted.text), "escaped": _containing(escaped)}
    _limit_to_visible(found, wanted)
    _bound(found, wanted, cursor)
    return found


def _limit_to_visible(found: _Conditions, wanted: CallFilter) -> None:
    """Own calls, or those for others whose tool is like one of the patterns (`Call.for_others`)."""
    if wanted.principal is None:
        return
    found.values["own"] = wanted.principal
    if not wanted.or_for_others_of:
        if "principal" in found.indexed:
            found.others.append("principal = :own")
        else:
            found.indexed["principal"] = "principal = :own"
        return
    patterns = {f"glob_{'x' * number}": _like(glob) for number, glob in enumerate(wanted.or_for_others_of)}
    likes = " OR ".join(f"tool LIKE :{name} ESCAPE '!'" for name in patterns)
    found.others.append(f"(principal = :own OR ((attempt = 0 OR first_reply IS NOT NULL) AND ({likes})))")
    found.values |= patterns


def _bound(found: _Conditions, wanted: CallFilter, cursor: str | None) -> None:
    """By time exactly by the database's clock. Ids carry the clock of their gateway: they only spare reading all
    calls.
    """
    bounds: dict[str, tuple[str, Any]] = {"cursor": ("id < :cursor", cursor)}
    if wanted.since is not None:
        bounds["first_id"] = "id >= :first_id", _id_at(wanted.since - CLOCKS_DIFFER_MS)
        bounds["since"] = "created_at >= :since", wanted.since
    if wanted.until is not None:
        bounds["end_id"] = "id < :end_id", _id_at(wanted.until + CLOCKS_DIFFER_MS)
        bounds["until"] = "created_at < :until", wanted.until
    for name, (condition, value) in bounds.items():
        if value is not None:
            (found.bounds if condition.startswith("id ") else found.others).append(condition)
            found.values[name] = value
    if wanted.ids:
        found.names_calls = True
        names = [f"id_{first}{second}" for first in "abcdefghij" for second in "abcdefghij"][
            : MOST_IDS if len(wanted.ids) > FEW_IDS else FEW_IDS
        ]
        found.bounds.append(f"id IN ({', '.join(f':{name}' for name in names)})")
        found.values |= dict(zip_longest(names, wanted.ids, fillvalue=wanted.ids[0]))


_CONTAINS = (
    "(lower(tool) LIKE :plain ESCAPE '!' OR lower(error_message) LIKE :plain ESCAPE '!'"
    " OR lower(arguments) LIKE :plain ESCAPE '!' OR lower(arguments) LIKE :escaped ESCAPE '!'"
    " OR lower(result) LIKE :plain ESCAPE '!' OR lower(result) LIKE :escaped ESCAPE '!')"
)
"""What is JSON may have the text as a string within it, or be searched for a piece of JSON."""


def _containing(text: str) -> str:
    text = text.encode().lower().decode()  # ASCII letters only, as in the databases
    return "%" + re.sub(r"[%_!]", r"!\g<0>", text) + "%"


def _id_at(moment: int) -> str:
    return f"call_{max(moment, 0):012x}"


def _like(glob: str) -> str:
    """A glob as a pattern for LIKE; any set of characters becomes any character."""
    plain = re.sub(r"\[!?\]?[^\]]*\]", "?", glob)
    return re.sub(r"[%_!]", r"!\g<0>", plain).replace("*", "%").replace("?", "_")


async def result_page(store: Store, call: Call, *, offset: int, limit: int) -> ResultPage:
    """Up to `limit` bytes of a settled call's result, large or small; none where it does not reach to `offset`."""
    first, count = window(offset, limit)
    row = None
    if may_be_notice(call.result, call.id):
        values = {"call_id": call.id, "first": first + 1, "count": count}
        row = await store.read(partial(one, "part_of_large_result", **values))
    if row is None:
        body = bytes(NULL if call.result is None else call.result)
        size, digest, read = len(body), digest_of(body), body[first : first + count]
    else:
        size, digest, read = row["size"], row["digest"], row["part"]
    return page_of(read, call_id=call.id, digest=digest, size=size, offset=offset, limit=limit)


async def whole_result(store: Store, call: Call) -> Raw | None:
    """A settled call's result, large or small."""
    if not may_be_notice(call.result, call.id):
        return call.result
    row = await store.read(partial(one, "get_large_result", call_id=call.id))
    return call.result if row is None else Raw(row["body"])
