"""Streamed responses over a real port: by the spec's schemas, by OpenAI's own accumulator, and when somebody goes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall

from jackfield.gateway.server import build_app
from jackfield.model.items import ListedMcpTool, McpCall, McpListTools, Message, Reasoning, ReasoningText, text_of
from jackfield.runs import events
from jackfield.runs.events import (
    ArgumentsDelta,
    Emit,
    Ended,
    OutputReasoningDelta,
    RunError,
    RunItemAdded,
    RunItemDone,
    RunStarted,
)
from tests.requirement import requirement
from tests.responses.conformity import check_stream
from tests.responses.scene import (
    ADMIN_KEY,
    WITHIN,
    FakeEngine,
    Scene,
    function_call,
    gateway_in,
    held,
    message,
    refuses,
    says,
    scene,
    tells,
)

MCP = [{"type": "mcp", "server_label": "jackfield"}]


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(tmp_path) as opened:
        yield opened


@pytest.fixture
async def openai(here: Scene) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{here.url}/v1", api_key="ada-key", max_retries=0) as client:
        yield client


def thought(text: str, *, number: int = 0) -> list[events.LoopEvent]:
    begun = Reasoning(id=f"rs_{number}", status="in_progress")
    done = Reasoning(id=f"rs_{number}", content=(ReasoningText(text=text),))
    return [RunItemAdded(number, begun), OutputReasoningDelta(number, text), RunItemDone(number, done)]


def listing(*, number: int = 0) -> list[events.LoopEvent]:
    begun = McpListTools(id=f"mcpl_{number}", server_label="jackfield")
    tool = ListedMcpTool(name="add", input_schema={"type": "object"}, description="Add.")
    done = McpListTools(id=f"mcpl_{number}", server_label="jackfield", tools=(tool,))
    return [RunItemAdded(number, begun), events.ToolRunning(number), RunItemDone(number, done)]


def ran(number: int) -> list[events.LoopEvent]:
    """A server-run call from its first word to its result."""
    begun = McpCall(id=f"mcp_{number}", server_label="jackfield", name="add", arguments="", status="in_progress")
    done = McpCall(id=f"mcp_{number}", server_label="jackfield", name="add", arguments='{"a":1}', output=str(number))
    return [
        RunItemAdded(number, begun),
        ArgumentsDelta(number, '{"a"'),
        ArgumentsDelta(number, ":1}"),
        events.ToolRunning(number),
        events.RunToolProgress(number, 1, 2, "half"),
        RunItemDone(number, done),
    ]


def interleaved(*runs: list[events.LoopEvent]) -> list[events.LoopEvent]:
    """One event of each run in turn."""
    longest = max(len(run) for run in runs)
    return [run[step] for step in range(longest) for run in runs if step < len(run)]


def types_of(stream: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in stream]


@requirement("CON-resp-sequence", "PROG-event-names")
@pytest.mark.parametrize(("names", "word"), [(None, "reasoning_text"), ("open-responses", "reasoning")])
async def test_a_streamed_message_follows_the_spec_event_by_event(here: Scene, names: str | None, word: str) -> None:
    here.engine.plays(tells(*thought("Hm."), *message("Hello there.", number=1)))

    stream = await here.stream(names=names)

    check_stream(stream)
    assert types_of(stream) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        f"response.{word}.delta",
        f"response.{word}.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert stream[-1]["response"] == await here.get(stream[0]["response"]["id"])


@requirement("PROG-event-names")
@pytest.mark.parametrize("names", ["openai", "open-responses"])
async def test_who_asks_for_a_summary_gets_the_thoughts_as_one(here: Scene, names: str) -> None:
    here.engine.plays(tells(*thought("Hm."), *message("Hello.", number=1)))

    stream = await here.stream(names=names, reasoning={"summary": "auto"})

    check_stream(stream)
    assert types_of(stream)[3:7] == [
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    ]
    reasoning = stream[-1]["response"]["output"][0]
    assert (reasoning["summary"], reasoning["content"]) == ([{"type": "summary_text", "text": "Hm."}], [])


@requirement("PROG-event-names")
async def test_other_names_for_events_are_refused(here: Scene) -> None:
    headers = {"jackfield-events": "mine"}
    answer = await here.client.post("/v1/responses", json={"model": "demo", "input": "Hi"}, headers=headers)
    assert answer.status_code == 400
    assert "Use openai or open-responses." in answer.text


@requirement("PROG-event-names")
async def test_progress_is_told_only_to_who_asks_for_it(here: Scene) -> None:
    here.engine.plays(tells(*ran(0)), tells(*ran(0)))

    plain = types_of(await here.stream(tools=MCP))
    told = types_of(await here.stream(tools=MCP, include=["jackfield.progress"]))

    assert "jackfield:tool_progress" not in plain
    assert [kind for kind in told if kind not in plain] == ["jackfield:tool_progress"]


@requirement("CON-resp-sequence")
async def test_five_tools_that_stream_at_once_share_one_sequence(here: Scene) -> None:
    told = [*listing(), *interleaved(*(ran(number) for number in range(1, 6))), *message("Done.", number=6)]
    here.engine.plays(tells(*told))

    stream = await here.stream(tools=MCP, include=["jackfield.progress"])

    check_stream(stream, with_tools=True)
    one = [event["type"] for event in stream if event.get("output_index") == 3]
    assert one == [
        "response.output_item.added",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.in_progress",
        "jackfield:tool_progress",
        "response.mcp_call.completed",
        "response.output_item.done",
    ]
    output = stream[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["mcp_list_tools", *["mcp_call"] * 5, "message"]
    assert [item["output"] for item in output[1:6]] == ["1", "2", "3", "4", "5"]


async def test_openais_accumulator_takes_text_reasoning_and_function_calls(here: Scene, openai: AsyncOpenAI) -> None:
    calls = [*function_call("weather", "c1", '{"city": "Ulm"}', number=2), *function_call("time", "c2", number=3)]
    here.engine.plays(tells(*thought("Hm."), *message("Let me see.", number=1), *calls))

    async with openai.responses.stream(model="demo", input="Weather?") as stream:
        kinds = [event.type async for event in stream]
        response = await stream.get_final_response()

    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert response.output_text == "Let me see."
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
    call = response.output[2]
    assert isinstance(call, ResponseFunctionToolCall)
    assert call.arguments == '{"city": "Ulm"}'
    assert response.usage is not None
    assert response.usage.total_tokens == 7


async def test_openais_accumulator_takes_server_run_tools(here: Scene, openai: AsyncOpenAI) -> None:
    told = [*listing(), *interleaved(ran(1), ran(2)), *message("Done.", number=3)]
    here.engine.plays(tells(*told))

    async with openai.responses.stream(
        model="demo", input="Add.", tools=[{"type": "mcp", "server_label": "jackfield", "server_url": "x"}]
    ) as stream:
        response = await stream.get_final_response()

    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
    assert response.output_text == "Done."


async def test_openais_client_reads_keeps_continues_and_deletes(here: Scene, openai: AsyncOpenAI) -> None:
    here.engine.plays(says("One."), says("Two."))
    first = await openai.responses.create(model="demo", input="Hi")
    second = await openai.responses.create(model="demo", input="More", previous_response_id=first.id)

    assert (await openai.responses.retrieve(second.id)).output_text == "Two."
    items = await openai.responses.input_items.list(second.id)
    assert [item.type async for item in items] == ["message"]
    await openai.responses.delete(second.id)
    assert [model.id async for model in openai.models.list()] == ["demo"]
    assert [text_of(item) for item in here.engine.asked[1].history if isinstance(item, Message)] == ["Hi", "One."]


@requirement("CON-resp-errors")
async def test_a_failure_after_the_first_event_is_an_error_event_and_a_failed_response(
    here: Scene, openai: AsyncOpenAI
) -> None:
    async def fail(emit: Emit) -> None:
        for event in (RunStarted(), *message("Half")[:2]):
            emit(event)
        emit(Ended(status="failed", error=RunError("rate_limited", "The model is busy. Try later.")))

    here.engine.plays(fail, fail)

    stream = await here.stream()

    check_stream(stream)
    assert types_of(stream)[-2:] == ["error", "response.failed"]
    assert stream[-2]["error"] == {
        "type": "too_many_requests",
        "code": "rate_limited",
        "message": "The model is busy. Try later.",
        "param": None,
    }
    kept = await here.get(stream[0]["response"]["id"])
    assert kept == stream[-1]["response"]
    assert (kept["status"], kept["error"]["code"]) == ("failed", "rate_limited")
    assert kept["output"][0] == {
        "type": "message",
        "id": "msg_0",
        "status": "incomplete",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Ha", "annotations": [], "logprobs": []}],
    }
    with pytest.raises(APIError, match="busy"):
        async for _ in await openai.responses.create(model="demo", input="Hi", stream=True):
            pass


async def test_a_failure_before_the_first_event_is_no_stream(here: Scene) -> None:
    here.engine.plays(refuses(ZeroDivisionError("secret detail")))

    answer = await here.client.post("/v1/responses", json={"model": "demo", "input": "Hi", "stream": True})

    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/json")
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("status", "reason", "last", "details"),
    [
        ("incomplete", "max_steps", "response.incomplete", {"reason": "max_steps"}),
        ("requires_action", None, "response.completed", None),
        ("cancelled", None, "response.cancelled", None),
    ],
)
async def test_every_end_has_its_event_and_status(
    here: Scene, status: events.EndStatus, reason: str | None, last: str, details: object
) -> None:
    async def play(emit: Emit) -> None:
        for event in (RunStarted(), *message("Hello."), Ended(status=status, reason=reason)):
            emit(event)

    here.engine.plays(play)

    stream = await here.stream()

    check_stream(stream)
    response = stream[-1]["response"]
    assert (stream[-1]["type"], response["status"], response["incomplete_details"]) == (last, status, details)
    assert await here.get(response["id"]) == response


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_hangs_up_stops_the_run_and_what_was_said_is_kept(here: Scene, *, streamed: bool) -> None:
    here.engine.plays(held(asyncio.Event(), *message("Half")[:2]))
    asking = asyncio.create_task(here.stream() if streamed else here.create())
    await asyncio.wait_for(here.engine.was_asked.wait(), WITHIN)

    asking.cancel()

    await asyncio.wait_for(here.engine.stopped.wait(), WITHIN)
    kept = await here.until_ended(here.engine.asked[0].response_id)
    assert kept["status"] == "cancelled"
    assert kept["output"][0]["content"][0]["text"] == "Ha"


async def test_a_stream_that_is_cancelled_from_outside_ends_with_its_own_event(here: Scene) -> None:
    calls = function_call("weather", "c1", '{"city": "Ulm"}', number=1)[:2]
    here.engine.plays(held(asyncio.Event(), *message("Half"), *calls), says("Go on."))
    streaming = asyncio.create_task(here.stream())
    await asyncio.wait_for(here.engine.was_asked.wait(), WITHIN)

    answer = await here.client.post(f"/v1/responses/{here.engine.asked[0].response_id}/cancel")

    stream = await asyncio.wait_for(streaming, WITHIN)
    check_stream(stream)
    assert stream[-1]["type"] == "response.cancelled"
    assert answer.json() == stream[-1]["response"]
    assert [item["status"] for item in answer.json()["output"]] == ["completed", "incomplete"]
    assert here.engine.stopped.is_set()
    await here.create(previous_response_id=answer.json()["id"])  # nobody can answer a call that never came whole


async def test_a_finished_response_stays_as_it_is_when_it_is_cancelled(here: Scene) -> None:
    here.engine.plays(says("Hello."))
    response = await here.create()

    answer = await here.client.post(f"/v1/responses/{response['id']}/cancel")

    assert (answer.status_code, answer.json()) == (200, response)


async def test_each_event_is_one_write(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.plays(says("Hello there."))
    written: list[bytes] = []
    body = b'{"model": "demo", "input": "Hi", "stream": true}'
    never = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if never.is_set():
            await asyncio.Event().wait()
        never.set()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(sent: Any) -> None:
        if sent["type"] == "http.response.body":
            written.append(sent["body"])

    headers = [(b"host", b"localhost"), (b"x-api-key", ADMIN_KEY.encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "query_string": b"", "headers": headers}
    async with gateway_in(tmp_path, store="memory:") as gateway:
        await build_app(gateway, engine=engine)(scope, receive, send)

    *frames, done, last = written
    assert (done, last) == (b"data: [DONE]\n\n", b"")
    assert len(frames) == 10
    assert all(frame.startswith(b"event: response.") and frame.endswith(b"}\n\n") for frame in frames)
    assert all(frame.count(b"\n") == 3 for frame in frames)
