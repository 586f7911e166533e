"""Tasks of revision 2025-11-25 on `/mcp`: asked for with each call, and the same calls as the extension's."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.calls.rows import CallFilter, call_page
from jackfield.identity.keys import ADMIN
from jackfield.model.tool import Metadata, Tool
from tests.mcp.library import library
from tests.mcp.scene import KEY, Scene, mcp_scene
from tests.mcp.task_upstream import CORE, MODERN
from tests.mcp.test_reading import config, listed
from tests.mcp.test_upstream_tasks import behind
from tests.requirement import requirement
from tests.waiting import eventually_async

RELATED = "io.modelcontextprotocol/related-task"


async def begin(scene: Scene, session: dict[str, str], name: str, **arguments: Any) -> Any:
    answer = await scene.ask_in(session, "tools/call", name=name, arguments=arguments, task={"ttl": 60_000})
    assert set(answer) == {"task"}
    return answer["task"]


@requirement("MCP2-task-core")
async def test_a_call_that_was_asked_for_as_a_task_is_one_at_once(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        task = await begin(scene, session, "hold")
        assert task["status"] == "working"
        assert {"ttl", "pollInterval", "createdAt", "lastUpdatedAt"} < task.keys()
        assert not {"ttlMs", "pollIntervalMs"} & task.keys()
        result = asyncio.create_task(scene.ask_in(session, "tasks/result", taskId=task["taskId"]))
        await scene.source.started.wait()
        assert (await scene.ask_in(session, "tasks/get", taskId=task["taskId"]))["status"] == "working"
        scene.source.release.set()
        told = await result
        assert told["content"] == [{"type": "text", "text": "released"}]
        assert told["_meta"][RELATED] == {"taskId": task["taskId"]}
        assert (await scene.ask_in(session, "tasks/get", taskId=task["taskId"]))["status"] == "completed"


@requirement("MCP2-task-core")
async def test_an_approved_and_a_rejected_task(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        approved, rejected = [(await begin(scene, session, "guarded"))["taskId"] for _ in range(2)]
        await scene.gateway.answers.approve(approved, principal=ADMIN)
        assert "isError" not in await scene.ask_in(session, "tasks/result", taskId=approved)
        await scene.gateway.answers.reject(rejected, principal=ADMIN, reason="no")
        assert (await scene.ask_in(session, "tasks/result", taskId=rejected))["isError"] is True
        assert (await scene.ask_in(session, "tasks/get", taskId=rejected))["status"] == "failed", "as 2025-11-25 says"


@requirement("MCP2-task-core")
async def test_tasks_are_listed_and_cancelled_once(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        task = (await begin(scene, session, "guarded"))["taskId"]
        assert [one["taskId"] for one in (await scene.ask_in(session, "tasks/list"))["tasks"]] == [task]
        cancelled = await scene.ask_in(session, "tasks/cancel", taskId=task)
        assert (cancelled["taskId"], cancelled["status"]) == (task, "cancelled")
        assert (await scene.ask_in(session, "tasks/cancel", taskId=task))["code"] == -32602
        assert (await scene.ask_in(session, "tasks/result", taskId=task))["code"] == -32800
        assert (await scene.ask_in(session, "tasks/get", taskId="call_none"))["code"] == -32602


@requirement("MCP2-task-core")
async def test_what_a_task_asks_is_put_to_the_client_that_waits_for_its_result(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        session = await scene.shake_hands(capabilities={"elicitation": {}})
        task = (await begin(scene, session, "ask"))["taskId"]

        async def asks() -> bool:
            return bool((await scene.ask_in(session, "tasks/get", taskId=task))["status"] == "input_required")

        await eventually_async(asks)
        (listed_task,) = (await scene.ask_in(session, "tasks/list"))["tasks"]
        assert listed_task["status"] == "input_required"
        body = {"jsonrpc": "2.0", "id": 8, "method": "tasks/result", "params": {"taskId": task}}
        headers = {"x-api-key": "key-of-the-scene", "accept": "application/json, text/event-stream", **session}
        async with scene.http.stream("POST", "/mcp", json=body, headers=headers) as response:
            lines = (line.removeprefix("data:").strip() async for line in response.aiter_lines() if line[:5] == "data:")
            messages = (json.loads(line) async for line in lines if line)
            question = await anext(messages)
            assert question["method"] == "elicitation/create"
            assert question["params"]["_meta"][RELATED] == {"taskId": task}
            said = {"action": "accept", "content": {"name": "Ada"}}
            await scene.post({"jsonrpc": "2.0", "id": question["id"], "result": said}, headers=session)
            told = (await anext(messages))["result"]
        assert told["structuredContent"] == {"answers": [["accept", {"name": "Ada"}]]}


@requirement("MCP2-task-core")
async def test_only_that_revision_has_them_and_says_which_tools_may_take_long(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        await scene.list_anew(Tool(source="scene", name="long", metadata=Metadata(long_running=True)))
        tools = {tool["name"]: tool.get("execution") for tool in (await scene.ask_in(session, "tools/list"))["tools"]}
        assert tools["guarded"] == tools["long"] == {"taskSupport": "optional"}
        assert tools["echo"] is None
        earlier = await scene.shake_hands(protocolVersion="2025-06-18")
        assert (await scene.ask_in(earlier, "tasks/list"))["code"] == -32601
        plain = await scene.ask_in(earlier, "tools/call", name="echo", arguments={"text": "x"}, task={})
        assert plain["content"][0]["text"] == "x", "ignored, as the revision asks"


async def test_a_refusal_is_an_error_where_a_task_was_asked_for(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        error = await scene.ask_in(session, "tools/call", name="echo", arguments={}, task={})
        assert error["code"] == -32602


@requirement("MCP2-task-core", "MCP2-task-upstream")
@pytest.mark.parametrize("era", [MODERN, CORE])
async def test_a_task_of_a_server_of_either_era_is_one_for_a_client_of_2025(tmp_path: Path, era: str) -> None:
    async with behind(tmp_path, era) as (scene, upstream):
        session = await scene.shake_hands()
        task = (await begin(scene, session, "must"))["taskId"]
        await eventually_async(lambda: bool(upstream.tasks))
        upstream.task.finish("there")
        told = await scene.ask_in(session, "tasks/result", taskId=task)
        assert told["content"][0]["text"] == "there"
        assert told["_meta"][RELATED] == {"taskId": task}


@requirement("MCP2-task-core")
async def test_what_is_read_is_no_task(tmp_path: Path) -> None:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        session = await scene.shake_hands()
        await scene.ask_in(session, "resources/read", uri="note://one")
        assert await scene.ask_in(session, "tasks/list") == {"tasks": []}
        (call,) = (await scene.gateway.store.read(partial(call_page, CallFilter(), limit=5))).calls
        assert "There is no task" in (await scene.ask_in(session, "tasks/result", taskId=call.id))["message"]


@requirement("MCP2-task-core")
async def test_a_session_is_told_on_its_stream_how_its_tasks_stand(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        session = await scene.shake_hands()
        headers = {"x-api-key": KEY, **session}
        async with scene.http.stream("GET", "/mcp", headers=headers) as response:
            lines = (line.removeprefix("data:").strip() async for line in response.aiter_lines() if line[:5] == "data:")
            messages = (json.loads(line) async for line in lines if line)
            task = (await begin(scene, session, "guarded"))["taskId"]
            await scene.gateway.answers.approve(task, principal=ADMIN)
            told = await anext(messages)
            while told["params"]["status"] == "working":
                told = await anext(messages)
            assert (told["method"], told["params"]["taskId"]) == ("notifications/tasks/status", task)
            assert (told["params"]["status"], "result" in told["params"]) == ("completed", False)
