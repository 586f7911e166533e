"""What is measured: one echo tool in a file, and a catalog of 10,000 tools that a package brings.

Above: the rows. `make_source` is what a gateway finds by the entry point that `write_many_project` writes, as it would
find anybody's package.
"""

import random
from collections.abc import Mapping
from functools import cache
from itertools import accumulate, product
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from bench.processes import KEY, ROOT
from jackfield.catalog.catalog import Catalog
from jackfield.model.call import Outcome, done
from jackfield.model.tool import Metadata, Tool, ToolKind
from jackfield.sources.base import Invocation, Listing, SourceContext

ECHO = {"text": "What should I wear in Lisbon tomorrow?", "count": 3}
ECHO_FILE = '''\
"""One tool."""


async def echo(text: str, count: int) -> dict:
    """Give the arguments back."""
    return {"text": text, "count": count}
'''
ECHO_CONFIG = """\
[sources.local]
kind = "files"
path = "tools/*.py"
"""
MANY_CONFIG = """\
[sources.many]
kind = "bench"
count = %d
"""

VERBS = ("get", "list", "create", "update", "delete", "find", "send", "convert", "count", "archive")
NOUNS = (
    *("invoice", "customer", "order", "shipment", "ticket", "message", "calendar", "meeting", "file", "folder"),
    *("weather", "flight", "hotel", "payment", "refund", "contract", "employee", "project", "task", "report"),
    *("server", "database", "backup", "alert", "metric", "branch", "commit", "release", "issue", "review"),
)
PLACES = ("berlin", "tokyo", "lisbon", "boston", "nairobi", "lima", "oslo", "cairo", "seoul", "perth")
VOCABULARY = tuple(
    "".join(parts) for parts in product(("ba", "co", "di", "fu", "ge", "lo", "mi", "no", "ra", "ti"), repeat=3)
)
"""A thousand words; the first are in very many texts and the last in few, as in any language."""
COMMONNESS = tuple(accumulate(1 / rank for rank in range(1, len(VOCABULARY) + 1)))
QUESTIONS = (
    *("invoice", "weather in lisbon", "create meeting", "list open tickets for a customer", "refund payment"),
    *("getWeather", "databse backup", "flig", "archive the contract of an employee", "metric alert in oslo"),
)


def write_echo_project(folder: Path) -> Path:
    """A project whose only tool is `echo`."""
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "echo.py").write_text(ECHO_FILE, encoding="utf-8")
    (folder / "jackfield.toml").write_text(ECHO_CONFIG, encoding="utf-8")
    return folder


def write_many_project(folder: Path, count: int) -> Mapping[str, str]:
    """A project with `count` tools of a package, and the environment in which that package is installed."""
    folder.mkdir(parents=True)
    (folder / "jackfield.toml").write_text(MANY_CONFIG % count, encoding="utf-8")
    about = folder / "packages" / "jackfield_bench-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: jackfield-bench\nVersion: 1\n", encoding="utf-8")
    points = "[jackfield.sources]\nbench = bench.subjects:make_source\n"
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    return {"PYTHONPATH": f"{about.parent}:{ROOT}"}


def http_request(method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None) -> str:
    """A whole request with the bench's key, as it goes over the wire."""
    fields = {"Host": "127.0.0.1", "Authorization": f"Bearer {KEY}", **(headers or {})}
    if body:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n{body.decode('ascii')}"


def echo_request() -> str:
    return http_request("POST", "/api/v1/tools/echo/execute", body=msgspec.json.encode({"arguments": ECHO}))


@cache
def catalog_of_many(count: int) -> Catalog:
    """The same tools in a catalog of this process; reading them in takes a second, so it is done once."""
    catalog = Catalog()
    catalog.update([("many", Listing(tools=synthetic_tools(count, source="many")))])
    return catalog


def synthetic_tools(count: int, *, source: str) -> tuple[Tool, ...]:
    """Tools with names, descriptions, schemas and tags as real ones have, the same in every run."""
    chance = random.Random(42)
    return tuple(_synthetic_tool(number, source, chance) for number in range(count))


def _synthetic_tool(number: int, source: str, chance: random.Random) -> Tool:
    verb, noun, place = chance.choice(VERBS), chance.choice(NOUNS), chance.choice(PLACES)
    parameters = list(dict.fromkeys(words(chance, 5)))
    properties: dict[str, Any] = {
        name: {"type": chance.choice(("string", "integer", "boolean")), "description": f"The {name} of the {noun}"}
        for name in parameters
    }
    return Tool(
        source=source,
        name=f"{verb}_{noun}_{place}_{number}",
        description=f"{verb.title()} the {noun} of {place.title()}: {' '.join(words(chance, 12))}.",
        input_schema={"type": "object", "properties": properties, "required": parameters[:2]},
        metadata=Metadata(tags=(noun, chance.choice(PLACES))),
    )


def questions(count: int) -> list[str]:
    """What people ask for, and after that words as they come."""
    chance = random.Random(7)
    asked = (f"{chance.choice(NOUNS)} {' '.join(words(chance, chance.randint(0, 3)))}" for _ in range(count))
    return [*QUESTIONS, *asked][:count]


def words(chance: random.Random, count: int) -> list[str]:
    """Made-up words, each as often as its place in the vocabulary says."""
    return chance.choices(VOCABULARY, cum_weights=COMMONNESS, k=count)


class ManyTools:
    """A source of synthetic tools; each answers with its arguments."""

    kind: ClassVar[str] = "bench"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL
    max_concurrency: int | None = None

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self._tools = synthetic_tools(count, source=name)

    async def open(self) -> None:
        """Nothing to make ready."""

    async def refresh(self) -> Listing:
        return Listing(tools=self._tools)

    async def execute(self, invocation: Invocation) -> Outcome:
        return done(invocation.arguments)

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name

    async def close(self) -> None:
        """Nothing to give back."""


def make_source(name: str, options: dict[str, Any], _source_context: SourceContext) -> ManyTools:
    """The factory behind the entry point."""
    return ManyTools(name, options["count"])
