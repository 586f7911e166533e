"""What people and administrators do at run time is in the audit log, with who did it."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2

from jackfield.gateway.gateway import Gateway
from jackfield.identity.authentication import Logins
from tests.catalog.test_pins_api import ForeignSource, foreign_source_gateway
from tests.connections.world import gateway_at, upstream
from tests.harness.in_process import KEY, client_of, in_process_gateway, make_gateway, serve_on_port
from tests.identity.signing_provider import signing_provider
from tests.identity.test_oidc import config
from tests.identity.test_sign_in import browser_at, sign_in
from tests.identity.test_vault import keep
from tests.requirement import requirement

ADMIN = {"x-api-key": KEY}


async def audited(client: httpx2.AsyncClient, action: str) -> list[dict[str, Any]]:
    """Oldest first."""
    answer = await client.get("/api/v1/audit", params={"action": action}, headers=ADMIN)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["audit"]
    return found[::-1]


@requirement("OPS-audit-actions")
async def test_an_accepted_definition_is_audited_by_its_digests(tmp_path: Path) -> None:
    async with foreign_source_gateway(tmp_path, ForeignSource(add="Adds.")) as api:
        await api.written(1)
        await api.change(add="Adds. Then mails what it added.")
        await api.ask("POST", "/api/v1/tools/add/accept")
        await api.ask("POST", "/api/v1/tools/add/accept")
        (accepted,) = await audited(api.client, "definition.accepted")
        assert (accepted["actor"], accepted["before"] == accepted["after"]) == ("admin", False)
        assert "add" in accepted["subject"]


@requirement("OPS-audit-actions")
async def test_logins_at_sources_are_audited_without_their_tokens(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("ann")
        await place.log_in("bob")
        await place.client.delete("/api/v1/connections/far", headers=place.headers("ann"))
        of_bob = "/api/v1/connections/far?principal=bob"
        assert (await place.client.delete(of_bob, headers=place.headers("ann"))).status_code == 403
        assert (await place.client.delete(of_bob, headers=place.headers("admin"))).status_code == 204
        found = await audited(place.client, "connection.*")
        assert [(one["action"], one["actor"], one["subject"]) for one in found] == [
            ("connection.created", "ann", "far"),
            ("connection.created", "bob", "far"),
            ("connection.ended", "ann", "far"),
            ("connection.ended", "admin", "far"),
        ]
        assert found[3]["before"]["principal"] == "bob"


@requirement("OPS-audit-actions")
async def test_who_was_signed_out_everywhere_is_audited_with_who_did_it(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(signing_provider())
        provider.claims["groups"] = ["admins"]
        gateway = await stack.enter_async_context(make_gateway(tmp_path, config(provider)))
        url = await stack.enter_async_context(serve_on_port(gateway))
        browser = await stack.enter_async_context(httpx2.AsyncClient(base_url=url))
        begun = await browser.get("/api/login/oidc?moved=yes")
        answer = await browser.get(f"/api/login/oidc/callback?{provider.authorize(begun.headers['location'])}")
        assert answer.status_code == 303, answer.text
        out = await browser.post("/api/v1/users/user:ada/sign-out", headers=ADMIN | {"cookie": ""})
        assert out.status_code == 204
        nobody = await browser.post("/api/v1/users/user:nobody/sign-out", headers=ADMIN | {"cookie": ""})
        assert nobody.status_code == 404
        provider.claims["groups"] = []
        begun = await browser.get("/api/login/oidc?moved=yes")
        refused = await browser.get(f"/api/login/oidc/callback?{provider.authorize(begun.headers['location'])}")
        assert refused.status_code == 403
        client = await stack.enter_async_context(client_of(gateway))
        (created,) = await audited(client, "login.created")
        assert (created["actor"], created["subject"]) == ("user:ada", "user:ada")
        signed_out = await audited(client, "user.signed_out")
        assert (signed_out[0]["actor"], signed_out[0]["subject"]) == ("admin", "user:ada")
        (failed,) = await audited(client, "login.failed")
        assert (failed["subject"], failed["after"]) == ("user:ada", {"reason": "No role at this gateway."})


@requirement("OPS-audit-actions")
async def test_a_rotation_of_the_vault_is_audited_with_the_ids_of_its_keys(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (gateway, client):
        await gateway.vault.require()
        await keep(gateway.vault, gateway.store, "a", "the-secret-of-a")
        rotated = await client.post("/api/v1/vault/rotate")
        assert rotated.status_code == 200, rotated.text
        (found,) = await audited(client, "vault.rotated")
        assert (found["actor"], found["subject"]) == ("admin", "vault")
        assert found["after"] == rotated.json()
        assert found["before"]["key_id"] != found["after"]["key_id"]


@requirement("OPS-audit-login-failed")
async def test_logins_that_fail_are_audited_once_a_minute_and_without_the_key(tmp_path: Path) -> None:
    async with make_gateway(tmp_path) as gateway, browser_at(gateway) as browser, client_of(gateway) as client:
        for number in range(5):
            assert (await sign_in(browser, f"wrong-key-{number}")).status_code == 401
            assert (await browser.post("/api/login", headers={"x-api-key": "wrong-key"})).status_code == 401
        assert (await browser.post("/api/login", json={"code": "an-old-code"})).status_code == 401
        found = await audited(client, "login.failed")
        assert [one["subject"] for one in found] == ["key", "code"]
        assert all(one["actor"].startswith("address:") for one in found)
        text = (await client.get("/api/v1/audit/export")).text
        assert "wrong-key" not in text
        assert "an-old-code" not in text


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def fail(gateway: Gateway, logins: Logins, count: int) -> int:
    for number in range(count):
        await logins.note_failure(f"10.0.{number // 256}.{number % 256}", "key", "It is wrong.")
    async with client_of(gateway) as client:
        answer = await client.get("/api/v1/audit", params={"action": "login.failed", "limit": 500}, headers=ADMIN)
        return len(answer.json()["audit"])


@requirement("OPS-audit-login-failed")
async def test_whoever_guesses_from_everywhere_fills_no_log(tmp_path: Path) -> None:
    clock = Clock()
    async with make_gateway(tmp_path) as gateway:
        logins = Logins(gateway.store, gateway.principals, audit=gateway.audit, clock=clock)
        assert await fail(gateway, logins, 300) == 100
        clock.now += 61
        assert await fail(gateway, logins, 1) == 101
