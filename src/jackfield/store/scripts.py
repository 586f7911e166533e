"""Transactions as scripts: generators without I/O, so that one text serves every database.

A script yields a statement (mostly by its name) with its values, is sent the rows, and returns a result. A store runs
all of it in one transaction, or none. Above: the `transactions` of each package. Below: the named statements.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from jackfield.model.event import Event

PACKAGES = (
    "store",
    "audit",
    "calls",
    "catalog",
    "sources",
    "runs",
    "programs",
    "agents",
    "responses",
    "spaces",
    "sessions",
    "identity",
    "identity.oauth",
    "connections",
    "notify",
    "overview",
    "llm",
)
"""Those with named statements, each in its `queries.sql`."""
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b")
_COMMENT = re.compile(r"--[^\n]*")


class Statement(Struct, frozen=True):
    """One statement with its parameters in the order the database wants them."""

    name: str
    sql: str
    parameters: tuple[str, ...]


class Migration(Struct, frozen=True):
    """One numbered step of the schema."""

    number: int
    name: str
    sql: str


def load_statements(words: Mapping[str, str], placeholder: str) -> dict[str, Statement]:
    """Every named statement, with `words` replaced and parameters as `placeholder` (`?` or `$`)."""
    text = "\n".join(_queries(package) for package in PACKAGES)
    parts = _NAME.split(text)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: make_statement(name, _spell(body, words), placeholder) for name, body in pairs}


@lru_cache(maxsize=1024)
def make_statement(name: str, sql: str, placeholder: str) -> Statement:
    """A statement from SQL with `:name` parameters. `$` numbers them and names each once; `?` repeats them."""
    order: list[str] = []

    def put(found: re.Match[str]) -> str:
        if placeholder == "?":
            order.append(found[1])
            return "?"
        if found[1] not in order:
            order.append(found[1])
        return f"${order.index(found[1]) + 1}"

    bare = " ".join(_COMMENT.sub("", sql).split())
    return Statement(name, _PARAMETER.sub(put, bare), tuple(order))


def load_migrations(words: Mapping[str, str]) -> list[Migration]:
    """The numbered files in order."""
    folder = resources.files("jackfield.store") / "migrations"
    names = sorted(file.name for file in folder.iterdir() if re.match(r"\d{4}_.*\.sql$", file.name))
    texts = [_spell((folder / name).read_text(encoding="utf-8"), words) for name in names]
    return [Migration(int(name[:4]), name, text) for name, text in zip(names, texts, strict=True)]


def _spell(sql: str, words: Mapping[str, str]) -> str:
    for ours, theirs in words.items():
        sql = sql.replace(ours, theirs)
    return sql


def _queries(package: str) -> str:
    return (resources.files(f"jackfield.{package}") / "queries.sql").read_text(encoding="utf-8")


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
READY_TOPIC = "ready:"
"""Followed by a kind of run: one of them can be claimed."""
WAKE = "wake"
"""Asked for in place of a statement: a topic to publish after the commit."""
EVENT = "event"
"""Asked for in place of a statement: whoever records events does so in this transaction; nobody, and it is nothing."""


class EventRecorder(Struct, frozen=True, kw_only=True):
    """What is written about events, in the transaction that causes them."""

    types: frozenset[str]
    """Those that it wants to know of."""
    script: Callable[[Event], Script[None]]


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

    def event(self) -> Event | None:
        """What is told of it. Where somebody records that, the script is run."""
        return None

    @abstractmethod
    def written(self, finished_at: int) -> T:
        """What the script would have returned."""


def wake(topic: str) -> Ask:
    """Yielded by a script, never first: `topic` is published at every gateway after the commit."""
    return WAKE, {"topic": topic}


def happened(event: Event) -> Ask:
    """Yielded by a script, never first: `event` is recorded in its transaction, where somebody wants to know."""
    return EVENT, {"event": event}


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
