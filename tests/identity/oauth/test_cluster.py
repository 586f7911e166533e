"""Tokens at two gateways of one database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.settings import Settings, load_settings
from tests.harness.in_process import KEY
from tests.identity.oauth.programs import CONFIG, OAuthGateway
from tests.requirement import requirement
from tests.waiting import Stopwatch, eventually_async


def settings_in(folder: Path, store: str) -> Settings:
    folder.mkdir()
    path = folder / "jackfield.toml"
    path.write_text(CONFIG)
    environment = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store, "JACKFIELD_VAULT_KEY": "A" * 43}
    return load_settings(path, environment=environment)


@asynccontextmanager
async def gateway_on(folder: Path, store: str) -> AsyncIterator[OAuthGateway]:
    async with Gateway(settings_in(folder, store)) as gateway:
        yield OAuthGateway(gateway, httpx2.ASGITransport(build_app(gateway), raise_app_exceptions=False))


async def _is(front: OAuthGateway, token: str, status: int) -> bool:
    return (await front.mcp(token)).status_code == status


@requirement("ID-oauth-gateways")
async def test_a_token_is_good_and_ends_at_every_gateway_within_a_second(tmp_path: Path, postgres_url: str) -> None:
    async with gateway_on(tmp_path / "a", postgres_url) as one, gateway_on(tmp_path / "b", postgres_url) as other:
        person, program = await one.person(), await one.program()
        tokens = await program.log_in(person)
        token = tokens["access_token"]
        assert await _is(other, token, 200)
        assert await _is(one, token, 200)
        [grant] = (await person.http.get("/api/v1/grants")).json()["grants"]
        ended = await other.http.delete(f"/api/v1/grants/{grant['id']}", headers={"x-api-key": KEY})
        assert ended.status_code == 204
        watch = Stopwatch()
        await eventually_async(lambda: _is(one, token, 401))
        assert watch.seconds() < 1
        assert await _is(other, token, 401)


async def test_a_refresh_token_that_is_used_at_both_ends_the_grant(tmp_path: Path, postgres_url: str) -> None:
    async with gateway_on(tmp_path / "a", postgres_url) as one, gateway_on(tmp_path / "b", postgres_url) as other:
        program = await one.program()
        tokens = await program.log_in(await one.person())
        renewed = await program.refresh(tokens["refresh_token"])
        assert renewed.status_code == 200
        program.http = other.http
        assert (await program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
        await eventually_async(lambda: _is(one, renewed.json()["access_token"], 401))
