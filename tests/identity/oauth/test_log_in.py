"""The built-in authorization server, as clients and people use it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from jackfield.sdk import Client
from tests.harness.in_process import serve_on_port
from tests.identity.oauth.programs import ADA, ADMIN, BASE, BOB, oauth_gateway
from tests.requirement import requirement


@requirement("ID-oauth-resource")
async def test_mcp_without_a_token_says_where_to_get_one(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        for path in ("/mcp", "/mcp/one"):
            refused = await front.http.post(path, json={})
            assert refused.status_code == 401
            metadata = f"{BASE}/.well-known/oauth-protected-resource{path}"
            assert refused.headers["www-authenticate"] == f'Bearer scope="call", resource_metadata="{metadata}"'
            found = (await front.http.get(metadata)).json()
            assert found["resource"] == f"{BASE}{path}"
            assert found["authorization_servers"] == [BASE]
        bare = (await front.http.get("/.well-known/oauth-protected-resource")).json()
        assert bare["resource"] == f"{BASE}/mcp"
        wrong = await front.mcp("jfa_unknown")
        assert wrong.status_code == 401
        assert wrong.headers["www-authenticate"].startswith('Bearer error="invalid_token", scope="call"')


@requirement("ID-oauth-server")
async def test_a_client_logs_in_calls_refreshes_and_revokes(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        page = await person.open(program.url())
        assert "Tester" in page.text
        assert "It registered itself" in page.text
        assert "127.0.0.1:5123" in page.text
        assert "ada" in page.text
        answer = await person.decide(page)
        assert (answer["to"], answer["state"], answer["iss"]) == (program.redirect_uri, program.state, BASE)
        response = await program.exchange(answer["code"])
        assert response.headers["cache-control"] == "no-store"
        tokens = response.json()
        assert (tokens["token_type"], tokens["scope"], tokens["expires_in"]) == ("Bearer", "call", 3600)
        assert (await front.mcp(tokens["access_token"])).status_code == 200
        called = await front.mcp(tokens["access_token"], method="tools/call", name="hello", arguments={})
        assert called.json()["result"]["content"][0]["text"] == "hello"
        renewed = (await program.refresh(tokens["refresh_token"])).json()
        assert (await front.mcp(renewed["access_token"])).status_code == 200
        assert (await front.mcp(tokens["access_token"])).status_code == 200  # until it expires
        ended = await front.http.post(
            "/oauth/revoke", data={"client_id": program.id, "token": renewed["refresh_token"]}
        )
        assert ended.status_code == 200
        for token in (tokens, renewed):
            assert (await front.mcp(token["access_token"])).status_code == 401
        assert (await program.refresh(renewed["refresh_token"])).json()["error"] == "invalid_grant"


async def test_calls_with_a_token_are_on_record_under_the_persons_name(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        program = await front.program()
        tokens = await program.log_in(await front.person())
        await front.mcp(tokens["access_token"], method="tools/call", name="hello", arguments={})
        calls = (await front.http.get("/api/v1/calls", headers={"x-api-key": ADMIN})).json()["calls"]
        assert [call["principal"] for call in calls] == ["ada"]


async def test_whoever_is_not_signed_in_signs_in_first(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        program = await front.program()
        sent = await front.http.get(program.url())
        assert sent.status_code == 303
        assert sent.headers["location"].startswith("/sign-in?return_to=%2Foauth%2Fauthorize%3Fresponse_type%3Dcode")


@requirement("ID-oauth-consent")
async def test_the_person_narrows_scopes_and_groups(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        page = await person.open(program.url(scope="call answer read admin nonsense"))
        assert [value for name, value in page.fields if name == "allowed_scope"] == ["call", "read", "answer"]
        sent = [*page.without("allowed_scope"), ("allowed_scope", "read"), ("allowed_group", "two")]
        response = await person.send([*sent, ("decision", "allow")])
        code = response.headers["location"].partition("code=")[2].partition("&")[0]
        tokens = (await program.exchange(code)).json()
        assert tokens["scope"] == "read"
        listed = (await front.mcp(tokens["access_token"])).json()["result"]["tools"]
        assert listed == []  # the group has nothing in it
        refused = await front.mcp(tokens["access_token"], method="tools/call", name="x", arguments={})
        assert refused.status_code == 403
        challenge = refused.headers["www-authenticate"]
        assert challenge.startswith('Bearer error="insufficient_scope", scope="call", resource_metadata="')


@requirement("ID-oauth-consent")
async def test_a_program_that_asks_to_call_may_be_allowed_to_read_only(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        page = await person.open(program.url(scope="call"))
        assert [value for name, value in page.fields if name == "allowed_scope"] == ["call"]
        assert "Instead: See the tools and your calls, without calling anything (read)" in page.text
        response = await person.send([*page.without("allowed_scope"), ("allowed_scope", "read"), ("decision", "allow")])
        code = response.headers["location"].partition("code=")[2].partition("&")[0]
        assert (await program.exchange(code)).json()["scope"] == "read"


async def test_nobody_gives_more_than_they_have(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        program = await front.program()
        bob = await front.person(BOB)
        page = await bob.open(program.url(scope="read call"))
        assert [value for name, value in page.fields if name == "allowed_scope"] == ["read"]
        assert "also asks for call, which you do not have yourself" in page.text
        forged = await bob.send([*page.fields, ("allowed_scope", "call"), ("decision", "allow")])
        code = forged.headers["location"].partition("code=")[2].partition("&")[0]
        assert (await program.exchange(code)).json()["scope"] == "read"
        denied = await bob.http.get(program.url(scope="call"))
        assert "error=access_denied" in denied.headers["location"]


async def test_denied_goes_back_as_an_error(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        answer = await person.decide(await person.open(program.url()), "deny")
        assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", program.state, BASE)
        page = await person.open(program.url())
        response = await person.send([*page.without("allowed_scope"), ("decision", "allow")])
        assert response.status_code == 200
        assert "Choose at least one thing" in response.text


async def test_confidential_clients_prove_who_they_are(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person = await front.person()
        for method in ("client_secret_basic", "client_secret_post"):
            program = await front.program(token_endpoint_auth_method=method)
            assert program.secret is not None
            answer = await person.decide(await person.open(program.url()))
            secret, program.secret = program.secret, None
            missing = await program.exchange(answer["code"])
            assert (missing.status_code, missing.json()["error"]) == (401, "invalid_client")
            wrong = await program.exchange(answer["code"], client_secret="wrong")
            assert wrong.status_code == 401
            fields = {"grant_type": "authorization_code", "code": answer["code"], "code_verifier": program.verifier}
            if method == "client_secret_post":
                fields |= {"client_id": program.id, "client_secret": secret}
                good = await front.http.post("/oauth/token", data=fields)
            else:
                good = await front.http.post("/oauth/token", data=fields, auth=(program.id, secret))
            assert good.status_code == 200, good.text


async def test_people_see_and_end_what_they_allowed(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        tokens = await program.log_in(person)
        [grant] = (await person.http.get("/api/v1/grants")).json()["grants"]
        assert (grant["client"], grant["principal"], grant["resource"]) == ("Tester", "ada", "/mcp")
        bob = await front.person(BOB)
        assert (await bob.http.get("/api/v1/grants")).json() == {"grants": []}
        rights = {"name": "partly", "scopes": ["admin"], "tools": ["hello"]}
        key = (await front.http.post("/api/v1/keys", json=rights, headers={"x-api-key": ADMIN})).json()["key"]
        partly = {"x-api-key": key}
        assert (await front.http.get("/api/v1/grants", headers=partly)).json() == {"grants": []}
        assert (await front.http.delete(f"/api/v1/grants/{grant['id']}", headers=partly)).status_code == 404
        path, own = f"/api/v1/grants/{grant['id']}", {"origin": BASE}
        assert (await bob.http.delete(path, headers=own)).status_code == 404
        assert (await front.mcp(tokens["access_token"])).status_code == 200
        assert (await person.http.delete(path, headers=own)).status_code == 204
        assert (await front.mcp(tokens["access_token"])).status_code == 401


async def test_the_sdk_lists_and_ends_what_was_allowed(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        tokens = await (await front.program()).log_in(await front.person(), resource=f"{BASE}/mcp/one")
        client = Client(BASE, ADA, transport=front.http._transport)
        [grant] = await client.grants.list()
        assert (grant.client, grant.resource, grant.scopes) == ("Tester", "/mcp/one", ("call",))
        await client.grants.revoke(grant.id)
        assert await client.grants.list() == ()
        assert (await front.mcp(tokens["access_token"], "/mcp/one")).status_code == 401


@asynccontextmanager
async def listening(http: httpx2.AsyncClient, token: str) -> AsyncIterator[AsyncIterator[str]]:
    """The lines of a stream that is opened with a token."""
    key = "io.modelcontextprotocol"
    meta = {f"{key}/protocolVersion": "2026-07-28", f"{key}/clientCapabilities": {}}
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params}
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
    async with http.stream("POST", "/mcp", headers=headers, json=body) as stream:
        assert stream.status_code == 200
        yield stream.aiter_lines()


async def test_a_stream_ends_with_the_grant_that_opened_it(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front, serve_on_port(front.gateway) as url, asyncio.timeout(20):
        person, program = await front.person(), await front.program()
        ended = await program.log_in(person)
        [grant] = (await person.http.get("/api/v1/grants")).json()["grants"]
        async with httpx2.AsyncClient(base_url=url) as http, listening(http, ended["access_token"]) as lines:
            assert await anext(lines)
            path = f"/api/v1/grants/{grant['id']}"
            assert (await person.http.delete(path, headers={"origin": BASE})).status_code == 204
            async for _ in lines:  # comes to its end
                pass


async def test_the_metadata_and_the_token_endpoint_are_open_to_pages_of_other_origins(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        foreign = {"origin": "https://inspector.example"}
        for path in ("/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"):
            response = await front.http.get(path, headers=foreign)
            assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, "*")
            assert "access-control-allow-credentials" not in response.headers
        preflight = await front.http.request("OPTIONS", "/oauth/token", headers=foreign)
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, "*")
        bad = await front.http.post("/oauth/token", data={}, headers=foreign)
        assert (bad.status_code, bad.headers["access-control-allow-origin"]) == (400, "*")
        for path in ("/mcp", "/oauth/authorize", "/api/v1/tools"):
            refused = await front.http.get(path, headers=foreign)
            assert refused.status_code == 403
            assert "access-control-allow-origin" not in refused.headers


async def test_off_is_off(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path, '[auth.oauth]\nmode = "off"\n') as front:
        refused = await front.http.post("/mcp", json={})
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"):
            assert (await front.http.get(path)).status_code == 404
