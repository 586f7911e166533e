"""An OpenID Provider in a process of its own, for whoever signs people in: panva's certified `oidc-provider`.

    with running_provider() as provider:
        provider.add_client("gateway", secret="s3cret", redirect_uri=f"{gateway.url}/api/login/oidc/callback")
        ...[auth.oidc] issuer = provider.issuer...
        fill_in(page, "ada")                     # its form, in a browser
        provider.sign_in(http, url, "ada", until=…)      # the same without one

It knows `PEOPLE`. Where npm's packages are not installed (`make/npm-programs`) the test is skipped.
"""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page

from tests.harness.process import clean_environment, free_port
from tests.waiting import eventually

PROGRAMS = Path(__file__).parents[1] / "programs"
STOP_WITHIN = 10.0
MAX_STEPS = 20
_FORM = re.compile(r'<form[^>]*action="([^"]+)"')

PEOPLE: Mapping[str, Mapping[str, Any]] = {
    "ada": {
        "name": "Ada Lovelace",
        "email": "ada@example.org",
        "email_verified": True,
        "groups": ["staff", "admins"],
    },
    "bob": {"name": "Bob", "email": "bob@example.org", "email_verified": True, "groups": ["staff"]},
    "mallory": {"name": "Mallory", "email": "ada@example.org", "email_verified": False, "groups": []},
    "eve": {"name": "Eve", "email": "eve@elsewhere.example", "email_verified": True},
}
"""Ada administers, Bob works there, Mallory claims Ada's address, and Eve is of no group."""


def program(name: str) -> Path:
    """A file of an npm package of `tests/programs`; without it the test is skipped."""
    path = PROGRAMS / "node_modules" / name
    if not path.exists() or shutil.which("node") is None:
        pytest.skip("needs programs from npm: install Node.js 20 or newer, then run make/npm-programs")
    return path


@dataclass(frozen=True, kw_only=True)
class RunningProvider:
    """A provider that listens."""

    issuer: str
    process: "subprocess.Popen[bytes]" = field(repr=False)

    def add_client(
        self, client_id: str, *, redirect_uri: str, secret: str | None = None, **more: str | Sequence[str]
    ) -> None:
        """A client of it; without a secret a public one. What RFC 7591 has besides goes into `more`."""
        method = "none" if secret is None else "client_secret_basic"
        self._put(
            f"clients/{client_id}",
            {
                "redirect_uris": [redirect_uri],
                "grant_types": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_method": method,
                **({} if secret is None else {"client_secret": secret}),
                **more,
            },
        )

    def add_person(self, sub: str, claims: Mapping[str, Any]) -> None:
        """Somebody new, or the new claims of somebody."""
        self._put(f"people/{sub}", claims)

    def rotate_keys(self) -> None:
        """From now on it signs with new keys, and its JWKS has no others."""
        httpx2.post(f"{self.issuer}/test/rotate").raise_for_status()

    @property
    def seen(self) -> dict[str, int]:
        """How often each path was asked for."""
        answer: dict[str, int] = httpx2.get(f"{self.issuer}/test/seen").json()
        return answer

    @property
    def secrets(self) -> list[str]:
        """The codes and tokens that it has given out."""
        answer: list[str] = httpx2.get(f"{self.issuer}/test/secrets").json()
        return answer

    def sign_in(self, http: httpx2.Client, url: str, sub: str, *, until: str) -> httpx2.Response:
        """Follow `url` as a browser would, fill in the form, and stop at the first url that begins with `until`.

        The answer is the one that redirects there, so that a test can still change the url before it is used.
        """
        for _ in range(MAX_STEPS):
            answer = http.get(url)
            if answer.is_redirect:
                url = str(httpx2.URL(url).join(answer.headers["location"]))
                if url.startswith(until):
                    return answer
                continue
            form = _FORM.search(answer.text)
            assert form, f"{url} has no form: {answer.status_code} {answer.text[:500]}"
            is_consent = 'value="consent"' in answer.text
            told = {"prompt": "consent"} if is_consent else {"prompt": "login", "login": sub, "password": "secret"}
            answer = http.post(str(httpx2.URL(url).join(unescape(form[1]))), data=told)
            url = str(httpx2.URL(url).join(answer.headers["location"]))
        raise AssertionError(f"{sub} never came to {until}; the last url was {url}")

    def _put(self, what: str, body: Mapping[str, Any]) -> None:
        httpx2.put(f"{self.issuer}/test/{what}", json=dict(body)).raise_for_status()


@contextmanager
def running_provider(*, port: int | None = None, claims_at: str = "id_token") -> Iterator[RunningProvider]:
    """Start it, and end it by its pid. `claims_at="userinfo"`: id tokens name nobody but the subject."""
    program("oidc-provider")
    chosen = port or free_port()
    process = subprocess.Popen(
        ["node", str(PROGRAMS / "provider.mjs"), str(chosen), claims_at],
        cwd=PROGRAMS,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
    )

    def listens() -> bool:
        assert process.poll() is None, "the provider ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", chosen)) == 0

    try:
        eventually(listens)
        provider = RunningProvider(issuer=f"http://127.0.0.1:{chosen}", process=process)
        for sub, claims in PEOPLE.items():
            provider.add_person(sub, claims)
        yield provider
    finally:
        process.kill()
        process.wait(STOP_WITHIN)


def fill_in(page: Page, sub: str) -> None:
    """Sign in at the provider's form, where a browser has come to."""
    page.fill("input[name=login]", sub)
    page.fill("input[name=password]", "secret")
    page.click("button[type=submit]")
