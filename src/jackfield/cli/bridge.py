"""`jackfield bridge`: what the caller of a session lends, as an MCP server over stdin and stdout, inside a sandbox.

Above: `main.py`. Below: with `--socket` the session's own socket, by `sessions/bridge.py`, which needs nothing but the
standard library; with `--url` the gateway's `/mcp` and the session's key, outbound only.
"""

import importlib
import os
from argparse import ArgumentParser, Namespace

from jackfield.cli.usage import UsageError
from jackfield.sessions.bridge import serve

DESCRIPTION = """\
Serve the tools that a session's caller lends to the agent in this sandbox, as an MCP server over stdin and stdout.
With --socket by the session's socket; with --url and --token over HTTP, for sandboxes that share no file system with
the gateway. Without options it uses JACKFIELD_SOCKET, else JACKFIELD_URL and JACKFIELD_TOKEN. Logs go to stderr.
A socket that is not there yet, or is gone, is tried again and again; the client is told when its tools are there.

exit codes: 0 the client hung up, 1 the socket was not there for as long as --wait says, 2 wrong usage"""
EXAMPLES = """\
  jackfield bridge --socket "$JACKFIELD_SOCKET"
  jackfield bridge --url https://gateway.example    # the key is in JACKFIELD_TOKEN"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--socket", metavar="PATH", help="the session's socket (JACKFIELD_SOCKET)")
    parser.add_argument("--url", help="the gateway, in place of the socket (JACKFIELD_URL)")
    parser.add_argument(
        "--token", help="the session's key, for --url (better JACKFIELD_TOKEN: who lists processes sees this)"
    )
    parser.add_argument(
        "--wait", type=_seconds, metavar="SECONDS", help="exit when the socket is not there for so long (else never)"
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError
    return seconds


def run(options: Namespace) -> int:
    if options.socket and options.url:
        raise UsageError("Give --socket or --url, not both.")
    path = options.socket or (None if options.url else os.environ.get("JACKFIELD_SOCKET"))
    if path is not None:
        return serve(path, wait=options.wait)
    url = options.url or os.environ.get("JACKFIELD_URL")
    token = options.token or os.environ.get("JACKFIELD_TOKEN")
    if not url or not token:
        raise UsageError("Give --socket PATH, or --url URL and --token TOKEN. See 'jackfield bridge --help'.")
    return _over_http(url, token)


def _over_http(url: str, token: str) -> int:
    """`mcp.py` is loaded here and not above: a bridge on a socket needs none of it."""
    mcp = importlib.import_module("jackfield.cli.mcp")
    code: int = mcp.serve_at(url, token)
    return code
