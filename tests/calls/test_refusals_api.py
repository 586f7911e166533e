"""Refused calls through every entry point of a gateway: each is on record once, and the record says why."""

from pathlib import Path
from typing import Any

import httpx2

from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement

CONFIG = """
[auth.keys.caller]
key = "key-of-the-caller-000"
scopes = ["call", "read"]

[auth.keys.reader]
key = "key-of-the-reader-000"
scopes = ["read"]

[sources.local]
kind = "files"
path = "tools.py"

[sources.local.tools.seldom.metadata]
rate_limit_per_minute = 1

[models.default]
provider = "scripted"
script = "script.toml"
"""
TOOLS = '''
def add(a: int) -> int:
    """Add."""
    return a

def seldom() -> int:
    """Once a minute."""
    return 1
'''
SCRIPT = """
[[turns]]
calls = [{ tool = "add", arguments = { a = "x" } }]

[[turns]]
say = "Done."
"""
CALLER, READER = {"x-api-key": "key-of-the-caller-000"}, {"x-api-key": "key-of-the-reader-000"}


def _project(folder: Path) -> None:
    (folder / "tools.py").write_text(TOOLS)
    (folder / "script.toml").write_text(SCRIPT)


async def refused(client: httpx2.AsyncClient, **filters: str) -> list[dict[str, Any]]:
    answer = await client.get("/api/v1/calls", params={"status": "refused", **filters})
    assert answer.status_code == 200
    calls: list[dict[str, Any]] = answer.json()["calls"]
    return calls


def brief(call: dict[str, Any]) -> tuple[Any, ...]:
    return call["tool"], call["principal"], call["error"]["code"], call["count"]


@requirement("OPS-REFUSAL-recorded")
async def test_over_http_each_reason_is_a_record(tmp_path: Path) -> None:
    _project(tmp_path)
    async with in_process_gateway(tmp_path, CONFIG) as (gateway, client):

        async def execute(tool: str, key: dict[str, str], **body: Any) -> int:
            answer = await client.post(f"/api/v1/tools/{tool}/execute", json=body, headers=key)
            return answer.status_code

        assert await execute("nothing", CALLER) == 404
        assert await execute("add", CALLER, arguments={"a": "x"}) == 400
        assert await execute("add", READER, arguments={"a": 1}) == 403
        assert [await execute("seldom", CALLER) for _ in range(2)] == [200, 429]
        assert await execute("add", CALLER, nonsense=True) == 400
        await client.get("/api/v1/resources/read", params={"uri": "file:///nowhere"}, headers=CALLER)
        await client.post("/api/v1/prompts/nothing", json={}, headers=CALLER)
        calls = await refused(client)
        assert sorted(brief(call) for call in calls) == [
            ("add", "caller", "invalid_arguments", 1),
            ("add", "caller", "invalid_request", 1),
            ("add", "reader", "forbidden", 1),
            ("file:///nowhere", "caller", "resource_not_found", 1),
            ("nothing", "caller", "prompt_not_found", 1),
            ("nothing", "caller", "tool_not_found", 1),
            ("seldom", "caller", "rate_limited", 1),
        ]
        by_code = {call["error"]["code"]: call for call in calls}
        assert [by_code[f"{kind}_not_found"]["kind"] for kind in ("resource", "prompt")] == ["resource", "prompt"]
        assert by_code["invalid_arguments"]["arguments"] == {"a": "x"}
        assert all(call["execution_time_ms"] is None and call["delivery"] is None for call in calls)
        assert sum(gateway.pipeline.counters.refusals.values()) == len(calls)


@requirement("OPS-REFUSAL-recorded", "OPS-REFUSAL-count")
async def test_a_repeat_counts_and_a_key_sees_its_own(tmp_path: Path) -> None:
    _project(tmp_path)
    async with in_process_gateway(tmp_path, CONFIG) as (gateway, client):
        for _ in range(3):
            await client.post("/api/v1/tools/nothing/execute", headers=CALLER)
        await client.post("/api/v1/tools/nothing/execute", headers=READER)
        await gateway.pipeline.write_refusals()
        assert sorted(brief(call) for call in await refused(client)) == [
            ("nothing", "caller", "tool_not_found", 3),
            ("nothing", "reader", "forbidden", 1),
        ]
        own = (await client.get("/api/v1/calls?status=refused", headers=CALLER)).json()["calls"]
        assert [call["principal"] for call in own] == ["caller"]
        one = await client.get(f"/api/v1/calls/{own[0]['id']}", headers=READER)
        assert one.status_code == 404
        assert (await client.post(f"/api/v1/calls/{own[0]['id']}/cancel")).status_code == 409


@requirement("OPS-REFUSAL-recorded")
async def test_in_a_response(tmp_path: Path) -> None:
    _project(tmp_path)
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        tools = [{"type": "jackfield:catalog", "tools": ["*"]}]
        made = await client.post("/v1/responses", json={"model": "default", "input": "Hi", "tools": tools})
        assert made.status_code == 200
        (last,) = await refused(client)
        assert brief(last) == ("add", "admin", "invalid_arguments", 1)
        assert last["run_id"].startswith("resp_")


@requirement("OPS-REFUSAL-recorded")
async def test_without_a_key_there_is_no_call(tmp_path: Path) -> None:
    _project(tmp_path)
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        answer = await client.post("/api/v1/tools/add/execute", headers={"x-api-key": "wrong-key-00000000"})
        assert answer.status_code == 401
        assert await refused(client) == []
