"""From a command's options to a client: a running gateway, or one inside this very process.

In order: `--url` or `JACKFIELD_URL`; the gateway that the config describes, if it answers to the local key; with
`--config`, that config run in process, through the same doors; else the local gateway, which then is said to be away.
Above: the commands that ask a gateway. Below: the SDK, and `inside.py` for a gateway of our own.
"""

import importlib
import os
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec import Struct

from jackfield.errors import JackfieldError
from jackfield.identity.keys import ADMIN_KEY_FILE, made_or_kept_key
from jackfield.sdk import Client, GatewayFault, GatewayUnreachable, NoAnswer, Unauthenticated
from jackfield.sdk.address import read_key, read_url
from jackfield.settings import LocalGateway, Settings, load_local, load_settings

PROBE_WITHIN = 2.0


class Road(Struct, frozen=True, kw_only=True):
    """The way to the gateway that was meant."""

    url: str | None
    key: str | None
    inside: Settings | None = None
    """The config to run in this very process, where no gateway of it is running."""


@asynccontextmanager
async def gateway(options: Namespace) -> AsyncIterator[Client]:
    """A client for the gateway that was meant by `--url`, `--key` and, where a command has it, `--config`."""
    road = await find_road(options, may_run_inside=bool(getattr(options, "config", None)))
    if road.inside is not None and road.key is not None:
        async with _gateway_inside(road.inside, road.key) as client:
            yield client
        return
    async with Client(road.url, road.key) as client:
        yield client


async def find_road(options: Namespace, *, may_run_inside: bool) -> Road:
    """Where the gateway is; with `may_run_inside`, in this process if it is nowhere else."""
    if options.url or os.environ.get("JACKFIELD_URL"):
        return Road(url=options.url, key=options.key)
    config = getattr(options, "config", None)
    local = load_local(config)
    url = local_url(local)
    key = options.key or os.environ.get("JACKFIELD_KEY") or local_key(local)
    if may_run_inside and not await answers(url, key):
        settings = load_settings(config)
        own = options.key or local_key(local) or made_or_kept_key(settings.data / ADMIN_KEY_FILE)
        return Road(url=settings.url, key=own, inside=settings)
    return Road(url=url, key=key)


def _gateway_inside(settings: Settings, key: str) -> AbstractAsyncContextManager[Client]:
    """`inside.py` is loaded here and not above: it brings the whole server, which most commands do without."""
    inside = importlib.import_module("jackfield.cli.inside")
    road: AbstractAsyncContextManager[Client] = inside.gateway_inside(settings, key=key)
    return road


def local_url(local: LocalGateway) -> str:
    """Where the gateway of this config is: where it said it runs, else where the config puts it."""
    return read_url(local.data) or local.url


def local_key(local: LocalGateway) -> str | None:
    """The widest key to the gateway of this config: from the environment, the config itself, or its key file."""
    if given := os.environ.get("JACKFIELD_ADMIN_KEY"):
        return given
    configured = sorted(local.keys.values(), key=lambda key: ("admin" not in key.scopes, "call" not in key.scopes))
    widest = configured[0] if configured else None
    made = read_key(local.data) if local.admin_key else None
    if widest is None or (made is not None and "admin" not in widest.scopes):
        return made
    return widest.key


async def answers(url: str, key: str | None) -> bool:
    """Whether a gateway at `url` takes this key; another project's gateway on the same port does not."""
    if key is None:
        return False
    async with Client(url, key, timeout=PROBE_WITHIN, retries=0) as client:
        try:
            await client.tools.search("", limit=1)
        except (GatewayUnreachable, GatewayFault, NoAnswer, Unauthenticated):
            return False
        except JackfieldError:
            return True  # It is there, and will give its reason again when it is asked the real question.
    return True
