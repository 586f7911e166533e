"""Models that are made while the gateway runs, over HTTP."""

import base64
from pathlib import Path
from typing import Any

import httpx2

from jackfield.sdk import Client
from tests.gateway.cluster import two_gateways
from tests.harness.in_process import KEY, in_process_gateway
from tests.llm.chat_server import ChatServer, chunk, says, text
from tests.requirement import requirement
from tests.waiting import eventually_async

VAULT_KEY = base64.urlsafe_b64encode(b"k" * 32).decode()
FIXED = (
    '[models.fixed]\nprovider = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "f"\napi_key = "key-of-fixed"\n'
)


def described(server: ChatServer, **more: Any) -> dict[str, Any]:
    return {"provider": "openai", "base_url": server.base_url, "model": "tiny", "max_retries": 0, **more}


async def ask(client: httpx2.AsyncClient, model: str) -> httpx2.Response:
    return await client.post("/v1/responses", json={"model": model, "input": "hello", "tools": []})


async def names(client: httpx2.AsyncClient) -> list[str]:
    return [one["id"] for one in (await client.get("/v1/models")).json()["data"]]


@requirement("OPS-models-run-time")
async def test_a_model_is_tested_made_asked_changed_and_removed(tmp_path: Path, server: ChatServer) -> None:
    server.plays = [says(text("ready"), chunk(finish="stop"))]
    async with in_process_gateway(tmp_path, FIXED) as (_, client):
        tested = await client.post("/api/v1/models/test", json=described(server))
        assert (tested.status_code, tested.json()["ok"], tested.json()["text"]) == (200, True, "ready")
        assert await names(client) == ["fixed"], "nothing is kept"

        made = await client.post("/api/v1/models", json={"name": "mine", **described(server)})
        assert made.status_code == 201, made.text
        record = made.json()["model"]
        assert (record["origin"], record["error"], record["settings"]) == ("api", None, described(server))
        assert await names(client) == ["fixed", "mine"]
        answer = await ask(client, "mine")
        assert (answer.status_code, "ready" in answer.text) == (200, True)
        assert (await client.post("/api/v1/models", json={"name": "mine", **described(server)})).status_code == 409
        assert (await client.post("/api/v1/models/mine/test")).json()["ok"]

        changed = await client.patch("/api/v1/models/mine", json={"model": "other", "max_retries": None})
        assert changed.status_code == 200, changed.text
        assert changed.json()["model"]["settings"]["model"] == "other"
        await ask(client, "mine")
        assert server.bodies[-1]["model"] == "other"
        wrong = await client.patch("/api/v1/models/mine", json={"nonsense": 1})
        assert (wrong.status_code, "nonsense" in wrong.text) == (400, True)

        assert (await client.delete("/api/v1/models/mine")).status_code == 204
        assert (await ask(client, "mine")).status_code == 404
        assert (await client.delete("/api/v1/models/mine")).status_code == 404
        noted = (await client.get("/api/v1/audit?action=model.*")).json()["audit"]
        assert [entry["action"] for entry in reversed(noted)] == ["model.created", "model.changed", "model.removed"]


@requirement("OPS-models-run-time")
async def test_models_of_the_config_are_shown_beside_them_and_changed_there(tmp_path: Path, server: ChatServer) -> None:
    async with in_process_gateway(tmp_path, FIXED) as (_, client):
        shown = await client.get("/api/v1/models")
        [fixed] = shown.json()["models"]
        assert (fixed["name"], fixed["origin"], fixed["model"], fixed["settings"]) == ("fixed", "config", "f", None)
        assert "key-of-fixed" not in shown.text
        for answer in (
            await client.post("/api/v1/models", json={"name": "fixed", **described(server)}),
            await client.patch("/api/v1/models/fixed", json={"model": "x"}),
            await client.delete("/api/v1/models/fixed"),
        ):
            assert (answer.status_code, "is in the config" in answer.text) == (409, True)
        failed = (
            await client.post("/api/v1/models/test", json=described(server, base_url="http://127.0.0.1:1"))
        ).json()
        assert not failed["ok"]
        assert failed["error"]

        await client.post("/api/v1/models", json={"name": "mine", **described(server)})
        (tmp_path / "jackfield.toml").write_text(FIXED + FIXED.replace("models.fixed", "models.mine"))
        assert (await client.post("/api/v1/config/reload")).status_code == 200
        assert (await client.get("/api/v1/models/mine")).json()["model"]["origin"] == "config"
        assert (await client.delete("/api/v1/models/mine")).status_code == 204, "that of the store"
        assert (await client.get("/api/v1/models/mine")).json()["model"]["origin"] == "config"


@requirement("OPS-models-run-time")
async def test_a_model_names_secrets_which_are_never_shown(tmp_path: Path, server: ChatServer) -> None:
    server.plays = [says(text("ready"), chunk(finish="stop"))]
    async with in_process_gateway(tmp_path) as (_, client):
        raw = described(server, api_key="${MODEL_TOKEN}", headers={"x-extra": "a-written-out-value"})
        made = await client.post("/api/v1/models", json={"name": "mine", **raw})
        assert made.status_code == 201, made.text
        record = made.json()["model"]
        assert "uses ${MODEL_TOKEN}, which is not set" in record["error"]
        assert record["settings"]["headers"] == {"x-extra": "[redacted]"}
        unusable = await ask(client, "mine")
        assert "which is not set" in unusable.text
        assert not server.received

        for value in ("first-token-of-all", "second-token-of-all"):
            assert (await client.put("/api/v1/secrets/MODEL_TOKEN", json={"value": value})).status_code == 200
            assert (await ask(client, "mine")).status_code == 200
            assert server.received[-1].headers["authorization"] == f"Bearer {value}"
        written = await client.patch("/api/v1/models/mine", json={"api_key": "a-literal-key-of-all"})
        assert written.json()["model"]["settings"]["api_key"] == "[redacted]"
        for path in ("/api/v1/models", "/api/v1/models/mine", "/api/v1/audit"):
            everything = (await client.get(path)).text
            for secret in ("token-of-all", "literal-key-of-all", "written-out-value"):
                assert secret not in everything


@requirement("OPS-models-run-time")
async def test_a_model_that_reads_a_file_needs_commands_and_a_limited_key_makes_none(
    tmp_path: Path, server: ChatServer
) -> None:
    (tmp_path / "script.toml").write_text('[otherwise]\nsay = "scripted"\n')
    narrow = '[auth.keys.narrow]\nkey = "narrow-key-of-all"\nscopes = ["admin"]\ntools = ["x"]\n'
    scripted = {"name": "mine", "provider": "scripted", "script": "script.toml"}
    async with in_process_gateway(tmp_path, narrow) as (_, client):
        refused = await client.post("/api/v1/models", json=scripted)
        assert (refused.status_code, "commands = true" in refused.text) == (403, True)
        limited = {"x-api-key": "narrow-key-of-all"}
        made = {"name": "mine", **described(server)}
        assert (await client.post("/api/v1/models", json=made, headers=limited)).status_code == 403
        (tmp_path / "jackfield.toml").write_text("[admin]\ncommands = true\n")
        assert (await client.post("/api/v1/config/reload")).status_code == 200
        assert (await client.post("/api/v1/models", json=scripted)).status_code == 201
        assert "scripted" in (await ask(client, "mine")).text
        (tmp_path / "jackfield.toml").write_text("")
        assert (await client.post("/api/v1/config/reload")).status_code == 200
        assert "commands = true" in (await client.get("/api/v1/models/mine")).json()["model"]["error"]


@requirement("OPS-models-run-time")
async def test_a_model_made_at_one_gateway_is_at_both(tmp_path: Path, postgres_url: str, server: ChatServer) -> None:
    server.plays = [says(text("ready"), chunk(finish="stop"))]
    environment = {"JACKFIELD_VAULT_KEY": VAULT_KEY}
    async with two_gateways(tmp_path, postgres_url, "", environment=environment) as ((_, one), (_, two)):
        raw = {"name": "mine", **described(server, api_key="${MODEL_TOKEN}")}
        assert (await one.post("/api/v1/models", json=raw)).status_code == 201
        assert (await one.put("/api/v1/secrets/MODEL_TOKEN", json={"value": "token-of-both"})).status_code == 200

        async def is_usable() -> bool:
            return "ready" in (await ask(two, "mine")).text

        await eventually_async(is_usable)
        assert server.received[-1].headers["authorization"] == "Bearer token-of-both"
        assert (await two.delete("/api/v1/models/mine")).status_code == 204

        async def is_gone() -> bool:
            return (await ask(one, "mine")).status_code == 404

        await eventually_async(is_gone)


async def test_the_client_does_all_of_it(tmp_path: Path, server: ChatServer) -> None:
    server.plays = [says(text("ready"), chunk(finish="stop"))]
    async with (
        in_process_gateway(tmp_path) as (gateway, http),
        Client("http://localhost:8420", KEY, transport=http._transport) as client,
    ):
        assert (await client.models.test("mine", described(server))).text == "ready"
        assert (await client.models.create("mine", described(server))).origin == "api"
        assert (await client.models.change("mine", {"timeout": 5})).settings == described(server, timeout=5)
        assert [one.name for one in await client.models.list()] == ["mine"]
        assert (await client.models.get("mine")).model == "tiny"
        assert (await client.models.test("mine")).ok
        await client.models.delete("mine")
        assert gateway.models.names == ()
