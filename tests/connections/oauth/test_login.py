"""A person's login: registration, the authorization request, the callback and its attacks."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from jackfield.connections.oauth import (
    AuthorizationRequest,
    AuthorizationServer,
    CallbackRefused,
    Challenge,
    Client,
    DiscoveryFailed,
    GrantEnded,
    RegistrationFailed,
    Target,
    Tokens,
    client_document,
)
from jackfield.connections.oauth.authorization import authorization_request, check_callback, code_challenge
from jackfield.connections.oauth.registration import registration_request
from tests.connections.oauth.scene import DOCUMENT, REDIRECT, AuthServer, Protected, basic_pair, browse, scene
from tests.requirement import requirement
from tests.sources.upstream import json_reply, reply


@requirement("ID-upstream-login")
async def test_a_person_logs_in_with_pkce_state_and_the_resource() -> None:
    async with scene() as s:
        _, tokens = await s.log_in(s.oauth())

        assert (tokens.access_token, tokens.refresh_token) == ("access-1", "refresh-1")
        assert (tokens.issuer, tokens.client_id, tokens.resource) == (s.auth.issuer, "client-1", s.protected.mcp)
        [asked], [form] = s.auth.authorizations, s.auth.forms
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert asked["code_challenge"] == code_challenge(form["code_verifier"])
        assert asked["resource"] == form["resource"] == s.protected.mcp
        assert asked["redirect_uri"] == form["redirect_uri"] == REDIRECT
        assert "scope" not in asked
        assert "prompt" not in asked


async def test_two_logins_have_nothing_secret_in_common() -> None:
    async with scene() as s:
        oauth = s.oauth()
        target = await oauth.discover()
        client = await oauth.client(target)

        one, two = (oauth.begin(target, client, scopes=()) for _ in range(2))

        assert one.state != two.state
        assert one.verifier != two.verifier
        assert len(one.verifier) >= 43
        assert one.state in one.url
        assert one.verifier not in one.url


@requirement("ID-upstream-scopes")
async def test_scopes_of_the_challenge_are_asked_for_with_offline_access() -> None:
    async with scene() as s:
        s.auth.metadata["scopes_supported"] = ["files", "offline_access"]

        _, tokens = await s.log_in(s.oauth(), challenge=Challenge(scheme="bearer", scopes=("files",)))

        [asked] = s.auth.authorizations
        assert (asked["scope"], asked["prompt"]) == ("files offline_access", "consent")
        assert tokens.scopes == ("files", "offline_access")


async def test_granted_scopes_are_those_that_the_server_names() -> None:
    async with scene() as s:
        s.auth.token["scope"] = "files extra"

        _, tokens = await s.log_in(s.oauth(scopes=("files", "mail")))

        assert tokens.scopes == ("files", "extra")


@requirement("ID-upstream-login")
async def test_a_server_without_metadata_gets_a_login_too() -> None:
    async with scene(protected=Protected("/nowhere")) as s:
        for path in ("/register", "/authorize", "/token"):
            s.protected.answers[path] = s.auth.answers[path]
        s.auth.callback["iss"] = None

        target, tokens = await s.log_in(s.oauth())

        assert target.server.origin == "default"
        assert tokens.access_token == "access-1"


@requirement("ID-upstream-registration")
async def test_the_configs_client_goes_before_all() -> None:
    async with scene() as s:
        s.auth.metadata |= {
            "client_id_metadata_document_supported": True,
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }
        _, tokens = await s.log_in(s.oauth(document_url=DOCUMENT, client_id="mine", client_secret="se:cret/ü?"))

        assert tokens.client_id == s.auth.authorizations[0]["client_id"] == "mine"
        assert basic_pair(s.auth.received[-1].headers) == ("mine", "se:cret/ü?")
        assert s.auth.registrations == []


@requirement("ID-upstream-registration")
async def test_a_metadata_document_goes_before_registration_where_the_server_takes_it() -> None:
    async with scene() as s:
        s.auth.metadata["client_id_metadata_document_supported"] = True
        ours, theirs = s.oauth(document_url=DOCUMENT), s.oauth(client_id="https://else.example/c.json")

        _, tokens = await s.log_in(ours)
        _, others = await s.log_in(theirs)

        assert (tokens.client_id, others.client_id) == (DOCUMENT, "https://else.example/c.json")
        assert s.auth.forms[0]["client_id"] == DOCUMENT
        assert s.auth.registrations == []


@requirement("ID-upstream-registration")
@pytest.mark.parametrize("document", [None, "http://gateway.example/c.json", "https://gateway.example", DOCUMENT])
async def test_else_the_gateway_registers_itself(document: str | None) -> None:
    async with scene() as s:
        s.auth.metadata["client_id_metadata_document_supported"] = document != DOCUMENT

        await s.log_in(s.oauth(document_url=document))

        assert s.auth.registrations == [
            {
                "client_name": "Jackfield",
                "redirect_uris": [REDIRECT],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "web",
            }
        ]


@pytest.mark.parametrize(
    ("redirect", "kind"),
    [
        ("http://localhost:8300/connect/callback", "native"),
        ("http://127.0.0.1/connect/callback", "native"),
        ("http://[::1]:1/x", "native"),
        ("https://gateway.example/connect/callback", "web"),
        ("https://localhost.evil.example/x", "web"),
    ],
)
def test_the_kind_of_application_is_where_the_browser_comes_back(redirect: str, kind: str) -> None:
    server = AuthorizationServer(issuer="https://as.example", token_endpoint="https://as.example/t")

    assert registration_request(server, redirect_uri=redirect)["application_type"] == kind
    assert client_document(DOCUMENT, redirect_uri=redirect)["application_type"] == kind


def test_the_gateways_document_says_who_it_is() -> None:
    assert client_document(DOCUMENT, redirect_uri=REDIRECT, home="https://gateway.example") == {
        "client_id": DOCUMENT,
        "client_name": "Jackfield",
        "client_uri": "https://gateway.example",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "web",
    }


@requirement("ID-upstream-registration")
async def test_a_registered_client_is_used_again_only_where_it_belongs() -> None:
    async with scene() as s, AuthServer() as second:
        oauth = s.oauth()
        target = await oauth.discover()
        first = await oauth.client(target)

        assert await oauth.client(target, known=first) is first
        for change in ({"redirect_uri": "https://old.example"}, {"expires_at": 1.0}, {"issuer": second.issuer}):
            other = await oauth.client(target, known=msgspec.structs.replace(first, **change))
            assert other.client_id != first.client_id


@requirement("ID-upstream-migration")
async def test_a_new_authorization_server_sees_neither_the_old_client_nor_its_tokens() -> None:
    async with scene() as s, AuthServer() as second:
        second.registration["client_id"] = "new"
        oauth = s.oauth()
        old, tokens = await s.log_in(oauth)
        old_client = await oauth.client(old)
        s.protected.servers[:] = [second]

        target = await oauth.discover(known_issuer=tokens.issuer)
        client = await oauth.client(target, known=old_client)

        assert (target.server.issuer, client.client_id) == (second.issuer, "new")
        for server, shown in ((target.server, old_client), (target.server, client)):
            with pytest.raises(GrantEnded, match="Log in again"):
                await oauth.refresh(server, shown, tokens)
            with pytest.raises(GrantEnded):
                await oauth.revoke(server, shown, tokens)
        with pytest.raises(GrantEnded):
            oauth.begin(target, old_client, scopes=())
        assert second.forms == second.revoked == second.authorizations == []


@requirement("ID-upstream-migration")
async def test_the_configs_client_is_not_shown_to_a_new_authorization_server() -> None:
    async with scene() as s, AuthServer() as second:
        oauth = s.oauth(client_id="mine", client_secret="secret")
        known = await oauth.client(await oauth.discover())
        s.protected.servers[:] = [second]

        with pytest.raises(RegistrationFailed, match="set `issuer`"):
            await oauth.client(await oauth.discover(), known=known)

        allowed = s.oauth(client_id="mine", client_secret="secret", issuer=second.issuer)
        assert (await allowed.client(await allowed.discover(), known=known)).issuer == second.issuer


@pytest.mark.parametrize(
    ("supported", "answer", "method"),
    [
        (["none"], {"client_secret": "s"}, "none"),
        (["client_secret_basic"], {"client_secret": "s"}, "client_secret_basic"),
        (["client_secret_post", "none"], {"client_secret": "s"}, "client_secret_post"),
        (["none", "client_secret_basic"], {"client_secret": "s", "token_endpoint_auth_method": "none"}, "none"),
        (["client_secret_basic"], {}, "none"),
        (None, {"client_secret": "s"}, "client_secret_basic"),
    ],
)
async def test_a_registered_client_authenticates_as_the_server_said(
    supported: list[str] | None, answer: dict[str, Any], method: str
) -> None:
    async with scene() as s:
        s.auth.metadata["token_endpoint_auth_methods_supported"] = supported
        s.auth.registration |= answer
        oauth = s.oauth()

        assert (await oauth.client(await oauth.discover())).auth_method == method


@pytest.mark.parametrize(
    "answer",
    [
        json_reply({"error": "invalid_redirect_uri", "error_description": "secret text"}, status=400),
        json_reply({"client_id": 7}, status=201),
        json_reply({}, status=201),
        json_reply({"client_id": "c", "token_endpoint_auth_method": "tls_client_auth"}, status=201),
        reply(201, b"<html>"),
        reply(403),
    ],
)
async def test_a_failed_registration_says_what_to_do(answer: bytes) -> None:
    async with scene() as s:
        s.auth.answers["/register"] = answer
        oauth = s.oauth()

        with pytest.raises(RegistrationFailed, match="set `client_id`") as caught:
            await oauth.client(await oauth.discover())
        assert "secret text" not in caught.value.message


async def test_a_server_without_registration_wants_a_client_of_the_config() -> None:
    async with scene() as s:
        s.auth.metadata["registration_endpoint"] = None
        oauth = s.oauth()

        with pytest.raises(RegistrationFailed, match=f"redirect URI {REDIRECT}.*set `client_id`"):
            await oauth.client(await oauth.discover())


@requirement("ID-upstream-pkce")
@pytest.mark.parametrize("methods", [None, [], ["plain"]])
async def test_a_server_that_does_not_offer_pkce_is_refused(methods: list[str] | None) -> None:
    async with scene() as s:
        s.auth.metadata["code_challenge_methods_supported"] = methods

        with pytest.raises(DiscoveryFailed, match="PKCE with S256"):
            await s.log_in(s.oauth())


REQUEST = AuthorizationRequest(
    url="https://as.example/authorize",
    state="right-state",
    verifier="v",
    issuer="https://as.example",
    client_id="c",
    redirect_uri=REDIRECT,
    resource=None,
    scopes=(),
    wants_issuer=True,
)
RIGHT = {"state": "right-state", "iss": "https://as.example", "code": "the-code"}


@requirement("ID-upstream-callback")
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"state": "wrong"}, "not the answer"),
        ({"state": None}, "not the answer"),
        ({"state": "ü"}, "not the answer"),
        ({"iss": None}, "does not say which server"),
        ({"iss": "https://evil.example"}, "from another server"),
        ({"iss": "https://as.example/"}, "from another server"),
        ({"iss": "https://AS.example"}, "from another server"),
        ({"iss": ""}, "from another server"),
        ({"code": None}, "no code"),
        ({"code": "x" * 10_000}, "no code"),
        ({"error": "access_denied"}, "was declined"),
        ({"error": "server_error", "error_description": "<script>"}, "server_error"),
        ({"error": "<script>"}, "ended the login: an error"),
        ({"error": "access_denied", "iss": "https://evil.example"}, "from another server"),
        ({"error": "access_denied", "state": "x"}, "not the answer"),
    ],
)
def test_a_callback_that_is_not_right_is_refused(wrong: dict[str, str | None], says: str) -> None:
    params = {name: value for name, value in {**RIGHT, **wrong}.items() if value is not None}

    with pytest.raises(CallbackRefused, match=says) as caught:
        check_callback(REQUEST, params)
    for secret in ("the-code", "right-state", "<script>"):
        assert secret not in caught.value.message


@requirement("ID-upstream-callback")
def test_an_issuer_is_compared_even_where_it_was_not_promised() -> None:
    quiet = msgspec.structs.replace(REQUEST, wants_issuer=False)

    assert check_callback(quiet, {"state": "right-state", "code": "c"}) == "c"
    assert check_callback(quiet, RIGHT) == "the-code"
    with pytest.raises(CallbackRefused):
        check_callback(quiet, {**RIGHT, "iss": "https://evil.example"})
    unknown = msgspec.structs.replace(quiet, knows_issuer=False)
    assert check_callback(unknown, {**RIGHT, "iss": "https://as.example/login"}) == "the-code"


@requirement("ID-upstream-callback")
@pytest.mark.parametrize("callback", [{"state": "x"}, {"iss": None}, {"iss": "https://evil.example"}])
async def test_no_code_is_sent_anywhere_after_a_wrong_callback(callback: dict[str, str | None]) -> None:
    async with scene() as s:
        s.auth.callback |= callback

        with pytest.raises(CallbackRefused):
            await s.log_in(s.oauth())

        assert s.auth.forms == []


@requirement("ID-upstream-callback")
async def test_mixed_up_servers_get_no_code() -> None:
    """The login was begun at the honest server; the callback is brought to the attacker's token endpoint."""
    async with scene() as s, AuthServer() as attacker:
        oauth = s.oauth()
        honest = await oauth.discover()
        client = await oauth.client(honest)
        request = oauth.begin(honest, client, scopes=())
        callback = await browse(request)
        s.protected.servers[:] = [attacker]
        evil = await oauth.discover()
        mixed: list[tuple[Target, Client]] = [
            (evil, client),
            (evil, await oauth.client(evil)),
            (honest, msgspec.structs.replace(client, client_id="other")),
        ]
        for target, shown in mixed:
            with pytest.raises(CallbackRefused, match="Start it again"):
                await oauth.finish(target, shown, request, callback)

        assert attacker.forms == []


def test_the_authorization_url_keeps_what_the_endpoint_has() -> None:
    server = AuthorizationServer(
        issuer="https://as.example",
        authorization_endpoint="https://as.example/auth?access_type=offline&prompt=select_account",
        token_endpoint="https://as.example/token",
        origin="config",
    )
    target = Target(url="https://mcp.example", server=server, resource=None)
    client = Client(issuer=server.issuer, client_id="a b&c", origin="config")

    request = authorization_request(target, client, scopes=("x", "offline_access"), redirect_uri=REDIRECT, state="mine")

    params = parse_qsl(urlsplit(request.url).query)
    assert params[:3] == [("access_type", "offline"), ("prompt", "select_account"), ("response_type", "code")]
    assert ("client_id", "a b&c") in params
    assert ("state", "mine") in params
    assert [name for name, _ in params].count("prompt") == 1
    assert "resource" not in dict(params)


SECRET = "hush-hush"
WITH_SECRETS: list[Callable[[], Any]] = [
    lambda: Tokens(access_token=SECRET, refresh_token=SECRET, dpop_key=SECRET, issuer="i", client_id="c"),
    lambda: Client(issuer="i", client_id="c", client_secret=SECRET, private_key=SECRET, origin="config"),
    lambda: msgspec.structs.replace(REQUEST, url=SECRET, state=SECRET, verifier=SECRET, dpop_key=SECRET),
]


@requirement("ID-upstream-secrets")
@pytest.mark.parametrize("make", WITH_SECRETS)
def test_what_holds_a_secret_shows_none_and_can_be_stored(make: Callable[[], Any]) -> None:
    value = make()

    assert SECRET not in repr(value)
    assert SECRET not in f"{value} {[value]}"
    assert "i" in repr(value)
    assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value
