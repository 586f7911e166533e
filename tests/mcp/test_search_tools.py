"""A catalog that is too large to be listed is searched, in both eras."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp.types import ToolListChangedNotification

from jackfield.mcp.tools_list import HEADER, search_above
from tests.mcp.scene import KEY, Scene, mcp_scene
from tests.mcp.test_live import stream_stands

CONFIG = "[mcp]\nsearch_tools_above = 3\n"


async def listed(scene: Scene, session: dict[str, str] | None = None, *, above: int | None = None) -> list[str]:
    if session is None:
        headers = {} if above is None else {HEADER.decode(): str(above)}
        result = (await scene.ask("tools/list", headers=headers)).json()["result"]
    else:
        result = await scene.ask_in(session, "tools/list")
    return [tool["name"] for tool in result["tools"]]


async def search(scene: Scene, arguments: dict[str, Any], session: dict[str, str] | None = None) -> Any:
    call = {"name": "search_tools", "arguments": arguments}
    if session is None:
        return (await scene.ask("tools/call", call)).json()["result"]
    return await scene.ask_in(session, "tools/call", **call)


async def test_a_session_lists_the_search_and_what_it_has_found(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        session, other = await scene.shake_hands(), await scene.shake_hands()
        assert await listed(scene, session) == ["search_tools"]
        found = await search(scene, {"query": "shout", "limit": 1}, session)
        (tool,) = found["structuredContent"]["tools"]
        assert (tool["name"], tool["inputSchema"]["required"]) == ("shout", ["text"])
        assert msgspec.json.decode(found["content"][0]["text"]) == found["structuredContent"]
        assert await listed(scene, session) == ["search_tools", "shout"]
        assert await listed(scene, other) == ["search_tools"]


async def test_a_session_is_told_that_its_list_has_grown(tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def listen(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    async with (
        mcp_scene(tmp_path, CONFIG) as scene,
        scene.client(mode="legacy", message_handler=listen) as client,
        asyncio.timeout(10),
    ):
        await stream_stands(scene)
        await client.call_tool("search_tools", {"query": "echo"})
        await heard.wait()
        assert "echo" in [tool.name for tool in (await client.list_tools()).tools]


async def test_from_2026_on_a_list_does_not_depend_on_what_was_asked_before(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        found = await search(scene, {"query": "echo"})
        assert [tool["name"] for tool in found["structuredContent"]["tools"]] == ["echo"]
        assert await listed(scene) == ["search_tools"]
        call = {"name": "echo", "arguments": {"text": "found"}}
        assert (await scene.ask("tools/call", call)).json()["result"]["content"][0]["text"] == "found"


async def test_a_client_may_ask_for_another_size(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        assert len(await listed(scene, above=0)) == 8
        assert await listed(scene, above=500) == await listed(scene, above=0)
        assert await listed(scene, above=7) == ["search_tools"]


@pytest.mark.parametrize(
    ("header", "above"), [(None, 9), (b"0", 0), (b"25", 25), (b"-1", 9), (b"many", 9), (b"9" * 50, 9)]
)
def test_a_header_that_is_no_size_changes_nothing(header: bytes | None, above: int) -> None:
    assert search_above(header, configured=9) == above


async def test_a_key_finds_only_what_it_may_see(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        call = {"name": "search_tools", "arguments": {"query": "shout echo"}}
        found = (await scene.ask("tools/call", call, key="limited-key")).json()["result"]
        assert [tool["name"] for tool in found["structuredContent"]["tools"]] == ["echo"]
        assert (await scene.ask("tools/call", call, key="reader-key")).status_code == 200


async def test_a_search_is_counted_as_every_call_is_and_leaves_no_record(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        await search(scene, {"query": "shout"})
        assert scene.gateway.pipeline.counters.calls == {("search_tools", "builtin", "admin", "completed"): 1}
        assert scene.gateway.pipeline.counters.running == 0
        listed_calls = await scene.http.get("/api/v1/calls", headers={"x-api-key": KEY})
        assert listed_calls.json()["calls"] == []


@pytest.mark.parametrize("arguments", [{}, {"query": 5}, {"query": "x", "limit": 0}, {"query": "x", "more": 1}])
async def test_a_search_that_is_none_is_told_so(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async with mcp_scene(tmp_path, CONFIG) as scene:
        result = await search(scene, arguments)
        assert result["isError"] is True
        assert "search_tools cannot take these arguments" in result["content"][0]["text"]
        assert "$" not in result["content"][0]["text"]
