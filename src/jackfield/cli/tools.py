"""`jackfield tools`: the catalog as a table, what is wrong with it, and one tool whole.

Above: `main.py`. Below: the SDK, by way of `reach.py`, and `schema.py`.
"""

import asyncio
import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from jackfield.cli.logs import worker_lines
from jackfield.cli.reach import gateway
from jackfield.cli.schema import fields, sample_object, types_of
from jackfield.cli.show import columns, harmless, one_line, paint, put, put_json
from jackfield.cli.tokens import cost_lines, costs_of
from jackfield.cli.usage import UsageError, add_gateway_arguments
from jackfield.model.words import counted
from jackfield.sdk import Client, Forbidden, Readiness, ToolInfo
from jackfield.sdk.sources import WorkerInfo
from jackfield.settings.parsing import nearest

SEARCH_LIMIT = 100
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][^=:\s]*")
DESCRIPTION = "List the tools that your key may use, search them, or show one whole."
EXAMPLES = """\
  jackfield tools
  jackfield tools --search 'convert money'
  jackfield tools --source local --json
  jackfield tools --tokens
  jackfield tools add"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="show this tool whole")
    parser.add_argument("--search", metavar="WORDS", help="the tools that fit these words best, best first")
    parser.add_argument("--source", metavar="NAME", help="only the tools of this source")
    parser.add_argument("--tokens", action="store_true", help="what each costs a model's context, and all together")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--config", metavar="FILE", help="use this config; without a running gateway, run it in process"
    )
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    if options.name and (options.search or options.source or options.tokens):
        raise UsageError(
            "One tool is shown whole, without --search, --source and --tokens. Leave them or the name out."
        )
    show = _show_one if options.name else _show_costs if options.tokens else _show_all
    asyncio.run(show(options))
    return 0


async def _show_one(options: Namespace) -> None:
    async with gateway(options) as client:
        tool = await client.tools.get(options.name)
    if options.json:
        put_json(tool)
    else:
        put("\n".join(tool_lines(tool)))


async def _show_costs(options: Namespace) -> None:
    async with gateway(options) as client:
        if options.source is not None:
            _check_source(options.source, await client.ready())
        costs = costs_of(await _wanted(options, client))
    if options.json:
        put_json(costs)
        return
    for line in cost_lines(costs):
        put(line)


async def _show_all(options: Namespace) -> None:
    async with gateway(options) as client:
        readiness = await client.ready()
        _check_source(options.source, readiness)
        tools = await _wanted(options, client)
        workers = [worker for worker in await _workers(client) if options.source in (None, worker.source)]
    if options.json:
        put_json({"tools": tools, "sources": readiness.sources, "notices": readiness.notices, "workers": workers})
        return
    lines = ["", paint("workers", "bold"), *worker_lines(workers)] if workers else []
    for line in [*table_lines(tools), *lines, *trouble_lines(readiness)]:
        put(line)


async def _workers(client: Client) -> list[WorkerInfo]:
    """The tool files that run in processes of their own, for a key that may see them."""
    try:
        return await client.workers.list()
    except Forbidden:
        return []


async def _wanted(options: Namespace, client: Client) -> list[ToolInfo]:
    found = await (client.tools.search(options.search, limit=SEARCH_LIMIT) if options.search else client.tools.list())
    return [tool for tool in found if options.source in (None, tool.source)]


def _check_source(name: str | None, readiness: Readiness) -> None:
    known = [source.name for source in readiness.sources]
    if name is not None and name not in known:
        cure = nearest(name, known) or f" Known: {', '.join(known)}."
        raise UsageError(f"There is no source '{name}'.{cure}")


def table_lines(tools: Sequence[ToolInfo]) -> list[str]:
    """The catalog as a table: name, source, category, what it does."""
    if not tools:
        return ["No tools."]
    rows = [
        (tool.name, harmless(tool.source), harmless(tool.category or "-"), one_line(tool.description)) for tool in tools
    ]
    return columns(rows, styles=("bold", "dim", "cyan"))


def trouble_lines(readiness: Readiness) -> list[str]:
    """What the owner of the catalog should know: sources that are down, parts left out, names that clash."""
    lines = []
    for source in readiness.sources:
        if source.status != "up":
            why = f": {harmless(source.error)}" if source.error and source.status != "faulty" else ""
            lines.append(f"{paint(f'{source.name} is {source.status}', 'red')}{why}")
        lines += [f"{paint(source.name, 'yellow')}: {harmless(fault)}" for fault in source.faults]
    lines += [f"{paint('note', 'yellow')}: {harmless(notice.message)}" for notice in readiness.notices]
    return ["", *lines] if lines else []


def tool_lines(tool: ToolInfo) -> Iterator[str]:
    """One tool, everything there is to know about it."""
    yield paint(tool.name, "bold")
    if tool.description:
        yield harmless(tool.description.strip())
    yield ""
    yield from columns(list(_facts(tool)), styles=("dim",))
    yield ""
    yield paint("arguments", "bold")
    yield from _argument_lines(tool.parameters)
    if tool.metadata.examples:
        yield ""
        yield paint("examples", "bold")
        for example in tool.metadata.examples:
            yield f"  {one_line(str(example.get('description') or ''))}".rstrip()
            yield f"    {call_line(tool, example.get('input') or {})}"
    yield ""
    yield paint("try", "bold")
    yield f"  {call_line(tool, sample_object(tool.parameters, tool.parameters))}"


def call_line(tool: ToolInfo, arguments: dict[str, Any]) -> str:
    """A `jackfield call` that can be pasted into a shell."""
    if not all(_PLAIN_NAME.fullmatch(name) for name in arguments):
        return shlex.join(["jackfield", "call", tool.name, "--json", _compact(arguments)])
    return shlex.join(
        ["jackfield", "call", tool.name, *(_pair(name, value, tool.parameters) for name, value in arguments.items())]
    )


def _pair(name: str, value: Any, schema: dict[str, Any]) -> str:
    kinds = types_of(schema.get("properties", {}).get(name), schema)
    if isinstance(value, str):
        return f"{name}={value}" if kinds <= {"string", "null"} and kinds else f"{name}:={_compact(value)}"
    return f"{name}={_compact(value)}" if kinds and "string" not in kinds else f"{name}:={_compact(value)}"


def _compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _facts(tool: ToolInfo) -> Iterator[tuple[str, str]]:
    said = tool.metadata
    yield "source", harmless(tool.source)
    if tool.category:
        yield "category", harmless(tool.category)
    yield "version", tool.version
    if not said.enabled_by_default:
        yield "enabled", "not by default"
    if said.requires_approval:
        yield "approval", "a person must allow each call"
    if said.timeout_seconds is not None:
        yield "timeout", f"{said.timeout_seconds} s"
    if said.rate_limit_per_minute is not None:
        yield "limit", f"{counted(said.rate_limit_per_minute, 'call')} a minute"
    if said.cost_estimate:
        yield "cost", said.cost_estimate
    if said.long_running:
        yield "runs long", "yes"
    if said.idempotent:
        yield "idempotent", "yes, calling it twice does no harm"
    if said.tags:
        yield "tags", harmless(", ".join(said.tags))


def _argument_lines(schema: dict[str, Any]) -> list[str]:
    rows = [
        (harmless(field.path), field.type, "required" if field.required else "", one_line(field.says))
        for field in fields(schema)
    ]
    return columns(rows, styles=("cyan", "dim"), indent="  ") if rows else ["  none"]
