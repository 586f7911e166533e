"""A gateway under attack by what strangers write: schemas, patterns, globs, results, documents. How soon is it alive?

Above: the row `hostile` and the story of it. Below: `hostile_server.py`, HTTP. `attack` sends each hostile request some
times, several at once, while `/healthz` is asked again and again over a connection of its own.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.openapi_document import large_document

ATTACKERS = 4
PAUSE = 0.002
CONFIG = f"""
[sources.hostile]
kind = "mcp"
command = ["{sys.executable}", "{Path(__file__).with_name("hostile_server.py")}"]
era = "handshake"
call_timeout = 60

[sources.document]
kind = "openapi"
file = "document.json"
base_url = "http://127.0.0.1:1"

[models.default]
provider = "scripted"
script = "script.toml"
"""
SCRIPT = '[otherwise]\nsay = "Hello."\n'
OPERATIONS = 300
OFFERED = 8 + OPERATIONS + 1
"""Of the server's nine tools one is left out: its pattern is not matched in linear time."""


class Health(Struct, frozen=True, kw_only=True):
    """How soon `/healthz` answered."""

    took_ms: list[float]
    """In order."""
    statuses: dict[str, int]
    """What the hostile requests were answered with, by name and status, and how often."""

    def percentile(self, part: float) -> float:
        return self.took_ms[min(len(self.took_ms) - 1, int(len(self.took_ms) * part))]


class Hostility(Struct, frozen=True, kw_only=True):
    """One hostile request."""

    name: str
    path: str
    body: bytes


def write_project(folder: Path) -> None:
    """All that `CONFIG` names: it is read again with every refresh."""
    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    document = json.loads(large_document(OPERATIONS))
    parameters = [
        {"name": f"p{number}", "in": "query", "schema": {"pattern": rf"\p{{L}}{{1,64}}{number}"}}
        for number in range(10)
    ]
    document["paths"]["/hostile"] = {"get": {"operationId": "hostile_query", "parameters": parameters}}
    (folder / "document.json").write_text(json.dumps(document), encoding="utf-8")


def hostilities() -> list[Hostility]:
    deep: dict[str, Any] = {}
    for _ in range(18):
        deep = {"x": deep}
    arguments: dict[str, dict[str, Any]] = {
        "backtracks": {"x": ["a" * 16] * 300},
        "matches": {"x": ["ab" * 500] * 5},
        "compiles": {f"p{number}": "é" * 64 for number in range(10)},
        "lists": {"x": {"a": -1}},
        "doubles": deep,
        "compares": {"x": [[number] for number in range(20_000)]},
        "counts": {"x": ["wrong"] * 20_000},
        "answers": {},
        "escapes": {},
    }
    made = [
        Hostility(name=tool, path=f"/api/v1/tools/{tool}/execute", body=json.dumps({"arguments": given}).encode())
        for tool, given in arguments.items()
    ]
    for name, globs in (
        ("many globs", ["*a*b*c"] * 20_000),
        ("long globs", ["*a" * 50_000]),
        ("stars", ["*a" * 100] * 4),
    ):
        asked = {"model": "default", "input": "hello", "tools": [{"type": "jackfield:catalog", "tools": globs}]}
        made.append(Hostility(name=name, path="/v1/responses", body=json.dumps(asked).encode()))
    made.append(Hostility(name="documents", path="/api/v1/tools/refresh", body=b"{}"))
    return made


def attack(port: int, *, key: str, times: int) -> Health:
    """Every hostile request so many times, and how `/healthz` fared meanwhile."""
    over = threading.Event()
    with ThreadPoolExecutor(ATTACKERS + 1) as pool:
        asking = pool.submit(_ask_health, port, over)
        try:
            requests = [one for _ in range(times) for one in hostilities()]
            outcomes = list(pool.map(lambda one: _send(port, one, key), requests))
        finally:
            over.set()
        took = sorted(asking.result())
    return Health(took_ms=took, statuses={name: outcomes.count(name) for name in sorted(set(outcomes))})


def quiet(port: int, *, times: int) -> list[float]:
    """How soon `/healthz` answers while nobody means harm."""
    health = _health(port)
    return sorted(next(health) for _ in range(times))


def _ask_health(port: int, over: threading.Event) -> list[float]:
    took: list[float] = []
    health = _health(port)
    while not over.is_set():
        took.append(next(health))
        over.wait(PAUSE)
    return took


def _health(port: int) -> Iterator[float]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        while True:
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            yield (time.perf_counter() - began) * 1000


def _send(port: int, hostility: Hostility, key: str) -> str:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with closing(HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        connection.request("POST", hostility.path, hostility.body, headers)
        answer = connection.getresponse()
        answer.read()
        return f"{hostility.name} {answer.status}"
