"""What happens while a request is open: progress, calling off, and news of the catalog; with the SDK's client."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp.types import LoggingMessageNotificationParams, ToolListChangedNotification

from jackfield.calls.rows import CallFilter, call_page
from jackfield.model.tool import Tool
from tests.mcp.scene import BOTH, KEY, META, VERSION, Scene, mcp_scene
from tests.requirement import requirement
from tests.waiting import eventually_async

ERAS = ["legacy", "2026-07-28"]
NEWCOMER = Tool(source="scene", name="newcomer", description="It came later.")


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_comes_before_the_answer_and_in_order(tmp_path: Path, mode: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with mcp_scene(tmp_path) as scene, scene.client(mode=mode) as client:
        result = await client.call_tool("steps", {}, progress_callback=tell)
        assert result.content[0].text == "there"  # type: ignore[union-attr]
        assert told == [(1, 2, "step 1"), (2, 2, "step 2")]


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_what_a_tools_server_says_reaches_a_session_that_asked_for_it(tmp_path: Path) -> None:
    heard: list[tuple[str, Any]] = []

    async def hear(params: LoggingMessageNotificationParams) -> None:
        heard.append((params.level, params.data))

    async with mcp_scene(tmp_path) as scene, scene.client(mode="legacy", logging_callback=hear) as client:
        await client.call_tool("steps", {})
        assert heard == [], "it did not ask"
        await client.set_logging_level("error")
        await client.call_tool("steps", {})
        assert heard == [("error", "it creaks")]
        await client.set_logging_level("debug")
        await client.call_tool("steps", {})
        assert heard[1:] == [("info", "half way"), ("error", "it creaks")]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_request_that_its_client_gives_up_is_cancelled(tmp_path: Path, mode: str) -> None:
    async with mcp_scene(tmp_path) as scene, scene.client(mode=mode) as client, asyncio.timeout(10):
        with pytest.raises(MCPError):
            await client.call_tool("hold", {}, read_timeout_seconds=0.2)
        await scene.source.stopped.wait()
        assert not scene.source.release.is_set()
        assert await statuses(scene) == ["cancelled"]
        assert (await client.call_tool("echo", {"text": "still here"})).is_error is False


async def test_a_client_of_the_handshake_era_that_is_cut_off_has_cancelled_nothing(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(10):
        session = await scene.shake_hands()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hold"}}
        asking = asyncio.create_task(scene.post(body, headers=session))
        await scene.source.started.wait()
        asking.cancel()
        await asyncio.wait((asking,))
        scene.source.release.set()
        await scene.source.stopped.wait()
        assert await statuses(scene) == ["completed"]


async def statuses(scene: Scene) -> list[str]:
    """Of all calls, once they are over."""

    async def settled() -> list[str]:
        calls = (await scene.gateway.store.read(partial(call_page, CallFilter(), limit=10))).calls
        return [call.status.value for call in calls] if all(call.status.is_final for call in calls) else []

    return await eventually_async(settled)


async def test_a_call_that_lasts_is_answered_as_json_when_nothing_came_before(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(10):
        asking = asyncio.create_task(scene.ask("tools/call", {"name": "hold"}))
        await scene.source.started.wait()
        await asyncio.wait((asking,), timeout=0.6)  # longer than a short call
        scene.source.release.set()
        answer = await asking
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["result"]["content"][0]["text"] == "released"


@pytest.mark.parametrize("era", ["session", "subscription"])
async def test_silence_is_filled_with_pings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str) -> None:
    monkeypatch.setattr("jackfield.mcp.exchange.PING_EVERY", 0.05)
    monkeypatch.setattr("jackfield.mcp.api.SOON", 0.05)
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(10):
        session = await scene.shake_hands() if era == "session" else {}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hold"}}
        if era == "session":
            asking = asyncio.create_task(scene.post(body, headers=session))
        else:
            asking = asyncio.create_task(scene.ask("tools/call", {"name": "hold"}))
        await scene.source.started.wait()
        await asyncio.wait((asking,), timeout=0.3)
        scene.source.release.set()
        answer = await asking
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert ": ping" in answer.text
        assert '"text":"released"' in answer.text.rstrip().splitlines()[-1]


@requirement("CON-mcp-list-changed")
async def test_a_session_hears_on_its_stream_that_the_catalog_changed(tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def listen(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    async with (
        mcp_scene(tmp_path) as scene,
        scene.client(mode="legacy", message_handler=listen) as client,
        asyncio.timeout(10),
    ):
        await stream_stands(scene)
        await scene.list_anew(NEWCOMER)
        await heard.wait()
        assert "newcomer" in [tool.name for tool in (await client.list_tools()).tools]


async def stream_stands(scene: Scene) -> None:
    """Until a follower of the catalog is there: the client opens its stream when it likes."""
    while True:
        if scene.gateway.catalog._list_followers:
            return
        await asyncio.sleep(0.01)


@requirement("CON-mcp-list-changed")
async def test_a_subscription_hears_that_the_catalog_changed(tmp_path: Path) -> None:
    async with (
        mcp_scene(tmp_path) as scene,
        scene.client(mode="2026-07-28") as client,
        asyncio.timeout(10),
        client.listen(tools_list_changed=True) as events,
    ):
        await scene.list_anew(NEWCOMER)
        event = await anext(aiter(events))
        assert type(event).__name__ == "ToolsListChanged"


async def test_only_what_there_is_can_be_subscribed_to(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(10):
        wanted = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["note://none"]}}
        async with subscription(scene, wanted) as lines:
            acknowledged = await anext(lines)
            assert '"notifications":{"toolsListChanged":true}' in acknowledged, "there is no such resource"
            assert '"io.modelcontextprotocol/subscriptionId":1' in acknowledged
        async with subscription(scene, {"notifications": {}}) as lines:
            assert '"notifications":{}' in await anext(lines)
        assert (await scene.ask("subscriptions/listen", {"notifications": 1})).status_code == 400
        plain = {"accept": "application/json"}
        assert (await scene.ask("subscriptions/listen", wanted, headers=plain)).status_code == 406


@asynccontextmanager
async def subscription(scene: Scene, params: Mapping[str, object]) -> AsyncIterator[AsyncIterator[str]]:
    """The data lines of a subscription."""
    method = "subscriptions/listen"
    headers = {"x-api-key": KEY, "accept": BOTH, "mcp-protocol-version": VERSION, "mcp-method": method}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    async with scene.http.stream("POST", "/mcp", json=body, headers=headers) as response:
        assert response.status_code == 200
        yield (line async for line in response.aiter_lines() if line.startswith("data:"))


async def test_a_key_does_not_hear_of_tools_that_it_may_not_see(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(10):
        headers = {"x-api-key": "limited-key"} | await scene.shake_hands(key="limited-key")
        async with scene.http.stream("GET", "/mcp", headers=headers) as response:
            lines = response.aiter_lines()
            assert [await anext(lines) for _ in range(6)] == [": connected", "", "id: 0-0", "retry: 1000", "data: ", ""]
            heard = asyncio.ensure_future(anext(lines))
            await scene.list_anew(NEWCOMER)
            assert (await asyncio.wait((heard,), timeout=0.1))[1] == {heard}
            scene.source.echo_says = "It says it again, differently."
            await scene.list_anew(NEWCOMER)
            assert await heard == "id: 0-1"


async def test_a_second_stream_of_a_session_takes_the_place_of_the_first(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(10):
        headers = {"x-api-key": KEY} | await scene.shake_hands()
        async with scene.http.stream("GET", "/mcp", headers=headers) as first:
            lines = first.aiter_lines()
            assert await anext(lines) == ": connected"
            async with scene.http.stream("GET", "/mcp", headers=headers) as second:
                assert await anext(second.aiter_lines()) == ": connected"
                assert "event: message" not in [line async for line in lines]  # the first has ended
