"""The App when a service behind it fails."""

import logging
from pathlib import Path

import pytest

from jackfield.identity.keys import Keyring
from tests.harness.api import error_of
from tests.harness.in_process import SwitchableSource, client_of, in_process_gateway, make_gateway
from tests.requirement import requirement

EXECUTE = "/api/v1/tools/switched/execute"


@requirement("CON-error-no-leak", "CON-error-shape")
async def test_a_fault_of_the_gateway_is_500_with_a_reference_and_the_log_has_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_self: Keyring, _key: object) -> None:
        raise RuntimeError("the secret word is 'swordfish' in /srv/gateway/keys")

    monkeypatch.setattr(Keyring, "find", broken)
    with caplog.at_level(logging.ERROR):
        async with in_process_gateway(tmp_path) as (_, client):
            answer = await client.get("/api/v1/tools")
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["type"]) == (500, "internal_error", "server_error")
    assert "swordfish" not in answer.text
    assert "/srv" not in answer.text
    reference = error["message"].rstrip(".").split()[-1]
    [record] = [record for record in caplog.records if reference in record.getMessage()]
    assert record.exc_info is not None
    assert "swordfish" in str(record.exc_info[1])


@requirement("DISC-error-503", "CON-error-no-leak")
async def test_a_tool_whose_source_is_down_is_503_and_says_why_without_places(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (gateway, client):
        source = SwitchableSource("acme", f"cannot read '{tmp_path}/inner/socket' with {gateway.settings.data}/x")
        await gateway.source_registry.add(source)
        await gateway.source_registry.settled(within=5)
        await gateway.catalog.update_aside(gateway.source_registry.listings())
        assert (await client.post(EXECUTE)).json()["result"] == "on"
        source.is_down = True
        await gateway.source_registry.refresh("acme")
        answer = await client.post(EXECUTE)
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (503, "source_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert "acme" in error["message"]
        ready = await client.get("/readyz")
        [report] = [one for one in ready.json()["sources"] if one["name"] == "acme"]
        assert (ready.status_code, report["status"], report["tools"]) == (200, "down", 1)
        for text in (error["message"], report["error"]):
            assert "cannot read" in text
            assert str(tmp_path) not in text
        assert "switched" in [tool["name"] for tool in (await client.get("/api/v1/tools")).json()["tools"]]


async def test_until_the_gateway_is_ready_only_health_and_page_answer(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path)
    async with client_of(gateway) as client:
        for method, path in (("GET", "/api/v1/tools"), ("POST", EXECUTE), ("POST", "/api/login"), ("GET", "/metrics")):
            answer = await client.request(method, path)
            assert (answer.status_code, error_of(answer)["code"]) == (503, "not_ready")
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/")).status_code == 200
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["status"], ready.json()["store"]) == (503, "not_ready", "unreachable")
        await gateway.start()
        try:
            assert (await client.get("/api/v1/tools")).status_code == 200
            assert (await client.get("/readyz")).json()["status"] == "ready"
        finally:
            await gateway.stop()
        assert (await client.get("/api/v1/tools")).status_code == 503


async def test_readiness_fails_when_the_store_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def silent() -> int:
        raise OSError("disk gone")

    async with in_process_gateway(tmp_path) as (gateway, client):
        monkeypatch.setattr(gateway.store, "now_ms", silent)
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"], answer.json()["store"]) == (503, "not_ready", "unreachable")
    assert "disk gone" in caplog.text
    assert "disk gone" not in answer.text
