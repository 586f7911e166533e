"""Syntax trees while other threads make theirs."""

import ast
import gc
from collections.abc import Iterator

import pytest

from tests.sources.pyfile.reading import reading_of

MANY = "\n".join(f'def tool_{number}(a: "list[int]" = [{number}]) -> dict:\n    return {{}}' for number in range(50))


@pytest.fixture
def collecting() -> Iterator[None]:
    """A garbage collection every few objects, and in each of them somebody else's `ast.parse`."""

    def parse(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            ast.parse("1")

    before = gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(5)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(parse)


@pytest.mark.usefixtures("collecting")
def test_a_file_is_read_while_somebody_else_parses_in_a_garbage_collection() -> None:
    reading = reading_of(MANY)
    assert (len(reading.functions), reading.faults) == (50, ())
    assert gc.isenabled()
