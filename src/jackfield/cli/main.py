"""`jackfield COMMAND …`: finds the command, runs it, and says in one sentence what went wrong.

Above: the shell. Below: one module per command, loaded when it is asked for, so that `jackfield call` does not wait
for the server's code. Exit codes: 0 done, 1 failed, 2 usage or refused, 3 pending, 130 interrupted.
"""

import importlib
import logging
import os
import sys
from typing import cast

from msgspec import Struct

from jackfield import __version__
from jackfield.cli.show import harmless, note, paint, put, put_json
from jackfield.cli.usage import CommandModule, UsageError, parser_of
from jackfield.errors import ConfigError, InvalidArguments, JackfieldError, Refused
from jackfield.settings.parsing import nearest

FAILED = 1
USAGE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
DEBUG_VARIABLE = "JACKFIELD_DEBUG"


class Command(Struct, frozen=True, kw_only=True):
    """A command as `jackfield --help` lists it."""

    module: str
    summary: str


COMMANDS = {
    "serve": Command(module="serve", summary="run the gateway"),
    "init": Command(module="init", summary="write a small working project"),
    "tools": Command(module="tools", summary="list and search the tools, or show one whole"),
    "sources": Command(module="sources", summary="show where the tools come from, and how those places are"),
    "prefer": Command(module="prefer", summary="switch a tool on or off, or have a person asked first"),
    "call": Command(module="call", summary="call a tool and print its result"),
    "result": Command(module="result", summary="print a call's result, however large, or a page of it"),
    "pending": Command(module="pending", summary="show the calls that wait for a person or an answer"),
    "approve": Command(module="approve", summary="allow a call that waits for a person"),
    "reject": Command(module="reject", summary="refuse a call that waits for a person"),
    "answer": Command(module="answer", summary="give a call that waits its result"),
    "chat": Command(module="chat", summary="be in a space: see what happens there, speak, and answer agents"),
    "agents": Command(module="agents", summary="show who lives here, asleep or awake, and what they did last"),
    "spaces": Command(module="spaces", summary="list the spaces and who is in them"),
    "tail": Command(module="tail", summary="watch calls as they happen"),
    "logs": Command(module="logs", summary="show what a tool file's worker wrote, or how all workers are"),
    "accept": Command(module="accept", summary="look at changed definitions of foreign tools and take them"),
    "import": Command(module="import_", summary="add another program's MCP servers to the config"),
    "connect": Command(module="connect", summary="add this gateway to an editor or a coding agent"),
    "mcp": Command(module="mcp", summary="serve the catalog to an MCP client, over stdin and stdout"),
    "bridge": Command(module="bridge", summary="inside a sandbox: serve what a session's caller lends, as MCP"),
    "doctor": Command(module="doctor", summary="check this machine, the config, the sources and the gateway"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its number instead of a crash.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _run(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, say) has seen enough. Nothing may be written to its pipe at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _run(given: list[str]) -> int:
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        return _dispatch(given)
    except JackfieldError as error:
        if os.environ.get(DEBUG_VARIABLE):
            logging.getLogger(__name__).exception("The command failed:")
        _say(error, as_json=_wants_json(given))
        return exit_code(error, command=given[0] if given else "")
    except BrokenPipeError:
        raise  # whoever reads has seen enough; that is no fault
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        unexpected = JackfieldError(
            f"This should not have happened: {type(error).__name__}: {error}. "
            f"Run it again with {DEBUG_VARIABLE}=1 to see where, and please report that."
        )
        _say(unexpected, as_json=_wants_json(given))
        return FAILED


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help", "help"):
        put(overview())
        return 0 if given else USAGE
    if given[0] == "--version":
        put(f"jackfield {__version__}")
        return 0
    if given[0] not in COMMANDS:
        meant = nearest(given[0], list(COMMANDS))
        known = meant or f" Known: {', '.join(COMMANDS)}."
        raise UsageError(f"There is no command '{given[0]}'.{known} See 'jackfield --help'.")
    command = cast("CommandModule", importlib.import_module(f"jackfield.cli.{COMMANDS[given[0]].module}"))
    return command.run(parser_of(given[0], command).parse_intermixed_args(given[1:]))


def overview() -> str:
    """What `jackfield --help` says."""
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {paint(name.ljust(width), 'bold')}  {command.summary}" for name, command in COMMANDS.items())
    return (
        "usage: jackfield COMMAND [options]\n\n"
        "The panel where an AI agent's tools plug in.\n\n"
        f"commands:\n{lines}\n\n"
        "start here:\n"
        "  jackfield init demo && cd demo && jackfield serve\n"
        "  jackfield call greet name=Ada          (in another terminal, in the same folder)\n\n"
        "'jackfield COMMAND --help' shows a command's options and examples."
    )


def exit_code(error: JackfieldError, *, command: str) -> int:
    """2 for what the asker can put right by asking differently, 1 for everything else.

    `call` says 1 for a tool that failed, so a config that kept the call from being made is 2 there.
    """
    if isinstance(error, ConfigError):
        return USAGE if command == "call" else FAILED
    return USAGE if isinstance(error, (UsageError, Refused)) else FAILED


def _say(error: JackfieldError, *, as_json: bool) -> None:
    if as_json:
        put_json({"error": _error_object(error)})
    else:
        note(f"{paint('error:', 'red', 'bold', stream=sys.stderr)} {harmless(error.message)}")


def _error_object(error: JackfieldError) -> dict[str, object]:
    shown: dict[str, object] = {"code": error.code, "message": error.message}
    if isinstance(error, Refused):
        shown["param"] = error.param
    if isinstance(error, InvalidArguments):
        shown["details"] = error.details
    return shown


def _wants_json(given: list[str]) -> bool:
    """Whether the command was asked for JSON, also when its line could not be read to the end."""
    flag = "--raw" if given[:1] == ["call"] else "--json"
    return flag in given
