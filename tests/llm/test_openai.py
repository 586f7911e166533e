"""A model behind a real HTTP server: what it streams, what is asked again, and what each failure says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from jackfield.llm.types import CallArguments, CallBegun, ModelFailed, ReasoningDelta, RefusalDelta, StepEnd, TextDelta
from jackfield.model.items import InputTokens, OutputTokens, Usage
from jackfield.model.tool import ToolDefinition
from jackfield.outgoing import Outgoing
from tests.llm.chat_server import (
    END,
    FINE,
    KEY,
    ROLE,
    USAGE,
    ChatServer,
    asked,
    breaks_off,
    call,
    chunk,
    event,
    model_at,
    refuses,
    says,
    silence,
    step,
    streams,
    text,
)
from tests.requirement import requirement
from tests.sources.upstream import reply
from tests.waiting import TIMEOUT

BOUND = TIMEOUT
HELLO = [TextDelta("Hello"), TextDelta(" there")]
COUNTED = Usage(
    input_tokens=12,
    output_tokens=5,
    total_tokens=17,
    input_tokens_details=InputTokens(cached_tokens=8),
    output_tokens_details=OutputTokens(reasoning_tokens=2),
)


async def failure_of(server: ChatServer, outgoing: Outgoing, **options: object) -> ModelFailed:
    model = model_at(server, outgoing, **{"max_retries": 0, **options})
    with pytest.raises(ModelFailed) as caught:
        await asyncio.wait_for(step(model), BOUND)
    await model.close()
    assert KEY not in caught.value.message
    assert "'default'" in caught.value.message
    return caught.value


async def test_text_is_streamed_and_ends_with_its_usage(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [FINE]
    deltas = await step(model_at(server, outgoing))
    assert deltas == [*HELLO, StepEnd("stop", COUNTED)]
    (request,) = server.received
    assert request.target == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_what_it_thinks_says_refuses_and_calls_comes_as_it_is_sent(
    server: ChatServer, outgoing: Outgoing
) -> None:
    server.plays = [
        says(
            chunk({"reasoning_content": "Hm"}),
            chunk({"reasoning": "…"}),
            text("Well."),
            chunk({"refusal": "No."}),
            call(0, id="a", name="add", arguments=""),
            call(1, id="b", name="now", arguments=""),
            call(0, arguments='{"x": '),
            call(1, arguments="{}"),
            call(0, arguments="1}"),
            chunk(finish="tool_calls"),
        )
    ]
    assert await step(model_at(server, outgoing)) == [
        ReasoningDelta("Hm"),
        ReasoningDelta("…"),
        TextDelta("Well."),
        RefusalDelta("No."),
        CallBegun(0, "a", "add"),
        CallBegun(1, "b", "now"),
        CallArguments(0, '{"x": '),
        CallArguments(1, "{}"),
        CallArguments(0, "1}"),
        StepEnd("tool_calls", None),
    ]


async def test_a_delta_is_handed_on_before_the_next_one_is_sent(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [streams([event(ROLE), event(text("first"))], ends=False)]
    async with aclosing(model_at(server, outgoing).stream(asked())) as stream:
        assert await asyncio.wait_for(anext(stream), BOUND) == TextDelta("first")


async def test_closing_the_stream_closes_the_request_at_once(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [streams([event(text("first"))], ends=False)]
    stream = model_at(server, outgoing).stream(asked())
    await asyncio.wait_for(anext(stream), BOUND)
    await stream.aclose()
    await asyncio.wait_for(server.drained(), 1)


async def test_cancelling_whoever_waits_closes_the_request_at_once(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [silence]
    waiting = asyncio.create_task(step(model_at(server, outgoing)))
    await asyncio.wait_for(server.arrived.wait(), BOUND)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(server.drained(), 1)


async def test_a_connection_is_used_again(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [FINE]
    model = model_at(server, outgoing)
    for _ in range(3):
        await step(model)
    assert server.connections == 1


async def test_steps_run_side_by_side(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [FINE]
    model = model_at(server, outgoing)
    assert await asyncio.gather(*(step(model) for _ in range(20))) == [[*HELLO, StepEnd("stop", COUNTED)]] * 20


@requirement("TOOL-ext-loop-retry")
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_a_passing_fault_is_tried_again(server: ChatServer, outgoing: Outgoing, status: int) -> None:
    server.plays = [refuses(status), FINE]
    assert (await step(model_at(server, outgoing)))[:-1] == HELLO
    assert len(server.received) == 2


async def test_a_stream_that_breaks_before_the_first_token_is_asked_for_again(
    server: ChatServer, outgoing: Outgoing
) -> None:
    server.plays = [breaks_off(ROLE), says({"error": {"message": "overloaded", "code": 503}}), FINE]
    assert (await step(model_at(server, outgoing)))[:-1] == HELLO
    assert len(server.received) == 3


@requirement("TOOL-ext-loop-retry")
async def test_it_is_tried_as_often_as_the_operator_says(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [refuses(500)]
    fault = await failure_of(server, outgoing, max_retries=3)
    assert len(server.received) == 4
    assert (fault.code, fault.status, fault.before_first_token) == ("model_error", 500, True)


async def test_the_server_says_how_long_to_wait_up_to_a_bound(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [refuses(429, retry_after="0"), FINE]
    await asyncio.wait_for(step(model_at(server, outgoing, retry_delay=60, max_retry_delay=60)), BOUND)

    server.plays = [refuses(429, {"error": {"message": "slow down"}}, retry_after="3600")]
    fault = await failure_of(server, outgoing, max_retries=5)
    assert len(server.received) == 3
    assert (fault.code, fault.retry_after) == ("rate_limited", 3600)
    assert "slow down" in fault.message


async def test_nothing_is_asked_twice_after_the_first_token(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [breaks_off(ROLE, text("Hel")), FINE]
    stream = model_at(server, outgoing).stream(asked())
    assert await anext(stream) == TextDelta("Hel")
    with pytest.raises(ModelFailed) as caught:
        await anext(stream)
    assert caught.value.before_first_token is False
    assert "broke off" in caught.value.message
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, ("model_error", "Check api_key under")),
        (403, {"detail": "no"}, ("model_error", "Check api_key under [models.default]")),
        (404, {"error": {"message": "model not found"}}, ("model_error", "('tiny')")),
        (400, {"error": {"message": "x", "code": "context_length_exceeded"}}, ("context_length_exceeded", "Send less")),
        (400, {"message": "This model's maximum context length is 9"}, ("context_length_exceeded", "maximum context")),
        (422, {"error": "unknown field stream_options"}, ("model_error", "body under [models.default]")),
        (429, {"error": {"message": "pay", "code": "insufficient_quota"}}, ("quota_exceeded", "credit")),
        (400, b"<html>" + b"x" * 5000, ("model_error", "<html>xxx")),
    ],
)
async def test_a_refusal_says_what_to_do_and_is_not_repeated(
    server: ChatServer, outgoing: Outgoing, status: int, body: object, expected: tuple[str, str]
) -> None:
    code, words = expected
    server.plays = [refuses(status, body)]
    fault = await failure_of(server, outgoing, max_retries=3)
    assert (fault.code, fault.status, len(server.received)) == (code, status, 1)
    assert words in fault.message
    assert len(fault.message) < 700


async def test_a_server_that_is_not_there_is_named_with_the_setting(server: ChatServer, outgoing: Outgoing) -> None:
    fault = await failure_of(server, outgoing, base_url="http://127.0.0.1:9/v1", max_retries=1)
    assert fault.code == "model_unavailable"
    assert "http://127.0.0.1:9/v1 was not reached" in fault.message
    assert "base_url under [models.default]" in fault.message


async def test_silence_is_bounded_before_and_after_the_first_token(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [silence]
    fault = await failure_of(server, outgoing, timeout=0.05)
    assert (fault.code, fault.before_first_token) == ("model_timeout", True)
    assert "raise timeout under [models.default]" in fault.message

    server.plays = [streams([event(text("Hel"))], ends=False)]
    fault = await failure_of(server, outgoing, timeout=0.05)
    assert (fault.code, fault.before_first_token) == ("model_timeout", False)


async def test_a_slow_reader_is_not_taken_for_a_silent_server(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [FINE]
    seen = []
    async with aclosing(model_at(server, outgoing, timeout=0.05).stream(asked())) as stream:
        async for delta in stream:
            seen.append(delta)
            await asyncio.sleep(0.08)
    assert seen == [*HELLO, StepEnd("stop", COUNTED)]


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (streams([b"data: {broken\n\n"]), "not JSON"),
        (streams([b'data: {"choices": 7}\n\n']), "unknown shape"),
        (streams([event(text("a")), b'data: {"choi']), "not JSON"),
        (says(text("half an answer"), done=False), "before its answer was whole"),
        (says(done=False), "before its answer was whole"),
        (says(call(0, id="a", arguments="{}"), chunk(finish="tool_calls")), "without naming it"),
        (says(text("a"), chunk(finish="abort")), "'abort'"),
        (says(text("a"), {"error": {"message": "out of memory"}}), "out of memory"),
    ],
    ids=["broken-json", "odd-shape", "cut-off", "no-end", "nothing", "nameless-call", "aborted", "error-event"],
)
async def test_an_answer_that_cannot_be_right_is_a_failure(
    server: ChatServer, outgoing: Outgoing, play: object, words: str
) -> None:
    server.plays = [play]  # type: ignore[list-item]
    assert words in (await failure_of(server, outgoing)).message


async def test_an_answer_is_whole_without_done_without_usage_and_without_an_end_of_the_connection(
    server: ChatServer, outgoing: Outgoing
) -> None:
    model = model_at(server, outgoing)
    server.plays = [says(text("Hello"), text(" there"), END, done=False)]
    assert await step(model) == [*HELLO, StepEnd("stop", None)]
    server.plays = [streams([event(text("Hello")), event(text(" there")), event(END), event(USAGE)], ends=False)]
    assert await asyncio.wait_for(step(model), BOUND) == [*HELLO, StepEnd("stop", COUNTED)]
    server.plays = [breaks_off(text("Hello"), text(" there"), END)]
    assert await step(model) == [*HELLO, StepEnd("stop", None)]


async def test_a_server_that_falls_silent_after_its_answer_has_answered(
    server: ChatServer, outgoing: Outgoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jackfield.llm.openai.AFTER_THE_END", 0.05)
    server.plays = [streams([event(text("Hello")), event(text(" there")), event(END)], ends=False)]
    assert await asyncio.wait_for(step(model_at(server, outgoing)), BOUND) == [*HELLO, StepEnd("stop", None)]


async def test_a_server_that_does_not_stream_is_understood(server: ChatServer, outgoing: Outgoing) -> None:
    whole = {
        "choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    server.plays = [refuses(200, whole)]
    assert await step(model_at(server, outgoing)) == [
        TextDelta("Hello"),
        StepEnd("length", Usage(input_tokens=3, output_tokens=1, total_tokens=4)),
    ]


@requirement("PROG-breaker-requests")
async def test_a_model_that_keeps_failing_is_left_alone_and_then_tried_by_one(
    server: ChatServer, outgoing: Outgoing
) -> None:
    server.plays = [refuses(500)]
    model = model_at(server, outgoing, max_retries=2, breaker_failures=2, breaker_seconds=0.2)
    for _ in range(2):
        with pytest.raises(ModelFailed, match="answered 500"):
            await step(model)
    assert len(server.received) == 6, "both requests had all their tries: attempts are not counted"
    with pytest.raises(ModelFailed, match=r"'default' failed 2 requests in a row .* tried again in a moment") as caught:
        await step(model)
    assert caught.value.code == "model_unavailable"
    assert len(server.received) == 6, "nothing was sent"

    server.plays = [FINE]
    async with asyncio.timeout(BOUND):
        while True:
            try:
                await step(model)
                break
            except ModelFailed:
                await asyncio.sleep(0.02)
    assert len(server.received) == 7
    assert (await step(model))[:-1] == HELLO


async def test_the_operators_headers_and_body_are_sent_and_the_environment_is_not(
    server: ChatServer, outgoing: Outgoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "from-the-environment")
    server.plays = [FINE]
    given = {"chat_template_kwargs": {"enable_thinking": False}, "temperature": 0.1}
    model = model_at(server, outgoing, api_key=None, headers={"X-Team": "tools"}, body=given, include_usage=False)
    await step(model, asked(temperature=0.9))
    (request,) = server.received
    assert request.headers["x-team"] == "tools"
    assert "authorization" not in request.headers
    assert "from-the-environment" not in str(request.headers)
    assert server.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False}
    assert server.bodies[0]["temperature"] == 0.1
    assert "stream_options" not in server.bodies[0]


@pytest.mark.parametrize("base", ["/v1", "/v1/"])
async def test_a_query_of_the_base_url_goes_with_every_request(
    server: ChatServer, outgoing: Outgoing, base: str
) -> None:
    server.plays = [FINE]
    await step(model_at(server, outgoing, base_url=f"{server.url}{base}?api-version=2026-01-01"))

    assert server.targets == ["/v1/chat/completions?api-version=2026-01-01"]


async def test_a_redirect_off_the_configs_host_leads_to_no_closed_address(
    server: ChatServer, outgoing: Outgoing
) -> None:
    async def play() -> AsyncIterator[bytes]:
        yield reply(307, location="http://169.254.169.254/latest/meta-data")

    server.plays = [play]
    assert "refused" in (await failure_of(server, outgoing)).message


@requirement("TOOL-scope-provider-formats")
async def test_tools_are_written_in_the_servers_own_format(server: ChatServer, outgoing: Outgoing) -> None:
    server.plays = [FINE]
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    tools = (
        ToolDefinition(type="function", name="add", description="Adds", parameters=schema, strict=True),
        ToolDefinition(type="function", name="now"),
    )
    await step(model_at(server, outgoing), asked(tools=tools, tool_choice="name:add", parallel_tool_calls=False))
    body = server.bodies[0]
    assert body["tools"] == [
        {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": schema, "strict": True}},
        {
            "type": "function",
            "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
        },
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    assert body["parallel_tool_calls"] is False
