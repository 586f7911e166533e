"""Keys at run time: created, listed, rotated, revoked, expired; limited; good at every gateway."""

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
from tests.harness.in_process import KEY, client_of
from tests.requirement import requirement
from tests.waiting import Stopwatch, eventually_async

CONFIG = """
[auth.keys.fixed]
key = "fixed-key"
[groups.docs]
tools = ["read"]
[agents.ada]
spaces = ["lab"]
[agents.bob]
spaces = ["hall"]
[[tools]]
name = "read"
description = "Reads."
executionType = "internal"
inputSchema = { type = "object" }
[[tools]]
name = "deploy"
description = "Deploys."
executionType = "internal"
inputSchema = { type = "object" }
metadata = { requires_approval = true }
"""


@asynccontextmanager
async def gateway_on(folder: Path, store: str = "memory:", more: str = "") -> AsyncIterator[httpx2.AsyncClient]:
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240 - a test
    path = folder / "jackfield.toml"
    path.write_text(CONFIG + more)
    settings = load_settings(path, environment={"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store})
    async with Gateway(settings) as gateway, client_of(gateway) as client:
        yield client


async def create(client: httpx2.AsyncClient, name: str = "ci", **more: Any) -> dict[str, Any]:
    answer = await client.post("/api/v1/keys", json={"name": name, **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def status(client: httpx2.AsyncClient, key: str, path: str = "/api/v1/tools") -> int:
    return (await client.get(path, headers={"x-api-key": key})).status_code


@requirement("ID-keys-create")
async def test_a_key_is_made_shown_once_and_listed_without_itself(tmp_path: Path) -> None:
    async with gateway_on(tmp_path) as client:
        made = await create(client, scopes=["call"], tools=["read"], budget=10, expires_in=3600)
        assert made["key"].startswith("jf_")
        assert (made["origin"], made["created_by"], made["tools"]) == ("api", "admin", ["read"])
        assert await status(client, made["key"]) == 200
        listed = await client.get("/api/v1/keys")
        assert made["key"] not in listed.text
        assert [(key["name"], key["origin"]) for key in listed.json()["keys"]] == [
            ("admin", "file"),
            ("fixed", "config"),
            ("ci", "api"),
        ]
        assert "key" not in listed.json()["keys"][2]
        tools = (await client.get("/api/v1/tools", headers={"x-api-key": made["key"]})).json()["tools"]
        assert [tool["name"] for tool in tools] == ["read"]
        assert await status(client, made["key"], "/api/v1/keys") == 403


@requirement("ID-keys-refused")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"name": "admin"}, 409),
        ({"name": "user:ada"}, 400),
        ({"name": "x", "scopes": ["everything"]}, 400),
        ({"name": "x", "scopes": ["session:s"]}, 400),
        ({"name": "x", "groups": ["none"]}, 404),
        ({"name": "x", "agents": ["nobody"]}, 404),
        ({"name": "x", "spaces": ["nowhere"]}, 404),
        ({"name": "fixed"}, 409),
        ({"name": "x", "expires_in": 0}, 400),
        ({"name": "x", "colour": "red"}, 400),
    ],
)
async def test_what_cannot_be_a_key_is_refused(tmp_path: Path, body: dict[str, Any], expected: int) -> None:
    async with gateway_on(tmp_path) as client:
        answer = await client.post("/api/v1/keys", json=body)
        assert answer.status_code == expected, answer.text


@requirement("ID-keys-rotate")
async def test_a_rotated_key_ends_at_once_or_after_its_grace(tmp_path: Path) -> None:
    async with gateway_on(tmp_path) as client:
        first = (await create(client))["key"]
        second = (await client.post("/api/v1/keys/ci/rotate")).json()["key"]
        assert (await status(client, first), await status(client, second)) == (401, 200)
        answer = await client.post("/api/v1/keys/ci/rotate", json={"grace": 3600})
        third = answer.json()["key"]
        assert answer.json()["old_key_until"] is not None
        assert (await status(client, second), await status(client, third)) == (200, 200)
        short = (await client.post("/api/v1/keys/ci/rotate", json={"grace": 1})).json()["key"]
        await eventually_async(lambda: _is(client, third, 401))
        assert await status(client, short) == 200
        assert (await client.post("/api/v1/keys/fixed/rotate")).status_code == 409
        assert (await client.post("/api/v1/keys/none/rotate")).status_code == 404


async def _is(client: httpx2.AsyncClient, key: str, expected: int) -> bool:
    return await status(client, key) == expected


@requirement("ID-keys-expire")
async def test_a_key_expires(tmp_path: Path) -> None:
    async with gateway_on(tmp_path) as client:
        key = (await create(client, expires_in=1))["key"]
        await eventually_async(lambda: _is(client, key, 401))


@requirement("ID-keys-revoke")
async def test_a_revoked_key_its_logins_and_its_waiting_calls_end(tmp_path: Path) -> None:
    async with gateway_on(tmp_path) as client:
        key = (await create(client))["key"]
        own = {"x-api-key": key}
        signed_in = await client.post("/api/login", headers=own)
        cookie = {"cookie": signed_in.headers["set-cookie"].partition(";")[0], "x-api-key": ""}
        waiting = await client.post("/api/v1/tools/deploy/execute", json={"arguments": {}}, headers=own)
        assert waiting.status_code == 202
        assert (await client.delete("/api/v1/keys/ci")).status_code == 204
        assert await status(client, key) == 401
        assert (await client.get("/api/login", headers=cookie)).status_code == 401
        record = (await client.get(f"/api/v1/calls/{waiting.json()['call_id']}")).json()["call"]
        assert record["status"] == "cancelled"
        assert (await client.delete("/api/v1/keys/ci")).status_code == 404
        assert (await client.delete("/api/v1/keys/fixed")).status_code == 409


@requirement("ID-keys-limits")
async def test_a_key_reaches_only_its_groups_agents_and_spaces(tmp_path: Path) -> None:
    async with gateway_on(tmp_path) as client:
        key = (await create(client, groups=["docs"], agents=["ada"], spaces=["lab"]))["key"]
        own = {"x-api-key": key}
        tools = (await client.get("/api/v1/tools", headers=own)).json()["tools"]
        assert [tool["name"] for tool in tools] == ["read"]
        agents = (await client.get("/api/agents", headers=own)).json()["agents"]
        assert [agent["id"] for agent in agents] == ["ada"]
        assert await status(client, key, "/api/agents/bob") == 404
        spaces = (await client.get("/api/spaces", headers=own)).json()["spaces"]
        assert [space["id"] for space in spaces] == ["lab"]
        assert await status(client, key, "/api/spaces/hall") == 404
        assert await status(client, key, "/api/spaces/lab") == 200
        spoken = await client.post("/api/spaces/hall/messages", json={"content": "hello"}, headers=own)
        assert spoken.status_code == 404
        body = {"serviceName": "x", "payload": {}}
        triggered = await client.post("/api/agents/bob/trigger", json=body, headers=own)
        assert triggered.status_code == 403


async def test_a_limited_administrator_makes_no_keys(tmp_path: Path) -> None:
    async with gateway_on(tmp_path) as client:
        limited = (await create(client, "half", scopes=["admin"], tools=["read"]))["key"]
        answer = await client.post(
            "/api/v1/keys", json={"name": "whole", "scopes": ["admin"]}, headers={"x-api-key": limited}
        )
        assert answer.status_code == 403


@pytest.mark.parametrize("limit", ['agents = ["nobody"]', 'spaces = ["nowhere"]'])
async def test_a_key_of_the_config_names_what_there_is(tmp_path: Path, limit: str) -> None:
    more = f'[auth.keys.odd]\nkey = "odd-key"\n{limit}\n'
    with pytest.raises(ConfigError, match=r"auth\.keys\.odd\."):
        async with gateway_on(tmp_path, more=more):
            pass


@requirement("ID-keys-cluster")
async def test_a_key_is_good_and_ends_at_every_gateway_within_a_second(tmp_path: Path, postgres_url: str) -> None:
    async with gateway_on(tmp_path / "a", postgres_url) as one, gateway_on(tmp_path / "b", postgres_url) as other:
        key = (await create(one))["key"]
        watch = Stopwatch()
        await eventually_async(lambda: _is(other, key, 200))
        assert watch.seconds() < 1
        await one.delete("/api/v1/keys/ci")
        watch = Stopwatch()
        await eventually_async(lambda: _is(other, key, 401))
        assert watch.seconds() < 1


@requirement("ID-keys-kept")
async def test_only_digests_are_kept_and_outlive_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/jackfield.db"
    async with gateway_on(tmp_path, store) as client:
        key = (await create(client))["key"]
    assert key.encode() not in (tmp_path / "jackfield.db").read_bytes()
    async with gateway_on(tmp_path, store) as client:
        assert await status(client, key) == 200


@requirement("ID-keys-sdk")
async def test_the_sdk_manages_keys(tmp_path: Path) -> None:
    async with gateway_on(tmp_path) as http:
        client = Client("http://localhost:8420", KEY, transport=http._transport)
        made = await client.keys.create("ci", tools=["read"], expires_in=60)
        assert made.key is not None
        assert [key.name for key in await client.keys.list()] == ["admin", "fixed", "ci"]
        assert (await client.keys.rotate("ci", grace=5)).old_key_until is not None
        with pytest.raises(Conflict):
            await client.keys.create("ci")
        await client.keys.revoke("ci")
        with pytest.raises(NotFound):
            await client.keys.revoke("ci")


async def test_a_refusal_says_where_the_key_is_changed(tmp_path: Path) -> None:
    async with gateway_on(tmp_path) as client:
        made = await create(client, scopes=["read"])
        refused = await client.get("/api/v1/keys", headers={"x-api-key": made["key"]})
        assert "'jackfield keys create'" in refused.json()["error"]["message"]
        refused = await client.get("/api/v1/keys", headers={"x-api-key": "fixed-key"})
        assert "in [auth.keys.fixed]" in refused.json()["error"]["message"]
        for name, said in (("admin", "JACKFIELD_ADMIN_KEY or from admin.key"), ("fixed", "Change [auth.keys.fixed]")):
            refused = await client.delete(f"/api/v1/keys/{name}")
            assert refused.status_code == 409
            assert said in refused.json()["error"]["message"]


async def test_a_wrong_name_or_scope_is_told_in_words(tmp_path: Path) -> None:
    async with gateway_on(tmp_path) as client:
        named = await client.post("/api/v1/keys", json={"name": "a b"})
        assert "1 to 64 letters, digits" in named.json()["error"]["message"]
        scoped = await client.post("/api/v1/keys", json={"name": "a", "scopes": ["all"]})
        assert "admin, call, read, answer, agent:NAME or worker:GLOB" in scoped.json()["error"]["message"]
