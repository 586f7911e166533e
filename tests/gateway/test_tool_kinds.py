"""Seed 001's kinds on the tools of a whole gateway: each source brings its own, whatever the tool is called."""

import json
import sys
from pathlib import Path

import httpx2
import pytest

from jackfield.identity.keys import ADMIN
from jackfield.model.tool import ToolKind
from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement
from tests.sources.mcp.scene import PLAIN
from tests.waiting import eventually_async

CONFIG = """
[sources.far]
kind = "mcp"
command = ["{python}", "{plain}", "good"]
prefix = "far_"

[sources.local]
kind = "files"
path = "tools/*.py"

[[tools]]
name = "at_a_url"
description = "An HTTP request of the gateway's own."
inputSchema = {{ type = "object" }}
executionType = "gateway"
execution = {{ url = "http://127.0.0.1:1" }}

[[tools]]
name = "given_back"
description = "Its arguments."
inputSchema = {{ type = "object" }}
executionType = "internal"

[[tools]]
name = "elsewhere"
description = "A tool server answers."
inputSchema = {{ type = "object" }}
executionType = "external"
isAsync = true

[[tools]]
name = "by_a_person"
description = "Somebody in a space answers."
inputSchema = {{ type = "object" }}
executionType = "space"
isAsync = true
"""


@requirement("TOOL-kind-mcp", "TOOL-kind-internal", "TOOL-kind-function", "TOOL-scope-hierarchy")
async def test_every_tool_says_whether_the_gateway_runs_it_relays_it_or_hands_it_back(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/near.py").write_text("def near() -> str:\n    return 'near'\n", encoding="utf-8")
    async with in_process_gateway(tmp_path, CONFIG.format(python=sys.executable, plain=PLAIN)) as (gateway, client):
        await eventually_async(lambda: "far_echo" in {entry.name for entry in gateway.catalog.view(ADMIN).entries})
        entries = {entry.name: entry for entry in gateway.catalog.view(ADMIN).entries}
        kinds = {name: entries[name].tool.kind for name in entries}
        assert kinds["far_echo"] is ToolKind.MCP
        assert {name for name, kind in kinds.items() if kind is ToolKind.FUNCTION} == {"elsewhere", "by_a_person"}
        assert {name for name in kinds if kinds[name].hosted_here} >= {"near", "at_a_url", "given_back"}
        assert not any(kinds[name].hosted_here for name in ("far_echo", "elsewhere", "by_a_person"))

        # What the kind says is what happens: run here, relayed, handed out for somebody else to answer.
        for name, arguments, status in (
            ("near", {}, "completed"),
            ("far_echo", {"text": "x"}, "completed"),
            ("elsewhere", {}, "pending"),
        ):
            assert (await _execute(client, name, arguments))["status"] == status


async def _execute(client: httpx2.AsyncClient, name: str, arguments: dict[str, str]) -> dict[str, str]:
    answer = await client.post(f"/api/v1/tools/{name}/execute", json={"arguments": arguments})
    told: dict[str, str] = answer.json()
    return told


@requirement("TOOL-result-is-error")
@pytest.mark.parametrize(("tool", "is_error"), [("near", None), ("broken", True)])
async def test_a_result_is_marked_as_an_error_and_success_has_no_mark(
    tmp_path: Path, tool: str, *, is_error: bool | None
) -> None:
    (tmp_path / "tools").mkdir()
    text = "def near() -> str:\n    return 'near'\n\ndef broken() -> None:\n    raise ValueError('no luck')\n"
    (tmp_path / "tools/near.py").write_text(text, encoding="utf-8")
    config = '[sources.local]\nkind = "files"\npath = "tools/*.py"\n'
    async with in_process_gateway(tmp_path, config) as (_, client):
        params = {"name": tool, "arguments": {}, "_meta": META}
        answer = await client.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            headers=HEADERS | {"mcp-name": tool},
        )
        result = json.loads(answer.text.rpartition("data: ")[2])["result"]
        assert result.get("isError") is is_error
        assert ("isError" in result) is bool(is_error)


HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
