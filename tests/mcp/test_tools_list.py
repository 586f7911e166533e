"""Tools as MCP lists them: all of them, in order, page by page, with promises that can be kept."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.catalog.catalog import Catalog
from jackfield.identity.keys import ADMIN
from jackfield.mcp import tools_list as definitions
from jackfield.mcp.results import promises_output
from jackfield.mcp.tools_list import Definitions, definition
from jackfield.model.tool import Metadata, Tool
from jackfield.protocol.jsonrpc import RpcError
from jackfield.protocol.manifest import ScenarioInfo
from jackfield.sources.base import Listing
from tests.mcp.scene import mcp_scene
from tests.requirement import requirement


def catalog_of(*tools: Tool) -> Catalog:
    catalog = Catalog((), {}, ScenarioInfo())
    catalog.update((("s", Listing(tools=tools)),))
    return catalog


def tool(name: str, **more: Any) -> Tool:
    return Tool(source="s", name=name, **more)


def test_every_tool_is_on_exactly_one_page_in_the_order_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "PAGE", 3)
    view = catalog_of(*(tool(f"t{number}") for number in range(8))).view(ADMIN)
    shown: list[str] = []
    cursor = None
    for _ in range(3):
        page, cursor = Definitions().page(view, cursor, modern=True)
        shown += [listed["name"] for listed in msgspec.json.decode(page)]
    assert shown == [f"t{number}" for number in range(8)]
    assert cursor is None


def test_a_cursor_stays_good_when_its_tool_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "PAGE", 2)
    catalog = catalog_of(tool("a"), tool("b"), tool("c"), tool("d"))
    _, cursor = Definitions().page(catalog.view(ADMIN), None, modern=True)
    catalog.update((("s", Listing(tools=(tool("a"), tool("c"), tool("d")))),))
    page, _ = Definitions().page(catalog.view(ADMIN), cursor, modern=True)
    assert [listed["name"] for listed in msgspec.json.decode(page)] == ["c", "d"]


def test_a_cursor_of_somebody_else_is_refused() -> None:
    with pytest.raises(RpcError, match="cursor"):
        Definitions().page(catalog_of(tool("a")).view(ADMIN), "page=2", modern=True)


def test_a_definition_that_changed_is_encoded_anew_and_the_memory_is_bounded() -> None:
    known = Definitions(kept=1)
    catalog = catalog_of(tool("a", description="one"), tool("b"))
    first, second = catalog.view(ADMIN).entries
    assert b"one" in known.of(first, modern=True)
    known.of(second, modern=True)
    assert len(known._encoded) == 1
    catalog.update((("s", Listing(tools=(tool("a", description="two"), tool("b")))),))
    assert b"two" in known.of(catalog.view(ADMIN).entries[0], modern=True)


def test_a_tool_is_told_with_all_that_a_model_needs() -> None:
    schema = {"properties": {"x": {"type": "integer"}}, "$defs": {"y": {}}}
    made = tool(
        "a",
        description="Says a.",
        title="The letter",
        input_schema=schema,
        annotations={"readOnlyHint": True},
        metadata=Metadata(idempotent=True),
    )
    (entry,) = catalog_of(made).view(ADMIN).entries
    assert definition(entry, modern=False) == {
        "name": "a",
        "title": "The letter",
        "description": "Says a.",
        "inputSchema": {"type": "object", **schema},
        "annotations": {"readOnlyHint": True, "idempotentHint": True},
    }


@pytest.mark.parametrize(
    ("output", "metadata", "modern", "promised"),
    [
        (None, Metadata(), True, False),
        ({"type": "object"}, Metadata(), False, True),
        ({"type": "integer"}, Metadata(), False, False),
        ({"type": "integer"}, Metadata(), True, True),
        ({"type": "object"}, Metadata(requires_approval=True), True, False),
    ],
)
def test_an_output_is_promised_where_the_promise_can_be_kept(
    output: dict[str, Any] | None, metadata: Metadata, *, modern: bool, promised: bool
) -> None:
    assert promises_output(tool("a", output_schema=output, metadata=metadata), modern=modern) is promised


@requirement("SAFE-mcp-programs")
@pytest.mark.parametrize(
    ("revision", "kinds"),
    [
        ("2024-11-05", ["text", "text"]),
        ("2025-03-26", ["text", "audio"]),
        ("2025-06-18", ["resource_link", "audio"]),
        ("2025-11-25", ["resource_link", "audio"]),
    ],
)
async def test_a_client_gets_no_block_that_its_revision_does_not_know(
    tmp_path: Path, revision: str, kinds: list[str]
) -> None:
    async with mcp_scene(tmp_path) as scene:
        await scene.list_anew(Tool(source="scene", name="links", input_schema={"type": "object"}))
        session = await scene.shake_hands(protocolVersion=revision)
        blocks = (await scene.ask_in(session, "tools/call", name="links", arguments={}))["content"]
        assert [block["type"] for block in blocks] == kinds
        if kinds[0] == "text":
            assert blocks[0]["text"] == "The file: a (file:///a.txt)"


@requirement("SAFE-mcp-programs")
async def test_what_sources_say_of_their_use_and_of_their_tools_reaches_clients(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        await scene.list_anew(Tool(source="scene", name="chart", meta={"ui": {"resourceUri": "ui://chart"}}))
        discovered = (await scene.ask("server/discover")).json()["result"]
        for mode in ("legacy", "2026-07-28"):
            async with scene.client(mode=mode) as client:
                told = client.instructions if mode == "legacy" else discovered["instructions"]
                assert "## scene\nEcho first." in (told or "")
                (chart,) = [tool for tool in (await client.list_tools()).tools if tool.name == "chart"]
                assert chart.meta == {"ui": {"resourceUri": "ui://chart"}}
