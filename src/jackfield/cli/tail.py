"""`jackfield tail`: calls as they happen, one line each, until Ctrl-C.

Above: `main.py`. Below: the SDK, whose stream comes back by itself after a break.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from contextlib import aclosing

from jackfield.cli.reach import gateway
from jackfield.cli.show import clock, harmless, milliseconds, one_line, paint, put_json_line
from jackfield.cli.usage import add_gateway_arguments
from jackfield.sdk import CallError, CallEvent, CallNotFound, Client

DESCRIPTION = "Watch calls as they happen: when, how it stands, which tool, how long it took, what went wrong."
EXAMPLES = """\
  jackfield tail
  jackfield tail --tool add --agent concierge
  jackfield tail --json | jq .tool"""
_COLOURS = {
    "completed": "green",
    "approved": "green",
    "failed": "red",
    "rejected": "red",
    "expired": "red",
    "cancelled": "yellow",
    "pending_approval": "yellow",
    "pending": "yellow",
    "waiting": "yellow",
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--tool", help="only calls of this tool")
    parser.add_argument("--agent", help="only calls in this agent's name")
    parser.add_argument("--json", action="store_true", help="print each event as one line of JSON")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    asyncio.run(_watch(options))
    return 0


async def _watch(options: Namespace) -> None:
    async with (
        gateway(options) as client,
        aclosing(client.calls.follow(tool=options.tool, agent=options.agent)) as events,
    ):
        async for event in events:
            if options.json:
                put_json_line(event)
            else:
                print(line_of(event, await _error(event, client)), flush=True)


async def _error(event: CallEvent, client: Client) -> CallError | str | None:
    """Why a call has no result: as its event says, else as its record does."""
    if event.type != "call.settled" or event.status == "completed":
        return None
    if event.error is not None:
        return event.error
    try:
        return (await client.calls.get(event.call_id)).error
    except CallNotFound:
        return None


def line_of(event: CallEvent, error: CallError | str | None) -> str:
    """`12:30:05  completed  add  1.2 ms  call_…`"""
    happened = event.type.removeprefix("call.")
    status = happened if happened == "approved" else event.status or happened
    words = [
        paint(clock(event.at), "dim"),
        paint(status.ljust(16), _COLOURS.get(status, "cyan")),
        paint(harmless(event.tool), "bold"),
    ]
    if event.agent:
        words.append(f"by {harmless(event.agent)}")
    if event.progress is not None:
        total = f" of {event.progress.total:g}" if event.progress.total is not None else ""
        words.append(f"{event.progress.progress:g}{total} {one_line(event.progress.message or '')}".rstrip())
    if event.execution_time_ms is not None:
        words.append(milliseconds(event.execution_time_ms))
    words.append(paint(event.call_id, "dim"))
    if error is not None:
        words.append(one_line(error) if isinstance(error, str) else f"{error.code}: {one_line(error.message)}")
    return "  ".join(words)
