"""Calls and their rows; pages of calls; results that are kept apart from their calls because they are large."""

import re
from collections.abc import Sequence
from functools import partial
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
    LoginWait,
)
from jackfield.model.tool import CallKind
from jackfield.protocol.large_results import ResultPage, digest_of, may_be_notice, page_of, window
from jackfield.store.base import Store
from jackfield.store.scripts import Row, Script, Sql, one

_encode = msgspec.json.Encoder().encode


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
        answered_by=row["answered_by"],
        decision=Decision(row["decision"]) if row["decision"] else None,
        decided_by=row["decided_by"],
        decided_at=row["decided_at"],
        asked_arguments=_raw(row["asked_arguments"]) if row["asked_arguments"] is not None else None,
        shown=row["shown"],
        login=None if row["login_source"] is None else _login(row),
        count=row["count"],
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
    }


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


CLOCKS_DIFFER_MS = 24 * 60 * 60 * 1000
"""By how much a gateway's clock may differ from its database's for filters by time to find its calls."""


class CallFilter(Struct, frozen=True, kw_only=True):
    """Which calls a page shows; what is not given does not matter."""

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
    """Calls, newest first, and where the next page begins."""

    calls: list[Call]
    next_cursor: str | None


def call_page(wanted: CallFilter, *, limit: int, cursor: str | None = None) -> Script[Page]:
    """One page, newest first. A cursor is the last id seen."""
    rows = yield _query(wanted, limit=limit + 1, cursor=cursor)
    calls = [call_from(row) for row in rows]
    return Page(calls[:limit], calls[limit - 1].id if len(calls) > limit else None)


def _query(wanted: CallFilter, *, limit: int, cursor: str | None) -> tuple[Sql, dict[str, Any]]:
    """The query for a page, with only the conditions that were asked for, so that each can use its index."""
    equal = {"tool": wanted.tool, "agent": wanted.agent, "run_id": wanted.run_id, "source": wanted.source}
    values: dict[str, Any] = {name: value for name, value in equal.items() if value is not None}
    conditions = [f"{name} = :{name}" for name in values]
    more = {"principal = :made_by": wanted.made_by, **_made_between(wanted.since, wanted.until)}
    for condition, value in more.items():
        if value is not None:
            conditions.append(condition)
            values[condition.rpartition(":")[2]] = value
    if wanted.text is not None:
        conditions.append(_CONTAINS)
        values |= {"plain": _containing(wanted.text), "escaped": _containing(_encode(wanted.text)[1:-1].decode())}
    if wanted.principal is not None:
        patterns = {f"glob_{'x' * number}": _like(glob) for number, glob in enumerate(wanted.or_for_others_of)}
        conditions.append(_visible(list(patterns)))
        values |= {"principal": wanted.principal, **patterns}
    if wanted.status:
        words = ", ".join(f"'{status.value}'" for status in wanted.status)
        conditions.append(f"status IN ({words})")
    if wanted.kind is not None:  # the word itself, so that the index of reads can be used
        conditions.append(f"kind = '{wanted.kind.value}'")
    if cursor is not None:
        conditions.append("id < :cursor")
        values["cursor"] = cursor
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql = f"SELECT * FROM calls{where} ORDER BY id DESC LIMIT :limit"  # noqa: S608 - built from our own names
    return Sql("list_calls", sql), values | {"limit": limit}


_CONTAINS = (
    "(lower(tool) LIKE :plain ESCAPE '!' OR lower(error_message) LIKE :plain ESCAPE '!'"
    " OR lower(arguments) LIKE :plain ESCAPE '!' OR lower(arguments) LIKE :escaped ESCAPE '!'"
    " OR lower(result) LIKE :plain ESCAPE '!' OR lower(result) LIKE :escaped ESCAPE '!')"
)
"""What is JSON may have the text as a string within it, or be searched for a piece of JSON."""


def _containing(text: str) -> str:
    text = text.encode().lower().decode()  # ASCII letters only, as in the databases
    return "%" + re.sub(r"[%_!]", r"!\g<0>", text) + "%"


def _made_between(since: int | None, until: int | None) -> dict[str, int | str | None]:
    """Exactly by the database's clock. Ids carry the clock of their gateway: they only spare reading all calls."""
    return {
        "created_at >= :since": since,
        "id >= :first_id": None if since is None else _id_at(since - CLOCKS_DIFFER_MS),
        "created_at < :until": until,
        "id < :end_id": None if until is None else _id_at(until + CLOCKS_DIFFER_MS),
    }


def _id_at(moment: int) -> str:
    return f"call_{max(moment, 0):012x}"


def _visible(patterns: Sequence[str]) -> str:
    """Own calls, or those for others whose tool is like one of the patterns (`Call.for_others`)."""
    if not patterns:
        return "principal = :principal"
    likes = " OR ".join(f"tool LIKE :{name} ESCAPE '!'" for name in patterns)
    return f"(principal = :principal OR ((attempt = 0 OR first_reply IS NOT NULL) AND ({likes})))"


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
