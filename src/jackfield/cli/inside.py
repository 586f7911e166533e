"""A gateway inside the command's own process, reached through the same doors as any other.

Above: `reach.py` and `checks.py`. Below: the gateway, and the ASGI app that a server would run.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jackfield.cli.asgi import StreamingTransport
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.logs import set_up_logging
from jackfield.gateway.server import build_app
from jackfield.http.streams import Streams
from jackfield.sdk import Client
from jackfield.settings import Settings

SOURCES_WITHIN = 10.0
"""Seconds that a command waits for its sources; one that is slower counts as not there."""


@asynccontextmanager
async def gateway_inside(settings: Settings, *, key: str) -> AsyncIterator[Client]:
    """A client of a gateway that lives as long as the block."""
    async with transport_inside(settings) as transport, Client(settings.url, key, transport=transport) as client:
        yield client


@asynccontextmanager
async def transport_inside(settings: Settings) -> AsyncIterator[StreamingTransport]:
    """The way to a gateway that lives as long as the block."""
    set_up_logging(settings.log_format, secrets=lambda: settings.secrets.used, level=logging.ERROR)
    streams = Streams()
    async with Gateway(settings) as gateway:
        await gateway.panel.settled(within=SOURCES_WITHIN)
        try:
            yield StreamingTransport(build_app(gateway, streams=streams))
        finally:
            streams.close()
