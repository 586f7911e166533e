"""`[server] cors_origins`: pages of other origins at the API, with a key and never with the cookie."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from jackfield.errors import ConfigError
from jackfield.settings import load_settings
from tests.harness.in_process import KEY, in_process_gateway
from tests.requirement import requirement

APP = "https://app.example.org"
CONFIG = f'[server]\ncors_origins = ["{APP}", "http://localhost:5173"]\n'
ALLOWED = "access-control-allow-origin"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        yield client


@requirement("OPS-CORS")
@pytest.mark.parametrize("path", ["/api/v1/tools", "/v1/models"])
async def test_a_page_of_a_listed_origin_reads_the_response(client: httpx2.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"origin": APP})
    assert answer.status_code == 200
    assert answer.headers[ALLOWED] == APP
    assert "Origin" in answer.headers["vary"]
    assert answer.headers["access-control-expose-headers"] == "*"
    assert "access-control-allow-credentials" not in answer.headers


@requirement("OPS-CORS")
async def test_a_page_is_told_what_was_wrong_too(client: httpx2.AsyncClient) -> None:
    for path, key, status in (
        ("/api/v1/tools", "wrong", 401),
        ("/api/v1/nothing", KEY, 404),
        ("/v1/nothing", KEY, 404),
    ):
        answer = await client.get(path, headers={"origin": APP, "x-api-key": key})
        assert (answer.status_code, answer.headers[ALLOWED]) == (status, APP)


@requirement("OPS-CORS")
@pytest.mark.parametrize("path", ["/mcp", "/v1/responses", "/api/v1/tools/add/execute"])
async def test_a_browser_may_ask_beforehand(client: httpx2.AsyncClient, path: str) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,mcp-session-id"}
    answer = await client.options(path, headers={"origin": APP, "x-api-key": "", **asked})
    assert answer.status_code == 204
    assert answer.headers[ALLOWED] == APP
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "*, Authorization"
    assert answer.headers["access-control-max-age"] == "600"
    assert answer.headers["vary"] == "Origin"


@requirement("OPS-CORS")
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://app.example.org", f"{APP}:8443", f"{APP}.evil.example", "null"]
)
async def test_other_origins_are_refused(client: httpx2.AsyncClient, origin: str) -> None:
    for method, path in (("GET", "/api/v1/tools"), ("OPTIONS", "/mcp"), ("POST", "/mcp")):
        answer = await client.request(method, path, headers={"origin": origin})
        assert answer.status_code == 403
        assert "[server] cors_origins" in answer.json()["error"]["message"]
        assert ALLOWED not in answer.headers
        assert answer.headers["vary"] == "Origin"


@requirement("OPS-CORS")
async def test_the_login_cookie_of_the_console_does_not_count_for_other_pages(client: httpx2.AsyncClient) -> None:
    own = {"origin": "http://localhost:8420"}
    signed_in = await client.post("/api/login", headers=own)
    assert signed_in.is_success
    del client.headers["x-api-key"]
    assert (await client.get("/api/v1/tools", headers=own)).status_code == 200
    answer = await client.get("/api/v1/tools", headers={"origin": APP})
    assert (answer.status_code, answer.headers[ALLOWED]) == (401, APP)
    assert (await client.post("/api/v1/keys", json={"name": "x"}, headers={"origin": APP})).status_code == 401


@requirement("OPS-CORS")
async def test_signing_in_and_the_gateways_own_pages_are_not_for_others(client: httpx2.AsyncClient) -> None:
    for method, path in (
        ("POST", "/api/login"),
        ("POST", "/api/logout"),
        ("GET", "/"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("GET", "/sign-in"),
    ):
        answer = await client.request(method, path, headers={"origin": APP})
        assert (answer.status_code, ALLOWED in answer.headers) == (403, False), path


async def test_without_cors_origins_nothing_is_different(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (_, client):
        assert "Origin" not in (await client.get("/api/v1/tools")).headers["vary"]
        assert (await client.get("/api/v1/tools", headers={"origin": APP})).status_code == 403


async def test_a_star_is_every_origin(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, '[server]\ncors_origins = ["*"]\n') as (_, client):
        for origin in (APP, "null"):
            assert (await client.get("/api/v1/tools", headers={"origin": origin})).headers[ALLOWED] == origin


@pytest.mark.parametrize(
    "origin", ["app.example.org", "https://app.example.org/path", "https://", "https://a:x", "null"]
)
def test_what_is_no_origin_is_refused_at_the_start(tmp_path: Path, origin: str) -> None:
    config = tmp_path / "jackfield.toml"
    config.write_text(f'[server]\ncors_origins = ["{origin}"]\n')
    with pytest.raises(ConfigError, match="which is no origin"):
        load_settings(config, environment={})
