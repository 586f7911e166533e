"""`jackfield logs WORKER`: what a tool file's worker wrote, or without a name how all workers are.

Above: `main.py`. Below: the SDK.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence

from jackfield.cli.reach import gateway
from jackfield.cli.show import clock, columns, harmless, paint, put, put_json, put_json_line
from jackfield.cli.usage import UsageError, add_gateway_arguments
from jackfield.model.words import counted
from jackfield.sdk import Client
from jackfield.sdk.sources import WorkerInfo, WorkerLine

FOLLOW_SECONDS = 0.5
MOST_LINES = 1000
DESCRIPTION = """\
Show what a worker wrote to stdout and stderr: print, logs, tracebacks. WORKER is the tool file's name without .py.
Without it: every worker, with version, state, calls and restarts."""
EXAMPLES = """\
  jackfield logs
  jackfield logs weather
  jackfield logs weather --follow"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("worker", nargs="?", help="the tool file's name, or SOURCE/NAME")
    parser.add_argument("--lines", type=int, default=200, metavar="N", help="the newest N lines (200)")
    parser.add_argument("--follow", "-f", action="store_true", help="go on with what is written from now on")
    parser.add_argument("--json", action="store_true", help="print JSON; with --follow, one line each")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    if not 1 <= options.lines <= MOST_LINES:
        raise UsageError(f"--lines takes a number from 1 to {MOST_LINES}.")
    if options.follow and not options.worker:
        raise UsageError("--follow needs the name of a worker. 'jackfield logs' lists them.")
    asyncio.run(_show(options))
    return 0


async def _show(options: Namespace) -> None:
    async with gateway(options) as client:
        if not options.worker:
            workers = await client.workers.list()
            put_json({"workers": workers}) if options.json else _put_all(worker_lines(workers))
            return
        lines = await client.workers.log(options.worker, limit=options.lines)
        if options.json and not options.follow:
            put_json({"lines": lines})
            return
        _put_lines(lines, as_json=options.json)
        if options.follow:
            await _follow(client, options, after=lines[-1].number if lines else 0)


async def _follow(client: Client, options: Namespace, *, after: int) -> None:
    """Ask again and again: a log is read by one person, now and then, and is no event of the gateway."""
    while True:
        await asyncio.sleep(FOLLOW_SECONDS)
        lines = await client.workers.log(options.worker, limit=MOST_LINES, after=after)
        _put_lines(lines, as_json=options.json)
        if lines:
            after = lines[-1].number


def worker_lines(workers: Sequence[WorkerInfo]) -> list[str]:
    """One line for each worker: name, state, version, calls, restarts, what is wrong."""
    if not workers:
        return ["No tool file runs in a worker. One that begins with a '# /// script' block does."]
    rows = [
        (
            harmless(worker.name),
            harmless(worker.source),
            worker.state,
            worker.version,
            counted(worker.calls, "call"),
            counted(worker.restarts, "restart"),
            harmless(" ".join((worker.error or "").split())),
        )
        for worker in workers
    ]
    return columns(rows, styles=("bold", "dim", "cyan"))


def _put_lines(lines: Iterable[WorkerLine], *, as_json: bool) -> None:
    for line in lines:
        if as_json:
            put_json_line(line)
        else:
            put(f"{paint(clock(line.at), 'dim')} {paint(f'#{line.process}', 'dim')} {harmless(line.text)}")


def _put_all(lines: Iterable[str]) -> None:
    for line in lines:
        put(line)
