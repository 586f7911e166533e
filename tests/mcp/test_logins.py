"""A call of an MCP client that waits for a login: its person is sent to the link, and the result comes after it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.context import ClientRequestContext
from mcp.types import ElicitRequestParams, ElicitResult, TextContent

from jackfield.model.call import CallStatus
from jackfield.protocol.mcp import URL_REQUIRED
from tests.calls.login_harness import SOURCE, LoginServer, add_login_source
from tests.mcp.scene import Scene, mcp_scene
from tests.requirement import requirement
from tests.waiting import eventually_async

ERAS = ["legacy", "2026-07-28"]
CALLER = "caller-key"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TASKS = "io.modelcontextprotocol/tasks"
URLS: dict[str, Any] = {"elicitation": {"url": {}}}
WITH_TASKS: dict[str, Any] = {CAPABILITIES: {"extensions": {TASKS: {}}}}
WITH_BOTH: dict[str, Any] = {CAPABILITIES: {**URLS, "extensions": {TASKS: {}}}}


@asynccontextmanager
async def login_scene(folder: Path, server: LoginServer | None = None) -> AsyncIterator[tuple[Scene, LoginServer]]:
    server = server or LoginServer()
    async with mcp_scene(folder) as scene, asyncio.timeout(30):
        await add_login_source(scene.gateway, server)
        yield scene, server
        await scene.cancel_all()


async def logged_in(scene: Scene, server: LoginServer, principal: str | None) -> None:
    server.log_in(principal)
    await scene.gateway.answers.login_done(SOURCE, principal)


@requirement("ID-login-mcp")
@pytest.mark.parametrize("mode", ERAS)
async def test_the_sdk_client_is_sent_to_the_link_and_gets_the_result_when_the_login_is_done(
    tmp_path: Path, mode: str
) -> None:
    async with login_scene(tmp_path) as (scene, server):
        asked: list[tuple[str, str | None]] = []
        logins: list[asyncio.Task[None]] = []

        async def answer(_context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            asked.append((params.message, getattr(params, "url", None)))
            logins.append(asyncio.create_task(logged_in(scene, server, "caller")))
            return ElicitResult(action="accept")

        async with scene.client(mode=mode, key=CALLER, elicitation_callback=answer) as client:
            result = await client.call_tool("book", {"n": 1})
        assert result.structured_content == {"booked": 1}
        ((message, url),) = asked
        assert "Log in at 'local'" in message
        assert url is not None
        assert url.endswith(f"/connect/{server.acted[0]}")
        assert len(server.acted) == 1


@requirement("ID-login-mcp")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_takes_no_urls_gets_the_link_in_the_result_and_the_outcome_by_calling_again(
    tmp_path: Path, mode: str
) -> None:
    async with login_scene(tmp_path) as (scene, server), scene.client(mode=mode, key=CALLER) as client:
        result = await client.call_tool("book", {"n": 1})
        assert not result.is_error, "a model must not take it for a failure"
        told = result.structured_content
        assert told["status"] == "pending_login"
        assert told["login_url"].endswith(f"/connect/{told['pendingToolCallId']}")
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        assert told["login_url"] in text
        assert "call the tool again with the same arguments" in text
        again = await client.call_tool("book", {"n": 1})
        assert again.structured_content["pendingToolCallId"] == told["pendingToolCallId"]
        await logged_in(scene, server, "caller")
        done = await client.call_tool("book", {"n": 1})
        assert (done.structured_content, len(server.acted)) == ({"booked": 1}, 1)


@requirement("ID-login-mcp")
async def test_a_login_that_is_done_before_the_client_is_back_is_not_lost_on_it(tmp_path: Path) -> None:
    """At 2026-07-28 the question ends the client's request: whatever happens meanwhile waits for the next one."""
    async with login_scene(tmp_path) as (scene, server):
        call = {"name": "book", "arguments": {"n": 1}}
        asked = (await scene.ask("tools/call", call, key=CALLER, meta={CAPABILITIES: URLS})).json()["result"]
        assert asked["resultType"] == "input_required"
        question = asked["inputRequests"]["login"]["params"]
        assert question["mode"] == "url"
        await logged_in(scene, server, "caller")
        done = question["url"].rpartition("/")[2]
        assert (await scene.gateway.pipeline.wait(done, seconds=10)).status is CallStatus.COMPLETED
        back = {**call, "requestState": asked["requestState"], "inputResponses": {"login": {"action": "accept"}}}
        told = (await scene.ask("tools/call", back, key=CALLER, meta={CAPABILITIES: URLS})).json()["result"]
        assert told["structuredContent"] == {"booked": 1}
        again = (await scene.ask("tools/call", call, key=CALLER)).json()["result"]
        assert again["_meta"]["jackfield/callId"] != done, "the outcome has arrived, so this is a new call"


@pytest.mark.parametrize("mode", ERAS)
async def test_a_person_may_decline_and_the_call_waits_on(tmp_path: Path, mode: str) -> None:
    async def answer(_context: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="decline")

    async with (
        login_scene(tmp_path) as (scene, server),
        scene.client(mode=mode, key=CALLER, elicitation_callback=answer) as client,
    ):
        result = await client.call_tool("book", {"n": 1})
        assert result.structured_content["status"] == "pending_login"
        await logged_in(scene, server, "caller")
        assert (await client.call_tool("book", {"n": 1})).structured_content == {"booked": 1}
        assert len(server.acted) == 1


async def test_only_who_may_log_in_gets_the_link(tmp_path: Path) -> None:
    server = LoginServer(is_per_user=False)
    async with login_scene(tmp_path, server) as (scene, _):
        theirs = (await scene.ask("tools/call", {"name": "book", "arguments": {}}, key=CALLER)).json()["result"]
        assert "login_url" not in theirs["structuredContent"]
        assert "until an administrator has logged in at 'local'" in theirs["content"][1]["text"]
        ours = (await scene.ask("tools/call", {"name": "book", "arguments": {}})).json()["result"]
        assert "login_url" in ours["structuredContent"]


@requirement("ID-login-mcp")
async def test_a_client_of_2025_11_25_without_a_stream_is_told_with_the_error_for_that(tmp_path: Path) -> None:
    async with login_scene(tmp_path) as (scene, server):
        session = await scene.shake_hands(key=CALLER, capabilities=URLS)
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "book", "arguments": {"n": 1}}}
        only_json = {**session, "accept": "application/json"}
        error = (await scene.post(body, key=CALLER, headers=only_json)).json()["error"]
        assert error["code"] == URL_REQUIRED
        (asked,) = error["data"]["elicitations"]
        assert (asked["mode"], asked["url"].rpartition("/")[2]) == ("url", asked["elicitationId"])
        await logged_in(scene, server, "caller")
        told = (await scene.post(body, key=CALLER, headers=only_json)).json()
        assert told["result"]["structuredContent"] == {"booked": 1}


async def test_a_client_that_gives_up_waiting_leaves_the_call_and_its_link(tmp_path: Path) -> None:
    async with login_scene(tmp_path) as (scene, server):
        session = await scene.shake_hands(key=CALLER, capabilities=URLS)
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "book", "arguments": {"n": 1}}}
        waiting = asyncio.create_task(scene.post(body, key=CALLER, headers=session))

        async def waits() -> list[str]:
            return await waiting_calls(scene)

        await eventually_async(waits)
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        await scene.post(cancel, key=CALLER, headers=session)
        assert len(await waiting_calls(scene)) == 1, "the person may be at the login by now"
        waiting.cancel()
        await asyncio.wait((waiting,))
        await logged_in(scene, server, "caller")
        again = await scene.post({**body, "id": 8}, key=CALLER, headers=session)
        assert again.json()["result"]["structuredContent"] == {"booked": 1}
        assert len(server.acted) == 1, "who calls again gets what nobody has taken"


async def waiting_calls(scene: Scene) -> list[str]:
    answer = await scene.http.get("/api/v1/calls?status=pending_login", headers={"x-api-key": CALLER})
    return [call["id"] for call in answer.json()["calls"]]


async def about(scene: Scene, method: str, task: str, *, meta: dict[str, Any], **more: Any) -> Any:
    answer = await scene.ask(method, {"taskId": task, **more}, key=CALLER, meta=meta, headers={"mcp-name": task})
    told = answer.json()
    return told.get("result", told.get("error"))


@requirement("ID-login-mcp")
async def test_with_tasks_the_call_is_a_task_that_needs_input_or_says_where_to_log_in(tmp_path: Path) -> None:
    async with login_scene(tmp_path) as (scene, server):
        call = {"name": "book", "arguments": {"n": 1}}
        created = (await scene.ask("tools/call", call, key=CALLER, meta=WITH_TASKS)).json()["result"]
        task = created["taskId"]
        found = await about(scene, "tasks/get", task, meta=WITH_TASKS)
        assert found["status"] == "working"
        assert f"/connect/{task}" in found["statusMessage"]
        asking = await about(scene, "tasks/get", task, meta=WITH_BOTH)
        assert asking["status"] == "input_required"
        ((key, asked),) = asking["inputRequests"].items()
        assert (asked["method"], asked["params"]["mode"]) == ("elicitation/create", "url")
        assert asked["params"]["url"].endswith(f"/connect/{task}")
        given = {key: {"action": "accept"}}
        assert "code" not in await about(scene, "tasks/update", task, meta=WITH_BOTH, inputResponses=given)
        assert (await about(scene, "tasks/get", task, meta=WITH_BOTH))["status"] == "working"
        await logged_in(scene, server, "caller")

        async def is_done() -> bool:
            return bool((await about(scene, "tasks/get", task, meta=WITH_BOTH))["status"] == "completed")

        await eventually_async(is_done)
        result = (await about(scene, "tasks/get", task, meta=WITH_BOTH))["result"]
        assert result["structuredContent"] == {"booked": 1}


async def test_a_task_whose_person_declines_the_login_is_rejected(tmp_path: Path) -> None:
    async with login_scene(tmp_path) as (scene, server):
        call = {"name": "book", "arguments": {"n": 1}}
        task = (await scene.ask("tools/call", call, key=CALLER, meta=WITH_BOTH)).json()["result"]["taskId"]
        (key,) = (await about(scene, "tasks/get", task, meta=WITH_BOTH))["inputRequests"]
        await about(scene, "tasks/update", task, meta=WITH_BOTH, inputResponses={key: {"action": "decline"}})
        found = await about(scene, "tasks/get", task, meta=WITH_BOTH)
        assert (found["status"], found["result"]["isError"], server.acted) == ("completed", True, [])
        assert (await scene.gateway.pipeline.wait(task, seconds=0)).decided_by == "caller"


@requirement("ID-login-mcp")
async def test_who_waits_for_the_result_of_a_task_of_2025_11_25_gets_it_after_the_login(tmp_path: Path) -> None:
    async with login_scene(tmp_path) as (scene, server):
        session = await scene.shake_hands(key=CALLER)
        asked = {"name": "book", "arguments": {"n": 1}, "task": {"ttl": 60_000}}
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": asked}
        task = (await scene.post(body, key=CALLER, headers=session)).json()["result"]["task"]["taskId"]
        waiting = {"jsonrpc": "2.0", "id": 8, "method": "tasks/result", "params": {"taskId": task}}
        result = asyncio.create_task(scene.post(waiting, key=CALLER, headers=session))

        async def waits() -> list[str]:
            return await waiting_calls(scene)

        assert await eventually_async(waits) == [task]
        await logged_in(scene, server, "caller")
        assert (await result).json()["result"]["structuredContent"] == {"booked": 1}
        assert (await scene.gateway.pipeline.wait(task, seconds=0)).status is CallStatus.COMPLETED
