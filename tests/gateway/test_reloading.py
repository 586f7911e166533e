"""The config is read anew while the gateway runs."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.errors import NotReady
from tests.harness.in_process import in_process_gateway, make_gateway, serve_on_port
from tests.requirement import requirement
from tests.waiting import eventually_async

TOOLS = 'def one() -> int:\n    """Give 1."""\n    return 1\n'
OTHER = 'def two() -> int:\n    """Give 2."""\n    return 2\n'
BASE = """
[sources.first]
kind = "files"
path = "first.py"
"""


def project(folder: Path) -> None:
    (folder / "first.py").write_text(TOOLS)
    (folder / "second.py").write_text(OTHER)


async def reload(client: httpx2.AsyncClient, folder: Path, text: str, *, status: int = 200) -> dict[str, Any]:
    (folder / "jackfield.toml").write_text(text)
    response = await client.post("/api/v1/config/reload")
    assert response.status_code == status, response.text
    return dict(response.json())


async def tool_names(client: httpx2.AsyncClient) -> set[str]:
    return {tool["name"] for tool in (await client.get("/api/v1/tools")).json()["tools"]}


@requirement("OP-reload")
@requirement("OP-reload-untouched")
async def test_sources_come_go_and_change_and_the_others_are_not_touched(tmp_path: Path) -> None:
    project(tmp_path)
    async with in_process_gateway(tmp_path, BASE) as (gateway, client):
        untouched = gateway.source_registry.get("first")
        second = BASE + '[sources.second]\nkind = "files"\npath = "second.py"\n'
        assert await reload(client, tmp_path, second) == {
            "added": ["sources.second"],
            "removed": [],
            "changed": [],
            "restart_needed": [],
        }
        await eventually_async(lambda: gateway.catalog.known("two") is not None)
        assert (await client.post("/api/v1/tools/two/execute", json={"arguments": {}})).json()["result"] == 2
        kept = gateway.source_registry.get("second")
        assert (await reload(client, tmp_path, second + 'prefix = "my_"\n'))["changed"] == ["sources.second"]
        assert await tool_names(client) >= {"one", "my_two"}
        assert gateway.source_registry.get("second") is kept  # only its names are others
        assert (await reload(client, tmp_path, BASE))["removed"] == ["sources.second"]
        assert await tool_names(client) == {"one"}
        assert gateway.source_registry.get("first") is untouched


@requirement("OP-reload-whole")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("[[[", "is not valid TOML"),
        ('[sources.bad]\nkind = "nonsense"\n', "nonsense"),
        ('[sources.bad]\nkind = "mcp"\n', "sources.bad"),
        ('[models.bad]\nprovider = "openai"\nbase_url = "nothing"\nmodel = "m"\n', "base_url"),
        ('[auth.keys.bad]\nkey = "k-of-bad"\ngroups = ["nowhere"]\n', "nowhere"),
        ('[auth.keys.bad]\nkey = "k-of-bad"\nspaces = ["nowhere"]\n', "nowhere"),
        ('[auth.keys.bad]\nkey = "key-of-the-inside"\n', "also the key of"),
        ('[agents.bad]\nmodel = "nowhere"\n', "nowhere"),
        ('[auth.roles.bad]\ngroups = ["*"]\ngroups_of_tools = ["nowhere"]\n', "nowhere"),
        ('[outgoing]\nallow = ["not an address"]\n', "outgoing"),
        ('[auth.oauth]\nmode = "external"\n', "auth.oauth.issuer"),
    ],
)
async def test_a_file_with_a_fault_changes_nothing_and_is_shown_until_a_good_one_is_read(
    tmp_path: Path, fault: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    project(tmp_path)
    good = BASE + "[groups.some]\ntools = ['one']\n"
    async with in_process_gateway(tmp_path, good) as (gateway, client):
        before = gateway.settings
        with caplog.at_level(logging.ERROR):
            body = await reload(client, tmp_path, "[groups.other]\ntools = []\n" + fault, status=409)
        assert body["error"]["code"] == "config_error"
        assert said in body["error"]["message"]
        assert said in caplog.text
        assert gateway.settings is before
        assert [group["name"] for group in (await client.get("/api/v1/groups")).json()["groups"]] == ["some"]
        assert await tool_names(client) == {"one"}
        assert said in (await client.get("/readyz")).json()["config"]["error"]
        assert await reload(client, tmp_path, good) == {
            "added": [],
            "removed": [],
            "changed": [],
            "restart_needed": [],
        }
        assert (await client.get("/readyz")).json()["config"]["error"] is None


@requirement("OP-reload-restart")
async def test_what_needs_a_restart_is_said(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (gateway, client):
        port = gateway.settings.server.port
        body = await reload(client, tmp_path, '[server]\nport = 9999\ncors_origins = ["https://a.example"]\n')
        assert body["restart_needed"] == ["server.port"]
        assert body["changed"] == ["server.cors_origins"]
        assert gateway.settings.server.port == port
        assert (await client.get("/readyz")).json()["config"]["restart_needed"] == ["server.port"]
        allowed = await client.get("/api/v1/tools", headers={"origin": "https://a.example"})
        assert allowed.headers["access-control-allow-origin"] == "https://a.example"


KEYS = '[auth.keys.ci]\nkey = "the key of ci"\nscopes = ["read"]\n'


@requirement("OP-reload-keys")
async def test_keys_and_their_groups_take_effect_at_once(tmp_path: Path) -> None:
    project(tmp_path)
    async with in_process_gateway(tmp_path, BASE) as (_, client):
        ci = {"x-api-key": "the key of ci"}
        assert (await client.get("/api/v1/tools", headers=ci)).status_code == 401
        limited = KEYS + 'groups = ["none"]\n[groups.none]\ntools = ["nothing"]\n'
        assert (await reload(client, tmp_path, BASE + limited))["added"] == ["auth.keys.ci", "groups.none"]
        assert (await client.get("/api/v1/tools", headers=ci)).json()["tools"] == []
        body = await reload(client, tmp_path, BASE + limited.replace('"nothing"', '"one"'))
        assert body["changed"] == ["groups.none"]
        assert [one["name"] for one in (await client.get("/api/v1/tools", headers=ci)).json()["tools"]] == ["one"]
        assert (await reload(client, tmp_path, BASE))["removed"] == ["auth.keys.ci", "groups.none"]
        assert (await client.get("/api/v1/tools", headers=ci)).status_code == 401


@requirement("OP-reload-keys")
@pytest.mark.parametrize("after", ["", KEYS.replace('"read"', '"call"')])
async def test_a_key_that_is_removed_or_changed_ends_its_streams(tmp_path: Path, after: str) -> None:
    gateway = make_gateway(tmp_path, KEYS)
    async with gateway, serve_on_port(gateway) as url, httpx2.AsyncClient(base_url=url, timeout=30) as client:
        ci = {"x-api-key": "the key of ci"}
        async with client.stream("GET", "/api/v1/tools/changes", headers=ci) as stream:
            assert stream.status_code == 200
            lines = stream.aiter_lines()
            await anext(lines)
            (tmp_path / "jackfield.toml").write_text(after)
            await gateway.reloader.reload("a test")
            async with asyncio.timeout(30):
                async for _ in lines:
                    pass  # it ends


async def test_tools_models_agents_and_categories_are_applied(tmp_path: Path) -> None:
    (tmp_path / "hello.toml").write_text('[[turns]]\nsay = "hello"\n')
    text = """
[[tools]]
name = "confirm"
description = "Give it back."
inputSchema = { type = "object" }
executionType = "internal"
visible = true
[models.fast]
provider = "scripted"
script = "hello.toml"
[agents.helper]
model = "fast"
"""
    async with in_process_gateway(tmp_path) as (gateway, client):
        body = await reload(client, tmp_path, text)
        assert set(body["added"]) == {"tools.confirm", "models.fast", "agents.helper"}
        assert await tool_names(client) == {"confirm"}
        assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == ["fast"]
        assert gateway.agents.get("helper") is not None
        body = await reload(client, tmp_path, "")
        assert set(body["removed"]) == {"tools.confirm", "models.fast", "agents.helper"}
        assert await tool_names(client) == set()
        assert (await client.get("/v1/models")).json()["data"] == []
        assert gateway.agents.get("helper") is None


@requirement("OP-reload-one-at-a-time")
async def test_reloads_at_the_same_time_come_one_after_the_other(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (_, client):
        (tmp_path / "jackfield.toml").write_text(KEYS)
        answers = await asyncio.gather(*(client.post("/api/v1/config/reload") for _ in range(8)))
        assert [answer.status_code for answer in answers] == [200] * 8
        assert sum(answer.json()["added"] == ["auth.keys.ci"] for answer in answers) == 1


@requirement("OP-reload-one-at-a-time")
async def test_a_gateway_that_starts_or_stops_refuses(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path)
    with pytest.raises(NotReady, match="starting or stopping"):
        await gateway.reloader.reload("a test")
    async with gateway:
        pass
    with pytest.raises(NotReady, match="starting or stopping"):
        await gateway.reloader.reload("a test")


async def test_only_an_administrator_may_reload(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, KEYS) as (_, client):
        refused = await client.post("/api/v1/config/reload", headers={"x-api-key": "the key of ci"})
        assert refused.status_code == 403
        assert "config" not in (await client.get("/readyz", headers={"x-api-key": "the key of ci"})).json()


@requirement("OP-reload-watch")
async def test_a_watched_file_is_read_when_it_changes(tmp_path: Path) -> None:
    watched = "[server]\nwatch = true\n"
    async with in_process_gateway(tmp_path, watched) as (gateway, _):
        (tmp_path / "jackfield.toml").write_text(watched + KEYS)
        await eventually_async(lambda: gateway.keyring.is_configured("ci"), within=30)
        (tmp_path / "jackfield.toml").write_text(watched + "[[[")
        await eventually_async(lambda: gateway.reloader.error is not None, within=30)
        (tmp_path / "jackfield.toml").write_text(KEYS)
        await eventually_async(lambda: not gateway.settings.server.watch, within=30)
        assert gateway.reloader.error is None


async def test_a_secret_of_the_file_is_read_anew(tmp_path: Path) -> None:
    data = tmp_path / ".jackfield"
    data.mkdir()
    (data / "secrets.toml").write_text('CI_KEY = "the old key of ci"\n')
    text = '[auth.keys.ci]\nkey = "${CI_KEY}"\nscopes = ["read"]\n'
    async with in_process_gateway(tmp_path, text) as (_, client):
        (data / "secrets.toml").write_text('CI_KEY = "the new key of ci"\n')
        assert (await reload(client, tmp_path, text))["changed"] == ["auth.keys.ci"]
        statuses = [
            (await client.get("/api/v1/tools", headers={"x-api-key": f"the {age} key of ci"})).status_code
            for age in ("old", "new")
        ]
        assert statuses == [401, 200]


async def test_a_lent_key_of_a_session_survives(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, KEYS) as (gateway, client):
        lent = gateway.keyring.host.principal
        gateway.keyring.lend("a key for a while", lent)
        await reload(client, tmp_path, "")
        assert gateway.keyring.find("a key for a while") == lent


@requirement("OP-reload-audited")
async def test_a_reload_is_in_the_audit_log(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (gateway, client):
        await reload(client, tmp_path, "[groups.some]\ntools = []\n")
        await reload(client, tmp_path, "[[[", status=409)
        (tmp_path / "jackfield.toml").write_text("")
        await gateway.reloader.reload("a test")
        await gateway.reloader.reload("a test that changed nothing")
        page = (await client.get("/api/v1/audit", params={"action": "config.reloaded"})).json()
        assert len(page["audit"]) == 2
        told = {entry["actor"]: (entry["subject"], entry["after"]) for entry in page["audit"]}
        none: dict[str, list[str]] = {"added": [], "removed": [], "changed": [], "restart_needed": []}
        assert told == {
            "admin": ("jackfield.toml", {**none, "added": ["groups.some"]}),
            f"gateway:{gateway.id}": ("jackfield.toml", {**none, "removed": ["groups.some"]}),
        }


@requirement("CONSOLE-config-origins")
async def test_the_config_in_force_is_shown_with_origins_to_administrators(tmp_path: Path) -> None:
    project(tmp_path)
    config = BASE + '[auth.keys.reader]\nkey = "key-of-the-reader"\nscopes = ["read"]\n'
    async with in_process_gateway(tmp_path, config) as (_, client):
        await client.put("/api/v1/groups/mine", json={"tools": ["one"]})
        made = await client.post("/api/v1/keys", json={"name": "ci", "scopes": ["read"]})
        assert made.status_code == 201
        model = {"name": "m", "provider": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
        made = await client.post("/api/v1/models", json={**model, "api_key": "written-out-0123456789"})
        assert made.status_code == 201, made.text
        server = {"name": "s", "url": "https://s.example/mcp", "headers": {"X-Key": "written-out-of-an-agent"}}
        agent = {"id": "ada", "model": "m", "mcp": {"servers": [server]}}
        made = await client.post("/api/agents", json=agent)
        assert made.status_code == 201, made.text
        record = (await client.get("/api/v1/config")).json()
        values = {one["key"]: one for one in record["values"]}
        assert record["path"].endswith("jackfield.toml")
        assert (values["sources.first.kind"]["value"], values["sources.first.kind"]["origin"]) == ("files", "file")
        assert (values["groups.mine.tools"]["value"], values["groups.mine.tools"]["origin"]) == (["one"], "api")
        assert values["auth.keys.ci.scopes"]["origin"] == "api"
        assert values["models.m.model"]["origin"] == "api"
        assert values["auth.keys.reader.key"]["value"] == "[redacted]"
        assert (values["agents.ada.model"]["value"], values["agents.ada.model"]["origin"]) == ("m", "api")
        for secret in ("key-of-the-reader", "written-out-0123456789", "written-out-of-an-agent"):
            assert secret not in (await client.get("/api/v1/config")).text
        (tmp_path / "jackfield.toml").write_text("[[[")
        assert (await client.post("/api/v1/config/reload")).status_code == 409
        assert "is not valid TOML" in (await client.get("/api/v1/config")).json()["error"]
        refused = await client.get("/api/v1/config", headers={"x-api-key": "key-of-the-reader"})
        assert refused.status_code == 403
