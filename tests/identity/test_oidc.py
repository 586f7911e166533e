"""Signing in with an OpenID provider: who gets in, with which roles, and the attacks on it."""

import asyncio
import base64
import hashlib
import hmac
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from jackfield.cli.doctor import check_provider
from jackfield.errors import ConfigError
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.identity import oidc
from jackfield.sdk import Client, NotFound
from jackfield.settings import load_settings
from tests.harness.in_process import KEY
from tests.identity.oauth.programs import REDIRECT, Person, Program
from tests.identity.signing_provider import CLIENT_ID, CLIENT_SECRET, SigningProvider, signing_provider
from tests.requirement import requirement
from tests.waiting import Stopwatch, eventually_async

URL = "http://127.0.0.1:8420"
ROLES = """
[auth.roles.staff]
groups = ["staff"]
scopes = ["call"]
tools = ["read"]
[auth.roles.admins]
groups = ["admins"]
emails = ["*@boss.example"]
scopes = ["admin"]
[[tools]]
name = "read"
description = "Reads."
executionType = "internal"
inputSchema = { type = "object" }
[[tools]]
name = "deploy"
description = "Deploys."
executionType = "internal"
inputSchema = { type = "object" }
metadata = { requires_approval = true }
"""


def config(provider: SigningProvider, *, more: str = ROLES, oidc: str = "") -> str:
    return f"""
[auth.oidc]
issuer = "{provider.issuer}"
client_id = "{CLIENT_ID}"
client_secret = "{CLIENT_SECRET}"
name = "Example"
{oidc}
{more}
"""


def make(folder: Path, text: str, *, store: str = "memory:") -> Gateway:
    folder.mkdir(exist_ok=True)
    path = folder / "jackfield.toml"
    path.write_text(text)
    return Gateway(load_settings(path, environment={"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store}))


def browser_of(gateway: Gateway) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(build_app(gateway), raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=URL)


class Scene:
    """A gateway, a provider that a test bends, and browsers."""

    def __init__(self, gateway: Gateway, provider: SigningProvider, browser: httpx2.AsyncClient) -> None:
        self.gateway = gateway
        self.provider = provider
        self.browser = browser

    async def begin(self, return_to: str = "/#/tools") -> str:
        """The url of the provider that the browser is sent to."""
        answer = await self.browser.get("/api/login/oidc", params={"return_to": return_to})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def callback(self, query: str, browser: httpx2.AsyncClient | None = None) -> httpx2.Response:
        return await (browser or self.browser).get(f"/api/login/oidc/callback?{query}")

    async def sign_in(self) -> httpx2.Response:
        return await self.callback(self.provider.authorize(await self.begin()))

    async def refused(self, status: int, says: str) -> None:
        """A sign-in that must fail, with this status and sentence, and without a cookie."""
        answer = await self.sign_in()
        assert (answer.status_code, says in answer.text) == (status, True), answer.text
        assert "jackfield" not in self.browser.cookies
        assert (await self.browser.get("/api/login")).status_code == 401


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with (
        signing_provider() as provider,
        make(tmp_path, config(provider)) as gateway,
        browser_of(gateway) as browser,
    ):
        yield Scene(gateway, provider, browser)


@requirement("ID-oidc-sign-in")
async def test_a_person_signs_in_and_has_the_roles_of_their_groups(scene: Scene) -> None:
    answer = await scene.sign_in()
    assert (answer.status_code, answer.headers["location"]) == (303, "/#/tools")
    cookies = answer.headers.get_list("set-cookie")
    assert any(re.match(r"jackfield=[\w-]{43}; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax$", one) for one in cookies)
    assert (await scene.browser.get("/api/login")).json() == {
        "principal": "user:ada",
        "name": "Ada Lovelace",
        "roles": ["staff"],
        "scopes": ["call"],
    }
    tools = (await scene.browser.get("/api/v1/tools")).json()["tools"]
    assert [tool["name"] for tool in tools] == ["read"]
    _, headers, form = next(seen for seen in scene.provider.seen if seen[0] == "/token")
    assert headers["authorization"].startswith("Basic ")
    assert (form["grant_type"], "client_secret" in form) == ("authorization_code", False)


@requirement("ID-oidc-page")
async def test_the_sign_in_page_has_a_button_for_the_provider(scene: Scene) -> None:
    shown = await scene.browser.get("/sign-in", params={"return_to": "/a?b=1"})
    assert (
        '<a class="button primary" href="/api/login/oidc?return_to=%2Fa%3Fb%3D1">Sign in with Example</a>' in shown.text
    )
    assert (await scene.browser.get("/api/login/ways")).json() == {"oidc": "Example"}


@requirement("ID-oidc-client-auth")
@pytest.mark.parametrize("methods", [["client_secret_post"], ["client_secret_basic", "client_secret_post"]])
async def test_the_client_authenticates_as_the_provider_takes_it(scene: Scene, methods: list[str]) -> None:
    scene.provider.metadata = {"token_endpoint_auth_methods_supported": methods}
    assert (await scene.sign_in()).status_code == 303
    _, headers, form = next(seen for seen in scene.provider.seen if seen[0] == "/token")
    assert ("authorization" in headers) is ("client_secret_basic" in methods)
    assert ("client_secret" in form) is ("client_secret_basic" not in methods)


@requirement("ID-oidc-userinfo")
async def test_userinfo_says_what_the_id_token_does_not(scene: Scene) -> None:
    scene.provider.claims = {"sub": "bob"}
    scene.provider.userinfo = {"name": "Bob", "groups": ["staff"], "email": "b@boss.example", "email_verified": True}
    assert (await scene.sign_in()).status_code == 303
    assert (await scene.browser.get("/api/login")).json() == {
        "principal": "user:bob",
        "name": "Bob",
        "email": "b@boss.example",
        "roles": ["staff", "admins"],
        "scopes": ["admin", "call"],
    }
    tools = (await scene.browser.get("/api/v1/tools")).json()["tools"]
    assert {"read", "deploy"} <= {tool["name"] for tool in tools}


@requirement("ID-roles-verified-email")
@pytest.mark.parametrize("verified", [None, False, "false", 1])
async def test_an_email_that_is_not_verified_matches_nothing(scene: Scene, verified: object) -> None:
    scene.provider.claims = {"sub": "eve", "name": "Eve", "email": "eve@boss.example", "email_verified": verified}
    await scene.refused(403, "you have no role at this gateway")


@requirement("ID-roles-verified-email")
@pytest.mark.parametrize(
    "email",
    [
        f"{'e' * 187}@boss.example.evil.example",  # 200 characters of it end with the domain of a role
        "eve@boss.exam\u200bple",
        " eve@boss.example",
        "eve@\N{KELVIN SIGN}.example",
    ],
)
async def test_an_email_that_only_looks_like_one_of_a_role_matches_nothing(tmp_path: Path, email: str) -> None:
    more = '[auth.roles.k]\nemails = ["*@k.example", "*@boss.example"]\nscopes = ["admin"]'
    async with (
        signing_provider() as provider,
        make(tmp_path, config(provider, more=more)) as gateway,
        browser_of(gateway) as browser,
    ):
        provider.claims = {"sub": "eve", "name": "Eve", "email": email, "email_verified": True}
        await Scene(gateway, provider, browser).refused(403, "you have no role at this gateway")


@requirement("ID-roles-verified-email")
async def test_one_email_that_is_verified_verifies_no_other(scene: Scene) -> None:
    scene.provider.claims = {"sub": "eve", "email": "eve@boss.example"}
    scene.provider.userinfo = {"name": "Eve", "email": "eve@evil.example", "email_verified": True}
    await scene.refused(403, "you have no role at this gateway")
    scene.provider.userinfo["email"] = "eve@boss.example"
    assert (await scene.sign_in()).status_code == 303


@requirement("ID-roles-none")
async def test_a_person_without_a_role_is_told_so_and_ends_what_they_had(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="jackfield")
    assert (await scene.sign_in()).status_code == 303
    scene.provider.claims["groups"] = ["others"]
    answer = await scene.sign_in()
    assert answer.status_code == 403
    assert "You are known as Ada Lovelace (user:ada)" in answer.text
    assert "user:ada was not signed in, for want of a role" in caplog.text
    assert "groups in the claim 'groups': others" in caplog.text
    assert (await scene.browser.get("/api/login")).status_code == 401


async def test_whoever_wants_to_be_somebody_else_is_asked_by_the_provider(scene: Scene) -> None:
    """It knows them already, and would send them back as the same person."""
    assert "prompt=login" not in (await scene.browser.get("/api/login/oidc")).headers["location"]
    await scene.sign_in()
    page = await scene.browser.get("/sign-in")
    assert "You are signed in as <strong>Ada Lovelace</strong> (user:ada)." in page.text
    assert "/api/login/oidc?return_to=%2F&amp;again=yes" in page.text
    assert "prompt=login" in (await scene.browser.get("/api/login/oidc?again=yes")).headers["location"]
    scene.provider.claims["groups"] = ["others"]
    assert "/sign-in?again=yes" in (await scene.sign_in()).text
    assert "again=yes" in (await scene.browser.get("/sign-in?again=yes")).text


@requirement("ID-roles-next-login")
async def test_a_lost_role_takes_effect_at_the_next_login(scene: Scene) -> None:
    scene.provider.claims["groups"] = ["staff", "admins"]
    await scene.sign_in()
    first = scene.browser.cookies["jackfield"]
    scene.provider.claims["groups"] = ["staff"]
    assert (await scene.browser.get("/api/v1/users")).status_code == 200
    await scene.sign_in()
    assert scene.browser.cookies["jackfield"] != first
    assert (await scene.browser.get("/api/v1/users")).status_code == 403
    assert (await scene.browser.get("/api/login")).json()["roles"] == ["staff"]


@requirement("ID-oidc-other-issuer")
async def test_the_same_subject_of_another_provider_is_somebody_else(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/jackfield.db"
    async with signing_provider() as first, signing_provider() as second:
        async with make(tmp_path, config(first), store=store) as gateway, browser_of(gateway) as browser:
            assert (await Scene(gateway, first, browser).sign_in()).status_code == 303
            cookie = browser.cookies["jackfield"]
        async with make(tmp_path, config(second), store=store) as gateway, browser_of(gateway) as other:
            ended: list[str] = []

            async def forget(name: str) -> None:
                ended.append(name)

            gateway.principals.people._end_logins = forget
            assert (await Scene(gateway, second, other).sign_in()).status_code == 303
            assert ended == ["user:ada"]  # logins at sources were the other one's
            assert (await other.get("/api/login")).status_code == 200
            async with browser_of(gateway) as browser:
                browser.cookies["jackfield"] = cookie
                assert (await browser.get("/api/login")).status_code == 401


@requirement("ID-oidc-groups-claim")
@pytest.mark.parametrize(
    ("claim", "claims", "expected"),
    [
        ("groups", {"groups": ["a", 1, "b"]}, ["a", "b"]),
        ("groups", {"groups": "a"}, ["a"]),
        ("groups", {}, None),
        ("realm_access.roles", {"realm_access": {"roles": ["x"]}}, ["x"]),
        ("realm_access.roles", {"realm_access": ["x"]}, None),
        ("https://example.org/groups", {"https://example.org/groups": ["y"]}, ["y"]),
    ],
)
def test_groups_are_where_the_config_says(claim: str, claims: dict[str, Any], expected: list[str] | None) -> None:
    assert oidc.groups_in(claims, claim) == expected


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = [msgspec.json.encode(part) for part in ({"typ": "JWT", **header}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def with_algorithm_none(claims: dict[str, Any], _key: RSAKey) -> str:
    return f"{unsigned({'alg': 'none'}, claims)}."


def without_a_signature(claims: dict[str, Any], key: RSAKey) -> str:
    return f"{unsigned({'alg': 'RS256', 'kid': key.kid}, claims)}."


def signed_with_the_public_key(claims: dict[str, Any], key: RSAKey) -> str:
    """By hand: joserfc refuses to do it."""
    token = unsigned({"alg": "HS256", "kid": key.kid}, claims)
    signature = hmac.new(key.as_pem(private=False), token.encode(), hashlib.sha256).digest()
    return f"{token}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def signed_with_another_key(claims: dict[str, Any], key: RSAKey) -> str:
    return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, RSAKey.generate_key(2048))


@requirement("ID-attack-oidc-token")
@pytest.mark.parametrize(
    ("token", "says"),
    [
        ({"nonce": "another"}, "not of this sign-in"),
        ({"nonce": None}, "not of this sign-in"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"aud": "somebody-else"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"aud": [CLIENT_ID, "other"]}, "another client"),
        ({"aud": [CLIENT_ID, "other"], "azp": "other"}, "another client"),
        ({"azp": "other"}, "another client"),
        ({"exp": 1000}, "expired"),
        ({"exp": None}, "expired"),
        ({"nbf": 2**40}, "not good yet"),
        ({"iat": 2**40}, "not good yet"),
        ({"sub": None}, "names nobody"),
        ({"sub": "a\nb"}, "names nobody"),
        ({"sub": "x" * 300}, "names nobody"),
        ({"sub": 7}, "names nobody"),
    ],
)
async def test_a_token_that_is_not_for_this_sign_in_is_refused(scene: Scene, token: dict[str, Any], says: str) -> None:
    scene.provider.token_claims = token
    await scene.refused(401, says)


@requirement("ID-attack-oidc-algorithm")
@pytest.mark.parametrize(
    "sign",
    [
        with_algorithm_none,
        without_a_signature,
        signed_with_the_public_key,
        signed_with_another_key,
    ],
)
async def test_a_token_without_the_providers_own_signature_is_refused(scene: Scene, sign: Any) -> None:
    scene.provider.sign = sign
    await scene.refused(401, "token")


@requirement("ID-attack-oidc-state")
async def test_a_wrong_state_or_none_is_refused(scene: Scene) -> None:
    query = scene.provider.authorize(await scene.begin())
    for wrong in (re.sub("state=.*", "state=guessed", query), "code=code-1", ""):
        answer = await scene.callback(wrong)
        assert (answer.status_code, "used up or too old" in answer.text) == (400, True)
    assert "jackfield" not in scene.browser.cookies
    assert not any(path == "/token" for path, *_ in scene.provider.seen)


@requirement("ID-attack-oidc-replay")
async def test_a_callback_is_good_once(scene: Scene) -> None:
    url = await scene.begin()
    flow = scene.browser.cookies["jackfield-oidc"]
    query = scene.provider.authorize(url)
    assert (await scene.callback(query)).status_code == 303
    scene.browser.cookies.clear()
    scene.provider.authorize(url)  # the provider itself would take the code again
    again = await scene.browser.get(f"/api/login/oidc/callback?{query}", headers={"cookie": f"jackfield-oidc={flow}"})
    assert (again.status_code, "used up or too old" in again.text) == (400, True)
    assert "jackfield" not in scene.browser.cookies


@requirement("ID-attack-oidc-replay")
async def test_a_code_that_the_provider_refuses_signs_nobody_in(scene: Scene) -> None:
    query = scene.provider.authorize(await scene.begin())
    scene.provider.codes.clear()
    answer = await scene.callback(query)
    assert (answer.status_code, "Example refused the code" in answer.text) == (400, True)
    assert "jackfield" not in scene.browser.cookies


@requirement("ID-attack-oidc-browser")
async def test_a_sign_in_is_finished_by_the_browser_that_began_it(scene: Scene) -> None:
    query = scene.provider.authorize(await scene.begin())
    async with browser_of(scene.gateway) as victim:
        assert (await scene.callback(query, victim)).status_code == 400
        await victim.get("/api/login/oidc")
        assert (await scene.callback(query, victim)).status_code == 400
        assert "jackfield" not in victim.cookies
    assert (await scene.callback(query)).status_code == 303


@requirement("ID-attack-oidc-fixation")
async def test_signing_in_by_the_provider_ends_the_login_before(scene: Scene) -> None:
    planted = (await scene.browser.post("/api/login", headers={"x-api-key": KEY})).cookies["jackfield"]
    assert (await scene.sign_in()).status_code == 303
    assert scene.browser.cookies["jackfield"] != planted
    scene.browser.cookies.clear()
    answer = await scene.browser.get("/api/login", headers={"cookie": f"jackfield={planted}"})
    assert answer.status_code == 401


@requirement("ID-attack-oidc-mix-up")
@pytest.mark.parametrize(
    ("announced", "iss", "status"),
    [(True, "own", 303), (True, None, 400), (True, "https://evil.example", 400), (False, "https://evil.example", 400)],
)
async def test_the_answer_comes_from_the_provider_that_was_asked(
    scene: Scene, *, announced: bool, iss: str | None, status: int
) -> None:
    scene.provider.metadata = {"authorization_response_iss_parameter_supported": announced}
    query = scene.provider.authorize(await scene.begin())
    query += "" if iss is None else f"&iss={scene.provider.issuer if iss == 'own' else iss}"
    answer = await scene.callback(query)
    assert answer.status_code == status, answer.text
    assert any(path == "/token" for path, *_ in scene.provider.seen) is (status == 303)


@requirement("ID-attack-oidc-redirect")
@pytest.mark.parametrize("target", ["//evil.example", "/\\evil", "https://evil.example", "/\t/evil"])
async def test_the_provider_sends_nobody_elsewhere(scene: Scene, target: str) -> None:
    answer = await scene.browser.get("/api/login/oidc", params={"return_to": target})
    assert (answer.status_code, "must be a path of this gateway" in answer.text) == (400, True)


@requirement("ID-attack-oidc-private")
@pytest.mark.parametrize("endpoint", ["token_endpoint", "jwks_uri", "userinfo_endpoint"])
async def test_metadata_does_not_lead_to_a_private_address(scene: Scene, endpoint: str) -> None:
    async with signing_provider() as inner:
        inner.key = scene.provider.key
        scene.provider.claims = {"sub": "ada"}
        for url in (f"{inner.issuer}/x", inner.issuer.replace("http", "https"), "https://169.254.169.254/x"):
            scene.provider.metadata = {endpoint: url}
            async with AsyncExitStack() as stack:
                gateway = await stack.enter_async_context(make(scene.gateway.settings.folder, config(scene.provider)))
                browser = await stack.enter_async_context(browser_of(gateway))
                other = Scene(gateway, scene.provider, browser)
                await other.refused(503, "try again".capitalize())
        assert inner.seen == []


@requirement("ID-attack-oidc-issuer")
async def test_metadata_of_another_issuer_is_not_used(scene: Scene) -> None:
    scene.provider.metadata = {"issuer": "https://evil.example"}
    answer = await scene.browser.get("/api/login/oidc")
    assert (answer.status_code, "Example cannot be used right now" in answer.text) == (503, True)
    scene.provider.metadata = {"authorization_endpoint": "javascript:alert(1)"}
    assert (await scene.browser.get("/api/login/oidc")).status_code == 503


@requirement("ID-oidc-down")
async def test_a_provider_that_is_down_or_hangs_gives_a_sentence(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.provider.is_down = True
    answer = await scene.browser.get("/api/login/oidc")
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert "Example cannot be used right now" in answer.text
    scene.provider.is_down = False
    query = scene.provider.authorize(await scene.begin())
    monkeypatch.setattr(oidc, "SECONDS", 0.2)
    scene.provider.hangs = asyncio.Event()
    before = time.monotonic()
    assert (await scene.callback(query)).status_code == 503
    assert time.monotonic() - before < 30
    assert (await scene.browser.get("/healthz")).status_code == 200


@requirement("ID-oidc-denied")
async def test_what_the_provider_refuses_is_said(scene: Scene) -> None:
    query = scene.provider.authorize(await scene.begin()).partition("&")[2]
    answer = await scene.callback(f"{query}&error=access_denied&error_description=%3Cb%3ENo%3C/b%3E%00%E2%80%8B")
    assert answer.status_code == 403
    assert "Example did not sign you in: &lt;b&gt;No&lt;/b&gt;</p>" in answer.text
    assert (await scene.callback(f"{query}&error=access_denied")).status_code == 400


@requirement("ID-oidc-rotation")
async def test_a_key_that_the_provider_has_just_begun_to_use_is_read(scene: Scene) -> None:
    assert (await scene.sign_in()).status_code == 303
    assert (await scene.sign_in()).status_code == 303
    assert [path for path, *_ in scene.provider.seen].count("/jwks") == 1
    scene.provider.key = RSAKey.generate_key(2048, {"kid": "two"})
    assert (await scene.sign_in()).status_code == 303
    assert [path for path, *_ in scene.provider.seen].count("/jwks") == 2
    scene.provider.sign = lambda claims, key: jwt.encode({"alg": "RS256", "kid": "unknown"}, claims, key)
    for _ in range(3):
        assert (await scene.sign_in()).status_code == 401
    assert [path for path, *_ in scene.provider.seen].count("/jwks") == 2


@requirement("ID-oidc-begun-limit")
async def test_sign_ins_that_are_only_begun_are_limited(scene: Scene) -> None:
    statuses = [(await scene.browser.get("/api/login/oidc")).status_code for _ in range(160)]
    assert (statuses[0], 429 in statuses) == (303, True)


@requirement("ID-oidc-own-address")
async def test_a_browser_comes_to_the_gateways_own_address_first(scene: Scene) -> None:
    answer = await scene.browser.get("/api/login/oidc?return_to=/x", headers={"host": "localhost:8420"})
    assert answer.headers["location"] == f"{URL}/api/login/oidc?moved=yes&return_to=%2Fx"
    moved = await scene.browser.get("/api/login/oidc?return_to=/x&moved=yes", headers={"host": "localhost:8420"})
    assert moved.headers["location"].startswith(scene.provider.issuer)


@requirement("ID-users-sign-out")
async def test_an_administrator_signs_somebody_out_everywhere(scene: Scene) -> None:
    await scene.sign_in()
    own = {"origin": URL}
    waiting = await scene.browser.post("/api/v1/tools/read/execute", json={"arguments": {}}, headers=own)
    assert waiting.status_code < 500
    admin = {"x-api-key": KEY}
    async with browser_of(scene.gateway) as client:
        listed = (await client.get("/api/v1/users", headers=admin)).json()["users"]
        assert [(user["id"], user["roles"], user["signed_out_at"]) for user in listed] == [
            ("user:ada", ["staff"], None)
        ]
        assert (await client.post("/api/v1/users/user:bob/sign-out", headers=admin)).status_code == 404
        assert (await scene.browser.post("/api/v1/users/user:bob/sign-out", headers=own)).status_code == 403
        assert (await client.post("/api/v1/users/user:ada/sign-out", headers=admin)).status_code == 204
        assert (await scene.browser.get("/api/login")).status_code == 401
        assert scene.gateway.principals.find("user:ada") is None
        (ada,) = (await client.get("/api/v1/users", headers=admin)).json()["users"]
        assert (ada["scopes"], ada["signed_out_at"] is None) == ([], False)
        old = scene.browser.cookies["jackfield"]
        await scene.sign_in()
        assert (await scene.browser.get("/api/login")).status_code == 200
        assert (await client.get("/api/login", headers={"cookie": f"jackfield={old}"})).status_code == 401


@requirement("ID-users-sdk")
async def test_the_sdk_lists_people_and_signs_them_out(scene: Scene) -> None:
    scene.provider.claims["sub"] = "https://people.example/ada|1"
    await scene.sign_in()
    client = Client(URL, KEY, transport=scene.browser._transport)
    (ada,) = await client.users.list()
    assert (ada.id, ada.name, ada.scopes) == ("user:https://people.example/ada|1", "Ada Lovelace", ("call",))
    await client.users.sign_out(ada.id)
    assert (await scene.browser.get("/api/login")).status_code == 401
    with pytest.raises(NotFound):
        await client.users.sign_out("user:nobody")


@requirement("ID-users-own-sign-out")
async def test_somebody_signs_themselves_out_everywhere(scene: Scene) -> None:
    await scene.sign_in()
    answer = await scene.browser.post("/api/v1/users/user:ada/sign-out", headers={"origin": URL})
    assert answer.status_code == 204
    assert (await scene.browser.get("/api/login")).status_code == 401


@requirement("ID-attack-cookie-origin")
async def test_a_cookie_changes_nothing_without_the_gateways_own_origin(scene: Scene) -> None:
    await scene.sign_in()
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {}):
        answer = await scene.browser.post("/api/v1/users/user:ada/sign-out", headers=headers)
        assert answer.status_code == 403
    linked = await scene.browser.get("/api/v1/tools", headers={"sec-fetch-site": "cross-site"})
    assert linked.status_code == 403
    page = await scene.browser.get("/sign-in", headers={"sec-fetch-site": "cross-site"})
    assert "You are signed in as" in page.text
    assert (await scene.browser.get("/api/login", headers={"sec-fetch-site": "same-origin"})).status_code == 200


@requirement("ID-people-in-spaces")
async def test_a_person_speaks_under_their_own_name(scene: Scene) -> None:
    scene.provider.claims["groups"] = ["admins"]
    await scene.sign_in()
    own = {"origin": URL}
    assert (await scene.browser.post("/api/spaces", json={"id": "lab"}, headers=own)).status_code == 201
    said = await scene.browser.post("/api/spaces/lab/messages", json={"content": "Hello"}, headers=own)
    assert said.status_code in (200, 201), said.text
    members = (await scene.browser.get("/api/spaces/lab/members")).text
    assert '"user:ada"' in members
    assert '"Ada Lovelace"' in members


@requirement("ID-roles-config")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[auth.roles.x]\ngroups = ["a"]\nscopes = ["everything"]', "unknown scope 'everything'"),
        ('[auth.roles.x]\nscopes = ["call"]', "neither groups nor emails"),
        ('[auth.oidc]\nissuer = "accounts"\nclient_id = "x"', "not the URL of an issuer"),
        ('[auth.oidc]\nissuer = "https://a.example"\nclient_id = "x"\nscopes = ["email"]', "lacks 'openid'"),
        ('[auth.keys."user:ada"]\nkey = "x"', "has no ':'"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make(tmp_path, text)


@requirement("ID-roles-config")
@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ('groups_of_tools = ["none"]', "groups_of_tools has the unknown group 'none'"),
        ('agents = ["nobody"]', "agents has the unknown agent 'nobody'"),
        ('spaces = ["nowhere"]', "spaces has the unknown space 'nowhere'"),
    ],
)
async def test_a_role_names_what_there_is(tmp_path: Path, limit: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        async with make(tmp_path, f'[auth.roles.x]\ngroups = ["*"]\n{limit}'):
            pass


@requirement("ID-oidc-no-roles")
async def test_a_provider_without_roles_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with signing_provider() as provider, make(tmp_path, config(provider, more="")):
        assert "there is no [auth.roles]" in caplog.text


async def test_people_who_could_never_log_in_at_a_source_are_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = '[sources.far]\nkind = "mcp"\nurl = "https://far.example/mcp"\nauth = "user"\n'
    oauth = '[auth.oauth]\nmode = "external"\nissuer = "https://login.example"\n'
    role = '[auth.roles.all]\ngroups = ["*"]\nscopes = ["call"]\n'
    async with make(tmp_path, source + oauth + role):
        assert "none of them can sign in here to log in at 'far'" in caplog.text


async def test_a_person_is_shown_by_name_where_they_allow_something(scene: Scene) -> None:
    await scene.sign_in()
    said = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
    program = Program(scene.browser, (await scene.browser.post("/oauth/register", json=said)).json())
    page = await Person(scene.browser).open(program.url(resource=None))
    assert "AsAda Lovelace (user:ada)" in page.text


@requirement("ID-oidc-doctor")
async def test_the_doctor_says_why_a_provider_cannot_be_used(tmp_path: Path) -> None:
    async with signing_provider() as provider:
        settings = make(tmp_path, config(provider)).settings
        (found,) = await check_provider(settings)
        assert (found.level.value, found.message) == ("ok", f"{provider.issuer}; 2 roles")
        provider.metadata = {"issuer": f"{provider.issuer}/"}
        (found,) = await check_provider(settings)
        assert found.level.value == "fault"
        assert f"it is the metadata of '{provider.issuer}/'" in found.message
        (found,) = await check_provider(make(tmp_path, config(SigningProvider(issuer="http://127.0.0.1:1"))).settings)
        assert found.level.value == "fault"


@requirement("ID-oidc-public-client")
async def test_a_public_client_has_pkce_only(tmp_path: Path) -> None:
    async with signing_provider() as provider:
        provider.is_public = True
        text = config(provider).replace(f'client_secret = "{CLIENT_SECRET}"\n', "")
        async with make(tmp_path, text) as gateway, browser_of(gateway) as browser:
            scene = Scene(gateway, provider, browser)
            assert (await scene.sign_in()).status_code == 303
            _, headers, form = next(seen for seen in provider.seen if seen[0] == "/token")
            assert ("authorization" in headers, form["client_id"]) == (False, CLIENT_ID)


async def test_without_a_provider_the_route_says_so(tmp_path: Path) -> None:
    async with make(tmp_path, "") as gateway, browser_of(gateway) as browser:
        assert (await browser.get("/api/login/oidc")).status_code == 404
        assert (await browser.get("/api/login/ways")).json() == {"oidc": None}
        assert "Sign in with" not in (await browser.get("/sign-in")).text


@asynccontextmanager
async def two_gateways(folder: Path, provider: SigningProvider, store: str) -> AsyncIterator[tuple[Gateway, Gateway]]:
    async with (
        make(folder / "a", config(provider), store=store) as one,
        make(folder / "b", config(provider), store=store) as other,
    ):
        yield one, other


@requirement("ID-oidc-cluster")
async def test_any_gateway_finishes_a_sign_in_and_a_sign_out_holds_everywhere(
    tmp_path: Path, postgres_url: str
) -> None:
    async with (
        signing_provider() as provider,
        two_gateways(tmp_path, provider, postgres_url) as (one, other),
        browser_of(one) as browser,
        browser_of(other) as elsewhere,
    ):
        scene = Scene(one, provider, browser)
        query = provider.authorize(await scene.begin())
        elsewhere.cookies = browser.cookies
        assert (await scene.callback(query, elsewhere)).status_code == 303
        browser.cookies = elsewhere.cookies
        assert (await browser.get("/api/login")).json()["principal"] == "user:ada"
        out = await elsewhere.post("/api/v1/users/user:ada/sign-out", headers={"x-api-key": KEY})
        assert out.status_code == 204

        async def is_out() -> bool:
            return (await browser.get("/api/login")).status_code == 401

        watch = Stopwatch()
        await eventually_async(is_out)
        assert watch.seconds() < 1


@requirement("ID-ended-logout")
async def test_signing_out_holds_at_every_gateway(tmp_path: Path, postgres_url: str) -> None:
    async with AsyncExitStack() as stack:
        gateways = [await stack.enter_async_context(make(tmp_path / name, "", store=postgres_url)) for name in "ab"]
        one, other = [await stack.enter_async_context(browser_of(gateway)) for gateway in gateways]
        opened = await one.post("/api/login", headers={"x-api-key": KEY})
        cookie = {"cookie": opened.headers["set-cookie"].partition(";")[0], "origin": URL}
        assert (await other.get("/api/login", headers=cookie)).status_code == 200
        assert (await one.post("/api/logout", headers=cookie)).status_code == 204

        async def is_out() -> bool:
            return (await other.get("/api/login", headers=cookie)).status_code == 401

        watch = Stopwatch()
        await eventually_async(is_out)
        assert watch.seconds() < 1
