"""Sources and secrets that are made while the gateway runs, over HTTP."""

import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.gateway.gateway import Gateway
from jackfield.settings import load_settings
from jackfield.sources.transactions import keep_listing
from tests.harness.in_process import KEY, client_of, in_process_gateway
from tests.requirement import requirement
from tests.sources.upstream import Upstream, reply
from tests.waiting import eventually_async

COMMANDS = "[admin]\ncommands = true\n"
FILE = 'def hello() -> str:\n    """Greet."""\n    return "hello"\n'
SERVER = """
import json, os, sys
print("token is", os.environ.get("TOKEN", "none"), file=sys.stderr, flush=True)
if os.environ.get("TOKEN") == "wrong-token-of-all":
    print("Traceback: the token is refused", file=sys.stderr, flush=True)
    sys.exit(3)
tools = [{"name": "pid", "description": "Its process.", "inputSchema": {"type": "object"}}]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "one", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": tools}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": str(os.getpid()) + " " + os.environ.get("TOKEN", "")}]}
    else:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.fixture
def server(tmp_path: Path) -> dict[str, Any]:
    """The settings of an MCP server that is a process."""
    (tmp_path / "server.py").write_text(SERVER)
    return {"kind": "mcp", "command": ["python3", str(tmp_path / "server.py")], "era": "handshake"}


@pytest.fixture
def greeting(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "greeting.py").write_text(FILE)
    return {"kind": "files", "path": str(tmp_path / "greeting.py")}


async def shown(client: httpx2.AsyncClient, name: str) -> dict[str, Any]:
    answer = await client.get(f"/api/v1/sources/{name}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["source"]
    return found


async def is_up(client: httpx2.AsyncClient, name: str) -> dict[str, Any] | None:
    source = await shown(client, name)
    return source if source["status"] == "up" else None


async def call(client: httpx2.AsyncClient, tool: str) -> str:
    answer = await client.post(f"/api/v1/tools/{tool}/execute", json={})
    assert answer.status_code == 200, answer.text
    return json.dumps(answer.json())


@requirement("OPS-sources-run-time")
async def test_a_source_is_made_changed_restarted_and_removed(tmp_path: Path, greeting: dict[str, Any]) -> None:
    config = COMMANDS + '[sources.fixed]\nkind = "files"\npath = "none/*.py"\n'
    async with in_process_gateway(tmp_path, config) as (_, client):
        made = await client.post("/api/v1/sources", json={"name": "mine", **greeting})
        assert made.status_code == 201, made.text
        source = await eventually_async(lambda: is_up(client, "mine"))
        assert (source["kind"], source["origin"], source["error"]) == ("files", "api", None)
        assert source["settings"] == greeting
        assert source["listed_at"] is not None
        await eventually_async(lambda: _tools_are(client, "mine", ["hello"]))
        assert "hello" in await call(client, "hello")

        again = await client.post("/api/v1/sources", json={"name": "mine", **greeting})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
        changed = await client.patch("/api/v1/sources/mine", json={"prefix": "my_"})
        assert changed.status_code == 200, changed.text
        await eventually_async(lambda: _tools_are(client, "mine", ["my_hello"]))
        for prefix in ("one_", "two_", None):
            changed = await client.patch("/api/v1/sources/mine", json={"prefix": prefix})
            answered = changed.json()["source"]
            if answered["status"] == "up":  # on a slow machine it is answered before that
                assert answered["tools"] == [f"{prefix or ''}hello"]
        await eventually_async(lambda: _tools_are(client, "mine", ["hello"]))

        assert (await client.post("/api/v1/sources/mine/restart")).status_code == 202
        await eventually_async(lambda: is_up(client, "mine"))
        wrong = await client.patch("/api/v1/sources/mine", json={"nonsense": 1})
        assert wrong.status_code == 400
        assert "nonsense" in wrong.text
        for method, path in (("PATCH", ""), ("DELETE", "")):
            refused = await client.request(
                method, f"/api/v1/sources/fixed{path}", json={} if method == "PATCH" else None
            )
            assert refused.status_code == 409
            assert "is in the config. Change [sources.fixed] there." in refused.text
        taken = await client.post("/api/v1/sources", json={"name": "fixed", **greeting})
        assert (taken.status_code, "is in the config" in taken.text) == (409, True)

        assert (await client.delete("/api/v1/sources/mine")).status_code == 204
        noted = (await client.get("/api/v1/audit?action=source.*")).json()["audit"]
        assert [entry["action"].removeprefix("source.") for entry in reversed(noted)] == [
            *("created", "changed", "changed", "changed", "changed", "restarted", "removed")
        ]
        assert (noted[2]["actor"], noted[2]["subject"], noted[2]["before"]["prefix"]) == ("admin", "mine", "two_")
        assert (await client.get("/api/v1/sources/mine")).status_code == 404
        assert (await client.delete("/api/v1/sources/mine")).status_code == 404
        assert (await client.post("/api/v1/sources/mine/restart")).status_code == 404


async def _tools_are(client: httpx2.AsyncClient, name: str, expected: list[str]) -> bool:
    return bool((await shown(client, name))["tools"] == expected)


@requirement("OPS-sources-commands")
async def test_sources_with_processes_or_files_need_the_config_to_allow_them(
    tmp_path: Path, greeting: dict[str, Any], server: dict[str, Any]
) -> None:
    oauth = {"grant": "workload", "token_file": "/etc/hostname"}
    url = {"kind": "mcp", "url": "https://example.com/mcp"}
    async with in_process_gateway(tmp_path) as (_, client):
        for raw in (
            greeting,
            server,
            {"kind": "skills", "path": "x"},
            {"kind": "openapi", "file": "/etc/passwd"},
            {**url, "transport": "stdio"},
            {**url, "auth": "shared", "oauth": oauth},
        ):
            for path in ("/api/v1/sources", "/api/v1/sources/test"):
                answer = await client.post(path, json={"name": "mine", **raw})
                assert answer.status_code == 403, raw
                assert "commands = true in [admin]" in answer.json()["error"]["message"]
        assert (await client.get("/api/v1/sources/mine")).status_code == 404


@requirement("OPS-secrets")
async def test_a_secret_is_used_never_shown_and_changes_what_uses_it(tmp_path: Path, server: dict[str, Any]) -> None:
    async with in_process_gateway(tmp_path, COMMANDS) as (gateway, client):
        raw = {"name": "mine", **server, "env": {"TOKEN": "${MY_TOKEN}"}}
        assert (await client.post("/api/v1/sources", json=raw)).status_code == 201
        down = await shown(client, "mine")
        assert down["status"] == "down"
        assert "uses ${MY_TOKEN}, which is not set. Set it with 'jackfield secrets set MY_TOKEN'" in down["error"]
        misspelt = await client.patch("/api/v1/sources/mine", json={"cwt": "/tmp"})
        assert (misspelt.status_code, "unknown key 'cwt'" in misspelt.text) == (400, True), misspelt.text
        elsewhere = {"name": "other", "kind": "mcp", "url": "${BASE}/mcp", "headers": {"X-Key": "${KEY}"}}
        assert (await client.post("/api/v1/sources", json=elsewhere)).status_code == 201

        kept = await client.put("/api/v1/secrets/MY_TOKEN", json={"value": "first-token-of-all"})
        assert kept.status_code == 200, kept.text
        source = await eventually_async(lambda: is_up(client, "mine"))
        first = await eventually_async(lambda: _told(client, "[redacted]"))
        assert "first-token" not in json.dumps(source) + first + kept.text
        assert source["settings"]["env"] == {"TOKEN": "${MY_TOKEN}"}
        assert any("token is [redacted]" in line for line in (await shown(client, "mine"))["stderr"])

        await client.put("/api/v1/secrets/MY_TOKEN", json={"value": "second-token-of-all"})
        await eventually_async(lambda: _told_other(client, first))
        listed = await client.get("/api/v1/secrets")
        assert [one["name"] for one in listed.json()["secrets"]] == ["MY_TOKEN"]
        assert "token-of-all" not in listed.text
        rows = await gateway.store.read(_all_text)
        assert "token-of-all" not in rows

        rotated = await client.post("/api/v1/vault/rotate")
        assert rotated.json()["resealed"] >= 2
        await gateway.run_time_sources.reload()
        assert await is_up(client, "mine")

        assert (await client.delete("/api/v1/secrets/MY_TOKEN")).status_code == 204
        assert (await shown(client, "mine"))["status"] != "up"
        await eventually_async(lambda: _error_has(client, "which is not set"))
        assert (await client.delete("/api/v1/secrets/MY_TOKEN")).status_code == 404
        assert (await client.put("/api/v1/secrets/1-x", json={"value": "x"})).status_code == 404


def _all_text() -> Any:
    rows = yield "sealed_with_others", {"key_id": "", "limit": 100}
    return json.dumps([dict(row) for row in rows])


async def _told(client: httpx2.AsyncClient, word: str) -> str | None:
    answer = await client.post("/api/v1/tools/pid/execute", json={})
    return answer.text if answer.status_code == 200 and word in answer.text else None


async def _told_other(client: httpx2.AsyncClient, before: str) -> bool:
    """Whether another process answers."""
    answer = await client.post("/api/v1/tools/pid/execute", json={})
    return answer.status_code == 200 and _pid(answer.text) != _pid(before)


def _pid(answer: str) -> str:
    return json.dumps(json.loads(answer)["result"])


async def _error_has(client: httpx2.AsyncClient, words: str) -> bool:
    return words in ((await shown(client, "mine"))["error"] or "")


@requirement("OPS-secrets")
async def test_values_written_out_are_not_shown_and_tables_are_changed_in_part(tmp_path: Path) -> None:
    raw = {"name": "far", "kind": "mcp", "url": "http://127.0.0.1:1", "headers": {"X-A": "plain", "X-B": "${UNSET_B}"}}
    async with in_process_gateway(tmp_path) as (_, client):
        made = await client.post("/api/v1/sources", json=raw)
        assert made.status_code == 201, made.text
        assert (await shown(client, "far"))["settings"]["headers"] == {"X-A": "[redacted]", "X-B": "${UNSET_B}"}
        await client.patch("/api/v1/sources/far", json={"headers": {"X-B": None, "X-C": "${UNSET_C}"}})
        assert (await shown(client, "far"))["settings"]["headers"] == {"X-A": "[redacted]", "X-C": "${UNSET_C}"}
        assert "plain" not in (await client.get("/api/v1/audit")).text
        hidden = await client.patch("/api/v1/sources/far", json={"headers": {"X-A": "[redacted]"}})
        assert (hidden.status_code, "'headers.X-A' has '[redacted]'" in hidden.text) == (400, True), hidden.text


@requirement("OPS-secrets")
async def test_only_listed_variables_of_the_environment_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "jackfield.toml"
    path.write_text('[admin]\nsecrets = ["LISTED"]\n')
    environment = {
        "JACKFIELD_ADMIN_KEY": KEY,
        "JACKFIELD_STORE": "memory:",
        "LISTED": "http://127.0.0.1:1/a",
        "OTHER": "http://127.0.0.1:1/b",
    }
    async with Gateway(load_settings(path, environment=environment)) as gateway, client_of(gateway) as client:
        for name, variable in (("one", "LISTED"), ("two", "OTHER")):
            raw = {"name": name, "kind": "manifest", "url": f"${{{variable}}}"}
            answer = await client.post("/api/v1/sources", json=raw)
            assert answer.status_code == 201, answer.text
        assert "uses ${OTHER}, which is not set" in (await shown(client, "two"))["error"]
        one = await eventually_async(lambda: _down(client, "one"))
        assert "not set" not in one["error"], "it is tried, and nobody is there"


async def _down(client: httpx2.AsyncClient, name: str) -> dict[str, Any] | None:
    source = await shown(client, name)
    return source if source["status"] == "down" else None


@requirement("OPS-sources-test")
async def test_a_source_is_tried_before_it_is_kept(tmp_path: Path, server: dict[str, Any]) -> None:
    async with in_process_gateway(tmp_path, COMMANDS) as (gateway, client):
        answer = await client.post("/api/v1/sources/test", json={**server, "prefix": "x_"})
        found = answer.json()
        assert (answer.status_code, found["ok"], found["error"]) == (200, True, None), answer.text
        assert found["tools"] == [{"name": "x_pid", "description": "Its process."}]
        await client.put("/api/v1/secrets/T", json={"value": "wrong-token-of-all"})
        answer = await client.post("/api/v1/sources/test", json={**server, "env": {"TOKEN": "${T}"}})
        assert answer.json()["ok"] is False
        assert any("the token is refused" in line for line in answer.json()["stderr"]), answer.text
        assert "wrong-token" not in answer.text
        assert gateway.source_registry.get("test") is None
        unset = await client.post("/api/v1/sources/test", json={**server, "env": {"TOKEN": "${UNSET}"}})
        assert (unset.status_code, "${UNSET}" in unset.text) == (400, True)

        await client.post("/api/v1/sources", json={"name": "mine", **server})
        again = await client.post("/api/v1/sources/mine/test")
        assert [tool["name"] for tool in again.json()["tools"]] == ["pid"]
        assert (await client.post("/api/v1/sources/other/test")).status_code == 404


@requirement("OPS-sources-shown")
async def test_what_is_wrong_with_a_source_is_shown_where_one_looks(tmp_path: Path, server: dict[str, Any]) -> None:
    (tmp_path / "bad.py").write_text('def broken(:\n    return "x"\n')
    async with in_process_gateway(tmp_path, COMMANDS) as (_, client):
        await client.post("/api/v1/sources", json={"name": "mine", **server, "env": {"TOKEN": "wrong-token-of-all"}})
        await eventually_async(lambda: _stderr_has(client, "mine", "the token is refused"))
        await client.post("/api/v1/sources", json={"name": "bad", "kind": "files", "path": str(tmp_path / "bad.py")})
        bad = await eventually_async(lambda: _faulty(client, "bad"))
        assert "bad.py" in bad["error"]
        assert "line 1" in bad["error"]
        shown_line = [line.strip() for line in bad["stderr"]]
        assert shown_line[:2] + shown_line[-1:] == [
            'File "bad.py", line 1',
            "def broken(:",
            "SyntaxError: invalid syntax",
        ]
        (tmp_path / "late.py").write_text('import nothing_like_this\n\ndef late() -> str:\n    return "x"\n')
        await client.post("/api/v1/sources", json={"name": "late", "kind": "files", "path": str(tmp_path / "late.py")})
        await eventually_async(lambda: _tools_are(client, "late", ["late"]))
        await client.post("/api/v1/tools/late/execute", json={})
        assert any("import nothing_like_this" in line for line in (await shown(client, "late"))["stderr"])
        await client.post("/api/v1/sources", json={"name": "peer", "kind": "manifest", "url": "http://127.0.0.1:1"})
        peer = await eventually_async(lambda: _down(client, "peer"))
        assert peer["stderr"], "the requests that failed"


@requirement("OPS-sources-bad-answer")
@pytest.mark.parametrize("kind", ["mcp", "sse", "manifest", "openapi"])
async def test_what_a_peer_answered_last_is_shown_to_administrators_and_not_to_callers(
    tmp_path: Path, kind: str
) -> None:
    page = b"<html>\n <b>502</b>\x07 no backend for key sk-of-this-source</html>"
    settings = {"kind": "mcp", "transport": "sse"} if kind == "sse" else {"kind": kind}
    async with Upstream() as upstream, in_process_gateway(tmp_path) as (_, client):
        paths = ("/mcp", "/mcp/api/v1/tools")
        upstream.answers |= dict.fromkeys(paths, reply(502, page, content_type="text/html"))
        auth = {"headers": {"Authorization": "Bearer sk-of-this-source"}}
        made = {"name": "peer", "url": f"{upstream.url}/mcp", **settings, **auth}
        await client.post("/api/v1/sources", json=made)
        peer = await eventually_async(lambda: _down(client, "peer"))
        assert "The answer: 502 \N{REPLACEMENT CHARACTER} no backend" in peer["stderr"][-1], peer["stderr"]
        assert "sk-of-this-source" not in json.dumps(peer["stderr"])
        assert "no backend" not in peer["error"]
        upstream.answers |= dict.fromkeys(paths, reply(200, b"<html>a login page</html>", content_type="text/html"))
        await client.post("/api/v1/tools/refresh")
        if kind != "sse":  # a stream that ends at once has no answer
            await eventually_async(lambda: _stderr_has(client, "peer", "The answer: a login page"))


@requirement("OPS-sources-forget")
async def test_what_a_source_listed_before_a_login_is_not_shown_for_another_server(tmp_path: Path) -> None:
    operation = {"operationId": "greet", "responses": {"200": {"description": "ok"}}}
    document = {"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "paths": {"/greet": {"get": operation}}}
    async with Upstream() as upstream, in_process_gateway(tmp_path) as (gateway, client):
        upstream.answers |= dict.fromkeys(("/here", "/there"), reply(401))

        async def offers_after(asked: Awaitable[httpx2.Response], names: list[str]) -> None:
            answer = await asked
            assert answer.is_success, answer.text

            async def is_so() -> bool:
                source = await shown(client, "far")
                return (source["status"], source["tools"]) == ("login_needed", names)

            await eventually_async(is_so)

        def elsewhere(**settings: Any) -> Awaitable[httpx2.Response]:
            return client.patch("/api/v1/sources/far", json=settings)

        far = {"name": "far", "kind": "openapi", "url": f"{upstream.url}/here", "auth": "user"}
        await gateway.store.write(partial(keep_listing, "far", json.dumps(document)))
        await offers_after(client.post("/api/v1/sources", json=far), ["greet"])
        await offers_after(elsewhere(prefix="my_"), ["my_greet"])
        await offers_after(elsewhere(url=f"{upstream.url}/there"), [])
        await gateway.store.write(partial(keep_listing, "far", json.dumps(document)))
        assert (await client.delete("/api/v1/sources/far")).status_code == 204
        await offers_after(client.post("/api/v1/sources", json=far), [])


async def _stderr_has(client: httpx2.AsyncClient, name: str, words: str) -> bool:
    return words in " ".join((await shown(client, name))["stderr"])


async def _faulty(client: httpx2.AsyncClient, name: str) -> dict[str, Any] | None:
    source = await shown(client, name)
    return source if source["status"] == "faulty" else None


@asynccontextmanager
async def gateway_in(folder: Path, config: str, store: str) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    path = folder / "jackfield.toml"
    path.write_text(config)
    settings = load_settings(path, environment={"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store})
    async with Gateway(settings) as gateway, client_of(gateway) as client:
        yield gateway, client


@requirement("OPS-sources-run-time")
async def test_sources_outlive_the_gateway_and_one_of_the_config_comes_first(
    tmp_path: Path, greeting: dict[str, Any]
) -> None:
    store = f"sqlite:///{tmp_path / 'gateway.db'}"
    async with gateway_in(tmp_path, COMMANDS, store) as (_, client):
        for name in ("mine", "other"):
            await client.post("/api/v1/sources", json={"name": name, **greeting})
    config = COMMANDS + '[sources.mine]\nkind = "files"\npath = "none/*.py"\n'
    async with gateway_in(tmp_path, config, store) as (_, client):
        mine, other = await shown(client, "mine"), await shown(client, "other")
        assert (mine["origin"], other["origin"]) == ("config", "api")
        assert any("was also made over the API. That of the config counts" in fault for fault in mine["faults"])
        assert (await client.delete("/api/v1/sources/mine")).status_code == 204
        assert "made over the API" not in json.dumps(await shown(client, "mine"))
    async with gateway_in(tmp_path, "", store) as (_, client):
        assert (await client.get("/api/v1/sources/mine")).status_code == 404
        assert "commands = true in [admin]" in (await shown(client, "other"))["error"]


async def test_a_limited_key_makes_no_sources(tmp_path: Path) -> None:
    config = '[auth.keys.narrow]\nkey = "narrow-key-of-all"\nscopes = ["admin"]\ntools = ["x"]\n'
    async with in_process_gateway(tmp_path, config) as (_, client):
        headers = {"x-api-key": "narrow-key-of-all"}
        raw = {"name": "mine", "kind": "manifest", "url": "http://127.0.0.1:1"}
        assert (await client.post("/api/v1/sources", json=raw, headers=headers)).status_code == 403
        assert (await client.put("/api/v1/secrets/X", json={"value": "v"}, headers=headers)).status_code == 403


@requirement("OPS-sources-run-time")
async def test_a_reload_of_the_config_leaves_sources_made_over_the_api(
    tmp_path: Path, greeting: dict[str, Any]
) -> None:
    async with in_process_gateway(tmp_path, COMMANDS) as (gateway, client):
        await client.post("/api/v1/sources", json={"name": "mine", **greeting})
        await eventually_async(lambda: is_up(client, "mine"))
        untouched = gateway.source_registry.get("mine")

        async def reload(text: str) -> None:
            (tmp_path / "jackfield.toml").write_text(text)
            answer = await client.post("/api/v1/config/reload")
            assert answer.status_code == 200, answer.text

        other = '[sources.other]\nkind = "files"\npath = "none/*.py"\n'
        await reload(COMMANDS + other)
        assert gateway.source_registry.get("mine") is untouched
        assert (await shown(client, "mine"))["origin"] == "api"
        await reload(COMMANDS + other.replace("other", "mine"))
        assert (await shown(client, "mine"))["origin"] == "config"
        await reload(COMMANDS)
        assert (await shown(client, "mine"))["origin"] == "api"
        await eventually_async(lambda: is_up(client, "mine"))
        await reload("")
        source = await eventually_async(lambda: _is_down(client, "mine"))
        assert "[admin]" in source["error"]
        refused = await client.post("/api/v1/sources", json={"name": "second", **greeting})
        assert refused.status_code == 403


async def _is_down(client: httpx2.AsyncClient, name: str) -> dict[str, Any] | None:
    source = await shown(client, name)
    return source if source["status"] == "down" else None
