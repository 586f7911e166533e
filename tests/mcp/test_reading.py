"""Resources, templates, prompts and completion of real servers, through `/mcp`, in both eras."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from jackfield.calls.rows import CallFilter, call_page
from tests.mcp.library import Library, library
from tests.mcp.scene import Scene, mcp_scene
from tests.requirement import requirement
from tests.waiting import eventually_async

ERAS = ["2026-07-28", "legacy"]


def config(shelf: Library, name: str = "docs", more: str = "") -> str:
    return f'[sources.{name}]\nkind = "mcp"\nurl = "{shelf.url}"\n{more}\n'


async def listed(scene: Scene, *, at_least: int = 1) -> list[dict[str, Any]]:
    async def resources() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await scene.ask("resources/list")).json()["result"]["resources"]
        return found if len(found) >= at_least else []

    found: list[dict[str, Any]] = await eventually_async(resources)
    return found


@requirement("MCP2-resources")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_sees_and_uses_all_that_a_server_has(tmp_path: Path, era: str) -> None:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        async with scene.client(mode=era) as client:
            resources = (await client.list_resources()).resources
            assert [(one.uri, one.name, one.mime_type, one.size) for one in resources] == [
                ("note://one", "one", "text/plain", 15),
                ("note://two", "two", "text/plain", 16),
            ]
            (template,) = (await client.list_resource_templates()).resource_templates
            assert (template.uri_template, template.title) == ("note://by/{name}", "Notes")
            (prompt,) = (await client.list_prompts()).prompts
            assert (prompt.name, prompt.title, prompt.description) == ("review", "Review", "Reviews code.")
            assert prompt.arguments is not None
            assert prompt.arguments[0].required is True

            read = (await client.read_resource("note://one")).contents[0]
            assert (read.uri, getattr(read, "text", None)) == ("note://one", "The first note.")
            by = (await client.read_resource("note://by/ada")).contents[0]
            assert getattr(by, "text", None) == "A note by ada."
            picture = (await client.read_resource("note://picture")).contents[0]
            assert getattr(picture, "blob", None) == "AAE=", "not listed, and readable all the same"
            got = await client.get_prompt("review", {"code": "x = 1"})
            assert got.description == "A review"
            assert getattr(got.messages[0].content, "text", None) == "Please review x = 1."
            with pytest.raises(MCPError) as missing:
                await client.read_resource("note://three")
            assert missing.value.code == (-32602 if era == "2026-07-28" else -32002)
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("review", {})
            assert refused.value.code == -32602


@requirement("MCP2-kinds")
async def test_what_is_read_is_on_record_with_its_kind(tmp_path: Path) -> None:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf)) as scene:
        await listed(scene)
        await scene.ask("resources/read", {"uri": "note://one"}, headers={"mcp-name": "note://one"})
        await scene.ask("prompts/get", {"name": "review", "arguments": {"code": "x"}})
        page = await scene.gateway.store.read(partial(call_page, CallFilter(), limit=50))
        kinds = {call.tool: (call.kind.value, call.source, call.status.value) for call in page.calls}
        assert kinds == {"note://one": ("resource", "docs", "completed"), "review": ("prompt", "docs", "completed")}
