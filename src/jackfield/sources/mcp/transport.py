"""The transport of an MCP client: how messages go to one server and come back.

Ours are `http.py` and `stdio.py`. To bring one of your own (seed 001's MCPTransport), write a class with `call` and
`close`, and name a factory in the entry-point group `jackfield.mcp_transports`. The name of the entry point is what
`transport` says in the config:

    class Pigeon:
        async def call(self, method: str, params: Raw) -> Raw: ...    # the raw result; raises RpcError for an error
        async def close(self) -> None: ...

    def make(name: str, options: dict[str, Any], surroundings: SourceContext) -> Transport:
        return Pigeon(options["loft"])

    # pyproject.toml of that package                     # jackfield.toml of who uses it
    # [project.entry-points."jackfield.mcp_transports"]    [sources.far]
    # pigeon = "my_package:make"                           kind = "mcp"
    #                                                      transport = "pigeon"
    #                                                      options = { loft = "north" }   # and url, headers

`call` is cancelled when nobody waits any more: stop, and tell the server if you can. Raise `UpstreamLost` when the
connection is gone; the gateway then makes a new transport. `RpcError` is in `jackfield.protocol.jsonrpc`.

McpClientError          the server's answer cannot be used
├── LoginRequired       the server refused the request, because it wants another login
└── UpstreamLost        the connection broke; the server may or may not have done something
    ├── NotDelivered    it broke before the server can have read the request
    └── SessionLost     the server has forgotten our session, and refused the request for that
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

from msgspec import Raw

from jackfield.errors import JackfieldError, LoginNeeded
from jackfield.sources.base import SourceContext

GROUP = "jackfield.mcp_transports"
MAX_MESSAGE = 32 * 1024 * 1024
"""Bytes of the largest message we take from a server."""


class McpClientError(JackfieldError):
    """The MCP server failed, or answered with something that is not MCP."""

    code = "mcp_error"


class LoginRequired(McpClientError):
    """Nothing happened. `needed` is for whoever made the call; what runs in the background goes without."""

    code = "login_needed"

    def __init__(self, needed: LoginNeeded) -> None:
        super().__init__(needed.message)
        self.needed = needed


class UpstreamLost(McpClientError):
    """The connection to the MCP server broke."""

    code = "source_unavailable"


class NotDelivered(UpstreamLost):
    """Nothing happened."""


class SessionLost(UpstreamLost):
    """Safe to send again in a new session."""


class Transport(Protocol):
    """Seed 001's MCPTransport: what another package has to write."""

    async def call(self, method: str, params: Raw) -> Raw:
        """Send one request and return its raw result. Raises `RpcError` or `UpstreamLost`."""

    async def close(self) -> None:
        """Leave no process and no connection behind."""


TransportFactory = Callable[[str, dict[str, Any], SourceContext], Transport]


class TransportListener(Protocol):
    """Gets what a server sends of its own accord."""

    def notified(self, method: str, params: Raw, *, during: int | None) -> None:
        """A notification. `during` is the number of our request that it belongs to, if that is known."""

    async def asked(self, method: str, params: Raw, *, during: int | None) -> Raw:
        """The result of a server's request. Raises `RpcError` to refuse it."""

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
    """Another package's transport. The server cannot ask or notify over it."""

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
        """Not sent. The one notification that a server waits for, `initialized`, changes nothing for it."""

    async def close(self) -> None:
        await self._transport.close()
