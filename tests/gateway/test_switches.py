"""What an administrator switches off is off for everybody: tools, sources, keys; at every gateway, and on again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.gateway.gateway import Gateway
from tests.gateway.cluster import two_gateways
from tests.harness.in_process import KEY, in_process_gateway, make_gateway, serve_on_port
from tests.mcp.scene import META, VERSION
from tests.requirement import requirement
from tests.waiting import eventually_async

TOOLS = """
import asyncio


def greet() -> str:
    \"\"\"Greets.\"\"\"
    return "hello"


def careful() -> str:
    \"\"\"Asks first.\"\"\"
    return "done"


async def slow() -> str:
    \"\"\"Waits until a file is there.\"\"\"
    from pathlib import Path

    while not Path(__file__).with_name("go").exists():
        await asyncio.sleep(0.02)
    return "done"
"""
CONFIG = """
[sources.local]
kind = "files"
path = "tools.py"

[sources.local.tools.careful.metadata]
requires_approval = true

[auth.keys.guest]
key = "key-of-the-guest-which-nobody-guesses"
"""
GUEST = {"x-api-key": "key-of-the-guest-which-nobody-guesses"}
Scene = tuple[Gateway, httpx2.AsyncClient]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with in_process_gateway(tmp_path, CONFIG) as opened:
        yield opened


async def switch(client: httpx2.AsyncClient, what: str, *, on: bool, **more: Any) -> dict[str, Any]:
    response = await client.put(f"/api/v1/switches/{what}", json={"enabled": on, **more})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["switch"]
    return found


async def execute(client: httpx2.AsyncClient, tool: str = "greet", **more: Any) -> httpx2.Response:
    return await client.post(f"/api/v1/tools/{tool}/execute", json={"arguments": {}}, headers=GUEST, **more)


async def listed(client: httpx2.AsyncClient) -> set[str]:
    """The tools that a model is offered over `/mcp`."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    headers = {"mcp-protocol-version": VERSION, "mcp-method": "tools/list"}
    response = await client.post("/mcp", json=body, headers={**GUEST, **headers, "accept": "application/json"})
    assert response.status_code == 200, response.text
    return {tool["name"] for tool in response.json()["result"]["tools"]}


@requirement("OPS-switches")
@pytest.mark.parametrize("what", ["tool/greet", "source/local"])
async def test_a_tool_that_is_off_is_not_offered_and_refused_with_the_reason(scene: Scene, what: str) -> None:
    _, client = scene
    assert "greet" in await listed(client)
    off = await switch(client, what, on=False, reason="it greets the wrong people.")
    assert (off["enabled"], off["by"], off["reason"]) == (False, "admin", "it greets the wrong people.")
    assert "greet" not in await listed(client)
    refused = await execute(client)
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "disabled"
    kind, name = what.split("/")
    assert refused.json()["error"]["message"] == (
        f"{kind.capitalize()} '{name}' is switched off for everybody: it greets the wrong people. "
        "An administrator can switch it on again."
    )
    assert (await client.get("/api/v1/switches")).json()["switches"] == [off]

    assert (await switch(client, what, on=True))["enabled"] is True
    assert (await execute(client)).json()["result"] == "hello"
    assert "greet" in await listed(client)
    assert (await client.get("/api/v1/switches")).json()["switches"] == []


@requirement("OPS-switches", "OPS-REFUSAL-recorded")
@pytest.mark.parametrize(
    ("what", "code", "said"),
    [("tool/greet", "disabled", "Tool"), ("source/local", "disabled", "Source"), ("key/guest", "key_disabled", "Key")],
)
async def test_a_call_that_a_switch_refuses_is_on_record_with_the_reason(
    scene: Scene, what: str, code: str, said: str
) -> None:
    gateway, client = scene
    await switch(client, what, on=False, reason="it greets the wrong people.")
    assert [(await execute(client)).status_code for _ in range(2)] == [403, 403]
    await gateway.pipeline.write_refusals()
    (call,) = (await client.get("/api/v1/calls", params={"status": "refused"})).json()["calls"]
    assert (call["tool"], call["principal"], call["count"]) == ("greet", "guest", 2)
    assert call["error"]["code"] == code
    name = what.partition("/")[2]
    assert call["error"]["message"].startswith(
        f"{said} '{name}' is switched off for everybody: it greets the wrong people."
    )
    (entry,) = (await client.get("/api/v1/audit", params={"action": "call.refused"})).json()["audit"]
    assert (entry["actor"], entry["subject"], entry["after"]["code"]) == ("guest", call["id"], code)
    assert gateway.pipeline.counters.refusals == {code: 2}


@requirement("OPS-switches")
async def test_who_switched_what_is_in_the_audit_log(scene: Scene) -> None:
    _, client = scene
    await switch(client, "tool/greet", on=False, reason="broken")
    await switch(client, "tool/greet", on=True)
    await switch(client, "tool/greet", on=True)
    found = (await client.get("/api/v1/audit", params={"action": "tool.*"})).json()["audit"]
    assert [(one["action"], one["actor"], one["subject"]) for one in found] == [
        ("tool.switched_on", "admin", "greet"),
        ("tool.switched_off", "admin", "greet"),
    ]
    assert found[1]["after"]["reason"] == found[0]["before"]["reason"] == "broken"


@requirement("OPS-switches")
async def test_a_preference_does_not_turn_on_what_is_off_for_everybody(scene: Scene) -> None:
    _, client = scene
    preference = {"scenario": "local", "tool_name": "greet", "enabled": True}
    await switch(client, "tool/greet", on=False, reason="broken")
    for body in (preference, {**preference, "key": "guest"}, {**preference, "scope": "all"}):
        shown = (await client.post("/api/v1/tools/config", json=body)).json()["tool"]
        assert shown["enabled"] is False
        assert shown["switched_off"]["by"] == "admin"
    assert (await execute(client)).json()["error"]["code"] == "disabled"
    await switch(client, "tool/greet", on=True)
    tools = (await client.get("/api/v1/tools/set")).json()["tools"]
    assert not any("switched_off" in tool for tool in tools)


@requirement("OPS-switches")
async def test_a_running_call_goes_on_and_a_waiting_one_is_not_approved_while_its_tool_is_off(
    scene: Scene, tmp_path: Path
) -> None:
    _, client = scene
    running = asyncio.create_task(execute(client, "slow"))
    waiting = (await execute(client, "careful")).json()
    assert waiting["status"] == "pending_approval"

    async def runs() -> bool:
        return bool((await client.get("/api/v1/calls", params={"status": "running"})).json()["calls"])

    await eventually_async(runs)
    await switch(client, "source/local", on=False, reason="maintenance")
    refused = await client.post(f"/api/v1/calls/{waiting['call_id']}/approve")
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "disabled"
    assert "maintenance. An administrator can switch it on again. The call waits" in refused.json()["error"]["message"]
    (tmp_path / "go").touch()
    assert (await running).json()["result"] == "done"

    await switch(client, "source/local", on=True)
    assert (await client.post(f"/api/v1/calls/{waiting['call_id']}/approve")).status_code == 200

    async def is_done() -> bool:
        call = (await client.get(f"/api/v1/calls/{waiting['call_id']}")).json()
        return bool(call.get("call", call)["status"] == "completed")

    await eventually_async(is_done)


@requirement("OPS-switches")
async def test_a_key_that_is_off_gets_the_sentence_and_works_again_when_it_is_on(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with (
        make_gateway(tmp_path, CONFIG) as gateway,
        serve_on_port(gateway) as url,
        httpx2.AsyncClient(base_url=url, headers={"x-api-key": KEY}) as client,
    ):
        async with client.stream("GET", "/api/v1/calls/stream", headers=GUEST) as stream:
            assert stream.status_code == 200
            await switch(client, "key/guest", on=False, reason="leaked")
            async with asyncio.timeout(20):
                async for _ in stream.aiter_lines():
                    pass  # it ends
        refused = await execute(client)
        assert refused.status_code == 403
        error = refused.json()["error"]
        assert error["code"] == "key_disabled"
        assert error["message"] == (
            "Key 'guest' is switched off for everybody: leaked. An administrator can switch it on again."
        )
        await switch(client, "key/guest", on=True)
        assert (await execute(client)).json()["result"] == "hello"


@requirement("OPS-switches")
async def test_a_waiting_call_of_a_key_that_is_off_is_not_approved(scene: Scene) -> None:
    _, client = scene
    waiting = (await execute(client, "careful")).json()
    await switch(client, "key/guest", on=False)
    refused = await client.post(f"/api/v1/calls/{waiting['call_id']}/approve")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "disabled")
    await switch(client, "key/guest", on=True)
    assert (await client.post(f"/api/v1/calls/{waiting['call_id']}/approve")).status_code == 200


async def test_who_may_switch_and_what(scene: Scene) -> None:
    _, client = scene
    body = {"enabled": False}
    for path, status, said in (
        ("tool/gret", 404, "There is no tool 'gret'."),
        ("source/locale", 404, "Did you mean 'local'?"),
        ("key/gast", 404, "Did you mean 'guest'?"),
        ("agent/ada", 404, "Use tool, source or key."),
        ("key/admin", 409, "the key that asks"),
    ):
        refused = await client.put(f"/api/v1/switches/{path}", json=body)
        assert refused.status_code == status, refused.text
        assert said in refused.json()["error"]["message"]
    made = await client.post("/api/v1/keys", json={"name": "other", "scopes": ["admin"]})
    other = {"x-api-key": made.json()["key"]}
    refused = await client.put("/api/v1/switches/key/admin", json=body, headers=other)
    assert "stays on" in refused.json()["error"]["message"]
    limited = await client.post("/api/v1/keys", json={"name": "part", "scopes": ["admin"], "tools": ["greet"]})
    refused = await client.put("/api/v1/switches/tool/greet", json=body, headers={"x-api-key": limited.json()["key"]})
    assert refused.status_code == 403
    for method, path in (("PUT", "/api/v1/switches/tool/greet"), ("GET", "/api/v1/switches")):
        assert (await client.request(method, path, json=body, headers=GUEST)).status_code == 403


@requirement("OPS-switches")
async def test_the_other_gateway_follows(tmp_path: Path, postgres_url: str) -> None:
    async with two_gateways(tmp_path, postgres_url, CONFIG, tools=TOOLS) as ((_, first), (_, second)):

        async def code() -> str | None:
            error = (await execute(second)).json().get("error")
            return None if error is None else str(error["message"])

        for what, said in (("tool/greet", "Tool 'greet'"), ("source/local", "Source 'local'"), ("key/guest", "Key")):
            await switch(first, what, on=False)
            assert (await execute(first)).status_code == 403, "at its own gateway before the response is sent"

            async def is_off(said: str = said) -> bool:
                return said in (await code() or "")

            await eventually_async(is_off)
            await switch(first, what, on=True)
            assert (await execute(first)).status_code == 200

            async def is_on() -> bool:
                return await code() is None

            await eventually_async(is_on)
