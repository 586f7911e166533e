"""`jackfield login` and `jackfield connections`: logins at the servers behind the gateway."""

import asyncio
import os
import sys
import webbrowser
from argparse import Namespace
from collections.abc import Sequence

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, print_either, style, table
from jackfield.cli.target import connect
from jackfield.errors import NotFound
from jackfield.sdk import Client
from jackfield.sdk.connections import ConnectionInfo

LOOK_SECONDS = 1.0
LINK_SECONDS = 3600.0


@command(
    """\
Log in at a source: print a link, open it in a browser where there is one, and wait until the login is made.

The browser has to be signed in at the gateway as the same principal; the page asks for that. Where a source has one
login for everybody (auth = "shared"), an administrator makes it.""",
    argument("source", metavar="SOURCE", help="the source"),
    argument("--no-browser", action="store_true", help="only print the link"),
    argument("--no-wait", action="store_true", help="do not wait until the login is made"),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield login github
  jackfield login github --no-browser""",
)
async def login(options: Namespace) -> int:
    async with connect(options) as client:
        before = await _own(client, options.source)
        url = await client.connections.login(options.source)
        if options.json:
            print_either(options, {"login_url": url}, [])
        else:
            print(f"Open this link to log in at '{escape(options.source)}':\n  {style(url, 'bold')}", flush=True)
        if not options.no_browser and _has_screen():
            await asyncio.to_thread(webbrowser.open, url)
        if options.no_wait:
            return 0
        try:
            async with asyncio.timeout(LINK_SECONDS):
                done = await _made(client, options.source, before)
        except TimeoutError:
            print("The link is too old now. Run the command again.", file=sys.stderr)
            return 1
        if not options.json:
            scopes = f" ({' '.join(done.scopes)})" if done.scopes else ""
            print(f"Logged in at '{escape(options.source)}'{escape(scopes)}.")
    return 0


async def _own(client: Client, source: str) -> ConnectionInfo:
    """The connection that a login at the source makes: one's own, or the shared one."""
    me = (await client.identity()).principal
    found = await client.connections.list()
    own = next((one for one in found if one.source == source and one.principal in (None, me)), None)
    if own is None:
        raise NotFound(f"There is no source '{source}' that has logins. 'jackfield connections' lists those there are.")
    return own


async def _made(client: Client, source: str, before: ConnectionInfo) -> ConnectionInfo:
    while True:
        now = await _own(client, source)
        if now.status == "connected" and now.connected_at != before.connected_at:
            return now
        await asyncio.sleep(LOOK_SECONDS)


def _has_screen() -> bool:
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@command(
    """\
List who is logged in at which source, or end a login.

Lists your own connections and the shared ones; with an admin key everybody's. 'remove' forgets the login and revokes it
at the server where that can be done.""",
    argument(
        "action",
        nargs="?",
        choices=("list", "remove"),
        default="list",
        metavar="ACTION",
        help="list (default) or remove",
    ),
    argument("source", nargs="?", metavar="SOURCE", help="for remove: the source"),
    argument("--principal", metavar="NAME", help="for remove, with an admin key: whose login, if not your own"),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield connections
  jackfield connections remove github""",
)
async def connections(options: Namespace) -> int:
    if options.action == "remove" and options.source is None:
        raise UsageError("'remove' needs a source. Add it.")
    if options.action == "list" and (options.source is not None or options.principal is not None):
        raise UsageError("'list' takes no source and no --principal. Leave them out.")
    async with connect(options) as client:
        if options.action == "remove":
            await client.connections.remove(options.source, principal=options.principal)
            print_either(options, {"removed": options.source}, [f"Logged out of '{escape(options.source)}'."])
        else:
            found = await client.connections.list()
            lines = list_lines(found) or ["No source has logins."]
            print_either(options, {"connections": found}, lines)
    return 0


def list_lines(found: Sequence[ConnectionInfo]) -> list[str]:
    """Source, whose, status, scopes, since."""
    rows = [
        (
            escape(one.source),
            escape(one.principal or "everybody"),
            one.status,
            escape(" ".join(one.scopes)) or "-",
            one.connected_at or "-",
        )
        for one in found
    ]
    return table(rows, header=("SOURCE", "WHOSE", "STATUS", "SCOPES", "SINCE"), styles=("bold",))
