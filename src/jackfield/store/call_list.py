"""Pages of calls, by what somebody asks for."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from jackfield.model.call import Call, CallStatus
from jackfield.store.rows import call_from
from jackfield.store.scripts import Script, Sql


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


def call_page(wanted: CallFilter, *, limit: int, cursor: str | None = None) -> Script[Page]:
    """One page, newest first. A cursor is the last id seen."""
    rows = yield _query(wanted, limit=limit + 1, cursor=cursor)
    calls = [call_from(row) for row in rows]
    return Page(calls[:limit], calls[limit - 1].id if len(calls) > limit else None)


def _query(wanted: CallFilter, *, limit: int, cursor: str | None) -> tuple[Sql, dict[str, Any]]:
    """The query for a page, with only the conditions that were asked for, so that each can use its index."""
    equal = {"tool": wanted.tool, "agent": wanted.agent, "run_id": wanted.run_id}
    values: dict[str, Any] = {name: value for name, value in equal.items() if value is not None}
    conditions = [f"{name} = :{name}" for name in values]
    if wanted.principal is not None:
        patterns = {f"glob_{'x' * number}": _like(glob) for number, glob in enumerate(wanted.or_for_others_of)}
        conditions.append(_visible(list(patterns)))
        values |= {"principal": wanted.principal, **patterns}
    if wanted.status:
        words = ", ".join(f"'{status.value}'" for status in wanted.status)
        conditions.append(f"status IN ({words})")
    if cursor is not None:
        conditions.append("id < :cursor")
        values["cursor"] = cursor
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    sql = f"SELECT * FROM calls{where} ORDER BY id DESC LIMIT :limit"  # noqa: S608 - built from our own names
    return Sql("list_calls", sql), values | {"limit": limit}


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
