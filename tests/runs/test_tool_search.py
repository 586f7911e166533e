"""Which tools of a run are deferred, what a search finds among them, and what the model is shown then."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.catalog.merge import named_entry
from jackfield.catalog.search import Index
from jackfield.model.items import FunctionCall, FunctionCallOutput, ToolSearchCall, ToolSearchOutput
from jackfield.model.tool import BUILTIN, Tool
from jackfield.runs.plan import Choice
from jackfield.runs.search_items import SearchHistory, tools_on_wire
from jackfield.runs.tool_search import MOST_LOADED, SEARCH_TOOLS, RunTools, ShownTools, found_names, with_search
from jackfield.runs.tools import OfferedTool, ToolTable
from tests.requirement import requirement
from tests.runs.stage import PlayedModel, a_stage, calls, says


def catalog_tool(name: str, about: str = "", **fields: Any) -> OfferedTool:
    entry = named_entry(name, Tool(source="shop", name=name, description=about))
    return OfferedTool(name=name, description=about, entry=entry, label="jackfield", bare_name=name, **fields)


def own_tool(name: str, about: str = "", **fields: Any) -> OfferedTool:
    return msgspec.structs.replace(catalog_tool(name, about), label="mine", is_private=True, **fields)


def function(name: str, **fields: Any) -> OfferedTool:
    return OfferedTool(name=name, bare_name=name, parameters={"type": "object"}, **fields)


def shown(table: ToolTable, items: Iterable[Any] = ()) -> list[str]:
    return [tool.name for tool in ShownTools(table, items).definitions]


def searched(*found: str, call_id: str = "c1", search: str = SEARCH_TOOLS) -> list[Any]:
    output = msgspec.json.encode({"tools": [{"name": name} for name in found]}).decode()
    return [
        FunctionCall(call_id=call_id, name=search, arguments="{}"),
        FunctionCallOutput(call_id=call_id, output=output),
    ]


def numbered(count: int) -> list[OfferedTool]:
    return [catalog_tool(f"tool_{number:03}") for number in range(count)]


@requirement("MCP2-search-threshold")
@pytest.mark.parametrize(("above", "is_searched"), [(0, False), (2, True), (3, False), (4, False)])
def test_more_tools_than_the_threshold_are_searched(above: int, is_searched: bool) -> None:  # noqa: FBT001 - a case
    table = ToolTable([function("ring"), *numbered(3)])
    made = with_search(table, above=above)
    assert (made.search is not None) is is_searched
    assert shown(made) == (["ring", SEARCH_TOOLS] if is_searched else ["ring", "tool_000", "tool_001", "tool_002"])


def test_the_clients_functions_and_built_in_tools_are_no_part_of_the_count() -> None:
    built_in = msgspec.structs.replace(own_tool("send_message"), label=BUILTIN)
    table = ToolTable([built_in, function("a"), function("b"), catalog_tool("c")])
    assert with_search(table, above=1) is table


def test_what_a_request_wants_loaded_stays_and_what_it_defers_goes_whatever_the_count() -> None:
    table = ToolTable([catalog_tool("here", defers=False), function("away", defers=True), *numbered(3)])
    assert shown(with_search(table, above=100)) == ["here", "tool_000", "tool_001", "tool_002", SEARCH_TOOLS]
    assert shown(with_search(table, above=2)) == ["here", SEARCH_TOOLS]


def test_found_tools_are_added_in_the_order_in_which_they_were_found() -> None:
    table = with_search(ToolTable(numbered(5)), above=1)
    said = searched("tool_003", "tool_001", "unknown")
    assert shown(table, said) == [SEARCH_TOOLS, "tool_003", "tool_001"]
    said += [*searched("tool_000", "tool_003", call_id="c2"), FunctionCall(call_id="c3", name="tool_004", arguments="")]
    assert shown(table, said) == [SEARCH_TOOLS, "tool_003", "tool_001", "tool_000", "tool_004"]


def test_so_many_found_tools_are_shown_and_no_more() -> None:
    table = with_search(ToolTable(numbered(MOST_LOADED + 10)), above=1)
    said: list[Any] = []
    for number in range(MOST_LOADED + 5):
        said += searched(f"tool_{number:03}", call_id=f"c{number}")
    names = shown(table, said)
    assert len(names) == MOST_LOADED + 1
    assert names[1] == "tool_005"


def test_only_the_search_itself_loads_tools() -> None:
    table = with_search(ToolTable([*numbered(3), function(SEARCH_TOOLS)]), above=1)
    assert table.search == f"jackfield_{SEARCH_TOOLS}"
    assert shown(table, searched("tool_001")) == [SEARCH_TOOLS, table.search]
    assert shown(table, searched("tool_001", search=table.search))[-1] == "tool_001"


@pytest.mark.parametrize("output", ["", "no", "{}", '{"tools": 1}', '{"tools": [{"name": 1}]}', "[" * 100_000, ("x",)])
def test_what_no_search_said_names_nothing(output: object) -> None:
    assert found_names(output) == ()


async def test_a_search_finds_tools_of_the_catalog_and_of_the_run_alone() -> None:
    sunny, rainy = catalog_tool("sun_report", "The weather where it is sunny"), catalog_tool("rain_report", "Of rain")
    own = own_tool("rain_report_2", "The weather when it rains")
    odd = function("_", description="Weather of the underscore", defers=True)
    unused = catalog_tool("rain_x", "Of rain")
    entries = [tool.entry for tool in (sunny, rainy, unused) if tool.entry is not None]
    index = Index().following(removed=(), added=entries)
    table = with_search(ToolTable([sunny, rainy, own, odd]), above=1)

    async def found(query: str, *, limit: int = 5, choice: Choice | None = None) -> set[str]:
        run = RunTools(table, choice or Choice(), index)
        return {tool.name for tool in await run.find(query, limit=limit)}

    assert await found("weather") == {"sun_report", "rain_report_2", "_"}
    assert await found("rain") == {"rain_report", "rain_report_2"}, "what is in the catalog and not in the run is not"
    assert await found("rain_report_2", limit=1) == {"rain_report_2"}
    assert await found("_", limit=1) == {"_"}
    assert await found("rain", choice=Choice(allowed=frozenset({"rain_report"}))) == {"rain_report"}
    many = [own_tool(f"snow_{number}", "Snow") for number in range(300)]
    run = RunTools(with_search(ToolTable(many), above=1), Choice(), index)
    assert [tool.name for tool in await run.find("snow_299", limit=1)] == ["snow_299"]


def test_searches_are_told_again_whoever_made_them() -> None:
    table = with_search(ToolTable([*numbered(3), function("ring", defers=True)]), above=1)
    output = ToolSearchOutput(
        id="tso_call_1", execution="server", tools=tools_on_wire([table["tool_001"], table["ring"]])
    )
    call = ToolSearchCall(id="tsc_call_1", execution="server", arguments={"query": "x"})
    foreign = [msgspec.structs.replace(call, id="tsc_a"), msgspec.structs.replace(output, id="tso_b")]
    made: list[list[Any]] = [[call, output], foreign]
    for items in made:
        history = SearchHistory(items, table)
        told = [said for item in items for said in history.told(item)]
        assert shown(table, told) == [SEARCH_TOOLS, "tool_001", "ring"]
    alone = SearchHistory([call], table)
    assert [*alone.told(call)] == [], "it was cut off"
    odd = msgspec.structs.replace(
        output, tools=({"type": "mcp"}, 1, None, {"type": "namespace", "name": "x", "tools": [1]})
    )
    history = SearchHistory([call, odd], table)
    assert shown(table, [*history.told(call), *history.told(odd)]) == [SEARCH_TOOLS]


@requirement("MCP2-search-by-name")
async def test_a_deferred_tool_that_is_called_by_name_is_shown_from_then_on(tmp_path: Path) -> None:
    async with a_stage(tmp_path) as stage:
        await stage.tool("one")
        await stage.tool("two")
        model = PlayedModel(calls(("two", {})), says("Done."))
        await stage.run(model, table=with_search(ToolTable(stage.tools), above=1))
    assert [tool.name for tool in model.asked[0].tools] == [SEARCH_TOOLS]
    assert [tool.name for tool in model.asked[1].tools] == [SEARCH_TOOLS, "two"]
