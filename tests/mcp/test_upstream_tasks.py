"""Tasks of servers behind the gateway, in both eras: followed as pending calls, whoever made the call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.calls.requests import CallRequest
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.model.call import CallStatus
from jackfield.settings import load_settings
from tests.mcp.scene import KEY, Scene, mcp_scene
from tests.mcp.task_upstream import CORE, MODERN, TaskUpstream, task_upstream
from tests.mcp.test_tasks import ASKABLE, CAPABILITIES, NEEDED, about, call, ended
from tests.requirement import requirement
from tests.waiting import eventually_async

ERAS = pytest.mark.parametrize("era", [MODERN, CORE])


@asynccontextmanager
async def behind(
    folder: Path, era: str = MODERN, more: str = "", *, output: bool = False
) -> AsyncIterator[tuple[Scene, TaskUpstream]]:
    """A gateway in front of a server with tasks; `output`: its tools promise a number."""
    async with task_upstream(era, output=output) as upstream, mcp_scene(folder, upstream.config + more) as scene:
        await scene.gateway.source_registry.settled(within=10)
        await scene.gateway.catalog.update_aside(scene.gateway.source_registry.listings())
        yield scene, upstream
        await scene.cancel_all()


async def execute(scene: Scene, tool: str, **more: Any) -> Any:
    answer = await scene.http.post(
        f"/api/v1/tools/{tool}/execute", json={"arguments": {}, **more}, headers={"x-api-key": KEY}
    )
    return answer.status_code, answer.json()


async def record(scene: Scene, call_id: str) -> Any:
    return (await scene.http.get(f"/api/v1/calls/{call_id}", headers={"x-api-key": KEY})).json()["call"]


async def settled(scene: Scene, call_id: str) -> Any:
    async def final() -> Any:
        found = await record(scene, call_id)
        return found if found["status"] not in ("pending", "running", "waiting") else None

    return await eventually_async(final)


@ERAS
@requirement("MCP2-task-required", "MCP2-task-upstream")
async def test_a_tool_that_runs_only_as_a_task_is_a_pending_call_over_http(tmp_path: Path, era: str) -> None:
    async with behind(tmp_path, era) as (scene, upstream):
        for _ in range(2):
            status, answer = await execute(scene, "must")
            assert (status, answer["status"]) == (202, "pending")
            upstream.task.message = "half way"
            upstream.task.finish("there")
            found = await settled(scene, answer["call_id"])
            assert (found["status"], found["result"]) == ("completed", "there")
        assert upstream.calls == ["must"] * (2 if era == CORE else 3), "refused once, then known"


@ERAS
async def test_a_tool_that_can_do_without_a_task_answers_at_once_over_http(tmp_path: Path, era: str) -> None:
    async with behind(tmp_path, era) as (scene, upstream):
        status, answer = await execute(scene, "may")
        assert (status, answer["result"], upstream.tasks) == (200, "may at once", {})


@ERAS
@requirement("MCP2-task-required")
async def test_a_client_without_tasks_is_told_that_it_needs_them(tmp_path: Path, era: str) -> None:
    async with behind(tmp_path, era) as (scene, upstream):
        answer = await scene.ask("tools/call", {"name": "must", "arguments": {}})
        assert answer.status_code == 400
        assert (answer.json()["error"]["code"], answer.json()["error"]["data"]) == (-32021, NEEDED)
        assert upstream.tasks == {}
        plain = await call(scene, "may", meta={CAPABILITIES: {}})
        assert (plain["resultType"], plain["content"][0]["text"]) == ("complete", "may at once")
        session = await scene.shake_hands()
        assert (await scene.ask_in(session, "tools/call", name="must", arguments={}))["code"] == -32601


@ERAS
@requirement("MCP2-task-upstream")
async def test_the_servers_task_is_followed_to_its_result(tmp_path: Path, era: str) -> None:
    async with behind(tmp_path, era) as (scene, upstream):
        task = (await call(scene, "may"))["taskId"]
        assert task.startswith("call_"), "never the server's own id"
        upstream.task.message = "half way"

        async def said() -> bool:
            return bool((await about(scene, "tasks/get", task)).get("statusMessage") == "half way")

        await eventually_async(said)
        upstream.task.finish("there")
        over = await ended(scene, task)
        assert (over["status"], over["result"]["content"][0]["text"]) == ("completed", "there")
        assert "io.modelcontextprotocol/related-task" not in over["result"].get("_meta", {})


@ERAS
@requirement("MCP2-task-outcomes")
async def test_a_tools_own_error_completes_the_task_and_a_protocol_fault_fails_it(tmp_path: Path, era: str) -> None:
    async with behind(tmp_path, era) as (scene, upstream):
        first = (await call(scene, "may"))["taskId"]
        upstream.task.finish("broken", is_error=True)
        over = await ended(scene, first)
        assert (over["status"], over["result"]["isError"]) == ("completed", True)
        second = (await call(scene, "may"))["taskId"]
        upstream.task.fail(-32050, "wires crossed")
        over = await ended(scene, second)
        assert (over["status"], over["error"]) == ("failed", {"code": -32050, "message": "wires crossed"})
        assert "result" not in over
        assert (await record(scene, second))["error"]["code"] == "task_failed"


@ERAS
@requirement("MCP2-task-cancel")
async def test_cancelling_reaches_the_server(tmp_path: Path, era: str) -> None:
    async with behind(tmp_path, era) as (scene, upstream):
        task = (await call(scene, "may"))["taskId"]
        await about(scene, "tasks/cancel", task)
        await eventually_async(lambda: upstream.task.status == "cancelled")
        assert (await about(scene, "tasks/get", task))["status"] == "cancelled"


async def test_a_task_that_the_server_has_forgotten_is_a_failed_call(tmp_path: Path) -> None:
    async with behind(tmp_path) as (scene, upstream):
        _, answer = await execute(scene, "must")
        upstream.forgotten = True
        found = await settled(scene, answer["call_id"])
        assert (found["status"], found["error"]["code"]) == ("failed", "task_lost")


@ERAS
@requirement("MCP2-task-upstream", "MCP2-task-input")
async def test_what_the_servers_task_asks_is_asked_and_answered_one_key_at_a_time(tmp_path: Path, era: str) -> None:
    async with behind(tmp_path, era) as (scene, upstream):
        task = (await call(scene, "may", meta=ASKABLE))["taskId"]
        upstream.task.ask("first", "second")

        async def asked(count: int) -> Any:
            found = (await about(scene, "tasks/get", task, meta=ASKABLE)).get("inputRequests", {})
            return found if len(found) == count else None

        one, two = await eventually_async(lambda: asked(2))
        given = {"action": "accept", "content": {"sure": True}}
        await about(scene, "tasks/update", task, meta=ASKABLE, inputResponses={one: given})
        assert list(await eventually_async(lambda: asked(1))) == [two]
        await about(scene, "tasks/update", task, meta=ASKABLE, inputResponses={two: {"action": "decline"}})
        await eventually_async(lambda: len(upstream.task.answers) == 2)
        assert upstream.task.answers == {
            "first": {"action": "accept", "content": {"sure": True, "why": "because"}},
            "second": {"action": "decline"},
        }
        upstream.task.finish("asked")
        assert (await ended(scene, task))["result"]["content"][0]["text"] == "asked"


async def test_over_http_somebody_answers_what_the_servers_task_asks(tmp_path: Path) -> None:
    async with behind(tmp_path) as (scene, upstream):
        _, answer = await execute(scene, "must")
        upstream.task.ask("q")

        async def question() -> Any:
            listed = await scene.http.get("/api/v1/calls?status=pending", headers={"x-api-key": KEY})
            return next((one for one in listed.json()["calls"] if one["source"] == "elicitation"), None)

        asked = await eventually_async(question)
        body = {"callId": asked["id"], "result": {"action": "accept", "content": {"sure": False}}}
        path = f"/api/runs/{asked['run_id']}/tool-results"
        assert (await scene.http.post(path, json=body, headers={"x-api-key": KEY})).status_code == 200
        await eventually_async(lambda: "q" in upstream.task.answers)
        upstream.task.ask("another")
        again = await eventually_async(question)
        whole = {"callId": answer["call_id"], "result": {"action": "decline"}}
        path = f"/api/runs/{again['run_id']}/tool-results"
        assert (await scene.http.post(path, json=whole, headers={"x-api-key": KEY})).status_code == 200
        await eventually_async(lambda: upstream.task.answers.get("another") == {"action": "decline"})
        upstream.task.ask("a third")
        await eventually_async(question)
        upstream.task.finish("over")
        assert (await settled(scene, answer["call_id"]))["status"] == "completed"

        async def closed() -> bool:
            return await question() is None

        await eventually_async(closed)


async def test_a_long_tool_of_a_server_is_a_task_there_for_every_caller(tmp_path: Path) -> None:
    more = "[sources.far.tools.may.metadata]\nlong_running = true\n"
    async with behind(tmp_path, more=more) as (scene, upstream):
        status, answer = await execute(scene, "may")
        assert status == 202
        upstream.task.finish("long")
        assert (await settled(scene, answer["call_id"]))["result"] == "long"


@requirement("MCP2-task-required")
async def test_an_agent_finds_the_result_in_its_inbox_once(tmp_path: Path) -> None:
    async with behind(tmp_path) as (scene, upstream):
        status, answer = await execute(scene, "must", agent="ada")
        assert status == 202
        upstream.task.finish("there")
        await settled(scene, answer["call_id"])
        inbox = (await scene.http.get("/api/agents/ada/inbox", headers={"x-api-key": KEY})).json()["events"]
        assert [(event["eventId"], event["data"]["result"]) for event in inbox] == [
            (f"tr:{answer['call_id']}", "there")
        ]


@requirement("MCP2-task-required")
async def test_a_caller_that_cannot_be_told_of_a_pending_call_waits_for_it(tmp_path: Path) -> None:
    async with behind(tmp_path) as (scene, upstream):
        request = CallRequest(tool="must", arguments={}, principal=ADMIN)
        calling = asyncio.create_task(scene.gateway.pipeline.call(request))
        await eventually_async(lambda: bool(upstream.tasks))
        upstream.task.finish("there")
        made = await calling
        assert (made.status, bytes(made.result or b"")) == (CallStatus.COMPLETED, b'"there"')
        brief = msgspec.structs.replace(request, within_ms=200)
        assert (await scene.gateway.pipeline.call(brief)).status is CallStatus.PENDING


@requirement("MCP2-task-upstream")
@ERAS
async def test_the_next_gateway_on_the_database_goes_on_with_the_servers_task(tmp_path: Path, era: str) -> None:
    async with task_upstream(era) as upstream:
        path = tmp_path / "jackfield.toml"
        path.write_text(upstream.config, encoding="utf-8")
        environment = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": f"sqlite:///{tmp_path / 'calls.db'}"}
        settings = load_settings(path, environment=environment)
        async with Gateway(settings) as first:
            await first.source_registry.settled(within=10)
            await first.catalog.update_aside(first.source_registry.listings())
            request = CallRequest(tool="must", arguments={}, principal=ADMIN, takes_pending=True)
            call = await first.pipeline.call(request)
            assert call.status is CallStatus.PENDING
        upstream.task.finish("there")
        async with Gateway(settings) as second:
            over = await second.pipeline.wait(call.id, seconds=15)
            assert (over.status, bytes(over.result or b"")) == (CallStatus.COMPLETED, b'"there"')


async def test_what_a_hostile_server_says_of_its_task_is_bounded(tmp_path: Path) -> None:
    async with behind(tmp_path) as (scene, upstream):
        task = (await call(scene, "may"))["taskId"]
        upstream.task.message = "\u202ehidden\u200b " + "x" * 100_000
        upstream.poll = -1

        async def said() -> str:
            return str((await about(scene, "tasks/get", task)).get("statusMessage", ""))

        async def is_said() -> bool:
            return (await said()).startswith("hidden")

        await eventually_async(is_said)
        assert len(await said()) <= 2_000
        upstream.task.ask(*map(str, range(500)))

        async def asked() -> Any:
            return (await about(scene, "tasks/get", task, meta=ASKABLE)).get("inputRequests")

        assert 0 < len(await eventually_async(asked)) <= 100
        upstream.task.status = "sideways"
        found = await settled(scene, task)
        assert (found["status"], "sideways" in found["error"]["message"]) == ("failed", True)


async def test_a_task_without_a_usable_id_is_no_task(tmp_path: Path) -> None:
    async with behind(tmp_path) as (scene, upstream):
        upstream.id_prefix = "x" * 2_000
        status, answer = await execute(scene, "must")
        assert (status, answer["status"]) == (200, "failed")
        assert "task" in answer["error"]["message"]


async def test_the_task_of_a_call_that_expires_is_cancelled(tmp_path: Path) -> None:
    async with behind(tmp_path, more="[sources.far.tools.may]\nexpiresIn = 300\n") as (scene, upstream):
        task = (await call(scene, "may"))["taskId"]
        assert (await ended(scene, task))["result"]["isError"] is True
        assert (await record(scene, task))["status"] == "expired"
        await eventually_async(lambda: upstream.task.status == "cancelled")


async def test_the_result_of_a_task_has_to_fit_the_tools_schema(tmp_path: Path) -> None:
    async with behind(tmp_path, output=True) as (scene, upstream):
        for result, status in (({"n": 1}, "completed"), ({"n": "one"}, "failed")):
            _, answer = await execute(scene, "must")
            upstream.task.finish("a number", structured=result)
            found = await settled(scene, answer["call_id"])
            assert (found["status"], found["error"] and found["error"]["code"]) == (
                status,
                None if status == "completed" else "bad_result",
            )
