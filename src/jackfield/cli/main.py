"""`jackfield COMMAND …`: find the command, run it, report errors.

Each command's module is imported when it is needed, so that `jackfield call` does not load the server. Exit codes:
0 success, 1 failure, 2 usage error or refused, 3 pending, 130 interrupted.
"""

import asyncio
import importlib
import logging
import os
import sys
from typing import cast

from msgspec import Struct

from jackfield import __version__
from jackfield.cli.options import Command, UsageError
from jackfield.cli.output import escape, print_json, print_stderr, style
from jackfield.errors import ConfigError, InvalidArguments, JackfieldError, Refused
from jackfield.model.text import nearest

FAILED = 1
USAGE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
DEBUG_VARIABLE = "JACKFIELD_DEBUG"


class CommandEntry(Struct, frozen=True):
    """A command as `jackfield --help` lists it; the module has a function of the command's name."""

    module: str
    summary: str


COMMANDS = {
    "serve": CommandEntry("serve", "run the gateway"),
    "init": CommandEntry("init", "create a small working project"),
    "work": CommandEntry("work", "run tool files here for a gateway that is elsewhere"),
    "tools": CommandEntry("tools", "list or search tools, or show one in detail"),
    "resources": CommandEntry("reading", "list resources and their templates, or read one"),
    "prompts": CommandEntry("reading", "list prompts, or get one with its arguments"),
    "groups": CommandEntry("groups", "list, show, set or remove groups of tools"),
    "keys": CommandEntry("keys", "list, create, rotate or revoke keys"),
    "switch": CommandEntry("switches", "switch a tool, a source or a key off for everybody, or on again"),
    "users": CommandEntry("users", "list who signed in, or sign somebody out everywhere"),
    "grants": CommandEntry("grants", "list what OAuth clients were allowed, or end it"),
    "login": CommandEntry("connections", "log in at a source"),
    "connections": CommandEntry("connections", "list who is logged in at which source, or end a login"),
    "notifications": CommandEntry(
        "notifications", "list what targets were told of, retry what failed, or test a target"
    ),
    "vault": CommandEntry("vault", "show how the vault stands, or give it a new key"),
    "audit": CommandEntry("audit", "list who changed what, export it, or check that nobody tampered with it"),
    "reload": CommandEntry("reload", "have the gateway read its config file anew"),
    "sources": CommandEntry("sources", "list, add, edit, remove, test or restart tool sources"),
    "secrets": CommandEntry("secrets", "list, set or remove secrets of sources and models"),
    "models": CommandEntry("models", "list, add, edit, remove or test models"),
    "prefer": CommandEntry("tools", "enable or disable a tool, or require approval for it"),
    "call": CommandEntry("calls", "call a tool and print its result"),
    "result": CommandEntry("calls", "print the result of a call, whole or by page"),
    "pending": CommandEntry("pending", "list calls that need an approval or a result"),
    "approve": CommandEntry("pending", "approve a call"),
    "reject": CommandEntry("pending", "reject a call"),
    "answer": CommandEntry("pending", "submit the result of a pending call"),
    "chat": CommandEntry("chat", "join a space: follow it, send messages, answer agents"),
    "agents": CommandEntry("agents", "list the agents, their status and last cycle"),
    "spaces": CommandEntry("agents", "list the spaces and their members"),
    "calls": CommandEntry("history", "list calls on record, or show one in detail"),
    "runs": CommandEntry("runs", "list runs, or show, follow, cancel or resume one"),
    "cancel": CommandEntry("history", "cancel calls or responses"),
    "tail": CommandEntry("calls", "follow calls live"),
    "logs": CommandEntry("sources", "show a worker's log, or list the workers"),
    "accept": CommandEntry("sources", "review and accept changed definitions of tools and prompts"),
    "refuse": CommandEntry("sources", "review and refuse changed definitions of tools and prompts"),
    "import": CommandEntry("import_", "add MCP servers from another program's config"),
    "connect": CommandEntry("connect", "add this gateway to an editor or coding agent"),
    "mcp": CommandEntry("mcp", "serve the catalog over MCP on stdin and stdout"),
    "bridge": CommandEntry("bridge", "in a sandbox: serve the session's tools over MCP on stdin and stdout"),
    "backup": CommandEntry("backup", "copy the database, the config and its files into one file"),
    "restore": CommandEntry("backup", "write a backup's files into a folder"),
    "doctor": CommandEntry("doctor", "check the machine, the config, the sources and the gateway"),
    "completion": CommandEntry("completion", "print a script that completes commands in bash, zsh or fish"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code."""
    line = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal's encoding lacks are escaped.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _run(line)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (such as head) has closed the pipe. Python must not flush to it at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _run(line: list[str]) -> int:
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        return _dispatch(line)
    except JackfieldError as error:
        if os.environ.get(DEBUG_VARIABLE):
            logging.getLogger(__name__).exception("The command failed:")
        _report(error, line)
        return exit_code(error, command=line[0] if line else "")
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        _report(
            JackfieldError(
                f"Unexpected {type(error).__name__}: {error}. "
                f"Run it again with {DEBUG_VARIABLE}=1 for the traceback, and please report it."
            ),
            line,
        )
        return FAILED


def _dispatch(line: list[str]) -> int:
    if not line or line[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if line else USAGE
    name = line[0]
    if name == "--version":
        print(f"jackfield {__version__}")
        return 0
    if name not in COMMANDS:
        hint = nearest(name, list(COMMANDS)) or f" Known: {', '.join(COMMANDS)}."
        raise UsageError(f"There is no command '{name}'.{hint} See 'jackfield --help'.")
    module = importlib.import_module(f"jackfield.cli.{COMMANDS[name].module}")
    command = cast("Command", getattr(module, "import_" if name == "import" else name))
    code = command.run(command.read(name, line[1:]))
    return code if isinstance(code, int) else asyncio.run(code)


def overview() -> str:
    """The text of `jackfield --help`."""
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {style(name.ljust(width), 'bold')}  {entry.summary}" for name, entry in COMMANDS.items())
    return (
        "usage: jackfield COMMAND [options]\n\n"
        "A gateway between AI agents and tools.\n\n"
        f"commands:\n{lines}\n\n"
        "start here:\n"
        "  jackfield init demo && cd demo && jackfield serve\n"
        "  jackfield call greet name=Ada          (in another terminal, in the same folder)\n\n"
        "'jackfield COMMAND --help' shows a command's options and examples."
    )


def exit_code(error: JackfieldError, *, command: str) -> int:
    """2 if another command line would help, else 1.

    `call` returns 1 only if the tool failed, so a config error, which prevents the call, is 2 there.
    """
    if isinstance(error, ConfigError):
        return USAGE if command == "call" else FAILED
    return USAGE if isinstance(error, (UsageError, Refused)) else FAILED


def _report(error: JackfieldError, line: list[str]) -> None:
    """The error on stderr, or as JSON on stdout if the command line, valid or not, asks for JSON."""
    if ("--raw" if line[:1] == ["call"] else "--json") not in line:
        print_stderr(f"{style('error:', 'red', 'bold', stream=sys.stderr)} {escape(error.message)}")
        return
    shown: dict[str, object] = {"code": error.code, "message": error.message}
    if isinstance(error, Refused):
        shown["param"] = error.param
    if isinstance(error, InvalidArguments):
        shown["details"] = error.details
    print_json({"error": shown})
