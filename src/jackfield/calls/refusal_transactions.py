"""Refused calls as scripts: T14 of the pending-call protocol.

A record is final from the start; only how often it was refused grows. Above: `refusals.py`. Below: `rows.py`.
"""

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.rows import identity_values
from jackfield.errors import Refused
from jackfield.model.call import Call, CallError
from jackfield.store.scripts import Script

MINUTE_MS = 60_000
"""As in the statements."""
MOST_RECORDS = 100
"""Records of refusals that one principal makes within a minute, the one of all others included."""
OTHER = "(other)"
"""The tool of the record that counts what is refused beyond those."""
_NONE = Raw(b"{}")


class KeptRefusal(Struct, frozen=True, kw_only=True):
    """Where a refusal is counted."""

    call: Call
    """As it was to be written: the call itself, or the one that stands for others."""
    call_id: str
    age_ms: int = 0
    """Since its minute began."""
    is_new: bool = False


def refuse(call: Call, *, more: int = 1) -> Script[KeptRefusal]:
    """Count a refused call where its minute has a record; otherwise put it on record."""
    # T14
    if (kept := (yield from _repeat(call, more))) is not None:
        return kept
    if call.tool != OTHER:
        rows = yield "refusals_of_minute", {"principal": call.principal}
        if rows[0]["records"] >= MOST_RECORDS - 1:
            return (yield from refuse(others(call), more=more))
    assert call.error is not None
    error = {"error_code": call.error.code, "error_message": call.error.message}
    yield "insert_refusal", identity_values(call) | error | {"more": more}
    return KeptRefusal(call=call, call_id=call.id, is_new=True)


def _repeat(call: Call, more: int) -> Script[KeptRefusal | None]:
    assert call.error is not None
    values = {"principal": call.principal, "tool": call.tool, "error_code": call.error.code, "more": more}
    rows = yield "repeat_refusal", values
    if not rows:
        return None
    return KeptRefusal(call=call, call_id=rows[0]["id"], age_ms=max(0, min(rows[0]["age_ms"], MINUTE_MS)))


def count_refusals(call_id: str, *, more: int) -> Script[bool]:
    """The same refusal, so many times more. False: its record has been pruned."""
    return bool((yield "count_refusals", {"id": call_id, "more": more}))


def others(call: Call) -> Call:
    """The record of what a principal is refused beyond those that have one of their own."""
    said = f"More than {MOST_RECORDS - 1} different refusals of this key within a minute: the others are counted here."
    return msgspec.structs.replace(
        call,
        tool=OTHER,
        source="",
        tool_version="",
        arguments=_NONE,
        agent=None,
        hooks=(),
        error=CallError(Refused.code, said),
    )
