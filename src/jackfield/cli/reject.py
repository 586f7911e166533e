"""`jackfield reject ID`: a person refuses a call.

Above: `main.py`. Below: the SDK.
"""

import asyncio
from argparse import ArgumentParser, Namespace

from jackfield.cli.reach import gateway
from jackfield.cli.show import harmless, paint, put, put_json
from jackfield.cli.usage import add_gateway_arguments
from jackfield.cli.which_call import check_waits_for, find_call, too_late_is_said

DESCRIPTION = """\
Refuse a call that waits for a person. It never runs; whoever made it is told, with the reason.

ID is the call's id or the beginning of it, if no other call that waits begins so.

exit codes: 0 refused, 2 not done (unknown, too late, not allowed)"""
EXAMPLES = """\
  jackfield reject call_019a2b3c4d5e
  jackfield reject 019a2b3c4d5e --reason 'Too expensive; ask for less.'"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="the call")
    parser.add_argument("--reason", metavar="TEXT", help="why, for whoever made the call")
    parser.add_argument("--json", action="store_true", help="print the call's record as JSON")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    return asyncio.run(_reject(options))


async def _reject(options: Namespace) -> int:
    async with gateway(options) as client:
        call = await find_call(client, options.id)
        check_waits_for(call, approval=True)
        with too_late_is_said(call):
            rejected = await client.calls.reject(call.id, options.reason)
    if options.json:
        put_json(rejected)
    else:
        put(f"{paint('Refused', 'yellow')}: {paint(harmless(rejected.tool), 'bold')} {rejected.id}.")
    return 0
