"""A server behind the gateway with its own authorization server, in the test's own loop, and browsers of people.

async with upstream() as server, gateway_at(tmp_path, server) as place:
    await place.log_in("ann")
    await place.call("ann")

The authorization server rotates refresh tokens and ends a whole login when an old one comes back (OAuth 2.1).
"""

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import mcp.types as t
import msgspec
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from jackfield.connections.oauth.authorization import code_challenge
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.settings import load_settings
from tests.harness.in_process import KEY
from tests.harness.process import free_port
from tests.waiting import eventually_async

VAULT_KEY = "dGhlIHZhdWx0J3Mga2V5IGluIHRlc3RzLCAzMiBieXQ"
PEOPLE = ("ann", "bob")
ENDED = {"error": "invalid_grant"}
Ctx = ServerRequestContext[Any, Any]
whose: ContextVar[tuple[str, str]] = ContextVar("whose", default=("nobody", ""))
"""Whose token the request being answered has, and the token."""


class Seen(Struct, frozen=True):
    """One request that had a good token."""

    person: str
    method: str


class PeopleServer:
    """An MCP server of the SDK behind a check of tokens, whose tool says whose token it was called with."""

    def __init__(self) -> None:
        self.people: dict[str, str] = {}
        """By token: whose it is."""
        self.requests: list[Seen] = []
        self.strangers: set[str] = set()
        """Tokens that came and were not good."""
        self.needs_more: set[str] = set()
        """Tokens without the scope that `tools/call` needs."""
        self.echoes = False
        """Whether the tool tells the token, as a careless one would."""
        self.mcp = Server("people", on_list_tools=self.list_tools, on_call_tool=self.call).streamable_http_app()

    async def list_tools(self, _ctx: Ctx, _params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name="whoami", input_schema={"type": "object", "properties": {}})])

    async def call(self, _ctx: Ctx, _params: t.CallToolRequestParams) -> t.CallToolResult:
        person, token = whose.get()
        text = f"{person} {token}" if self.echoes else person
        return t.CallToolResult(content=[t.TextContent(text=text)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        method = json.loads(body).get("method", "") if body else ""
        person = self.people.get(token)
        if person is None:
            self.strangers.add(token)
            await _refusal(401, 'error="invalid_token", scope="read"')(scope, receive, send)
        elif method == "tools/call" and token in self.needs_more:
            await _refusal(403, 'error="insufficient_scope", scope="write"')(scope, receive, send)
        else:
            self.requests.append(Seen(person, method))
            whose.set((person, token))
            is_sent = False

            async def again() -> Message:
                nonlocal is_sent
                if is_sent:
                    return await receive()
                is_sent = True
                return {"type": "http.request", "body": body, "more_body": False}

            await self.mcp(scope, again, send)


def _refusal(status: int, challenge: str) -> Response:
    return Response(status_code=status, headers={"www-authenticate": f"Bearer {challenge}"})


class Grant(Struct):
    """One login at the authorization server."""

    person: str
    scopes: str
    refresh_token: str = ""
    access_token: str = ""
    is_over: bool = False


class UpstreamServer:
    """Authorization server and protected MCP server on one port."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = free_port()
        self.mcp = PeopleServer()
        self.person = "nobody"
        """Who is signed in there, in the browser that comes next."""
        self.lifetime = 3600.0
        self.refreshes = 0
        self.registrations = 0
        self.revoked: list[str] = []
        self.secrets: list[str] = []
        """Every token, code and secret that it ever gave out."""
        self.answer: dict[str, str | None] = {}
        """Over the usual parameters of a callback."""
        self.forms: list[dict[str, str]] = []
        self.refreshing = asyncio.Event()
        self.may_refresh = asyncio.Event()
        self.may_refresh.set()
        self.given = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        """Cleared: tokens are given, old ones are worth nothing, and nobody is told."""
        self.is_down = False
        self.forgotten: set[str] = set()
        """Clients that it does not know any more."""
        self.wanted = "read"
        self._codes: dict[str, dict[str, str]] = {}
        self._grants: list[Grant] = []
        self._used: dict[str, Grant] = {}

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/oauth-protected-resource/mcp", self.resource),
                Route("/.well-known/oauth-authorization-server", self.metadata),
                Route("/register", self.register, methods=["POST"]),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
                Route("/revoke", self.revoke, methods=["POST"]),
                Mount("/", self.mcp),
            ]
        )

    async def resource(self, _: Request) -> Response:
        document = {"resource": f"{self.url}/mcp", "authorization_servers": [self.url], "scopes_supported": ["read"]}
        return JSONResponse(document)

    async def metadata(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.url,
                **{f"{name}_endpoint": f"{self.url}/{path}" for name, path in ENDPOINTS.items()},
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def register(self, _: Request) -> Response:
        self.registrations += 1
        client_secret = self._new("client-secret")
        return JSONResponse({"client_id": f"client-{self.registrations}", "client_secret": client_secret}, 201)

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        code = self._new("code")
        self._codes[code] = {**asked, "person": self.person}
        usual = {"code": code, "state": asked["state"], "iss": self.url}
        given = {name: value for name, value in {**usual, **self.answer}.items() if value is not None}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(given)}")

    async def token(self, request: Request) -> Response:
        answer = await self._token(request)
        self.given.set()
        await self.may_answer.wait()
        return answer

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        self.forms.append(form)
        if self.is_down or form.get("client_id") in self.forgotten:
            return Response(status_code=503) if self.is_down else JSONResponse({"error": "invalid_client"}, 401)
        if form["grant_type"] == "authorization_code":
            asked = self._codes.pop(form["code"], None)
            if asked is None or code_challenge(form["code_verifier"]) != asked["code_challenge"]:
                return JSONResponse(ENDED, 400)
            grant = Grant(asked["person"], asked.get("scope", ""))
            self._grants.append(grant)
            return self._give(grant)
        if form["grant_type"] == "client_credentials":
            return self._give(Grant("machine", form.get("scope", "")), refreshable=False)
        self.refreshes += 1
        self.refreshing.set()
        await self.may_refresh.wait()
        used = self._used.get(form["refresh_token"])
        if used is not None:  # somebody has stolen it: nobody gets anything more
            used.is_over = True
            self.mcp.people.pop(used.access_token, None)
        found = next((one for one in self._grants if one.refresh_token == form["refresh_token"]), None)
        if found is None or found.is_over:
            return JSONResponse(ENDED, 400)
        self._used[found.refresh_token] = found
        return self._give(found)

    def _give(self, grant: Grant, *, refreshable: bool = True) -> Response:
        self.mcp.people.pop(grant.access_token, None)
        grant.access_token = self._new("access")
        self.mcp.people[grant.access_token] = grant.person
        given: dict[str, Any] = {
            "access_token": grant.access_token,
            "token_type": "Bearer",
            "expires_in": self.lifetime,
            "scope": grant.scopes,
        }
        if refreshable:
            given["refresh_token"] = grant.refresh_token = self._new("refresh")
        return JSONResponse(given)

    async def revoke(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        self.revoked.append(form["token"])
        self.mcp.people.pop(form["token"], None)
        return Response()

    def _new(self, kind: str) -> str:
        self.secrets.append(secret := f"{kind}-{secrets.token_urlsafe(24)}")
        return secret

    def expire(self) -> None:
        """No token is good any more."""
        self.mcp.people.clear()

    @property
    def calls(self) -> Counter[str]:
        """How many calls came with whose token."""
        return Counter(seen.person for seen in self.mcp.requests if seen.method == "tools/call")


ENDPOINTS = {"authorization": "authorize", "token": "token", "registration": "register", "revocation": "revoke"}


@asynccontextmanager
async def upstream(host: str = "127.0.0.1") -> AsyncIterator[UpstreamServer]:
    made = UpstreamServer(host)
    server = uvicorn.Server(uvicorn.Config(made.app, port=made.port, log_level="error", lifespan="off"))
    async with _lifespan(made.mcp.mcp):
        serving = asyncio.create_task(server.serve())
        await eventually_async(lambda: server.started)
        try:
            yield made
        finally:
            made.may_refresh.set()
            made.may_answer.set()
            server.should_exit = server.force_exit = True
            await serving


@asynccontextmanager
async def _lifespan(app: Any) -> AsyncIterator[None]:
    """A mounted app's own start and stop, which Starlette leaves to whoever mounts it."""
    async with app.router.lifespan_context(app):
        yield


class Place:
    """A gateway with one source over the server, and the browsers of its people."""

    def __init__(self, gateway: Gateway | None, server: UpstreamServer, url: str) -> None:
        """`gateway`: None for one in another process."""
        self._gateway = gateway
        self.server = server
        self.url = url
        self.client = httpx2.AsyncClient(base_url=url, timeout=30)
        self.browsers: dict[str, httpx2.AsyncClient] = {}
        self.keys = {"admin": KEY, **{name: f"key-of-{name}" for name in PEOPLE}}

    @property
    def gateway(self) -> Gateway:
        assert self._gateway is not None
        return self._gateway

    def headers(self, person: str) -> dict[str, str]:
        return {"x-api-key": self.keys[person]}

    async def browser(self, person: str) -> httpx2.AsyncClient:
        """A browser in which somebody is signed in at the gateway."""
        if person not in self.browsers:
            browser = httpx2.AsyncClient(base_url=self.url, timeout=30)
            page = await browser.get("/sign-in")
            form = {"form_token": field(page.text, "form_token"), "key": self.headers(person)["x-api-key"]}
            signed_in = await browser.post("/sign-in", data=form)
            assert signed_in.status_code == 303, signed_in.text
            self.browsers[person] = browser
        return self.browsers[person]

    async def link(self, person: str, source: str = "far") -> str:
        answer = await self.client.post(f"/api/v1/connections/{source}", headers=self.headers(person))
        assert answer.status_code == 200, answer.text
        login_url: str = answer.json()["login_url"]
        return login_url

    async def press(self, link: str, person: str) -> httpx2.Response:
        """Open the link and press its button."""
        browser = await self.browser(person)
        path = urlsplit(link).path
        page = await browser.get(path)
        if page.status_code != 200:
            return page
        return await browser.post(path, data={"form_token": field(page.text, "form_token")})

    async def callback(self, link: str, person: str) -> str:
        """As far as the authorization server: where that sends the browser back to."""
        pressed = await self.press(link, person)
        assert pressed.status_code == 200, pressed.text
        self.server.person = person
        async with httpx2.AsyncClient() as elsewhere:
            answer = await elsewhere.get(go_on(pressed.text))
        assert answer.status_code == 307, answer.text
        location = urlsplit(answer.headers["location"])
        assert location.path == "/connect/callback"
        return f"{location.path}?{location.query}"

    async def log_in(self, person: str, link: str | None = None) -> httpx2.Response:
        """The whole way."""
        back = await self.callback(link or await self.link(person), person)
        return await (await self.browser(person)).get(back)

    async def listed(self) -> None:
        """Wait until the source's tool is in the catalog."""

        async def is_there() -> bool:
            return (await self.client.get("/api/v1/tools/whoami", headers=self.headers("admin"))).status_code == 200

        await eventually_async(is_there)

    async def call(self, person: str, tool: str = "whoami") -> httpx2.Response:
        path = f"/api/v1/tools/{tool}/execute"
        return await self.client.post(path, json={"arguments": {}}, headers=self.headers(person))

    async def result(self, person: str, call_id: str) -> dict[str, Any]:
        """The record of a call, once it is over."""
        record: dict[str, Any] = {}

        async def is_over() -> bool:
            answer = await self.client.get(f"/api/v1/calls/{call_id}", headers=self.headers(person))
            assert answer.status_code == 200, answer.text
            record.update(answer.json()["call"])
            return record["status"] in ("completed", "failed", "cancelled")

        await eventually_async(is_over)
        return record

    async def expire(self, person: str, *, left: float = -1) -> None:
        """The tokens of a person are over by the clock, or in so many seconds; the server would still take them."""
        connections = self.gateway.connections
        _, held = await connections.credentials.read("far", person)
        over = msgspec.structs.replace(held, tokens=msgspec.structs.replace(held.tokens, expires_at=time.time() + left))
        await connections.credentials.keep(over)

    async def connections(self, person: str) -> dict[tuple[str, str | None], str]:
        """The status of each connection that somebody sees."""
        answer = await self.client.get("/api/v1/connections", headers=self.headers(person))
        assert answer.status_code == 200, answer.text
        return {(one["source"], one["principal"]): one["status"] for one in answer.json()["connections"]}

    async def close(self) -> None:
        for one in (self.client, *self.browsers.values()):
            await one.aclose()


def field(page: str, name: str) -> str:
    """The value of a hidden field."""
    return unescape(page.partition(f'name="{name}" value="')[2].partition('"')[0])


def go_on(page: str) -> str:
    """Where a page leads by itself."""
    return unescape(page.partition('content="0; url=')[2].partition('"')[0])


def config_of(server: UpstreamServer, *, auth: str = "user", oauth: str = "", more: str = "") -> str:
    keys = "".join(f'[auth.keys.{name}]\nkey = "key-of-{name}"\n' for name in PEOPLE)
    table = f"[sources.far.oauth]\n{oauth}\n" if oauth else ""
    return f"""
{keys}
[outgoing]
allow = ["127.0.0.1"]
[sources.far]
kind = "mcp"
url = "{server.url}/mcp"
auth = "{auth}"
{table}
{more}
"""


@asynccontextmanager
async def gateway_at(
    folder: Path,
    server: UpstreamServer,
    *,
    store: str = "sqlite:///",
    config: str | None = None,
    environment: dict[str, str] | None = None,
) -> AsyncIterator[Place]:
    """A gateway on a port of its own."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240 - a test
    path = folder / "jackfield.toml"
    path.write_text(config or config_of(server))
    port = free_port()
    variables = {
        "JACKFIELD_ADMIN_KEY": KEY,
        "JACKFIELD_STORE": store,
        "JACKFIELD_VAULT_KEY": VAULT_KEY,
        "JACKFIELD_PORT": str(port),
        **(environment or {}),
    }
    settings = load_settings(path, environment={name: value for name, value in variables.items() if value})
    async with Gateway(settings) as gateway:
        app = build_app(gateway)
        web = uvicorn.Server(uvicorn.Config(app, port=port, lifespan="off", log_config=None, access_log=False))
        serving = asyncio.create_task(web.serve())
        await eventually_async(lambda: web.started)
        place = Place(gateway, server, settings.url)
        try:
            yield place
        finally:
            await place.close()
            web.should_exit = web.force_exit = True
            await serving
