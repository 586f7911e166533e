"""What the record of one call says about its life, and what lists, streams and repeats of calls can be asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.calls import api as calls_api
from jackfield.calls import rows
from jackfield.calls.events import BACKLOG, STARTED, CallEvents
from tests.harness.in_process import KEY, in_process_gateway, make_gateway, serve_on_port
from tests.harness.many_calls import insert_calls
from tests.requirement import requirement
from tests.store.calls import a_call
from tests.waiting import eventually_async

CONFIG = """
[auth.keys.caller]
key = "key-of-the-caller-000"
scopes = ["call"]

[auth.keys.server]
key = "key-of-the-server-000"
scopes = ["worker:*"]

[sources.local]
kind = "files"
path = "tools.py"

[sources.local.tools.pay.metadata]
requires_approval = true

[[tools]]
name = "lookup"
description = "Look something up."
inputSchema = { type = "object" }
executionType = "external"
isAsync = true
"""
TOOLS = '''
def add(a: int) -> int:
    """Add."""
    return a

def pay(amount: int) -> int:
    """Pay."""
    return amount
'''
CALLER, SERVER = {"x-api-key": "key-of-the-caller-000"}, {"x-api-key": "key-of-the-server-000"}
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        yield client


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a gateway on a port, for what streams."""
    (folder / "tools.py").write_text(TOOLS)
    async with (
        make_gateway(folder, CONFIG) as gateway,
        serve_on_port(gateway) as url,
        httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}, timeout=30) as client,
    ):
        yield client


async def execute(client: httpx2.AsyncClient, tool: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = await client.post(f"/api/v1/tools/{tool}/execute", json=body, headers=headers)
    made: dict[str, Any] = answer.json()
    return made


async def record(client: httpx2.AsyncClient, call_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/api/v1/calls/{call_id}")).json()["call"]
    return found


def steps(call: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    times = [moment["at"] for moment in call["timeline"] if moment["at"] is not None]
    assert times == sorted(times), "what happened later stands later"
    return [(moment["step"], moment["by"], moment["note"]) for moment in call["timeline"]]


@requirement("CALLS-timeline")
async def test_an_ordinary_call_was_asked_started_settled_and_delivered(client: httpx2.AsyncClient) -> None:
    made = await execute(client, "add", {"arguments": {"a": 1}}, traceparent=PARENT)
    call = await record(client, made["call_id"])
    asked, (started, gateway, _), settled, delivered = steps(call)
    assert (asked, started) == (("asked", "admin", None), "started")
    assert str(gateway).startswith("gw_")
    assert settled == ("settled", None, "completed")
    assert delivered == ("delivered", None, "To whoever asked, with the response")
    assert call["trace_id"] == PARENT.split("-")[1]
    assert "timeline" not in (await client.get("/api/v1/calls")).json()["calls"][0]


@requirement("CALLS-timeline")
async def test_a_decision_is_in_it_with_who_made_it_and_what_changed(client: httpx2.AsyncClient) -> None:
    made = await execute(client, "pay", {"arguments": {"amount": 5}}, **CALLER)
    assert steps(await record(client, made["call_id"])) == [("asked", "caller", None)]
    await client.post(f"/api/v1/calls/{made['call_id']}/approve", json={"arguments": {"amount": 4}})
    settled = (await client.get(f"/api/v1/calls/{made['call_id']}?wait=30")).json()["call"]
    assert [step[0] for step in steps(settled)][:4] == ["asked", "decided", "started", "settled"]
    assert steps(settled)[1] == ("decided", "admin", "approved, with other arguments")


@requirement("CALLS-timeline")
async def test_a_tool_server_is_in_it_with_the_offer_and_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with served(tmp_path) as client:
        made = await execute(client, "lookup", {"arguments": {}})
        path = f"/api/v1/calls/{made['call_id']}"
        stream = client.stream(
            "GET", "/api/tools/stream", params={"tools": "lookup", "client": "crm-1"}, headers=SERVER
        )
        async with stream as answer:
            async for line in answer.aiter_lines():
                if "tool.call" in line:
                    break
            begun = await client.post(f"{path}/progress", json={"progress": 0, "attempt": 1}, headers=SERVER)
            assert begun.status_code == 200, begun.text
            body = {"callId": made["call_id"], "result": "found"}
            answered = await client.post(f"/api/runs/{made['run_id']}/tool-results", json=body, headers=SERVER)
            assert answered.status_code == 200, answered.text
        found = steps(await record(client, made["call_id"]))
    assert [step for step, _, _ in found] == ["asked", "offered", "started", "settled"]
    assert found[1][1] == found[2][1] is not None
    assert found[3] == ("settled", "server", "completed")


@requirement("CALLS-replay")
async def test_a_replay_is_a_call_of_its_own_that_names_the_first(client: httpx2.AsyncClient) -> None:
    first = await execute(client, "add", {"arguments": {"a": 1}}, **CALLER)
    again = await execute(client, "add", {"arguments": {"a": 2}, "replay_of": first["call_id"]})
    call = await record(client, again["call_id"])
    assert (call["replay_of"], call["principal"], call["result"]) == (first["call_id"], "admin", 2)
    assert steps(call)[0] == ("asked", "admin", f"Replay of {first['call_id']}")
    guarded = await execute(client, "pay", {"arguments": {"amount": 1}, "replay_of": first["call_id"]})
    assert (await record(client, guarded["call_id"]))["replay_of"] == first["call_id"]
    wrong = await execute(client, "add", {"arguments": {}, "replay_of": first["call_id"]})
    assert wrong["error"]["code"] == "invalid_arguments"
    (refused,) = (await client.get("/api/v1/calls?status=refused")).json()["calls"]
    assert refused["replay_of"] == first["call_id"]


@requirement("CALLS-replay")
async def test_nobody_replays_a_call_that_they_may_not_see(client: httpx2.AsyncClient) -> None:
    theirs = await execute(client, "add", {"arguments": {"a": 1}})
    body = {"arguments": {"a": 1}, "replay_of": theirs["call_id"]}
    answer = await client.post("/api/v1/tools/add/execute", json=body, headers=CALLER)
    assert (answer.status_code, answer.json()["error"]["param"]) == (404, "replay_of")


@requirement("OPS-CALLS-windows")
async def test_a_page_by_ids_and_a_brief_one(client: httpx2.AsyncClient) -> None:
    long = await execute(client, "add", {"arguments": {"a": 10**1_500}})
    short = await execute(client, "add", {"arguments": {"a": 1}})
    await execute(client, "add", {"arguments": {"a": 2}})
    wanted = {"id": f"{long['call_id']},{short['call_id']}", "brief": "true"}
    small, large = (await client.get("/api/v1/calls", params=wanted)).json()["calls"]
    assert (small["left_out"], small["arguments"], small["result"]) == ([], {"a": 1}, 1)
    assert large["left_out"] == ["arguments", "asked_arguments", "result"]
    assert (large["arguments"], large["args"], large["result"]) == ({}, {}, None)
    for wrong in ("call_1,,call_2", "call 1", ",".join(["call_1"] * 101)):
        assert (await client.get("/api/v1/calls", params={"id": wrong})).status_code == 400, wrong


@requirement("OPS-CALLS-windows")
async def test_a_long_search_ends_after_a_while_and_the_next_page_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    monkeypatch.setattr(calls_api, "SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(rows, "TEXT_WINDOW", 50)
    async with in_process_gateway(tmp_path, CONFIG) as (gateway, client):
        await insert_calls(gateway.store, 200)
        pages, cursor = 0, None
        found: list[int] = []
        while pages == 0 or cursor is not None:
            params = {"q": '"number":0}', **({"cursor": cursor} if cursor else {})}
            page = (await client.get("/api/v1/calls", params=params)).json()
            found += [call["arguments"]["number"] for call in page["calls"]]
            pages, cursor = pages + 1, page["next_cursor"]
    assert (found, pages) == ([0], 4)


@requirement("CALLS-stream")
async def test_the_stream_takes_the_filters_and_has_refused_calls(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with served(tmp_path) as client:
        seen: list[tuple[str, str, str]] = []

        async def follow(**params: str) -> None:
            async with client.stream("GET", "/api/v1/calls/stream", params=params) as answer:
                connected.release()
                async for line in answer.aiter_lines():
                    if line.startswith("data:"):
                        event = json.loads(line[5:])
                        seen.append((next(iter(params.values())), event["tool"], event["status"]))

        connected = asyncio.Semaphore(0)
        filters = ({"principal": "caller"}, {"source": "local"})
        tasks = [asyncio.create_task(follow(**params)) for params in filters]
        for _ in tasks:
            await connected.acquire()
        await execute(client, "nothing", {}, **CALLER)
        await execute(client, "add", {"arguments": {"a": 1}})
        await eventually_async(lambda: ("local", "add", "completed") in seen)
        await eventually_async(lambda: ("caller", "nothing", "refused") in seen)
        assert {tool for name, tool, _ in seen if name == "caller"} == {"nothing"}
        assert {tool for name, tool, _ in seen if name == "local"} == {"add"}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@requirement("CALLS-stream")
async def test_a_stream_that_falls_too_far_behind_ends_instead_of_leaving_events_out() -> None:
    events = CallEvents()
    async with events.follow(None, unbroken=True) as followed:
        for _ in range(3 * BACKLOG):
            events.tell(STARTED, a_call())
        seen = [event async for event in followed]
    assert len(seen) == BACKLOG - 1
