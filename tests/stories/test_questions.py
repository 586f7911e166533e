"""An MCP server asks something while its tool runs for a REST caller, and what becomes of that when a gateway dies."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, running_gateway, start_gateway
from tests.requirement import requirement
from tests.sources.mcp.scene import http_server
from tests.waiting import eventually

CONFIG = """
[sources.far]
kind = "mcp"
url = "{url}"
call_timeout = 5
"""

ON_STDIO = f"""
[sources.near]
kind = "mcp"
command = ["{sys.executable}", "asking.py"]
era = "handshake"
"""
ASKING = """
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

server = MCPServer("asking")

class Name(BaseModel):
    name: str

@server.tool()
async def name(number: int, ctx: Context) -> str:
    answer = await ctx.elicit(f"Who is {number}?", Name)
    return f"{number} is {answer.data.name if answer.action == 'accept' else answer.action}"

server.run("stdio")
"""


@pytest.fixture(params=["modern", "legacy"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    state = tmp_path / "state"
    state.mkdir()
    with http_server(state, legacy=request.param == "legacy") as server:
        yield CONFIG.format(url=server.url)


def ask(gateway: RunningGateway, method: str, path: str, **more: Any) -> httpx2.Response:
    return httpx2.request(method, f"{gateway.url}{path}", headers=gateway.headers, timeout=20, **more)


def waiting(gateway: RunningGateway) -> dict[str, dict[str, Any]]:
    """What waits for somebody, by tool."""
    found = ask(gateway, "GET", "/api/v1/calls?status=pending").json()["calls"]
    return {call["tool"]: call for call in found}


def begun(gateway: RunningGateway) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call that is pending because its tool asks something, and the question."""
    told = ask(gateway, "POST", "/api/v1/tools/ask/execute", json={"arguments": {}})
    assert (told.status_code, told.json()["status"]) == (202, "pending")
    found = waiting(gateway)
    assert found["ask"]["id"] == told.json()["call_id"]
    return found["ask"], found["elicitation"]


@requirement("SAFE-question-parks-the-call")
def test_a_rest_caller_gets_202_and_the_answer_settles_its_call(tmp_path: Path, config: str) -> None:
    with running_gateway(tmp_path, config) as gateway:
        eventually(lambda: ask(gateway, "GET", "/api/v1/tools/ask").status_code == 200)
        call, question = begun(gateway)
        answer = {"callId": question["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
        assert ask(gateway, "POST", f"/api/runs/{call['run_id']}/tool-results", json=answer).status_code == 200
        ended = ask(gateway, "GET", f"/api/v1/calls/{call['id']}?wait=10").json()["call"]
        assert ended["status"] == "completed"
        assert "Ada" in str(ended["result"])
        assert waiting(gateway) == {}


@requirement("SAFE-question-parks-the-call")
def test_two_calls_of_a_server_on_stdio_that_both_ask_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(ASKING, encoding="utf-8")
    with running_gateway(tmp_path, ON_STDIO) as gateway:
        eventually(lambda: ask(gateway, "GET", "/api/v1/tools/name").status_code == 200)
        for number in (1, 2):
            told = ask(gateway, "POST", "/api/v1/tools/name/execute", json={"arguments": {"number": number}})
            assert (told.status_code, told.json()["status"]) == (202, "pending"), told.text
        asked = ask(gateway, "GET", "/api/v1/calls?status=pending&tool=name").json()["calls"]
        for call in asked:
            content = {"name": f"Ada {call['arguments']['number']}"}
            answer = {"callId": call["id"], "result": {"action": "accept", "content": content}}
            assert ask(gateway, "POST", f"/api/runs/{call['run_id']}/tool-results", json=answer).status_code == 200
        ended = [ask(gateway, "GET", f"/api/v1/calls/{call['id']}?wait=10").json()["call"] for call in asked]
        assert sorted(call["result"]["result"] for call in ended) == ["1 is Ada 1", "2 is Ada 2"]


@requirement("SAFE-question-ends-with-its-asker")
def test_after_kill_9_the_call_is_interrupted_and_the_question_closed(tmp_path: Path, config: str) -> None:
    gateway = start_gateway(tmp_path, config)
    try:
        eventually(lambda: ask(gateway, "GET", "/api/v1/tools/ask").status_code == 200)
        call, question = begun(gateway)
    finally:
        gateway.kill()
    with running_gateway(tmp_path, config) as after:
        assert waiting(after) == {}
        ended = ask(after, "GET", f"/api/v1/calls/{call['id']}").json()["call"]
        assert (ended["status"], ended["error"]["code"]) == ("failed", "interrupted")
        late = {"callId": question["id"], "result": {"action": "decline"}}
        assert ask(after, "POST", f"/api/runs/{call['run_id']}/tool-results", json=late).status_code == 409
