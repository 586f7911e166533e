"""Sources and secrets made at one of two gateways on a PostgreSQL database."""

import base64
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from jackfield.gateway.gateway import Gateway
from jackfield.settings import load_settings
from tests.gateway.cluster import two_gateways
from tests.harness.in_process import KEY, client_of
from tests.requirement import requirement
from tests.waiting import eventually_async

VAULT_KEY = base64.urlsafe_b64encode(b"k" * 32).decode()
CONFIG = "[admin]\ncommands = true\n"
FILE = 'def hello() -> str:\n    """Greet."""\n    return "hello"\n'


async def shown(client: httpx2.AsyncClient, name: str) -> dict[str, Any] | None:
    answer = await client.get(f"/api/v1/sources/{name}")
    found: dict[str, Any] | None = answer.json()["source"] if answer.status_code == 200 else None
    return found


async def has_tools(client: httpx2.AsyncClient, name: str, tools: list[str]) -> bool:
    source = await shown(client, name)
    return source is not None and source["status"] == "up" and source["tools"] == tools


@requirement("OPS-sources-cluster")
async def test_what_is_made_at_one_gateway_is_at_both(tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "greeting.py").write_text(FILE)
    environment = {"JACKFIELD_VAULT_KEY": VAULT_KEY}
    async with two_gateways(tmp_path, postgres_url, CONFIG, environment=environment) as ((_, one), (_, two)):
        raw = {"name": "mine", "kind": "files", "path": str(tmp_path / "${FILE}.py")}
        assert (await one.post("/api/v1/sources", json=raw)).status_code == 201
        await eventually_async(lambda: _error_has(two, "uses ${FILE}, which is not set"))
        assert (await two.put("/api/v1/secrets/FILE", json={"value": "greeting"})).status_code == 200
        for client in (one, two):
            await eventually_async(partial(has_tools, client, "mine", ["hello"]))

        changed = await two.patch("/api/v1/sources/mine", json={"prefix": "our_"})
        assert changed.status_code == 200, changed.text
        again = await one.patch("/api/v1/sources/mine", json={"prefix": "my_"})
        assert again.status_code == 200, "what the other gateway has just written is known here"
        for client in (one, two):
            await eventually_async(partial(has_tools, client, "mine", ["my_hello"]))

        assert (await one.post("/api/v1/sources/mine/restart")).status_code == 202
        for client in (one, two):
            await eventually_async(partial(_has_reconnected, client))
        assert (await two.delete("/api/v1/sources/mine")).status_code == 204
        await eventually_async(lambda: _is_gone(one))


@requirement("OPS-secrets")
async def test_a_gateway_without_the_vaults_key_says_so(tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "greeting.py").write_text(FILE)
    raw = {"name": "mine", "kind": "files", "path": str(tmp_path / "${FILE}.py")}
    (tmp_path / "jackfield.toml").write_text(CONFIG)
    environment = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": postgres_url}
    without = load_settings(tmp_path / "jackfield.toml", environment=environment)
    having = load_settings(tmp_path / "jackfield.toml", environment={**environment, "JACKFIELD_VAULT_KEY": VAULT_KEY})
    async with Gateway(without) as first, Gateway(having) as second, client_of(first) as one, client_of(second) as two:
        refused = await one.put("/api/v1/secrets/FILE", json={"value": "greeting"})
        assert (refused.status_code, "JACKFIELD_VAULT_KEY" in refused.text) == (409, True)
        assert (await two.put("/api/v1/secrets/FILE", json={"value": "greeting"})).status_code == 200
        assert (await two.post("/api/v1/sources", json=raw)).status_code == 201
        await eventually_async(lambda: has_tools(two, "mine", ["hello"]))
        await eventually_async(lambda: _error_has(one, "uses ${FILE}, which cannot be read here"))


async def _error_has(client: httpx2.AsyncClient, words: str) -> bool:
    source = await shown(client, "mine")
    return source is not None and words in (source["error"] or "")


async def _has_reconnected(client: httpx2.AsyncClient) -> bool:
    source = await shown(client, "mine")
    return source is not None and source["status"] == "up" and source["reconnects"] >= 1


async def _is_gone(client: httpx2.AsyncClient) -> bool:
    return await shown(client, "mine") is None
