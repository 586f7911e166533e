"""How a call came out: on stdout for the result, on stderr for why there is none, in the exit code for scripts.

Above: `call.py`, `approve.py` and `result.py`. Below: `show.py`.
"""

import sys

from jackfield.cli.show import harmless, note, paint, put, put_result
from jackfield.sdk import CallAnswer, CallRecord
from jackfield.sdk.calls import large_result

DONE = 0
FAILED = 1
PENDING = 3


def exit_code(call: CallAnswer | CallRecord) -> int:
    """How a call went, for scripts."""
    if not call.is_settled:
        return PENDING
    return DONE if call.status == "completed" else FAILED


def show_record(call: CallRecord) -> None:
    """The outcome of a call as its record has it."""
    show(call.tool, answer_of(call))


def answer_of(call: CallRecord) -> CallAnswer:
    """The record as the answer that a caller who waited would have got."""
    return CallAnswer(
        success=call.status == "completed",
        call_id=call.id,
        run_id=call.run_id,
        status=call.status,
        result=call.result,
        error=call.error,
        execution_time_ms=call.execution_time_ms,
    )


def show(tool: str, answer: CallAnswer) -> None:
    """The result, why there is none, or the id of a call that has no outcome yet."""
    if answer.success:
        put_result(answer.result)
    elif answer.is_settled:
        _note_failure(tool, answer)
    else:
        put(answer.call_id)
        note(waits_for(answer))
    notice = large_result(answer.result, call_id=answer.call_id)
    if notice is not None:
        note(f"This is not the result, which has {notice.size:,} bytes: 'jackfield result {answer.call_id}' prints it.")


def show_failure(call: CallRecord) -> None:
    """Why a call that is over has failed, and where in its tool file, as far as its record tells us."""
    _note_failure(call.tool, answer_of(call))
    if call.trace:
        note(harmless(call.trace.rstrip()))


def _note_failure(tool: str, answer: CallAnswer) -> None:
    reason = answer.error.message if answer.error else f"the call ended as {answer.status}"
    code = answer.error.code if answer.error else answer.status
    failed = paint(f"'{tool}' failed ({code}):", "red", "bold", stream=sys.stderr)
    note(f"{failed} {harmless(reason)}")


def waits_for(answer: CallAnswer) -> str:
    """What a call without an outcome waits for, and what to type."""
    if answer.status == "pending_approval":
        return (
            "The call is pending_approval: a person must allow it first. "
            f"Type 'jackfield approve {answer.call_id}' or 'jackfield reject {answer.call_id}'."
        )
    return (
        f"The call is {answer.status}: somebody else will answer it. "
        f"Type 'jackfield answer {answer.call_id} JSON' to answer it yourself."
    )
