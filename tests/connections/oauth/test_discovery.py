"""Every way from a server's url to its authorization server, and what is refused on the way."""

from typing import Any

import pytest

from jackfield.connections.oauth import Challenge, DiscoveryFailed, OAuthUnavailable
from jackfield.connections.oauth import http as oauth_http
from jackfield.connections.oauth.discovery import (
    is_resource_of,
    is_same_issuer,
    resource_metadata_urls,
    server_metadata_urls,
)
from tests.connections.oauth.scene import OPENID_PATH, RESOURCE_PATH, SERVER_PATH, AuthServer, Protected, scene
from tests.outgoing.names import Names
from tests.requirement import requirement
from tests.sources.upstream import json_reply, never, redirect, reply


@requirement("ID-upstream-discovery")
@pytest.mark.parametrize(
    ("resource_path", "in_header", "prefix", "metadata_path"),
    [
        (f"{RESOURCE_PATH}/mcp", True, "", SERVER_PATH),
        (f"{RESOURCE_PATH}/mcp", False, "", OPENID_PATH),
        (RESOURCE_PATH, False, "/tenant", f"{SERVER_PATH}/tenant"),
        ("/custom/metadata.json", True, "/tenant", f"/tenant{OPENID_PATH}"),
        (f"{RESOURCE_PATH}/mcp", False, "/tenant", f"{OPENID_PATH}/tenant"),
    ],
)
async def test_metadata_is_found_wherever_it_may_be(
    *, resource_path: str, in_header: bool, prefix: str, metadata_path: str
) -> None:
    async with scene(protected=Protected(resource_path), auth=AuthServer(prefix, metadata_path)) as s:
        address = s.protected.url + resource_path if in_header else None

        target = await s.oauth().discover(Challenge(scheme="bearer", resource_metadata=address))

        assert target.server.issuer == s.auth.issuer
        assert target.server.token_endpoint == f"{s.auth.issuer}/token"
        assert target.resource == s.protected.mcp
        if in_header:
            assert s.protected.targets == [resource_path]


def test_urls_are_tried_in_the_order_of_the_specification() -> None:
    assert resource_metadata_urls("https://a.example/public/mcp?x=1", None) == (
        "https://a.example/.well-known/oauth-protected-resource/public/mcp",
        "https://a.example/.well-known/oauth-protected-resource",
    )
    assert resource_metadata_urls("https://a.example/", "https://a.example/said")[0] == "https://a.example/said"
    assert server_metadata_urls("https://as.example") == (
        "https://as.example/.well-known/oauth-authorization-server",
        "https://as.example/.well-known/openid-configuration",
    )
    assert server_metadata_urls("https://as.example/t") == (
        "https://as.example/.well-known/oauth-authorization-server/t",
        "https://as.example/.well-known/openid-configuration/t",
        "https://as.example/t/.well-known/openid-configuration",
    )


@pytest.mark.parametrize(
    ("resource", "is_ours"),
    [
        ("https://a.example/mcp", True),
        ("https://A.example:443/mcp/", True),
        ("https://a.example", True),
        ("https://a.example/m", False),
        ("https://a.example/mcp/more", False),
        ("https://a.example/mcp#x", False),
        ("http://a.example/mcp", False),
        ("https://a.example:8443/mcp", False),
        ("https://a.example.evil.example/mcp", False),
        ("urn:mcp", False),
        ("", False),
    ],
)
def test_a_resource_is_the_server_or_above_it(resource: str, *, is_ours: bool) -> None:
    assert is_resource_of(resource, "https://a.example/mcp") is is_ours


@pytest.mark.parametrize(
    ("said", "is_same"),
    [
        ("https://as.example", True),
        ("https://as.example/", True),
        ("https://as.example//", False),
        ("https://AS.example", False),
        ("https://as.example:443", False),
        ("https://as.example/t", False),
    ],
)
def test_an_issuer_is_the_same_text(said: str, *, is_same: bool) -> None:
    assert is_same_issuer(said, "https://as.example") is is_same
    assert not is_same_issuer("https://as.example/t/", "https://as.example/t")


@requirement("ID-upstream-discovery")
async def test_a_server_without_resource_metadata_is_its_own_authorization_server() -> None:
    async with scene(protected=Protected("/nowhere")) as s:
        auth = {**s.auth.said_metadata, "issuer": s.protected.url}
        s.protected.answers[SERVER_PATH] = json_reply(auth)

        target = await s.oauth().discover()

        assert (target.server.issuer, target.server.origin) == (s.protected.url, "metadata")
        assert target.server.token_endpoint == auth["token_endpoint"]


@requirement("ID-upstream-discovery")
async def test_a_server_without_any_metadata_has_its_endpoints_at_the_root() -> None:
    async with scene(protected=Protected("/nowhere")) as s:
        target = await s.oauth().discover()

        assert target.server.origin == "default"
        assert target.server.authorization_endpoint == f"{s.protected.url}/authorize"
        assert target.server.token_endpoint == f"{s.protected.url}/token"
        assert target.server.registration_endpoint == f"{s.protected.url}/register"


async def test_an_api_that_does_not_say_where_to_log_in_is_no_mcp_server_of_old() -> None:
    async with scene(protected=Protected("/nowhere")) as s:
        with pytest.raises(DiscoveryFailed, match="Set `issuer`, or `authorization_url` and `token_url`"):
            await s.oauth(is_mcp=False).discover()


@requirement("ID-upstream-discovery")
async def test_of_several_authorization_servers_the_one_with_a_login_is_taken_else_the_first_that_works() -> None:
    async with scene(auth=AuthServer("/a", f"{SERVER_PATH}/a")) as s, AuthServer() as second:
        s.protected.servers.append(second)

        assert (await s.oauth().discover()).server.issuer == s.auth.issuer
        assert (await s.oauth().discover(known_issuer=second.issuer)).server.issuer == second.issuer
        assert (await s.oauth(issuer=second.issuer).discover()).server.issuer == second.issuer

        s.auth.metadata["issuer"] = "https://other.example"
        assert (await s.oauth().discover()).server.issuer == second.issuer


async def test_endpoints_of_the_config_need_no_discovery() -> None:
    async with scene() as s:
        oauth = s.oauth(authorization_url="https://as.example/login/authorize", token_url="https://as.example/token")
        other = s.oauth(
            is_mcp=False,
            authorization_url="https://as.example/a",
            token_url="https://as.example/t",
            issuer="https://i.example",
        )

        target, plain = await oauth.discover(), await other.discover()

        assert (target.server.issuer, target.server.knows_issuer) == ("https://as.example", False)
        assert target.resource == s.protected.mcp
        assert (plain.server.issuer, plain.server.knows_issuer) == ("https://i.example", True)
        assert plain.resource is None
        assert s.protected.received == []


async def test_the_config_can_say_the_resource_or_that_there_is_none() -> None:
    async with scene() as s:
        assert (await s.oauth(resource="https://api.example").discover()).resource == "https://api.example"
        assert (await s.oauth(resource="").discover()).resource is None


@requirement("ID-upstream-resource")
@pytest.mark.parametrize("resource", ["https://evil.example/mcp", "http://127.0.0.1:1/mcp", "", 7])
async def test_metadata_about_another_resource_is_refused(resource: object) -> None:
    async with scene() as s:
        s.protected.metadata["resource"] = resource

        with pytest.raises(DiscoveryFailed):
            await s.oauth().discover()

        assert s.auth.received == []


@requirement("ID-upstream-issuer")
async def test_metadata_of_another_issuer_is_refused() -> None:
    async with scene() as s:
        s.auth.metadata["issuer"] = "https://attacker.example"

        with pytest.raises(DiscoveryFailed, match=r"names another issuer, attacker\.example"):
            await s.oauth().discover()


async def test_an_issuer_of_the_config_that_the_server_does_not_name_is_refused() -> None:
    async with scene() as s:
        with pytest.raises(DiscoveryFailed, match=r"wants logins at 127.*Correct `issuer`"):
            await s.oauth(issuer="https://old.example").discover()


@requirement("ID-upstream-private")
@pytest.mark.parametrize("field", ["authorization_servers", "resource_metadata", "nothing"])
async def test_metadata_that_points_to_a_private_address_leads_nowhere(field: str) -> None:
    names = Names({"intranet.example": "10.0.0.7", "metadata.example": "169.254.169.254"})
    async with scene(allow=(), resolve=names) as s:
        challenge = Challenge(scheme="bearer")
        if field == "authorization_servers":
            s.protected.metadata[field] = ["https://intranet.example"]
        elif field == "resource_metadata":
            challenge = Challenge(scheme="bearer", resource_metadata="https://metadata.example/latest")
        with pytest.raises(DiscoveryFailed, match="refused"):
            # The last: the authorization server itself is on this machine, and nobody allowed that.
            await s.oauth().discover(challenge)
        assert s.auth.connections == 0


@requirement("ID-upstream-private")
@pytest.mark.parametrize("field", ["registration_endpoint", "token_endpoint"])
async def test_an_endpoint_at_a_private_address_gets_nothing(field: str) -> None:
    names = Names({"intranet.example": "10.0.0.7"})
    async with scene(allow=(), resolve=names) as s:
        s.auth.metadata[field] = "https://intranet.example/x"

        with pytest.raises(DiscoveryFailed, match=r"'intranet\.example' was refused"):
            await s.log_in(s.oauth(issuer=s.auth.issuer))
        assert s.auth.forms == []


async def test_an_authorization_server_that_the_config_names_may_be_private() -> None:
    async with scene(allow=()) as s:
        assert (await s.oauth(issuer=s.auth.issuer).discover()).server.issuer == s.auth.issuer


async def test_a_redirect_of_metadata_to_a_private_address_is_refused() -> None:
    async with scene(allow=()) as s:
        s.protected.answers[f"{RESOURCE_PATH}/mcp"] = redirect("http://169.254.169.254/latest/meta-data")

        with pytest.raises(DiscoveryFailed, match="refused"):
            await s.oauth().discover()


@requirement("ID-upstream-private")
@pytest.mark.parametrize(
    "endpoint",
    [
        "javascript:alert(1)",
        "http://as.example/authorize",
        "file:///etc/passwd",
        "https://user:pass@as.example/",
        "https://as.example/#x",
        "$(calc.exe)",
        "https://",
        "x" * 5000,
    ],
)
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "revocation_endpoint"])
async def test_an_endpoint_that_is_no_safe_url_is_refused(name: str, endpoint: str) -> None:
    async with scene() as s:
        s.auth.metadata[name] = endpoint

        with pytest.raises(DiscoveryFailed, match=f"its {name}"):
            await s.oauth().discover()


@pytest.mark.parametrize(
    "metadata",
    [
        {"token_endpoint": None},
        {"token_endpoint": 7},
        {"scopes_supported": "a b"},
        {"code_challenge_methods_supported": [1]},
        {"origin": "config", "token_endpoint": []},
    ],
)
async def test_metadata_of_the_wrong_shape_is_refused(metadata: dict[str, Any]) -> None:
    async with scene() as s:
        s.auth.metadata |= metadata

        with pytest.raises(DiscoveryFailed, match="cannot be used"):
            await s.oauth().discover()


async def test_what_metadata_adds_is_ignored_and_what_is_null_is_absent() -> None:
    async with scene() as s:
        s.protected.metadata |= {"scopes_supported": ["a", 'b"', "c d", "a"], "jwks_uri": 7}
        metadata = {**s.auth.said_metadata, "scopes_supported": None, "origin": "config", "knows_issuer": False}
        s.auth.answers[SERVER_PATH] = json_reply(metadata)

        target = await s.oauth().discover()

        assert target.server.origin == "metadata"
        assert target.server.scopes_supported is None
        assert target.resource_scopes == ("a",)


@pytest.mark.parametrize(
    "answer", [reply(503), reply(429), reply(200, b"x" * (oauth_http.MAX_BYTES + 1)), b"not http at all\r\n\r\n"]
)
async def test_a_server_in_trouble_is_not_taken_for_one_without_metadata(answer: bytes) -> None:
    async with scene() as s:
        s.protected.answers[f"{RESOURCE_PATH}/mcp"] = answer

        with pytest.raises(OAuthUnavailable):
            await s.oauth().discover()


async def test_a_slow_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_http, "SECONDS", 0.05)
    async with scene() as s:
        s.auth.answers[SERVER_PATH] = never

        with pytest.raises(OAuthUnavailable, match="did not answer within"):
            await s.oauth().discover()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"[" * 100_000, b"\xff\xfe", b'"x"', b""])
async def test_a_page_that_is_no_json_object_is_no_metadata(body: bytes) -> None:
    async with scene() as s:
        s.protected.answers[f"{RESOURCE_PATH}/mcp"] = reply(200, body)
        s.protected.answers[RESOURCE_PATH] = json_reply(s.protected.said_metadata)

        assert (await s.oauth().discover()).server.issuer == s.auth.issuer
