"""What a service's answers mean: dotted paths, completion conditions, progress. Pure."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from jackfield.model.call import Done, Failed
from jackfield.model.tool import AsyncBehavior, Backoff, CompletionConditions, ProgressTracking, StatusPolling, at_path
from jackfield.sources.base import Begun, Look
from jackfield.sources.manifest.responses import begun_of, id_in, look_of

POLLING = StatusPolling(status_tool="check", operation_id_field="run.id", status_tool_id_param="id")
CONDITIONS = CompletionConditions(
    status_field="run.status",
    success_values=("done", "true", "200"),
    failure_values=("failed",),
    error_field="run.error",
    error_details_field="run.details",
    result_field="run.output",
)
TRACKING = ProgressTracking(
    progress_field="run.percent",
    message_field="run.note",
    phase_field="run.phase",
    current_step_field="run.step",
    total_steps_field="run.steps",
    estimated_remaining_field="run.left",
)
BEHAVIOR = AsyncBehavior(status_polling=POLLING, completion_conditions=CONDITIONS, progress_tracking=TRACKING)


def look(run: Any) -> Look:
    return look_of(Raw(msgspec.json.encode({"run": run})), BEHAVIOR)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b", 1),
        ("a", {"b": 1, "c": [{"d": 2}]}),
        ("a.c.0.d", 2),
        ("a.c.1.d", None),
        ("a.c.x", None),
        ("a.b.c", None),
        ("z", None),
        ("", {"a": {"b": 1, "c": [{"d": 2}]}}),
        (None, None),
    ],
)
def test_a_dotted_path_finds_what_is_there_and_nothing_else(path: str | None, found: Any) -> None:
    assert at_path({"a": {"b": 1, "c": [{"d": 2}]}}, path) == found


@pytest.mark.parametrize("status", ["done", True, 200])
def test_work_that_is_done_has_the_result_that_its_field_names(status: Any) -> None:
    assert look({"status": status, "output": [1]}) == Look(outcome=Done(Raw(b"[1]")))


def test_a_result_field_that_is_not_there_leaves_the_whole_answer() -> None:
    assert look({"status": "done"}) == Look(outcome=Done(Raw(b'{"run":{"status":"done"}}')))


def test_work_that_failed_says_why() -> None:
    outcome = look({"status": "failed", "error": "No oven", "details": {"at": 3}}).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == ("tool_error", 'No oven: {"at":3}')
    silent = look({"status": "failed"}).outcome
    assert isinstance(silent, Failed)
    assert silent.message == "It ended with the status 'failed'."


@pytest.mark.parametrize("status", ["running", "unheard of", None, 1, {}, []])
def test_any_other_status_means_that_it_goes_on(status: Any) -> None:
    assert look({"status": status}).outcome is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"percent": 40}, (40.0, None, None)),
        ({"percent": "40"}, (40.0, None, None)),
        ({"step": 2, "steps": 5, "phase": "Bake"}, (2.0, 5.0, "Bake")),
        ({"note": "soon", "phase": "Bake", "left": 9}, (0.0, None, "Bake: soon (9 s left)")),
        ({"percent": True, "step": None}, None),
        ({"percent": "nan", "left": "inf"}, None),
        ({"percent": 10**400}, None),
        ({}, None),
    ],
)
def test_progress_is_what_the_fields_say(
    said: dict[str, Any], told: tuple[float, float | None, str | None] | None
) -> None:
    progress = look({"status": "running", **said}).progress
    assert (None if progress is None else (progress.progress, progress.total, progress.message)) == told


@pytest.mark.parametrize("found", ["r1", 17, 1.5])
def test_an_id_is_text_or_a_number(found: Any) -> None:
    begun = begun_of(Raw(msgspec.json.encode({"run": {"id": found}})), BEHAVIOR, tool="start")
    assert isinstance(begun, Begun)
    assert id_in(begun.reference) == found


@pytest.mark.parametrize(
    "answer", [{}, {"run": None}, {"run": {"id": ""}}, {"run": {"id": True}}, {"run": {"id": {}}}, []]
)
def test_an_answer_without_an_id_cannot_be_followed(answer: Any) -> None:
    assert isinstance(begun_of(Raw(msgspec.json.encode(answer)), BEHAVIOR, tool="start"), Failed)


def test_pauses_grow_up_to_their_maximum() -> None:
    backoff = msgspec.structs.replace(POLLING, backoff=Backoff(initial=5, max=30, multiplier=1.5))
    assert [backoff.pause(looks) for looks in (0, 1, 2, 5, 10_000)] == [5, 7.5, 11.25, 30, 30]
    assert POLLING.pause(99) == 5


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["status", "error", "details", "output", "percent", "note", "phase", "step", "steps", "left"])


@given(run=st.dictionaries(FIELDS, JSON, max_size=8) | JSON)
def test_whatever_a_status_tool_says_it_is_a_look(run: Any) -> None:
    assert isinstance(look(run), Look)
