"""What a principal has open ends with it: revoked, rotated, expired, or signed out everywhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
from websockets.asyncio.client import connect

from jackfield.identity import transactions
from tests.harness.in_process import KEY, make_gateway, serve_on_port
from tests.identity.signing_provider import signing_provider
from tests.identity.test_oidc import config
from tests.requirement import requirement

ADMIN = {"x-api-key": KEY}
CONFIG = '[agents.ada]\nspaces = ["lab"]\n'
STREAMS = ("/api/v1/tools/changes", "/api/v1/calls/stream", "/api/spaces/lab/stream", "/api/tools/stream")


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with make_gateway(tmp_path, CONFIG) as gateway, serve_on_port(gateway) as url:
        yield url


async def made(http: httpx2.AsyncClient, **more: object) -> str:
    body = {"name": "guest", "scopes": ["call", "worker:*"], **more}
    answer = await http.post("/api/v1/keys", json=body, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    key: str = answer.json()["key"]
    return key


async def ended(answer: httpx2.Response) -> None:
    """Comes back when the stream is over."""
    async for _ in answer.aiter_lines():
        pass


@requirement("ID-ended-streams")
@pytest.mark.parametrize("end", ["revoke", "rotate", "expire"])
async def test_the_streams_of_a_key_end_with_it(url: str, end: str) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        http = await stack.enter_async_context(httpx2.AsyncClient(base_url=url))
        key = {"x-api-key": await made(http, **({"expires_in": 2} if end == "expire" else {}))}
        opened = [await stack.enter_async_context(http.stream("GET", path, headers=key)) for path in STREAMS]
        assert [answer.status_code for answer in opened] == [200] * len(STREAMS)
        others = await stack.enter_async_context(http.stream("GET", STREAMS[0], headers=ADMIN))
        sockets = [
            await stack.enter_async_context(connect(f"{url.replace('http', 'ws')}{path}", additional_headers=key))
            for path in ("/api/v1/tools/changes", "/v1/responses")
        ]
        if end == "revoke":
            assert (await http.delete("/api/v1/keys/guest", headers=ADMIN)).status_code == 204
        elif end == "rotate":
            assert (await http.post("/api/v1/keys/guest/rotate", headers=ADMIN)).status_code == 200
        for answer in opened:
            await ended(answer)
        for socket in sockets:
            await socket.wait_closed()
            assert socket.close_code in (1001, 1008)
        lines = others.aiter_lines()
        await anext(lines)
        still_open = asyncio.ensure_future(anext(lines))
        assert not still_open.done()
        still_open.cancel()


@requirement("ID-ended-signed-out")
async def test_the_streams_of_a_person_end_when_they_are_signed_out(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        provider = await stack.enter_async_context(signing_provider())
        provider.claims["groups"] = ["admins"]
        gateway = await stack.enter_async_context(make_gateway(tmp_path, config(provider) + CONFIG))
        url = await stack.enter_async_context(serve_on_port(gateway))
        browser = await stack.enter_async_context(httpx2.AsyncClient(base_url=url))
        begun = await browser.get("/api/login/oidc?moved=yes")
        answer = await browser.get(f"/api/login/oidc/callback?{provider.authorize(begun.headers['location'])}")
        assert answer.status_code == 303, answer.text
        opened = [await stack.enter_async_context(browser.stream("GET", path)) for path in STREAMS]
        assert [answer.status_code for answer in opened] == [200] * len(STREAMS)
        out = await browser.post("/api/v1/users/user:ada/sign-out", headers=ADMIN | {"cookie": ""})
        assert out.status_code == 204
        for answer in opened:
            await ended(answer)
        assert (await browser.get("/api/login")).status_code == 401


@requirement("ID-ended-logout")
async def test_the_streams_of_a_login_end_when_it_is_closed_and_no_others(url: str) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        one, other = [await stack.enter_async_context(httpx2.AsyncClient(base_url=url)) for _ in range(2)]
        for browser in (one, other):
            assert (await browser.post("/api/login", headers=ADMIN)).status_code == 200
        streams = [await stack.enter_async_context(browser.stream("GET", STREAMS[0])) for browser in (one, other)]
        assert (await one.post("/api/logout", headers={"origin": url})).status_code == 204
        await ended(streams[0])
        lines = streams[1].aiter_lines()
        await anext(lines)
        assert (await other.get("/api/login")).status_code == 200


@requirement("ID-ended-logout")
async def test_the_streams_of_a_login_end_when_it_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "LIFETIME_MS", 1500)
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        gateway = await stack.enter_async_context(make_gateway(tmp_path, CONFIG))
        url = await stack.enter_async_context(serve_on_port(gateway))
        browser = await stack.enter_async_context(httpx2.AsyncClient(base_url=url))
        assert (await browser.post("/api/login", headers=ADMIN)).status_code == 200
        stream = await stack.enter_async_context(browser.stream("GET", STREAMS[0]))
        assert stream.status_code == 200
        await ended(stream)
        assert (await browser.get("/api/login")).status_code == 401
