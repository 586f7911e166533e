"""The agentic loop: what the model is told, what is run, what is shown, and when it ends."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.llm import ScriptedCall, ScriptedModel, ScriptTurn, When
from jackfield.llm.chat_request import chat_messages
from jackfield.llm.types import Delta, ModelFailed, ReasoningDelta, RefusalDelta, StepEnd, TextDelta
from jackfield.model.call import CallStatus, Failed, Outcome, done
from jackfield.model.items import (
    FunctionCall,
    McpApprovalRequest,
    McpToolExecutionError,
    Message,
    Reasoning,
    Refusal,
    text_of,
)
from jackfield.model.tool import Metadata
from jackfield.runs import events
from jackfield.runs.plan import Choice
from jackfield.runs.step import MOST_CALLS
from jackfield.sources.base import Invocation, Progress
from tests.requirement import requirement
from tests.runs.stage import USAGE, PlayedModel, Stage, a_stage, calls, says


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with a_stage(tmp_path) as made:
        yield made


@requirement("TOOL-loop-ends-on-message")
async def test_an_answer_without_tools_is_one_message_and_the_end(stage: Stage) -> None:
    ended = await stage.run(PlayedModel(says("Hel", "lo")))
    assert (ended.status, ended.usage) == ("completed", USAGE)
    (message,) = stage.output
    assert isinstance(message, Message)
    assert (text_of(message), message.status, message.role) == ("Hello", "completed", "assistant")
    kinds = [type(event).__name__ for event in stage.told]
    assert kinds == ["RunItemAdded", "OutputTextDelta", "OutputTextDelta", "RunItemDone"]


@requirement("TOOL-deliver-loop")
async def test_the_shipped_twin_of_a_model_plays_its_script_through_the_loop(stage: Stage) -> None:
    await stage.tool("add")
    add = ScriptedCall(tool="add", arguments={"a": 1})
    model = ScriptedModel(
        [
            ScriptTurn(calls=(add, add)),
            ScriptTurn(when=When(result="add"), say="Both gave {result.a}."),
        ]
    )
    ended = await stage.run(model)
    assert ended.status == "completed"
    assert [call.output for call in stage.mcp_calls] == ['{"a":1}', '{"a":1}']
    message = stage.output[-1]
    assert isinstance(message, Message)
    assert text_of(message) == "Both gave 1."
    assert [len(request.items) for request in model.requests] == [1, 5]


async def test_thinking_speaking_and_refusing_are_items_of_their_own(stage: Stage) -> None:
    step: list[Delta] = [ReasoningDelta("hm"), TextDelta("I "), TextDelta("see"), RefusalDelta("no"), StepEnd("stop")]
    await stage.run(PlayedModel(step))
    reasoning, message, refusal = stage.output
    assert isinstance(reasoning, Reasoning)
    assert isinstance(message, Message)
    assert isinstance(refusal, Message)
    assert [text_of(item) for item in (reasoning, message)] == ["hm", "I see"]
    assert refusal.content == (Refusal(refusal="no"),)


@requirement(
    "TOOL-agentic-engine",
    "TOOL-loop-appends-results",
    "TOOL-loop-repeats",
    "TOOL-internal-execute",
    "TOOL-result-output",
    "TOOL-result-call-id",
    "TOOL-loop-finds-executor",
    "TOOL-loop-sends-tools",
)
async def test_the_model_is_told_what_its_call_came_to_and_answers(stage: Stage) -> None:
    await stage.tool("add")
    model = PlayedModel(calls(("add", {"a": 1})), says("done"))
    ended = await stage.run(model)
    assert (ended.status, ended.usage) == ("completed", USAGE.plus(USAGE))
    assert model.outputs(1) == ['{"a":1}']
    (call,) = stage.mcp_calls
    assert (call.server_label, call.name, call.arguments, call.output, call.status) == (
        "jackfield",
        "add",
        '{"a":1}',
        '{"a":1}',
        "completed",
    )
    record = await stage.harness.store.read(partial(call_tx.get_call, call.id.removeprefix("mcp_")))
    assert record is not None
    assert (record.tool, record.run_id, record.status) == ("add", "resp_1", CallStatus.COMPLETED)


@requirement("TOOL-question-parallel", "TOOL-loop-executes-each", "PROG-parallel-one-message")
async def test_calls_of_one_turn_run_side_by_side_and_keep_their_order(stage: Stage) -> None:
    both = asyncio.Barrier(3)

    async def meet(invocation: Invocation) -> Outcome:
        await both.wait()
        return done(invocation.arguments["n"])

    await stage.tool("meet", meet)
    model = PlayedModel(calls(*(("meet", {"n": n}) for n in range(3))), says("ok"))
    await stage.run(model)
    assert model.outputs(1) == ["0", "1", "2"]
    assert [call.output for call in stage.mcp_calls] == ["0", "1", "2"]
    asked, *results = chat_messages(model.asked[1])[-4:]
    assert [call["id"] for call in asked["tool_calls"]] == ["c0", "c1", "c2"], "one message with all calls"
    assert [(told["role"], told["tool_call_id"]) for told in results] == [("tool", f"c{n}") for n in range(3)]


@requirement("TOOL-question-parallel")
async def test_calls_run_one_after_the_other_where_the_request_says_so(stage: Stage) -> None:
    running = 0

    async def alone(invocation: Invocation) -> Outcome:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.01)
        running -= 1
        return done(invocation.arguments["n"])

    await stage.tool("alone", alone)
    model = PlayedModel(calls(*(("alone", {"n": n}) for n in range(3))), says("ok"))
    await stage.run(model, parallel=False)
    assert model.outputs(1) == ["0", "1", "2"]
    assert [request.parallel_tool_calls for request in model.asked] == [False, False]


@requirement("TOOL-result-is-error")
async def test_a_failing_tool_is_fed_back_and_shown_as_failed(stage: Stage) -> None:
    async def fail(_: Invocation) -> Outcome:
        return Failed("tool_error", "ValueError: boom")

    await stage.tool("fail", fail)
    model = PlayedModel(calls(("fail", {})), says("sorry"))
    ended = await stage.run(model)
    assert ended.status == "completed"
    assert model.outputs(1) == ["ValueError: boom"]
    (call,) = stage.mcp_calls
    assert (call.status, call.output) == ("failed", None)
    assert call.error == McpToolExecutionError(content=[{"type": "text", "text": "ValueError: boom"}])


@requirement("TOOL-call-arguments-string")
@pytest.mark.parametrize("arguments", ['{"a":', "[1]", '"x"'])
async def test_arguments_that_are_no_object_are_refused_in_words(stage: Stage, arguments: str) -> None:
    await stage.tool("add")
    model = PlayedModel(calls(("add", arguments)), says("ok"))
    await stage.run(model)
    assert model.outputs(1)[0].startswith("The arguments ")
    assert stage.started == []


async def test_arguments_that_break_the_schema_are_explained_to_the_model(stage: Stage) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    await stage.tool("add", input_schema=schema)
    model = PlayedModel(calls(("add", {"a": "x"})), calls(("add", {"a": 2})), says("ok"))
    await stage.run(model)
    assert model.outputs(1)[0].count("a must be") == 1
    assert stage.started == ["add"]


@requirement(
    "TOOL-function-not-executed",
    "TOOL-function-call-items",
    "TOOL-function-completed-single-turn",
    "TOOL-loop-returns-function-calls",
    "TOOL-executor-function-pending",
)
async def test_a_function_of_the_client_ends_the_turn(stage: Stage) -> None:
    stage.client_tool("ask_me")
    ended = await stage.run(PlayedModel(calls(("ask_me", {"q": 1}), first="One moment.")))
    assert ended.status == "completed"
    message, call = stage.output
    assert isinstance(message, Message)
    assert call == FunctionCall(id=call.id, call_id="c0", name="ask_me", arguments='{"q":1}', status="completed")


@requirement("TOOL-function-requires-action", "CON-resp-mixed-turn", "TOOL-deliver-function")
async def test_in_a_mixed_turn_the_servers_calls_run_once_and_the_clients_are_handed_out(stage: Stage) -> None:
    await stage.tool("add")
    stage.client_tool("ask_me")
    model = PlayedModel(calls(("add", {"a": 1}), ("ask_me", {"q": 1})))
    ended = await stage.run(model)
    assert ended.status == "requires_action"
    assert stage.started == ["add"]
    assert [item.status for item in stage.output if isinstance(item, FunctionCall)] == ["completed"]
    assert len(model.asked) == 1


@requirement(
    "TOOL-choice-none",
    "TOOL-filter-allowed-subset",
    "TOOL-filter-refusal-told",
    "TOOL-filter-all-tools-kept",
    "TOOL-choice-forced-name",
    "TOOL-choice-enforced-at-call",
    "TOOL-loop-no-executor",
)
@pytest.mark.parametrize(
    ("choice", "called", "said"),
    [
        (Choice(), "nothing", "There is no tool 'nothing'."),
        (Choice(mode="none"), "add", "Tool 'add' was not called: tools may not be used here."),
        (Choice(allowed=frozenset({"sub"})), "add", "Tool 'add' is not in the allowed_tools list. Allowed: sub."),
        (Choice(forced=frozenset({"sub"})), "add", "Tool 'add' was not called: call sub first."),
    ],
)
async def test_a_tool_that_may_not_be_called_is_refused_when_it_is(
    stage: Stage, choice: Choice, called: str, said: str
) -> None:
    for name in ("add", "sub"):
        await stage.tool(name)
    model = PlayedModel(calls((called, {})), calls(("sub", {})), says("ok"), says("ok"))
    await stage.run(model, choice=choice)
    assert model.outputs(1)[0].startswith(said)
    assert "add" not in stage.started
    assert {spec.name for spec in model.asked[0].tools} == {"add", "sub"}  # visible all the same


@requirement("TOOL-choice-required")
async def test_a_model_that_must_call_a_tool_is_asked_once_more_and_then_it_fails(stage: Stage) -> None:
    await stage.tool("add")
    model = PlayedModel(says("I would rather not"), says("No"))
    ended = await stage.run(model, choice=Choice(mode="required"))
    assert ended.status == "failed"
    assert ended.error is not None
    assert ended.error.code == "tool_choice_not_honoured"
    assert [request.tool_choice for request in model.asked] == ["required", "required"]


async def test_a_forced_tool_is_forced_once(stage: Stage) -> None:
    await stage.tool("add")
    model = PlayedModel(calls(("add", {})), says("ok"))
    ended = await stage.run(model, choice=Choice(forced=frozenset({"add"})))
    assert ended.status == "completed"
    assert [request.tool_choice for request in model.asked] == ["name:add", "auto"]


@requirement("CON-resp-max-tool-calls")
async def test_past_max_tool_calls_nothing_runs_and_the_model_finishes(stage: Stage) -> None:
    await stage.tool("add")
    model = PlayedModel(calls(("add", {"n": 1}), ("add", {"n": 2})), calls(("add", {"n": 3})), says("that is all"))
    ended = await stage.run(model, max_tool_calls=1)
    assert ended.status == "completed"
    assert stage.started == ["add"]
    assert model.outputs(1)[1].startswith("Tool 'add' was not called: the limit of 1 call is reached.")
    assert [request.tool_choice for request in model.asked] == ["auto", "none", "none"]


@requirement("TOOL-loop-ends-on-max-turns")
async def test_a_run_ends_after_max_steps(stage: Stage) -> None:
    await stage.tool("add")
    ended = await stage.run(PlayedModel(*(calls(("add", {})) for _ in range(3))), max_steps=3)
    assert (ended.status, ended.reason) == ("incomplete", "max_steps")


async def test_a_cut_off_answer_is_incomplete(stage: Stage) -> None:
    ended = await stage.run(PlayedModel([TextDelta("half"), StepEnd("length", USAGE)]))
    assert (ended.status, ended.reason) == ("incomplete", "max_output_tokens")
    (message,) = stage.output
    assert isinstance(message, Message)
    assert message.status == "incomplete"


@requirement("TOOL-loop-ends-on-error")
async def test_a_model_that_fails_ends_the_run_with_its_sentence(stage: Stage) -> None:
    ended = await stage.run(PlayedModel(ModelFailed("Model 'played' is away.", code="model_unavailable")))
    assert ended.status == "failed"
    assert ended.error == events.RunError("model_unavailable", "Model 'played' is away.")


@requirement("TOOL-ext-loop-retry")
async def test_a_step_that_failed_before_it_began_is_asked_again_if_the_plan_says_so(stage: Stage) -> None:
    model = PlayedModel(ModelFailed("away"), says("here"))
    ended = await stage.run(model, retries=1)
    assert ended.status == "completed"


async def test_a_call_that_needs_a_person_is_asked_for_and_ends_the_run(stage: Stage) -> None:
    await stage.tool("pay", metadata=Metadata(requires_approval=True))
    ended = await stage.run(PlayedModel(calls(("pay", {"amount": 5}))))
    assert ended.status == "completed"
    (request,) = stage.output
    assert isinstance(request, McpApprovalRequest)
    assert (request.server_label, request.name, request.arguments) == ("jackfield", "pay", '{"amount":5}')
    record = await stage.harness.store.read(partial(call_tx.get_call, request.id.removeprefix("mcpr_")))
    assert record is not None
    assert (record.status, msgspec.json.decode(record.arguments)) == (CallStatus.PENDING_APPROVAL, {"amount": 5})
    assert stage.started == []


async def test_a_request_may_want_to_be_asked_first_for_any_tool(stage: Stage) -> None:
    await stage.tool("look", asks_first=True)
    await stage.run(PlayedModel(calls(("look", {}))))
    assert isinstance(stage.output[0], McpApprovalRequest)
    assert stage.started == []


async def test_progress_of_a_tool_is_told_at_its_item(stage: Stage) -> None:
    async def slow(invocation: Invocation) -> Outcome:
        invocation.report(Progress(progress=1, total=2, message="half"))
        await asyncio.sleep(0.02)
        return done(None)

    await stage.tool("slow", slow)
    await stage.run(PlayedModel(calls(("slow", {})), says("ok")))
    assert events.RunToolProgress(0, 1, 2, "half") in stage.told


@requirement("TOOL-ext-loop-timeout")
async def test_a_timeout_stops_the_model_and_the_tools(stage: Stage) -> None:
    stopped = asyncio.Event()

    async def hang(_: Invocation) -> Outcome:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return done(None)

    await stage.tool("hang", hang)
    ended = await stage.run(PlayedModel(calls(("hang", {}))), timeout=0.2)
    assert (ended.status, ended.reason) == ("incomplete", "timeout")
    await asyncio.wait_for(stopped.wait(), 2)


@requirement("TOOL-loop-ends-on-cancel")
async def test_cancelling_a_run_cancels_its_calls_on_record(stage: Stage) -> None:
    began = asyncio.Event()

    async def hang(_: Invocation) -> Outcome:
        began.set()
        await asyncio.sleep(60)
        return done(None)

    await stage.tool("hang", hang)
    running = asyncio.create_task(stage.run(PlayedModel(calls(("hang", {})))))
    await began.wait()
    [call_id] = stage.harness.executor._running
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    record = await stage.harness.store.read(partial(call_tx.get_call, call_id))
    assert record is not None
    assert record.status is CallStatus.CANCELLED


async def test_a_model_that_asks_for_a_thousand_calls_at_once_gets_the_first_hundred_odd(stage: Stage) -> None:
    await stage.tool("look")
    model = PlayedModel(calls(*[("look", {})] * 1000), says("enough"))
    await stage.run(model)
    assert len(stage.started) == MOST_CALLS
    assert len(model.outputs(1)) == 1000
    assert model.outputs(1)[-1].startswith("Tool 'look' was not called: one step has 128 calls at most.")


async def test_cancelling_a_run_between_two_calls_leaves_nothing_behind(stage: Stage) -> None:
    began = asyncio.Event()

    async def hang(_: Invocation) -> Outcome:
        began.set()
        await asyncio.sleep(60)
        return done(None)

    await stage.tool("hang", hang)
    running = asyncio.create_task(stage.run(PlayedModel(calls(("hang", {}), ("hang", {}))), parallel=False))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stage.started == ["hang"]
    assert not stage.harness.pipeline.events._followers
