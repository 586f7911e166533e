"""A question that comes up while a tool runs reaches the person behind the client, in both eras."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp.client.context import ClientRequestContext
from mcp.types import ElicitRequestParams, ElicitResult

from jackfield.calls.rows import CallFilter, call_page
from jackfield.mcp import resumption
from jackfield.model.call import Call, CallStatus
from tests.mcp.scene import KEY, Scene, mcp_scene
from tests.requirement import requirement
from tests.waiting import eventually_async

ABLE: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
ERAS = ["legacy", "2026-07-28"]


@requirement("CON-mcp-elicitation")
@pytest.mark.parametrize("mode", ERAS)
async def test_the_sdk_client_is_asked_and_its_answer_reaches_the_tool(tmp_path: Path, mode: str) -> None:
    asked: list[str] = []

    async def answer(_context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with (
        mcp_scene(tmp_path) as scene,
        scene.client(mode=mode, elicitation_callback=answer) as client,
        asyncio.timeout(10),
    ):
        result = await client.call_tool("ask", {"times": 2})
        assert result.structured_content == {"answers": [["accept", {"name": "Ada"}]] * 2}
        assert asked == ["Who are you? (0)", "Who are you? (1)"]


async def test_progress_after_a_question_is_told_under_the_token_that_the_client_came_back_with(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        call = {"name": "ask", "arguments": {}}
        asked = (await scene.ask("tools/call", call, meta={**ABLE, "progressToken": "first"})).json()["result"]
        said = {"requestState": asked["requestState"], "inputResponses": {"question": {"action": "decline"}}}
        answer = await scene.ask("tools/call", {**call, **said}, meta={**ABLE, "progressToken": "second"})
        told = [msgspec.json.decode(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        assert told[0]["params"] == {"progressToken": "second", "progress": 1.0}
        assert told[1]["result"]["structuredContent"] == {"answers": [["decline", None]]}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_person_may_decline(tmp_path: Path, mode: str) -> None:
    async def answer(_context: ClientRequestContext, _params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="decline")

    async with mcp_scene(tmp_path) as scene, scene.client(mode=mode, elicitation_callback=answer) as client:
        result = await client.call_tool("ask", {})
        assert result.structured_content == {"answers": [["decline", None]]}


@requirement("CON-mcp-elicitation")
@pytest.mark.parametrize("mode", ERAS)
async def test_where_the_client_cannot_be_asked_somebody_else_is(tmp_path: Path, mode: str) -> None:
    async with mcp_scene(tmp_path) as scene, scene.client(mode=mode) as client, asyncio.timeout(10):
        calling = asyncio.create_task(client.call_tool("ask", {}))
        question = await question_of(scene)
        answer = {"callId": question.id, "result": {"action": "accept", "content": {"name": "Eve"}}}
        path = f"/api/runs/{question.run_id}/tool-results"
        assert (await scene.http.post(path, json=answer, headers={"x-api-key": KEY})).status_code == 200
        assert (await calling).structured_content == {"answers": [["accept", {"name": "Eve"}]]}


@requirement("SAFE-question-parks-the-call")
async def test_over_rest_the_call_is_pending_until_somebody_answers_its_question(tmp_path: Path) -> None:
    keys = {"x-api-key": KEY}
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(10):
        told = await scene.http.post("/api/v1/tools/ask/execute", json={"arguments": {"times": 2}}, headers=keys)
        call_id, run_id = told.json()["call_id"], told.json()["run_id"]
        assert (told.status_code, told.json()["status"]) == (202, "pending")
        waiting = (await scene.http.get("/api/v1/calls?status=pending", headers=keys)).json()["calls"]
        assert {(call["tool"], call["waits_for"]) for call in waiting} == {("ask", "question"), ("elicitation", None)}
        for name in ("Ada", "Eve"):
            question = await question_of(scene)
            answer = {"callId": question.id, "result": {"action": "accept", "content": {"name": name}}}
            await scene.http.post(f"/api/runs/{run_id}/tool-results", json=answer, headers=keys)
        ended = (await scene.http.get(f"/api/v1/calls/{call_id}?wait=9", headers=keys)).json()["call"]
        assert (ended["status"], [content["name"] for _, content in ended["result"]["answers"]]) == (
            "completed",
            ["Ada", "Eve"],
        )


async def question_of(scene: Scene) -> Call:
    """The one call that waits for somebody's answer, once it is there."""

    async def found() -> Call | None:
        wanted = CallFilter(status=(CallStatus.PENDING,), tool="elicitation")
        calls = (await scene.gateway.store.read(partial(call_page, wanted, limit=5))).calls
        return calls[0] if calls else None

    return await eventually_async(found)


async def test_a_question_of_2026_is_a_result_and_the_same_call_goes_on(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        call = {"name": "ask", "arguments": {}}
        asked = (await scene.ask("tools/call", call, meta=ABLE)).json()["result"]
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        assert asked["inputRequests"][key]["method"] == "elicitation/create"
        assert asked["inputRequests"][key]["params"]["requestedSchema"]["required"] == ["name"]
        again = {**call, "requestState": asked["requestState"]}

        assert (await scene.ask("tools/call", again, meta=ABLE)).json()["result"] == asked  # asked again, not guessed
        said = {key: {"action": "accept", "content": {"name": "Ada"}}}
        done = (await scene.ask("tools/call", {**again, "inputResponses": said}, meta=ABLE)).json()["result"]
        assert done["structuredContent"] == {"answers": [["accept", {"name": "Ada"}]]}
        calls = (await scene.ask("tools/call", {**again, "inputResponses": said}, meta=ABLE)).json()
        assert calls["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"requestState": "made up"}, KEY),
        ({"requestState": 5}, KEY),
        ({"arguments": {"times": 2}}, KEY),
        ({"name": "echo"}, KEY),
        ({}, "caller-key"),
    ],
)
async def test_a_state_that_is_not_this_callers_and_this_calls_is_refused(
    tmp_path: Path, change: dict[str, Any], key: str
) -> None:
    async with mcp_scene(tmp_path) as scene:
        call = {"name": "ask", "arguments": {"times": 1}}
        asked = (await scene.ask("tools/call", call, meta=ABLE)).json()["result"]
        said = {"question": {"action": "accept", "content": {}}}
        again = {**call, "requestState": asked["requestState"], "inputResponses": said, **change}
        answer = await scene.ask("tools/call", again, meta=ABLE, key=key)
        assert answer.json()["error"]["code"] == -32602
        assert "Call the tool again" in answer.json()["error"]["message"]
        right = {**call, "requestState": asked["requestState"], "inputResponses": said}
        done = (await scene.ask("tools/call", right, meta=ABLE)).json()["result"]
        assert done["structuredContent"] == {"answers": [["accept", {}]]}


async def test_an_answer_that_is_none_is_refused_and_the_question_stands(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        call = {"name": "ask", "arguments": {}}
        asked = (await scene.ask("tools/call", call, meta=ABLE)).json()["result"]
        again = {**call, "requestState": asked["requestState"]}
        wrong = {**again, "inputResponses": {"question": {"action": "perhaps"}}}
        assert (await scene.ask("tools/call", wrong, meta=ABLE)).json()["error"]["code"] == -32602
        right = {**again, "inputResponses": {"question": {"action": "cancel"}}}
        done = (await scene.ask("tools/call", right, meta=ABLE)).json()["result"]
        assert done["structuredContent"] == {"answers": [["cancel", None]]}


async def test_a_client_of_the_handshake_era_that_hangs_up_has_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resumption, "RESUME_SECONDS", 0.05)
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands(capabilities={"elicitation": {}})
        body = {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "ask", "_meta": {}}}
        headers = {"x-api-key": "key-of-the-scene", "accept": "application/json, text/event-stream", **session}
        async with scene.http.stream("POST", "/mcp", json=body, headers=headers) as response:
            async for line in response.aiter_lines():
                if line == "event: message":
                    break
        (call,) = await settled_calls(scene)
        assert call.result is not None
        assert bytes(call.result) == b'{"answers":[["cancel",null]]}'


async def settled_calls(scene: Scene) -> list[Call]:
    async def settled() -> list[Call]:
        calls = (await scene.gateway.store.read(partial(call_page, CallFilter(), limit=5))).calls
        return list(calls) if all(call.status.is_final for call in calls) else []

    return await eventually_async(settled)
