"""`jackfield approve ID`: a person allows a call, perhaps with other arguments.

Above: `main.py`. Below: the SDK.
"""

import asyncio
from argparse import ArgumentParser, Namespace

from jackfield.cli.arguments import object_from
from jackfield.cli.outcome import exit_code, show_record
from jackfield.cli.reach import gateway
from jackfield.cli.show import harmless, paint, put, put_json
from jackfield.cli.usage import add_gateway_arguments
from jackfield.cli.which_call import check_waits_for, find_call, too_late_is_said
from jackfield.sdk import CallRecord

DESCRIPTION = """\
Allow a call that waits for a person. It then runs once; its result goes to whoever made it.

ID is the call's id or the beginning of it, if no other call that waits begins so.

exit codes: 0 allowed, 2 not allowed (unknown, too late, refused); with --wait as in 'jackfield call'"""
EXAMPLES = """\
  jackfield approve call_019a2b3c4d5e
  jackfield approve 019a2b3c4d5e --edit '{"amount": 50}'     (other arguments; also --edit @file)
  jackfield approve 019a2b3c4d5e --wait                      (and print the result)"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="the call")
    parser.add_argument("--edit", metavar="OBJECT", help="call it with these arguments: JSON, @file, or - for stdin")
    parser.add_argument("--wait", action="store_true", help="wait until it is settled and print its result")
    parser.add_argument("--json", action="store_true", help="print the call's record as JSON")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    edited = None if options.edit is None else object_from(options.edit, what="The value of --edit")
    return asyncio.run(_approve(options, edited))


async def _approve(options: Namespace, edited: dict[str, object] | None) -> int:
    async with gateway(options) as client:
        call = await find_call(client, options.id)
        check_waits_for(call, approval=True)
        with too_late_is_said(call):
            approved = await client.calls.approve(call.id, edited)
        if options.wait:
            approved = await client.calls.wait(call.id)
    if options.json:
        put_json(approved)
    elif options.wait:
        show_record(approved)
    else:
        put(_line(approved))
    return exit_code(approved) if options.wait else 0


def _line(call: CallRecord) -> str:
    then = "somebody else answers it" if call.status == "pending" else "it runs now"
    edited = " with changed arguments" if call.asked_arguments != call.arguments else ""
    return f"{paint('Allowed', 'green')}{edited}: {paint(harmless(call.tool), 'bold')} {call.id}; {then}."
