"""Responses whose model is a chat-completions server: what it is asked, and what becomes of each thing it says.

Three real programs: the official SDK, a gateway process, and a server on loopback that says what a test wrote down.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import openai
import pytest
import pytest_asyncio

from tests.harness.process import DEFAULT_TOOLS, RunningGateway, running_gateway
from tests.llm.chat_server import (
    END,
    FINE,
    HEAD,
    ROLE,
    USAGE,
    ChatServer,
    Play,
    breaks_off,
    call,
    chunk,
    event,
    http_chunk,
    refuses,
    says,
    text,
)
from tests.requirement import requirement
from tests.stories.responses import ADMIN_KEY, CATALOG, LOCATE, WEATHER, Sdk, kinds, tapped

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG = """\
[models.tiny]
provider = "openai"
base_url = "{base_url}"
model = "tiny-8b"
api_key = "sk-of-the-operator"
retry_delay = 0.01

[sources.local]
kind = "files"
path = "tools/*.py"
"""
EYES = '''\
import base64

def screenshot(size: int = 30) -> dict:
    """Show the screen."""
    data = base64.b64encode(b"x" * size).decode()
    image = {"type": "image", "data": data, "mimeType": "image/png"}
    return {"content": [{"type": "text", "text": "The screen"}, image]}
'''
CALLS_END = chunk(finish="tool_calls")
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chat() -> AsyncIterator[ChatServer]:
    async with ChatServer() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(chat: ChatServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    files = {"tools/story.py": DEFAULT_TOOLS, "tools/eyes.py": EYES}
    config = CONFIG.format(base_url=chat.base_url)
    env = {"JACKFIELD_ADMIN_KEY": ADMIN_KEY}
    with running_gateway(tmp_path_factory.mktemp("provider"), config, files=files, env=env) as running:
        yield running


class Asking:
    """The SDK in a thread, so that the model's server can answer meanwhile."""

    def __init__(self, client: Sdk) -> None:
        self.client = client

    async def __call__(self, said: Any, **fields: Any) -> Any:
        return await asyncio.to_thread(self.client.responses.create, model="tiny", input=said, **fields)

    async def streamed(self, said: Any, *, each: Callable[[Any], None] = lambda _: None, **fields: Any) -> Any:
        """The final response of a stream, `each` of whose events was shown as it came."""

        def follow() -> Any:
            with self.client.responses.stream(model="tiny", input=said, **fields) as stream:
                for told in stream:
                    each(told)
                return stream.get_final_response()

        return await asyncio.to_thread(follow)


@pytest_asyncio.fixture(loop_scope="module")
async def ask(gateway: RunningGateway, chat: ChatServer) -> AsyncIterator[Asking]:
    chat.received.clear()
    with tapped(gateway) as (client, _):
        yield Asking(client)


async def test_what_the_model_says_reaches_the_client_while_it_speaks(ask: Asking, chat: ChatServer) -> None:
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def only_after_it_was_heard() -> AsyncIterator[bytes]:
        yield HEAD
        yield http_chunk(event(text("Hel")))
        async with asyncio.timeout(10):
            await heard.wait()
        yield http_chunk(event(text("lo")) + event(END) + event(USAGE) + b"data: [DONE]\n\n")
        yield b"0\r\n\r\n"

    def each(told: Any) -> None:
        if told.type == "response.output_text.delta":
            loop.call_soon_threadsafe(heard.set)

    chat.plays = [only_after_it_was_heard]
    made = await ask.streamed("hello", each=each)

    assert made.output_text == "Hello"
    assert (made.usage.input_tokens, made.usage.output_tokens, made.usage.total_tokens) == (12, 5, 17)
    assert made.usage.input_tokens_details.cached_tokens == 8
    assert made.usage.output_tokens_details.reasoning_tokens == 2
    assert chat.received[0].headers["authorization"] == "Bearer sk-of-the-operator"


@requirement("CON-resp-stored")
async def test_a_continued_response_sends_what_was_said_before_first(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [FINE]
    first = await ask("I am Ada", instructions="Be kind.")
    await ask("Who am I?", previous_response_id=first.id, temperature=0.5, max_output_tokens=99)

    assert chat.bodies[1]["messages"] == [
        {"role": "user", "content": "I am Ada"},
        {"role": "assistant", "content": "Hello there"},
        {"role": "user", "content": "Who am I?"},
    ]
    assert chat.bodies[0]["messages"][0] == {"role": "system", "content": "Be kind."}
    assert (chat.bodies[1]["model"], chat.bodies[1]["temperature"]) == ("tiny-8b", 0.5)


@requirement("TOOL-loop-sends-tools", "TOOL-loop-finds-executor", "TOOL-loop-appends-results", "TOOL-loop-repeats")
async def test_a_tool_that_the_model_calls_runs_here_and_its_result_is_in_the_next_question(
    ask: Asking, chat: ChatServer
) -> None:
    chat.plays = [
        says(ROLE, call(0, id="c1", name="add", arguments='{"a": 2,'), call(0, arguments=' "b": 3}'), CALLS_END, USAGE),
        FINE,
    ]
    made = await ask.streamed("2 and 3?", tools=[CATALOG])

    assert kinds(made) == ["mcp_list_tools", "mcp_call", "message"]
    assert (made.output[1].arguments, made.output[1].output) == ('{"a": 2, "b": 3}', "5")
    assert made.usage.total_tokens == 34
    first, second = chat.bodies
    assert {"add", "echo"} <= {tool["function"]["name"] for tool in first["tools"]}
    assert second["tools"] == first["tools"]
    *_, said, told = second["messages"]
    assert said["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 2, "b": 3}'}
    assert (told["role"], told["content"]) == ("tool", "5")
    assert told["tool_call_id"] == said["tool_calls"][0]["id"]


@requirement("TOOL-filter-all-tools-kept")
async def test_tools_that_may_not_be_called_are_still_shown_to_the_model(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [FINE]
    only_echo = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "echo"}]}
    await ask("hello", tools=[CATALOG, LOCATE])
    await ask("hello", tools=[CATALOG, LOCATE], tool_choice=only_echo)
    await ask("hello", tools=[CATALOG, LOCATE], tool_choice="none")

    free, allowed, none = chat.bodies
    assert free["tools"] == allowed["tools"] == none["tools"]
    assert {"add", "echo", "locate"} <= {tool["function"]["name"] for tool in free["tools"]}
    assert none["tool_choice"] == "none"


@requirement("TOOL-loop-returns-function-calls", "TOOL-result-call-id")
async def test_calls_whose_arguments_arrive_interleaved_are_kept_apart_to_the_follow_up(
    ask: Asking, chat: ChatServer
) -> None:
    chat.plays = [
        says(
            ROLE,
            call(0, id="c1", name="get_weather", arguments='{"ci'),
            call(1, id="c2", name="locate", arguments="{"),
            call(0, arguments='ty": "Oslo"}'),
            call(1, arguments="}"),
            CALLS_END,
        ),
        FINE,
    ]
    made = await ask.streamed("where and how?", tools=[WEATHER, LOCATE])
    weather, locate = made.output
    assert (weather.arguments, locate.arguments) == ('{"city": "Oslo"}', "{}")

    outputs = [
        {"type": "function_call_output", "call_id": one.call_id, "output": said}
        for one, said in ((locate, "here"), (weather, "cold"))
    ]
    await ask(outputs, tools=[WEATHER, LOCATE], previous_response_id=made.id)
    told = {message["tool_call_id"]: message["content"] for message in chat.bodies[1]["messages"][2:]}
    assert told == {weather.call_id: "cold", locate.call_id: "here"}


async def test_what_the_model_thinks_is_an_item_and_is_not_sent_back(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [says(ROLE, chunk({"reasoning_content": "Hm."}), text("Yes."), END), FINE]
    made = await ask.streamed("well?")
    await ask("sure?", previous_response_id=made.id)

    assert kinds(made) == ["reasoning", "message"]
    assert made.output[0].content[0].text == "Hm."
    assert "Hm." not in str(chat.bodies[1])


async def test_an_image_goes_to_the_model(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [FINE]
    content = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": PIXEL}]
    await ask([{"role": "user", "content": content}])

    assert chat.bodies[0]["messages"][0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": PIXEL}},
    ]


def seen(body: Any) -> list[int]:
    """How long the images are that one request shows, in base64."""
    parts = [part for told in body["messages"] if isinstance(told["content"], list) for part in told["content"]]
    return [len(part["image_url"]["url"].partition(",")[2]) for part in parts if part["type"] == "image_url"]


@requirement("PROG-tool-images", "PROG-parallel-one-message")
async def test_the_model_sees_a_tools_images_in_this_turn_and_in_later_ones(ask: Asking, chat: ChatServer) -> None:
    sizes = enumerate((30, 1_200_000))
    two = [call(n, id=f"c{n}", name="screenshot", arguments=f'{{"size": {size}}}') for n, size in sizes]
    chat.plays = [says(ROLE, *two, CALLS_END, USAGE), FINE]
    made = await ask("Look.", tools=[CATALOG])
    chat.plays = [FINE]
    await ask("And now?", tools=[CATALOG], previous_response_id=made.id)

    assert all(len(str(item.output)) < 100 for item in made.output if item.type == "mcp_call"), "no base64 as text"
    for body in chat.bodies[1:]:
        assert seen(body) == [40, 1_600_000], "one of them is a result that is kept apart"
        asked, *told = body["messages"][1:5]
        assert [one["function"]["name"] for one in asked["tool_calls"]] == ["screenshot", "screenshot"]
        assert [one["role"] for one in told] == ["tool", "tool", "user"]
        assert told[0]["content"] == "The screen\n[image: image/png, shown as image 1]"


@requirement("PROG-tool-images")
async def test_a_model_that_refuses_images_is_asked_without_those_of_tools(ask: Asking, chat: ChatServer) -> None:
    refusal = refuses(400, {"error": {"message": "tiny-8b is not a multimodal model"}})
    chat.plays = [says(ROLE, call(0, id="a", name="screenshot", arguments="{}"), CALLS_END, USAGE), refusal, FINE]
    made = await ask("Look.", tools=[CATALOG])

    assert (made.status, made.output_text) == ("completed", "Hello there")
    assert [seen(body) for body in chat.bodies] == [[], [40], []]
    assert "cannot be shown to you" in chat.bodies[2]["messages"][-1]["content"]


@requirement("TOOL-ext-loop-retry")
async def test_a_model_that_fails_before_its_first_token_is_asked_again_unseen(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [refuses(503), breaks_off(), FINE]
    made = await ask.streamed("hello")

    assert made.output_text == "Hello there"
    assert len(chat.bodies) == 3


@requirement("CON-resp-errors", "TOOL-loop-ends-on-error")
async def test_an_answer_that_breaks_off_ends_as_failed_with_what_was_said(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [breaks_off(ROLE, text("Once upon a"))]
    with pytest.raises(openai.APIError, match="tiny"):
        await ask.streamed("a story")
    failed = await ask("a story")

    assert (failed.status, failed.output_text) == ("failed", "Once upon a")
    assert len(chat.bodies) == 2
    assert "sk-of-the-operator" not in failed.to_json()


@requirement("TOOL-loop-ends-on-cancel")
async def test_a_client_that_hangs_up_stops_the_request_to_the_model(ask: Asking, chat: ChatServer) -> None:
    is_gone = asyncio.Event()

    async def goes_on() -> AsyncIterator[bytes]:
        try:
            yield HEAD
            while True:
                yield http_chunk(event(text("and on ")))
                await asyncio.sleep(0.01)
        finally:
            is_gone.set()

    def hang_up() -> None:
        stream = ask.client.responses.create(model="tiny", input="talk", stream=True)
        next(told for told in stream if told.type == "response.output_text.delta")
        stream.close()

    chat.plays = [goes_on]
    await asyncio.to_thread(hang_up)
    async with asyncio.timeout(10):
        await is_gone.wait()


PATCH = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch"
CLIENT_TOOLS: list[Any] = [
    {"type": "function", "name": "shell", "parameters": {"type": "object"}},
    {
        "type": "custom",
        "name": "apply_patch",
        "description": "Edit files.",
        "format": {"type": "grammar", "syntax": "lark", "definition": "start: patch"},
    },
    {
        "type": "namespace",
        "name": "mcp__docs",
        "description": "Docs",
        "tools": [{"type": "function", "name": "find", "parameters": {"type": "object"}, "strict": False}],
    },
    {"type": "tool_search", "execution": "client", "description": "Search", "parameters": {"type": "object"}},
    {"type": "web_search", "external_web_access": True},
]


def called(name: str, arguments: str) -> Play:
    return says(ROLE, call(0, id="c1", name=name, arguments=arguments), CALLS_END, USAGE)


@requirement("PROG-client-tools", "PROG-unknown-tools")
async def test_a_model_knows_all_tools_of_the_client_as_functions(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [FINE]
    made = await ask("hello", tools=CLIENT_TOOLS)

    functions = {tool["function"]["name"]: tool["function"] for tool in chat.bodies[0]["tools"]}
    assert list(functions) == ["shell", "apply_patch", "mcp__docs__find", "tool_search"]
    assert functions["apply_patch"]["parameters"]["required"] == ["input"]
    assert "start: patch" in functions["apply_patch"]["description"]
    assert [tool.type for tool in made.tools] == ["function", "custom", "namespace", "tool_search"], "no web_search"


@requirement("PROG-client-tools")
async def test_a_function_of_a_namespace_is_called_by_its_own_name_there(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [called("mcp__docs__find", '{"q": 1}'), FINE]
    made = await ask.streamed("look", tools=CLIENT_TOOLS)
    wanted = made.output[0]
    assert (wanted.type, wanted.name, wanted.namespace, wanted.arguments) == (
        "function_call",
        "find",
        "mcp__docs",
        '{"q": 1}',
    )
    output = {"type": "function_call_output", "call_id": "c1", "output": "here"}
    again = await ask([{"role": "user", "content": "look"}, wanted.to_dict(), output], tools=CLIENT_TOOLS, store=False)

    assert again.output_text == "Hello there"
    _, asked, told = chat.bodies[1]["messages"]
    assert asked["tool_calls"][0]["function"] == {"name": "mcp__docs__find", "arguments": '{"q": 1}'}
    assert told == {"role": "tool", "tool_call_id": "c1", "content": "here"}


@requirement("PROG-client-tools")
@pytest.mark.parametrize("written", [msgspec.json.encode({"input": PATCH}).decode(), PATCH], ids=["json", "bare"])
async def test_a_tool_that_takes_text_is_given_text(ask: Asking, chat: ChatServer, written: str) -> None:
    chat.plays = [called("apply_patch", written), FINE]
    told: list[Any] = []
    made = await ask.streamed("edit", tools=CLIENT_TOOLS, each=told.append)
    wanted = made.output[0]
    assert (wanted.type, wanted.name, wanted.input) == ("custom_tool_call", "apply_patch", PATCH)
    assert [(event.type, getattr(event, "delta", None)) for event in told if "custom" in event.type] == [
        ("response.custom_tool_call_input.delta", PATCH),
        ("response.custom_tool_call_input.done", None),
    ]
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done"}
    again = await ask([output], tools=CLIENT_TOOLS, previous_response_id=made.id)

    assert again.output_text == "Hello there"
    asked = chat.bodies[1]["messages"][1]["tool_calls"][0]["function"]
    assert msgspec.json.decode(asked["arguments"]) == {"input": PATCH}


@requirement("PROG-client-tools")
async def test_tools_that_a_search_of_the_client_finds_can_be_called(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [called("tool_search", '{"query": "mail"}'), called("mcp__mail__send", "{}")]
    made = await ask("write a mail", tools=CLIENT_TOOLS)
    wanted = made.output[0]
    assert (wanted.type, wanted.execution, wanted.arguments) == ("tool_search_call", "client", {"query": "mail"})
    send = {"type": "function", "name": "send", "parameters": {"type": "object"}}
    found = {
        "type": "tool_search_output",
        "call_id": wanted.call_id,
        "status": "completed",
        "execution": "client",
        "tools": [{"type": "namespace", "name": "mcp__mail", "tools": [send]}],
    }
    again = await ask([found], tools=CLIENT_TOOLS, previous_response_id=made.id)

    assert (again.output[0].name, again.output[0].namespace) == ("send", "mcp__mail")
    assert "mcp__mail__send" in chat.bodies[1]["messages"][-1]["content"]
    assert [tool["function"]["name"] for tool in chat.bodies[1]["tools"]][-1] == "mcp__mail__send"


@requirement("PROG-item-reference")
async def test_items_of_earlier_responses_go_by_their_ids(ask: Asking, chat: ChatServer) -> None:
    chat.plays = [says(ROLE, chunk({"reasoning_content": "Hm."}), text("Hi Ada."), END, USAGE), FINE]
    made = await ask("I am Ada.")
    references = [{"type": "item_reference", "id": item.id} for item in made.output]
    again = await ask([{"role": "user", "content": "I am Ada."}, *references, {"role": "user", "content": "Who?"}])

    assert again.output_text == "Hello there"
    assert [(told["role"], told["content"]) for told in chat.bodies[1]["messages"]] == [
        ("user", "I am Ada."),
        ("assistant", "Hi Ada."),
        ("user", "Who?"),
    ]
    for response in (again, made):
        await asyncio.to_thread(ask.client.responses.delete, response.id)
    with pytest.raises(openai.BadRequestError, match=f"no item '{made.output[0].id}'"):
        await ask(references)


@requirement("PROG-input-tokens")
async def test_input_tokens_are_estimated_and_requests_checked_as_for_a_response(ask: Asking) -> None:
    def count(**body: Any) -> Any:
        return ask.client.responses.input_tokens.count(model="tiny", **body)

    short = await asyncio.to_thread(count, input="Hello")
    long = await asyncio.to_thread(count, input="Hello " * 1000)
    with_tools = await asyncio.to_thread(count, input="Hello", tools=[CATALOG])
    image = [{"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]}]
    seeing = await asyncio.to_thread(count, input=image)

    assert (short.object, short.input_tokens < 20) == ("response.input_tokens", True)
    assert 1500 < long.input_tokens < 1600
    assert with_tools.input_tokens > short.input_tokens + 50
    assert 1000 < seeing.input_tokens < 1050
    with pytest.raises(openai.BadRequestError, match="tool_choice"):
        await asyncio.to_thread(count, input="Hello", tool_choice={"type": "function", "name": "nope"})
    with pytest.raises(openai.BadRequestError, match="no response 'resp_x'"):
        await asyncio.to_thread(count, input="Hello", previous_response_id="resp_x")
