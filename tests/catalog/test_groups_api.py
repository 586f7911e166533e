"""Groups over HTTP, and what keys that are limited to groups see everywhere; two gateways on one database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.errors import ConfigError
from jackfield.gateway.gateway import Gateway
from jackfield.sdk import Client, Conflict, NotFound
from jackfield.settings import load_settings
from tests.harness.in_process import KEY, client_of, in_process_gateway, make_gateway, serve_on_port
from tests.requirement import requirement
from tests.waiting import TIMEOUT, Stopwatch, eventually_async

TOOL = """
[[tools]]
name = "{0}"
description = "It can {0}."
executionType = "external"
inputSchema = {{ type = "object" }}
"""
CONFIG = """
[groups.docs]
tools = ["read", "write"]
description = "What is written"
instructions = "Read before you write."

[groups.ops]
tools = ["deploy"]

[auth.keys.writer]
key = "writer-key"
groups = ["docs"]
[auth.keys.nothing]
key = "nothing-key"
groups = []
[auth.keys.narrow]
key = "narrow-key"
groups = ["docs", "ops"]
tools = ["write", "deploy"]
[auth.keys.approver]
key = "approver-key"
scopes = ["answer", "read"]
groups = ["ops"]
[auth.keys.free]
key = "free-key"
""" + "".join(map(TOOL.format, ("read", "write", "deploy")))


async def tools(client: httpx2.AsyncClient, key: str, path: str = "/api/v1/tools") -> list[str]:
    answer = await client.get(path, headers={"x-api-key": key})
    assert answer.status_code == 200, answer.text
    return [tool["name"] for tool in answer.json()["tools"]]


@requirement("MCP2-groups-keys", "MCP2-groups-rest")
async def test_keys_and_queries_are_limited_to_groups(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        assert await tools(client, "writer-key") == ["read", "write"]
        assert await tools(client, "nothing-key") == []
        assert await tools(client, "narrow-key") == ["deploy", "write"]
        assert await tools(client, "free-key", "/api/v1/tools?group=ops") == ["deploy"]
        assert await tools(client, "narrow-key", "/api/v1/tools?group=docs") == ["write"]
        assert await tools(client, "free-key", "/api/v1/tools/search?q=deploy&group=docs") == []
        assert await tools(client, "free-key", "/api/v1/tools/search?q=deploy&group=ops") == ["deploy"]
        for path in ("/api/v1/tools?group=ops", "/api/v1/tools/search?group=ops", "/api/v1/groups/ops", "/mcp/ops"):
            answer = await client.get(path, headers={"x-api-key": "writer-key"})
            assert answer.status_code == 404, path
            assert answer.json()["error"]["message"].startswith("There is no group 'ops'.")
        made = await client.post("/api/v1/tools/deploy/execute", json={}, headers={"x-api-key": "writer-key"})
        assert made.status_code == 404
        etags = [(await client.get(f"/api/v1/tools{query}")).headers["etag"] for query in ("", "?group=docs")]
        assert etags[0] != etags[1]


@requirement("MCP2-groups-rest", "MCP2-groups-config-409")
async def test_the_routes_of_groups(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        listed = (await client.get("/api/v1/groups")).json()["groups"]
        assert listed[0] == {
            "name": "docs",
            "description": "What is written",
            "instructions": "Read before you write.",
            "tools": ["read", "write"],
            "tool_count": 2,
            "origin": "config",
            "url": "http://127.0.0.1:8420/mcp/docs",
        }
        seen = (await client.get("/api/v1/groups", headers={"x-api-key": "writer-key"})).json()["groups"]
        assert [group["name"] for group in seen] == ["docs"]
        assert "tools" not in seen[0], "patterns name what a key may not see"
        made = await client.put("/api/v1/groups/mine", json={"tools": ["wri*"], "instructions": "Hm."})
        assert made.status_code == 200
        assert made.json()["group"] | {"url": ""} == {
            "name": "mine",
            "description": "",
            "instructions": "Hm.",
            "tools": ["wri*"],
            "tool_count": 1,
            "origin": "api",
            "url": "",
        }
        assert await tools(client, KEY, "/api/v1/tools?group=mine") == ["write"]
        refused: list[tuple[str, str, Any, int]] = [
            ("PUT", "docs", {"tools": ["*"]}, 409),
            ("DELETE", "docs", None, 409),
            ("DELETE", "other", None, 404),
            ("GET", "other", None, 404),
            ("PUT", "a.b", {"tools": ["*"]}, 404),
            ("PUT", "x" * 65, {"tools": ["*"]}, 404),
            ("PUT", "mine", {}, 400),
            ("PUT", "mine", {"tools": ["a" * 300]}, 400),
            ("PUT", "mine", {"tools": ["*"] * 501}, 400),
            ("PUT", "mine", {"tools": ["\x00"]}, 400),
            ("PUT", "mine", {"tools": ["a"], "instructions": "x" * 20_001}, 400),
            ("PUT", "mine", {"tools": ["a"], "more": 1}, 400),
        ]
        for method, name, body, status in refused:
            answer = await client.request(method, f"/api/v1/groups/{name}", json=body)
            assert answer.status_code == status, (method, name[:9], answer.text)
        forbidden = await client.put("/api/v1/groups/mine", json={"tools": ["*"]}, headers={"x-api-key": "free-key"})
        assert forbidden.status_code == 403
        assert (await client.delete("/api/v1/groups/mine")).status_code == 204
        assert (await client.get("/api/v1/groups/mine")).status_code == 404


@requirement("MCP2-groups-keys")
async def test_who_answers_is_limited_to_groups_too(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        for tool in ("read", "deploy"):
            body = {"tool_name": tool, "scenario": "external", "approval_override": "require", "scope": "all"}
            set_ = await client.post("/api/v1/tools/config/approval", json=body)
            assert set_.status_code == 200, set_.text
            made = await client.post(f"/api/v1/tools/{tool}/execute", json={}, headers={"x-api-key": "free-key"})
            call = made.json()["call_id"]
            headers = {"x-api-key": "approver-key"}
            seen = await client.get(f"/api/v1/calls/{call}", headers=headers)
            approved = await client.post(f"/api/v1/calls/{call}/approve", headers=headers)
            expected = (404, 403) if tool == "read" else (200, 200)
            assert (seen.status_code, approved.status_code) == expected, (tool, approved.text)


@requirement("MCP2-groups-unknown")
async def test_an_unknown_group_in_a_key_stops_the_start(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path, '[auth.keys.crm]\nkey = "k"\ngroups = ["sales"]')
    with pytest.raises(ConfigError, match=r"jackfield\.toml: auth\.keys\.crm\.groups has the unknown group 'sales'"):
        await gateway.start()


@requirement("MCP2-groups-unknown")
def test_a_group_s_name_and_keys_are_checked(tmp_path: Path) -> None:
    for config, said in (
        ('[groups."a b"]\ntools = []', "groups.a b: a group's name has 1 to 64 letters"),
        ("[groups.a]\n", "groups.a needs the key 'tools'"),
        ('[groups.a]\ntools = []\ninstruction = ""', "groups.a has an unknown key 'instruction'. Did you mean"),
    ):
        path = tmp_path / "jackfield.toml"
        path.write_text(config)
        with pytest.raises(ConfigError, match=said.replace(".", r"\.")):
            load_settings(path, environment={})


async def test_the_sdk_s_groups(tmp_path: Path) -> None:
    async with make_gateway(tmp_path, CONFIG) as gateway, serve_on_port(gateway) as url, Client(url, KEY) as client:
        assert [group.name for group in await client.groups.list()] == ["docs", "ops"]
        assert (await client.groups.get("docs")).tools == ("read", "write")
        made = await client.groups.put("mine", ["w*"], description="Mine")
        assert (made.name, made.description, made.tool_count) == ("mine", "Mine", 1)
        assert [tool.name for tool in await client.tools.list(group="mine")] == ["write"]
        assert [tool.name for tool in await client.tools.search("write", group="mine")] == ["write"]
        with pytest.raises(Conflict):
            await client.groups.put("docs", ["*"])
        await client.groups.delete("mine")
        with pytest.raises(NotFound):
            await client.groups.get("mine")


@asynccontextmanager
async def gateway_on(folder: Path, store: str) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    folder.mkdir()  # noqa: ASYNC240 - a test
    path = folder / "jackfield.toml"
    path.write_text(CONFIG)
    settings = load_settings(path, environment={"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store})
    async with Gateway(settings) as gateway, client_of(gateway) as client:
        yield gateway, client


@requirement("MCP2-groups-cluster")
async def test_a_group_that_was_changed_holds_at_every_gateway_within_a_second(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        gateway_on(tmp_path / "a", postgres_url) as (_, one),
        gateway_on(tmp_path / "b", postgres_url) as (other_gateway, other),
    ):
        free = other_gateway.keyring.named("free")
        assert free is not None
        assert (await one.put("/api/v1/groups/made", json={"tools": ["read"]})).status_code == 200

        async def seen() -> list[str] | None:
            answer = await other.get("/api/v1/tools?group=made", headers={"x-api-key": "free-key"})
            return None if answer.status_code == 404 else [tool["name"] for tool in answer.json()["tools"]]

        watch = Stopwatch()
        await eventually_async(lambda: _is(seen, ["read"]))
        assert watch.seconds() < 1
        follower = other_gateway.catalog.follow(other_gateway.groups.narrowed(free, "made"))
        await one.put("/api/v1/groups/made", json={"tools": ["write"]})
        async with asyncio.timeout(TIMEOUT):
            change = await anext(follower)
            assert (change.added, change.removed) == (("write",), ("read",))
            assert await seen() == ["write"]
            await one.delete("/api/v1/groups/made")
            with pytest.raises(StopAsyncIteration):
                await anext(follower)
            assert await seen() is None


async def _is(ask: Any, value: Any) -> bool:
    return bool(await ask() == value)
