"""The model that plays a written dialogue: which turn fits, what its blanks stand for, how it fails on purpose."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.errors import ConfigError
from jackfield.llm import (
    CallArguments,
    CallBegun,
    Delta,
    ModelFailed,
    ModelRequest,
    ReasoningDelta,
    RefusalDelta,
    ScriptedCall,
    ScriptedFailure,
    ScriptedModel,
    ScriptTurn,
    StepEnd,
    TextDelta,
    When,
)
from jackfield.llm.script import Script, read_script
from jackfield.model.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    Message,
    OutputText,
    Usage,
)
from jackfield.model.tool import ToolDefinition
from tests.llm.chat_server import asked, step

DOCUMENT = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
HOTELS = {"hotels": [{"id": "h1", "name": "Sol", "price": 80}, {"id": "h2", "name": "Mar", "price": 95}]}


def said(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def calls(deltas: list[Delta]) -> list[tuple[str, Any]]:
    """Name and arguments of each call."""
    names = {delta.index: delta.name for delta in deltas if isinstance(delta, CallBegun)}
    texts = dict.fromkeys(names, "")
    for delta in deltas:
        if isinstance(delta, CallArguments):
            texts[delta.index] += delta.delta
    return [(name, msgspec.json.decode(texts[index])) for index, name in names.items()]


def ran(name: str, output: Any) -> McpCall:
    text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return McpCall(id=f"mcp_{name}", server_label="jackfield", name=name, arguments="{}", output=text)


def user(text: str) -> Message:
    return Message(role="user", content=(InputText(text=text),))


class Talk:
    """A conversation with one model."""

    def __init__(self, model: ScriptedModel, *tools: str) -> None:
        self.model = model
        self.tools = tuple(ToolDefinition(type="function", name=name) for name in tools)
        self.items: list[Item] = []

    async def goes_on(self, *items: Item) -> list[Delta]:
        self.items += items
        deltas = await step(self.model, ModelRequest(items=tuple(self.items), tools=self.tools))
        if words := said(deltas):
            self.items.append(Message(role="assistant", content=(OutputText(text=words),)))
        return deltas


async def test_turns_without_a_condition_are_played_in_order_and_then_it_says_that_none_is_left() -> None:
    model = ScriptedModel(turns=[ScriptTurn(say="One."), ScriptTurn(say="Two.")])
    assert [said(await step(model)), said(await step(model))] == ["One.", "Two."]
    with pytest.raises(ModelFailed, match=r"no turn left for 'hello'.*\[otherwise\]") as caught:
        await step(model)
    assert caught.value.code == "script_error"


async def test_a_script_can_begin_anew() -> None:
    model = ScriptedModel(Script(turns=(ScriptTurn(say="One."), ScriptTurn(say="Two.")), repeat=True))
    assert [said(await step(model)) for _ in range(5)] == ["One.", "Two.", "One.", "Two.", "One."]


async def test_a_turn_thinks_speaks_refuses_and_calls_in_pieces_and_counts_its_words() -> None:
    turn = ScriptTurn(
        think="Hm, well.",
        say=("Let ", "me"),
        refuse="No.",
        calls=(
            ScriptedCall(tool="add", arguments={"x": [1, 2, 3], "y": "four"}, id="a"),
            ScriptedCall(tool="now", id="b"),
        ),
    )
    assert await step(ScriptedModel([turn]), asked("one two three", instructions="Be kind")) == [
        ReasoningDelta("Hm, "),
        ReasoningDelta("well."),
        TextDelta("Let "),
        TextDelta("me"),
        RefusalDelta("No."),
        CallBegun(0, "a", "add"),
        CallArguments(0, '{"x":[1,2,3],"y"'),
        CallArguments(0, ':"four"}'),
        CallBegun(1, "b", "now"),
        CallArguments(1, "{}"),
        StepEnd("tool_calls", Usage(input_tokens=5, output_tokens=10, total_tokens=15)),
    ]


async def test_an_end_and_a_count_can_be_written_down() -> None:
    usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    assert (await step(ScriptedModel([ScriptTurn(say="a", finish="length", usage=usage)])))[-1] == StepEnd(
        "length", usage
    )


async def test_arguments_can_be_broken_on_purpose() -> None:
    deltas = await step(ScriptedModel([ScriptTurn(calls=(ScriptedCall(tool="add", raw='{"x": '),))]))
    assert CallArguments(0, '{"x": ') in deltas


async def test_it_fails_on_purpose_before_or_after_the_first_token() -> None:
    fault = ScriptedFailure(message="Busy.", code="rate_limited", status=429, retry_after=3)
    with pytest.raises(ModelFailed, match="Busy") as caught:
        await step(ScriptedModel([ScriptTurn(fail=fault)]))
    error = caught.value
    assert (error.code, error.status, error.retry_after, error.before_first_token) == ("rate_limited", 429, 3, True)

    stream = ScriptedModel([ScriptTurn(say="Hel", fail="Gone.")]).stream(asked())
    assert await anext(stream) == TextDelta("Hel")
    with pytest.raises(ModelFailed, match="Gone") as caught:
        await anext(stream)
    assert caught.value.before_first_token is False


@pytest.mark.parametrize(
    ("when", "items", "fits"),
    [
        (When(user="WEATHER"), [user("The weather?")], True),
        (When(user="weather"), [user("The time?")], False),
        (When(user="weather"), [user("The weather?"), ran("now", "12")], False),
        (When(asked="weather"), [user("The weather?"), ran("now", "12")], True),
        (When(user="event"), [Message(role="developer", content=(InputText(text="An event"),))], True),
        (When(result="now"), [user("?"), ran("now", "12")], True),
        (When(result="no"), [user("?"), ran("now", "12")], False),
        (When(result="n.*"), [user("?"), ran("now", "12")], True),
        (When(result="now"), [user("?"), ran("now", "12"), ran("add", "1")], False),
        (When(result="now"), [user("?"), ran("now", "12"), user("and?")], False),
        (When(result="now", says="^12$"), [user("?"), ran("now", "12")], True),
        (When(result="now", says="13"), [user("?"), ran("now", "12")], False),
        (When(user="x", tool="add"), [user("x")], True),
        (When(user="x", tool="ad"), [user("x")], False),
        (When(instructions="concierge"), [user("x")], True),
        (When(instructions="butler"), [user("x")], False),
    ],
)
async def test_a_turn_is_played_when_all_its_conditions_hold(when: When, items: list[Item], *, fits: bool) -> None:
    model = ScriptedModel([ScriptTurn(when=when, say="yes"), ScriptTurn(say="no")])
    request = ModelRequest(
        items=tuple(items), tools=(ToolDefinition(type="function", name="add"),), instructions="You are a concierge."
    )
    assert said(await step(model, request)) == ("yes" if fits else "no")


async def test_a_clients_result_and_a_rejection_are_known_by_their_tools_name() -> None:
    model = ScriptedModel(
        [
            ScriptTurn(when=When(result="mine"), say="Mine: {result.x}"),
            ScriptTurn(when=When(result="book", says="did not allow"), say="Pity."),
        ]
    )
    mine = (FunctionCall(call_id="c", name="mine", arguments="{}"), FunctionCallOutput(call_id="c", output='{"x": 7}'))
    assert said(await step(model, ModelRequest(items=mine))) == "Mine: 7"
    rejected = (
        McpApprovalRequest(id="r", server_label="jackfield", name="book", arguments="{}"),
        McpApprovalResponse(approval_request_id="r", approve=False),
    )
    assert said(await step(model, ModelRequest(items=rejected))) == "Pity."


async def test_blanks_are_filled_from_patterns_results_and_defaults() -> None:
    say = '{user} | {n} | {result.a.1} | {results.first.b} | {none|else} | {{n}} | {"json": {"x": 1}} | {result}'
    arguments = {
        "whole": "{result.a}",
        "int": "{n:int}",
        "number": "{n:number}",
        "json": "{n:json}",
        "text": "n is {n}",
        "deep": [{"x": "{results.first}"}],
        "plain": 5,
    }
    turn = ScriptTurn(when=When(asked=r"n=(?P<n>\d+)"), say=say, calls=(ScriptedCall(tool="t", arguments=arguments),))
    items = (user("n=42"), ran("first", {"b": True}), ran("second", {"a": ["x", "y"]}))
    deltas = await step(ScriptedModel([turn]), ModelRequest(items=items))
    assert said(deltas) == 'n=42 | 42 | y | true | else | {n} | {"json": {"x": 1}} | {"a":["x","y"]}'
    assert calls(deltas) == [
        (
            "t",
            {
                "whole": ["x", "y"],
                "int": 42,
                "number": 42.0,
                "json": 42,
                "text": "n is 42",
                "deep": [{"x": {"b": True}}],
                "plain": 5,
            },
        )
    ]


@pytest.mark.parametrize("blank", ["{result.a}", "{nobody}", "{user:int}", "{user:json}"])
async def test_a_blank_that_stands_for_nothing_is_a_failure_that_names_it(blank: str) -> None:
    with pytest.raises(ModelFailed, match=re.escape(blank)) as caught:
        await step(ScriptedModel([ScriptTurn(say=f"It is {blank}")]))
    assert caught.value.code == "script_error"


async def test_what_it_was_asked_is_kept_for_the_test() -> None:
    model = ScriptedModel([ScriptTurn(say="a")])
    await step(model, asked("one"))
    assert [request.items for request in model.requests] == [asked("one").items]


def written(tmp_path: Path, text: str, name: str = "demo.toml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


async def test_the_concierge_of_the_document_plays_from_question_to_booking(tmp_path: Path) -> None:
    script = next(block for block in re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL) if "[[turns]]" in block)
    path = written(tmp_path, script.replace("pace = 0.02", "pace = 0"))
    model = ScriptedModel(read_script(path, named_in="models.demo.script"))
    talk = Talk(model, "search_hotels", "show_chart", "confirmAction", "book_hotel")

    assert "Ask me for hotels" in said(await talk.goes_on(user("Good day")))
    deltas = await talk.goes_on(user("Please find hotels in Porto for 3 nights"))
    assert said(deltas) == "Let me see what Porto has."
    assert calls(deltas) == [("search_hotels", {"city": "Porto", "nights": 3})]

    deltas = await talk.goes_on(ran("search_hotels", HOTELS))
    assert said(deltas) == "The best is Sol, at 80 a night."
    assert calls(deltas) == [
        ("show_chart", {"title": "Prices", "rows": HOTELS["hotels"]}),
        ("confirmAction", {"question": "Book Sol?"}),
    ]
    pending = ran("confirmAction", {"status": "pending", "pendingToolCallId": "c1"})
    assert said(await talk.goes_on(ran("show_chart", {"success": True}), pending)) == "I wait for your answer."
    deltas = await talk.goes_on(ran("confirmAction", {"confirmed": True}))
    assert calls(deltas) == [("book_hotel", {"hotel": "h1"})]
    assert said(await talk.goes_on(ran("book_hotel", {"reference": "R7"}))) == "Done. Your booking is R7."

    empty = await Talk(model, "search_hotels").goes_on(ran("search_hotels", '{"hotels": []}'))
    assert said(empty) == "I am sorry, nothing is free there."


async def test_a_script_may_be_json(tmp_path: Path) -> None:
    path = written(tmp_path, '{"turns": [{"say": "Hi."}]}', "demo.json")
    assert said(await step(ScriptedModel(read_script(path, named_in="x")))) == "Hi."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[turns]]\nsays = 'x'", "turns[0] has an unknown key 'says'. Did you mean 'say'?"),
        ("[[turns]]\nsay = 'x'\n[[turns]]\nwhen = { user = 'x' }", "turns[1] does nothing"),
        ("[[turns]]\nsay = 'x'\nwhen = { user = '(' }", "turns[0].when.user is not a regular expression"),
        ("[[turns]]\ncalls = [{ arguments = {} }]", "turns[0].calls[0] needs the key 'tool'"),
        ("pase = 1", "unknown key 'pase'. Did you mean 'pace'?"),
        ("[[turns]", "is not valid TOML"),
    ],
)
def test_a_script_that_cannot_be_played_names_the_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_script(written(tmp_path, text), named_in="models.demo.script")
    assert words in caught.value.message
    assert "demo.toml" in caught.value.message
