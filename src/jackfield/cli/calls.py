"""`jackfield call`, `result` and `tail`: make a call, read its result, follow calls live."""

import sys
import time
from argparse import Namespace
from contextlib import aclosing
from typing import Any

from jackfield.cli.arguments import from_pairs, json_object
from jackfield.cli.options import CONFIG, GATEWAY, UsageError, argument, command
from jackfield.cli.output import (
    escape,
    first_line,
    local_time,
    milliseconds,
    print_json,
    print_json_line,
    print_result,
    print_stderr,
    style,
)
from jackfield.cli.target import connect
from jackfield.sdk import CallAnswer, CallError, CallEvent, CallNotFound, CallRecord, Client
from jackfield.sdk.calls import large_result

DONE = 0
FAILED = 1
PENDING = 3
_COLORS = {
    "completed": "green",
    "approved": "green",
    "logged in": "green",
    "failed": "red",
    "rejected": "red",
    "refused": "red",
    "expired": "red",
    "cancelled": "yellow",
    "pending_approval": "yellow",
    "pending_login": "yellow",
    "pending": "yellow",
    "waiting": "yellow",
}
RUN_PROGRAM = "run_program"


@command(
    """\
Call a tool and print its result: text unchanged, anything else as JSON.

Arguments are converted by the tool's schema: numbers, true or false, JSON for arrays and objects, text as it is.
key:=JSON passes a value as JSON regardless of the schema.

exit codes: 0 done, 1 failed, 2 not made (unknown tool, invalid arguments, refused), 3 pending (prints the call id)""",
    argument("name", help="the tool"),
    argument("pairs", nargs="*", default=[], metavar="key=value", help="its arguments"),
    argument("--json", metavar="OBJECT", help="all arguments as a JSON object, @file, or - for stdin"),
    argument("--raw", action="store_true", help="print the gateway's response as JSON"),
    argument("--follow", action="store_true", help="print progress and events to stderr"),
    argument("--timeout", type=float, metavar="SECONDS", help="how long to wait for the result"),
    argument(
        "--wait",
        action="store_true",
        help="if the call is pending, wait until it is approved or answered, or the login it needs is done",
    ),
    argument("--agent", help="make the call on behalf of this agent"),
    argument("--idempotency-key", metavar="KEY", help="calls with the same key are made once"),
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield call add a=1 b=2
  jackfield call search words='red shoes' limit:=5
  jackfield call add --json '{"a": 1, "b": 2}'        (or --json @file, or --json - for stdin)
  jackfield call report --timeout 300 --follow
  jackfield call transfer amount=50 --wait            (until it is approved or answered)
  jackfield call add a=1 b=2 --config jackfield.toml  (no gateway needed)""",
)
async def call(options: Namespace) -> int:
    if options.json is not None and options.pairs:
        raise UsageError("Arguments are given both as key=value and as --json. Use one of them.")
    started = time.monotonic()
    async with connect(options) as client:
        answer = await client.tools.start(
            options.name,
            await _arguments(options, client),
            timeout=options.timeout,
            agent=options.agent,
            idempotency_key=options.idempotency_key,
            on_event=_print_event if options.follow else None,
        )
        if options.wait and not answer.is_settled:
            print_stderr(f"{_next_step(answer, options.name)} Waiting.")
            left = None if options.timeout is None else max(0.0, options.timeout - (time.monotonic() - started))
            answer = _answer(await client.calls.wait(answer.call_id, left))
    if options.raw:
        print_json(answer)
    else:
        _print_answer(options.name, answer)
    return exit_code(answer)


async def _arguments(options: Namespace, client: Client) -> dict[str, Any]:
    if options.json is not None:
        return json_object(options.json, what="The value of --json")
    if not options.pairs:
        return {}
    tool = await client.tools.get(options.name)
    return from_pairs(options.pairs, tool.parameters, tool=tool.name)


def _print_event(event: CallEvent) -> None:
    line = _progress(event) or f"{event.type.removeprefix('call.')} {event.call_id}"
    print_stderr(style(escape(line), "dim", stream=sys.stderr))


def _progress(event: CallEvent) -> str:
    if event.progress is None:
        return ""
    total = f" of {event.progress.total:g}" if event.progress.total is not None else ""
    return f"{event.progress.progress:g}{total} {event.progress.message or ''}".rstrip()


@command(
    """\
Print the result of a finished call: text unchanged, anything else as JSON. A large result is fetched in pages and
verified against its digest.

With --offset or --limit, prints one page of the JSON text; stderr says where the next page starts.

For a failed call stderr has the error; with an admin key also the traceback in the tool file.

exit codes: 0 printed, 1 the call failed, 2 no result (unknown, not finished, not allowed)""",
    argument("id", help="the call"),
    argument("--offset", type=int, metavar="BYTES", help="where the page starts"),
    argument("--limit", type=int, metavar="BYTES", help="maximum size of the page"),
    argument("--json", action="store_true", help="print JSON, for text and pages too"),
    *GATEWAY,
    examples="""\
  jackfield result call_019a2b3c4d5e
  jackfield result call_019a2b3c4d5e > report.json
  jackfield result call_019a2b3c4d5e --offset 100000 --limit 2000     (bytes of the JSON text)
  jackfield result call_019a2b3c4d5e --limit 2000 --json              (with size, digest and next offset)""",
)
async def result(options: Namespace) -> int:
    if options.offset is not None or options.limit is not None:
        return await _print_page(options)
    async with connect(options) as client:
        value = await client.calls.result(options.id)
        record = await client.calls.get(options.id)
    if options.json:
        print_json(value)
    elif value is not None or record.status == "completed":
        print_result(value)
    if record.status != "completed":
        _print_failure(record.tool, _answer(record))
        if record.trace:
            print_stderr(escape(record.trace.rstrip()))
    return exit_code(record)


async def _print_page(options: Namespace) -> int:
    async with connect(options) as client:
        page = await client.calls.result_page(options.id, offset=options.offset or 0, limit=options.limit)
    if options.json:
        print_json(page)
        return 0
    # Nothing is added to the text, so that consecutive pages can be concatenated.
    sys.stdout.write(escape(page.text) if sys.stdout.isatty() else page.text)
    sys.stdout.flush()
    end = "end of the result" if page.next_offset is None else f"continue with --offset {page.next_offset}"
    print_stderr(f"\nBytes {page.offset} to {page.offset + len(page.text.encode())} of {page.size}; {end}.")
    return 0


@command(
    "Follow calls live: time, status, tool, duration, error.",
    argument("--tool", help="only calls of this tool"),
    argument("--agent", help="only calls of this agent"),
    argument("--json", action="store_true", help="print one JSON event per line"),
    *GATEWAY,
    examples="""\
  jackfield tail
  jackfield tail --tool add --agent concierge
  jackfield tail --json | jq .tool""",
)
async def tail(options: Namespace) -> int:
    async with (
        connect(options) as client,
        aclosing(client.calls.follow(tool=options.tool, agent=options.agent)) as events,
    ):
        async for event in events:
            if options.json:
                print_json_line(event)
            else:
                print(event_line(event, await _error(event, client)), flush=True)
    return 0


async def _error(event: CallEvent, client: Client) -> CallError | str | None:
    """Why a call has no result: from its event, else from its record."""
    if event.type != "call.settled" or event.status == "completed":
        return None
    if event.error is not None:
        return event.error
    try:
        return (await client.calls.get(event.call_id)).error
    except CallNotFound:
        return None


def event_line(event: CallEvent, error: CallError | str | None) -> str:
    """`12:30:05  completed  add  1.2 ms  call_…`"""
    kind = event.type.removeprefix("call.")
    decided = {"approved": "approved", "logged_in": "logged in"}
    status = decided.get(kind) or event.status or kind
    words = [
        style(local_time(event.at), "dim"),
        style(status.ljust(16), color_of(status)),
        style(escape(event.tool), "bold"),
        f"by {escape(event.agent)}" if event.agent else "",
        first_line(_progress(event)),
        milliseconds(event.execution_time_ms),
        style(event.call_id, "dim"),
    ]
    if error is not None:
        words.append(first_line(error) if isinstance(error, str) else f"{error.code}: {first_line(error.message)}")
    return "  ".join(word for word in words if word)


def color_of(status: str) -> str:
    return _COLORS.get(status, "cyan")


def exit_code(call: CallAnswer | CallRecord) -> int:
    if not call.is_settled:
        return PENDING
    return DONE if call.status == "completed" else FAILED


def print_outcome(record: CallRecord) -> None:
    """The outcome of a call, as `jackfield call` prints it."""
    _print_answer(record.tool, _answer(record))


def _answer(record: CallRecord) -> CallAnswer:
    """The record as the response that a waiting caller gets."""
    return CallAnswer(
        success=record.status == "completed",
        call_id=record.id,
        run_id=record.run_id,
        status=record.status,
        result=record.result,
        error=record.error,
        execution_time_ms=record.execution_time_ms,
        login_url=record.login_url,
    )


def _print_answer(tool: str, answer: CallAnswer) -> None:
    """The result on stdout, an error on stderr, or the id of a pending call."""
    if answer.success:
        print_result(answer.result)
    elif answer.is_settled:
        _print_failure(tool, answer)
    else:
        print(answer.call_id)
        print_stderr(_next_step(answer, tool))
    notice = large_result(answer.result, call_id=answer.call_id)
    if notice is not None:
        print_stderr(
            f"The result has {notice.size:,} bytes and is stored: 'jackfield result {answer.call_id}' prints it."
        )


def _print_failure(tool: str, answer: CallAnswer) -> None:
    reason = answer.error.message if answer.error else f"the call is {answer.status}"
    code = answer.error.code if answer.error else answer.status
    failed = style(f"'{tool}' failed ({code}):", "red", "bold", stream=sys.stderr)
    print_stderr(f"{failed} {escape(reason)}")


def next_step(record: CallRecord) -> str:
    """What an open call needs; nothing if it runs or is settled."""
    return "" if record.is_settled or record.status == "running" else _next_step(_answer(record), record.tool)


def _next_step(answer: CallAnswer, tool: str) -> str:
    """What a pending call needs, and the command for it."""
    if answer.status == "pending" and tool == RUN_PROGRAM:
        said = "The program waits for a call of its own that somebody has to answer."
        return f"{said} Run '{shows_program(answer.call_id)}' to see which."
    if answer.status == "pending_approval":
        return (
            "The call needs approval (pending_approval). "
            f"Run 'jackfield approve {answer.call_id}' or 'jackfield reject {answer.call_id}'."
        )
    if answer.status == "pending_login":
        where = f" at {answer.login_url}" if answer.login_url else ""
        return f"The call needs a login (pending_login). Log in{where}; it then runs. 'jackfield pending' lists it."
    return (
        f"The call is {answer.status}: its result comes from outside. "
        f"Run 'jackfield answer {answer.call_id} JSON' to submit it."
    )


def shows_program(call_id: str) -> str:
    """The command that says what a program waits for."""
    return f"jackfield runs prog_{call_id}"
