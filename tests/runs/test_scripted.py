"""The loop with the shipped twin of a model: a written dialogue that thinks, calls and answers from what it reads."""

from pathlib import Path
from typing import Any

import pytest

from jackfield.errors import BadRequest
from jackfield.llm.script import ScriptedCall, ScriptTurn, When
from jackfield.llm.scripted import ScriptedModel
from jackfield.model.call import Outcome, done
from jackfield.model.items import FunctionCallOutput, Message, Reasoning, text_of
from jackfield.responses.input import check_answers
from jackfield.runs import events
from jackfield.sources.base import Invocation
from tests.requirement import requirement
from tests.runs.stage import a_stage

WEATHER: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TURNS = (
    ScriptTurn(
        when=When(user="Go", tool="weather"),
        think="They want to go. Look at the sky.",
        say="One moment.",
        calls=(
            ScriptedCall(tool="weather", arguments={"city": "Bern"}),
            ScriptedCall(tool="weather", arguments={"city": "Oslo"}),
        ),
    ),
    ScriptTurn(when=When(result="weather", says="snow"), say="Take a coat: {result.sky}."),
    ScriptTurn(when=When(result="weather"), say="Go as you are: {result.sky}."),
)


@requirement("TOOL-deliver-loop", "TOOL-agentic-engine")
async def test_a_written_dialogue_is_played_with_real_tools(tmp_path: Path) -> None:
    async def weather(invocation: Invocation) -> Outcome:
        return done({"sky": {"Bern": "sun", "Oslo": "snow"}[invocation.arguments["city"]]})

    async with a_stage(tmp_path) as stage:
        await stage.tool("weather", weather, input_schema=WEATHER)
        model = ScriptedModel(TURNS)
        ended = await stage.run(model)
    assert ended.status == "completed"
    thought, first, *_, last = stage.output
    assert isinstance(thought, Reasoning)
    assert isinstance(first, Message)
    assert isinstance(last, Message)
    assert (text_of(first), text_of(last)) == ("One moment.", "Take a coat: snow.")
    assert [call.output for call in stage.mcp_calls] == ['{"sky":"sun"}', '{"sky":"snow"}']
    assert ended.usage is not None
    assert ended.usage.total_tokens > 0


@requirement("TOOL-scope-result-validation")
async def test_a_result_enters_the_conversation_only_as_the_answer_to_a_call_and_as_what_it_may_be(
    tmp_path: Path,
) -> None:
    async def weather(_: Invocation) -> Outcome:
        return done({"sky": 7})

    promised = {"type": "object", "properties": {"sky": {"type": "string"}}, "required": ["sky"]}
    async with a_stage(tmp_path) as stage:
        await stage.tool("weather", weather, input_schema=WEATHER, output_schema=promised)
        model = ScriptedModel(
            [ScriptTurn(calls=(ScriptedCall(tool="weather", arguments={"city": "Bern"}),)), ScriptTurn(say="Oh.")]
        )
        await stage.run(model)
    told = [item for item in model.requests[-1].items if isinstance(item, FunctionCallOutput)]
    assert "does not match its output schema" in str(told[0].output)
    assert [call.status for call in stage.mcp_calls] == ["failed"]
    assert any(isinstance(event, events.ToolRunning) for event in stage.told)
    with pytest.raises(BadRequest, match="call_of_nobody"):
        check_answers((), (FunctionCallOutput(call_id="call_of_nobody", output="x"),))
