"""Loads the SQL that lies in files: named statements and numbered migrations.

Above: the stores, each of which says how its database spells the few words that differ.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

from msgspec import Struct

PACKAGES = ("store", "calls", "catalog", "sources", "agents", "responses", "spaces", "sessions", "identity")
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
