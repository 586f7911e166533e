"""When nobody answers: the deadline, a caller that is gone, a gateway that stops. Never silence."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from mcp import MCPError

from jackfield.sdk import Client, Conflict, SyncClient
from jackfield.settings import load_settings
from jackfield.settings.types import RelaySettings
from tests.harness.process import RunningGateway, clean_environment, running_gateway, start_gateway
from tests.requirement import requirement
from tests.stories.mcp_clients import ERAS, http_client, text_of
from tests.stories.relay.scene import (
    ANT,
    BEE,
    CONFIG,
    ENVIRONMENT,
    FILES,
    TOOLS,
    WITHIN,
    HttpCaller,
    Inside,
    bridge,
    caller_of,
    next_event,
    on_socket,
)
from tests.waiting import Stopwatch, eventually_async

SHORT = "\n[relay]\ntimeout = 0.6\ngrace = 0.5\n"
CALLER = """
import sys
from jackfield.sdk import SyncClient
import time

def slow_tool() -> str:
    print("asked", flush=True)
    time.sleep(600)
    return "too late"

with SyncClient() as client:
    session = client.sessions.open("helper", tools=[slow_tool], caller_id="ant")
    print(session.id, session.info.socket, flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose callers have 0.6 s to answer and 0.5 s to come back."""
    with running_gateway(tmp_path_factory.mktemp("hasty"), CONFIG + SHORT, files=FILES, env=ENVIRONMENT) as running:
        yield running


@pytest.fixture
async def hurried(hasty: RunningGateway) -> AsyncIterator[HttpCaller]:
    made = HttpCaller(hasty)
    await made.open("helper")
    yield made
    await made.close()


@requirement("CTR-001-timeout-error")
async def test_a_request_that_nobody_answers_ends_as_a_timeout_and_a_late_answer_is_refused(
    hurried: HttpCaller,
) -> None:
    async with on_socket(hurried.record["socket"]) as inside:
        await inside.hear()
        inside.ask(1, "slow_tool")
        request = await next_event(hurried, "caller_tool_request")
        told = await inside.hear()
        assert (told["id"], told["error"]["code"]) == (1, -32000)
        assert told["error"]["message"] == "Caller tool request timed out after 0.6 s"
        assert (await next_event(hurried, "caller_tool_settled"))["status"] == "failed"
        assert (await hurried.answer(request["request_id"], result=1))[:3] == "409"
        record = (await hurried.http.get(f"/api/v1/calls/{request['request_id']}")).json()["call"]
        assert (record["status"], record["error"]["code"]) == ("failed", "timeout")


@requirement("CTR-001-timeout-60s")
async def test_the_deadline_is_a_minute_on_record_unless_the_operator_says_otherwise(
    gateway: RunningGateway, caller: HttpCaller, tmp_path: Path
) -> None:
    (tmp_path / "jackfield.toml").write_text("", encoding="utf-8")
    assert load_settings(tmp_path / "jackfield.toml").relay == RelaySettings(timeout=60, grace=0)
    async with bridge("--socket", caller.record["socket"], mode="legacy") as client:
        calling = asyncio.create_task(client.session.call_tool("ant_slow_tool", {}))
        request = await next_event(caller, "caller_tool_request")
        record = (await caller.http.get(f"/api/v1/calls/{request['request_id']}")).json()["call"]
        listed = (await caller.http.get("/api/v1/calls?status=waiting")).json()["calls"]
        assert request["request_id"] in [call["id"] for call in listed]
        assert seconds(record["deadline"]) - seconds(record["created_at"]) == 60
        await caller.answer(request["request_id"], result="in time")
        assert text_of(await calling) == "in time"


def seconds(moment: str) -> float:
    hours, minutes, rest = moment.removesuffix("Z").partition("T")[2].split(":")
    return (int(hours) * 60 + int(minutes)) * 60 + float(rest)


@requirement("CON-relay-presence", "CTR-001-disconnect-error")
async def test_a_caller_that_is_killed_mid_call_is_a_connection_error_within_a_second(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    (tmp_path / "caller.py").write_text(CALLER, encoding="utf-8")
    env = clean_environment({"JACKFIELD_URL": gateway.url, "JACKFIELD_KEY": ANT})
    process = begun(tmp_path, env)
    assert process.stdout is not None
    try:
        _, socket = (await asyncio.to_thread(process.stdout.readline)).split()
        async with on_socket(socket) as inside:
            await inside.hear()
            inside.ask(1, "slow_tool")
            assert (await asyncio.to_thread(process.stdout.readline)).strip() == "asked"
            process.send_signal(signal.SIGKILL)
            watch = Stopwatch()
            told = await inside.hear()
            took = watch.seconds()
        assert told["error"]["data"]["code"] == "caller_disconnected"
        assert "disconnected" in told["error"]["message"]
        assert took < 1
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def begun(folder: Path, env: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "caller.py"], cwd=folder, env=env, stdout=subprocess.PIPE, text=True)


@requirement("CTR-001-disconnect-error")
async def test_an_mcp_client_that_hangs_up_mid_call_is_a_connection_error_too(gateway: RunningGateway) -> None:
    opened = HttpCaller(gateway)
    async with caller_of("legacy", gateway, ends=False) as caller:
        await caller.open("helper")
        record = (await opened.http.get(f"/api/sessions/{caller.session_id}")).json()["session"]
        reader, writer = await asyncio.open_unix_connection(record["socket"])
        inside = Inside(reader, writer)
        await inside.hear()
        inside.ask(1, "slow_tool")
        await next_event(caller, "caller_tool_request")
    watch = Stopwatch()
    told = await inside.hear()
    assert told["error"]["data"]["code"] == "caller_disconnected"
    assert watch.seconds() < 1
    writer.close()
    opened.session_id = caller.session_id
    await opened.close()


@requirement("CON-relay-presence", "CTR-001-disconnect-error")
async def test_an_absent_caller_is_an_error_at_once_and_one_that_comes_back_is_asked_again(caller: HttpCaller) -> None:
    async with on_socket(caller.record["socket"]) as inside:
        await inside.hear()
        await caller.hang_up()
        await until_gone(caller)
        inside.ask(1, "slow_tool")
        told = await inside.hear()
        assert (told["error"]["code"], told["error"]["data"]["code"]) == (-32000, "caller_disconnected")
        # A poll is a sign of life.
        polled = await caller.http.get(f"/api/sessions/{caller.session_id}/events?since_index=-1")
        inside.ask(2, "slow_tool")
        since = polled.json()["last_index"]
        page = (await caller.http.get(f"/api/sessions/{caller.session_id}/events?since_index={since}&wait=10")).json()
        (request,) = [event for event in page["events"] if event["type"] == "caller_tool_request"]
        assert await caller.answer(request["request_id"], result="back") == "ok"
        assert (await inside.hear())["result"] == "back"


async def until_gone(caller: HttpCaller) -> None:
    """Asked as an administrator, who is not the caller."""
    path = f"/api/sessions/{caller.session_id}"
    headers = {"Authorization": f"Bearer {ENVIRONMENT['JACKFIELD_ADMIN_KEY']}"}

    async def gone() -> bool:
        return not (await caller.http.get(path, headers=headers)).json()["session"]["caller_is_present"]

    await eventually_async(gone)


@requirement("CON-relay-presence")
async def test_within_the_grace_a_caller_may_come_back_and_answer(hurried: HttpCaller) -> None:
    async with on_socket(hurried.record["socket"]) as inside:
        await inside.hear()
        inside.ask(1, "slow_tool")
        request = await next_event(hurried, "caller_tool_request")
        await hurried.hang_up()
        await hurried.follow(**{"Last-Event-ID": str(request["index"])})
        assert await hurried.answer(request["request_id"], result="here again") == "ok"
        assert (await inside.hear())["result"] == "here again"


@pytest.mark.parametrize(("by", "how"), [("socket", signal.SIGKILL), ("url", signal.SIGTERM)])
async def test_a_gateway_that_stops_mid_call_is_a_clear_error_for_the_agent(
    tmp_path: Path, by: str, how: signal.Signals
) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files=FILES, env=ENVIRONMENT)
    caller = HttpCaller(gateway)
    try:
        await caller.open("helper")
        record = caller.record
        args = ("--socket", record["socket"]) if by == "socket" else ("--url", gateway.url, "--token", record["token"])
        async with bridge(*args, mode="legacy") as client, asyncio.timeout(30):
            calling = asyncio.create_task(client.session.call_tool("ant_slow_tool", {}))
            request = await next_event(caller, "caller_tool_request")
            os.kill(gateway.pid, how)
            told = await outcome(calling)
            assert any(word in told for word in ("session", "gateway", "disconnected"))
            await asyncio.to_thread(gateway.process.wait, 15)
            gateway = await asyncio.to_thread(start_gateway, tmp_path, env=ENVIRONMENT)
            assert (await caller.answer(request["request_id"], result=1))[:3] == "404"
    finally:
        await caller.http.aclose()
        gateway.kill()


@requirement("SAFE-session-opened-again")
async def test_a_gateway_that_stops_says_so_to_the_caller(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files=FILES, env=ENVIRONMENT)
    caller = HttpCaller(gateway)
    try:
        await caller.open("helper")
        os.kill(gateway.pid, signal.SIGTERM)
        async with asyncio.timeout(WITHIN):
            assert (await next_event(caller, "error"))["error"] == "The gateway stopped."
            assert (await next_event(caller, "status"))["status"] == "failed"
    finally:
        await caller.http.aclose()
        gateway.kill()


@requirement("SAFE-session-opened-again")
async def test_a_caller_opens_its_session_again_after_its_gateway_was_killed(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files=FILES, env=ENVIRONMENT)
    caller = HttpCaller(gateway)
    try:
        await caller.open("helper")
        again = {"agent": "helper", "session_id": caller.session_id, "caller_id": "ant", "caller_tools": []}
        assert (await caller.http.post("/api/sessions", json=again)).status_code == 409, "it is open"
        async with on_socket(caller.record["socket"]) as inside:
            await inside.hear()
            inside.ask(1, "slow_tool")
            request = await next_event(caller, "caller_tool_request")
            gateway.kill()
        gateway = await asyncio.to_thread(start_gateway, tmp_path, env=ENVIRONMENT)
        gone = await caller.http.get(f"/api/sessions/{caller.session_id}")
        assert gone.status_code == 404
        assert "open it again" in gone.json()["error"]["message"]
        async with httpx2.AsyncClient(base_url=gateway.url, headers=gateway.headers) as somebody:
            assert (await somebody.post("/api/sessions", json=again)).status_code == 403, "it is another's"
        opened = await caller.http.post("/api/sessions", json=again)
        assert (opened.status_code, opened.json()["session_id"]) == (201, caller.session_id)
        assert (await caller.http.get(f"/api/sessions/{caller.session_id}")).json()["session"]["status"] == "idle"
        record = (await caller.http.get(f"/api/v1/calls/{request['request_id']}")).json()["call"]
        assert (record["status"], record["error"]["code"]) == ("failed", "session_ended")
        assert (await caller.http.delete(f"/api/sessions/{caller.session_id}")).status_code in (200, 204)
        assert (await caller.http.post("/api/sessions", json=again)).status_code == 201, "what was ended, too"
        unknown = again | {"session_id": "ses_nobodys"}
        assert (await caller.http.post("/api/sessions", json=unknown)).status_code == 404
    finally:
        await caller.http.aclose()
        gateway.kill()


@requirement("SAFE-session-opened-again")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_message_in_a_session_that_was_lost_opens_it_again(tmp_path: Path, mode: str) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files=FILES, env=ENVIRONMENT)
    try:
        async with http_client(gateway.url, ANT, mode=mode) as client:
            opened = (
                await client.session.call_tool("session_message", {"agent": "helper", "message": "hello"})
            ).structured_content
            assert opened is not None
        gateway.kill()
        gateway = await asyncio.to_thread(start_gateway, tmp_path, env=ENVIRONMENT)
        said = {"session_id": opened["session_id"], "message": "hello?", "caller_id": "ant", "caller_tools": TOOLS}
        async with http_client(gateway.url, BEE, mode=mode) as other:
            assert "belongs to another key" in text_of(await other.session.call_tool("session_message", said))
        async with http_client(gateway.url, ANT, mode=mode) as client, asyncio.timeout(WITHIN):
            again = (await client.session.call_tool("session_message", said)).structured_content
            assert again == {"session_id": opened["session_id"], "spawned": True, "last_event_index": -1}
            words: list[str] = []
            while "Good day to you." not in words:
                asked = {"session_id": opened["session_id"], "wait": 5}
                page = (await client.session.call_tool("session_events", asked)).structured_content
                words = [event.get("text") for event in (page or {})["events"]]
            more = (await client.session.call_tool("session_message", said)).structured_content
            assert (more or {})["spawned"] is False, "it lives"
            unknown = await client.session.call_tool("session_message", {"session_id": "ses_none", "message": "hello"})
            assert "There never was a session" in text_of(unknown)
    finally:
        gateway.kill()


@requirement("SAFE-session-opened-again", "CON-sdk-sessions")
async def test_a_program_opens_its_session_again_after_its_gateway_was_killed(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files=FILES, env=ENVIRONMENT)

    def send_response(message: str) -> str:
        """Send message."""
        return message.upper()

    def blocking(url: str, session_id: str) -> tuple[str, str, str]:
        with SyncClient(url, ANT) as client:
            again = client.sessions.open(tools=[send_response], caller_id="ant", session_id=session_id)
            with again as session:
                return session.id, session.info.agent, session.ask("send it")

    try:
        async with Client(gateway.url, ANT) as client:
            session = await client.sessions.open("helper", tools=[send_response], caller_id="ant")
            with pytest.raises(Conflict, match="is open"):
                await client.sessions.open(session_id=session.id)
            gateway.kill()
        gateway = await asyncio.to_thread(start_gateway, tmp_path, env=ENVIRONMENT)
        async with Client(gateway.url, ANT) as client:
            again = client.sessions.open(tools=[send_response], caller_id="ant", session_id=session.id)
            async with again as reopened:
                assert (reopened.id, reopened.info.agent) == (session.id, "helper"), "the agent that it had"
                assert await reopened.ask("send it") == "I was told: HELLO"
        told = await asyncio.to_thread(blocking, gateway.url, session.id)
        assert told == (session.id, "helper", "I was told: HELLO")
    finally:
        gateway.kill()


async def outcome(calling: "asyncio.Task[object]") -> str:
    """What the agent is told, as a result or as an error of the protocol."""
    try:
        result = await calling
    except MCPError as fault:
        return str(fault)
    assert getattr(result, "is_error", False)
    return text_of(result)
