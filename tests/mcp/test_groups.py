"""`/mcp/NAME`: one group of tools as an MCP server of its own, in both eras."""

import asyncio
from pathlib import Path

import pytest
from mcp import MCPError
from mcp.types import ToolListChangedNotification

from jackfield.calls.requests import CallRequest
from jackfield.errors import Forbidden
from jackfield.model.tool import Tool
from tests.mcp.scene import KEY, META, VERSION, mcp_scene
from tests.requirement import requirement
from tests.waiting import eventually_async

ERAS = ["legacy", "auto"]
"""`auto` asks `server/discover`: 2026-07-28."""
CONFIG = """
[groups.talk]
tools = ["echo", "shout"]
instructions = "Say it loud."
[groups.whole]
tools = ["scene:*"]
[groups.late]
tools = ["late_*"]

[auth.keys.talker]
key = "talker-key"
groups = ["talk"]
"""


@requirement("MCP2-groups-endpoint")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_of_a_group_has_its_tools_and_instructions_and_no_others(tmp_path: Path, mode: str) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        scene.path = "/mcp/talk"
        async with scene.client(mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "shout"]
            assert client.instructions == "Say it loud."
            assert (await client.call_tool("echo", {"text": "hi"})).is_error is False
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("trace", {})
        scene.path = "/mcp/whole"
        async with scene.client(mode=mode) as client:
            assert client.instructions is not None
            assert "Echo first." in client.instructions, "a group without instructions has its sources'"
            assert "located" not in [tool.name for tool in (await client.list_tools()).tools]


@requirement("MCP2-groups-keys")
async def test_a_key_of_a_group_sees_that_group_at_mcp(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        async with scene.client(mode=VERSION, key="talker-key") as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "shout"]
        scene.path = "/mcp/whole"
        answer = await scene.ask("tools/list", key="talker-key")
        assert answer.status_code == 404
        assert answer.json()["error"]["message"].startswith("There is no group 'whole'.")


@requirement("MCP2-groups-policy")
async def test_a_call_outside_the_group_is_refused_by_the_policy_too(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        gateway = scene.gateway
        caller = gateway.keyring.named("caller")
        assert caller is not None
        entry = gateway.catalog.view(caller).get("trace")
        for principal in (gateway.groups.narrowed(caller, "talk"), gateway.keyring.named("talker")):
            assert principal is not None
            with pytest.raises(Forbidden, match="trace"):
                await gateway.pipeline.call(CallRequest(tool="trace", arguments={}, principal=principal, entry=entry))


@requirement("MCP2-groups-sessions")
async def test_a_session_is_good_at_its_own_endpoint_only(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        scene.path = "/mcp/talk"
        session = await scene.shake_hands()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for path, status in (("/mcp/talk", 200), ("/mcp", 404), ("/mcp/whole", 404), ("/mcp/nowhere", 404)):
            scene.path = path
            assert (await scene.post(ping, headers=session)).status_code == status, path
        for path in ("/mcp", "/mcp/whole"):
            ended = await scene.http.delete(path, headers={"x-api-key": KEY, **session})
            assert ended.status_code == 404
            stream = await scene.http.get(path, headers={"x-api-key": KEY, **session})
            assert stream.status_code == 404
        assert (await scene.http.delete("/mcp/talk", headers={"x-api-key": KEY, **session})).status_code == 204


@requirement("MCP2-groups-list-changed")
async def test_a_session_of_a_group_hears_of_that_group_only(tmp_path: Path) -> None:
    heard: list[object] = []

    async def listen(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.append(message)

    async with mcp_scene(tmp_path, CONFIG) as scene, asyncio.timeout(20):
        scene.path = "/mcp/late"
        async with scene.client(mode="legacy", message_handler=listen) as client:
            await eventually_async(lambda: len(scene.gateway.catalog._list_followers) == 1)
            await scene.list_anew(Tool(source="scene", name="early_one"))
            assert (await client.list_tools()).tools == []
            assert heard == []
            await scene.list_anew(Tool(source="scene", name="late_one"))
            await eventually_async(lambda: len(heard) == 1)
            assert [tool.name for tool in (await client.list_tools()).tools] == ["late_one"]


@requirement("MCP2-groups-list-changed", "MCP2-groups-run-time")
async def test_a_listener_hears_that_its_group_has_other_tools_now_and_goes_with_it(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene, asyncio.timeout(20):
        key = {"x-api-key": KEY}
        await scene.http.put("/api/v1/groups/mine", headers=key, json={"tools": ["echo"]})
        body = {
            "jsonrpc": "2.0",
            "id": 5,
            "method": "subscriptions/listen",
            "params": {"notifications": {"toolsListChanged": True}, "_meta": META},
        }
        headers = {
            **key,
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": "subscriptions/listen",
        }
        async with scene.http.stream("POST", "/mcp/mine", headers=headers, json=body) as stream:
            assert stream.status_code == 200
            lines = (line async for line in stream.aiter_lines() if line.startswith("data:"))
            assert "acknowledged" in await anext(lines)
            await scene.http.put("/api/v1/groups/mine", headers=key, json={"tools": ["echo"], "description": "Same"})
            await scene.http.put("/api/v1/groups/mine", headers=key, json={"tools": ["shout"]})
            assert "notifications/tools/list_changed" in await anext(lines)
            scene.path = "/mcp/mine"
            listed = (await scene.ask("tools/list")).json()["result"]["tools"]
            assert [tool["name"] for tool in listed] == ["shout"]
            await scene.http.delete("/api/v1/groups/mine", headers=key)
            assert '"result"' in await anext(lines), "the stream ends with its group"
        assert (await scene.ask("tools/list")).status_code == 404


@requirement("MCP2-groups-endpoint")
async def test_search_within_a_group_finds_its_tools_only(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        scene.path = "/mcp/talk"
        search = {"name": "search_tools", "arguments": {"query": "it can"}}
        found = (await scene.ask("tools/call", search, headers={"jackfield-search-above": "1"})).json()["result"]
        assert [tool["name"] for tool in found["structuredContent"]["tools"]] == ["echo", "shout"]
