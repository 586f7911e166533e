"""Logins at a server behind the gateway: made by a browser, each person's own, used, refreshed, ended."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.connections import transactions as tx
from jackfield.errors import ConfigError, LoginNeeded
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.settings import load_settings
from tests.connections.world import Place, config_of, gateway_at, upstream
from tests.harness.in_process import KEY
from tests.requirement import requirement
from tests.waiting import eventually_async

SQLITE = "sqlite:///"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> str:
    return SQLITE if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


async def headers_of(place: Place, person: str) -> dict[str, str]:
    authorization = place.gateway.connections.of("far", person)
    assert authorization is not None
    return dict(await authorization.headers("POST", f"{place.server.url}/mcp"))


@requirement("ID-login-user")
async def test_each_persons_calls_are_made_with_their_own_token(tmp_path: Path, store: str) -> None:
    async with upstream() as server, gateway_at(tmp_path, server, store=store) as place:
        assert await place.connections("ann") == {("far", "ann"): "login_needed"}
        for person in ("ann", "bob"):
            done = await place.log_in(person)
            assert done.status_code == 200, done.text
            assert "You are connected" in done.text
        await place.listed()
        answers = await asyncio.gather(*(place.call(person) for _ in range(20) for person in ("ann", "bob")))
        assert [answer.json()["result"] for answer in answers] == ["ann", "bob"] * 20
        assert server.calls == {"ann": 20, "bob": 20}
        assert server.registrations == 1
        assert await place.connections("ann") == {("far", "ann"): "connected"}
        assert await place.connections("admin") == {
            ("far", "admin"): "login_needed",
            ("far", "ann"): "connected",
            ("far", "bob"): "connected",
        }


@requirement("ID-login-shared")
async def test_a_shared_login_is_made_and_ended_by_administrators_and_used_by_all(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server, config=config_of(server, auth="shared")) as place:
        for method in ("POST", "DELETE"):
            refused = await place.client.request(method, "/api/v1/connections/far", headers=place.headers("ann"))
            assert refused.status_code == 403
            assert "administrator" in refused.json()["error"]["message"]
        link = await place.link("admin")
        assert (await place.press(link, "ann")).status_code == 403
        assert (await place.log_in("admin", link)).status_code == 200
        await place.listed()
        assert (await place.call("ann")).json()["result"] == "admin"
        assert await place.connections("bob") == {("far", None): "connected"}


@requirement("ID-refresh-once")
async def test_many_calls_when_a_token_ends_make_one_refresh(tmp_path: Path, store: str) -> None:
    async with upstream() as server, gateway_at(tmp_path, server, store=store) as place:
        await place.log_in("ann")
        await place.listed()
        await place.expire("ann")
        server.may_refresh.clear()
        calls = [asyncio.create_task(headers_of(place, "ann")) for _ in range(200)]
        await server.refreshing.wait()
        server.may_refresh.set()
        found = {headers["authorization"] for headers in await asyncio.gather(*calls)}
        assert len(found) == 1
        assert server.refreshes == 1
        answers = await asyncio.gather(*(place.call("ann") for _ in range(50)))
        assert {answer.json()["result"] for answer in answers} == {"ann"}
        assert server.refreshes == 1


@requirement("ID-refresh-once")
async def test_the_same_over_two_gateways(tmp_path: Path, postgres_url: str) -> None:
    async with (
        upstream() as server,
        gateway_at(tmp_path / "a", server, store=postgres_url) as one,
        gateway_at(tmp_path / "b", server, store=postgres_url) as other,
    ):
        await one.log_in("ann")
        await eventually_async(lambda: not other.gateway.connections.is_missing("far", "ann"))
        await asyncio.gather(one.listed(), other.listed())
        await one.expire("ann")
        books = [place.gateway.connections.book for place in (one, other)]
        await eventually_async(lambda: books[0].get("far:ann") == books[1].get("far:ann"))
        server.may_refresh.clear()
        calls = [asyncio.create_task(headers_of(place, "ann")) for _ in range(100) for place in (one, other)]
        await server.refreshing.wait()
        buses = [place.gateway.store.bus for place in (one, other)]
        await eventually_async(lambda: all("connection:far:ann" in bus.topics for bus in buses))
        server.may_refresh.set()
        found = {headers["authorization"] for headers in await asyncio.gather(*calls)}
        assert len(found) == 1
        assert server.refreshes == 1
        answers = await asyncio.gather(*(place.call("ann") for _ in range(50) for place in (one, other)))
        assert {answer.json()["result"] for answer in answers} == {"ann"}


async def test_a_refused_token_is_refreshed_once_for_all_calls_that_had_it(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("ann")
        await place.listed()
        server.expire()
        answers = await asyncio.gather(*(place.call("ann") for _ in range(50)))
        assert {answer.json()["result"] for answer in answers} == {"ann"}
        assert server.refreshes == 1


@requirement("ID-refresh-crash")
async def test_a_crash_between_rotation_and_commit_needs_a_login_and_is_no_error(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_args: Any, **_more: Any) -> Any:
        raise SystemError("killed")

    async with upstream() as server:
        async with gateway_at(tmp_path, server, store=store) as place:
            await place.log_in("ann")
            await place.listed()
            await place.expire("ann")
            monkeypatch.setattr(tx, "finish_refresh", crash)
            monkeypatch.setattr(tx, "release_refresh", crash)
            with pytest.raises(SystemError):
                await headers_of(place, "ann")
            monkeypatch.undo()
            assert server.refreshes == 1
        async with gateway_at(tmp_path, server, store=store) as place:
            with pytest.raises(LoginNeeded):
                await headers_of(place, "ann")
            assert place.gateway.connections.is_missing("far", "ann")
            await place.log_in("ann")
            assert await headers_of(place, "ann")


async def test_a_server_that_is_down_does_not_end_a_login(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("ann")
        await place.listed()
        await place.expire("ann")
        server.is_down = True
        answer = await place.call("ann")
        assert answer.json()["error"]["code"] == "source_unavailable", answer.text
        assert "could not be refreshed" in answer.json()["error"]["message"]
        server.is_down = False
        assert (await place.call("ann")).json()["result"] == "ann"


@requirement("ID-upstream-refresh")
async def test_a_server_that_forgets_the_gateway_gets_a_login_with_another_client(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("ann")
        await place.listed()
        server.forgotten.add("client-1")
        await place.expire("ann")
        with pytest.raises(LoginNeeded):
            await headers_of(place, "ann")
        assert (await place.log_in("ann")).status_code == 200
        assert server.registrations == 2
        assert (await place.call("ann")).json()["result"] == "ann"


async def test_tokens_that_are_still_good_are_used_while_they_cannot_be_refreshed(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("ann")
        await place.listed()
        await place.expire("ann", left=30)
        server.is_down = True
        before = len(server.forms)
        assert [(await place.call("ann")).json()["result"] for _ in range(20)] == ["ann"] * 20
        assert len(server.forms) - before <= 3


@requirement("ID-connection-ends")
async def test_a_login_that_is_ended_is_revoked_and_forgotten(tmp_path: Path, store: str) -> None:
    async with upstream() as server, gateway_at(tmp_path, server, store=store) as place:
        await place.log_in("ann")
        await place.log_in("bob")
        of_bob = "/api/v1/connections/far?principal=bob"
        assert (await place.client.delete(of_bob, headers=place.headers("ann"))).status_code == 403
        gone = await place.client.delete("/api/v1/connections/far", headers=place.headers("ann"))
        assert gone.status_code == 204, gone.text
        assert len(server.revoked) == 2  # the refresh token, and the access token
        assert (await place.client.delete("/api/v1/connections/far", headers=place.headers("ann"))).status_code == 404
        with pytest.raises(LoginNeeded):
            await headers_of(place, "ann")
        assert await headers_of(place, "bob")
        assert (await place.client.delete(of_bob, headers=place.headers("admin"))).status_code == 204
        with pytest.raises(LoginNeeded):
            await headers_of(place, "bob")
        assert (
            await place.gateway.vault.status()
        ).sealed == 1  # the check: the gateway's registration is forgotten too


@requirement("ID-connection-ends")
async def test_a_login_that_is_ended_while_it_is_refreshed_leaves_nothing(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("ann")
        await place.listed()
        await place.expire("ann")
        server.may_refresh.clear()
        asked = asyncio.create_task(headers_of(place, "ann"))
        await server.refreshing.wait()
        gone = await place.client.delete("/api/v1/connections/far", headers=place.headers("ann"))
        assert gone.status_code == 204, gone.text
        server.may_refresh.set()
        with pytest.raises(LoginNeeded):
            await asked
        assert not server.mcp.people  # also the token that the refresh gave


@requirement("ID-login-user")
async def test_two_peoples_calls_over_two_gateways_never_mix(tmp_path: Path, postgres_url: str) -> None:
    async with (
        upstream() as server,
        gateway_at(tmp_path / "a", server, store=postgres_url) as one,
        gateway_at(tmp_path / "b", server, store=postgres_url) as other,
    ):
        await one.log_in("ann")
        await other.log_in("bob")
        await asyncio.gather(one.listed(), other.listed())
        turns = [(place, person) for _ in range(50) for place in (one, other) for person in ("ann", "bob")]
        answers = await asyncio.gather(*(place.call(person) for place, person in turns))
        said = [answer.json().get("result") for answer in answers]
        assert said == [person for _, person in turns]
        assert server.calls == {"ann": 100, "bob": 100}


@requirement("ID-connection-ends")
async def test_a_revoked_key_loses_its_logins_and_its_name_brings_none(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        made = await place.client.post("/api/v1/keys", json={"name": "eve"}, headers=place.headers("admin"))
        place.keys["eve"] = made.json()["key"]
        await place.log_in("eve")
        assert not place.gateway.connections.is_missing("far", "eve")
        taken = await place.client.post("/api/v1/keys", json={"name": "eve"}, headers=place.headers("admin"))
        assert taken.status_code == 409
        assert not place.gateway.connections.is_missing("far", "eve")  # nothing happened
        await place.client.delete("/api/v1/keys/eve", headers=place.headers("admin"))
        assert place.gateway.connections.is_missing("far", "eve")
        await place.client.post("/api/v1/keys", json={"name": "eve"}, headers=place.headers("admin"))
        with pytest.raises(LoginNeeded):
            await headers_of(place, "eve")


@requirement("ID-connection-ends")
async def test_a_key_that_is_revoked_while_its_login_is_made_keeps_none(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        made = await place.client.post("/api/v1/keys", json={"name": "eve"}, headers=place.headers("admin"))
        place.keys["eve"] = made.json()["key"]
        back = await place.callback(await place.link("eve"), "eve")
        server.given.clear()
        server.may_answer.clear()
        finishing = asyncio.create_task((await place.browser("eve")).get(back))
        await server.given.wait()
        assert (await place.client.delete("/api/v1/keys/eve", headers=place.headers("admin"))).status_code == 204
        server.may_answer.set()
        assert (await finishing).status_code == 401
        assert place.gateway.connections.is_missing("far", "eve")
        assert len(server.revoked) == 2
        assert server.mcp.people == {}


@requirement("ID-connection-other-server")
async def test_a_source_that_is_another_server_now_gets_no_token_of_the_old_one(tmp_path: Path) -> None:
    async with upstream() as server, upstream() as other:
        async with gateway_at(tmp_path, server, store=SQLITE) as place:
            await place.log_in("ann")
            await place.listed()
        async with gateway_at(tmp_path, other, store=SQLITE) as place:
            waiting = await place.call("ann")
            assert (waiting.status_code, waiting.json()["status"]) == (202, "pending_login")
            assert not other.mcp.strangers & set(server.secrets)
            await place.log_in("ann")
            assert (await place.result("ann", waiting.json()["call_id"]))["result"] == "ann"


@requirement("ID-step-up")
async def test_more_scopes_are_asked_for_by_another_login_that_keeps_those_there_are(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server) as place:
        await place.log_in("ann")
        await place.listed()
        server.mcp.needs_more |= set(server.mcp.people)
        authorization = place.gateway.connections.of("far", "ann")
        assert authorization is not None
        sent = await authorization.headers("POST", f"{server.url}/mcp")
        challenge = {"www-authenticate": 'Bearer error="insufficient_scope", scope="write"'}
        with pytest.raises(LoginNeeded) as needed:
            await authorization.refused(403, challenge, sent=sent)
        assert set(needed.value.scopes) == {"read", "write"}
        assert place.gateway.connections.is_missing("far", "ann", needed.value.scopes)
        await place.log_in("ann")
        assert not place.gateway.connections.is_missing("far", "ann", needed.value.scopes)
        assert (await place.call("ann")).json()["result"] == "ann"
        assert await authorization.refused(403, challenge, sent=sent)  # there is another token now
        sent = await authorization.headers("POST", f"{server.url}/mcp")
        assert not await authorization.refused(403, challenge, sent=sent)  # it has the scope: a login would not help


@requirement("ID-machine")
async def test_a_machines_login_needs_no_person(tmp_path: Path) -> None:
    oauth = 'grant = "client_credentials"\nclient_id = "us"\nclient_secret = "the-secret-of-us"'
    async with (
        upstream() as server,
        gateway_at(tmp_path, server, config=config_of(server, auth="shared", oauth=oauth)) as place,
    ):
        await place.listed()
        assert (await place.call("ann")).json()["result"] == "machine"
        assert await place.connections("ann") == {("far", None): "automatic"}
        server.expire()
        assert (await place.call("ann")).json()["result"] == "machine"
        refused = await place.client.post("/api/v1/connections/far", headers=place.headers("admin"))
        assert refused.status_code == 409


@requirement("ID-vault-rotate")
async def test_the_vault_gets_a_new_key_while_calls_run(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server, environment={"JACKFIELD_VAULT_KEY": ""}) as place:
        for person in ("ann", "bob"):
            await place.log_in(person)
        await place.listed()
        ends = asyncio.Event()

        async def call_on(person: str) -> int:
            count = 0
            while not ends.is_set():
                place.gateway.connections.credentials.forget(f"far:{person}")
                answer = await place.call(person)
                assert answer.json().get("result") == person, answer.text
                count += 1
            return count

        calling = [asyncio.create_task(call_on(person)) for person in ("ann", "bob")]
        for turn in range(5):
            rotated = await place.client.post("/api/v1/vault/rotate", headers=place.headers("admin"))
            assert rotated.json()["resealed"] >= 2, rotated.text  # refreshes may have sealed the others meanwhile
            if turn == 1:
                server.expire()
        ends.set()
        assert all(await asyncio.gather(*calling))
        assert (await place.gateway.vault.status()).old == 0


async def test_the_gateway_shows_who_it_is_where_it_has_an_https_address(tmp_path: Path) -> None:
    path = tmp_path / "jackfield.toml"
    path.write_text('[server]\npublic_url = "https://tools.example.org"\n')
    settings = load_settings(path, environment={"JACKFIELD_STORE": "memory:", "JACKFIELD_ADMIN_KEY": KEY})
    async with Gateway(settings) as gateway:
        transport = httpx2.ASGITransport(build_app(gateway))
        async with httpx2.AsyncClient(transport=transport, base_url="https://tools.example.org") as client:
            document = (await client.get("/oauth/client-metadata.json")).json()
    assert document["client_id"] == "https://tools.example.org/oauth/client-metadata.json"
    assert document["redirect_uris"] == ["https://tools.example.org/connect/callback"]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ('kind = "mcp"\ncommand = ["true"]\nauth = "user"', "not for one that is started here"),
        ('kind = "files"\npath = "."\nauth = "shared"', "not for the kind 'files'"),
        (
            'kind = "mcp"\nurl = "http://127.0.0.1:9/mcp"\nauth = "user"\nheaders = { Authorization = "x" }',
            "both auth and headers set 'Authorization'",
        ),
    ],
)
def test_sources_that_cannot_have_logins_are_refused(tmp_path: Path, source: str, sentence: str) -> None:
    path = tmp_path / "jackfield.toml"
    path.write_text(f"[sources.far]\n{source}\n")
    with pytest.raises(ConfigError, match=sentence):
        Gateway(load_settings(path, environment={"JACKFIELD_STORE": "memory:"}))
