"""Python text to a syntax tree, safe beside other threads.

Until 3.11.8 and 3.12.2 CPython counts the depth of every `ast.parse` of a process in one variable (gh-106905): a
garbage collection in the middle lets another thread parse, and the first one ends in a SystemError about a "recursion
depth mismatch". So there one thread parses at a time, and nothing is collected meanwhile.
"""

import ast
import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

COUNTS_IN_ONE_PLACE = sys.version_info < (3, 11, 8) or (3, 12) <= sys.version_info < (3, 12, 2)
_one_at_a_time = threading.RLock()


def parse_module(text: str) -> ast.Module:
    """Raises what `ast.parse` raises."""
    with undisturbed():
        return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """Raises what `ast.parse` raises."""
    with undisturbed():
        return ast.parse(text, mode="eval").body


@contextmanager
def undisturbed() -> Iterator[None]:
    """Nothing else is parsed or collected while the block lasts."""
    if not COUNTS_IN_ONE_PLACE:
        yield
        return
    with _one_at_a_time:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()
