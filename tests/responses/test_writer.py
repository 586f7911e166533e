"""The writer alone: whatever a run tells, in whatever order its items take turns, the stream is a valid one."""

import json
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from jackfield.model.items import (
    FunctionCall,
    HttpError,
    Item,
    McpCall,
    McpListTools,
    Message,
    OutputText,
    Part,
    Reasoning,
    ReasoningText,
    Refusal,
)
from jackfield.responses.request import read_request
from jackfield.responses.resource import new_resource
from jackfield.responses.writer import EventWriter
from jackfield.runs.events import (
    ArgumentsDelta,
    Ended,
    EndStatus,
    LoopEvent,
    OutputReasoningDelta,
    OutputRefusalDelta,
    OutputTextDelta,
    RunError,
    RunItemAdded,
    RunItemDone,
    RunStarted,
    RunToolProgress,
    ToolRunning,
)
from tests.requirement import requirement
from tests.responses.conformity import check_stream

Told = list[LoopEvent]
texts = st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=4), max_size=4)


def write(told: Told, *, tools: list[Any] | None = None, background: bool = False) -> list[dict[str, Any]]:
    request = read_request({"model": "m", "input": "Hi", "tools": tools, "background": background})
    status = "queued" if background else "in_progress"
    writer = EventWriter(new_resource(request, id="resp_1", created_at=1, status=status), now=lambda: 2)
    return [json.loads(frame.data) for event in told for frame in writer.take(event)]


@st.composite
def said(draw: st.DrawFn, number: int) -> Told:
    """A message or a thought: parts in turn, streamed or only there at the end."""
    is_message = draw(st.booleans())
    kinds = draw(st.lists(st.sampled_from(("text", "refusal")), min_size=1, max_size=3)) if is_message else ["thought"]
    kinds = [kind for place, kind in enumerate(kinds) if place == 0 or kind != kinds[place - 1]]
    deltas: Told = []
    parts: list[Part] = []
    for kind in kinds:
        pieces = draw(texts.filter(bool))
        whole = "".join(pieces)
        if kind == "text":
            deltas += [OutputTextDelta(number, piece) for piece in pieces]
            parts.append(OutputText(text=whole))
        elif kind == "refusal":
            deltas += [OutputRefusalDelta(number, piece) for piece in pieces]
            parts.append(Refusal(refusal=whole))
        else:
            deltas += [OutputReasoningDelta(number, piece) for piece in pieces]
            parts.append(ReasoningText(text=whole))
    if draw(st.booleans()):
        deltas = []
    name = f"item_{number}"
    begun: Item = Reasoning(id=name, status="in_progress")
    done: Item = Reasoning(id=name, content=tuple(parts))
    if is_message:
        begun = Message(id=name, role="assistant", status="in_progress")
        done = Message(id=name, role="assistant", content=tuple(parts))
    return [RunItemAdded(number, begun), *deltas, RunItemDone(number, done)]


@st.composite
def called(draw: st.DrawFn, number: int) -> Told:
    """A call that the client runs or the server ran, its arguments streamed or not."""
    pieces = draw(texts)
    arguments = "".join(pieces)
    deltas: Told = [ArgumentsDelta(number, piece) for piece in pieces] if draw(st.booleans()) else []
    name = f"item_{number}"
    if draw(st.booleans()):
        begun: Item = FunctionCall(id=name, call_id=name, name="f", arguments="", status="in_progress")
        done: Item = FunctionCall(id=name, call_id=name, name="f", arguments=arguments)
        return [RunItemAdded(number, begun), *deltas, RunItemDone(number, done)]
    begun = McpCall(id=name, server_label="s", name="t", arguments="", status="in_progress")
    failed = draw(st.booleans())
    done = McpCall(
        id=name,
        server_label="s",
        name="t",
        arguments=arguments,
        output=None if failed else "ok",
        error=HttpError(code=503, message="down") if failed else None,
        status="failed" if failed else draw(st.sampled_from(("completed", "incomplete"))),
    )
    running: Told = [ToolRunning(number), RunToolProgress(number, 1)] if draw(st.booleans()) else []
    return [RunItemAdded(number, begun), *deltas, *running, RunItemDone(number, done)]


@st.composite
def listed(draw: st.DrawFn, number: int) -> Told:
    item = McpListTools(id=f"item_{number}", server_label="s", error=draw(st.sampled_from((None, "down"))))
    return [RunItemAdded(number, McpListTools(id=item.id, server_label="s")), RunItemDone(number, item)]


@st.composite
def runs(draw: st.DrawFn) -> Told:
    """Some items in turns, any of them cut short, then an end."""
    count = draw(st.integers(0, 5))
    lives = [list(draw(st.one_of(said(number), called(number), listed(number)))) for number in range(count)]
    told: Told = [RunStarted()]
    while any(lives):
        life = draw(st.sampled_from([life for life in lives if life]))
        told.append(life.pop(0))
        if draw(st.integers(0, 20)) == 0:
            break
    status: EndStatus = draw(st.sampled_from(get_args(EndStatus)))
    error = RunError("model_error", "It failed.") if status == "failed" else None
    return [*told, Ended(status=status, reason="max_steps" if status == "incomplete" else None, error=error)]


@requirement("CON-resp-sequence")
@given(told=runs(), background=st.booleans())
def test_any_interleaving_gives_a_valid_stream(told: Told, *, background: bool) -> None:
    check_stream(write(told, background=background), with_tools=True)


def test_nothing_is_told_after_the_end() -> None:
    ended = Ended(status="completed")

    stream = write([RunStarted(), ended, ended, RunItemDone(0, Message(id="m", role="assistant"))])

    assert [event["type"] for event in stream] == ["response.created", "response.in_progress", "response.completed"]


def test_what_was_streamed_stands_where_the_finished_item_says_otherwise() -> None:
    begun = Message(id="m", role="assistant", status="in_progress")
    done = Message(id="m", role="assistant", content=(OutputText(text="other", annotations=({"type": "note"},)),))

    stream = write([RunStarted(), RunItemAdded(0, begun), OutputTextDelta(0, "said"), RunItemDone(0, done)])

    part = stream[-1]["item"]["content"][0]
    assert (part["text"], part["annotations"]) == ("said", [{"type": "note"}])


def test_a_call_that_waits_for_somebody_has_no_outcome() -> None:
    begun = McpCall(id="m", server_label="s", name="t", arguments="", status="in_progress")
    waits = McpCall(id="m", server_label="s", name="t", arguments="{}", status="incomplete")

    stream = write([RunStarted(), RunItemAdded(0, begun), ToolRunning(0), RunItemDone(0, waits)])

    assert [event["type"] for event in stream[3:]] == [
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.output_item.done",
    ]


def test_an_item_that_is_done_without_having_been_added_is_added_first() -> None:
    stream = write([RunStarted(), *[RunItemDone(0, Message(id="m", role="assistant"))]])

    assert [event["type"] for event in stream[2:]] == ["response.output_item.added", "response.output_item.done"]
