"""Signing in with a certified provider that keeps its claims for userinfo and changes its keys."""

from pathlib import Path

import httpx2

from tests.harness.process import free_port, running_gateway
from tests.provider import running_provider
from tests.requirement import requirement

CONFIG = """
[auth.oidc]
issuer = "{issuer}"
client_id = "gateway"
scopes = ["openid", "profile", "email", "groups"]
[auth.roles.staff]
groups = ["staff"]
[auth.roles.owner]
emails = ["ada@example.org"]
scopes = ["admin"]
"""


@requirement("ID-oidc-real-provider")
def test_people_sign_in_with_a_real_provider_before_and_after_its_keys_change(tmp_path: Path) -> None:
    port = free_port()
    callback = f"http://127.0.0.1:{port}/api/login/oidc/callback"
    with (
        running_provider(claims_at="userinfo") as provider,
        running_gateway(tmp_path, CONFIG.format(issuer=provider.issuer), env={"JACKFIELD_PORT": str(port)}) as gateway,
    ):
        provider.add_client("gateway", redirect_uri=callback)

        def sign_in(person: str) -> httpx2.Response:
            with httpx2.Client() as http:
                back = provider.sign_in(http, f"{gateway.url}/api/login/oidc", person, until=callback)
                answer = http.get(back.headers["location"])
                return http.get(f"{gateway.url}/api/login") if answer.status_code == 303 else answer

        assert sign_in("ada").json() == {
            "principal": "user:ada",
            "name": "Ada Lovelace",
            "email": "ada@example.org",
            "roles": ["staff", "owner"],
            "scopes": ["admin", "call"],
        }
        provider.rotate_keys()
        assert sign_in("bob").json()["roles"] == ["staff"]
        assert sign_in("mallory").status_code == 403, "her address is Ada's, and not verified"
