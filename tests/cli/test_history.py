"""How calls and runs on record are shown."""

from typing import Any

import pytest

from jackfield.cli.history import call_lines, list_lines, timeline
from jackfield.cli.runs import list_lines as run_list_lines
from jackfield.cli.runs import run_lines
from jackfield.sdk import CallError, CallRecord, HookNote, RunCall, RunInfo, RunStep
from tests.requirement import requirement

HOSTILE = "\x1b[2J\u202egone"


def call(**more: Any) -> CallRecord:
    return CallRecord(
        **{
            "id": "call_1",
            "tool": "transfer",
            "status": "completed",
            "principal": "ada",
            "arguments": {"amount": 5},
            "asked_arguments": {"amount": 5},
            "created_at": "2026-01-15T10:30:07.000Z",
            "finished_at": "2026-01-15T10:30:08.000Z",
            **more,
        }
    )


def events(record: CallRecord) -> list[str]:
    return [event for _, event in timeline(record)]


@requirement("OPS-CLI-calls")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ["called by ada", "completed"]),
        ({"agent": "planner"}, ["called by planner for ada", "completed"]),
        ({"agent": "planner", "principal": "agent:planner"}, ["called by planner", "completed"]),
        (
            {
                "status": "rejected",
                "decision": "rejected",
                "decided_by": "bo",
                "decided_at": "2026-01-15T10:30:08.000Z",
            },
            ["called by ada", "rejected by bo"],
        ),
        ({"status": "expired", "decision": "expired"}, ["called by ada", "expired"]),
        (
            {"status": "pending", "finished_at": None, "expires_at": "2026-01-16T10:30:08.000Z"},
            ["called by ada", "expires"],
        ),
        (
            {"status": "waiting", "finished_at": None, "deadline": "2026-01-16T10:30:08.000Z"},
            ["called by ada", "times out"],
        ),
    ],
)
def test_the_timeline_says_who_did_what(more: dict[str, Any], said: list[str]) -> None:
    assert events(call(**more)) == said


def test_a_large_result_is_not_printed_but_named() -> None:
    notice = {
        "large_result": True,
        "call_id": "call_1",
        "size": 123456,
        "digest": "x",
        "preview": "",
        "url": "",
        "message": "",
    }
    lines = list(call_lines(call(result=notice)))
    assert "  123,456 bytes; 'jackfield result call_1' prints it." in lines


def test_what_a_parked_call_waits_for_is_said() -> None:
    lines = "\n".join(call_lines(call(status="pending", finished_at=None, run_id="run_1", waits_for="question")))
    assert "jackfield calls --run run_1" in lines


def test_what_hooks_did_is_shown_in_their_order() -> None:
    hooks = (
        HookNote(name="check", on="before_call", decision="allow", ms=0.4),
        HookNote(name="spend", on="before_call", decision="deny", reason="the budget is spent", ms=12.0),
    )
    lines = list(call_lines(call(status="refused", hooks=hooks)))
    [check, spend] = lines[lines.index("hooks") + 1 :][:2]
    assert check.split() == ["check", "before", "call", "allow", "0.4", "ms"]
    assert spend.split() == ["spend", "before", "call", "deny", "12", "ms", "the", "budget", "is", "spent"]


def test_foreign_text_cannot_drive_the_terminal() -> None:
    hostile = call(
        tool=HOSTILE,
        kind="resource",
        principal=HOSTILE,
        arguments={HOSTILE: HOSTILE},
        result=f"{HOSTILE}\r\n{HOSTILE}",
        status="failed",
        error=CallError(code=HOSTILE, message=HOSTILE),
        trace=HOSTILE,
        decision="approved",
        decided_by=HOSTILE,
        decided_at="2026-01-15T10:30:08.000Z",
        source=HOSTILE,
        run_id=HOSTILE,
        hooks=(HookNote(name=HOSTILE, on=HOSTILE, decision=HOSTILE, reason=HOSTILE),),
    )
    message = {"type": "message", "content": [{"type": "output_text", "text": HOSTILE}]}
    of_run = RunCall(**{name: getattr(hostile, name) for name in CallRecord.__struct_fields__})
    run = RunInfo(
        id="cycle_1",
        kind="cycle",
        status="failed",
        agent_entity_id=HOSTILE,
        reason=HOSTILE,
        summary=HOSTILE,
        steps=(RunStep(n=1, items=(message,), calls=(of_run,)),),
        response={"output": [message], "error": {"code": HOSTILE, "message": HOSTILE}},
        calls=(of_run,),
    )
    shown = [*list_lines([hostile]), *call_lines(hostile), *run_list_lines([run]), *run_lines(run)]
    assert all(line.isprintable() for line in shown)


def test_odd_items_of_a_model_are_left_out() -> None:
    items = ({"type": "reasoning"}, {"type": "message", "content": None}, {"type": "message", "content": "Plain."})
    run = RunInfo(id="resp_1", kind="response", status="completed", response={"output": items})
    assert [line for line in run_lines(run) if "Plain" in line] == ["  Plain."]


def test_nothing_is_said_to_be_nothing() -> None:
    assert (list_lines([]), run_list_lines([])) == (["No calls."], ["No runs."])
