"""The vault: sealed rows, its key from a file or the environment, rotation, and what a wrong key does."""

import base64
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx2
import pytest

from jackfield.cli.doctor import check_vault
from jackfield.errors import ConfigError, Conflict, Unavailable
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.identity.vault import Vault
from jackfield.identity.vault_transactions import delete_sealed, get_sealed, put_sealed
from jackfield.sdk import Client
from jackfield.settings import Settings, load_settings
from jackfield.store import Store, open_store
from tests.harness.in_process import KEY, client_of
from tests.requirement import requirement


def new_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


OLD, NEW, OTHER = new_key(), new_key(), new_key()


def settings_of(folder: Path, *, key: str | None = None, store: str = "sqlite:///", config: str = "") -> Settings:
    path = folder / "jackfield.toml"
    path.write_text(config)
    environment = {"JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_STORE": store}
    return load_settings(path, environment=environment | ({} if key is None else {"JACKFIELD_VAULT_KEY": key}))


@asynccontextmanager
async def vault_on(settings: Settings, *, is_needed: bool = True) -> AsyncIterator[tuple[Vault, Store]]:
    store = open_store(settings.store_url, folder=settings.folder, data=settings.data)
    await store.open()
    try:
        vault = Vault(settings, store, is_needed=is_needed)
        await vault.open()
        yield vault, store
    finally:
        await store.close()


async def keep(vault: Vault, store: Store, name: str, secret: str) -> None:
    await store.write(partial(put_sealed, vault.row("thing", name, secret.encode())))


async def text_of(vault: Vault, name: str) -> str:
    secret = await vault.read("thing", name)
    assert secret is not None
    return secret.decode()


@requirement("ID-vault-sealed")
async def test_what_is_sealed_is_bound_to_its_place_and_not_in_the_database(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    async with vault_on(settings) as (vault, store):
        await keep(vault, store, "a", "the-secret-of-a")
        await keep(vault, store, "b", "the-secret-of-b")
        assert await text_of(vault, "a") == "the-secret-of-a"
        sealed = await store.read(partial(get_sealed, "thing", "a"))
        assert sealed is not None
        for kind, name in (("thing", "b"), ("other", "a")):
            with pytest.raises(Unavailable, match="cannot be unsealed"):
                vault.unseal(kind, name, sealed)
        with pytest.raises(Unavailable, match="cannot be unsealed"):
            vault.unseal("thing", "a", sealed[:-8] + "AAAAAAA=")
        with pytest.raises(Unavailable, match="does not have"):
            vault.unseal("thing", "a", sealed.replace(sealed.split(".")[1], "0" * 12))
        assert vault.row("thing", "a", b"x").sealed != vault.row("thing", "a", b"x").sealed
    database = b"".join(path.read_bytes() for path in settings.data.iterdir() if "jackfield.db" in path.name)
    assert b"the-secret-of" not in database
    key_file = settings.data / "vault.key"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert key_file.read_text().strip() in settings.secrets.used


async def test_a_gateway_that_seals_nothing_needs_no_key(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    async with Gateway(settings) as gateway, client_of(gateway) as client:
        assert (await client.get("/api/v1/vault")).json() == {"key": "none", "key_id": None, "entries": 0, "old": 0}
        refused = await client.post("/api/v1/vault/rotate")
        assert refused.status_code == 409
    assert not (settings.data / "vault.key").exists()


@requirement("ID-vault-wrong-key")
async def test_a_wrong_key_stops_the_start_and_loses_nothing(tmp_path: Path) -> None:
    async with vault_on(settings_of(tmp_path, key=OLD)) as (vault, store):
        await keep(vault, store, "a", "kept")
    with pytest.raises(ConfigError, match=r"sealed with a key that is not here. Nothing was changed"):
        await Gateway(settings_of(tmp_path, key=NEW)).start()
    with pytest.raises(ConfigError, match=r"its key .* is gone"):
        await Gateway(settings_of(tmp_path)).start()
    assert not (tmp_path / ".jackfield" / "vault.key").exists()
    async with vault_on(settings_of(tmp_path, key=OLD)) as (vault, _):
        assert await text_of(vault, "a") == "kept"


@pytest.mark.parametrize("wrong", ["short", "A" * 40, "!" * 44, f"{'A' * 43},short"])
def test_a_key_that_is_none_is_refused_with_a_way_to_make_one(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"not 32 bytes in base64url .* To make a key: python3"):
        Gateway(settings_of(tmp_path, key=wrong))


@requirement("ID-vault-rotate")
async def test_rotation_with_a_key_file_makes_a_new_key_and_seals_everything_anew(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    async with vault_on(settings) as (vault, store):
        before = (settings.data / "vault.key").read_text()
        for number in range(250):
            await keep(vault, store, str(number), f"secret {number}")
        assert await vault.rotate() == 251  # and the check
        assert (settings.data / "vault.key").read_text().split() != before.split()
        assert len((settings.data / "vault.key").read_text().split()) == 1
        assert await text_of(vault, "77") == "secret 77"
        assert (await vault.status()).old == 0
    async with vault_on(settings) as (vault, _):
        assert await text_of(vault, "249") == "secret 249"


async def test_a_crash_in_the_middle_of_a_rotation_leaves_both_keys_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path)
    async with vault_on(settings) as (vault, store):
        for number in range(150):
            await keep(vault, store, str(number), f"secret {number}")
        batches = iter(range(100))
        write = store.write

        def write_once(script):  # type: ignore[no-untyped-def]
            if next(batches, None) is None:
                raise OSError("the machine stopped")
            return write(script)

        monkeypatch.setattr(store, "write", write_once)
        with pytest.raises(OSError, match="the machine stopped"):
            await vault.rotate()
        monkeypatch.undo()
    assert len((settings.data / "vault.key").read_text().split()) == 2
    async with vault_on(settings) as (vault, _):
        assert (await vault.status()).old == 51
        assert [await text_of(vault, str(number)) for number in range(150)] == [f"secret {n}" for n in range(150)]
        assert await vault.rotate() == 151
        assert len((settings.data / "vault.key").read_text().split()) == 1
        assert await text_of(vault, "149") == "secret 149"


@requirement("ID-vault-rotate")
async def test_rotation_of_the_environments_key_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    config = '[sources.x]\nkind = "openapi"\nurl = "http://127.0.0.1:9/openapi.json"\nauth = "shared"\n'
    with pytest.raises(ConfigError, match="JACKFIELD_VAULT_KEY is not set"):
        await Gateway(settings_of(tmp_path, store=postgres_url, config=config)).start()
    async with vault_on(settings_of(tmp_path, store=postgres_url, key=OLD)) as (vault, store):
        await keep(vault, store, "a", "kept")
        with pytest.raises(Conflict, match="Put a new one in front of it"):
            await vault.rotate()
    async with vault_on(settings_of(tmp_path, store=postgres_url, key=f"{NEW},{OLD}")) as (vault, store):
        assert (await vault.status()).old == 2
        assert await vault.rotate() == 2
        assert await text_of(vault, "a") == "kept"
    async with vault_on(settings_of(tmp_path, store=postgres_url, key=NEW)) as (vault, _):
        assert await text_of(vault, "a") == "kept"


async def test_a_file_can_give_way_to_the_environment(tmp_path: Path) -> None:
    async with vault_on(settings_of(tmp_path)) as (vault, store):
        await keep(vault, store, "a", "kept")
    async with vault_on(settings_of(tmp_path, key=NEW)) as (vault, store):
        assert await text_of(vault, "a") == "kept"
        assert await vault.rotate() == 2
    (tmp_path / ".jackfield" / "vault.key").unlink()
    async with vault_on(settings_of(tmp_path, key=NEW)) as (vault, store):
        assert await text_of(vault, "a") == "kept"
        await store.write(partial(delete_sealed, "thing", "a"))
        assert await vault.read("thing", "a") is None


async def test_over_http_and_the_sdk_it_says_how_it_stands_and_nothing_of_what_is_in_it(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, key=OLD)
    async with vault_on(settings) as (vault, store):
        await keep(vault, store, "a", "the-secret-of-a")
    async with Gateway(settings_of(tmp_path, key=f"{NEW},{OLD}")) as gateway:
        async with client_of(gateway) as client:
            shown = await client.get("/api/v1/vault")
            assert shown.json()["entries"] == shown.json()["old"] == 2
            assert OLD[:20] not in shown.text
            unknown = await client.get("/api/v1/vault", headers={"x-api-key": "no"})
            assert unknown.status_code == 401
        transport = httpx2.ASGITransport(build_app(gateway))
        async with Client("http://localhost:8420", KEY, transport=transport) as sdk:
            assert (await sdk.vault.rotate()).resealed == 2
            assert (await sdk.vault.status()).old == 0


async def test_doctor_says_how_it_stands_and_makes_nothing(tmp_path: Path) -> None:
    async def found(settings: Settings) -> tuple[str, str]:
        store = open_store(settings.store_url, folder=settings.folder, data=settings.data)
        await store.open()
        try:
            (finding,) = await check_vault(settings, store)
        finally:
            await store.close()
        return finding.level.value, finding.message

    assert await found(settings_of(tmp_path)) == ("ok", "not needed: no source has auth")
    async with vault_on(settings_of(tmp_path, key=OLD)) as (vault, store):
        await keep(vault, store, "a", "kept")
    assert await found(settings_of(tmp_path, key=OLD)) == ("ok", "2 secrets, AES-256-GCM, key in JACKFIELD_VAULT_KEY")
    level, said = await found(settings_of(tmp_path, key=f"{NEW},{OLD}"))
    assert (level, "2 are sealed with an old key" in said) == ("warning", True)
    level, said = await found(settings_of(tmp_path, key=NEW))
    assert (level, "a key that is not here" in said) == ("fault", True)
    assert (await found(settings_of(tmp_path)))[0] == "fault"
    assert not (tmp_path / ".jackfield" / "vault.key").exists()
