"""Which gateway a command talks to.

In order: `--url` or `JACKFIELD_URL`; the gateway of the config, if it is running and accepts the local key; with
`--config`, a gateway run in this process; else the local gateway's address.
"""

import importlib
import os
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import httpx2
from msgspec import Struct

from jackfield.errors import ConfigError, JackfieldError
from jackfield.identity.keys import ADMIN_KEY_FILE, made_or_kept_key
from jackfield.sdk import Client, GatewayFault, GatewayUnreachable, NoAnswer, Unauthenticated
from jackfield.sdk.address import read_key, read_url
from jackfield.settings import LocalGateway, Settings, load_local, load_settings

PROBE_TIMEOUT = 2.0


class Target(Struct, frozen=True, kw_only=True):
    """A gateway's address."""

    url: str | None
    key: str | None
    in_process: Settings | None = None
    """The config to run in this process, if no gateway of it is running."""


@asynccontextmanager
async def connect(options: Namespace) -> AsyncIterator[Client]:
    """A client of the gateway that `--url`, `--key` and `--config` select."""
    target = await find_target(options, in_process=bool(getattr(options, "config", None)))
    if target.in_process is None:
        async with Client(target.url, target.key) as client:
            yield client
        return
    async with (
        run_in_process(target.in_process) as transport,
        Client(target.url, target.key, transport=transport) as client,
    ):
        yield client


async def find_target(options: Namespace, *, in_process: bool) -> Target:
    """The gateway's address. With `in_process`, its config if it is not running."""
    if options.url or os.environ.get("JACKFIELD_URL"):
        return Target(url=options.url, key=options.key)
    config = getattr(options, "config", None)
    local = load_local(config)
    if local.fault is not None and (in_process or not is_found_without_config(local, key=options.key)):
        raise ConfigError(local.fault)
    url = local_url(local)
    key = options.key or os.environ.get("JACKFIELD_KEY") or local_key(local)
    if in_process and not await accepts(url, key) and not await _is_ours(url, local, key=key):
        settings = load_settings(config)
        own_key = options.key or local_key(local) or made_or_kept_key(settings.data / ADMIN_KEY_FILE)
        return Target(url=settings.url, key=own_key, in_process=settings)
    return Target(url=url, key=key)


async def _is_ours(url: str, local: LocalGateway, *, key: str | None) -> bool:
    """Whether this config's gateway runs there and only the key that was given is wrong."""
    own_key = local_key(local)
    return own_key != key and await accepts(url, own_key)


def run_in_process(settings: Settings) -> AbstractAsyncContextManager[httpx2.AsyncBaseTransport]:
    """A gateway that runs as long as the block. Imported late: most commands do without the server."""
    module = importlib.import_module("jackfield.cli.in_process")
    transport: AbstractAsyncContextManager[httpx2.AsyncBaseTransport] = module.gateway_transport(settings)
    return transport


def local_url(local: LocalGateway) -> str:
    """The URL that the running gateway wrote to its data folder, else the one in the config."""
    return read_url(local.data) or local.url


def local_key(local: LocalGateway) -> str | None:
    """The key with the most scopes for the config's gateway: from the environment, the config or the key file."""
    if key := os.environ.get("JACKFIELD_ADMIN_KEY"):
        return key
    configured = sorted(local.keys.values(), key=lambda key: ("admin" not in key.scopes, "call" not in key.scopes))
    widest = configured[0] if configured else None
    generated = read_key(local.data) if local.admin_key else None
    if widest is None or (generated is not None and "admin" not in widest.scopes):
        return generated
    return widest.key


def is_found_without_config(local: LocalGateway, *, key: str | None = None) -> bool:
    """Whether a gateway that runs can be asked although its config cannot be read."""
    return read_url(local.data) is not None and (key or local_key(local)) is not None


async def accepts(url: str, key: str | None) -> bool:
    """Whether a gateway runs at `url` and accepts this key. Another project's gateway on the same port does not."""
    if key is None:
        return False
    async with Client(url, key, timeout=PROBE_TIMEOUT, retries=0) as client:
        try:
            await client.tools.search("", limit=1)
        except (GatewayUnreachable, GatewayFault, NoAnswer, Unauthenticated):
            return False
        except JackfieldError:
            return True  # The command's own request will fail the same way and report it.
    return True
