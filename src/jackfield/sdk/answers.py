"""An answer to a call that somebody else executes: how it is written, sent, and known again after a lost reply.

Above: `calls.py`, for people and programs, and `serving.py`, for tool servers. Below: `connection.py`.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.sdk.connection import Connection, Message, part
from jackfield.sdk.results import digest_of, large_result
from jackfield.sdk.types import CallRecord, Receipt


class Answer(Struct, frozen=True):
    """A result as JSON (`null` is one), or why there is none."""

    result: Raw | None = None
    error: str | None = None


def answer_with(result: Any) -> Answer:
    """Raises `TypeError` or `ValueError` for what JSON cannot hold."""
    return Answer(result=Raw(msgspec.json.encode(result)))


def tool_results_message(call_id: str, answer: Answer, *, run_id: str) -> Message:
    body: dict[str, Any] = {"callId": call_id}
    if answer.error is None:
        body["result"] = answer.result
    else:
        body["error"] = answer.error
    return Message(method="POST", path=f"/api/runs/{part(run_id)}/tool-results", body=msgspec.json.encode(body))


async def submit(connection: Connection, call_id: str, answer: Answer, *, run_id: str) -> Receipt:
    """Send it once. The second answer to a call, one's own included, raises `AlreadyResolved`."""
    response = await connection.ask(tool_results_message(call_id, answer, run_id=run_id))
    return connection.decode(response.content, Receipt)


def holds(record: CallRecord, answer: Answer) -> bool:
    """Whether this very answer is what the call was settled with."""
    if answer.error is not None:
        said = record.error is not None and record.error.message == answer.error
        return said or _is_kept_apart(record, {"error": answer.error})
    result = msgspec.json.decode(answer.result or Raw(b"null"))
    return record.status == "completed" and (record.result == result or _is_kept_apart(record, result))


def _is_kept_apart(record: CallRecord, result: Any) -> bool:
    """Whether the record has a notice of this result in its place."""
    notice = large_result(record.result, call_id=record.id)
    return notice is not None and notice.digest == digest_of(msgspec.json.encode(result))
