"""`jackfield pending`: the calls that wait for somebody, what each is about, and what to type next.

Above: `main.py`. Below: the SDK.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import msgspec

from jackfield.cli.reach import gateway
from jackfield.cli.show import clock, columns, harmless, paint, put, put_json, put_json_line
from jackfield.cli.usage import add_gateway_arguments
from jackfield.model.words import counted
from jackfield.sdk import CallEvent, CallNotFound, CallRecord, Client

DESCRIPTION = """\
Show the calls that wait: for a person to allow them, or for somebody's answer. Newest first: id, what it needs, tool,
who asks, age, time left, arguments."""
EXAMPLES = """\
  jackfield pending
  jackfield pending --watch              (what waits now and from now on, and what stops waiting, until Ctrl-C)
  jackfield pending --json | jq '.calls[].id'"""
NEEDS = {"pending_approval": "permission", "pending": "an answer", "waiting": "an answer now"}
"""What a call in this status needs; `waiting`: somebody holds the line for it."""
_COLOURS = {
    "permission": "yellow",
    "an answer": "cyan",
    "an answer now": "cyan",
    "allowed": "green",
    "completed": "green",
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--tool", help="only calls of this tool")
    parser.add_argument("--agent", help="only calls in this agent's name")
    parser.add_argument("--watch", action="store_true", help="go on: a line for each that begins or stops waiting")
    parser.add_argument("--json", action="store_true", help="print JSON; with --watch, one event a line")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    asyncio.run(_watch(options) if options.watch else _list(options))
    return 0


async def _list(options: Namespace) -> None:
    async with gateway(options) as client:
        calls = await client.calls.pending(tool=options.tool, agent=options.agent)
    if options.json:
        put_json({"calls": calls})
        return
    for line in [*table_lines(calls, now=datetime.now(UTC)), *next_lines(calls)]:
        put(line)


async def _watch(options: Namespace) -> None:
    async with (
        gateway(options) as client,
        aclosing(client.calls.follow(status="pending", tool=options.tool, agent=options.agent)) as events,
    ):
        shown: dict[str, str] = {}
        async for event in events:
            # After a break the gateway tells again what waits; what it told before is no news.
            if shown.get(event.call_id) == event.status and event.type == "call.pending":
                continue
            if event.status in NEEDS:
                shown[event.call_id] = event.status
            else:
                shown.pop(event.call_id, None)
            if options.json:
                put_json_line(event)
            else:
                print(event_line(event, await _arguments(event, client)), flush=True)


async def _arguments(event: CallEvent, client: Client) -> str:
    """What a call that begins to wait is about, which its event does not say."""
    if event.type == "call.progress" or event.status not in NEEDS:
        return ""
    try:
        return compact((await client.calls.get(event.call_id)).arguments)
    except CallNotFound:
        return ""


def table_lines(calls: Sequence[CallRecord], *, now: datetime) -> list[str]:
    """One line a call."""
    if not calls:
        return ["Nothing waits."]
    rows = [
        (
            call.id,
            NEEDS.get(call.status, call.status),
            harmless(call.tool),
            f"by {asker(call)}",
            f"{span(now - made)} old" if (made := moment(call.created_at)) else "",
            f"{span(end - now)} left" if (end := moment(ends_at(call))) else "",
            compact(call.arguments),
        )
        for call in calls
    ]
    return columns(rows, styles=("bold", "yellow", "", "", "dim", "dim"))


def asker(call: CallRecord) -> str:
    """`ada`, or `planner for ada` where an agent acts in the name of another key."""
    owner = call.principal or "nobody"
    return harmless(owner if call.agent in (None, owner) else f"{call.agent} for {owner}")


def next_lines(calls: Sequence[CallRecord]) -> Iterator[str]:
    """What to type, with an id that can be pasted."""
    approvals = [call for call in calls if call.status == "pending_approval"]
    answers = [call for call in calls if call.status in ("pending", "waiting")]
    if not calls:
        return
    yield ""
    if approvals:
        first = approvals[0].id
        yield f"{counted(len(approvals), 'call')} to allow or refuse:"
        yield f"  jackfield approve {first}"
        yield f"  jackfield reject {first} --reason '…'"
    if answers:
        first = answers[0].id
        yield f"{counted(len(answers), 'call')} to answer:"
        yield f"  jackfield answer {first} JSON"


def event_line(event: CallEvent, arguments: str) -> str:
    """`12:30:05  permission  guarded  call_…  {"amount":5}`, and later `12:31:00  allowed …`"""
    said = NEEDS.get(event.status or "", event.status or event.type)
    if event.type == "call.approved":
        said = "allowed"
    words = [
        paint(clock(event.at), "dim"),
        paint(said.ljust(13), _COLOURS.get(said, "dim")),
        paint(harmless(event.tool), "bold"),
        event.call_id,
        arguments,
    ]
    return "  ".join(word for word in words if word)


def ends_at(call: CallRecord) -> str | None:
    """When it stops waiting by itself: at the deadline while somebody holds the line, else when it expires."""
    return call.deadline if call.status == "waiting" else call.expires_at


def span(time: timedelta) -> str:
    """`4 s`, `12 min`, `3 h`, `2 d`: whole ones, never less than 0."""
    seconds = max(0, int(time.total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def moment(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None


def compact(value: object) -> str:
    return harmless(msgspec.json.encode(value).decode())
