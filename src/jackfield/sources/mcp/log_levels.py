"""The log level of one server of the handshake era: as low as anybody wants it.

A server has one level for all that share the connection; what each client gets is filtered where it is sent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from jackfield.outgoing import OutgoingError
from jackfield.protocol.jsonrpc import RpcError
from jackfield.protocol.mcp import LOG_LEVELS
from jackfield.sources.logs import DEFAULT_LEVEL, SourceLogs, lower_level
from jackfield.sources.mcp.transport import McpClientError

log = logging.getLogger("jackfield.mcp")

SET_SECONDS = 5.0


class LogLevels:
    """Sets the level of one connection's server. `send` is `logging/setLevel`."""

    def __init__(self, send: Callable[[str], Awaitable[None]], logs: SourceLogs) -> None:
        self._send = send
        self._logs = logs
        self._level: str | None = None
        self._unfollow: Callable[[], None] | None = None
        self._setting: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """The server is connected, and logs."""
        self._unfollow = self._logs.follow_level(self._follow)
        if self._logs.level is not None:
            self._follow()

    def end(self) -> None:
        if self._unfollow is not None:
            self._unfollow()
        if self._setting is not None:
            self._setting.cancel()

    async def lower(self, level: str) -> None:
        """A call is about to be made whose client wants messages from this level on."""
        level = lower_level(DEFAULT_LEVEL, level)
        if self._unfollow is None or (self._level is not None and _is_as_low(self._level, level)):
            return
        await self._set(level)

    def _follow(self) -> None:
        if self._setting is None or self._setting.done():
            self._setting = asyncio.create_task(self._follow_logs(), name="mcp log level")

    async def _follow_logs(self) -> None:
        """Until the server has the level that is wanted now."""
        while (level := lower_level(DEFAULT_LEVEL, self._logs.level)) != self._level:
            await self._set(level)

    async def _set(self, level: str) -> None:
        """A server that refuses is not asked for the same again, and works as it did."""
        self._level = level
        try:
            async with asyncio.timeout(SET_SECONDS):
                await self._send(level)
        except (McpClientError, RpcError, OutgoingError, TimeoutError) as fault:
            log.debug("a server's log level was not set: %s", fault)


def _is_as_low(level: str, wanted: str) -> bool:
    return LOG_LEVELS.index(level) <= LOG_LEVELS.index(wanted)
