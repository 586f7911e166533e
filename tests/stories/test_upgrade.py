"""A database of the first version: this one brings it up to date, and what waited there goes on.

`first_version.json` has the rows that the first version (schema 9) left when it was killed, serving the demo project:
calls that were over, an invoice that waits for approval, an agent that waits for an answer in a space, and a response.
"""

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import msgspec
import pytest

from jackfield.store import postgres_server as postgresql
from jackfield.store import sqlite
from jackfield.store.scripts import Migration, load_migrations
from tests.harness.process import RunningGateway, running_gateway
from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.waiting import eventually

FIRST = 9
DEMO = Path(__file__).parents[2] / "examples/demo"
ROWS: dict[str, list[dict[str, Any]]] = msgspec.json.decode(Path(__file__).with_name("first_version.json").read_bytes())
WRITTEN_AT = max(call["created_at"] for call in ROWS["calls"])

VAULT_KEY = "A" * 43


def statements() -> Iterator[tuple[str, list[Any]]]:
    """The rows as they would be had they been written just now, as INSERTs."""
    since = int(time.time() * 1000) - WRITTEN_AT
    for table, rows in ROWS.items():
        for row in rows:
            values = [value + since if _is_time(value) else value for value in row.values()]
            places = ", ".join(f"${at}" for at in range(1, len(values) + 1))
            yield f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", values


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and abs(value - WRITTEN_AT) < 7 * 86_400_000


@pytest.fixture
def first_version(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Databases are made as the first version made them."""

    def earlier(words: dict[str, str]) -> list[Migration]:
        return [one for one in load_migrations(words) if one.number <= FIRST]

    for module in (sqlite, postgresql):
        monkeypatch.setattr(module, "load_migrations", earlier)
    return monkeypatch


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns(".jackfield", "__pycache__"))
    (folder / ".jackfield").mkdir(mode=0o700)
    return folder


@requirement("OPS-first-version")
def test_of_sqlite(project: Path, first_version: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(project / ".jackfield/jackfield.db")) as old:
        sqlite.migrate(old, "jackfield.db")
        for statement, values in statements():
            old.execute(statement.replace("$", "?"), values)
        old.commit()
    first_version.undo()
    with running_gateway(project) as gateway:
        assert_it_goes_on(gateway)


@requirement("OPS-first-version")
def test_of_postgresql(
    project: Path, postgres_server: PostgresServer, empty_database: str, first_version: pytest.MonkeyPatch
) -> None:
    url = postgres_server.url(empty_database)

    async def write() -> None:
        old = await asyncpg.connect(url)
        try:
            async with old.transaction():
                await postgresql.migrate(old, "old")
                for statement, values in statements():
                    await old.execute(statement, *values)
        finally:
            await old.close()

    asyncio.run(write())
    first_version.undo()
    with running_gateway(project, env={"JACKFIELD_STORE": url, "JACKFIELD_VAULT_KEY": VAULT_KEY}) as gateway:
        assert_it_goes_on(gateway)


def assert_it_goes_on(gateway: RunningGateway) -> None:
    with httpx2.Client(base_url=gateway.url, headers=gateway.headers, timeout=30) as client:

        def calls(**filters: str) -> list[Any]:
            return list(client.get("/api/v1/calls", params=filters).json()["calls"])

        assert {call["id"] for call in calls()} >= {call["id"] for call in ROWS["calls"]}
        (failed,) = calls(tool="fail_on_purpose")
        assert failed["error"]["message"] == "RuntimeError: This tool always fails: old."

        (invoice,) = calls(status="pending_approval")
        assert client.post(f"/api/v1/calls/{invoice['id']}/approve").status_code == 200
        ended = eventually(
            lambda: (
                (one := client.get(f"/api/v1/calls/{invoice['id']}").json()["call"])["status"] == "completed" and one
            )
        )
        assert ended["result"]["customer"] == "Acme"

        (question,) = calls(status="pending", agent="concierge")
        answer = {"callId": question["id"], "result": {"confirmed": True}}
        assert client.post(f"/api/runs/{question['run_id']}/tool-results", json=answer).status_code == 200
        said = eventually(
            lambda: [
                message["content"]
                for message in client.get("/api/spaces/lobby/messages").json()["messages"]
                if "Yanaka House is yours" in message["content"]
            ]
        )
        assert len(said) == 1

        (response,) = ROWS["responses"]
        assert client.get(f"/v1/responses/{response['id']}").json()["status"] == "completed"
        more = {"model": "demo", "input": "A hotel in Tokyo?", "previous_response_id": response["id"]}
        assert client.post("/v1/responses", json=more).json()["status"] == "completed"
        audit = client.get("/api/v1/audit", params={"action": "call.approved"}).json()["audit"]
        assert [entry["subject"] for entry in audit] == [invoice["id"]]
