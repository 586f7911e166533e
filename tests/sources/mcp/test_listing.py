"""What a server says of its tools, and what of it agents get to see."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.catalog.merge import named_entry
from jackfield.mcp import tools_list
from jackfield.model.tool import ToolDefinition, definition_of
from jackfield.sources.foreign import ListingRules, Unremovable, cleaned, cleaned_schema, has_hidden
from jackfield.sources.mcp.listing import may_be_repeated, mcp_listing
from tests.requirement import requirement
from tests.sources.mcp.scene import opened, plain

WHISPERS = (
    "Tool 'whispers' has hidden characters in what it says of itself. They were taken out; "
    "ask the server's owner why they are there."
)
TRAP = (
    "Tool 'trap' is left out: hidden characters stand in the names or values of its schema. Ask the server's owner why."
)
RULES = ListingRules(source="far", server="https://mcp.example/mcp")


def raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


async def test_a_lying_server_costs_only_its_lies(tmp_path: Path) -> None:
    async with opened(tmp_path, command=plain("lying")) as far:
        listing = await far.source.refresh()

    assert [tool.name for tool in listing.tools] == ["fine", "whispers"]
    fine, whispers = listing.tools
    assert fine.description == "An honest tool"
    assert (whispers.title, whispers.description) == ("Whispers", "Adds two numbers.\nReally.")
    assert whispers.input_schema["properties"]["a"]["description"] == "The first"
    assert whispers.definition is not None
    assert "\u202e" in msgspec.json.decode(whispers.definition)["description"], "the raw definition is kept as it came"
    assert listing.faults == (
        "Tool 'fine' is offered twice; the first is used.",
        "Tool 'no_schema' is left out: Object missing required field `inputSchema`. Correct it at the server.",
        "Tool 'wrong_schema' is left out: Expected `object`, got `str` - at `$.inputSchema`. Correct it at the server.",
        "A tool is left out: its name does not have 1 to 256 characters.",
        "A tool is left out: Expected `object`, got `str`. Correct it at the server.",
        WHISPERS,
        TRAP,
        "A tool is left out: its definition has more than the 262,144 bytes allowed.",
        "Tool 'headers' is left out: its schema has x-mcp-header where no argument is. Correct it at the server.",
    )


@requirement("MCP2-definitions-whole")
def test_what_the_gateway_has_no_use_for_is_passed_on_without_hidden_characters() -> None:
    definition = {
        "name": "a",
        "inputSchema": {"type": "object"},
        "annotations": {"title": "Of the annotations"},
        "icons": [{"src": "https://example.com/a.png", "sizes": ["1x1"]}],
        "execution": {"taskSupport": "forbidden"},
        "example.com/later": [1, None, {"description": "kept\u200b"}],
    }
    listing = mcp_listing([raw(definition)], RULES).listing
    [tool] = listing.tools
    listed = tools_list.definition(named_entry("a", tool), modern=True)
    assert listed == {**definition, "example.com/later": [1, None, {"description": "kept"}]}
    assert len(listing.faults) == 1
    [unusable] = mcp_listing([raw({**definition, "icons": [{"src": "a\u200b"}]})], RULES).listing.faults
    assert "hidden characters" in unusable


@requirement("TOOL-def-mcp-server")
def test_an_mcp_tools_definition_knows_its_server_and_others_name_none() -> None:
    [tool] = mcp_listing([raw({"name": "a", "inputSchema": {"type": "object"}})], RULES).listing.tools
    definition = definition_of(tool, "a")
    assert (definition.type, definition.mcp_server) == ("mcp", "https://mcp.example/mcp")
    assert b"mcp_server" not in msgspec.json.encode(ToolDefinition(type="function", name="b"))


@requirement("CON-hidden-characters")
@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain, with ümlauts, 日本語 and ☕️", "plain, with ümlauts, 日本語 and ☕️"),
        ("a\u200bb\u200cc\u200dd\ufeffe", "abcde"),
        ("\u202eevil\u202c \u2066x\u2069", "evil x"),
        ("tag\U000e0041\U000e0042s", "tags"),
        ("\x1b[31mred\x07\x00", "[31mred"),
        ("keep\ttabs\nand lines\r\nof both kinds", "keep\ttabs\nand lines\nof both kinds"),
        ("\u00adsoft\u2060word\u180ejoin", "softwordjoin"),
    ],
)
def test_hidden_characters_are_taken_out_and_nothing_else(text: str, seen: str) -> None:
    assert cleaned(text) == seen


def test_a_schema_loses_what_only_readers_see_and_is_refused_where_meaning_would_change() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string", "title": "Ti\u200btle", "enum": ["a", "b"]}},
        "examples": [{"title": "x\u200by"}],
    }
    assert cleaned_schema(schema)["properties"]["title"]["title"] == "Title"
    assert cleaned_schema(schema)["examples"] == [{"title": "xy"}]
    assert has_hidden(schema)
    traps: tuple[dict[str, Any], ...] = (
        {"properties": {"a\u200b": {}}},
        {"properties": {"a": {"enum": ["x\u200b"]}}},
        {"required": ["a\u200b"]},
        {"properties": {"a": {"default": "\u202e"}}},
    )
    for trap in traps:
        with pytest.raises(Unremovable):
            cleaned_schema(trap)


def test_a_schema_without_end_leaves_out_its_tool_alone() -> None:
    deep = Raw(
        b'{"name":"b","inputSchema":' + b'{"type":"object","properties":{"a":' * 400 + b"{}" + b"}}" * 400 + b"}"
    )
    offer = mcp_listing([raw({"name": "a", "inputSchema": {"type": "object"}}), deep], RULES)
    assert "a" in [tool.name for tool in offer.listing.tools]


@pytest.mark.parametrize(
    ("annotations", "harmless"),
    [
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True}, True),
        ({"idempotentHint": False, "destructiveHint": False}, False),
        ({"idempotentHint": "yes"}, False),
        (None, False),
    ],
)
def test_a_server_may_say_that_a_call_it_never_read_can_be_sent_again(
    annotations: dict[str, Any] | None,
    harmless: bool,  # noqa: FBT001 - given by name, by pytest
) -> None:
    definition = {"name": "a", "inputSchema": {"type": "object"}, "annotations": annotations}
    [tool] = mcp_listing([raw(definition)], RULES).listing.tools
    assert may_be_repeated(tool) is harmless
    assert not tool.metadata.idempotent


@requirement("MCP2-task-required")
def test_a_tool_that_runs_only_as_a_task_is_offered_like_the_others() -> None:
    tasks = [
        raw({"name": f"tool_{kind}", "inputSchema": {"type": "object"}, "execution": {"taskSupport": kind}})
        for kind in ("required", "optional", "forbidden", 7)
    ]
    listing = mcp_listing(tasks, RULES).listing
    assert [tool.task_support for tool in listing.tools] == ["required", "optional", "forbidden", None]
    assert (listing.unoffered, listing.faults) == ((), ())


@requirement("SAFE-mcp-programs")
def test_what_a_server_says_of_a_tool_in_meta_is_kept_but_not_of_its_connection() -> None:
    meta = {"ui": {"resourceUri": "ui://x"}, "io.modelcontextprotocol/serverInfo": {"name": "s"}}
    definition = raw({"name": "chart", "inputSchema": {"type": "object"}, "_meta": meta})
    (tool,) = mcp_listing([definition], RULES).listing.tools
    assert tool.meta == {"ui": {"resourceUri": "ui://x"}}
