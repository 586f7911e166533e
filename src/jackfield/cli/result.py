"""`jackfield result ID`: what a call came to, whole, however large, or a page of it.

Above: `main.py`. Below: the SDK.
"""

import asyncio
import sys
from argparse import ArgumentParser, Namespace

from jackfield.cli.outcome import exit_code, show_failure
from jackfield.cli.reach import gateway
from jackfield.cli.show import harmless, note, put_json, put_result
from jackfield.cli.usage import add_gateway_arguments

DESCRIPTION = """\
Print the result of a call that is over: text as it is, anything else as JSON. A large one is read by pages and checked
against its digest.

With --offset or --limit one page of its JSON text, as it is; stderr says where the next begins.

Of a call that failed, stderr says why; with an administrator's key also where in its tool file.

exit codes: 0 printed, 1 the call failed, 2 not there (unknown, not over yet, not allowed)"""
EXAMPLES = """\
  jackfield result call_019a2b3c4d5e
  jackfield result call_019a2b3c4d5e > report.json
  jackfield result call_019a2b3c4d5e --offset 100000 --limit 2000     (bytes of the JSON text)
  jackfield result call_019a2b3c4d5e --limit 2000 --json              (with its size, its digest and the next offset)"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", help="the call")
    parser.add_argument("--offset", type=int, metavar="BYTES", help="where the page begins")
    parser.add_argument("--limit", type=int, metavar="BYTES", help="how much of the text the page has at most")
    parser.add_argument("--json", action="store_true", help="print JSON, also for text and pages")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    is_page = options.offset is not None or options.limit is not None
    return asyncio.run(_show_page(options) if is_page else _show_whole(options))


async def _show_whole(options: Namespace) -> int:
    async with gateway(options) as client:
        result = await client.calls.result(options.id)
        call = await client.calls.get(options.id)
    if options.json:
        put_json(result)
    elif result is not None or call.status == "completed":
        put_result(result)
    if call.status != "completed":
        show_failure(call)
    return exit_code(call)


async def _show_page(options: Namespace) -> int:
    async with gateway(options) as client:
        page = await client.calls.result_page(options.id, offset=options.offset or 0, limit=options.limit)
    if options.json:
        put_json(page)
        return 0
    # Nothing is added to the text, so that pages in a row can be joined in a file.
    sys.stdout.write(harmless(page.text) if sys.stdout.isatty() else page.text)
    sys.stdout.flush()
    end = "the end" if page.next_offset is None else f"--offset {page.next_offset} goes on"
    note(f"\n{page.offset} to {page.offset + len(page.text.encode())} of {page.size} bytes; {end}.")
    return 0
