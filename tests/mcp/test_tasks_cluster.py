"""Tasks with two gateways on one PostgreSQL: made at one, followed, answered and stopped at the other."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jackfield.identity.keys import ADMIN
from jackfield.model.tool import Metadata, Tool
from tests.mcp.scene import Scene, mcp_scene
from tests.mcp.test_tasks import ASKABLE, about, call, ended, following
from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.waiting import eventually_async


@pytest.fixture
async def pair(
    tmp_path: Path, postgres_server: PostgresServer, empty_database: str
) -> AsyncIterator[tuple[Scene, Scene]]:
    url = postgres_server.url(empty_database)
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    async with mcp_scene(folders[0], store=url) as a, mcp_scene(folders[1], store=url) as b:
        yield a, b


@requirement("MCP2-task-notifications", "MCP2-task-is-the-call")
async def test_a_task_is_followed_at_another_gateway(pair: tuple[Scene, Scene]) -> None:
    a, b = pair
    task = (await call(a, "guarded"))["taskId"]
    async with asyncio.timeout(30), following(b, [task]) as messages:
        assert (await anext(messages))["params"]["notifications"] == {"taskIds": [task]}
        await a.gateway.answers.approve(task, principal=ADMIN)
        told = (await anext(messages))["params"]
        while told["status"] == "working":
            told = (await anext(messages))["params"]
        assert told["status"] == "completed"
    assert (await about(b, "tasks/get", task))["result"] == told["result"]


@requirement("MCP2-task-input")
async def test_a_question_is_answered_at_another_gateway(pair: tuple[Scene, Scene]) -> None:
    a, b = pair
    task = (await call(a, "ask", meta=ASKABLE))["taskId"]

    async def asked() -> Any:
        return (await about(b, "tasks/get", task, meta=ASKABLE)).get("inputRequests")

    [key] = await eventually_async(asked)
    given = {key: {"action": "accept", "content": {"name": "Ada"}}}
    await about(b, "tasks/update", task, meta=ASKABLE, inputResponses=given)
    over = await ended(b, task, meta=ASKABLE)
    assert over["result"]["structuredContent"] == {"answers": [["accept", {"name": "Ada"}]]}


@requirement("MCP2-task-cancel")
async def test_a_tool_that_runs_at_one_gateway_is_stopped_at_the_other(pair: tuple[Scene, Scene]) -> None:
    a, b = pair
    for scene in pair:
        await scene.list_anew(Tool(source="scene", name="long", metadata=Metadata(long_running=True)))
    task = (await call(a, "long"))["taskId"]
    await a.source.started.wait()
    await about(b, "tasks/cancel", task)
    async with asyncio.timeout(10):
        await a.source.stopped.wait()
    assert (await about(a, "tasks/get", task))["status"] == "cancelled"
