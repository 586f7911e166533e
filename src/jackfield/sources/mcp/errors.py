"""Every way that asking an MCP server ends without its answer.

McpError
├── RpcError            the server answered with a JSON-RPC error
└── UpstreamLost        the connection broke; whether the server did anything, nobody knows
    ├── NotDelivered    it broke before the server can have read the request
    └── SessionLost     the server has forgotten our session, and refused the request for that
"""

from typing import Any

from jackfield.errors import JackfieldError

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022


class McpError(JackfieldError):
    code = "mcp_error"


class RpcError(McpError):
    """What the server said, in its words."""

    def __init__(self, message: str, *, number: int, data: Any = None) -> None:
        super().__init__(message)
        self.number = number
        self.data = data


class UpstreamLost(McpError):
    code = "source_unavailable"


class NotDelivered(UpstreamLost):
    """Nothing happened."""


class SessionLost(UpstreamLost):
    """Safe to send again in a new session."""
