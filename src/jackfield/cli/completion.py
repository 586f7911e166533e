"""`jackfield completion SHELL`: a script that completes commands, options and their choices.

The script is made from the commands' own declarations, so that completing a word starts no Python.
"""

import importlib
from argparse import Namespace
from collections.abc import Callable
from typing import cast

from msgspec import Struct

from jackfield.cli.options import Argument, Command, argument, command

FILES = ("FILE", "CONFIG")
"""Metavars of values that are paths."""


class CommandWords(Struct, frozen=True, kw_only=True):
    """What can be completed after one command."""

    name: str
    summary: str
    options: dict[str, str]
    """Each flag with its help."""
    choices: tuple[str, ...] = ()
    """Of its first argument."""
    values: dict[str, tuple[str, ...]] = {}
    """Choices of a flag's value."""
    takes_files: frozenset[str] = frozenset()
    """Flags whose value is a path."""


@command(
    """\
Print a script that completes commands, options and their values in a shell.

To load it at every start, add the line of your shell to its startup file.""",
    argument("shell", choices=("bash", "zsh", "fish"), help="the shell"),
    examples="""\
  jackfield completion fish | source           (in ~/.config/fish/config.fish)
  source <(jackfield completion bash)          (in ~/.bashrc)
  source <(jackfield completion zsh)           (in ~/.zshrc, after compinit)""",
)
def completion(options: Namespace) -> int:
    print(_SCRIPTS[options.shell](all_words()), end="")
    return 0


def all_words() -> list[CommandWords]:
    """Every command with what it takes."""
    from jackfield.cli.main import COMMANDS  # noqa: PLC0415 - which finds this module by its name

    found = []
    for name, entry in COMMANDS.items():
        module = importlib.import_module(f"jackfield.cli.{entry.module}")
        declared = cast("Command", getattr(module, "import_" if name == "import" else name))
        found.append(_words(name, entry.summary, declared))
    return found


def _words(name: str, summary: str, declared: Command) -> CommandWords:
    flags = [one for one in declared.arguments if one.flags[0].startswith("-")]
    places = [one for one in declared.arguments if not one.flags[0].startswith("-")]
    options = {flag: str(one.settings.get("help", "")) for one in flags for flag in one.flags if flag.startswith("--")}
    return CommandWords(
        name=name,
        summary=summary,
        options={**options, "--help": "show the options and examples"},
        choices=_choices(places[0]) if places else (),
        values={flag: _choices(one) for one in flags for flag in one.flags if _choices(one)},
        takes_files=frozenset(flag for one in flags for flag in one.flags if one.settings.get("metavar") in FILES),
    )


def _choices(declared: Argument) -> tuple[str, ...]:
    return tuple(map(str, declared.settings.get("choices", declared.completes)))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def bash_script(commands: list[CommandWords]) -> str:
    cases = []
    for one in commands:
        values = "".join(
            f'    {_pattern(one.name, flag)}) words="{" ".join(choices)}" ;;\n' for flag, choices in one.values.items()
        )
        files = "".join(f"    {_pattern(one.name, flag)}) files=1 ;;\n" for flag in sorted(one.takes_files))
        words = " ".join((*one.choices, *one.options))
        cases.append(f'{values}{files}    {_quoted(one.name)}:*) words="{words}" ;;\n')
    names = " ".join(one.name for one in commands)
    return (
        "_jackfield() {\n"
        '  local words="" files="" last="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"\n'
        "  COMPREPLY=()\n"
        f'  if [ "$COMP_CWORD" -le 1 ]; then words="{names} --help --version"\n'
        '  else case "${COMP_WORDS[1]}:$before" in\n'
        f"{''.join(cases)}  esac; fi\n"
        '  if [ "$files" ]; then COMPREPLY=($(compgen -f -- "$last"))\n'
        '  else COMPREPLY=($(compgen -W "$words" -- "$last")); fi\n'
        "}\n"
        "complete -o bashdefault -o default -F _jackfield jackfield\n"
    )


def _pattern(name: str, flag: str) -> str:
    return _quoted(f"{name}:{flag}")


def zsh_script(commands: list[CommandWords]) -> str:
    names = " ".join(_quoted(f"{one.name}:{one.summary}") for one in commands)
    cases = []
    for one in commands:
        options = " ".join(_quoted(_zsh_option(one, flag, text)) for flag, text in one.options.items())
        first = f" {_quoted('1:value:(' + ' '.join(one.choices) + ')')}" if one.choices else ""
        cases.append(f"    {_quoted(one.name)}) _arguments {options}{first} '*:file:_files' ;;\n")
    return (
        "#compdef jackfield\n"
        "_jackfield() {\n"
        "  if (( CURRENT == 2 )); then\n"
        f"    local -a commands; commands=({names})\n"
        "    _describe command commands; return\n"
        "  fi\n"
        "  local name=$words[2]; shift words; (( CURRENT-- ))\n"
        "  case $name in\n"
        f"{''.join(cases)}  esac\n"
        "}\n"
        "compdef _jackfield jackfield\n"
    )


def _zsh_option(one: CommandWords, flag: str, text: str) -> str:
    plain = text.replace("[", "(").replace("]", ")").replace(":", " -").split("\n")[0]
    shown = f"{flag}[{plain}]"
    if flag in one.values:
        return f"{shown}:value:({' '.join(one.values[flag])})"
    return f"{shown}:file:_files" if flag in one.takes_files else shown


def fish_script(commands: list[CommandWords]) -> str:
    lines = ["complete -c jackfield -n __fish_use_subcommand -f"]
    for one in commands:
        lines.append(f"complete -c jackfield -n __fish_use_subcommand -a {one.name} -d {_fish(one.summary)}")
        seen = f"-n '__fish_seen_subcommand_from {one.name}'"
        lines += [f"complete -c jackfield {seen} -f -a {_fish(' '.join(one.choices))}"] if one.choices else []
        for flag, text in one.options.items():
            value = f" -x -a {_fish(' '.join(one.values[flag]))}" if flag in one.values else ""
            value = " -r -F" if flag in one.takes_files else value
            lines.append(f"complete -c jackfield {seen} -l {flag.removeprefix('--')}{value} -d {_fish(text)}")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: dict[str, Callable[[list[CommandWords]], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}
