"""The `_meta` of a client's request: what it says to the gateway, and what is passed on. Pure.

Above: `tools_call.py`, `reading.py` and `client_requests.py`. Below: the protocol.
"""

from collections.abc import Mapping
from typing import Any

from jackfield.mcp.sessions import Caller
from jackfield.protocol.jsonrpc import INVALID_PARAMS, RequestId, RpcError, RpcRequest
from jackfield.protocol.mcp import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
)

IDEMPOTENCY_KEY = "jackfield/idempotency-key"
"""The same call under the same key is made once, as with the header `Idempotency-Key`."""
MAX_KEY = 255
_TRACE = ("traceparent", "tracestate")
_OURS = frozenset(
    {
        *(VERSION_KEY, CLIENT_KEY, CAPABILITIES_KEY, LOG_LEVEL_KEY, SUBSCRIPTION_KEY),
        *("progressToken", "io.modelcontextprotocol/related-task", IDEMPOTENCY_KEY, *_TRACE),
    }
)
"""Keys that speak to the gateway, or that it sends on in words of its own."""
_NOTHING: dict[str, Any] = {}


def passed_on(request: RpcRequest) -> dict[str, Any]:
    """What the server behind the gateway gets of a request's `_meta`."""
    meta = request.meta
    if _OURS.issuperset(meta):
        return _NOTHING
    return {key: value for key, value in meta.items() if key not in _OURS}


def progress_token(request: RpcRequest) -> RequestId | None:
    """The progress token, if the client wants progress."""
    token = request.meta.get("progressToken")
    return token if isinstance(token, (str, int)) and not isinstance(token, bool) else None


def log_level(request: RpcRequest, caller: Caller) -> str | None:
    """The lowest log level that the client asked for; None: no log messages."""
    if caller.is_modern:
        level = request.meta.get(LOG_LEVEL_KEY)
        return level if level in LOG_LEVELS else None
    return None if caller.session is None else caller.session.log_level


def idempotency_key(request: RpcRequest) -> str | None:
    """The key under which this call is made once. Raises `RpcError` for one that cannot be a key."""
    key = request.meta.get(IDEMPOTENCY_KEY)
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or any(not "!" <= one <= "~" for one in key):
        raise RpcError(
            INVALID_PARAMS,
            f"'_meta[\"{IDEMPOTENCY_KEY}\"]' must have 1 to {MAX_KEY} visible ASCII characters. A UUID is a good one.",
        )
    return key


def trace_headers(request: RpcRequest, caller: Caller) -> Mapping[bytes, bytes]:
    """The trace context of a request, as headers: from its `_meta`, else from its own headers."""
    meta = request.meta
    if not isinstance(meta.get("traceparent"), str):
        return caller.headers
    named = {key: meta.get(key) for key in _TRACE}
    return {key.encode(): value.encode() for key, value in named.items() if isinstance(value, str)}
