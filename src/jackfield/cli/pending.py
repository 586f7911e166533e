"""`jackfield pending`, `approve`, `reject` and `answer`: calls that need an approval or a result."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import UTC, datetime

from jackfield.cli.arguments import json_object, json_value
from jackfield.cli.call_ids import find_call
from jackfield.cli.calls import RUN_PROGRAM, exit_code, print_outcome, shows_program
from jackfield.cli.options import GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import (
    compact,
    duration,
    escape,
    local_time,
    print_either,
    print_json,
    print_json_line,
    style,
    table,
    timestamp,
)
from jackfield.cli.target import connect
from jackfield.errors import CallNotFound, Conflict, Expired
from jackfield.model.text import counted
from jackfield.sdk import CallEvent, CallRecord, Client, Receipt

NEEDS = {"pending_approval": "approval", "pending_login": "login", "pending": "result", "waiting": "result now"}
"""What a call in this status needs; `waiting`: the caller is still connected."""
_COLORS = {
    "approval": "yellow",
    "login": "yellow",
    "result": "cyan",
    "result now": "cyan",
    "approved": "green",
    "completed": "green",
}
_SEE = "'jackfield pending' lists the pending calls."
_ID = argument("id", help="the call's id, or an unambiguous prefix")
_RECORD = argument("--json", action="store_true", help="print the call's record as JSON")


@command(
    "List pending calls, newest first: id, what it needs, tool, caller, age, time left, arguments.",
    argument("--tool", help="only calls of this tool"),
    argument("--agent", help="only calls of this agent"),
    argument("--watch", action="store_true", help="keep running: print calls as they become pending or are settled"),
    argument("--json", action="store_true", help="print JSON; with --watch, one event per line"),
    *GATEWAY,
    examples="""\
  jackfield pending
  jackfield pending --watch              (until Ctrl-C)
  jackfield pending --json | jq '.calls[].id'""",
)
async def pending(options: Namespace) -> int:
    if options.watch:
        await _watch(options)
        return 0
    async with connect(options) as client:
        calls = await client.calls.pending(tool=options.tool, agent=options.agent)
    print_either(options, {"calls": calls}, [*pending_lines(calls, now=datetime.now(UTC)), *next_steps(calls)])
    return 0


async def _watch(options: Namespace) -> None:
    async with (
        connect(options) as client,
        aclosing(client.calls.follow(status="pending", tool=options.tool, agent=options.agent)) as events,
    ):
        shown: dict[str, str] = {}
        async for event in events:
            # After a reconnect the gateway repeats what is pending.
            if shown.get(event.call_id) == event.status and event.type == "call.pending":
                continue
            if event.status in NEEDS:
                shown[event.call_id] = event.status
            else:
                shown.pop(event.call_id, None)
            if options.json:
                print_json_line(event)
            else:
                print(event_line(event, await _arguments(event, client)), flush=True)


async def _arguments(event: CallEvent, client: Client) -> str:
    """The arguments of a call that has become pending; its event does not have them."""
    if event.type == "call.progress" or event.status not in NEEDS:
        return ""
    try:
        return compact((await client.calls.get(event.call_id)).arguments)
    except CallNotFound:
        return ""


def pending_lines(calls: Sequence[CallRecord], *, now: datetime) -> list[str]:
    if not calls:
        return ["No pending calls."]
    rows = []
    for call in calls:
        created = timestamp(call.created_at)
        # A connected caller waits until its deadline, a call alone until it expires.
        end = timestamp(call.deadline if call.status == "waiting" else call.expires_at)
        rows.append(
            (
                call.id,
                NEEDS.get(call.status, call.status),
                escape(call.tool),
                caller_of(call),
                duration(now - created) if created else "-",
                duration(end - now) if end else "-",
                compact(call.arguments),
            )
        )
    header = ("ID", "NEEDS", "TOOL", "CALLER", "AGE", "LEFT", "ARGUMENTS")
    return table(rows, header=header, styles=("bold", "yellow", "", "", "dim", "dim"))


def caller_of(call: CallRecord) -> str:
    """`ada`, or `planner for ada` if an agent acts for another principal."""
    principal = (call.principal or "nobody").removeprefix("agent:")
    return escape(principal if call.agent in (None, principal) else f"{call.agent} for {principal}")


def next_steps(calls: Sequence[CallRecord]) -> Iterator[str]:
    """Commands to paste."""
    approvals = [call for call in calls if call.status == "pending_approval"]
    wanting = [call for call in calls if call.status == "pending_login"]
    logins = {(call.login and (call.login.source, call.login.principal)): call for call in wanting}
    programs = [call for call in calls if call.status == "pending" and call.tool == RUN_PROGRAM]
    answers = [call for call in calls if call.status in ("pending", "waiting") and call not in programs]
    if not calls:
        return
    yield ""
    if approvals:
        yield f"{counted(len(approvals), 'call')} to approve or reject:"
        yield from (f"  {escape(why)}" for call in approvals if (why := _asked_because(call)))
        yield f"  jackfield approve {approvals[0].id}"
        yield f"  jackfield reject {approvals[0].id} --reason '…'"
    if logins:
        yield f"{counted(len(wanting), 'call')} waiting for a login:"
        yield from (f"  {_login_step(call)}" for call in logins.values())
    if answers:
        yield f"{counted(len(answers), 'call')} to answer:"
        yield f"  jackfield answer {answers[0].id} JSON"
    if programs:
        yield f"{counted(len(programs), 'program')} waiting for calls of their own:"
        yield f"  {shows_program(programs[0].id)}"


def _asked_because(call: CallRecord) -> str:
    """Why a hook wants somebody to look."""
    reasons = (f"{note.name}: {note.reason}" for note in call.hooks if note.decision == "ask" and note.reason)
    said = ", ".join(dict.fromkeys(reasons))
    return f"{call.id}  {said}" if said else ""


def _login_step(call: CallRecord) -> str:
    """Where to log in, or who has to."""
    source = "" if call.login is None else escape(call.login.source)
    if call.login_url is not None:
        return f"{source}: open {escape(call.login_url)}"
    whose = None if call.login is None else call.login.principal
    return f"{source}: waits for {'an administrator' if whose is None else escape(whose)}"


def event_line(event: CallEvent, arguments: str) -> str:
    """`12:30:05  approval  guarded  call_…  {"amount":5}`, and later `12:31:00  approved …`"""
    status = NEEDS.get(event.status or "", event.status or event.type)
    if event.type in ("call.approved", "call.logged_in"):
        status = "approved" if event.type == "call.approved" else "logged in"
    words = [
        style(local_time(event.at), "dim"),
        style(status.ljust(10), _COLORS.get(status, "dim")),
        style(escape(event.tool), "bold"),
        event.call_id,
        arguments,
    ]
    return "  ".join(word for word in words if word)


@command(
    """\
Approve a call. It runs once; its result goes to the caller.

exit codes: 0 approved, 2 not approved (unknown, too late, refused); with --wait as in 'jackfield call'""",
    _ID,
    argument("--edit", metavar="OBJECT", help="run it with these arguments: JSON, @file, or - for stdin"),
    argument("--wait", action="store_true", help="wait until it has finished and print the result"),
    _RECORD,
    *GATEWAY,
    examples="""\
  jackfield approve call_019a2b3c4d5e
  jackfield approve 019a2b3c4d5e --edit '{"amount": 50}'     (changed arguments; also --edit @file)
  jackfield approve 019a2b3c4d5e --wait                      (and print the result)""",
)
async def approve(options: Namespace) -> int:
    edited = None if options.edit is None else json_object(options.edit, what="The value of --edit")
    async with connect(options) as client:
        call = await _find(client, options.id, approval=True, approves=True)
        with _conflicts_named(call):
            approved = await client.calls.approve(call.id, edited)
        if options.wait:
            approved = await client.calls.wait(call.id)
    if options.json:
        print_json(approved)
    elif options.wait:
        print_outcome(approved)
    else:
        then = "waiting for its result" if approved.status == "pending" else "running"
        changed = " with changed arguments" if approved.asked_arguments != approved.arguments else ""
        print(f"{style('Approved', 'green')}{changed}: {_name(approved)}; {then}.")
    return exit_code(approved) if options.wait else 0


@command(
    """\
Reject a call. It never runs; the caller gets the reason.

exit codes: 0 rejected, 2 not rejected (unknown, too late, not allowed)""",
    _ID,
    argument("--reason", metavar="TEXT", help="the reason, for the caller"),
    _RECORD,
    *GATEWAY,
    examples="""\
  jackfield reject call_019a2b3c4d5e
  jackfield reject 019a2b3c4d5e --reason 'Too expensive; ask for less.'""",
)
async def reject(options: Namespace) -> int:
    async with connect(options) as client:
        call = await _find(client, options.id, approval=True)
        with _conflicts_named(call):
            rejected = await client.calls.reject(call.id, options.reason)
    print_either(options, rejected, [f"{style('Rejected', 'yellow')}: {_name(rejected)}."])
    return 0


@command(
    """\
Submit the result of a pending call: any JSON, including null. The first answer wins; later ones are rejected.

exit codes: 0 answered, 2 not answered (unknown, too late, not allowed)""",
    _ID,
    argument("result", nargs="?", metavar="JSON", help="the result: JSON, @file, or - for stdin"),
    argument("--error", metavar="TEXT", help="fail the call with this message"),
    JSON,
    *GATEWAY,
    examples="""\
  jackfield answer call_019a2b3c4d5e '{"confirmed": true}'
  jackfield answer 019a2b3c4d5e '"yes"'                   (a string in JSON quotes; also @file, or - for stdin)
  jackfield answer 019a2b3c4d5e --error 'Nobody is at home.'""",
)
async def answer(options: Namespace) -> int:
    if (options.result is None) is (options.error is None):
        raise UsageError("Give either a result as JSON or --error TEXT. A string needs JSON quotes: '\"yes\"'.")
    result = None if options.result is None else json_value(options.result, what="The result")
    async with connect(options) as client:
        call = await _find(client, options.id, approval=False)
        with _conflicts_named(call):
            if options.error is not None:
                receipt = await client.calls.fail(call.id, options.error, run_id=call.run_id)
            else:
                receipt = await client.calls.answer(call.id, result, run_id=call.run_id)
    print_either(
        options,
        {"call_id": receipt.call_id, "agent": receipt.agent, "delivery": receipt.delivery},
        [f"{style('Answered', 'green')}: {_name(call)}; {_delivery(receipt)}."],
    )
    return 0


def _delivery(receipt: Receipt) -> str:
    if receipt.delivery == "inline":
        return "delivered to the waiting caller"
    return f"delivered to the inbox of {escape(receipt.agent)}" if receipt.agent else "stored with the call"


def _name(call: CallRecord) -> str:
    return f"{style(escape(call.tool), 'bold')} {call.id}"


async def _find(client: Client, text: str, *, approval: bool, approves: bool = False) -> CallRecord:
    """The call with this id, or the pending one with this prefix, if it needs what the command gives."""
    call = await find_call(client, text, among=client.calls.pending, what="pending call", see=_SEE)
    if approves and call.status == "pending_login":
        raise UsageError(f"Call {call.id} of '{call.tool}' needs a login, not an approval: {_login_step(call)}.")
    if approval and call.status in ("pending", "waiting"):
        raise UsageError(
            f"Call {call.id} of '{call.tool}' needs a result, not an approval: jackfield answer {call.id} JSON."
        )
    if not approval and call.status == "pending_approval":
        raise UsageError(
            f"Call {call.id} of '{call.tool}' must be approved before it can be answered: jackfield approve {call.id}."
        )
    return call


@contextmanager
def _conflicts_named(call: CallRecord) -> Iterator[None]:
    """Say which call is settled or expired, and that nothing was changed."""
    try:
        yield
    except Expired:
        raise Expired(f"Call {call.id} of '{call.tool}' has expired. Make the call again.") from None
    except Conflict as fault:
        raise type(fault)(f"{fault.message} Nothing was changed. {_SEE}", param=fault.param) from None
