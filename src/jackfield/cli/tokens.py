"""What tools cost a model's context: all of them listed, or behind `search_tools`. Pure.

Above: `tools.py`. Below: nothing. An estimate by one rule, without any model's own tokenizer: the name, the description
and the input schema of a tool as compact JSON, four bytes a token. Real counts lie within a fifth of that for English
and JSON; the ratio between tools, and between listing and searching, is what to go by.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.cli.show import columns, harmless, paint
from jackfield.mcp.search_tools import DEFAULT_LIMIT, search_definition
from jackfield.sdk import ToolInfo

BYTES_A_TOKEN = 4


class ToolCost(Struct, frozen=True, kw_only=True):
    """One tool, in tokens."""

    name: str
    source: str
    tokens: int


class Costs(Struct, frozen=True, kw_only=True):
    """A catalog, in tokens."""

    tools: tuple[ToolCost, ...]
    """The dearest first."""
    in_full: int
    with_search: int
    """Before anything was searched: `search_tools` alone."""
    per_search: int
    """What one search adds: as many tools of average size as it gives."""


def costs_of(tools: Sequence[ToolInfo]) -> Costs:
    costs = [ToolCost(name=tool.name, source=tool.source, tokens=_definition_tokens(tool)) for tool in tools]
    in_full = sum(cost.tokens for cost in costs)
    average = in_full / len(costs) if costs else 0
    return Costs(
        tools=tuple(sorted(costs, key=lambda cost: (-cost.tokens, cost.name))),
        in_full=in_full,
        with_search=tokens(search_definition(len(costs))),
        per_search=round(average * min(DEFAULT_LIMIT, len(costs))),
    )


def tokens(value: Any) -> int:
    """An estimate: compact JSON, four bytes a token."""
    return -(-len(msgspec.json.encode(value)) // BYTES_A_TOKEN)


def _definition_tokens(tool: ToolInfo) -> int:
    return tokens({"name": tool.name, "description": tool.description, "inputSchema": tool.parameters})


def cost_lines(costs: Costs) -> list[str]:
    """The table, then both totals."""
    if not costs.tools:
        return ["No tools."]
    rows = [(cost.name, harmless(cost.source), f"{cost.tokens:>7,}") for cost in costs.tools]
    count = len(costs.tools)
    return [
        *columns(rows, styles=("bold", "dim", "cyan")),
        "",
        f"{paint('in full', 'bold')}      {costs.in_full:,} tokens for {count} {'tool' if count == 1 else 'tools'}",
        f"{paint('with search', 'bold')}  {costs.with_search:,} tokens, and about {costs.per_search:,} for each search",
        "Estimates: a definition's JSON, four bytes a token. [mcp] search_tools_above turns search on.",
    ]
