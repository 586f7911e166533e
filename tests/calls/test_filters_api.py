"""Filters of the list of calls over HTTP, and the export, which takes the same ones."""

import json
from pathlib import Path

from jackfield.calls import api
from tests.calls.test_refusals_api import CALLER, CONFIG, READER, TOOLS
from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement


@requirement("OPS-CALLS-filters", "OPS-CALLS-export")
async def test_the_list_and_the_export_take_the_same_filters(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "script.toml").write_text("")
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        await client.post("/api/v1/tools/add/execute", json={"arguments": {"a": 4711}}, headers=CALLER)
        await client.post("/api/v1/tools/add/execute", json={"arguments": {"a": 1}})
        await client.post("/api/v1/tools/nothing/execute", json={}, headers=CALLER)

        async def both(**params: str) -> list[tuple[str, str]]:
            listed = (await client.get("/api/v1/calls", params=params)).json()["calls"]
            exported = await client.get("/api/v1/calls/export", params=params)
            assert exported.headers["content-type"] == "application/x-ndjson"
            assert [json.loads(line) for line in exported.text.splitlines()] == listed
            return sorted((call["tool"], call["principal"]) for call in listed)

        assert len(await both()) == 3
        assert await both(principal="caller") == [("add", "caller"), ("nothing", "caller")]
        assert await both(source="local") == [("add", "admin"), ("add", "caller")]
        assert await both(q="4711") == [("add", "caller")]
        assert await both(status="refused", q="NOTHING") == [("nothing", "caller")]
        assert await both(since="2999-01-01") == []
        assert len(await both(since="2000-01-01T00:00:00Z", until="2999-01-01")) == 3
        wrong = await client.get("/api/v1/calls/export", params={"since": "yesterday"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "since")
        for path in ("/api/v1/calls/export?principal=caller", "/api/v1/calls/export"):
            assert (await client.get(path, headers=READER)).text == ""


@requirement("OPS-CALLS-export")
async def test_an_export_goes_from_page_to_page(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "script.toml").write_text("")
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        count = 2 * api.EXPORT_PAGE + 1
        for number in range(count):
            await client.post("/api/v1/tools/add/execute", json={"arguments": {"a": number}})
        lines = (await client.get("/api/v1/calls/export")).text.splitlines()
        assert {json.loads(line)["result"] for line in lines} == set(range(count))
        assert len(lines) == count
