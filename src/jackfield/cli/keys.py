"""`jackfield keys`: list, create, rotate and revoke keys."""

from argparse import Namespace
from collections.abc import Iterator, Sequence

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, print_either, style, table
from jackfield.cli.target import connect
from jackfield.cli.times import seconds_in
from jackfield.sdk.keys import KeyInfo


@command(
    """\
List keys, create one, give one a new secret, or revoke one. Needs an admin key.

'create' and 'rotate' print the key once; the gateway keeps only its digest. After 'rotate' the old key ends at once, or
after --grace. 'revoke' also ends the key's logins and cancels its waiting calls. Keys of the config are changed there.
Durations are seconds, or 90s, 15m, 12h, 30d, 4w.""",
    argument(
        "action",
        nargs="?",
        choices=("list", "create", "rotate", "revoke"),
        default="list",
        metavar="ACTION",
        help="list (default), create, rotate or revoke",
    ),
    argument("name", nargs="?", metavar="NAME", help="the key"),
    argument("--scope", action="append", metavar="SCOPE", help="call (default), read, answer, admin, agent:NAME, …"),
    argument(
        "--tools",
        action="append",
        metavar="GLOB",
        help="limit it to these tools: a name, a glob or SOURCE:*; repeat for several",
    ),
    argument("--groups", action="append", metavar="GROUP", help="limit it to this group; repeat for several"),
    argument("--agents", action="append", metavar="AGENT", help="limit it to these agents; a name or glob"),
    argument("--spaces", action="append", metavar="SPACE", help="limit it to these spaces; a name or glob"),
    argument("--budget", type=int, metavar="POINTS", help="cost points per hour"),
    argument("--expires", metavar="DURATION", help="how long it is good for; without it, until it is revoked"),
    argument("--grace", metavar="DURATION", help="for rotate: how long the old key stays good"),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield keys
  jackfield keys create ci --scope call --tools 'build_*' --expires 30d
  jackfield keys rotate ci --grace 1h
  jackfield keys revoke ci""",
)
async def keys(options: Namespace) -> int:
    _check(options)
    async with connect(options) as client:
        if options.action == "list":
            found = await client.keys.list()
            print_either(options, {"keys": found}, list_lines(found))
        elif options.action == "revoke":
            await client.keys.revoke(options.name)
            print_either(options, {"revoked": options.name}, [f"Revoked the key '{escape(options.name)}'."])
        elif options.action == "rotate":
            made = await client.keys.rotate(options.name, grace=seconds_in(options.grace or "0", "--grace"))
            print_either(options, made, new_key_lines(made))
        else:
            made = await client.keys.create(
                options.name,
                scopes=options.scope or ("call",),
                tools=options.tools,
                groups=options.groups,
                agents=options.agents,
                spaces=options.spaces,
                budget=options.budget,
                expires_in=None if options.expires is None else seconds_in(options.expires, "--expires"),
            )
            print_either(options, made, new_key_lines(made))
    return 0


def _check(options: Namespace) -> None:
    if options.action != "list" and options.name is None:
        raise UsageError(f"'{options.action}' needs the name of a key. Add it.")
    if options.action == "list" and options.name is not None:
        raise UsageError("'list' takes no name. Leave it out.")
    limits = ("scope", "tools", "groups", "agents", "spaces", "budget", "expires")
    given = next((name for name in limits if getattr(options, name) is not None), None)
    if options.action != "create" and given is not None:
        raise UsageError(f"--{given} is for 'create'. Revoke the key and create it anew to change it.")
    if options.action != "rotate" and options.grace is not None:
        raise UsageError("--grace is for 'rotate'. Leave it out.")
    if options.budget is not None and options.budget < 0:
        raise UsageError(f"--budget is {options.budget}; it takes 0 or more points per hour.")
    if options.expires is not None and seconds_in(options.expires, "--expires") == 0:
        raise UsageError("--expires is 0: the key would never be good. Leave it out for a key that does not expire.")


def list_lines(found: Sequence[KeyInfo]) -> list[str]:
    """Name, scopes, limits, origin, expiry."""
    rows = [
        (escape(key.name), " ".join(key.scopes), escape(_limits(key)), key.origin, key.expires_at or "never")
        for key in found
    ]
    return table(rows, header=("NAME", "SCOPES", "LIMITS", "ORIGIN", "EXPIRES"), styles=("bold",))


def _limits(key: KeyInfo) -> str:
    named = {"tools": key.tools, "groups": key.groups, "agents": key.agents, "spaces": key.spaces}
    parts = [f"{kind}={','.join(names) or 'none'}" for kind, names in named.items() if names is not None]
    if key.budget is not None:
        parts.append(f"budget={key.budget}")
    return " ".join(parts) or "-"


def new_key_lines(made: KeyInfo) -> Iterator[str]:
    """The key, and that it is shown this once."""
    yield style(made.key or "", "bold")
    yield f"The key of '{escape(made.name)}'. It is not shown again: store it now."
    if made.old_key_until is not None:
        yield f"The old key is good until {made.old_key_until}."
    if made.expires_at is not None:
        yield f"It expires at {made.expires_at}."
