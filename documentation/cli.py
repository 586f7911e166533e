"""`reference/cli.md`: every command with its arguments and options, from their declarations."""

import importlib
from typing import cast

from documentation.markdown import block, page, table
from jackfield.cli.main import COMMANDS
from jackfield.cli.options import Argument, Command


def cli_page() -> str:
    """The whole page."""
    parts = [
        (
            "Every command, as `jackfield COMMAND --help` shows it. [Command line](../command-line.md) explains what "
            "they have in common: where the gateway is found, tables and JSON, exit codes, chat, completion."
        ),
        table(
            ["command", "what it does"],
            ((f"[`jackfield {name}`](#jackfield-{name})", entry.summary) for name, entry in COMMANDS.items()),
        ),
    ]
    for name in COMMANDS:
        parts += _section(name, declared(name))
    return page("Command reference", *parts)


def declared(name: str) -> Command:
    """The declaration of a command."""
    module = importlib.import_module(f"jackfield.cli.{COMMANDS[name].module}")
    return cast("Command", getattr(module, "import_" if name == "import" else name))


def _section(name: str, command: Command) -> list[str]:
    parser = command.parser(name)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    return [
        f"## `jackfield {name}`",
        command.description.strip(),
        block(usage),
        table(["argument or option", "meaning"], (_row(one) for one in command.arguments)),
        "Examples:",
        block(command.examples),
    ]


def _row(argument: Argument) -> tuple[str, str]:
    settings = argument.settings
    flags = ", ".join(f"`{flag}`" for flag in argument.flags)
    if argument.flags[0].startswith("-") and "action" not in settings:
        flags += f" `{_value(argument)}`"
    says = str(settings.get("help", ""))
    choices = settings.get("choices")
    return flags, f"{says}: {', '.join(f'`{one}`' for one in choices)}" if choices else says


def _value(argument: Argument) -> str:
    metavar = argument.settings.get("metavar")
    if isinstance(metavar, str):
        return metavar
    name = argument.flags[0].lstrip("-") if metavar is None else " ".join(metavar)
    return name.upper().replace("-", "_")
