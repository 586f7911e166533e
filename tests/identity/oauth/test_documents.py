"""Clients whose id is the address of their metadata document."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackfield.identity.oauth.documents import FAILURE_SECONDS, ClientDocuments, check_client_url, shown_name
from jackfield.identity.oauth.types import OAuthError
from jackfield.outgoing import Outgoing
from tests.clock import Clock
from tests.outgoing.names import Names
from tests.outgoing.test_client import CERTIFICATE, server_side
from tests.requirement import requirement
from tests.sources.upstream import Upstream, json_reply, redirect, reply

HOST = "weather.example"


@asynccontextmanager
async def published(*allow: str) -> AsyncIterator[tuple[Upstream, ClientDocuments, str, Clock]]:
    """A server with a document; its address counts as public where it is in `allow`."""
    trusting, clock = ssl.create_default_context(cafile=CERTIFICATE), Clock()
    names = Names({HOST: "127.0.0.1", "inside.example": "10.0.0.1"})
    async with Upstream(tls=server_side()) as server, Outgoing(allow, resolve=names, tls=trusting) as outgoing:
        url = f"{server.at(HOST)}/client.json"
        server.answers["/client.json"] = json_reply(document(url))
        yield server, ClientDocuments(outgoing, clock=clock), url, clock


def document(url: str, **changes: Any) -> dict[str, Any]:
    said = {"client_id": url, "client_name": "Weather", "redirect_uris": ["http://localhost:3000/callback"]}
    return said | changes


async def refusal(documents: ClientDocuments, url: str) -> str:
    with pytest.raises(OAuthError) as caught:
        await documents.find(url)
    return caught.value.message


@requirement("ID-oauth-documents")
async def test_a_document_is_read_once_and_says_who_the_client_is() -> None:
    async with published(HOST) as (server, documents, url, clock):
        client = await documents.find(url)
        assert (client.id, client.name, client.is_verified) == (url, "Weather", True)
        assert await documents.find(url) == client
        assert len(server.received) == 1
        server.answers["/client.json"] = reply(200, b"{}", cache_control="max-age=1")
        clock.now += 4000
        assert "not JSON of the right form" in await refusal(documents, url)


async def test_a_document_at_a_private_address_is_not_read() -> None:
    async with published() as (server, documents, url, _):
        assert "was refused" in await refusal(documents, url)
        assert "was refused" in await refusal(documents, "https://inside.example/client.json")
        for address in ("127.0.0.1", "169.254.169.254", "[::1]", "10.0.0.1", "2130706433"):
            assert "was refused" in await refusal(documents, f"https://{address}/client.json")
        assert server.received == []


@pytest.mark.parametrize("target", ["https://127.0.0.1/x", "https://weather.example/other.json", "http://10.0.0.1/"])
async def test_a_document_that_redirects_is_not_followed(target: str) -> None:
    async with published(HOST) as (server, documents, url, _):
        server.answers["/client.json"] = redirect(target)
        assert "could not be read" in await refusal(documents, url)
        assert len(server.received) == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"client_id": "https://claude.ai/client.json"}, "another address"),
        ({"redirect_uris": []}, "1 to 20 redirect URIs"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "cannot be used"),
        ({"token_endpoint_auth_method": "client_secret_post"}, "With a document it is"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "needs a 'jwks_uri'"),
        ({"client_name": 7}, "not JSON of the right form"),
        ({"padding": "x" * 20_000}, "could not be read"),
    ],
)
async def test_documents_that_are_refused(changes: dict[str, Any], says: str) -> None:
    async with published(HOST) as (server, documents, url, _):
        server.answers["/client.json"] = json_reply(document(url, **changes))
        assert says in await refusal(documents, url)


async def test_a_failure_is_remembered_for_a_moment() -> None:
    async with published(HOST) as (server, documents, url, clock):
        server.answers["/client.json"] = reply(500)
        for _ in range(5):
            assert "status 500" in await refusal(documents, url)
        assert len(server.received) == 1
        server.answers["/client.json"] = json_reply(document(url))
        clock.now += FAILURE_SECONDS + 1
        assert (await documents.find(url)).name == "Weather"


@pytest.mark.parametrize(
    "url",
    [
        "http://weather.example/client.json",
        "https://weather.example",
        "https://weather.example/",
        "https://user@weather.example/client.json",
        "https://weather.example/client.json#x",
        "https://weather.example/a/../client.json",
        "https://weather.example/" + "x" * 500,
        "https:///client.json",
        "https://weather.example:x/client.json",
    ],
)
def test_addresses_that_no_document_has(url: str) -> None:
    with pytest.raises(OAuthError):
        check_client_url(url)


@requirement("ID-attack-hidden-text")
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Claude\u202e\u200b", "Claude"),
        ("\u3164\u2800 \uffa0", ""),
        ("Z" + "\u0361" * 8 + " admin", "Z admin"),
        ("Tie\u0302\u0301ng Vie\u0323\u0302t", "Tie\u0302\u0301ng Vie\u0323\u0302t"),
        ("a\n b" + "x" * 400, "a b" + "x" * 77),
    ],
)
def test_the_name_of_a_client_is_short_and_can_be_seen(name: str, shown: str) -> None:
    assert shown_name(name) == shown
