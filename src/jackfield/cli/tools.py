"""`jackfield tools` and `prefer`: the catalog, one tool in detail, token costs, and a key's preferences."""

import re
import shlex
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.cli.arguments import Schema, fields, sample_object, types_of
from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, first_line, print_either, style, table
from jackfield.cli.sources import worker_lines
from jackfield.cli.target import connect
from jackfield.mcp.tools_list import DEFAULT_LIMIT, search_definition
from jackfield.model.text import counted, nearest
from jackfield.sdk import Client, Forbidden, Readiness, ToolInfo
from jackfield.sdk.sources import WorkerInfo
from jackfield.sdk.tools import ApprovalOverride
from jackfield.sdk.types import EffectiveTool

SEARCH_LIMIT = 100
BYTES_PER_TOKEN = 4
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][^=:\s]*")
_PREFERENCE = {"": "", "global": " (your preference)", "chat": " (preference of this chat)"}


@command(
    "List or search the tools that your key may use, or show one in detail.",
    argument("name", nargs="?", help="show this tool in detail"),
    argument("--search", metavar="WORDS", help="tools that match these words, best match first"),
    argument("--source", metavar="NAME", help="only tools of this source"),
    argument("--group", metavar="NAME", help="only tools of this group"),
    argument(
        "--tokens", action="store_true", help="estimate how many tokens the definitions take in a model's context"
    ),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield tools
  jackfield tools --search 'convert money'
  jackfield tools --source local --json
  jackfield tools --group docs
  jackfield tools --tokens
  jackfield tools add""",
)
async def tools(options: Namespace) -> int:
    if options.name and (options.search or options.source or options.group or options.tokens):
        said = "A tool's name cannot be combined with --search, --source, --group or --tokens."
        raise UsageError(f"{said} Remove one of them.")
    async with connect(options) as client:
        if options.name:
            tool = await client.tools.get(options.name)
            print_either(options, tool, tool_lines(tool))
        elif options.tokens:
            if options.source is not None:
                _check_source(options.source, await client.ready())
            costs = token_costs(await _matching(options, client))
            print_either(options, costs, cost_lines(costs))
        else:
            await _print_catalog(options, client)
    return 0


async def _print_catalog(options: Namespace, client: Client) -> None:
    readiness = await client.ready()
    if options.source is not None:
        _check_source(options.source, readiness)
    found = await _matching(options, client)
    workers = [worker for worker in await _workers(client) if options.source in (None, worker.source)]
    worker_table = ["", *worker_lines(workers)] if workers else []
    print_either(
        options,
        {"tools": found, "sources": readiness.sources, "notices": readiness.notices, "workers": workers},
        [*catalog_lines(found), *worker_table, *problem_lines(readiness)],
    )


async def _matching(options: Namespace, client: Client) -> list[ToolInfo]:
    if options.search:
        found = await client.tools.search(options.search, limit=SEARCH_LIMIT, group=options.group)
    else:
        found = await client.tools.list(group=options.group)
    return [tool for tool in found if options.source in (None, tool.source)]


async def _workers(client: Client) -> list[WorkerInfo]:
    """The workers, if the key may see them."""
    try:
        return await client.workers.list()
    except Forbidden:
        return []


def _check_source(name: str, readiness: Readiness) -> None:
    known = [source.name for source in readiness.sources]
    if name not in known:
        hint = nearest(name, known) or f" Known: {', '.join(known)}."
        raise UsageError(f"There is no source '{name}'.{hint}")


def catalog_lines(tools: Sequence[ToolInfo]) -> list[str]:
    """Name, source, category, description."""
    if not tools:
        return ["No tools."]
    rows = [
        (tool.name, escape(tool.source), escape(tool.category or "-"), first_line(tool.description)) for tool in tools
    ]
    return table(rows, header=("NAME", "SOURCE", "CATEGORY", "DESCRIPTION"), styles=("bold", "dim", "cyan"))


def problem_lines(readiness: Readiness) -> list[str]:
    """Sources that are down, tools that were left out, names that clash."""
    lines = []
    for source in readiness.sources:
        if source.status != "up":
            why = f": {escape(source.error)}" if source.error and source.status != "faulty" else ""
            state = "waiting for a login" if source.status == "login_needed" else source.status
            lines.append(f"{style(f'{source.name} is {state}', 'red')}{why}")
        lines += [f"{style(source.name, 'yellow')}: {escape(fault)}" for fault in source.faults]
    lines += [f"{style('note', 'yellow')}: {escape(notice.message)}" for notice in readiness.notices]
    return ["", *lines] if lines else []


def tool_lines(tool: ToolInfo) -> Iterator[str]:
    """One tool in detail."""
    yield style(tool.name, "bold")
    if tool.description:
        yield escape(tool.description.strip())
    yield ""
    yield from table(list(_facts(tool)), styles=("dim",))
    yield ""
    yield style("arguments", "bold")
    yield from _argument_lines(tool.parameters)
    if tool.metadata.examples:
        yield ""
        yield style("examples", "bold")
        for example in tool.metadata.examples:
            yield f"  {first_line(str(example.get('description') or ''))}".rstrip()
            yield f"    {call_line(tool, example.get('input') or {})}"
    yield ""
    yield style("try", "bold")
    yield f"  {call_line(tool, sample_object(tool.parameters, tool.parameters))}"


def call_line(tool: ToolInfo, arguments: dict[str, Any]) -> str:
    """A `jackfield call` to paste into a shell."""
    words = ["jackfield", "call", tool.name]
    if all(_PLAIN_NAME.fullmatch(name) for name in arguments):
        words += [_pair(name, value, tool.parameters) for name, value in arguments.items()]
    else:
        words += ["--json", _json(arguments)]
    return shlex.join(words)


def _pair(name: str, value: Any, schema: Schema) -> str:
    types = types_of(schema.get("properties", {}).get(name), schema)
    if isinstance(value, str):
        return f"{name}={value}" if types <= {"string", "null"} and types else f"{name}:={_json(value)}"
    return f"{name}={_json(value)}" if types and "string" not in types else f"{name}:={_json(value)}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _facts(tool: ToolInfo) -> Iterator[tuple[str, str]]:
    metadata = tool.metadata
    yield "source", escape(tool.source)
    if tool.category:
        yield "category", escape(tool.category)
    yield "version", tool.version
    if not metadata.enabled_by_default:
        yield "enabled", "not by default"
    if metadata.requires_approval:
        yield "approval", "required for every call"
    if metadata.timeout_seconds is not None:
        yield "timeout", f"{metadata.timeout_seconds} s"
    if metadata.rate_limit_per_minute is not None:
        yield "limit", f"{counted(metadata.rate_limit_per_minute, 'call')} a minute"
    if metadata.cost_estimate:
        yield "cost", metadata.cost_estimate
    if metadata.long_running:
        yield "long-running", "yes"
    if metadata.idempotent:
        yield "idempotent", "yes"
    if metadata.tags:
        yield "tags", escape(", ".join(metadata.tags))


def _argument_lines(schema: Schema) -> list[str]:
    rows = [
        (escape(field.path), field.type, "required" if field.required else "", first_line(field.description))
        for field in fields(schema)
    ]
    return table(rows, styles=("cyan", "dim"), indent="  ") if rows else ["  none"]


class ToolCost(Struct, frozen=True, kw_only=True):
    """The tokens of one tool's definition."""

    name: str
    source: str
    tokens: int


class TokenCosts(Struct, frozen=True, kw_only=True):
    """The tokens of a catalog."""

    tools: tuple[ToolCost, ...]
    """Most expensive first."""
    in_full: int
    with_search: int
    """`search_tools` alone, before the first search."""
    per_search: int
    """What a search adds: as many tools of average size as it returns."""


def token_costs(tools: Sequence[ToolInfo]) -> TokenCosts:
    """Estimated without a tokenizer: compact JSON, four bytes a token, within a fifth of real counts for English."""
    costs = [
        ToolCost(
            name=tool.name,
            source=tool.source,
            tokens=token_count({"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}),
        )
        for tool in tools
    ]
    in_full = sum(cost.tokens for cost in costs)
    average = in_full / len(costs) if costs else 0
    return TokenCosts(
        tools=tuple(sorted(costs, key=lambda cost: (-cost.tokens, cost.name))),
        in_full=in_full,
        with_search=token_count(search_definition(len(costs))),
        per_search=round(average * min(DEFAULT_LIMIT, len(costs))),
    )


def token_count(value: Any) -> int:
    return -(-len(msgspec.json.encode(value)) // BYTES_PER_TOKEN)


def cost_lines(costs: TokenCosts) -> list[str]:
    """One line a tool, then the totals."""
    if not costs.tools:
        return ["No tools."]
    rows = [(cost.name, escape(cost.source), f"{cost.tokens:>6,}") for cost in costs.tools]
    return [
        *table(rows, header=("NAME", "SOURCE", "TOKENS"), styles=("bold", "dim", "cyan")),
        "",
        f"{style('in full', 'bold')}      {costs.in_full:,} tokens for {counted(len(costs.tools), 'tool')}",
        f"{style('with search', 'bold')}  {costs.with_search:,} tokens, plus about {costs.per_search:,} per search",
        "Estimated from the JSON definitions, four bytes a token. [mcp] search_tools_above enables search.",
    ]


@command(
    """\
Show or change your key's preferences for a tool, globally or for one chat. A chat's preference overrides the global
one, which overrides the tool's metadata; enabling and approval are independent.""",
    argument("name", help="the tool"),
    argument("--on", action="store_true", help="enable it"),
    argument("--off", action="store_true", help="disable it"),
    argument("--reset", action="store_true", help="delete both preferences"),
    argument(
        "--approval", choices=("require", "skip", "default"), help="require approval, skip it, or as the tool says"
    ),
    argument("--chat", metavar="ID", help="for this chat only"),
    JSON,
    *GATEWAY,
    examples="""\
  jackfield prefer spawn_coding_agent
  jackfield prefer spawn_coding_agent --off --chat c1
  jackfield prefer spawn_coding_agent --approval require
  jackfield prefer spawn_coding_agent --reset""",
)
async def prefer(options: Namespace) -> int:
    if options.on + options.off + options.reset > 1:
        raise UsageError("Give only one of --on, --off and --reset.")
    if options.reset and options.approval is not None:
        raise UsageError("--reset deletes the approval preference too. Remove --approval.")
    async with connect(options) as client:
        tool = await _set_preferences(options, client)
    print_either(options, tool, [preference_line(tool)])
    return 0


async def _set_preferences(options: Namespace, client: Client) -> EffectiveTool:
    if options.reset:
        return await client.tools.reset_preferences(options.name, chat_id=options.chat)
    if options.approval is not None:
        override: ApprovalOverride = "" if options.approval == "default" else options.approval
        changed = await client.tools.set_approval(options.name, override, chat_id=options.chat)
        if not (options.on or options.off):
            return changed
    if options.on or options.off:
        return await client.tools.set_enabled(options.name, options.on, chat_id=options.chat)
    tool = await client.tools.get(options.name)
    return next(one for one in await client.tools.effective(options.chat) if one.tool.name == tool.name)


def preference_line(tool: EffectiveTool) -> str:
    """Whether the tool is enabled and needs approval, and whose preference that is."""
    state = style("enabled", "green") if tool.enabled else style("disabled", "yellow")
    if (off := tool.switched_off) is not None:
        why = f": {escape(off.reason)}" if off.reason else ""
        return f"{style(escape(tool.tool.name), 'bold')} is {state} for everybody, by {escape(off.by or '')}{why}."
    approval = "requires approval" if tool.requires_approval else "needs no approval"
    by, approval_by = _PREFERENCE.get(tool.source, ""), _PREFERENCE.get(tool.approval_source, "")
    return f"{style(escape(tool.tool.name), 'bold')} is {state}{by} and {approval}{approval_by}."
