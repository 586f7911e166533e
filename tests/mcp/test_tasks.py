"""Tasks on `/mcp`: for a client that declares the extension, a call that waits is a task, and its id is the call's."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jackfield.identity.keys import ADMIN
from jackfield.model.tool import ExecutionType, Metadata, Tool
from tests.mcp.scene import BOTH, META, VERSION, Scene, mcp_scene
from tests.requirement import requirement
from tests.waiting import eventually_async

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TASKS = "io.modelcontextprotocol/tasks"
DECLARED: dict[str, Any] = {CAPABILITIES: {"extensions": {TASKS: {}}}}
ASKABLE: dict[str, Any] = {CAPABILITIES: {"extensions": {TASKS: {}}, "elicitation": {}}}
NEEDED: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
FINAL = ("completed", "failed", "cancelled")


async def call(
    scene: Scene, name: str, *, meta: dict[str, Any] = DECLARED, key: str = "caller-key", **arguments: Any
) -> Any:
    answer = await scene.ask("tools/call", {"name": name, "arguments": arguments}, meta=meta, key=key)
    return answer.json().get("result", answer.json().get("error"))


async def about(
    scene: Scene, method: str, task: str, *, key: str = "caller-key", meta: dict[str, Any] = DECLARED, **params: Any
) -> Any:
    given = {"taskId": task, **params}
    answer = await scene.ask(method, given, meta=meta, key=key, headers={"mcp-name": task})
    return answer.json().get("result", answer.json().get("error"))


async def ended(scene: Scene, task: str, **more: Any) -> Any:
    async def final() -> Any:
        found = await about(scene, "tasks/get", task, **more)
        return found if found["status"] in FINAL else None

    return await eventually_async(final)


@requirement("MCP2-task-waits", "MCP2-task-is-the-call")
async def test_a_call_that_waits_for_approval_is_a_task_with_the_calls_id(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        task = await call(scene, "guarded")
        assert (task["resultType"], task["status"]) == ("task", "working")
        assert "approval" in task["statusMessage"]
        assert task["ttlMs"] >= 86_400_000
        assert isinstance(task["pollIntervalMs"], int)
        assert not {"result", "error", "inputRequests", "requestState"} & task.keys()
        found = await about(scene, "tasks/get", task["taskId"])
        assert (found["resultType"], found["status"], found["taskId"]) == ("complete", "working", task["taskId"])
        await scene.gateway.answers.approve(task["taskId"], principal=ADMIN)
        over = await ended(scene, task["taskId"])
        assert over["status"] == "completed"
        assert over["result"]["content"] == [{"type": "text", "text": "null"}]
        assert "error" not in over
        record = (await scene.http.get(f"/api/v1/calls/{task['taskId']}", headers={"x-api-key": "caller-key"})).json()
        assert record["call"]["status"] == "completed"


async def test_a_repeat_under_the_same_idempotency_key_is_the_same_task_and_then_its_result(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        once = {**DECLARED, "jackfield/idempotency-key": "one"}
        first, again = await call(scene, "guarded", meta=once), await call(scene, "guarded", meta=once)
        assert first["taskId"] == again["taskId"]
        await scene.gateway.answers.approve(first["taskId"], principal=ADMIN)
        over = await ended(scene, first["taskId"])
        repeated = await call(scene, "guarded", meta=once)
        assert (repeated["resultType"], repeated["content"]) == ("complete", over["result"]["content"])


@requirement("MCP2-task-outcomes")
async def test_a_rejected_call_is_a_completed_task_whose_result_is_an_error(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        task = (await call(scene, "guarded"))["taskId"]
        await scene.gateway.answers.reject(task, principal=ADMIN, reason="not today")
        over = await ended(scene, task)
        assert (over["status"], over["result"]["isError"]) == ("completed", True)
        assert "not today" in over["statusMessage"]


@requirement("MCP2-task-outcomes")
async def test_an_expired_call_is_a_completed_task_whose_result_is_an_error(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        tool = Tool(source="scene", name="brief", metadata=Metadata(requires_approval=True), expires_in_ms=1)
        await scene.list_anew(tool)
        over = await ended(scene, (await call(scene, "brief"))["taskId"])
        assert (over["status"], over["result"]["isError"]) == ("completed", True)
        assert "Expired" in over["statusMessage"]


async def test_what_does_not_wait_is_answered_at_once(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        answer = await call(scene, "echo", text="hello")
        assert (answer["resultType"], answer["content"][0]["text"]) == ("complete", "hello")
        assert "taskId" not in answer


@requirement("MCP2-task-declared")
async def test_a_client_that_does_not_declare_tasks_gets_none(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        undeclared: dict[str, Any] = {CAPABILITIES: {}}
        told = await call(scene, "guarded", meta=undeclared)
        assert (told["resultType"], told["structuredContent"]["status"]) == ("complete", "pending_approval")
        call_id = told["structuredContent"]["pendingToolCallId"]
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            params: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}
            answer = await scene.ask(
                method, {"taskId": call_id, **params}, key="caller-key", headers={"mcp-name": call_id}
            )
            assert answer.status_code == 400
            assert (answer.json()["error"]["code"], answer.json()["error"]["data"]) == (-32021, NEEDED)
        assert (await about(scene, "tasks/get", call_id))["status"] == "working", "it is the call all the same"


@requirement("MCP2-task-foreign")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
async def test_an_unknown_task_and_another_keys_do_not_exist(tmp_path: Path, method: str) -> None:
    async with mcp_scene(tmp_path) as scene:
        task = (await call(scene, "guarded"))["taskId"]
        for key, named in (("caller-key", "call_none"), ("limited-key", task), ("key-of-the-scene", task)):
            error = await about(scene, method, named, key=key, inputResponses={})
            assert (error["code"], named in error["message"]) == (-32602, True)
        assert (await about(scene, "tasks/get", task))["status"] == "working"


async def test_methods_of_earlier_tasks_are_none_of_the_extension(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        for method in ("tasks/result", "tasks/list"):
            assert (await scene.ask(method, {"taskId": "x"}, meta=DECLARED)).json()["error"]["code"] == -32601


async def test_the_header_names_the_task(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        task = (await call(scene, "guarded"))["taskId"]
        answer = await scene.ask("tasks/get", {"taskId": task}, meta=DECLARED, headers={"mcp-name": "another"})
        assert answer.json()["error"]["code"] == -32020


@requirement("MCP2-task-cancel")
async def test_cancelling_is_acknowledged_before_and_after_the_end(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        task = (await call(scene, "guarded"))["taskId"]
        for _ in range(2):
            told = await about(scene, "tasks/cancel", task)
            assert told["resultType"] == "complete"
            assert not {"taskId", "status", "result", "error"} & told.keys()
            assert (await about(scene, "tasks/get", task))["status"] == "cancelled"


@requirement("MCP2-task-waits")
async def test_a_long_tool_is_a_task_at_once_and_can_be_stopped(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        await scene.list_anew(Tool(source="scene", name="long", metadata=Metadata(long_running=True)))
        first, second = (await call(scene, "long"))["taskId"], (await call(scene, "long"))["taskId"]
        assert (await about(scene, "tasks/get", first))["status"] == "working"
        await about(scene, "tasks/cancel", first)
        await scene.source.stopped.wait()
        assert (await ended(scene, first))["status"] == "cancelled"
        scene.source.release.set()
        over = await ended(scene, second)
        assert (over["status"], over["result"]["content"][0]["text"]) == ("completed", "released")


@requirement("MCP2-task-waits")
async def test_a_call_that_somebody_else_answers_is_a_task_at_once(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        await scene.list_anew(Tool(source="scene", name="person", execution_type=ExecutionType.EXTERNAL))
        task = await call(scene, "person")
        assert (task["resultType"], task["status"]) == ("task", "working")
        record = (
            await scene.http.get(f"/api/v1/calls/{task['taskId']}", headers={"x-api-key": "key-of-the-scene"})
        ).json()
        body = {"callId": task["taskId"], "result": {"seen": True}}
        path = f"/api/runs/{record['call']['run_id']}/tool-results"
        answer = await scene.http.post(path, json=body, headers={"x-api-key": "key-of-the-scene"})
        assert answer.status_code == 200
        assert (await ended(scene, task["taskId"]))["result"]["structuredContent"] == {"seen": True}


@requirement("MCP2-task-input")
async def test_a_question_is_an_input_request_of_the_task(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        task = await call(scene, "ask", meta=ASKABLE, times=2)
        assert (task["resultType"], task["status"]) == ("task", "input_required")
        keys: list[str] = []
        for name in ("Ada", "Bob"):

            async def asks() -> Any:
                found = await about(scene, "tasks/get", task["taskId"], meta=ASKABLE)
                return {key: one for key, one in found.get("inputRequests", {}).items() if key not in keys}

            [(key, request)] = (await eventually_async(asks)).items()
            keys.append(key)
            assert request["method"] == "elicitation/create"
            assert request["params"]["requestedSchema"]["required"] == ["name"]
            bad = {key: {"action": "accept", "content": {"name": 1}}}
            refused = await about(scene, "tasks/update", task["taskId"], meta=ASKABLE, inputResponses=bad)
            assert refused["code"] == -32602
            given = {"unknown": {}, key: {"action": "accept", "content": {"name": name}}}
            told = await about(scene, "tasks/update", task["taskId"], meta=ASKABLE, inputResponses=given)
            assert told["resultType"] == "complete"
        over = await ended(scene, task["taskId"], meta=ASKABLE)
        answers = over["result"]["structuredContent"]["answers"]
        assert answers == [["accept", {"name": "Ada"}], ["accept", {"name": "Bob"}]]


async def test_a_client_that_cannot_ask_its_person_sees_a_task_that_works(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        task = await call(scene, "ask")
        found = await about(scene, "tasks/get", task["taskId"])
        assert (found["status"], "question" in found["statusMessage"]) == ("working", True)
        assert "inputRequests" not in found
        await about(scene, "tasks/cancel", task["taskId"])


async def test_the_extension_is_advertised(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        capabilities = (await scene.ask("server/discover")).json()["result"]["capabilities"]
        assert capabilities["extensions"][TASKS] == {}
        assert "tasks" not in capabilities


@asynccontextmanager
async def following(
    scene: Scene, ids: list[str], *, meta: dict[str, Any] = DECLARED
) -> AsyncIterator[AsyncIterator[Any]]:
    """The messages of a subscription to these tasks."""
    method = "subscriptions/listen"
    headers = {"x-api-key": "caller-key", "accept": BOTH, "mcp-protocol-version": VERSION, "mcp-method": method}
    params = {"notifications": {"taskIds": ids}, "_meta": {**META, **meta}}
    body = {"jsonrpc": "2.0", "id": 9, "method": method, "params": params}
    async with scene.http.stream("POST", "/mcp", json=body, headers=headers) as response:
        assert response.status_code == 200
        yield (json.loads(line[5:]) async for line in response.aiter_lines() if line.startswith("data:"))


@requirement("MCP2-task-notifications")
async def test_every_change_of_a_followed_task_is_told_with_the_whole_task(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        task, over = (await call(scene, "guarded"))["taskId"], (await call(scene, "guarded"))["taskId"]
        await scene.gateway.answers.reject(over, principal=ADMIN)
        async with following(scene, [task, "call_none", over]) as messages:
            acknowledged = (await anext(messages))["params"]
            assert acknowledged["notifications"] == {"taskIds": [task, over]}
            first = await anext(messages)
            assert (first["method"], first["params"]["taskId"]) == ("notifications/tasks", over)
            assert first["params"]["result"]["isError"] is True
            assert first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 9
            await scene.gateway.answers.approve(task, principal=ADMIN)
            told = (await anext(messages))["params"]
            while told["status"] == "working":
                told = (await anext(messages))["params"]
            assert (told["taskId"], told["status"]) == (task, "completed")
            polled = await about(scene, "tasks/get", task)
            assert told["result"] == polled["result"]


@requirement("MCP2-task-notifications", "MCP2-task-input")
async def test_a_followed_task_tells_what_it_asks(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        task = (await call(scene, "ask", meta=ASKABLE))["taskId"]
        async with following(scene, [task], meta=ASKABLE) as messages:
            await anext(messages)
            told = (await anext(messages))["params"]
            [key] = told["inputRequests"]
            given = {key: {"action": "accept", "content": {"name": "Ada"}}}
            await about(scene, "tasks/update", task, meta=ASKABLE, inputResponses=given)
            while told["status"] != "completed":
                told = (await anext(messages))["params"]
            assert told["result"]["structuredContent"] == {"answers": [["accept", {"name": "Ada"}]]}


@requirement("MCP2-task-declared")
async def test_following_tasks_needs_the_extension_and_a_list_of_ids(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        wanted = {"notifications": {"taskIds": ["call_1"]}}
        refused = await scene.ask("subscriptions/listen", wanted)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32021)
        assert refused.json()["error"]["data"] == NEEDED
        for ids in ("call_1", [1], ["x"] * 1001):
            answer = await scene.ask("subscriptions/listen", {"notifications": {"taskIds": ids}}, meta=DECLARED)
            assert answer.json()["error"]["code"] == -32602
