"""`--limit`, `--cursor` and `--all`: how lists of records are read page by page."""

from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from jackfield.cli.options import UsageError, argument
from jackfield.cli.output import print_stderr

DEFAULT_LIMIT = 50
PAGING = (
    argument("--limit", type=int, metavar="N", help=f"how many ({DEFAULT_LIMIT})"),
    argument("--cursor", metavar="CURSOR", help="continue where an earlier list ended"),
    argument("--all", action="store_true", help="all of them"),
)
T = TypeVar("T")
ReadPage = Callable[[int, str | None], Awaitable[tuple[Sequence[T], str | None]]]
"""Reads up to so many records from a cursor on, and says where the next page begins."""


async def read_pages(options: Namespace, read: ReadPage[T], *, page_size: int) -> tuple[list[T], str | None]:
    """The records that the options ask for, and the cursor of the next one."""
    if options.all and options.limit is not None:
        raise UsageError("--all and --limit exclude each other. Remove one of them.")
    if options.limit is not None and options.limit < 1:
        raise UsageError("--limit takes a number from 1 on.")
    limit = None if options.all else options.limit or DEFAULT_LIMIT
    found: list[T] = []
    cursor = options.cursor
    while limit is None or len(found) < limit:
        page, cursor = await read(page_size if limit is None else min(page_size, limit - len(found)), cursor)
        found += page
        if cursor is None:
            break
    return found, cursor


def print_more(options: Namespace, cursor: str | None) -> None:
    """Say on stderr how to go on."""
    if cursor is not None and not options.json:
        print_stderr(f"There are more: --cursor {cursor} continues, --all lists all.")
