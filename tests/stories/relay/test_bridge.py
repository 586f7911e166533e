"""`jackfield bridge`, driven by the SDK's MCP client: by socket and by url, in both eras."""

import asyncio
import inspect
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp.types import ToolListChangedNotification

import jackfield.sessions.bridge
from tests.harness.process import RunningGateway, clean_environment, run_cli
from tests.requirement import requirement
from tests.stories.mcp_clients import ERAS, text_of
from tests.stories.relay.scene import SCHEMA, TOOLS, HttpCaller, bridge, next_event


@requirement("CON-cli-bridge", "CTR-002-registers-on-notification", "CON-relay-redeclare")
@pytest.mark.parametrize("by", ["socket", "url"])
@pytest.mark.parametrize("mode", ERAS)
async def test_the_bridge_serves_caller_tools_and_notifies_of_changes(
    gateway: RunningGateway, caller: HttpCaller, by: str, mode: str
) -> None:
    heard = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    record = caller.record
    args = ("--socket", record["socket"]) if by == "socket" else ("--url", gateway.url, "--token", record["token"])
    async with bridge(*args, mode=mode, message_handler=hear) as client, asyncio.timeout(20):
        listed = (await client.list_tools()).tools
        assert [(tool.name, tool.description) for tool in listed] == [
            ("ant_send_response", "Send message"),
            ("ant_slow_tool", "Takes its time"),
        ]
        assert listed[0].input_schema == SCHEMA
        calling = asyncio.create_task(client.session.call_tool("ant_send_response", {"message": "hi"}))
        request = await next_event(caller, "caller_tool_request")
        assert await caller.answer(request["request_id"], result={"status": "sent"}) == "ok"
        assert (await calling).structured_content == {"status": "sent"}
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.session.call_tool("ant_nothing", {})
        if mode == "legacy":
            while not heard.is_set():  # when its stream stands, only the client knows
                await caller.say("", tools=[*TOOLS, {"name": f"later{random.random()}"[:12]}])
                await asyncio.wait((asyncio.ensure_future(heard.wait()),), timeout=1)
        else:
            async with client.listen(tools_list_changed=True) as events:
                await caller.say("", tools=[*TOOLS, {"name": "later"}])
                await anext(aiter(events))
        assert len((await client.list_tools()).tools) == 3


@requirement("CON-relay-many-at-once")
async def test_calls_through_the_bridge_do_not_wait_for_each_other(caller: HttpCaller) -> None:
    async with bridge("--socket", caller.record["socket"], mode="legacy") as client, asyncio.timeout(20):
        calls = [
            asyncio.create_task(client.session.call_tool("ant_send_response", {"message": str(number)}))
            for number in range(20)
        ]
        requests = [await next_event(caller, "caller_tool_request") for _ in calls]
        for request in reversed(requests):
            assert await caller.answer(request["request_id"], result=request["arguments"]["message"]) == "ok"
        assert [text_of(await call) for call in calls] == [str(number) for number in range(20)]


async def test_tools_with_names_that_no_agent_could_call_are_called_something_else(caller: HttpCaller) -> None:
    await caller.say("", tools=[{"name": "send-it now"}])
    async with bridge("--socket", caller.record["socket"], mode="legacy") as client, asyncio.timeout(20):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["ant_send_it_now"]
        calling = asyncio.create_task(client.session.call_tool("ant_send_it_now", {}))
        request = await next_event(caller, "caller_tool_request")
        assert request["tool"] == "send-it now"
        assert await caller.answer(request["request_id"], result="sent") == "ok"
        assert text_of(await calling) == "sent"


async def test_a_call_that_the_client_gives_up_is_cancelled_for_the_caller(caller: HttpCaller) -> None:
    async with bridge("--socket", caller.record["socket"], mode="legacy") as client:
        with pytest.raises((MCPError, TimeoutError)):
            await client.session.call_tool("ant_slow_tool", {}, read_timeout_seconds=0.5)
        request = await next_event(caller, "caller_tool_request")
        settled = await next_event(caller, "caller_tool_settled")
        assert (settled["request_id"], settled["status"]) == (request["request_id"], "cancelled")


async def test_the_end_of_the_session_is_an_error_for_who_waits_and_for_who_calls_later(caller: HttpCaller) -> None:
    async with bridge("--socket", caller.record["socket"], mode="legacy") as client, asyncio.timeout(30):
        calling = asyncio.create_task(client.session.call_tool("ant_slow_tool", {}))
        await next_event(caller, "caller_tool_request")
        await caller.http.delete(f"/api/sessions/{caller.session_id}")
        result = await calling
        assert result.is_error
        assert "session" in text_of(result)
        later = await client.session.call_tool("ant_slow_tool", {})
        assert later.is_error
        assert "cannot be reached" in text_of(later)


@requirement("CON-cli-bridge")
def test_a_bridge_without_a_session_says_what_it_needs(tmp_path: Path) -> None:
    told = run_cli("bridge", cwd=tmp_path)
    assert told.returncode == 2
    assert "--socket PATH" in told.stderr
    assert run_cli("bridge", "--socket", "x", "--url", "y", cwd=tmp_path).returncode == 2


async def test_the_bridge_is_one_file_that_needs_nothing_but_python(tmp_path: Path, caller: HttpCaller) -> None:
    copied = tmp_path / "copied.py"
    copied.write_text(inspect.getsource(jackfield.sessions.bridge), encoding="utf-8")
    script = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n{"broken\n[1]\n{"jsonrpc":"2.0","id":[],"method":"x"}\n'
    script = "[" * 100_000 + "\n" + script

    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-I", "-S", str(copied), "--socket", caller.record["socket"]],
            input=script,
            capture_output=True,
            text=True,
            timeout=20,
            env=clean_environment(),
            check=False,
        )

    told = await asyncio.to_thread(run)
    assert told.returncode == 0, told.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in told.stdout.splitlines()]
    assert sorted(line["error"]["code"] for line in lines if "error" in line) == [-32700, -32700, -32600, -32600]


@requirement("SAFE-bridge-waits")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_socket_that_is_late_is_waited_for_and_the_client_is_told(
    caller: HttpCaller, tmp_path: Path, mode: str
) -> None:
    heard = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    late = tmp_path / "late.sock"
    async with bridge("--socket", str(late), mode=mode, message_handler=hear) as client, asyncio.timeout(30):
        assert (await client.list_tools()).tools == []  # after all the time that a first list waits
        if mode == "legacy":
            late.symlink_to(caller.record["socket"])
            await heard.wait()
        else:
            async with client.listen(tools_list_changed=True) as events:
                late.symlink_to(caller.record["socket"])
                await anext(aiter(events))
        assert len((await client.list_tools()).tools) == 2


@requirement("SAFE-bridge-waits")
def test_a_socket_that_never_comes_is_waited_for_as_long_as_is_said(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "jackfield.cli", "bridge", "--socket", str(tmp_path / "no.sock"), "--wait", "0.2"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        text=True,
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(20) == 1
    assert "no.sock cannot be reached: No such file or directory. The session may not have begun." in said
    assert "It was waited for 0.2 s, as --wait says." in said
