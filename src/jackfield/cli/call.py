"""`jackfield call NAME …`: one call, its result on stdout, how it went in the exit code.

Above: `main.py`. Below: the SDK, by way of `reach.py`.
"""

import asyncio
import sys
import time
from argparse import ArgumentParser, Namespace
from typing import Any

from jackfield.cli.arguments import from_json, from_pairs
from jackfield.cli.outcome import answer_of, exit_code, show, waits_for
from jackfield.cli.reach import gateway
from jackfield.cli.show import harmless, note, paint, put_json
from jackfield.cli.usage import UsageError, add_gateway_arguments
from jackfield.sdk import CallEvent, Client

DESCRIPTION = """\
Call a tool and print its result: text as it is, anything else as JSON.

Arguments are typed by the tool's schema: numbers, true or false, JSON for lists and objects, text as it is.
key:=JSON gives a value as JSON whatever the schema says.

exit codes: 0 done, 1 failed, 2 not made (unknown tool, wrong arguments, refused), 3 pending (prints the call id)"""
EXAMPLES = """\
  jackfield call add a=1 b=2
  jackfield call search words='red shoes' limit:=5
  jackfield call add --json '{"a": 1, "b": 2}'        (or --json @file, or --json - for stdin)
  jackfield call report --timeout 300 --follow
  jackfield call transfer amount=50 --wait            (until somebody has allowed or answered it)
  jackfield call add a=1 b=2 --config jackfield.toml  (no gateway needed)"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="the tool")
    parser.add_argument("pairs", nargs="*", metavar="key=value", help="its arguments")
    parser.add_argument("--json", metavar="OBJECT", help="all arguments as one JSON object, @file, or - for stdin")
    parser.add_argument("--raw", action="store_true", help="print the gateway's whole answer as JSON")
    parser.add_argument("--follow", action="store_true", help="tell on stderr what happens while it runs")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="how long to wait for the answer")
    parser.add_argument("--wait", action="store_true", help="wait for a pending call to be allowed or answered, too")
    parser.add_argument("--agent", help="the agent in whose name the call is made")
    parser.add_argument("--idempotency-key", metavar="KEY", help="the same key is the same call, also when sent twice")
    parser.add_argument(
        "--config", metavar="FILE", help="use this config; without a running gateway, run it in process"
    )
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    if options.json is not None and options.pairs:
        raise UsageError("Arguments are given twice: as key=value and as --json. Give them one way.")
    return asyncio.run(_call(options))


async def _call(options: Namespace) -> int:
    began = time.monotonic()
    async with gateway(options) as client:
        answer = await client.tools.start(
            options.name,
            await _arguments(options, client),
            timeout=options.timeout,
            agent=options.agent,
            idempotency_key=options.idempotency_key,
            on_event=_tell if options.follow else None,
        )
        if options.wait and not answer.is_settled:
            note(f"{waits_for(answer)} Waiting.")
            left = None if options.timeout is None else max(0.0, options.timeout - (time.monotonic() - began))
            answer = answer_of(await client.calls.wait(answer.call_id, left))
    if options.raw:
        put_json(answer)
    else:
        show(options.name, answer)
    return exit_code(answer)


async def _arguments(options: Namespace, client: Client) -> dict[str, Any]:
    if options.json is not None:
        return from_json(options.json)
    if not options.pairs:
        return {}
    tool = await client.tools.get(options.name)
    return from_pairs(options.pairs, tool.parameters, tool=tool.name)


def _tell(event: CallEvent) -> None:
    line = f"{event.type.removeprefix('call.')} {event.call_id}"
    if event.progress is not None:
        total = f" of {event.progress.total:g}" if event.progress.total is not None else ""
        line = f"{event.progress.progress:g}{total} {event.progress.message or ''}".rstrip()
    note(paint(harmless(line), "dim", stream=sys.stderr))
