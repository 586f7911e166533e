"""What every model must hold, whoever answers. A new provider is one more `Case` here."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import msgspec
import pytest
from msgspec import Struct

from jackfield.llm import (
    CallArguments,
    CallBegun,
    Delta,
    Model,
    ModelFailed,
    ReasoningDelta,
    RefusalDelta,
    ScriptedCall,
    ScriptedModel,
    ScriptTurn,
    StepEnd,
    TextDelta,
)
from jackfield.outgoing import Outgoing
from tests.llm.chat_server import (
    DONE,
    ChatServer,
    asked,
    breaks_off,
    call,
    chunk,
    event,
    model_at,
    refuses,
    says,
    step,
    streams,
    text,
)
from tests.waiting import TIMEOUT

BOUND = TIMEOUT


class Play(Struct, frozen=True, kw_only=True):
    """One step, as each provider is made to answer it."""

    scripted: ScriptTurn
    served: Callable[[], AsyncIterator[bytes]]


EVERYTHING = Play(
    scripted=ScriptTurn(
        think="Hm.",
        say=("Hello ", "you"),
        refuse="No.",
        calls=(
            ScriptedCall(tool="add", arguments={"x": 1}, id="a"),
            ScriptedCall(tool="now", id="b"),
        ),
    ),
    served=says(
        chunk({"reasoning_content": "Hm."}),
        text("Hello "),
        text("you"),
        chunk({"refusal": "No."}),
        call(0, id="a", name="add", arguments='{"x"'),
        call(1, id="b", name="now"),
        call(0, arguments=":1}"),
        chunk(finish="tool_calls"),
    ),
)
PLAIN = Play(scripted=ScriptTurn(say="Hello"), served=says(text("Hello"), chunk(finish="stop")))
CUT = Play(scripted=ScriptTurn(say="Hel", finish="length"), served=says(text("Hel"), chunk(finish="length")))
REFUSED = Play(scripted=ScriptTurn(fail="It is down."), served=refuses(400))
BROKEN = Play(scripted=ScriptTurn(say=("Hel",), fail="It broke off."), served=breaks_off(text("Hel")))
ENDLESS = Play(
    scripted=ScriptTurn(say=("Hel", "lo"), pace=3600),
    served=streams([event(text("Hel"))], ends=False),
)

Maker = Callable[[Play], AbstractAsyncContextManager[Model]]


@asynccontextmanager
async def scripted(play: Play) -> AsyncIterator[Model]:
    model = ScriptedModel([play.scripted, ScriptTurn(say="Again")], name="default")
    yield model
    await model.close()


@asynccontextmanager
async def openai(play: Play) -> AsyncIterator[Model]:
    async with ChatServer() as server, Outgoing() as outgoing:
        server.plays = [play.served, streams([event(text("Again")), DONE])]
        model = model_at(server, outgoing, max_retries=0)
        yield model
        await model.close()


@pytest.fixture(params=[scripted, openai], ids=lambda maker: maker.__name__)
def model(request: pytest.FixtureRequest) -> Maker:
    maker: Maker = request.param
    return maker


def together(deltas: list[Delta], kind: type[TextDelta | ReasoningDelta | RefusalDelta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, kind))


async def test_it_has_the_name_that_the_config_gave_it(model: Maker) -> None:
    async with model(PLAIN) as it:
        assert it.name == "default"


async def test_all_that_it_does_in_a_step_comes_as_deltas_and_the_end_comes_last(model: Maker) -> None:
    async with model(EVERYTHING) as it:
        deltas = await step(it)
    assert together(deltas, ReasoningDelta) == "Hm."
    assert together(deltas, TextDelta) == "Hello you"
    assert together(deltas, RefusalDelta) == "No."
    end = deltas[-1]
    assert isinstance(end, StepEnd)
    assert end.finish == "tool_calls"


async def test_a_call_is_begun_once_before_its_arguments_which_are_json_at_the_end(model: Maker) -> None:
    async with model(EVERYTHING) as it:
        deltas = await step(it)
    arguments: dict[int, str] = {}
    begun: list[CallBegun] = []
    for delta in deltas:
        if isinstance(delta, CallBegun):
            assert delta.index not in arguments
            arguments[delta.index] = ""
            begun.append(delta)
        elif isinstance(delta, CallArguments):
            arguments[delta.index] += delta.delta
    assert begun == [CallBegun(0, "a", "add"), CallBegun(1, "b", "now")]
    assert [msgspec.json.decode(text) for text in arguments.values()] == [{"x": 1}, {}]


@pytest.mark.parametrize(("play", "finish"), [(PLAIN, "stop"), (CUT, "length")], ids=["plain", "cut"])
async def test_it_says_why_it_ended(model: Maker, play: Play, finish: str) -> None:
    async with model(play) as it:
        end = (await step(it))[-1]
    assert isinstance(end, StepEnd)
    assert end.finish == finish


async def test_a_failure_before_the_first_token_says_that_nothing_was_said(model: Maker) -> None:
    async with model(REFUSED) as it:
        with pytest.raises(ModelFailed) as caught:
            await step(it)
        assert caught.value.before_first_token is True
        assert together(await step(it), TextDelta) == "Again"


async def test_a_failure_after_the_first_token_says_so_and_the_next_step_goes_well(model: Maker) -> None:
    async with model(BROKEN) as it:
        stream = it.stream(asked())
        assert await asyncio.wait_for(anext(stream), BOUND) == TextDelta("Hel")
        with pytest.raises(ModelFailed) as caught:
            await asyncio.wait_for(anext(stream), BOUND)
        assert caught.value.before_first_token is False
        assert together(await step(it), TextDelta) == "Again"


async def test_closing_the_stream_ends_the_step_at_once(model: Maker) -> None:
    async with model(ENDLESS) as it:
        async with asyncio.timeout(BOUND), aclosing(it.stream(asked())) as stream:
            assert await anext(stream) == TextDelta("Hel")
        assert together(await step(it), TextDelta) == "Again"


async def test_cancelling_who_waits_ends_the_step_at_once(model: Maker) -> None:
    async with model(ENDLESS) as it:
        begun = asyncio.Event()

        async def follow() -> None:
            async with aclosing(it.stream(asked())) as stream:
                async for _ in stream:
                    begun.set()

        waiting = asyncio.create_task(follow())
        await asyncio.wait_for(begun.wait(), BOUND)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, BOUND)
        assert together(await step(it), TextDelta) == "Again"
