"""MCP servers behind a real gateway: over HTTP and on stdio, listed, called, limited, and gone with it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.requirement import requirement
from tests.sources.mcp.scene import PLAIN, HttpServer, http_server, lives
from tests.stories.gateway import RunningGateway, eventually, running_gateway

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


class House:
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
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("gateway")
    with http_server(tmp_path_factory.mktemp("server")) as server:
        config = CONFIG.format(url=server.url, python=sys.executable, plain=PLAIN)
        with running_gateway(folder, config) as gateway:
            yield House(gateway, server)


@requirement("TOOL-mcp-executes", "SPACE-mcp-like-gateway", "SPACE-mcp-executes-remote", "SPACE-mcp-invisible-default")
def test_tools_of_mcp_servers_are_called_like_any_other(house: House) -> None:
    assert {"far_echo", "far_weather", "far_picture", "echo", "hang"} <= house.names()
    called = house.execute("far_echo", text="hello")
    assert (called["status"], called["result"]) == ("completed", "hello")
    assert house.execute("far_weather", city="Zürich")["result"] == {"celsius": 21.5}
    assert house.execute("echo", text="from stdio")["result"] == "from stdio"
    assert house.execute("far_picture")["result"]["content"][0]["mimeType"] == "image/png"
    chart = house.execute("far_chart")["result"]
    assert (chart["structuredContent"], chart["content"][0]["type"]) == ({"celsius": 3}, "image")
    # Not visible, so an agent may call it outside any space.
    answer = httpx2.post(
        f"{house.gateway.url}/api/v1/tools/far_echo/execute",
        json={"arguments": {"text": "agent"}, "agent": "concierge"},
        headers=house.gateway.headers,
    )
    assert answer.json()["result"] == "agent"


def test_a_failing_tool_is_an_outcome_and_wrong_arguments_never_reach_the_server(house: House) -> None:
    failed = house.execute("far_fail")
    assert (failed["status"], failed["error"]) == ("failed", {"code": "tool_error", "message": "no luck"})
    assert house.execute("far_echo", status=400, text=5)["error"]["code"] == "invalid_arguments"


def test_the_operators_word_on_a_tool_holds(house: House) -> None:
    assert house.execute("far_count", status=202)["status"] == "pending_approval"


@requirement("CON-mcp-call-timeout")
def test_a_call_that_takes_longer_than_call_timeout_fails_and_is_cancelled_at_the_server(house: House) -> None:
    timed_out = house.execute("hang")
    assert (timed_out["status"], timed_out["error"]) == (
        "failed",
        {"code": "timeout", "message": "Tool timed out after 400ms"},
    )
    eventually((house.gateway.folder / "cancelled").exists)


@requirement("SPACE-dynamic-mcp")
def test_a_tool_that_a_server_adds_while_it_runs_is_usable_without_a_restart(house: House) -> None:
    house.execute("far_grow", name="fresh_one")
    eventually(lambda: "far_fresh_one" in house.names())
    assert house.execute("far_fresh_one", text="new")["result"] == "new"


def test_a_server_that_cannot_be_reached_or_says_nothing_is_shown_and_slows_nobody(house: House) -> None:
    gone, silent = house.status("gone"), house.status("silent")
    assert (gone["kind"], gone["status"], gone["tools"]) == ("mcp", "down", 0)
    assert "127.0.0.1" in gone["error"]
    assert (silent["status"], silent["error"]) == ("down", "The server did not answer within 1 s.")
    assert house.status("far")["status"] == "up"


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
