"""A change is shown before it is made: as a diff, with a question where somebody can answer it.

Above: `accept`, `import` and `connect`. Below: the terminal.
"""

import difflib
import sys
from argparse import ArgumentParser
from collections.abc import Iterator

from jackfield.cli.show import harmless, paint, put
from jackfield.cli.usage import UsageError

_STYLES = {"+++": ("bold",), "---": ("bold",), "@@": ("cyan",), "+": ("green",), "-": ("red",)}


def add_consent_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")


def put_diff(diff: str) -> None:
    """A unified diff, in colours where there are any. Its text may be foreign."""
    for line in diff.split("\n"):
        style = next((styles for begin, styles in _STYLES.items() if line.startswith(begin)), ())
        shown = harmless(line).replace("\t", "    ")
        put(paint(shown, *style) if style else shown)


def put_change(before: str, after: str, *, name: str) -> None:
    """What will be different in the file of that name."""
    put_diff("\n".join(_changes(before, after, name)))


def _changes(before: str, after: str, name: str) -> Iterator[str]:
    return difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="")


def agreed(question: str, *, yes: bool) -> bool:
    """Whether it may be done. Without a terminal nobody can be asked, and nothing is done without `--yes`."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("Nothing was changed, because nobody could be asked. Add --yes to do what is shown.")
    put()
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    return answer.strip().lower() in ("y", "yes")
