"""Whatever a server sends: it is read, or refused with an error of ours; and what is read is safe to use."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jackfield.connections.oauth import AuthorizationServer, Client, OAuthError, parse_challenges
from jackfield.connections.oauth.discovery import is_resource_of, parse_resource, parse_server
from jackfield.connections.oauth.http import JsonAnswer, OAuthHttp, is_loopback
from jackfield.connections.oauth.registration import registered_client
from jackfield.connections.oauth.tokens import parse_tokens
from jackfield.outgoing import Outgoing
from jackfield.outgoing.urls import parse_url

ISSUER = "https://as.example"
SERVER = AuthorizationServer(issuer=ISSUER, token_endpoint=f"{ISSUER}/token")
CLIENT = Client(issuer=ISSUER, client_id="c", origin="config")
WORD = st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(lambda word: word not in ("scope", "error", "algs"))
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126))
URLISH = st.one_of(
    st.sampled_from([ISSUER, f"{ISSUER}/token", "http://127.0.0.1:1/x", "http://as.example/", "javascript:alert(1)"]),
    st.text(),
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | URLISH,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
METADATA = st.fixed_dictionaries(
    {"issuer": URLISH, "token_endpoint": URLISH},
    optional={
        "authorization_endpoint": URLISH,
        "registration_endpoint": ANY,
        "code_challenge_methods_supported": ANY,
        "scopes_supported": ANY,
        "origin": ANY,
        "client_id_metadata_document_supported": ANY,
    },
)


@given(st.text() | PRINTABLE)
def test_any_header_is_read(header: str) -> None:
    for challenge in parse_challenges(header):
        assert all(re.fullmatch(r"[\x21-\x7e]+", scope) for scope in challenge.scopes)


@given(st.lists(st.tuples(WORD, PRINTABLE), min_size=1, max_size=4), PRINTABLE)
def test_what_is_quoted_comes_back(schemes: list[tuple[str, str]], error: str) -> None:
    quoted = error.replace("\\", "\\\\").replace('"', '\\"')
    header = ", ".join(f'{scheme} realm="x", error="{quoted}"' for scheme, _ in schemes)

    assert [(each.scheme, each.error) for each in parse_challenges(header)] == [
        (scheme, error or None) for scheme, _ in schemes
    ]


@given(METADATA)
def test_any_metadata_is_refused_or_safe(document: dict[str, Any]) -> None:
    http = OAuthHttp(Outgoing(), named=[])
    try:
        server = parse_server(http, document, issuer=ISSUER)
    except OAuthError:
        return
    assert server.origin == "metadata"
    assert server.issuer in (ISSUER, f"{ISSUER}/")
    for endpoint in (server.authorization_endpoint, server.token_endpoint, server.registration_endpoint):
        if endpoint is not None:
            url = parse_url(endpoint)
            assert url.scheme == "https" or is_loopback(url.host)


@given(st.fixed_dictionaries({}, optional={"resource": URLISH, "authorization_servers": ANY, "scopes_supported": ANY}))
def test_any_resource_metadata_is_refused_or_about_us(document: dict[str, Any]) -> None:
    try:
        resource = parse_resource(document, url=f"{ISSUER}/token", address=ISSUER)
    except OAuthError:
        return
    assert is_resource_of(resource.resource, f"{ISSUER}/token")


TOKENS = st.fixed_dictionaries(
    {},
    optional={
        "access_token": ANY,
        "token_type": st.sampled_from(["Bearer", "bearer", "DPoP"]) | ANY,
        "expires_in": ANY,
        "refresh_token": ANY,
        "scope": ANY,
        "error": ANY,
    },
)


@given(TOKENS, st.sampled_from([200, 400, 401, 500]))
def test_any_token_response_is_refused_or_can_stand_in_a_header(body: dict[str, Any], status: int) -> None:
    answer = JsonAnswer(status, {}, body)
    try:
        tokens = parse_tokens(answer, server=SERVER, client=CLIENT, resource=None, scopes=())
    except OAuthError:
        return
    assert status == 200
    assert re.fullmatch(r"[\x21-\x7e]+", tokens.access_token)
    assert tokens.expires_at is None or tokens.expires_at > 0


@given(st.fixed_dictionaries({}, optional={"client_id": ANY, "client_secret": ANY, "client_secret_expires_at": ANY}))
def test_any_registration_is_refused_or_a_client_of_that_server(body: dict[str, Any]) -> None:
    answer = JsonAnswer(201, {}, body)
    try:
        client = registered_client(answer, SERVER, asked="client_secret_basic", redirect_uri="https://g.example/cb")
    except OAuthError:
        return
    assert (client.issuer, client.origin) == (ISSUER, "registered")
    assert client.client_secret is not None or client.auth_method == "none"
