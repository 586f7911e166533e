"""Event streams: read to their end, or followed for ever across breaks.

Above: `tools.py` and `calls.py`. Below: `connection.py` and `sse.py`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator

import httpx2

from jackfield.errors import Unavailable
from jackfield.protocol.backoff import backoff
from jackfield.protocol.sse import EventParser, ServerEvent
from jackfield.sdk.connection import Connection, Message
from jackfield.sdk.failures import GatewayFault, GatewayUnreachable

LONGEST_PAUSE = 30.0
_log = logging.getLogger("jackfield.sdk")


async def read(response: httpx2.Response, parser: EventParser) -> AsyncGenerator[ServerEvent, None]:
    """The events of one open stream until it ends."""
    async for chunk in response.aiter_bytes():
        for event in parser.feed(chunk):
            yield event


async def follow(connection: Connection, message: Message) -> AsyncGenerator[ServerEvent, None]:
    """An endless stream: after a break it is opened again, from the last id on.

    The first opening must succeed, so that a wrong url or key is said at once. Later a gateway that is away is
    waited for; one that refuses ends the stream with its error.
    """
    parser = EventParser()
    opened = False
    attempt = 0
    while True:
        try:
            async with connection.stream(message, last_id=parser.last_id) as response:
                opened = True
                async for event in read(response, parser):
                    attempt = 0
                    yield event
            why = "The gateway ended it."
        except (GatewayUnreachable, GatewayFault, Unavailable) as fault:
            if not opened:
                raise
            why = fault.message
        pause = max((parser.retry_ms or 0) / 1000, backoff(attempt))
        attempt += 1
        parser.restart()
        _log.warning("The stream %s broke. %s Trying again.", message.path, why)
        await asyncio.sleep(min(pause, LONGEST_PAUSE))
