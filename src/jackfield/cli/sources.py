"""`jackfield sources`: where the tools come from, and how each of those places is.

Above: `main.py`. Below: the SDK.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

from jackfield.cli.reach import gateway
from jackfield.cli.show import columns, harmless, paint, put, put_json
from jackfield.cli.usage import add_gateway_arguments
from jackfield.model.words import counted
from jackfield.sdk.sources import SourceInfo
from jackfield.sdk.types import ScenarioState

DESCRIPTION = """\
Show every source of tools: whether it is there, when it was last looked at, and what is wrong with it.

exit codes: 0 all are up, 1 one of them is down or faulty"""
EXAMPLES = """\
  jackfield sources
  jackfield sources github             (one of them whole: tools, faults, what its process said last)
  jackfield sources --refresh          (read every source anew first, past every cache)
  jackfield sources --json"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this one whole; needs an admin's key")
    parser.add_argument("--refresh", action="store_true", help="have every source read anew first")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    if options.name:
        source = asyncio.run(_source(options))
        if options.json:
            put_json({"source": source})
        else:
            for line in source_lines(source):
                put(line)
        return 0 if source.status == "up" else 1
    states = asyncio.run(_states(options))
    if options.json:
        put_json({"sources": states})
    else:
        for line in state_lines(states):
            put(line)
    return 0 if all(state.available and not state.error for state in states) else 1


async def _states(options: Namespace) -> tuple[ScenarioState, ...]:
    async with gateway(options) as client:
        if options.refresh:
            await client.tools.refresh()
        return await client.tools.scenarios()


async def _source(options: Namespace) -> SourceInfo:
    async with gateway(options) as client:
        if options.refresh:
            await client.tools.refresh()
        return await client.sources.get(options.name)


def source_lines(source: SourceInfo) -> Iterator[str]:
    """One source, everything that its operator wants to know."""
    yield f"{paint(harmless(source.name), 'bold')}  {source.kind}, {source.origin}"
    since = f" since {source.since}" if source.since else ""
    yield f"{source.status if source.status == 'up' else paint(source.status, 'red')}{since}"
    for said in (source.error, source.doing):
        if said:
            yield harmless(said)
    told = source.error or ""
    yield from (f"{paint('fault', 'yellow')}: {harmless(fault)}" for fault in source.faults if fault not in told)
    if source.tools:
        yield f"tools: {', '.join(map(harmless, source.tools))}"
    if source.stderr:
        yield paint("its last lines on stderr:", "dim")
        yield from (f"  {harmless(line)}" for line in source.stderr)


def _word(state: ScenarioState) -> str:
    """How it is: one that is there with a fault is faulty, as it is everywhere else."""
    if state.available:
        return paint("faulty", "yellow") if state.error else "up"
    return paint("down", "red")


def state_lines(states: Sequence[ScenarioState]) -> list[str]:
    """One line each: name, whether it is there, how many tools, when it was looked at, what is wrong."""
    if not states:
        return ["No sources. Add one to the config: [sources.NAME]."]
    rows = [
        (
            harmless(state.scenario),
            _word(state),
            counted(state.tool_count, "tool"),
            state.last_checked or "never",
            harmless(state.error or ""),
        )
        for state in states
    ]
    return columns(rows, styles=("bold", "", "dim", "dim"))
