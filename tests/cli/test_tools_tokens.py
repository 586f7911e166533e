"""What tools cost a model: one rule, applied to each tool, to all, and to searching."""

from typing import Any

import msgspec

from jackfield.cli.tools import cost_lines, token_costs, token_count
from jackfield.sdk import ToolInfo


def tool(name: str, description: str = "", **properties: Any) -> ToolInfo:
    raw = {
        "name": name,
        "description": description,
        "category": None,
        "parameters": {"type": "object", "properties": properties},
        "metadata": {},
        "version": "1",
        "source": "local",
    }
    return msgspec.convert(raw, ToolInfo)


def test_four_bytes_of_json_are_a_token_and_a_begun_one_counts() -> None:
    assert [token_count(text) for text in ("", "ab", "abc")] == [1, 1, 2]


def test_a_tool_costs_its_name_description_and_schema() -> None:
    (cost,) = token_costs([tool("add", "Add.", a={"type": "integer"})]).tools
    told = '{"name":"add","description":"Add.","inputSchema":{"type":"object","properties":{"a":{"type":"integer"}}}}'
    assert cost.tokens == -(-len(told) // 4)


def test_the_dearest_comes_first_and_the_totals_add_up() -> None:
    costs = token_costs(
        [tool("small"), tool("large", "word " * 100), tool("alike"), *(tool(f"t{n}") for n in range(20))]
    )
    assert [cost.name for cost in costs.tools][:3] == ["large", "alike", "small"]
    assert costs.in_full == sum(cost.tokens for cost in costs.tools)
    assert costs.per_search == round(costs.in_full / 23 * 5)
    assert costs.with_search < costs.in_full


def test_an_empty_catalog_costs_nothing_and_says_so() -> None:
    costs = token_costs([])
    assert (costs.in_full, costs.per_search, cost_lines(costs)) == (0, 0, ["No tools."])


def test_the_table_ends_with_both_totals() -> None:
    lines = cost_lines(token_costs([tool("add")]))
    assert [line.split() for line in lines[:2]] == [["NAME", "SOURCE", "TOKENS"], ["add", "local", "20"]]
    assert "20 tokens for 1 tool" in lines[3]
    assert "with search" in lines[4]
