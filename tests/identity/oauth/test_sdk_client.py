"""The Python SDK's own OAuth client logs in to `/mcp`, over a real port."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from jackfield.identity.oauth.front import OAuthFront
from jackfield.outgoing import Outgoing
from tests.harness.in_process import make_gateway, serve_on_port
from tests.identity.oauth.programs import ADA, CONFIG, Page, Person, answer_in, oauth_gateway
from tests.outgoing.names import Names
from tests.outgoing.test_client import CERTIFICATE, server_side
from tests.requirement import requirement
from tests.sources.upstream import Upstream, json_reply
from tests.stories.mcp_clients import ERAS

REDIRECT = "http://localhost:3030/callback"


class Memory(TokenStorage):
    """Where the client keeps what it gets."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Visit:
    """A person whose browser the client opens: signs in, allows, and is sent back."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.page: Page | None = None
        self._answer: dict[str, str] = {}

    async def go(self, url: str) -> None:
        async with httpx2.AsyncClient(base_url=self.base, follow_redirects=False) as http:
            person = Person(http)
            await person.sign_in(ADA)
            self.page = await person.open(url)
            content = [*self.page.fields, ("decision", "allow")]
            response = await person.send(content, origin=self.base)
            assert response.status_code == 303, response.text
            self._answer = answer_in(response.headers["location"])

    async def come_back(self) -> AuthorizationCodeResult:
        answer = self._answer
        return AuthorizationCodeResult(code=answer["code"], state=answer["state"], iss=answer["iss"])


@asynccontextmanager
async def logged_in(
    base: str, visit: Visit, memory: Memory, *, mode: str, document: str | None = None
) -> AsyncIterator[Client]:
    provider = OAuthClientProvider(
        f"{base}/mcp",
        OAuthClientMetadata.model_validate({"redirect_uris": [REDIRECT], "client_name": "The SDK"}),
        memory,
        redirect_handler=visit.go,
        callback_handler=visit.come_back,
        client_metadata_url=document,
    )
    http = httpx2.AsyncClient(auth=provider, timeout=30)
    async with http, Client(streamable_http_client(f"{base}/mcp", http_client=http), mode=mode) as client:
        yield client


@requirement("ID-oauth-sdk")
@pytest.mark.parametrize("mode", ERAS)
async def test_the_sdks_client_registers_logs_in_and_calls(tmp_path: Path, mode: str) -> None:
    async with oauth_gateway(tmp_path) as front, serve_on_port(front.gateway) as base:
        visit, memory = Visit(base), Memory()
        async with logged_in(base, visit, memory, mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["hello"]
            result = await client.call_tool("hello", {})
            assert not result.is_error
        assert memory.tokens is not None
        assert memory.tokens.scope == "call"
        assert memory.tokens.refresh_token is not None


async def test_the_sdks_client_logs_in_with_a_metadata_document(tmp_path: Path) -> None:
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    async with Upstream(tls=server_side()) as server:
        document = f"{server.at('weather.example')}/client.json"
        said = {"client_id": document, "client_name": "Weather", "redirect_uris": [REDIRECT]}
        server.answers["/client.json"] = json_reply(said)
        names = Names({"weather.example": "127.0.0.1"})
        gateway = make_gateway(tmp_path, CONFIG)
        async with Outgoing(("weather.example",), resolve=names, tls=trusting) as outgoing, gateway:
            gateway.oauth = OAuthFront(
                gateway.settings,
                store=gateway.store,
                principals=gateway.principals,
                groups=gateway.groups,
                outgoing=outgoing,
            )
            async with serve_on_port(gateway) as base:
                visit, memory = Visit(base), Memory()
                async with logged_in(base, visit, memory, mode="2026-07-28", document=document) as client:
                    await client.list_tools()
                assert visit.page is not None
                assert f"Published by {urlsplit(document).netloc}" in visit.page.text
                assert memory.client is not None
                assert memory.client.client_id == document
