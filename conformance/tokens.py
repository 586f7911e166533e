"""A token of the gateway's own authorization server, got as an MCP client gets one: registration, code, PKCE.

Above: the bench, and stories that need the token itself.
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
from msgspec import Struct

from conformance.browser import Browser, follow

REDIRECT_URI = "http://127.0.0.1:9/callback"
"""Nobody listens there; the browser stops before it."""
ANSWER_SECONDS = 30.0


class Granted(Struct, frozen=True, kw_only=True):
    """What came of a consent, with everything on the way that must not be seen elsewhere."""

    client_id: str
    code: str
    verifier: str
    access_token: str
    refresh_token: str
    scope: str


def granted(
    url: str, answers: Mapping[str, str], *, resource: str | None = None, sign_in_at: str | None = None
) -> Granted:
    """Sign in, consent, redeem. `answers` fill in the forms by name; `sign_in_at` is opened before the consent."""
    wanted = {"client_name": "a program", "redirect_uris": [REDIRECT_URI], "token_endpoint_auth_method": "none"}
    with httpx2.Client(base_url=url, timeout=ANSWER_SECONDS) as http, Browser(stops_at=REDIRECT_URI) as browser:
        client_id = http.post("/oauth/register", json=wanted).raise_for_status().json()["client_id"]
        verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": REDIRECT_URI,
            "state": "a state",
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": resource or f"{url}/mcp",
        }
        if sign_in_at is not None:
            follow(browser, sign_in_at, answers)
        page = follow(browser, f"{url}/oauth/authorize?{urlencode(asked)}", answers)
        given = parse_qs(urlsplit(page.url).query)
        if "code" not in given:
            raise RuntimeError(f"No code came of the consent: {page.status} at {page.url}: {page.text}")
        form = {
            "grant_type": "authorization_code",
            "code": given["code"][0],
            "redirect_uri": REDIRECT_URI,
            "client_id": client_id,
            "code_verifier": verifier,
            "resource": asked["resource"],
        }
        told = http.post("/oauth/token", data=form).raise_for_status().json()
    return Granted(
        client_id=client_id,
        code=given["code"][0],
        verifier=verifier,
        access_token=told["access_token"],
        refresh_token=told.get("refresh_token", ""),
        scope=told.get("scope", ""),
    )
