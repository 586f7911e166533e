"""Code mode on `/mcp`: the catalog as `search_tools` and `run_program`."""

import json
from pathlib import Path

import pytest
from mcp.types import TextContent

from jackfield.errors import ConfigError
from jackfield.settings import load_settings
from tests.code_mode.test_programs import CONFIG, TOOLS
from tests.mcp.scene import mcp_scene
from tests.requirement import requirement


@requirement("PROG-MCP")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_mcp_client_sees_the_search_and_the_program_and_finds_stubs(tmp_path: Path, mode: str) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with mcp_scene(tmp_path, f"{CONFIG}\n[mcp]\ncode_mode = true\n") as scene, scene.client(mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search_tools", "run_program"]
        found = await client.call_tool("search_tools", {"query": "add two numbers", "limit": 1})
        assert found.structured_content is not None
        (tool,) = found.structured_content["tools"]
        assert tool["name"] == "add"
        assert tool["stub"].startswith("async def add(*, a: int, b: int) -> ")
        assert '"""Add two numbers."""' in tool["stub"]
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search_tools", "run_program"]
        told = await client.call_tool("run_program", {"code": "return [await tools.add(a=n, b=1) for n in range(3)]"})
        assert not told.is_error
        (text,) = told.content
        assert isinstance(text, TextContent)
        assert json.loads(text.text) == [1, 2, 3]


@requirement("PROG-MCP")
def test_code_mode_needs_programs(tmp_path: Path) -> None:
    path = tmp_path / "jackfield.toml"
    path.write_text("[mcp]\ncode_mode = true\n")
    with pytest.raises(ConfigError, match=r"\[programs\] enabled = true"):
        load_settings(path, environment={})
