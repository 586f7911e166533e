"""Calls that wait for a login over HTTP: who sees which link, what the stream says, and what becomes of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from jackfield.gateway.gateway import Gateway
from jackfield.sdk import CallPending, Client
from tests.calls.login_harness import SOURCE, LoginServer, add_login_source
from tests.harness.in_process import client_of, make_gateway, serve_on_port
from tests.requirement import requirement

CONFIG = """
[auth.keys.ada]
key = "ada-key"
scopes = ["call"]
[auth.keys.bob]
key = "bob-key"
scopes = ["answer", "read"]
"""
ADA, BOB = {"x-api-key": "ada-key"}, {"x-api-key": "bob-key"}
EXECUTE = "/api/v1/tools/book/execute"


@asynccontextmanager
async def login_gateway(
    folder: Path, server: LoginServer | None = None
) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient, LoginServer]]:
    server = server or LoginServer()
    async with make_gateway(folder, CONFIG) as gateway, client_of(gateway) as client:
        await add_login_source(gateway, server)
        yield gateway, client, server


async def asked(client: httpx2.AsyncClient, n: int = 1) -> Any:
    answer = await client.post(EXECUTE, json={"arguments": {"n": n}}, headers=ADA)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def record(client: httpx2.AsyncClient, call: str, headers: dict[str, str]) -> Any:
    return (await client.get(f"/api/v1/calls/{call}", headers=headers)).json()["call"]


@requirement("ID-pending-login")
async def test_execute_answers_202_with_the_link_and_the_record_has_it_while_it_waits(tmp_path: Path) -> None:
    async with login_gateway(tmp_path) as (gateway, client, server):
        told = await asked(client)
        call = told["call_id"]
        assert (told["status"], told["login_url"]) == ("pending_login", f"{gateway.settings.url}/connect/{call}")
        assert told["result"]["status"] == "pending_login"
        found = await record(client, call, ADA)
        assert found["login_url"] == told["login_url"]
        assert found["login"] == {"source": SOURCE, "principal": "ada", "scopes": []}
        assert (await asked(client))["call_id"] == call, "the same request joins it"
        server.log_in("ada")
        await gateway.answers.login_done(SOURCE, "ada")
        ended = (await client.get(f"/api/v1/calls/{call}?wait=10", headers=ADA)).json()["call"]
        assert (ended["status"], ended["result"]) == ("completed", {"booked": 1})
        assert (ended["login_url"], ended["login"], ended["principal"]) == (None, None, "ada")
        again = await client.post(EXECUTE, json={"arguments": {"n": 1}}, headers=ADA)
        assert again.json()["call_id"] != call, "the outcome was read, so this is a new call"


@requirement("ID-login-link-for-its-principal")
async def test_others_see_whom_the_call_waits_for_and_no_link(tmp_path: Path) -> None:
    async with login_gateway(tmp_path) as (_, client, _server):
        call = (await asked(client))["call_id"]
        for headers in (BOB, {}):  # who answers calls, and an administrator
            seen = await record(client, call, headers)
            assert (seen["login_url"], seen["login"]["principal"]) == (None, "ada")
        listed = (await client.get("/api/v1/calls?status=pending_login", headers=BOB)).json()["calls"]
        assert [(one["id"], one["login_url"]) for one in listed] == [(call, None)]
        rejected = await client.post(f"/api/v1/calls/{call}/reject", json={"reason": "no"}, headers=BOB)
        assert rejected.json()["call"]["status"] == "rejected"
        assert rejected.json()["call"]["decided_by"] == "bob"


@requirement("ID-login-link-for-its-principal")
async def test_the_one_login_for_all_is_an_administrators(tmp_path: Path) -> None:
    async with login_gateway(tmp_path, LoginServer(is_per_user=False)) as (_, client, _server):
        told = await asked(client)
        assert "login_url" not in told
        seen = await record(client, told["call_id"], {})
        assert seen["login_url"].endswith(told["call_id"])
        assert seen["login"]["principal"] is None


@requirement("ID-login-link-for-its-principal")
async def test_the_stream_of_what_waits_has_the_link_for_its_principal_only(tmp_path: Path) -> None:
    async with (
        login_gateway(tmp_path) as (gateway, client, server),
        serve_on_port(gateway) as url,
        asyncio.timeout(20),
        httpx2.AsyncClient(base_url=url) as http,
        http.stream("GET", "/api/v1/calls/stream?status=pending", headers=ADA) as ours,
        http.stream("GET", "/api/v1/calls/stream?status=pending", headers=BOB) as theirs,
    ):
        call = (await asked(client))["call_id"]
        for stream, link in ((ours, f"{gateway.settings.url}/connect/{call}"), (theirs, None)):
            lines = stream.aiter_lines()
            event = await next_event(lines)
            assert (event["type"], event["status"]) == ("call.pending", "pending_login")
            assert event.get("login_url") == link
            assert event["login"] == {"source": SOURCE, "principal": "ada", "scopes": []}
            if link is not None:
                continue
            server.log_in("ada")
            await gateway.answers.login_done(SOURCE, "ada")
            assert (await next_event(lines))["type"] == "call.logged_in"


async def next_event(lines: AsyncIterator[str]) -> Any:
    async for line in lines:
        if line.startswith("data:") and "call_id" in line:
            return msgspec.json.decode(line.removeprefix("data:"))
    raise AssertionError("the stream ended")


async def test_the_sdk_says_where_to_log_in_and_waits(tmp_path: Path) -> None:
    async with (
        login_gateway(tmp_path) as (gateway, _, server),
        serve_on_port(gateway) as url,
        Client(url, "ada-key") as client,
    ):
        with pytest.raises(CallPending, match="/connect/call_") as pending:
            await client.tools.call("book", {"n": 1})
        call_id = pending.value.call_id
        (waiting,) = await client.calls.pending()
        assert (waiting.id, waiting.status) == (call_id, "pending_login")
        assert waiting.login is not None
        assert waiting.login_url is not None
        server.log_in("ada")
        await gateway.answers.login_done(SOURCE, "ada")
        assert (await client.calls.wait(call_id)).result == {"booked": 1}
