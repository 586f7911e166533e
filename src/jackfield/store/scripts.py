"""Transactions as scripts: generators without I/O, so that one text serves every database.

A script yields a statement (mostly by its name) with its values, is sent the rows, and returns a result. A store runs
all of it in one transaction, or none. Above: the `transactions` of each package. Below: the named statements.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")
Row = Mapping[str, Any]


class Sql(Struct, frozen=True):
    """A statement composed at run time, with `:name` parameters."""

    name: str
    text: str


Ask = tuple[str | Sql, dict[str, Any]]
Script = Generator[Ask, Sequence[Row], T]

INBOX_TOPIC = "inbox:"
RUN_TOPIC = "run:"
"""A cycle has taken a step, or is over."""
WAKE = "wake"
"""Asked for in place of a statement: a topic to publish after the commit."""


class InsertScript(ABC, Generic[T]):
    """A script that inserts one row. A store may write many of one class in one statement instead of running them."""

    table: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    """The last two are the times of creation and end, by the database's clock."""

    @abstractmethod
    def __call__(self) -> Script[T]:
        """The script itself."""

    @abstractmethod
    def row(self) -> tuple[object, ...] | None:
        """Values in the order of `columns`, without the end, and with an age in ms for the creation.

        None: more than this row has to be written.
        """

    @abstractmethod
    def written(self, finished_at: int) -> T:
        """What the script would have returned."""


def wake(topic: str) -> Ask:
    """Yielded by a script, never first: `topic` is published at every gateway after the commit."""
    return WAKE, {"topic": topic}


def one(query: str, /, **values: Any) -> Script[Row | None]:
    """The first row of one statement."""
    rows = yield query, values
    return rows[0] if rows else None


def run(query: str | Sql, /, **values: Any) -> Script[Sequence[Row]]:
    """All rows of one statement."""
    return (yield query, values)


def json_list(ids: Iterable[str]) -> str:
    """Ids as `each_of` takes them."""
    return msgspec.json.encode([*ids]).decode()
