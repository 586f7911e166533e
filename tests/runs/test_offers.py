"""Which tools a request offers, under which names, and which of them it wants to be asked about."""

from typing import Any

import pytest

from jackfield.agents.builtin_tools import agent_tools
from jackfield.catalog.catalog import Entry
from jackfield.catalog.merge import merge_private
from jackfield.errors import BadRequest
from jackfield.model.response_request import (
    AllowedTools,
    ApprovalRules,
    ChosenTool,
    FunctionTool,
    McpTool,
    ToolSubset,
)
from jackfield.model.tool import RESERVED_NAMES, Tool
from jackfield.runs.offers import OfferedServer, choice_of, of_catalog, table_of
from jackfield.sources.base import Listing
from tests.requirement import requirement


def entry(name: str, *, source: str = "local", **fields: Any) -> Entry:
    return Entry(
        name=name,
        tool=Tool(source=source, name=name, **fields),
        version="v",
        manifest=b"{}",
        mcp_name=name,
        deadline_ms=30_000,
        pending_ms=0,
        answered_by_others=False,
    )


def asked(**fields: Any) -> McpTool:
    return McpTool(server_label="docs", server_url="https://docs.example/mcp", **fields)


READS = entry("read", annotations={"readOnlyHint": True})
WRITES = entry("write")


def test_a_name_is_the_tools_own_where_it_is_unique_else_it_has_the_label() -> None:
    servers = [
        OfferedServer(label="one", entries=(entry("search"), entry("open"))),
        OfferedServer(label="two", entries=(entry("search"),)),
    ]
    table = table_of([FunctionTool(name="close")], servers)
    assert list(table) == ["close", "one_search", "open", "two_search"]
    assert [tool.bare_name for tool in table.values()] == ["close", "search", "open", "search"]
    assert [tool.runs_here for tool in table.values()] == [False, True, True, True]


def test_a_function_of_the_client_keeps_its_name() -> None:
    table = table_of([FunctionTool(name="search")], [OfferedServer(label="one", entries=(entry("search"),))])
    assert list(table) == ["search", "one_search"]
    assert not table["search"].runs_here


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (None, ["read", "write"]),
        (("read",), ["read"]),
        (ToolSubset(tool_names=("write",)), ["write"]),
        (ToolSubset(read_only=True), ["read"]),
        (ToolSubset(read_only=False), ["write"]),
        ((), []),
    ],
)
def test_a_server_shows_only_the_tools_that_the_request_allows(allowed: Any, names: list[str]) -> None:
    server = OfferedServer(label="docs", entries=(READS, WRITES), asked_for=asked(allowed_tools=allowed))
    assert [tool.name for tool in server.listed] == names
    assert list(table_of([], [server])) == names


@pytest.mark.parametrize(
    ("rule", "private", "asks"),
    [
        (None, True, {"read": True, "write": True}),
        (None, False, {"read": False, "write": False}),
        ("never", True, {"read": False, "write": False}),
        ("always", False, {"read": True, "write": True}),
        (ApprovalRules(never=ToolSubset(read_only=True)), True, {"read": False, "write": True}),
        (ApprovalRules(always=ToolSubset(tool_names=("write",))), True, {"read": False, "write": True}),
        (ApprovalRules(always=ToolSubset(tool_names=("write",))), False, {"read": False, "write": True}),
    ],
)
def test_whether_the_request_wants_to_be_asked(*, rule: Any, private: bool, asks: dict[str, bool]) -> None:
    server = OfferedServer(
        label="docs", entries=(READS, WRITES), is_private=private, asked_for=asked(require_approval=rule)
    )
    assert {tool.name: server.asks_first(tool) for tool in (READS, WRITES)} == asks


def test_the_catalog_is_chosen_by_names_globs_and_sources() -> None:
    entries = (entry("hotel_search"), entry("hotel_quote"), entry("roll", source="games"))
    assert [e.name for e in of_catalog(entries, ["hotel_*"])] == ["hotel_search", "hotel_quote"]
    assert [e.name for e in of_catalog(entries, ["games:*"])] == ["roll"]
    assert [e.name for e in of_catalog(entries, ["*"])] == ["hotel_search", "hotel_quote", "roll"]


@requirement("TOOL-choice-forced-unknown")
def test_a_choice_is_by_the_names_the_model_uses() -> None:
    servers = [
        OfferedServer(label="one", entries=(entry("search"), entry("open"))),
        OfferedServer(label="two", entries=(entry("search"),)),
    ]
    table = table_of([FunctionTool(name="mine")], servers)
    assert choice_of("required", table).mode == "required"
    assert choice_of(ChosenTool(type="function", name="mine"), table).forced == frozenset({"mine"})
    assert choice_of(ChosenTool(type="mcp", server_label="one"), table).forced == frozenset({"one_search", "open"})
    assert choice_of(ChosenTool(type="mcp", server_label="two", name="search"), table).forced == frozenset(
        {"two_search"}
    )
    allowed = AllowedTools(mode="auto", tools=(ChosenTool(type="function", name="open"),))
    assert choice_of(allowed, table).allowed == frozenset({"open"})
    with pytest.raises(BadRequest, match="'tool_choice' names 'nothing', which is not among 'tools'"):
        choice_of(ChosenTool(type="function", name="nothing"), table)
    with pytest.raises(BadRequest, match="there are no tools"):
        choice_of("required", table_of([], []))


def test_tools_of_a_server_that_a_request_brought_along_go_by_their_own_names() -> None:
    tools = (Tool(source="r", name="search"), Tool(source="r", name="bad", input_schema={"type": "string"}))
    (found,) = merge_private("request@1", Listing(tools=tools)).entries
    assert (found.name, found.tool.source) == ("search", "request@1")
    table = table_of([], [OfferedServer(label="docs", entries=(found,), is_private=True)])
    assert table["search"].is_private


def test_no_server_gets_the_name_of_another_tool_however_it_calls_its_own() -> None:
    sly = OfferedServer(label="one", entries=(entry("se-arch"), entry("se_arch"), entry("se arch")))
    table = table_of([FunctionTool(name="one_se_arch"), FunctionTool(name="se_arch")], [sly])
    assert len(table) == 5
    assert not table["one_se_arch"].runs_here
    assert not table["se_arch"].runs_here
    assert sorted(tool.bare_name for tool in table.values()) == [
        "one_se_arch",
        "se arch",
        "se-arch",
        "se_arch",
        "se_arch",
    ]


@requirement("SAFE-reserved-names")
def test_no_server_of_a_request_or_of_an_agent_has_a_name_of_the_gateways_own() -> None:
    servers = [OfferedServer(label="docs", entries=(entry("session_message"), entry("skip")), is_private=True)]
    assert set(table_of([], servers)) == {"docs_session_message", "docs_skip"}
    assert set(table_of([], [OfferedServer(label="session", entries=(entry("message"),), is_private=True)])) == {
        "message"
    }
    own = agent_tools([], [("docs", entry(name)) for name in sorted(RESERVED_NAMES)])
    assert {tool.name for tool in own.values() if tool.label == "docs"} == {f"docs_{name}" for name in RESERVED_NAMES}


def test_the_catalog_that_is_asked_for_twice_is_offered_once() -> None:
    catalog = OfferedServer(label="jackfield", entries=(entry("search"),))
    assert list(table_of([], [catalog, catalog])) == ["search"]


def test_allowing_a_function_allows_no_servers_tool_of_the_same_name() -> None:
    table = table_of([FunctionTool(name="search")], [OfferedServer(label="one", entries=(entry("search"),))])
    allowed = AllowedTools(mode="auto", tools=(ChosenTool(type="function", name="search"),))
    assert choice_of(allowed, table).allowed == frozenset({"search"})
