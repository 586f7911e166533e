"""The audit log over HTTP, in the SDK and by `jackfield audit`: what is in it, who may read it, how it is checked."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from jackfield.audit.types import Entry
from jackfield.cli.audit import audit, list_lines
from jackfield.cli.options import UsageError
from jackfield.sdk import Client
from jackfield.sdk.audit import AuditEntry
from jackfield.store import Store
from jackfield.store.scripts import Sql, run
from tests.harness.in_process import KEY, in_process_gateway, serve_on_port
from tests.requirement import requirement

CONFIG = """
[auth.keys.reader]
key = "readers-key"
scopes = ["read", "call", "answer"]
"""


async def audited(client: httpx2.AsyncClient, action: str, **more: Any) -> list[dict[str, Any]]:
    answer = await client.get("/api/v1/audit", params={"action": action, **more})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["audit"]
    return found


async def run_cli(*words: str, url: str) -> int:
    code = audit.run(audit.read("audit", [*words, "--url", url, "--key", KEY]))
    return code if isinstance(code, int) else await code


async def tamper(store: Store, statement: str) -> None:
    await store.write(partial(run, Sql("tampering", statement)))


@requirement("OPS-audit-api")
async def test_keys_and_groups_are_audited_with_before_and_after_and_no_secret(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        made = (await client.post("/api/v1/keys", json={"name": "ci", "tools": ["a"]})).json()["key"]
        assert (await client.post("/api/v1/keys", json={"name": "ci"})).status_code == 409
        again = (await client.post("/api/v1/keys/ci/rotate", json={"grace": 60})).json()["key"]
        await client.delete("/api/v1/keys/ci")
        for tools in (["a"], ["b"]):
            await client.put("/api/v1/groups/docs", json={"tools": tools})
        await client.delete("/api/v1/groups/docs")
        keys = await audited(client, "key.*")
        assert [(one["action"], one["actor"], one["subject"]) for one in reversed(keys)] == [
            ("key.created", "admin", "ci"),
            ("key.rotated", "admin", "ci"),
            ("key.revoked", "admin", "ci"),
        ]
        assert (keys[2]["before"], keys[2]["after"]["tools"], keys[0]["before"]["tools"]) == (None, ["a"], ["a"])
        groups = await audited(client, "group.*")
        assert [one["action"] for one in reversed(groups)] == ["group.created", "group.changed", "group.deleted"]
        assert (groups[1]["before"]["tools"], groups[1]["after"]["tools"]) == (["a"], ["b"])
        text = (await client.get("/api/v1/audit/export")).text
        assert made not in text
        assert again not in text


TOOLS = """
[[tools]]
name = "deploy"
description = "Deploys."
executionType = "internal"
inputSchema = { type = "object" }
metadata = { requires_approval = true }
"""


@requirement("OPS-audit-actions")
async def test_decisions_tools_and_logins_are_audited(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG + TOOLS) as (_, client):
        ids = []
        for _ in range(3):
            asked = await client.post("/api/v1/tools/deploy/execute", json={"arguments": {"n": 1}})
            ids.append(asked.headers["x-call-id"])
        assert (await client.post(f"/api/v1/calls/{ids[0]}/approve")).is_success
        edited = await client.post(f"/api/v1/calls/{ids[1]}/approve", json={"arguments": {"n": 2}})
        assert edited.is_success, edited.text
        assert (await client.post(f"/api/v1/calls/{ids[2]}/reject", json={"reason": "No."})).is_success
        assert (await client.post(f"/api/v1/calls/{ids[2]}/reject")).status_code == 409
        rejected, changed, approved = await audited(client, "call.*")
        assert (approved["actor"], approved["subject"], approved["before"]) == ("admin", ids[0], None)
        assert (changed["before"], changed["after"]["arguments"]) == ({"arguments": {"n": 1}}, {"n": 2})
        assert (rejected["action"], rejected["subject"], rejected["after"]["reason"]) == (
            "call.rejected",
            ids[2],
            "No.",
        )
        tool = {"name": "mine", "description": "x", "executionType": "internal", "inputSchema": {"type": "object"}}
        assert (await client.post("/api/v1/tools", json=tool)).status_code == 201
        assert (await client.put("/api/v1/tools/mine", json={**tool, "description": "y"})).is_success
        assert (await client.delete("/api/v1/tools/mine")).is_success
        tools = await audited(client, "tool.*")
        assert [one["action"] for one in reversed(tools)] == ["tool.created", "tool.changed", "tool.deleted"]
        assert (tools[1]["before"]["description"], tools[1]["after"]["description"]) == ("x", "y")
        assert (await client.post("/api/login")).is_success
        assert [one["actor"] for one in await audited(client, "login.created")] == ["admin"]


@requirement("OPS-audit-api")
async def test_pages_filters_and_who_may_read(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        for number in range(3):
            await client.put(f"/api/v1/groups/g{number}", json={"tools": []})
        first = (await client.get("/api/v1/audit", params={"limit": 2, "actor": "admin"})).json()
        assert [one["subject"] for one in first["audit"]] == ["g2", "g1"]
        more = await client.get("/api/v1/audit", params={"actor": "admin", "cursor": first["next_cursor"]})
        assert [one["subject"] for one in more.json()["audit"]] == ["g0"]
        assert more.json()["next_cursor"] is None
        assert await audited(client, "group.*", until="2020-01-01T00:00:00Z") == []
        assert len(await audited(client, "group.*", since="2020-01-01T00:00:00+02:00")) == 3
        assert len(await audited(client, "group.*", since=first["audit"][0]["at"])) >= 1, "since is inclusive"
        wrong = await client.get("/api/v1/audit", params={"since": "yesterday"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "since")
        exported = (await client.get("/api/v1/audit/export", params={"action": "group.created"})).text.splitlines()
        assert [msgspec.json.decode(line)["subject"] for line in exported] == ["g0", "g1", "g2"]
        for path in ("/api/v1/audit", "/api/v1/audit/export"):
            assert (await client.get(path, headers={"x-api-key": "readers-key"})).status_code == 403


@requirement("OPS-audit-cli")
async def test_the_command_verifies_exports_and_finds_what_was_tampered_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with in_process_gateway(tmp_path) as (gateway, client), serve_on_port(gateway) as url:
        for number in range(3):
            await client.put(f"/api/v1/groups/g{number}", json={"tools": []})
        assert await run_cli("--verify", url=url) == 0
        told = capsys.readouterr().out
        assert "Unchanged: 4 entries in 1 chain." in told
        head = told.split("head ")[1].split()[0]
        path = tmp_path / "audit.jsonl"
        assert await run_cli("--export", str(path), url=url) == 0
        with pytest.raises(UsageError, match="cannot be created"):
            await run_cli("--export", str(path), url=url)
        assert await run_cli("--action", "group.*", "--limit", "1", url=url) == 0
        capsys.readouterr()
        await tamper(gateway.store, "UPDATE audit SET actor = 'mallory', after = 'no json' WHERE number = 3")
        assert await run_cli("--verify", url=url) == 1
        assert "Entry 3 of the chain" in capsys.readouterr().out
        assert await run_cli("--verify", str(path), "--head", head, url="http://127.0.0.1:1") == 0
        assert await run_cli("--verify", str(path), "--head", "0" * 64, url="http://127.0.0.1:1") == 1
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
        assert await run_cli("--verify", str(path), url="http://127.0.0.1:1") == 1
        assert "Entry 2 was removed" in capsys.readouterr().out


@requirement("OPS-audit-export")
async def test_an_export_reads_page_by_page_and_holds_every_entry(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (gateway, _), serve_on_port(gateway) as url:
        many = [Entry(actor="a", action="group.created", subject=f"g{number}") for number in range(1200)]
        await gateway.store.write(partial(gateway.audit.record, *many))
        async with Client(url, KEY) as client:
            text = b"".join([piece async for piece in client.audit.export()])
            filtered = b"".join([piece async for piece in client.audit.export(action="group.*")])
            page = await client.audit.list(limit=500, action="group.*")
    assert len(text.splitlines()) == 1202
    assert [msgspec.json.decode(line)["subject"] for line in filtered.splitlines()] == [f"g{n}" for n in range(1200)]
    assert page.audit[0].subject == "g1199"


@requirement("OPS-audit-chain")
async def test_a_gateway_whose_chain_was_removed_changes_nothing(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (gateway, client):
        await tamper(gateway.store, "DELETE FROM audit_chains")
        answer = await client.put("/api/v1/groups/g", json={"tools": []})
        assert answer.status_code == 503
        assert "audit log" in answer.json()["error"]["message"]
        assert (await client.get("/api/v1/groups/g")).status_code == 404
        refused = await client.post("/api/v1/tools/nothing/execute", json={"arguments": {}})
        assert refused.status_code == 404, "the caller hears why its call is refused, as always"


@requirement("OPS-audit-verify-http")
async def test_the_log_is_verified_over_http(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (gateway, client):
        await client.put("/api/v1/groups/g", json={"tools": []})
        found = (await client.post("/api/v1/audit/verify")).json()
        assert (found["faults"], found["chains"], len(found["heads"])) == ([], 1, 1)
        assert found["entries"] >= 2
        await tamper(gateway.store, "UPDATE audit SET subject = 'h' WHERE subject = 'g'")
        [fault] = (await client.post("/api/v1/audit/verify")).json()["faults"]
        assert "was changed" in fault


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--verify", "--export", "x"], "exclude each other"),
        (["--verify", "--actor", "x"], "--actor leaves entries out"),
        (["--export", "-", "--limit", "3"], "--limit is for the list"),
        (["file"], "FILE is for --verify"),
        (["--head", "x"], "--head is for --verify"),
        (["--verify", "no/such/file"], "cannot be read"),
    ],
)
async def test_command_lines_that_are_refused(words: Sequence[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        await run_cli(*words, url="http://127.0.0.1:1")


def test_what_the_list_shows() -> None:
    at = "2026-01-15T10:30:00Z"
    made = AuditEntry(id="1", at=at, actor="admin", action="key.created", subject="ci\x1b", after={"a": 1})
    changed = AuditEntry(id="2", at=at, actor="admin", action="key.changed", subject="ci", before=1, after=2)
    lines = list_lines([made, changed])
    assert lines[0].split() == ["AT", "ACTOR", "ACTION", "SUBJECT", "CHANGE"]
    assert lines[1].split()[-2:] == ["ci\\x1b", '{"a":1}']
    assert lines[2].endswith("1 -> 2")
    assert list_lines([]) == ["No entries."]
