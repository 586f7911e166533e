"""`jackfield bridge`: in a sandbox, the session's tools as an MCP server on stdin and stdout.

With `--socket` by `sessions/bridge.py`, which needs only the standard library; with `--url` over HTTP by `mcp.py`.
"""

import importlib
import os
from argparse import Namespace

from jackfield.cli.options import UsageError, argument, command
from jackfield.sessions.bridge import serve


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError
    return seconds


@command(
    """\
Serve the caller tools of a session to the agent in this sandbox, as an MCP server on stdin and stdout. --socket uses
the session's socket; --url and --token use HTTP, for sandboxes that share no file system with the gateway. Without
options: JACKFIELD_SOCKET, else JACKFIELD_URL and JACKFIELD_TOKEN. Logs go to stderr. The bridge reconnects to a socket
that is missing or closed, and notifies the client when its tools are available.

exit codes: 0 the client disconnected, 1 no socket within --wait seconds, 2 usage error""",
    argument("--socket", metavar="PATH", help="the session's socket (JACKFIELD_SOCKET)"),
    argument("--url", help="URL of the gateway, instead of the socket (JACKFIELD_URL)"),
    argument("--token", help="the session's key, for --url (prefer JACKFIELD_TOKEN: options show in process lists)"),
    argument("--wait", type=_seconds, metavar="SECONDS", help="exit after so long without a socket (default: never)"),
    examples="""\
  jackfield bridge --socket "$JACKFIELD_SOCKET"
  jackfield bridge --url https://gateway.example    # the key is in JACKFIELD_TOKEN""",
)
def bridge(options: Namespace) -> int:
    if options.socket and options.url:
        raise UsageError("Give --socket or --url, not both.")
    path = options.socket or (None if options.url else os.environ.get("JACKFIELD_SOCKET"))
    if path is not None:
        return serve(path, wait=options.wait)
    url = options.url or os.environ.get("JACKFIELD_URL")
    token = options.token or os.environ.get("JACKFIELD_TOKEN")
    if not url or not token:
        raise UsageError("Give --socket PATH, or --url URL and --token TOKEN. See 'jackfield bridge --help'.")
    # Imported late: a bridge on a socket does not need it.
    code: int = importlib.import_module("jackfield.cli.mcp").serve_url(url, token)
    return code
