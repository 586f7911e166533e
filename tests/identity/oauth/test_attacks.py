"""What attackers do to an authorization server, each a test."""

import asyncio
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import httpx2
import pytest

from jackfield.gateway.retention import prune
from jackfield.identity.keys import digest_of
from jackfield.identity.oauth import clients, redirects
from jackfield.identity.oauth.types import GRANT_SECONDS, OAuthError
from jackfield.identity.people_transactions import Person as SignedIn
from jackfield.store.scripts import Sql, run
from tests.identity.oauth.programs import BASE, BOB, CONFIG, REDIRECT, OAuthGateway, Person, answer_in, oauth_gateway
from tests.requirement import requirement

FORM = {"content-type": "application/x-www-form-urlencoded"}


async def works(front: OAuthGateway, token: str, path: str = "/mcp") -> bool:
    response = await front.mcp(token, path)
    assert response.status_code in (200, 401)
    return response.status_code == 200


@requirement("ID-oauth-codes")
async def test_a_replayed_code_ends_what_was_issued_for_it(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        answer = await person.decide(await person.open(program.url()))
        tokens = (await program.exchange(answer["code"])).json()
        assert await works(front, tokens["access_token"])
        again = await program.exchange(answer["code"])
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
        assert not await works(front, tokens["access_token"])
        assert (await program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"


@requirement("ID-oauth-refresh")
async def test_a_stolen_refresh_token_ends_the_whole_family(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        program = await front.program()
        tokens = await program.log_in(await front.person())
        stolen = tokens["refresh_token"]
        renewed = (await program.refresh(stolen)).json()
        assert (await program.refresh(stolen)).json()["error"] == "invalid_grant"
        assert not await works(front, renewed["access_token"])
        assert not await works(front, tokens["access_token"])
        assert (await program.refresh(renewed["refresh_token"])).json()["error"] == "invalid_grant"


async def test_a_refresh_token_is_worth_nothing_to_another_client(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        program, thief = await front.program(), await front.program()
        tokens = await program.log_in(await front.person())
        assert (await thief.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
        revoked = await front.http.post("/oauth/revoke", data={"client_id": thief.id, "token": tokens["access_token"]})
        assert revoked.status_code == 400
        assert await works(front, tokens["access_token"])
        assert (await program.refresh(tokens["refresh_token"])).status_code == 200


async def test_the_code_of_another_client_is_refused_and_used_up(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program, thief = await front.person(), await front.program(), await front.program()
        answer = await person.decide(await person.open(program.url()))
        stolen = await thief.exchange(answer["code"], code_verifier=program.verifier)
        assert stolen.json()["error"] == "invalid_grant"
        assert (await program.exchange(answer["code"])).json()["error"] == "invalid_grant"


@requirement("ID-oauth-pkce")
@pytest.mark.parametrize("change", ["x" * 43, "short", None])
async def test_a_wrong_verifier_gets_nothing(tmp_path: Path, change: str | None) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        answer = await person.decide(await person.open(program.url()))
        refused = await program.exchange(answer["code"], code_verifier=change)
        assert refused.status_code == 400
        assert refused.json()["error"] == ("invalid_request" if change is None else "invalid_grant")


@pytest.mark.parametrize(
    "changes",
    [
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"code_challenge": None},
        {"code_challenge": "short"},
    ],
)
async def test_plain_or_missing_pkce_is_refused(tmp_path: Path, changes: dict[str, str | None]) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        refused = await person.http.get(program.url(**changes))
        answer = answer_in(refused.headers["location"])
        assert (answer["error"], answer["iss"], answer["state"]) == ("invalid_request", BASE, program.state)


@requirement("ID-oauth-redirect")
@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/callback",
        "http://127.0.0.1:5123/callback/../evil",
        "http://127.0.0.1:5123/callback?extra=1",
        "http://127.0.0.1.evil.example:5123/callback",
        "http://localhost:5123/callback",
        "http://user@127.0.0.1:5123/callback",
        "https://127.0.0.1:5123/callback",
        "http://127.0.0.1:5123/callback#x",
        "http://127.0.0.1:5123/Callback",
        "http://127.0.0.1:5124/call\tback",
        "\nhttp://127.0.0.1:5124/callback",
    ],
)
async def test_an_unregistered_redirect_is_shown_and_never_followed(tmp_path: Path, uri: str) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        shown = await person.http.get(program.url(redirect_uri=uri))
        assert shown.status_code == 400
        assert "location" not in shown.headers
        assert "has not registered" in shown.text
        assert "evil.example" not in shown.text
        page = await person.open(program.url())
        sent = [(name, uri if name == "redirect_uri" else value) for name, value in page.fields]
        assert (await person.send([*sent, ("decision", "allow")])).status_code == 400


async def test_on_the_own_machine_any_port_will_do(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        program.redirect_uri = "http://127.0.0.1:60999/callback"
        tokens = await program.log_in(person)
        assert await works(front, tokens["access_token"])


@requirement("ID-oauth-look-alike")
async def test_a_look_alike_redirect_is_shown_as_what_it_is(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person = await front.person()
        for host, warning in (("claude.ai.evil.example", "A website."), ("xn--clude-uta.ai", "can look like others")):
            program = await front.program(client_name="Claude\u202e", redirect_uris=[f"https://{host}/callback"])
            page = await person.open(program.url())
            assert f"Where the permission is sent{host}" in page.text
            assert warning in page.text
            assert "Its name is only what it claims" in page.text
            assert "\u202e" not in page.text
            assert "form-action 'self' https:;" in page.headers["content-security-policy"]


@requirement("ID-attack-other-grant")
async def test_another_token_of_the_same_person_does_not_find_a_session(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, wide, narrow = await front.person(), await front.program(), await front.program()
        tokens = await wide.log_in(person)
        page = await person.open(narrow.url())
        answer = await person.decide(page, "allow", ("allowed_group", "two"))
        other = (await narrow.exchange(answer["code"])).json()
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}

        async def ask(token: str, method: str, params: Mapping[str, object], **more: str) -> httpx2.Response:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            sent = headers | {"authorization": f"Bearer {token}"} | more
            return await front.http.post("/mcp", json=body, headers=sent)

        opened = await ask(tokens["access_token"], "initialize", hello)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        assert (await ask(other["access_token"], "tools/list", {}, **session)).status_code == 404
        renewed = (await wide.refresh(tokens["refresh_token"])).json()
        assert (await ask(renewed["access_token"], "tools/list", {}, **session)).status_code == 200


async def test_an_error_does_not_send_people_to_a_site_that_anybody_registered(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person = await front.person()
        program = await front.program(redirect_uris=["https://evil.example/phish"])
        page = await person.open(program.url(scope="nonsense"))
        assert page.status == 400
        assert "None of these scopes is known" in page.text
        assert page.links[0].startswith("https://evil.example/phish?error=invalid_scope&")


@requirement("ID-oauth-audience")
async def test_a_token_is_good_at_its_own_resource_and_nowhere_else(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        of_one = (await program.log_in(person, resource=f"{BASE}/mcp/one"))["access_token"]
        of_all = (await program.log_in(person))["access_token"]
        assert await works(front, of_one, "/mcp/one")
        assert not await works(front, of_one, "/mcp/two")
        assert not await works(front, of_one)
        assert await works(front, of_all)
        assert not await works(front, of_all, "/mcp/one")
        for path in ("/api/v1/tools", "/api/v1/grants", "/api/login", "/v1/models"):
            refused = await front.http.get(path, headers={"authorization": f"Bearer {of_all}"})
            assert refused.status_code == 401
            assert "good at /mcp only" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "resource",
    [
        "https://other.example/mcp",
        f"{BASE}/api/v1",
        f"{BASE}/mcp/one/more",
        f"{BASE}/mcp/unknown",
        f"{BASE}/mcp#part",
        f"{BASE}/mcp?a=b",
        "http://localhost:8421/mcp",
        "nonsense",
    ],
)
async def test_a_resource_that_is_not_here_is_refused(tmp_path: Path, resource: str) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        refused = await person.http.get(program.url(resource=resource))
        assert answer_in(refused.headers["location"])["error"] == "invalid_target"


async def test_the_token_request_cannot_change_the_resource(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        answer = await person.decide(await person.open(program.url(resource=f"{BASE}/mcp/one")))
        assert (await program.exchange(answer["code"], resource=f"{BASE}/mcp")).json()["error"] == "invalid_target"
        tokens = (await program.exchange(answer["code"], resource=f"{BASE}/mcp/one")).json()
        changed = await program.refresh(tokens["refresh_token"], resource=f"{BASE}/mcp")
        assert changed.json()["error"] == "invalid_target"
        wider = await program.refresh(tokens["refresh_token"], scope="call answer")
        assert wider.json()["error"] == "invalid_scope"


@requirement("ID-oauth-consent-page")
async def test_the_consent_page_cannot_be_framed(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        page = await person.open(program.url())
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["referrer-policy"] == "same-origin"
        assert page.headers["cache-control"] == "no-store"
        assert "form-action 'self' http://127.0.0.1:5123 https:;" in page.headers["content-security-policy"]


async def test_consent_needs_the_forms_token(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        page = await person.open(program.url())
        for fields, origin in (
            (page.without("form_token"), BASE),
            ([*page.without("form_token"), ("form_token", "0" * 64)], BASE),
            (page.fields, "https://evil.example"),
            (page.fields, "http://localhost:9999"),
        ):
            refused = await person.send([*fields, ("decision", "allow")], origin=origin)
            assert refused.status_code == 403
            assert "location" not in refused.headers


async def test_consent_of_somebody_else_than_who_began_is_refused(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        page = await person.open(program.url(scope="read"))
        other = await front.person(BOB)
        with_own_token = [
            *page.without("form_token"),
            *(
                (name, value)
                for name, value in (await other.open(program.url(scope="read"))).fields
                if name == "form_token"
            ),
        ]
        for fields in (page.fields, with_own_token):
            refused = await other.send([*fields, ("decision", "allow")])
            assert refused.status_code == 403
            assert "location" not in refused.headers


@requirement("ID-oauth-registration")
async def test_a_flood_of_registrations_is_stopped(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        answers = [await front.register() for _ in range(clients.REGISTRATIONS_AT_ONCE + 5)]
        assert [answer.status_code for answer in answers[-5:]] == [429] * 5
        assert answers[-1].json()["error"] == "temporarily_unavailable"
        assert int(answers[-1].headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": [REDIRECT] * 21}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://app.example/callback"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["data:text/html,x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["ms-msdt:/id"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a.example/#part"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a@b.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://*.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https:///x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["/relative"]}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://a.example/"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
    ],
)
async def test_registrations_that_are_refused(tmp_path: Path, metadata: dict[str, object], error: str) -> None:
    async with oauth_gateway(tmp_path) as front:
        refused = await front.register(**metadata)
        assert (refused.status_code, refused.json()["error"]) == (400, error)
        assert refused.json()["error_description"]


async def test_large_registrations_and_unknown_grants_are_refused(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        large = await front.http.post("/oauth/register", content=b" " * 40_000)
        assert large.status_code == 413
        unknown = await front.http.post("/oauth/token", data={"grant_type": "password"})
        assert unknown.json()["error"] == "unsupported_grant_type"
        twice = await front.http.post("/oauth/token", content=b"grant_type=refresh_token&grant_type=x", headers=FORM)
        assert twice.json()["error"] == "invalid_request"


@requirement("ID-oauth-retention")
async def test_unused_clients_and_what_has_expired_are_forgotten(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        store, program = front.gateway.store, await front.program()
        unused = await front.program()
        tokens = await program.log_in(await front.person())
        tables = ("oauth_clients", "oauth_grants", "oauth_codes", "oauth_tokens")

        async def rows() -> list[int]:
            return [
                int((await store.read(partial(run, Sql("count", f"SELECT COUNT(*) AS n FROM {table}"))))[0]["n"])
                for table in tables
            ]

        await prune(store, keep_days=30)
        assert await rows() == [2, 1, 1, 2]
        age = "UPDATE oauth_clients SET created_at = 0"
        await store.write(partial(run, Sql("age", age)))
        await prune(store, keep_days=30)
        assert await rows() == [1, 1, 1, 2]
        assert (await unused.exchange("x")).json()["error"] == "invalid_client"
        assert (await program.refresh(tokens["refresh_token"])).status_code == 200
        for table in tables[1:]:
            await store.write(partial(run, Sql("age", f"UPDATE {table} SET expires_at = 0")))
        await prune(store, keep_days=30)
        assert await rows() == [1, 0, 0, 0]


async def test_a_code_is_bound_to_its_issuer(tmp_path: Path) -> None:
    """The answer names the issuer, so a client that talks to several servers knows whose code it has (RFC 9207)."""
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        metadata = (await front.http.get("/.well-known/oauth-authorization-server")).json()
        assert metadata["authorization_response_iss_parameter_supported"] is True
        by_name = await person.decide(await person.open(program.url()))
        assert by_name["iss"] == metadata["issuer"] == BASE
        refused = await person.http.get(program.url(response_type="token"))
        assert answer_in(refused.headers["location"])["iss"] == metadata["issuer"]


@requirement("ID-oauth-ends")
async def test_tokens_end_with_the_key_that_signed_in(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        from_admin = {"x-api-key": "key-of-the-inside"}
        made = await front.http.post("/api/v1/keys", json={"name": "eve", "scopes": ["call"]}, headers=from_admin)
        program = await front.program()
        tokens = await program.log_in(await front.person(made.json()["key"]))
        assert await works(front, tokens["access_token"])
        await front.http.post("/api/v1/keys/eve/rotate", headers=from_admin)
        assert not await works(front, tokens["access_token"])
        assert (await program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"


async def test_tokens_end_when_their_person_is_signed_out_and_stay_so(tmp_path: Path) -> None:
    config = f'{CONFIG}\n[auth.oidc]\nissuer = "https://login.example"\nclient_id = "x"\n'
    config += (
        '[auth.roles.all]\ngroups = ["*"]\nscopes = ["call"]\n[auth.roles.few]\ngroups = ["few"]\nscopes = ["read"]\n'
    )
    async with oauth_gateway(tmp_path, config) as front:
        people, program = front.gateway.principals.people, await front.program()

        async def sign_in(role: str) -> Person:
            someone = SignedIn(id="user:eve", issuer="https://login.example", name="Eve", email=None, roles=(role,))
            login = secrets.token_urlsafe(16)
            await people.sign_in(someone, digest_of(login))
            browser = front.browser()
            browser.cookies.set("jackfield", login)
            return Person(browser)

        tokens = await program.log_in(await sign_in("all"))
        assert await works(front, tokens["access_token"])
        await sign_in("few")  # with the roles that are left
        refused = await front.mcp(tokens["access_token"], method="tools/call", name="hello", arguments={})
        assert refused.status_code == 403
        assert await works(front, tokens["access_token"]), "what 'call' holds besides is left"
        renewed = (await program.refresh(tokens["refresh_token"])).json()
        assert renewed["scope"] == "read"
        await people.sign_out("user:eve")
        for token in (tokens, renewed):
            assert not await works(front, token["access_token"])
        await sign_in("all")
        assert not await works(front, renewed["access_token"])
        assert (await program.refresh(renewed["refresh_token"])).json()["error"] == "invalid_grant"


async def test_of_many_who_bring_a_code_at_once_one_gets_tokens_which_then_end(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        person, program = await front.person(), await front.program()
        answer = await person.decide(await person.open(program.url()))
        answers = await asyncio.gather(*(program.exchange(answer["code"]) for _ in range(10)))
        [given] = [one.json() for one in answers if one.status_code == 200]
        assert not await works(front, given["access_token"])


async def test_nobody_refreshes_for_ever(tmp_path: Path) -> None:
    async with oauth_gateway(tmp_path) as front:
        store, program = front.gateway.store, await front.program()
        tokens = await program.log_in(await front.person())
        age = f"UPDATE oauth_grants SET created_at = created_at - {GRANT_SECONDS * 1000 - 60_000}"
        await store.write(partial(run, Sql("age", age)))
        renewed = (await program.refresh(tokens["refresh_token"])).json()
        [row] = await store.read(partial(run, Sql("left", "SELECT expires_at - created_at AS ms FROM oauth_grants")))
        assert row["ms"] == GRANT_SECONDS * 1000
        await store.write(partial(run, Sql("age", "UPDATE oauth_grants SET expires_at = 0")))
        assert (await program.refresh(renewed["refresh_token"])).json()["error"] == "invalid_grant"
        assert not await works(front, renewed["access_token"])


def test_schemes_of_apps_are_taken() -> None:
    for uri in ("cursor://anysphere.cursor-retrieval/oauth/callback", "com.example.app:/done", "http://[::1]:1/x"):
        redirects.check_redirect_uri(uri)
    with pytest.raises(OAuthError):
        redirects.check_redirect_uri("vbscript:x")
