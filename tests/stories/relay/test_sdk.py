"""`client.sessions`: a Python program lends its functions in three lines."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from jackfield.sdk import Client, Conflict, Forbidden, NotFound, SessionEvent, SessionNotFound, SyncClient
from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.stories.relay.scene import ANT, BEE, on_socket


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[Client]:
    async with Client(gateway.url, ANT) as made:
        yield made


@pytest.fixture
def blocking(gateway: RunningGateway) -> Iterator[SyncClient]:
    with SyncClient(gateway.url, ANT) as made:
        yield made


def send_response(message: str) -> dict[str, str]:
    """Send message."""
    return {"status": f"sent {message}"}


@requirement("CON-sdk-sessions")
async def test_an_agent_calls_functions_of_this_program(client: Client) -> None:
    async with client.sessions.open(agent="helper", tools=[send_response], caller_id="ant") as session:
        assert await session.ask("send it") == 'I was told: {"status":"sent hello"}'
        assert await session.ask("and?") == "Good day to you."
        assert (await session.show()).tools == ["ant_send_response"]
    assert (await client.sessions.get(session.id)).status == "completed"
    with pytest.raises(Conflict, match="is over"):
        await session.ask("hello?")


@requirement("CON-sdk-sessions")
def test_a_program_without_an_event_loop_offers_its_functions_too(blocking: SyncClient) -> None:
    ran_on: list[str] = []

    def send_response(message: str) -> str:
        """Send message."""
        ran_on.append(threading.current_thread().name)
        return message.upper()

    with blocking.sessions.open("helper", tools=[send_response], caller_id="ant") as session:
        assert session.ask("send it") == "I was told: HELLO"
        kinds = [event.type for event in until_settled(session.events())]
        assert kinds[-1] == "caller_tool_settled"
        assert "caller_tool_request" in kinds
        session.lend({"another": send_response})
        assert session.show().tools == ["ant_another"]
    assert ran_on == ["jackfield-served"]
    assert blocking.sessions.list()[0].id == session.id


def until_settled(events: Iterator[SessionEvent]) -> Iterator[SessionEvent]:
    for event in events:
        yield event
        if event.type == "caller_tool_settled":
            return


async def test_a_function_that_raises_is_an_error_and_many_run_at_once(client: Client) -> None:
    running, most = 0, 0
    all_there = asyncio.Event()

    async def slow(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 4:
            all_there.set()
        await asyncio.wait_for(all_there.wait(), 10)
        running -= 1
        if number == 3:
            raise LookupError("three is missing")
        return number * 10

    session = await client.sessions.open("helper", tools=[slow], concurrency=4)
    try:
        async with on_socket(session.info.socket or "") as inside:
            assert [tool["name"] for tool in (await inside.hear())["params"]["tools"]] == ["slow"]
            for number in range(4):
                inside.ask(number, "slow", {"number": number})
            told = {one["id"]: one for one in [await inside.hear() for _ in range(4)]}
        assert [told[number].get("result") for number in range(4)] == [0, 10, 20, None]
        assert told[3]["error"]["message"] == "LookupError: three is missing"
        assert most == 4
    finally:
        await session.end()


async def test_a_request_that_is_called_off_before_its_turn_is_not_run(client: Client) -> None:
    ran: list[int] = []
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(number: int) -> int:
        ran.append(number)
        began.set()
        await asyncio.wait_for(goes_on.wait(), 10)
        return number

    session = await client.sessions.open("helper", tools=[slow], concurrency=1)
    try:
        async with on_socket(session.info.socket or "") as inside, asyncio.timeout(10):
            await inside.hear()
            inside.ask(1, "slow", {"number": 1})
            await began.wait()
            with session._caller_tools.subscribed() as events:
                inside.ask(2, "slow", {"number": 2})
                assert (await anext(events)).type == "caller_tool_request"
                inside.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
                assert (await inside.hear())["error"]["data"] == {"code": "cancelled"}
                assert (await anext(events)).type == "caller_tool_settled"
            inside.ask(3, "slow", {"number": 3})
            goes_on.set()
            assert {(await inside.hear())["id"] for _ in range(2)} == {1, 3}
        assert ran == [1, 3]
    finally:
        await session.end()


async def test_errors_are_the_classes_of_the_contract(client: Client, gateway: RunningGateway) -> None:
    with pytest.raises(NotFound, match="There is no agent"):
        await client.sessions.open("nobody")
    with pytest.raises(SessionNotFound):
        await client.sessions.get("ses_none")
    async with client.sessions.open("helper") as session, Client(gateway.url, BEE) as bee:
        with pytest.raises(Forbidden):
            await bee.sessions.get(session.id)


async def test_a_program_answers_with_its_first_line(client: Client) -> None:
    async with client.sessions.open("echo") as session:
        first = [event async for event in until_message(session.events())][-1]
        assert "JACKFIELD_SOCKET" in (first.text or "")
        assert await session.ask("good day") == "heard good day"


async def until_message(events: AsyncIterator[SessionEvent]) -> AsyncIterator[SessionEvent]:
    async for event in events:
        yield event
        if event.type == "message":
            return
