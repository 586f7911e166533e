"""How a command is declared, and how its command line is parsed."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.model.text import nearest

Run = Callable[[Namespace], int | Coroutine[Any, Any, int]]


class UsageError(JackfieldError):
    """The command line is wrong."""

    code = "usage"


class Argument(Struct, frozen=True):
    """An argument or option, as `ArgumentParser.add_argument` takes it."""

    flags: tuple[str, ...]
    settings: dict[str, Any]
    group: str = ""
    completes: tuple[str, ...] = ()
    """What a shell completes it with, where other words are good too."""


class Command(Struct, frozen=True, kw_only=True):
    """A command: its help, its arguments, and the function that runs it and returns the exit code."""

    description: str
    examples: str
    arguments: tuple[Argument, ...]
    run: Run

    def parser(self, name: str) -> "Parser":
        parser = Parser(
            prog=f"jackfield {name}",
            description=self.description,
            epilog=f"examples:\n{self.examples}",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        groups = {
            argument.group: parser.add_argument_group(argument.group) for argument in self.arguments if argument.group
        }
        for argument in self.arguments:
            groups.get(argument.group, parser).add_argument(*argument.flags, **_checked(argument, parser.prog))
        return parser

    def read(self, name: str, words: list[str]) -> Namespace:
        """The options of a command line, in which arguments and options may be mixed."""
        parser = self.parser(name)
        options, unknown = parser.parse_known_intermixed_args(words)
        flag = next((word.partition("=")[0] for word in unknown if word.startswith("-")), None)
        if flag is not None:
            known = [known for argument in self.arguments for known in argument.flags if known.startswith("--")]
            raise UsageError(f"There is no option '{flag}'.{nearest(flag, known)} See '{parser.prog} --help'.")
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options


class Parser(ArgumentParser):
    """Raises `UsageError` where argparse would exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[0].upper()}{message[1:].rstrip('.')}. See '{self.prog} --help'.")


def _checked(argument: Argument, prog: str) -> dict[str, Any]:
    """The settings for argparse; `_choice` checks the choices in its place."""
    settings = {**argument.settings}
    if (choices := settings.pop("choices", None)) is None:
        return settings
    settings["type"] = _choice(argument, prog)
    if "metavar" not in settings:
        if argument.flags[0].startswith("-"):
            settings["metavar"] = f"{{{','.join(choices)}}}"
        else:
            settings["help"] = f"{settings['help']}: {', '.join(choices)}"
    return settings


def _choice(argument: Argument, prog: str) -> Callable[[str], str]:
    """Converts a word to itself if it is one of the argument's choices."""
    known, flag = [*argument.settings["choices"]], argument.flags[0]

    def check(word: str) -> str:
        if word not in known:
            wrong = f"{flag} cannot be '{word}'" if flag.startswith("-") else f"There is no {flag} '{word}'"
            hint = nearest(word, known) or f" Known: {', '.join(known)}."
            raise UsageError(f"{wrong}.{hint} See '{prog} --help'.")
        return word

    return check


def argument(*flags: str, group: str = "", completes: tuple[str, ...] = (), **settings: Any) -> Argument:
    return Argument(flags, settings, group, completes)


def command(description: str, *arguments: Argument, examples: str) -> Callable[[Run], Command]:
    """Make a command of the decorated function."""

    def declare(run: Run) -> Command:
        return Command(description=description, examples=examples, arguments=arguments, run=run)

    return declare


JSON = argument("--json", action="store_true", help="print JSON")
YES = argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
CONFIG = argument("--config", metavar="FILE", help="use this config; if its gateway is not running, run it in process")
GATEWAY = (
    argument("--url", group="gateway", help="URL of the gateway (default: JACKFIELD_URL, else the local gateway)"),
    argument("--key", group="gateway", help="API key (default: JACKFIELD_KEY, else the local gateway's key file)"),
)
"""The options of every command that talks to a gateway."""
