"""Every way that asking an MCP server ends without its answer.

McpError
├── RpcError            the server answered with a JSON-RPC error
└── UpstreamLost        the connection broke; whether the server did anything, nobody knows
    ├── NotDelivered    it broke before the server can have read the request
    └── SessionLost     the server has forgotten our session, and refused the request for that
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from msgspec import Raw

from jackfield.errors import JackfieldError
from jackfield.sources.base import Surroundings

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022


class McpClientError(JackfieldError):
    code = "mcp_error"


class RpcError(McpClientError):
    """What the server said, in its words."""

    def __init__(self, message: str, *, number: int, data: Any = None) -> None:
        super().__init__(message)
        self.number = number
        self.data = data


class UpstreamLost(McpClientError):
    code = "source_unavailable"


class NotDelivered(UpstreamLost):
    """Nothing happened."""


class SessionLost(UpstreamLost):
    """Safe to send again in a new session."""


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


class TransportListener(Protocol):
    """Who hears what a server says of its own accord."""

    def notified(self, method: str, params: Raw, *, during: int | None) -> None: ...

    async def asked(self, method: str, params: Raw, *, during: int | None) -> Raw:
        """Answer the server's request, or raise `RpcError`. `during` is our request it belongs to, if that is known."""

    def lost(self, error: UpstreamLost) -> None:
        """The connection is gone, and not because it was closed."""


class ClientTransport(Protocol):
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


class PluginTransport:
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
