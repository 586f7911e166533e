"""`jackfield secrets`: list, set and remove the secrets of sources that are made at run time."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from getpass import getpass

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, print_either, table
from jackfield.cli.target import connect
from jackfield.sdk.secrets import SecretInfo


@command(
    """\
List the secrets that sources made at run time use as ${NAME}, set one, or remove one. Needs an admin key.

'set' asks for the value on the terminal, or reads it from stdin. The gateway keeps it encrypted and never shows it.
Sources that use it begin anew.""",
    argument(
        "action",
        nargs="?",
        choices=("list", "set", "remove"),
        default="list",
        metavar="ACTION",
        help="list (default), set or remove",
    ),
    argument("name", nargs="?", metavar="NAME", help="the secret"),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield secrets
  jackfield secrets set GITHUB_TOKEN                 (asks for the value)
  jackfield secrets set GITHUB_TOKEN < token.txt
  jackfield secrets remove GITHUB_TOKEN""",
)
async def secrets(options: Namespace) -> int:
    if options.action != "list" and options.name is None:
        raise UsageError(f"'{options.action}' needs the name of a secret. Add it.")
    if options.action == "list" and options.name is not None:
        raise UsageError("'list' takes no name. Leave it out.")
    value = _value(options.name) if options.action == "set" else ""
    async with connect(options) as client:
        if options.action == "list":
            found = await client.secrets.list()
            print_either(options, {"secrets": found}, list_lines(found))
        elif options.action == "set":
            kept = await client.secrets.set(options.name, value)
            print_either(options, {"secret": kept}, [f"Set the secret '{escape(kept.name)}'."])
        else:
            await client.secrets.delete(options.name)
            print_either(options, {"removed": options.name}, [f"Removed the secret '{escape(options.name)}'."])
    return 0


def _value(name: str) -> str:
    """From the terminal without echo, or all of stdin without its last line end."""
    value = getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not value:
        raise UsageError("The value is empty. Nothing was set.")
    return value


def list_lines(found: Sequence[SecretInfo]) -> list[str]:
    """Name, when and by whom it was set."""
    if not found:
        return ["No secrets. Set one with 'jackfield secrets set NAME'."]
    rows = [(escape(one.name), one.updated_at, escape(one.updated_by)) for one in found]
    return table(rows, header=("NAME", "SET AT", "BY"), styles=("bold", "dim", "dim"))
