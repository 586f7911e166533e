"""A backup that is made while calls are made holds every call that was acknowledged before it began."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2

from jackfield.backup.restoring import restore
from jackfield.backup.saving import save
from jackfield.gateway.gateway import Gateway
from jackfield.settings import load_project, load_settings
from tests.harness.in_process import KEY, client_of
from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.waiting import eventually_async

CALLERS = 8
BEFORE = 60
"""Calls before the backup begins."""
CONFIG = """
[sources.local]
kind = "files"
path = "tools/*.py"
"""
TOOLS = "def echo(text: str) -> str:\n    return text\n"


def a_project(folder: Path) -> Path:
    (folder / "tools").mkdir(parents=True)
    (folder / "tools/own.py").write_text(TOOLS)
    (folder / "jackfield.toml").write_text(CONFIG)
    return folder


def environment(store: str) -> dict[str, str]:
    return {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store}


async def acknowledged_before(client: httpx2.AsyncClient, back_up: Callable[[], Awaitable[None]]) -> set[str]:
    """Make calls, back up meanwhile, and return the calls that were acknowledged before that began."""
    acknowledged: set[str] = set()
    enough = asyncio.Event()

    async def call_on() -> None:
        while not enough.is_set():
            answer = await client.post("/api/v1/tools/echo/execute", json={"arguments": {"text": "x"}})
            assert answer.status_code == 200, answer.text
            acknowledged.add(answer.headers["x-call-id"])

    callers = [asyncio.create_task(call_on()) for _ in range(CALLERS)]
    try:
        await eventually_async(lambda: len(acknowledged) >= BEFORE or any(caller.done() for caller in callers))
        before = set(acknowledged)
        await back_up()
    finally:
        enough.set()
        await asyncio.gather(*callers)
    return before


async def calls_at(folder: Path, store: str) -> set[str]:
    """The calls that a gateway of this folder has on record, once it has shown that it works."""
    async with Gateway(load_settings(folder, environment=environment(store))) as gateway, client_of(gateway) as client:
        answer = await client.post("/api/v1/tools/echo/execute", json={"arguments": {"text": "after"}})
        assert answer.status_code == 200, answer.text
        found: set[str] = set()
        cursor = None
        while True:
            params = {"limit": 200} | ({"cursor": cursor} if cursor else {})
            page = (await client.get("/api/v1/calls", params=params)).json()
            found |= {call["id"] for call in page["calls"]}
            cursor = page["next_cursor"]
            if cursor is None:
                return found


@requirement("OPS-backup-load")
async def test_sqlite(tmp_path: Path) -> None:
    here, there, file = a_project(tmp_path / "here"), tmp_path / "there", tmp_path / "b.tar.gz"
    given = environment("sqlite:///")
    async with Gateway(load_settings(here, environment=given)) as gateway, client_of(gateway) as client:

        async def back_up() -> None:
            await asyncio.to_thread(save, load_project(here, environment=given), file)

        before = await acknowledged_before(client, back_up)
    await asyncio.to_thread(restore, file, there, environment=given)
    assert before <= await calls_at(there, "sqlite:///")


@requirement("OPS-backup-load")
async def test_postgresql_with_pg_dump(tmp_path: Path, postgres_server: PostgresServer, empty_database: str) -> None:
    here, there, file = a_project(tmp_path / "here"), tmp_path / "there", tmp_path / "b.tar.gz"
    url, dump = postgres_server.url(empty_database), tmp_path / "dump"
    async with Gateway(load_settings(here, environment=environment(url))) as gateway, client_of(gateway) as client:

        async def back_up() -> None:
            await asyncio.to_thread(save, load_project(here, environment=environment(url)), file)
            await asyncio.to_thread(run, postgres_server.program("pg_dump"), "--format=custom", "-f", dump, url)

        before = await acknowledged_before(client, back_up)
    other = f"{empty_database}_restored"
    postgres_server.run(f"CREATE DATABASE {other}")
    try:
        restored = postgres_server.url(other)
        await asyncio.to_thread(run, postgres_server.program("pg_restore"), "--exit-on-error", "-d", restored, dump)
        await asyncio.to_thread(restore, file, there, environment=environment(restored))
        assert before <= await calls_at(there, restored)
    finally:
        postgres_server.run(f"DROP DATABASE {other} WITH (FORCE)")


def run(*command: str | Path) -> None:
    subprocess.run([str(word) for word in command], check=True, timeout=120)
