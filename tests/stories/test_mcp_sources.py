"""MCP servers behind a real gateway: over HTTP and on stdio, listed, called, limited, and gone with it."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.context import ClientRequestContext
from mcp.types import ElicitRequestParams, ElicitResult

from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.sources.mcp.scene import EVERYTHING, PLAIN, HttpServer, http_server, lives
from tests.stories.mcp_clients import ERAS, http_client, text_of
from tests.waiting import eventually

CONFIG = """
[sources.far]
kind = "mcp"
url = "{url}"
prefix = "far_"
allowed_tools = ["echo", "weather", "picture", "chart", "fail", "grow", "count", "fresh*"]

[sources.far.tools.count]
metadata = {{ requires_approval = true }}

[sources.near]
kind = "mcp"
command = ["{python}", "{plain}", "good"]
call_timeout = 0.4

[sources.gone]
kind = "mcp"
url = "http://127.0.0.1:1/mcp"

[sources.silent]
kind = "mcp"
command = ["{python}", "{plain}", "silent"]
connect_timeout = 1
"""


class McpGateway:
    def __init__(self, gateway: RunningGateway, server: HttpServer) -> None:
        self.gateway = gateway
        self.server = server

    def execute(self, tool: str, /, status: int = 200, **arguments: Any) -> dict[str, Any]:
        answer = httpx2.post(
            f"{self.gateway.url}/api/v1/tools/{tool}/execute",
            json={"arguments": arguments},
            headers=self.gateway.headers,
            timeout=20,
        )
        assert answer.status_code == status, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def get(self, path: str) -> Any:
        return httpx2.get(f"{self.gateway.url}{path}", headers=self.gateway.headers).json()

    def names(self) -> set[str]:
        return {tool["name"] for tool in self.get("/api/v1/tools")["tools"]}

    def status(self, source: str) -> Any:
        return next(status for status in self.get("/readyz")["sources"] if status["name"] == source)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    with http_server(tmp_path_factory.mktemp("server")) as server:
        config = CONFIG.format(url=server.url, python=sys.executable, plain=PLAIN)
        with running_gateway(folder, config) as gateway:
            yield McpGateway(gateway, server)


@requirement("TOOL-mcp-executes", "SPACE-mcp-like-gateway", "SPACE-mcp-executes-remote", "SPACE-mcp-invisible-default")
def test_tools_of_mcp_servers_are_called_like_any_other(api: McpGateway) -> None:
    assert {"far_echo", "far_weather", "far_picture", "echo", "hang"} <= api.names()
    called = api.execute("far_echo", text="hello")
    assert (called["status"], called["result"]) == ("completed", "hello")
    assert api.execute("far_weather", city="Zürich")["result"] == {"celsius": 21.5}
    assert api.execute("echo", text="from stdio")["result"] == "from stdio"
    assert api.execute("far_picture")["result"]["content"][0]["mimeType"] == "image/png"
    chart = api.execute("far_chart")["result"]
    assert (chart["structuredContent"], chart["content"][0]["type"]) == ({"celsius": 3}, "image")
    # Not visible, so an agent may call it outside any space.
    answer = httpx2.post(
        f"{api.gateway.url}/api/v1/tools/far_echo/execute",
        json={"arguments": {"text": "agent"}, "agent": "concierge"},
        headers=api.gateway.headers,
    )
    assert answer.json()["result"] == "agent"


def test_a_failing_tool_is_an_outcome_and_wrong_arguments_never_reach_the_server(api: McpGateway) -> None:
    failed = api.execute("far_fail")
    assert (failed["status"], failed["error"]) == ("failed", {"code": "tool_error", "message": "no luck"})
    assert api.execute("far_echo", status=400, text=5)["error"]["code"] == "invalid_arguments"


def test_the_operators_word_on_a_tool_holds(api: McpGateway) -> None:
    assert api.execute("far_count", status=202)["status"] == "pending_approval"


@requirement("CON-mcp-call-timeout")
def test_a_call_that_takes_longer_than_call_timeout_fails_and_is_cancelled_at_the_server(api: McpGateway) -> None:
    timed_out = api.execute("hang")
    assert (timed_out["status"], timed_out["error"]) == (
        "failed",
        {"code": "timeout", "message": "Tool timed out after 400ms"},
    )
    eventually((api.gateway.folder / "cancelled").exists)


@requirement("SPACE-dynamic-mcp")
def test_a_tool_that_a_server_adds_while_it_runs_is_usable_without_a_restart(api: McpGateway) -> None:
    api.execute("far_grow", name="fresh_one")
    eventually(lambda: "far_fresh_one" in api.names())
    assert api.execute("far_fresh_one", text="new")["result"] == "new"


def test_a_server_that_cannot_be_reached_or_says_nothing_is_shown_and_slows_nobody(api: McpGateway) -> None:
    gone, silent = api.status("gone"), api.status("silent")
    assert (gone["kind"], gone["status"], gone["tools"]) == ("mcp", "down", 0)
    assert "127.0.0.1" in gone["error"]
    assert (silent["status"], silent["error"]) == ("down", "The server did not answer within 1 s.")
    assert api.status("far")["status"] == "up"


@requirement("TOOL-mcp-transport-close")
def test_a_gateway_that_is_killed_leaves_no_server_process_behind(tmp_path: Path) -> None:
    config = f'[sources.near]\nkind = "mcp"\ncommand = ["{sys.executable}", "{PLAIN}", "good"]\n'
    with running_gateway(tmp_path, config) as gateway:
        answer = httpx2.post(
            f"{gateway.url}/api/v1/tools/start_child/execute", json={"arguments": {}}, headers=gateway.headers
        )
        pids = [int(pid) for pid in answer.json()["result"].split()]
        assert all(map(lives, pids))
        gateway.kill()
        eventually(lambda: not any(map(lives, pids)))


EVERY_TRANSPORT = """
[sources.streamable]
kind = "mcp"
prefix = "streamable_"
url = "{url}"

[sources.sse]
kind = "mcp"
prefix = "sse_"
url = "{sse_url}"
transport = "sse"

[sources.stdio]
kind = "mcp"
prefix = "stdio_"
command = ["{python}", "-W", "ignore", "{everything}", "stdio", "--state", "{folder}"]
connect_timeout = 60
"""


@pytest.fixture(scope="module")
def every_transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpGateway]:
    """A gateway with the same server behind it three times, each time by another transport."""
    folder = tmp_path_factory.mktemp("gateway")
    with http_server(tmp_path_factory.mktemp("server")) as server:
        names = {"url": server.url, "sse_url": server.sse_url, "python": sys.executable, "everything": EVERYTHING}
        with running_gateway(folder, EVERY_TRANSPORT.format(**names, folder=folder)) as gateway:
            yield McpGateway(gateway, server)


@pytest.mark.parametrize(
    "transport",
    [
        pytest.param("stdio", marks=requirement("TOOL-mcp-transport-stdio")),
        pytest.param("sse", marks=requirement("TOOL-mcp-transport-sse")),
        pytest.param("streamable", marks=requirement("TOOL-mcp-transport-streamable")),
    ],
)
def test_a_server_is_listed_called_and_heard_over_each_transport(every_transport: McpGateway, transport: str) -> None:
    api = every_transport
    eventually(lambda: api.status(transport)["status"] == "up", within=30)
    assert api.execute(f"{transport}_echo", text="grüezi")["result"] == "grüezi"
    assert api.execute(f"{transport}_weather", city="Zürich")["result"] == {"celsius": 21.5}
    assert api.execute(f"{transport}_fail")["error"] == {"code": "tool_error", "message": "no luck"}
    api.execute(f"{transport}_grow", name=f"late_{transport}")
    eventually(lambda: f"{transport}_late_{transport}" in api.names())


@requirement("CON-mcp-elicitation")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_servers_question_goes_to_the_client_that_called_and_its_answer_goes_back(
    every_transport: McpGateway, mode: str
) -> None:
    asked: list[str] = []

    async def answer(_context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"name": "Ada"})

    gateway = every_transport.gateway
    async with http_client(gateway.url, gateway.key, mode=mode, elicitation_callback=answer) as client:
        told = await client.call_tool("streamable_ask", {})
    assert (text_of(told), asked) == ('accept {"name": "Ada"}', ["Who is it?"])


@requirement("CON-mcp-elicitation")
async def test_a_servers_question_is_a_call_that_somebody_answers_where_the_client_cannot_be_asked(
    every_transport: McpGateway,
) -> None:
    gateway = every_transport.gateway

    def question() -> dict[str, Any]:
        open_calls = every_transport.get("/api/v1/calls?status=waiting")["calls"]
        open_calls += every_transport.get("/api/v1/calls?status=pending")["calls"]
        return next((call for call in open_calls if "Who is it?" in str(call)), {})

    async with http_client(gateway.url, gateway.key, mode="legacy") as client:
        calling = asyncio.create_task(client.call_tool("streamable_ask", {}))
        found = await asyncio.to_thread(eventually, question)
        answer = {"callId": found["id"], "result": {"action": "accept", "content": {"name": "Eve"}}}
        path = f"{gateway.url}/api/runs/{found['run_id']}/tool-results"
        sent = await asyncio.to_thread(httpx2.post, path, json=answer, headers=gateway.headers)
        assert sent.status_code == 200, sent.text
        assert text_of(await calling) == 'accept {"name": "Eve"}'
