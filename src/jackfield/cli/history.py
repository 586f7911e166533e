"""`jackfield calls` and `cancel`: calls on record, one in detail, and the end of those that are not settled."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import aclosing

from jackfield.cli.call_ids import find_call
from jackfield.cli.calls import color_of, next_step
from jackfield.cli.options import GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import (
    compact,
    escape,
    json_lines,
    local_datetime,
    milliseconds,
    print_either,
    print_json,
    print_stderr,
    style,
    table,
)
from jackfield.cli.paging import PAGING, print_more, read_pages
from jackfield.cli.pending import caller_of
from jackfield.cli.target import connect
from jackfield.cli.times import moment_in
from jackfield.errors import Conflict, JackfieldError, Refused
from jackfield.sdk import CallRecord, Client, RunInfo
from jackfield.sdk.calls import PAGE_SIZE, large_result
from jackfield.sdk.types import UNSETTLED

FILTERS = ("status", "tool", "kind", "agent", "run", "principal", "source", "since", "until", "text")
_SEE = "'jackfield calls' lists them."
_NOT_CANCELLED = 2
_RUNS = ("resp_", "cycle_", "prog_", "ses_")


@command(
    """\
List the calls on record that your key may see, newest first. With ID, show one: arguments, result, error, who decided
and when.""",
    argument("id", nargs="?", metavar="ID", help="show this call; its id, or the beginning of a recent one"),
    argument("--status", metavar="STATUS", help="only calls in this status, such as failed; several with commas"),
    argument("--tool", metavar="NAME", help="only calls of this tool or prompt, or of the resource with this URI"),
    argument("--kind", choices=("tool", "resource", "prompt"), help="only calls of this kind"),
    argument("--agent", metavar="NAME", help="only calls of this agent"),
    argument("--run", metavar="ID", help="only calls of this run"),
    argument("--principal", metavar="NAME", help="only calls made by this key or user:ID"),
    argument("--source", metavar="NAME", help="only calls of this source's tools"),
    argument("--since", metavar="TIME", type=moment_in, help="made then or later: ISO 8601, or 30m, 12h, 7d ago"),
    argument("--until", metavar="TIME", type=moment_in, help="made before then: ISO 8601, or 30m, 12h, 7d ago"),
    argument("--text", metavar="TEXT", help="only calls with this text in the tool's name, arguments, result or error"),
    *PAGING,
    JSON,
    *GATEWAY,
    examples="""\
  jackfield calls
  jackfield calls --principal ci --since 2026-01-15 --text invoice
  jackfield calls --status failed,rejected --tool send_invoice
  jackfield calls --agent concierge --limit 200
  jackfield calls call_019a2b3c4d5e
  jackfield calls --all --json | jq -r '.calls[].tool' | sort | uniq -c""",
)
async def calls(options: Namespace) -> int:
    if options.id is not None:
        return await _print_call(options)
    async with connect(options) as client:

        async def read(limit: int, cursor: str | None) -> tuple[Sequence[CallRecord], str | None]:
            page = await client.calls.list(
                status=options.status,
                tool=options.tool,
                kind=options.kind,
                agent=options.agent,
                run_id=options.run,
                principal=options.principal,
                source=options.source,
                since=options.since,
                until=options.until,
                q=options.text,
                limit=limit,
                cursor=cursor,
            )
            return page.calls, page.next_cursor

        found, cursor = await read_pages(options, read, page_size=PAGE_SIZE)
    print_either(options, {"calls": found, "next_cursor": cursor}, list_lines(found))
    print_more(options, cursor)
    return 0


async def _print_call(options: Namespace) -> int:
    given = [f"--{name}" for name in (*FILTERS, "limit", "cursor", "all") if getattr(options, name)]
    if given:
        raise UsageError(f"{given[0]} is for the list of calls, not for one. Remove it or the id.")
    async with connect(options) as client:

        async def recent() -> Sequence[CallRecord]:
            return (await client.calls.list(limit=PAGE_SIZE)).calls

        found = await find_call(client, options.id, among=recent, what="recent call", see=_SEE)
        # Only the record of one call has the traceback.
        call = await client.calls.get(found.id)
    print_either(options, {"call": call}, call_lines(call))
    return 0


def list_lines(calls: Sequence[CallRecord]) -> list[str]:
    """Id, status, tool, caller, start, duration, error, arguments."""
    if not calls:
        return ["No calls."]
    rows = [
        (
            call.id,
            style(call.status, color_of(call.status)),
            escape(call.tool if call.kind == "tool" else f"{call.kind} {call.tool}"),
            caller_of(call),
            local_datetime(call.created_at),
            milliseconds(call.execution_time_ms) or "-",
            escape(_error_of(call)),
            compact(call.arguments),
        )
        for call in calls
    ]
    header = ("ID", "STATUS", "TOOL", "CALLER", "STARTED", "TOOK", "ERROR", "ARGUMENTS")
    return table(rows, header=header, styles=("bold", "", "", "", "dim", "dim"))


def _error_of(call: CallRecord) -> str:
    """`tool_not_found ×12` where one record counts several."""
    times = f" ×{call.count}" if call.count > 1 else ""
    return f"{call.error.code}{times}" if call.error else "-"


def call_lines(call: CallRecord) -> Iterator[str]:
    """One call in detail."""
    yield f"{style(escape(call.tool), 'bold')}  {call.id}"
    yield ""
    yield from table(list(_facts(call)), styles=("dim",))
    yield from _section("arguments", call.arguments)
    if call.asked_arguments != call.arguments:
        yield from _section("arguments that were asked for", call.asked_arguments)
    notice = large_result(call.result, call_id=call.id)
    if notice is not None:
        yield from _section("result", f"{notice.size:,} bytes; 'jackfield result {call.id}' prints it.")
    elif call.result is not None or call.status == "completed":
        yield from _section("result", call.result)
    if call.error is not None:
        yield from _section("error", f"{call.error.code}: {call.error.message}")
    if call.hooks:
        yield ""
        yield style("hooks", "bold")
        rows = [
            tuple(
                map(
                    escape,
                    (note.name, note.on.replace("_", " "), note.decision, milliseconds(note.ms), note.reason or ""),
                )
            )
            for note in call.hooks
        ]
        yield from table(rows, styles=("", "dim", "", "dim"), indent="  ")
    if call.trace:
        yield from _section("traceback", call.trace)
    yield ""
    yield style("timeline", "bold")
    yield from table(list(timeline(call)), styles=("dim",), indent="  ")
    if step := next_step(call):
        yield ""
        yield step


def _section(title: str, value: object) -> Iterator[str]:
    yield ""
    yield style(title, "bold")
    yield from json_lines(value)


def _facts(call: CallRecord) -> Iterator[tuple[str, str]]:
    yield "status", style(call.status, color_of(call.status))
    yield "caller", caller_of(call)
    named = {"kind": call.kind if call.kind != "tool" else None, "source": call.source, "version": call.tool_version}
    named |= {"run": call.run_id, "space": call.space_id, "chat": call.chat_id}
    yield from ((name, escape(value)) for name, value in named.items() if value)
    if call.execution_time_ms is not None:
        yield "took", milliseconds(call.execution_time_ms)
    if call.attempt > 1:
        yield "attempt", str(call.attempt)
    if call.count > 1:
        yield "refused", f"{call.count} times, last at {local_datetime(call.finished_at)}"
    if call.waits_for == "question":
        yield "waits for", f"the answer to a question of its tool: jackfield calls --run {escape(call.run_id or '')}"


def timeline(call: CallRecord) -> Iterator[tuple[str, str]]:
    """What happened when, and what ends a call that is still open."""
    yield local_datetime(call.created_at), f"called by {caller_of(call)}"
    if call.decided_at is not None and call.decision is not None:
        by = f" by {escape(call.decided_by)}" if call.decided_by else ""
        changed = " with other arguments" if call.asked_arguments != call.arguments else ""
        yield local_datetime(call.decided_at), f"{call.decision}{by}{changed}"
    if call.finished_at is not None and (call.status != call.decision or call.decided_at is None):
        by = f", answered by {escape(call.answered_by)}" if call.answered_by else ""
        yield local_datetime(call.finished_at), f"{call.status}{by}"
    end = call.deadline if call.status in ("running", "waiting") else call.expires_at
    if not call.is_settled and end is not None:
        yield local_datetime(end), "times out" if call.status in ("running", "waiting") else "expires"


@command(
    """\
Cancel calls that are not settled, or runs that are not over. The caller of a cancelled call is told so; a tool
that is running is asked to stop.

exit codes: 0 all were cancelled, 2 at least one was not (unknown, settled before, not allowed)""",
    argument("ids", nargs="+", metavar="ID", help="a call's id, or an unambiguous prefix; or a run's id"),
    argument("--json", action="store_true", help="print the records of the cancelled calls and runs as JSON"),
    *GATEWAY,
    examples="""\
  jackfield cancel call_019a2b3c4d5e
  jackfield cancel $(jackfield pending --tool transfer --json | jq -r '.calls[].id')
  jackfield cancel resp_019a2b3c4d5e""",
)
async def cancel(options: Namespace) -> int:
    calls: list[CallRecord] = []
    runs: list[RunInfo] = []
    errors: list[JackfieldError] = []
    async with connect(options) as client:
        for text in dict.fromkeys(options.ids):
            try:
                if text.startswith(_RUNS):
                    runs.append(await client.runs.cancel(text))
                else:
                    calls.append(await _cancel_call(client, text))
            except (Refused, UsageError) as fault:
                errors.append(fault)
    if options.json:
        told = [{"code": error.code, "message": error.message} for error in errors]
        print_json({"calls": calls, "runs": runs, "errors": told})
    else:
        ended: list[tuple[str, str]] = [(call.status, f"{escape(call.tool)} {call.id}") for call in calls]
        ended += [(run.status, run.id) for run in runs]
        for status, name in ended:
            print(f"{style('Cancelled', 'yellow')}: {name}." if status == "cancelled" else f"{name} is {status}.")
        for error in errors:
            print_stderr(f"{style('error:', 'red', 'bold', stream=sys.stderr)} {escape(error.message)}")
    return _NOT_CANCELLED if errors else 0


async def _cancel_call(client: Client, text: str) -> CallRecord:
    async def unsettled() -> Sequence[CallRecord]:
        async with aclosing(client.calls.iterate(status=",".join(sorted(UNSETTLED)), page_size=PAGE_SIZE)) as found:
            return [call async for call in found]

    call = await find_call(client, text, among=unsettled, what="open call", see=_SEE)
    try:
        return await client.calls.cancel(call.id)
    except Conflict as fault:
        raise type(fault)(f"Call {call.id} of '{call.tool}' is {call.status}; nothing was changed.") from None
