"""The promise of a wire: how messages go to one MCP server and come back.

Above: `upstream.py`, which is the wire's listener. Below: HTTP, a process, or what another package brings.

To bring a transport of your own (seed 001's MCPTransport), write a class with `call` and `close`, and name a factory in
the entry-point group `jackfield.mcp_transports`. Its name is what `transport` says in the config:

    class Pigeon:
        async def call(self, method: str, params: Raw) -> Raw: ...    # the raw result; an RpcError is the server's no
        async def close(self) -> None: ...

    def make(name: str, options: dict[str, Any], surroundings: Surroundings) -> Transport:
        return Pigeon(options["loft"])

    # pyproject.toml of that package                     # jackfield.toml of who uses it
    # [project.entry-points."jackfield.mcp_transports"]    [sources.far]
    # pigeon = "my_package:make"                           kind = "mcp"
    #                                                      transport = "pigeon"
    #                                                      options = { loft = "north" }   # and url, headers

`call` is cancelled when nobody waits any more: stop, and tell the server if you can. Raise `UpstreamLost` when the
connection is gone; the gateway then makes a new transport.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from msgspec import Raw

from jackfield.sources.base import Surroundings
from jackfield.sources.mcp.errors import UpstreamLost

GROUP = "jackfield.mcp_transports"
MAX_MESSAGE = 32 * 1024 * 1024
"""Bytes of the largest message we take from a server."""


class Transport(Protocol):
    """Seed 001's MCPTransport: what another package has to write."""

    async def call(self, method: str, params: Raw) -> Raw:
        """Send one request and return its raw result. Raises `RpcError` or `UpstreamLost`."""

    async def close(self) -> None:
        """Leave no process and no connection behind."""


TransportFactory = Callable[[str, dict[str, Any], Surroundings], Transport]


class Listener(Protocol):
    """Who hears what a server says of its own accord."""

    def notified(self, method: str, params: Raw, *, during: int | None) -> None: ...

    async def asked(self, method: str, params: Raw, *, during: int | None) -> Raw:
        """Answer the server's request, or raise `RpcError`. `during` is our request it belongs to, if that is known."""

    def lost(self, error: UpstreamLost) -> None:
        """The connection is gone, and not because it was closed."""


class Wire(Protocol):
    """What our own transports do: `Transport` with numbered requests, headers, and a way back for the server."""

    legacy_only: ClassVar[bool]
    """Nothing newer than 2025-11-25 goes over it, so the newer handshake need not be tried."""

    async def open(self) -> None:
        """Connect, where there is something to connect before the first message."""

    def agreed(self, revision: str, *, is_modern: bool) -> None:
        """The handshake is over; from now on this revision holds."""

    async def call(self, number: int, method: str, params: Raw, *, headers: Mapping[str, str]) -> Raw:
        """Send one request and return its raw result. `headers` are for HTTP. Raises `RpcError` or `UpstreamLost`."""

    async def notify(self, method: str, params: Raw) -> None: ...

    async def close(self) -> None: ...


class ForeignWire:
    """Another package's transport as a wire. It carries answers only: the server cannot ask or notify."""

    legacy_only: ClassVar[bool] = False

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def open(self) -> None:
        """Nothing to do: it was made connected, or connects when it is first used."""

    def agreed(self, revision: str, *, is_modern: bool) -> None:
        """Nothing to do."""

    async def call(self, number: int, method: str, params: Raw, *, headers: Mapping[str, str]) -> Raw:  # noqa: ARG002 - it has no place for them
        return await self._transport.call(method, params)

    async def notify(self, method: str, params: Raw) -> None:
        """Not carried. The one notification that a server waits for, `initialized`, changes nothing for it."""

    async def close(self) -> None:
        await self._transport.close()
