"""`jackfield answer ID JSON`: the result of a call that somebody else answers.

Above: `main.py`. Below: the SDK.
"""

import asyncio
from argparse import ArgumentParser, Namespace

from jackfield.cli.arguments import json_from
from jackfield.cli.reach import gateway
from jackfield.cli.show import harmless, paint, put, put_json
from jackfield.cli.usage import UsageError, add_gateway_arguments
from jackfield.cli.which_call import check_waits_for, find_call, too_late_is_said
from jackfield.sdk import CallRecord, Client, Receipt

DESCRIPTION = """\
Give a call that waits its result: any JSON, null included. The first answer counts, a second one is refused.

ID is the call's id or the beginning of it, if no other call that waits begins so.

exit codes: 0 answered, 2 not done (unknown, too late, not allowed)"""
EXAMPLES = """\
  jackfield answer call_019a2b3c4d5e '{"confirmed": true}'
  jackfield answer 019a2b3c4d5e '"yes"'                   (text needs JSON's quotes; also @file, or - for stdin)
  jackfield answer 019a2b3c4d5e --error 'Nobody is at home.'"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="the call")
    parser.add_argument("result", nargs="?", metavar="JSON", help="its result: JSON, @file, or - for stdin")
    parser.add_argument("--error", metavar="TEXT", help="settle it without a result: what the caller is told")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    if (options.result is None) is (options.error is None):
        raise UsageError("Give either a result as JSON or --error TEXT. A result that is text needs quotes: '\"yes\"'.")
    result = None if options.result is None else json_from(options.result, what="The result")
    return asyncio.run(_answer(options, result))


async def _answer(options: Namespace, result: object) -> int:
    async with gateway(options) as client:
        call = await find_call(client, options.id)
        check_waits_for(call, approval=False)
        with too_late_is_said(call):
            receipt = await _send(client, call, result, error=options.error)
    if options.json:
        put_json({"call_id": receipt.call_id, "agent": receipt.agent, "delivery": receipt.delivery})
    else:
        put(_line(call, receipt))
    return 0


async def _send(client: Client, call: CallRecord, result: object, *, error: str | None) -> Receipt:
    if error is not None:
        return await client.calls.fail(call.id, error, run_id=call.run_id)
    return await client.calls.answer(call.id, result, run_id=call.run_id)


def _line(call: CallRecord, receipt: Receipt) -> str:
    where = f"in the inbox of {harmless(receipt.agent)}" if receipt.agent else "in the call's record"
    if receipt.delivery == "inline":
        where = "with the caller, who waited for it"
    return f"{paint('Answered', 'green')}: {paint(harmless(call.tool), 'bold')} {call.id}; the answer is {where}."
