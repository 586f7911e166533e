"""The examples of CONTRIBUTING.md work: a source kind, a route and a durable transition, added as the page says."""

import re
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from jackfield.calls import transactions as call_tx
from jackfield.gateway import routes, server
from jackfield.sources import kinds
from jackfield.store import scripts
from jackfield.store.opening import MemoryStore
from tests.contracts import test_sources as contract
from tests.harness.in_process import client_of, in_process_gateway, make_gateway
from tests.store.calls import a_pending_call

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(language: str, first: str = "") -> str:
    (found,) = [
        text
        for text in map(dedent, re.findall(rf"( +```{language}\n.*?)```", PAGE, re.DOTALL))
        if text.split("\n")[1].strip().startswith(first)
    ]
    return found.split("\n", 1)[1]


def run(code: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "contributed"}
    exec(compile(code, "CONTRIBUTING.md", "exec"), namespace)
    return namespace


async def test_a_source_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = run(block("python", "# src/jackfield/sources/dice.py"))
    factory = written["dice_source"]
    case = {**vars(contract), "DiceSource": written["DiceSource"], "DiceOptions": written["DiceOptions"]}
    exec(compile(block("python", "# tests/contracts/test_sources.py"), "CONTRIBUTING.md", "exec"), case)
    async with case["dice"](tmp_path) as one:
        await contract.test_a_source_takes_its_own_tools_and_nobody_elses(one)
        await contract.test_a_source_runs_a_call_and_returns_its_result(one)
    monkeypatch.setattr(kinds, "OURS", {**kinds.OURS, "dice": factory})
    async with in_process_gateway(tmp_path, block("toml", "[sources.casino]")) as (_, client):
        called = await client.post("/api/v1/tools/roll/execute", json={"arguments": {"count": 3}})
        assert [1 <= roll <= 20 for roll in called.json()["result"]] == [True, True, True]
        refused = await client.post("/api/v1/tools/roll/execute", json={"arguments": {"count": 0}})
        assert refused.json()["error"]["code"] == "invalid_arguments"


async def test_a_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size_api = run(block("python", "# src/jackfield/catalog/size_api.py"))
    gateway = make_gateway(tmp_path)
    whole = routes.all_routes
    monkeypatch.setattr(
        server, "all_routes", lambda *given, **named: [*whole(*given, **named), *size_api["routes"](gateway.catalog)]
    )
    async with gateway, client_of(gateway) as client:
        assert (await client.get("/api/v1/catalog/size")).json() == {"tools": 0}


async def test_a_durable_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = block("sql")
    queries = scripts._queries
    monkeypatch.setattr(scripts, "_queries", lambda name: queries(name) + (f"\n{sql}\n" if name == "calls" else ""))
    postpone = run(block("python", "# src/jackfield/calls/transactions.py"))["postpone"]
    store = MemoryStore()
    await store.open()
    call = a_pending_call()
    before = (await store.write(partial(call_tx.start_call, call))).call
    moved = await store.write(partial(postpone, call.id, milliseconds=60_000))
    assert before is not None
    assert before.expires_at is not None
    assert moved.moved
    assert moved.call.expires_at == before.expires_at + 60_000
    assert not (await store.write(partial(postpone, "call_unknown", milliseconds=1))).moved
    await store.close()
