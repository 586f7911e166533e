"""`jackfield switch`: turn a tool, a source or a key off for everybody, and on again."""

from argparse import Namespace
from collections.abc import Sequence

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, print_either, table
from jackfield.cli.target import connect
from jackfield.sdk.types import SwitchInfo


@command(
    """\
List what is switched off for everybody, switch a tool, a source or a key off, or on again. Needs an admin key.

It takes effect at once, at every gateway, whatever keys prefer ('jackfield prefer' is for your own key). What is off is
not offered to models; calls are refused, with the reason; calls that run go on. A key that is off gets 403, and its
streams end; it need not be made anew.""",
    argument(
        "action",
        nargs="?",
        choices=("list", "off", "on"),
        default="list",
        metavar="ACTION",
        help="list (default), off or on",
    ),
    argument("kind", nargs="?", choices=("tool", "source", "key"), metavar="KIND", help="tool, source or key"),
    argument("name", nargs="?", metavar="NAME", help="its name"),
    argument("--reason", metavar="TEXT", help="for off: why; said to whoever calls it"),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield switch
  jackfield switch off tool send_invoice --reason 'wrong amounts, being fixed'
  jackfield switch off source crm
  jackfield switch on tool send_invoice""",
)
async def switch(options: Namespace) -> int:
    _check(options)
    async with connect(options) as client:
        if options.action == "list":
            found = await client.switches.list()
            print_either(options, {"switches": found}, list_lines(found))
        elif options.action == "off":
            off = await client.switches.off(options.kind, options.name, reason=options.reason or "")
            print_either(options, {"switch": off}, [f"{_called(off)} is off for everybody."])
        else:
            on = await client.switches.on(options.kind, options.name)
            print_either(options, {"switch": on}, [f"{_called(on)} is on."])
    return 0


def _check(options: Namespace) -> None:
    if options.action == "list" and options.kind is not None:
        raise UsageError("'list' takes nothing more. Leave it out, or write off or on.")
    if options.action != "list" and options.name is None:
        raise UsageError(f"'{options.action}' needs what to switch: tool NAME, source NAME or key NAME.")
    if options.action != "off" and options.reason is not None:
        raise UsageError("--reason is for 'off'. Leave it out.")


def list_lines(found: Sequence[SwitchInfo]) -> list[str]:
    """Kind, name, reason, who and when."""
    if not found:
        return ["Nothing is switched off for everybody."]
    rows = [
        (one.kind, escape(one.name), escape(one.by or ""), one.at or "", escape(one.reason or "-")) for one in found
    ]
    return table(rows, header=("KIND", "NAME", "BY", "SINCE", "REASON"), styles=("dim", "bold"))


def _called(one: SwitchInfo) -> str:
    return f"{one.kind.capitalize()} '{escape(one.name)}'"
