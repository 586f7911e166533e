"""One MCP server: a connection that all calls share, made anew when it was lost.

Above: `source.py`. Below: `connection.py`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from jackfield.sources.mcp.connection import Connection, Talk
from jackfield.sources.mcp.errors import (
    INVALID_REQUEST,
    UNSUPPORTED_VERSION,
    RpcError,
    SessionLost,
    UpstreamLost,
)
from jackfield.sources.mcp.routing import HeaderMap
from jackfield.sources.mcp.sampling import Sample
from jackfield.sources.mcp.wires import Listener, Wire

SHORT_LIFE, BREATH = 1.0, 0.4
"""After a connection that held no longer than this, the next one waits a little: the server may be one that crashes."""


class Upstream:
    """One server. `make_wire` is called for each new connection; `changed` when the tools should be read anew."""

    def __init__(
        self,
        name: str,
        make_wire: Callable[[Listener], Wire],
        *,
        connect_seconds: float,
        changed: Callable[[], None],
        sample: Sample | None = None,
    ) -> None:
        self.name = name
        self._sample = sample
        self._make_wire = make_wire
        self._connect_seconds = connect_seconds
        self._changed = changed
        self._connecting = asyncio.Lock()
        self._connection: Connection | None = None
        self._buried: set[asyncio.Task[None]] = set()
        """The ends of lost connections, until they have come."""
        self._not_before = 0.0
        self._why = ""

    async def connect(self) -> "Connection":
        """The connection, made if there is none. Raises `McpError`; then nothing is left behind."""
        connection = self._connection
        if connection is None:
            async with self._connecting:
                connection = self._connection or await self._opened()
        return connection

    async def _opened(self) -> "Connection":
        if time.monotonic() < self._not_before:
            raise UpstreamLost(self._why)
        connection = Connection(self.name, self._make_wire, lost=self._lost, changed=self._changed, sample=self._sample)
        try:
            async with asyncio.timeout(self._connect_seconds):
                await connection.open(probe_seconds=self._connect_seconds / 3)
        except TimeoutError:
            await connection.close()
            raise UpstreamLost(f"The server did not answer within {self._connect_seconds:g} s.") from None
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        return connection

    async def list_tools(self) -> list[Raw]:
        """The raw definitions of all tools, page by page. A lost connection is made anew first."""
        try:
            async with asyncio.timeout(self._connect_seconds):
                try:
                    return await (await self.connect()).list_tools()
                except SessionLost:
                    self._drop(self._connection)
                    return await (await self.connect()).list_tools()
        except TimeoutError:
            raise UpstreamLost(f"The server did not list its tools within {self._connect_seconds:g} s.") from None

    async def call(self, tool: str, arguments: dict[str, Any], *, headers: HeaderMap, talk: Talk) -> Raw:
        """The raw answer to one `tools/call`. Raises `McpError`."""
        connection = await self.connect()
        try:
            return await connection.call(tool, arguments, headers=headers, talk=talk)
        except SessionLost:
            self._drop(connection)
            self._changed()
            raise
        except UpstreamLost:
            self._changed()  # the next reading of the tools shows whether the server is still there
            raise
        except RpcError as error:
            if error.number in (INVALID_REQUEST, UNSUPPORTED_VERSION):
                self._changed()  # or still speaks the revision that we agreed on
            raise

    async def close(self) -> None:
        self._drop(self._connection)
        if self._buried:
            await asyncio.wait(self._buried)

    def _drop(self, connection: "Connection | None") -> None:
        """Have done with a connection; the next use makes a new one. Nobody waits for its end but `close`."""
        if connection is None:
            return
        if self._connection is connection:
            self._connection = None
        ending = connection.bury()
        self._buried.add(ending)
        ending.add_done_callback(self._buried.discard)

    def _lost(self, connection: "Connection", error: UpstreamLost) -> None:
        if self._connection is connection:
            if connection.age < SHORT_LIFE:
                self._not_before, self._why = time.monotonic() + BREATH, error.message
            self._drop(connection)
            self._changed()
