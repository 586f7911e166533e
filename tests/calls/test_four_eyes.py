"""`[approval] four_eyes`: whoever asked for a call may not approve it."""

from pathlib import Path

import httpx2
import pytest

from jackfield.gateway.gateway import Gateway
from jackfield.settings import load_settings
from tests.harness.in_process import KEY, client_of
from tests.requirement import requirement

CONFIG = """
[approval]
four_eyes = {0}
[auth.keys.ada]
key = "ada-key"
scopes = ["call", "answer"]
[auth.keys.bob]
key = "bob-key"
scopes = ["answer", "read"]
[[tools]]
name = "deploy"
description = "Deploys."
executionType = "internal"
inputSchema = {{ type = "object" }}
metadata = {{ requires_approval = true }}
"""
ADA, BOB = {"x-api-key": "ada-key"}, {"x-api-key": "bob-key"}


async def asked(client: httpx2.AsyncClient) -> str:
    answer = await client.post("/api/v1/tools/deploy/execute", json={"arguments": {}}, headers=ADA)
    assert answer.status_code == 202
    return str(answer.json()["call_id"])


@requirement("ID-four-eyes")
@pytest.mark.parametrize("is_on", [True, False])
async def test_the_one_who_asked_does_not_approve(tmp_path: Path, is_on: bool) -> None:  # noqa: FBT001 - a parameter
    path = tmp_path / "jackfield.toml"
    path.write_text(CONFIG.format(str(is_on).lower()))
    settings = load_settings(path, environment={"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": "memory:"})
    async with Gateway(settings) as gateway, client_of(gateway) as client:
        call = await asked(client)
        for_ada = (await client.get(f"/api/v1/calls/{call}", headers=ADA)).json()["call"]
        assert (for_ada["approval_url"] is None) is is_on
        approved = await client.post(f"/api/v1/calls/{call}/approve", headers=ADA)
        assert approved.status_code == (403 if is_on else 200), approved.text
        if is_on:
            assert "somebody else has to approve it" in approved.json()["error"]["message"]
            assert (await client.post(f"/api/v1/calls/{call}/approve", headers=BOB)).status_code == 200
            rejected = await client.post(f"/api/v1/calls/{await asked(client)}/reject", headers=ADA)
            assert rejected.status_code == 200, "taking one's own request back harms nobody"
