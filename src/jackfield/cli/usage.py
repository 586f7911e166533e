"""How a command line is read, and what is said when it cannot be.

Above: `main.py` and the commands. Below: argparse.
"""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import NoReturn, Protocol

from jackfield.errors import JackfieldError


class UsageError(JackfieldError):
    """The command line itself is not right."""

    code = "usage"


class CommandModule(Protocol):
    """What a command's module offers."""

    DESCRIPTION: str
    EXAMPLES: str

    def add_arguments(self, parser: ArgumentParser) -> None: ...

    def run(self, options: Namespace) -> int: ...


class Parser(ArgumentParser):
    """An argument parser whose complaints are our errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[0].upper()}{message[1:].rstrip('.')}. See '{self.prog} --help'.")


def parser_of(name: str, command: CommandModule) -> Parser:
    parser = Parser(
        prog=f"jackfield {name}",
        description=command.DESCRIPTION,
        epilog=f"examples:\n{command.EXAMPLES}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser


def add_gateway_arguments(parser: ArgumentParser) -> None:
    """The options of every command that talks to a gateway."""
    where = parser.add_argument_group("which gateway")
    where.add_argument("--url", help="its url (JACKFIELD_URL; else the local one's)")
    where.add_argument("--key", help="the key for it (JACKFIELD_KEY; else the local one's key file)")
