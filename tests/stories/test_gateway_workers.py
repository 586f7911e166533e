"""`jackfield serve --workers N`: several processes behind one port, which their users take for one gateway."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.harness.process import RunningGateway, run_cli, running_gateway, start_gateway
from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.stories.mcp_clients import http_client, text_of
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(180)
CONFIG = """\
[sources.local]
kind = "files"
path = "tools/*.py"
tools.who.metadata = { idempotent = true }

[[tools]]
name = "ask"
description = "Answered by a tool server."
executionType = "external"
visible = false
timeout = 30000
inputSchema = { type = "object" }

[agents.ada]
model = "demo"
instructions = "Be quiet."

[models.demo]
provider = "scripted"
script = "demo.toml"
"""
FILES = {
    "demo.toml": "",
    "tools/who.py": 'import os\n\n\ndef who() -> int:\n    """The process that answers."""\n    return os.getpid()\n',
}
VAULT_KEY = "A" * 43


def env_of(url: str) -> dict[str, str]:
    return {"JACKFIELD_STORE": url, "JACKFIELD_VAULT_KEY": VAULT_KEY}


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer) -> Iterator[RunningGateway]:
    """A gateway of three processes, all of which serve."""
    postgres_server.run("CREATE DATABASE trio")
    env, folder = env_of(postgres_server.url("trio")), tmp_path_factory.mktemp("trio")
    with running_gateway(folder, CONFIG, env=env, files=FILES, args=("--workers", "3")) as gateway:
        eventually(lambda: whole(gateway, 3))
        yield gateway


def processes(gateway: RunningGateway) -> set[int]:
    """Those that serve, as connections find them."""
    found = set()
    for _ in range(9):
        with httpx2.Client(base_url=gateway.url, headers=gateway.headers) as client:
            found.add(execute(client, "who")["result"])
    return found


def whole(gateway: RunningGateway, count: int) -> set[int]:
    """Those processes, once there are so many."""
    found = processes(gateway)
    return found if len(found) == count else set()


def execute(client: httpx2.Client, tool: str, **arguments: Any) -> Any:
    answer = client.post(f"/api/v1/tools/{tool}/execute", json={"arguments": arguments})
    assert answer.status_code == 200, answer.text
    return answer.json()


@requirement("SCALE-workers-sqlite")
@pytest.mark.parametrize("store", ["sqlite:///", "memory:"])
def test_several_processes_are_refused_without_postgresql_and_told_what_to_do(tmp_path: Path, store: str) -> None:
    done = run_cli("serve", "--workers", "2", "--store", store, cwd=tmp_path)
    assert done.returncode == 1
    assert "2 gateway workers need PostgreSQL" in done.stderr
    assert "postgresql://" in done.stderr
    assert not (tmp_path / ".jackfield").exists(), "nothing is left behind by a start that cannot be"


@requirement("SCALE-workers-number")
@pytest.mark.parametrize("number", ["0", "-1", "129"])
def test_a_number_of_workers_that_cannot_be_is_named(tmp_path: Path, number: str) -> None:
    done = run_cli("serve", f"--workers={number}", cwd=tmp_path)
    assert done.returncode == 1
    assert "number from 1 to 128" in done.stderr


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@requirement("SCALE-workers-one")
async def test_what_lives_in_one_process_is_found_through_every_connection(trio: RunningGateway) -> None:
    async with http_client(trio.url, trio.key, mode="legacy") as client:
        answers = {text_of(await client.call_tool("who", {})) for _ in range(6)}
    assert len(answers) == 1, "a session's requests are answered where it lives, whoever gets them"

    def fresh(method: str, path: str, **more: Any) -> httpx2.Response:
        """Over a connection of its own."""
        headers = {**trio.headers, **more.pop("headers", {})}
        return httpx2.request(method, f"{trio.url}{path}", headers=headers, timeout=30, **more)

    started = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
    }
    accept = {"accept": "application/json, text/event-stream"}
    session = fresh("POST", "/mcp", json=started, headers=accept).headers["mcp-session-id"]
    ends = [fresh("DELETE", "/mcp", headers={"mcp-session-id": session}).status_code for _ in range(4)]
    assert ends == [204, 404, 404, 404]

    (code,) = re.findall(r"#code=(\S+)", trio.log)
    logins = [httpx2.post(f"{trio.url}/api/login", json={"code": code}).status_code for _ in range(4)]
    assert sorted(logins) == [200, 401, 401, 401]

    opened = fresh("POST", "/api/sessions", json={"agent": "ada"}).json()["session_id"]
    assert [fresh("GET", f"/api/sessions/{opened}").status_code for _ in range(4)] == [200] * 4
    assert fresh("DELETE", f"/api/sessions/{opened}").json()["session"]["status"] == "completed"


@requirement("SCALE-workers-progress")
async def test_progress_reaches_who_follows_the_call_at_another_process(trio: RunningGateway) -> None:
    """The tool server reports over one connection, the caller and its followers hold others."""
    async with httpx2.AsyncClient(base_url=trio.url, headers=trio.headers, timeout=30) as follower:
        heard: list[str] = []
        streams = [asyncio.create_task(follow(trio, heard)) for _ in range(3)]
        await eventually_three(heard)
        asked = asyncio.create_task(follower.post("/api/v1/tools/ask/execute", json={"arguments": {}}))
        waiting = await asyncio.to_thread(eventually, lambda: waiting_calls(trio))
        httpx2.post(
            f"{trio.url}/api/v1/calls/{waiting[0]}/progress",
            headers=trio.headers,
            json={"progress": 1, "message": "half way"},
        )
        await asyncio.to_thread(eventually, lambda: sum("half way" in one for one in heard) == 3)
        for stream in streams:
            stream.cancel()
        asked.cancel()


def waiting_calls(gateway: RunningGateway) -> list[str]:
    found = httpx2.get(f"{gateway.url}/api/v1/calls?status=waiting", headers=gateway.headers).json()["calls"]
    return [call["id"] for call in found]


async def eventually_three(heard: list[str]) -> None:
    await asyncio.to_thread(eventually, lambda: heard.count("open") == 3)


async def follow(gateway: RunningGateway, heard: list[str]) -> None:
    async with (
        httpx2.AsyncClient(headers=gateway.headers, timeout=30) as client,
        client.stream("GET", f"{gateway.url}/api/v1/calls/stream") as stream,
    ):
        heard.append("open")
        async for line in stream.aiter_lines():
            heard.append(line)  # noqa: PERF401 - they are read while it goes on


def has_logged(gateway: RunningGateway, pattern: str) -> bool:
    return re.search(pattern, gateway.log) is not None


@requirement("SCALE-workers-operations")
def test_one_port_has_one_set_of_figures_one_reload_and_says_which_worker_logs(trio: RunningGateway) -> None:
    config = trio.folder / "jackfield.toml"
    config.write_text(config.read_text() + '\n[groups.some]\ntools = ["who"]\n')
    assert run_cli("reload", cwd=trio.folder).returncode == 0
    for number in (1, 2, 3):
        eventually(partial(has_logged, trio, rf"\[{number}\] info .*asked for by"))
    page = httpx2.get(f"{trio.url}/metrics", headers=trio.headers).text
    assert sorted(re.findall(r'jackfield_gateway_worker_starts_total\{worker="(\d)"\} 1', page)) == ["1", "2", "3"]
    calls = re.findall(r'jackfield_calls_total\{worker="\d",tool="who".*outcome="completed"\} (\d+)', page)
    assert sum(map(int, calls)) >= 9, "every process's own"
    assert len(re.findall(r'^jackfield_calls_waiting\{status="pending"\}', page, re.MULTILINE)) == 1
    assert page.count("# TYPE jackfield_calls_total counter") == 1
    trio.process.send_signal(signal.SIGHUP)
    for number in (1, 2, 3):
        eventually(partial(has_logged, trio, rf"\[{number}\] info .*SIGHUP"))


@requirement("SCALE-workers-replaced", "SCALE-workers-signals")
async def test_under_load_a_killed_worker_is_replaced_and_no_call_is_lost(trio: RunningGateway) -> None:
    before = await asyncio.to_thread(eventually, lambda: whole(trio, 3))
    victim = min(before)
    answers: list[int] = []

    async def call(client: httpx2.AsyncClient) -> None:
        """One call to its end, as often as its connection breaks; its key makes it one."""
        headers = {"Idempotency-Key": uuid4().hex}
        while True:
            try:
                answer = await client.post("/api/v1/tools/who/execute", json={"arguments": {}}, headers=headers)
            except httpx2.TransportError:
                continue
            assert answer.status_code == 200, answer.text
            assert answer.json()["status"] == "completed", answer.text
            answers.append(answer.json()["result"])
            return

    async def caller() -> None:
        async with httpx2.AsyncClient(base_url=trio.url, headers=trio.headers, timeout=30) as client:
            for _ in range(20):
                await call(client)
                if len(answers) == 60:
                    os.kill(victim, signal.SIGKILL)

    await asyncio.gather(*(caller() for _ in range(16)))
    assert len(answers) == 320
    after = await asyncio.to_thread(eventually, lambda: whole(trio, 3))
    assert len(after & before) == 2
    assert f"(pid {victim}) was killed by SIGKILL; another takes its place" in trio.log
    assert await asyncio.to_thread(trio.stop) == 0
    assert not any(is_alive(pid) for pid in after), "SIGTERM ends all of them"


@requirement("SCALE-workers-start")
def test_a_start_that_fails_is_said_once_and_ends_all(tmp_path: Path, postgres_url: str) -> None:
    env = env_of(postgres_url.rpartition("/")[0] + "/nowhere")
    done = run_cli("serve", "--workers", "3", cwd=tmp_path, env={**env, "JACKFIELD_PORT": "0"})
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1, done.stderr


@requirement("SCALE-workers-orphans")
def test_when_the_parent_is_killed_its_workers_end(tmp_path: Path, postgres_url: str) -> None:
    gateway = start_gateway(tmp_path, CONFIG, env=env_of(postgres_url), files=FILES, args=("--workers", "2"))
    pids = eventually(lambda: whole(gateway, 2))
    gateway.kill()
    eventually(lambda: not any(is_alive(pid) for pid in pids))
