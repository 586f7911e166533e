"""The relay as MCP tools: what is listed, their shapes, and requests pushed whatever the client wants to hear."""

import asyncio
from collections import Counter
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.stories.mcp_clients import ERAS, http_client, text_of
from tests.stories.relay.scene import ANT, BEE, TOOLS, HttpCaller, on_socket

FOUR = ["caller_tool_response", "session_end", "session_events", "session_message"]
CONTEXT = {"caller_id": "ant", "caller_tools": TOOLS}


async def record_of(gateway: RunningGateway, session_id: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=gateway.url, headers={"Authorization": f"Bearer {ANT}"}) as http:
        record: dict[str, Any] = (await http.get(f"/api/sessions/{session_id}")).json()["session"]
        return record


async def socket_of(gateway: RunningGateway, session_id: str) -> str:
    return str((await record_of(gateway, session_id))["socket"])


@requirement("CTR-004-response-method", "CTR-004-parameters", "CON-relay-session-tools")
@pytest.mark.parametrize("mode", ERAS)
async def test_the_four_tools_are_listed_and_do_what_they_say(gateway: RunningGateway, mode: str) -> None:
    async with http_client(gateway.url, ANT, mode=mode) as client, asyncio.timeout(20):
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(listed) == FOUR
        assert set(listed["caller_tool_response"].input_schema["properties"]) == {
            "session_id",
            "request_id",
            "result",
            "error",
        }

        async def call(name: str, **arguments: Any) -> Any:
            return (await client.session.call_tool(name, arguments)).structured_content

        opened = await call("session_message", agent="helper", message="hello", **CONTEXT)
        session_id = opened["session_id"]
        assert opened == {"session_id": session_id, "spawned": True, "last_event_index": -1}
        page: dict[str, Any] = {"completed": False, "events": [], "last_index": -1}
        while "completion" not in [event["type"] for event in page["events"]]:
            page = await call("session_events", session_id=session_id, since_index=-1, wait=5)
        assert set(page) == {
            "session_id",
            "status",
            "last_index",
            "events",
            "completed",
            "failed",
            "error",
            "dropped_events",
        }
        other = {"caller_id": "ant", "caller_tools": [{"name": "another"}]}
        declared = await call("session_message", session_id=session_id, context=other)
        assert declared["spawned"] is False
        assert (await record_of(gateway, session_id))["tools"] == ["ant_another"]
        again = await call("session_message", session_id=session_id, message="more", context=CONTEXT)
        assert (again["spawned"], again["last_event_index"] >= 0) == (False, True)
        async with on_socket(await socket_of(gateway, session_id)) as inside:
            await inside.hear()
            answers: list[dict[str, Any]] = [{"result": {"status": "sent"}, "error": None}, {"result": None}]
            for number, answer in enumerate(answers):
                inside.ask(number, "slow_tool")
                request = await next_request(call, session_id, number)
                taken = await call("caller_tool_response", session_id=session_id, request_id=request, **answer)
                assert (taken["success"], taken["status"]) == (True, "completed")
                assert (await inside.hear())["result"] == answer["result"]
            inside.ask(2, "slow_tool")
            request = await next_request(call, session_id, 2)
            # The spellings that the seed's project documents.
            await call("caller_tool_response", session_id=session_id, tool_call_id=request, result="no", is_error=True)
            assert (await inside.hear())["error"]["message"] == "no"
        assert (await call("session_end", session_id=session_id))["status"] == "completed"
        called = await calls_of_builtins(gateway, session_id)
        assert called == {"session_message": 3, "caller_tool_response": 3, "session_end": 1}, "polls leave no record"


async def calls_of_builtins(gateway: RunningGateway, session_id: str) -> Counter[str]:
    """By tool: calls on record that are about this session."""
    async with httpx2.AsyncClient(base_url=gateway.url, headers={"Authorization": f"Bearer {ANT}"}) as http:
        listed = (await http.get("/api/v1/calls", params={"limit": 100})).json()["calls"]
    return Counter(
        call["tool"]
        for call in listed
        if call["source"] == "builtin"
        and session_id in (call["arguments"].get("session_id"), call["result"].get("session_id"))
    )


async def next_request(call: Any, session_id: str, number: int) -> str:
    while True:
        page = await call("session_events", session_id=session_id, wait=1)
        found = [event["request_id"] for event in page["events"] if event["type"] == "caller_tool_request"]
        if len(found) > number:
            return str(found[number])


@requirement("CON-relay-push-any-level")
@pytest.mark.parametrize("level", [None, "emergency"])
async def test_a_request_is_pushed_to_a_client_that_wants_to_hear_nothing(gateway: RunningGateway, level: Any) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def hear(params: Any) -> None:
        await heard.put(params)

    async with http_client(gateway.url, ANT, mode="legacy", logging_callback=hear) as client, asyncio.timeout(20):
        if level is not None:
            with pytest.warns(MCPDeprecationWarning):
                await client.session.set_logging_level(level)
        opened = await client.session.call_tool("session_message", {"agent": "helper", "message": "", **CONTEXT})
        session_id = (opened.structured_content or {})["session_id"]
        async with on_socket(await socket_of(gateway, session_id)) as inside:
            await inside.hear()
            inside.ask(1, "send_response", {"message": "hi"})
            pushed = await heard.get()
            assert (pushed.level, pushed.logger) == ("info", "jackfield.caller_tool")
            request = pushed.data
            polled = await client.session.call_tool("session_events", {"session_id": session_id})
            assert request in (polled.structured_content or {})["events"]
            assert request["arguments"] == {"message": "hi"}
            await client.session.call_tool(
                "caller_tool_response", {"session_id": session_id, "request_id": request["request_id"], "result": 1}
            )
            assert (await inside.hear())["result"] == 1
        assert heard.empty()
        await client.session.call_tool("session_end", {"session_id": session_id})


@requirement("CON-relay-owner-answers", "CON-relay-first-answer")
async def test_what_is_refused_over_mcp_is_told_as_an_error(gateway: RunningGateway, caller: HttpCaller) -> None:
    async with http_client(gateway.url, BEE, mode="legacy") as bee, asyncio.timeout(20):
        for name, arguments, said in (
            ("session_message", {"message": "x", "session_id": caller.session_id}, "belongs to another key"),
            ("session_events", {"session_id": caller.session_id}, "belongs to another key"),
            ("session_end", {"session_id": caller.session_id}, "belongs to another key"),
            (
                "caller_tool_response",
                {"session_id": caller.session_id, "request_id": "x", "result": 1},
                "belongs to another key",
            ),
            ("session_events", {}, "session_id is required"),
            ("session_events", {"session_id": "ses_none"}, "There is no session"),
            ("session_message", {"message": "x", "agent": "nobody"}, "There is no agent 'nobody'"),
            ("session_message", {"message": "x"}, "Which agent"),
            ("session_message", {"agent": "helper", "context": {}}, "neither a message nor caller_tools"),
        ):
            result = await bee.session.call_tool(name, arguments)
            assert result.is_error, name
            assert said in text_of(result)


@requirement("CON-key-session")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_sessions_key_lists_and_calls_the_callers_tools_over_mcp(
    gateway: RunningGateway, caller: HttpCaller, mode: str
) -> None:
    async with http_client(gateway.url, caller.record["token"], mode=mode) as client, asyncio.timeout(20):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["ant_send_response", "ant_slow_tool"]
        calling = asyncio.create_task(client.session.call_tool("ant_slow_tool", {}))
        event = await caller.events.get()
        while event["type"] != "caller_tool_request":
            event = await caller.events.get()
        assert await caller.answer(event["request_id"], error="not today") == "ok"
        result = await calling
        assert (result.is_error, "not today" in text_of(result)) == (True, True)
