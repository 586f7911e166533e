"""What a key follows on `/mcp` ends with the key."""

import asyncio
from pathlib import Path

import pytest

from jackfield.model.tool import Tool
from tests.mcp.scene import BOTH, KEY, META, VERSION, mcp_scene
from tests.requirement import requirement


@requirement("MCP2-revoked")
@pytest.mark.parametrize("era", ["listen", "session"])
async def test_a_revoked_key_hears_nothing_more(tmp_path: Path, era: str) -> None:
    async with mcp_scene(tmp_path) as scene, asyncio.timeout(20):
        made = await scene.http.post(
            "/api/v1/keys", json={"name": "guest", "scopes": ["call"]}, headers={"x-api-key": KEY}
        )
        key = {"x-api-key": made.json()["key"], "accept": BOTH}
        if era == "listen":
            params = {"notifications": {"toolsListChanged": True}, "_meta": META}
            body = {"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params}
            headers = {"mcp-protocol-version": VERSION, "mcp-method": "subscriptions/listen"}
            opened = scene.http.stream("POST", "/mcp", headers={**key, **headers}, json=body)
        else:
            session = await scene.shake_hands(key=key["x-api-key"])
            opened = scene.http.stream("GET", "/mcp", headers={**key, **session})
        async with opened as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            revoked = await scene.http.delete("/api/v1/keys/guest", headers={"x-api-key": KEY})
            assert revoked.status_code == 204
            await scene.list_anew(Tool(source="scene", name="news"))
            assert "list_changed" not in "".join([line async for line in lines]), "and the stream ends"
