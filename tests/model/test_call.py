"""The nine words, the moves between them, and how a call ends."""

from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from jackfield.model.call import FINAL, MOVES, NULL, Call, CallError, CallStatus, Done, Failed, Pending, done
from tests.requirement import requirement

S = CallStatus


def call(status: CallStatus = S.RUNNING, **fields: object) -> Call:
    whole = {
        "id": "call_1",
        "run_id": "run_1",
        "tool": "weather",
        "source": "acme",
        "tool_version": "v",
        "arguments": Raw(b"{}"),
        "principal": "ops",
        "status": status,
    }
    return Call(**{**whole, **fields})  # type: ignore[arg-type]


@requirement("CON-status-words")
def test_the_statuses_are_the_words_of_the_contract() -> None:
    assert [status.value for status in CallStatus] == [
        "running",
        "waiting",
        "pending",
        "pending_approval",
        "pending_login",
        "completed",
        "failed",
        "rejected",
        "expired",
        "cancelled",
        "refused",
    ]


@requirement("CON-status-words")
@pytest.mark.parametrize(
    ("status", "moves"),
    [
        (S.RUNNING, {S.COMPLETED, S.FAILED, S.CANCELLED, S.PENDING, S.PENDING_LOGIN}),
        (S.WAITING, {S.COMPLETED, S.FAILED, S.CANCELLED, S.PENDING}),
        (S.PENDING, {S.COMPLETED, S.FAILED, S.CANCELLED, S.EXPIRED, S.RUNNING}),
        (S.PENDING_APPROVAL, {S.RUNNING, S.PENDING, S.REJECTED, S.EXPIRED, S.CANCELLED}),
        (S.PENDING_LOGIN, {S.RUNNING, S.REJECTED, S.EXPIRED, S.CANCELLED}),
        (S.COMPLETED, set()),
        (S.FAILED, set()),
        (S.REJECTED, set()),
        (S.EXPIRED, set()),
        (S.CANCELLED, set()),
    ],
)
def test_from_each_status_only_the_moves_of_the_protocol_are_legal(status: CallStatus, moves: set[CallStatus]) -> None:
    assert MOVES[status] == moves


@requirement("CON-status-words")
def test_the_table_knows_every_status_and_final_is_what_leads_nowhere() -> None:
    assert set(MOVES) == set(CallStatus)
    assert {status for status in CallStatus if status.is_final} == FINAL
    assert {status for status, moves in MOVES.items() if not moves} == FINAL


def test_no_status_leads_back_to_itself_and_each_can_end() -> None:
    for status, moves in MOVES.items():
        assert status not in moves
        assert status.is_final or moves & FINAL


@requirement("TOOL-call-id", "TOOL-call-name", "TOOL-deliver-types")
def test_a_call_has_its_id_and_the_name_of_the_tool_that_was_asked_for() -> None:
    one = call()
    assert (one.id, one.tool) == ("call_1", "weather")
    assert str(one) == "weather[call_1] running"


@requirement("TOOL-call-id", "TOOL-call-name")
@pytest.mark.parametrize("missing", ["id", "tool"])
def test_a_call_without_id_or_name_cannot_be_made(missing: str) -> None:
    fields = {name: getattr(call(), name) for name in Call.__struct_fields__ if name != missing}
    with pytest.raises(TypeError, match=missing):
        Call(**fields)


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"a": [1, None]}, "text"])
def test_every_json_value_is_a_result(value: object) -> None:
    outcome = call(S.COMPLETED, result=done(value).result).outcome
    assert isinstance(outcome, Done)
    assert msgspec.json.decode(outcome.result) == value


def test_a_completed_call_without_a_stored_result_has_null() -> None:
    assert call(S.COMPLETED).outcome == Done(NULL)


def test_what_json_cannot_hold_is_no_result() -> None:
    with pytest.raises(TypeError):
        done(Path.home)


@requirement("TOOL-deliver-types")
@pytest.mark.parametrize("status", [S.FAILED, S.REJECTED, S.EXPIRED, S.CANCELLED])
def test_a_call_that_ended_badly_says_how(status: CallStatus) -> None:
    ended = call(status, error=CallError("timeout", "Tool timed out after 10000ms"), result=Raw(b'{"error":"x"}'))
    assert ended.outcome == Failed("timeout", "Tool timed out after 10000ms", Raw(b'{"error":"x"}'))


@pytest.mark.parametrize("status", [S.RUNNING, S.WAITING, S.PENDING, S.PENDING_APPROVAL, S.PENDING_LOGIN])
def test_a_call_that_has_not_ended_is_pending_where_it_is(status: CallStatus) -> None:
    assert call(status).outcome == Pending(status)
