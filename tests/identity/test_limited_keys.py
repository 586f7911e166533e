"""A key that is limited to some tools, at the doors of a real gateway: an empty list is none, and no agent helps."""

from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.agents.cycle_transactions import inbox_page
from jackfield.agents.types import source_name
from jackfield.identity.keys import ADMIN
from jackfield.spaces import transactions as space_tx
from tests.harness.api import error_of
from tests.harness.in_process import in_process_gateway
from tests.mcp.library import library
from tests.mcp.test_reading import config
from tests.requirement import requirement
from tests.waiting import eventually_async

TOOLS = "".join(
    f"""
[[tools]]
name = "{name}"
description = "Does {name}."
inputSchema = {{ type = "object" }}
executionType = "internal"
visible = false
"""
    for name in ("look", "pay")
)
SHOWN = """
[[tools]]
name = "show"
description = "Shows something in the space."
inputSchema = { type = "object" }
executionType = "internal"
visible = true
[auth.keys.shower]
key = "shower-key"
tools = ["look", "show"]
"""
CONFIG = f"""
{TOOLS}
[auth.keys.none]
key = "none-key"
tools = []
[auth.keys.looker]
key = "looker-key"
tools = ["look"]
[auth.keys.server]
key = "server-key"
tools = ["look", "bank@banker:*"]
[auth.keys.grouped]
key = "grouped-key"
groups = ["lookers"]
[auth.keys.free]
key = "free-key"
[groups.lookers]
tools = ["look"]

[models.m]
provider = "scripted"
script = "s.toml"
[agents.wide]
model = "m"
spaces = ["mixed"]
[agents.narrow]
model = "m"
tools = ["look"]
spaces = ["quiet", "mixed"]
[agents.banker]
model = "m"
tools = []
[[agents.banker.mcp.servers]]
name = "bank"
url = "http://127.0.0.1:9/mcp"
transport = "http"
"""


async def ask(client: httpx2.AsyncClient, method: str, path: str, key: str, body: Any = None) -> httpx2.Response:
    return await client.request(method, path, headers={"x-api-key": f"{key}-key"}, json=body)


@requirement("SAFE-empty-is-none")
async def test_an_empty_list_of_tools_on_a_key_is_none_and_no_list_is_all(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[otherwise]\nsay = "Hm."\n')
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        for key, names in (("none", []), ("looker", ["look"]), ("free", ["look", "pay"])):
            listed = (await ask(client, "GET", "/api/v1/tools", key)).json()["tools"]
            assert [tool["name"] for tool in listed] == names
        refused = await ask(client, "POST", "/api/v1/tools/look/execute", "none", {"arguments": {}})
        assert refused.status_code == 404
        assert (await ask(client, "GET", "/api/v1/tools/search?q=look", "none")).json()["tools"] == []


@requirement("SAFE-limited-keys")
@pytest.mark.parametrize(
    ("key", "agent", "allowed"),
    [
        ("looker", "wide", False),
        ("looker", "narrow", True),
        ("looker", "banker", False),
        ("server", "banker", True),
        ("none", "narrow", False),
        ("grouped", "wide", False),
        ("grouped", "narrow", True),
        ("grouped", "banker", False),
        ("free", "wide", True),
    ],
)
async def test_a_limited_key_has_no_agent_act_that_uses_other_tools(
    tmp_path: Path, key: str, agent: str, *, allowed: bool
) -> None:
    (tmp_path / "s.toml").write_text('[otherwise]\nsay = "Hm."\n')
    async with in_process_gateway(tmp_path, CONFIG) as (gateway, client):
        body = {"serviceName": "shop", "payload": "Pay."}
        said = await ask(client, "POST", f"/api/agents/{agent}/trigger", key, body)
        assert said.status_code == (200 if allowed else 403)
        if not allowed:
            assert f"agent '{agent}' has tools that the key may not use" in error_of(said)["message"]
            assert (await gateway.store.read(partial(inbox_page, agent)))[0] == []
        if key == "looker":
            called = await ask(client, "POST", "/api/v1/tools/look/execute", key, {"arguments": {}, "agent": agent})
            assert called.status_code == (200 if allowed else 403)


@requirement("MCP2-groups-keys")
async def test_a_response_offers_what_is_in_the_key_s_groups(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[otherwise]\nsay = "Hm."\n')
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        for key, names in (("grouped", ["look"]), ("free", ["look", "pay"])):
            body = {"model": "m", "input": "Hi", "tools": [{"type": "jackfield:catalog"}]}
            made = (await ask(client, "POST", "/v1/responses", key, body)).json()
            assert [tool["name"] for tool in made["output"][0]["tools"]] == names


@requirement("SAFE-limited-keys")
async def test_a_limited_key_speaks_only_where_no_agent_with_other_tools_listens(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[otherwise]\nsay = "Hm."\n')
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        for space, status in (("quiet", 201), ("mixed", 403)):
            said = await ask(client, "POST", f"/api/spaces/{space}/messages", "looker", {"content": "Pay."})
            assert said.status_code == status
        assert "agent 'wide' has tools" in error_of(said)["message"]
        assert (await ask(client, "POST", "/api/spaces/mixed/messages", "free", {"content": "Pay."})).status_code == 201


@requirement("SAFE-limited-keys")
async def test_a_limited_key_shows_nothing_where_it_may_not_speak(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[otherwise]\nsay = "Hm."\n')
    async with in_process_gateway(tmp_path, SHOWN + CONFIG) as (gateway, client):
        for space, status in (("quiet", 200), ("mixed", 403)):
            body = {"arguments": {"text": "Pay."}, "space_id": space}
            called = await ask(client, "POST", "/api/v1/tools/show/execute", "shower", body)
            assert called.status_code == status
            shown = await gateway.store.read(
                partial(space_tx.messages, space, limit=10, after_seq=None, before_seq=None)
            )
            assert len(shown) == (status == 200)


def test_a_server_of_an_agent_has_a_name_that_no_other_source_has() -> None:
    assert source_name("ada", "github-tools") == "github-tools@ada"
    odd = {source_name("ada", name) for name in ("a@b", "a b", "a.b", "ä", "", "x" * 100)}
    assert len(odd) == 6
    assert all(name.count("@") == 1 and ":" not in name for name in odd)


@requirement("SAFE-limited-keys", "MCP2-read-covered")
async def test_a_limited_key_has_no_agent_act_that_reads_what_it_may_not(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[otherwise]\nsay = "Hm."\n')
    keys = {"tools": ["look", "pay"], "notes": ["look", "pay", "docs:note://*"], "all": ["look", "pay", "docs:*"]}
    limited = "".join(f'[auth.keys.{name}]\nkey = "{name}-key"\ntools = {tools}\n' for name, tools in keys.items())
    async with library() as shelf, in_process_gateway(tmp_path, CONFIG + limited + config(shelf)) as (gateway, client):
        await eventually_async(lambda: bool(gateway.catalog.resources(ADMIN).resources))
        statuses = {}
        for key in keys:
            body = {"serviceName": "shop", "payload": "Read."}
            said = await ask(client, "POST", "/api/agents/wide/trigger", key, body)
            statuses[key] = said.status_code
        assert statuses == {"tools": 403, "notes": 403, "all": 200}, "its prompts and what is not listed count, too"
