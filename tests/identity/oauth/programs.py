"""A person's browser and an OAuth client, both over HTTP, for tests of the built-in authorization server.

async with oauth_gateway(tmp_path) as front:
    person, program = await front.person(), await front.program()
    tokens = await program.log_in(person)
"""

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from tests.harness.in_process import KEY, make_gateway

BASE = "http://localhost:8420"
REDIRECT = "http://127.0.0.1:5123/callback"
CONFIG = """
[auth.keys.ada]
key = "the-key-of-ada"
scopes = ["call", "answer"]

[auth.keys.bob]
key = "the-key-of-bob"
scopes = ["read"]

[sources.mine]
kind = "files"
path = "tools/*.py"

[groups.one]
tools = ["*"]
description = "The first group"

[groups.two]
tools = ["nothing"]
"""
ADA, BOB = "the-key-of-ada", "the-key-of-bob"


class _Forms(HTMLParser):
    """The fields of a page's forms, as a browser would send them, and all that it says."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[tuple[str, str]] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag == "input" and said.get("name") and (said.get("type") != "checkbox" or "checked" in said):
            self.fields.append((said["name"] or "", said.get("value") or ""))
        if tag == "a":
            self.links.append(said.get("href") or "")

    def handle_data(self, data: str) -> None:
        self.text += data


class Page:
    """A page as a person sees it."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        parsed = _Forms()
        parsed.feed(response.text)
        self.fields, self.links, self.text = parsed.fields, parsed.links, parsed.text

    def without(self, *names: str) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self.fields if name not in names]


class Person:
    """Somebody with a browser who signs in with a key."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def sign_in(self, key: str) -> None:
        response = await self.http.post("/api/login", headers={"x-api-key": key})
        assert response.status_code == 200, response.text

    async def open(self, url: str) -> Page:
        response = await self.http.get(url)
        assert response.status_code != 303, f"sent to {response.headers['location']}"
        return Page(response)

    async def send(self, fields: list[tuple[str, str]], *, origin: str | None = BASE) -> httpx2.Response:
        headers = {} if origin is None else {"origin": origin}
        content = urlencode(fields).encode()
        headers["content-type"] = "application/x-www-form-urlencoded"
        return await self.http.post("/oauth/authorize", content=content, headers=headers)

    async def decide(self, page: Page, decision: str = "allow", *more: tuple[str, str]) -> dict[str, str]:
        """What comes back to the client."""
        response = await self.send([*page.fields, ("decision", decision), *more])
        assert response.status_code == 303, response.text
        return answer_in(response.headers["location"])


def answer_in(location: str) -> dict[str, str]:
    found = parse_qs(urlsplit(location).query)
    assert all(len(values) == 1 for values in found.values())
    return {"to": location.partition("?")[0]} | {name: values[0] for name, values in found.items()}


class Program:
    """An OAuth client that registered itself."""

    def __init__(self, http: httpx2.AsyncClient, registered: dict[str, Any]) -> None:
        self.http = http
        self.id: str = registered["client_id"]
        self.secret: str | None = registered.get("client_secret")
        self.redirect_uri: str = registered["redirect_uris"][0]
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(8)

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def url(self, **changes: str | None) -> str:
        """The authorization request; None leaves a parameter out."""
        said: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "resource": f"{BASE}/mcp",
        }
        said |= changes
        return f"/oauth/authorize?{urlencode({name: value for name, value in said.items() if value is not None})}"

    async def token(self, **fields: str | None) -> httpx2.Response:
        said = {"client_id": self.id, "client_secret": self.secret} | fields
        return await self.http.post(
            "/oauth/token", data={name: value for name, value in said.items() if value is not None}
        )

    async def exchange(self, code: str, **changes: str | None) -> httpx2.Response:
        said: dict[str, str | None] = {"code": code, "redirect_uri": self.redirect_uri, "code_verifier": self.verifier}
        return await self.token(**{"grant_type": "authorization_code"} | said | changes)

    async def refresh(self, token: str, **changes: str | None) -> httpx2.Response:
        return await self.token(**{"grant_type": "refresh_token", "refresh_token": token} | changes)

    async def log_in(self, person: Person, **changes: str | None) -> dict[str, Any]:
        """Tokens, after the person allowed all that is asked for."""
        answer = await person.decide(await person.open(self.url(**changes)))
        response = await self.exchange(answer["code"])
        assert response.status_code == 200, response.text
        tokens: dict[str, Any] = response.json()
        return tokens


class OAuthGateway:
    """A gateway with people and programs at it."""

    def __init__(self, gateway: Gateway, transport: httpx2.ASGITransport) -> None:
        self.gateway = gateway
        self._transport = transport
        self.http = self.browser()

    def browser(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=self._transport, base_url=BASE, follow_redirects=False)

    async def person(self, key: str = ADA) -> Person:
        person = Person(self.browser())
        await person.sign_in(key)
        return person

    async def register(self, **metadata: Any) -> httpx2.Response:
        said = {"client_name": "Tester", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
        return await self.http.post("/oauth/register", json=said | metadata)

    async def program(self, **metadata: Any) -> Program:
        response = await self.register(**metadata)
        assert response.status_code == 201, response.text
        return Program(self.http, response.json())

    async def mcp(
        self, token: str, path: str = "/mcp", *, method: str = "tools/list", **params: Any
    ) -> httpx2.Response:
        """One request of the newest revision."""
        key = "io.modelcontextprotocol"
        meta: dict[str, Any] = {f"{key}/protocolVersion": "2026-07-28", f"{key}/clientCapabilities": {}}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}
        headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if "name" in params:
            headers["mcp-name"] = params["name"]
        return await self.http.post(path, json=body, headers=headers)


@asynccontextmanager
async def oauth_gateway(folder: Path, config: str = CONFIG) -> AsyncIterator[OAuthGateway]:
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "hello.py").write_text('def hello() -> str:\n    """Greet."""\n    return "hello"\n')
    async with make_gateway(folder, config) as gateway:
        transport = httpx2.ASGITransport(build_app(gateway), raise_app_exceptions=False)
        yield OAuthGateway(gateway, transport)


ADMIN = KEY
