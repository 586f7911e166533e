"""After somebody signed in, consented, logged in behind and called, nothing that must stay secret is in sight.

Everything a gateway shows or keeps is searched: each answer that a GET of the API gives an administrator, the metrics,
the log, and every file of the data folder as bytes.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from conformance.browser import Browser, follow
from conformance.tokens import Granted, granted
from stress.logins import LoginServer, running_login_server
from tests.harness.process import RunningGateway, free_port, running_gateway
from tests.provider import RunningProvider, running_provider
from tests.requirement import requirement
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(120)

CLIENT_SECRET = "secret-of-the-gateway-at-the-provider"
ANSWERS = {"login": "ada", "password": "secret"}
CONFIG = """\
[auth.oidc]
issuer = "{issuer}"
client_id = "gateway"
client_secret = "{secret}"

[auth.roles.staff]
groups = ["staff"]
scopes = ["call"]

[sources.notes]
kind = "mcp"
url = "{notes}/mcp"
auth = "user"
"""
KEPT_APART = ("vault.key", "admin.key")
"""Files of the data folder that hold a secret because that is what they are for."""
MOST_OF_THEM = 12
"""There are at least so many: codes, tokens, verifiers and secrets of three servers."""
SHORTEST = 16
"""What is shorter would be found by chance."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    gateway: RunningGateway
    secrets: Mapping[str, str]
    """What must not be seen, by what it is."""
    call: dict[str, Any]
    events: bytearray
    """What an administrator heard of all calls, live."""

    def leaks(self, where: str, text: bytes) -> list[str]:
        return [f"{what} in {where}" for what, secret in self.secrets.items() if secret.encode() in text]


def secrets_of(
    gateway: RunningGateway, provider: RunningProvider, server: LoginServer, token: Granted
) -> dict[str, str]:
    """Everything secret that has passed."""
    found = {f"of the server behind, {number}": each for number, each in enumerate(server.secrets)}
    found |= {f"of the provider, {number}": each for number, each in enumerate(provider.secrets)}
    found |= {"access token": token.access_token, "refresh token": token.refresh_token}
    found |= {"code": token.code, "verifier": token.verifier, "client secret": CLIENT_SECRET}
    found["vault key"] = (gateway.folder / ".jackfield" / "vault.key").read_text(encoding="utf-8").strip()
    assert len(found) > MOST_OF_THEM
    assert all(len(secret) >= SHORTEST for secret in found.values()), found
    return found


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running_provider() as provider, running_login_server() as server:
        provider.add_client("gateway", secret=CLIENT_SECRET, redirect_uri=f"{url}/api/login/oidc/callback")
        config = CONFIG.format(issuer=provider.issuer, secret=CLIENT_SECRET, notes=server.url)
        folder = tmp_path_factory.mktemp("gateway")
        with running_gateway(folder, config, env={"JACKFIELD_PORT": str(port)}) as gateway:
            events = bytearray()
            threading.Thread(target=listen, args=(gateway, events), daemon=True).start()
            eventually(lambda: bool(events))
            token = granted(url, ANSWERS, sign_in_at=f"{url}/api/login/oidc?return_to=/healthz")
            call = call_behind(gateway, server)
            secrets = secrets_of(gateway, provider, server, token)
            yield Scene(gateway=gateway, secrets=secrets, call=call, events=events)


def listen(gateway: RunningGateway, events: bytearray) -> None:
    """Follow all calls until the gateway ends."""
    url = f"{gateway.url}/api/v1/calls/stream"
    with suppress(httpx2.HTTPError), httpx2.stream("GET", url, headers=gateway.headers, timeout=None) as answer:
        for part in answer.iter_bytes():
            events += part


def call_behind(gateway: RunningGateway, server: LoginServer) -> dict[str, Any]:
    """Log in at the server behind as Ada, call there, and again after the login had to be refreshed."""
    with Browser() as browser:
        follow(browser, f"{gateway.url}/api/login/oidc?return_to=/healthz", ANSWERS)
        headers = {"origin": gateway.url}
        http = httpx2.Client(base_url=gateway.url, timeout=30, cookies=browser.cookies, headers=headers)
        started = http.post("/api/v1/connections/notes", json={}).raise_for_status()
        page = follow(browser, started.json()["login_url"], ANSWERS)
        assert not page.is_fault, page.text

        def call(text: str) -> dict[str, Any]:
            answer = http.post("/api/v1/tools/note/execute", json={"arguments": {"text": text}})
            told: dict[str, Any] = answer.json()
            return told

        eventually(lambda: call("first").get("status") == "completed")
        server.expire()
        told = call("second")
        assert told["result"] == "ada: second", told
        assert server.seen.refreshes == 1
        http.close()
        return told


@requirement("ID-no-secrets-seen")
def test_no_answer_of_the_api_shows_a_secret(scene: Scene) -> None:
    described = httpx2.get(f"{scene.gateway.url}/openapi.json", headers=scene.gateway.headers).json()
    named = {"id": scene.call["call_id"], "call_id": scene.call["call_id"], "source": "notes", "name": "note"}
    leaks: list[str] = []
    asked = 0
    with httpx2.Client(base_url=scene.gateway.url, headers=scene.gateway.headers, timeout=10) as http:
        for path, operations in described["paths"].items():
            if "get" not in operations:
                continue
            url = re.sub(r"\{(\w+)\}", lambda found: named.get(found[1], "user:ada"), path)
            with http.stream("GET", url) as answer:
                if answer.headers.get("content-type", "").startswith("text/event-stream"):
                    continue
                text = answer.read() + repr(answer.headers).encode()
            asked += 1
            leaks += scene.leaks(path, text)
    assert asked > 30
    assert leaks == []


@requirement("ID-no-secrets-seen")
def test_no_event_of_a_call_shows_a_secret(scene: Scene) -> None:
    eventually(lambda: scene.call["call_id"].encode() in scene.events)
    assert scene.leaks("the events", bytes(scene.events)) == []


@requirement("ID-no-secrets-seen")
def test_neither_the_log_nor_the_files_of_the_store_have_a_secret(scene: Scene) -> None:
    folder = scene.gateway.folder
    files = [file for file in (folder / ".jackfield").rglob("*") if file.is_file() and file.name not in KEPT_APART]
    assert any(file.name == "jackfield.db" for file in files)
    leaks = [
        leak
        for file in (*files, folder / "gateway.log", folder / "gateway.out")
        for leak in scene.leaks(file.name, _bytes_of(file))
    ]
    assert leaks == []


def _bytes_of(file: Path) -> bytes:
    return file.read_bytes()
