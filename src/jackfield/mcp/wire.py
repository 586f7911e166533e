"""JSON-RPC 2.0 as MCP uses it: what comes in, what goes out, and the codes of errors. Pure.

Above: every module of this room. Below: msgspec. Results are bytes that pass as they are.
"""

from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.http.response import encode

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
CANCELLED = -32800
"""Ends the stream of a request that its client has called off; without it the stream would just break off."""

HTTP_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""Which status revision 2026-07-28 gives to an error; all others come with 200, as all do in the handshake era."""

INITIALIZE = "initialize"

RequestId = int | str


class RpcError(Exception):
    """An error of the protocol itself. What a tool comes to is a result, also when it failed."""

    def __init__(self, code: int, message: str, data: Any = UNSET, *, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        """The HTTP status where it is not the code's own."""


class Incoming(Struct, frozen=True, kw_only=True):
    """One message as it was sent, not yet looked at."""

    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: Any = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class RpcRequest(Struct, frozen=True, kw_only=True):
    """Wants an answer under its id."""

    id: RequestId
    method: str
    params: dict[str, Any]

    @property
    def meta(self) -> dict[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


class RpcNotification(Struct, frozen=True, kw_only=True):
    """Wants no answer."""

    method: str
    params: dict[str, Any]


class RpcResponse(Struct, frozen=True, kw_only=True):
    """The client's answer to something that we asked; `result` is None when it is an error."""

    id: RequestId
    result: Raw | None


class _Error(Struct, frozen=True, kw_only=True):
    code: int
    message: str
    data: Any = UNSET


class _ErrorResponse(Struct, frozen=True, kw_only=True):
    jsonrpc: str = "2.0"
    id: RequestId | None
    error: _Error


def message_of(incoming: Incoming) -> RpcRequest | RpcNotification | RpcResponse:
    """Which of the three kinds it is, or the `RpcError` that says why it is none."""
    if incoming.jsonrpc != "2.0":
        raise RpcError(INVALID_REQUEST, 'The message is not JSON-RPC 2.0. Send {"jsonrpc": "2.0", …}.')
    params = {} if incoming.params is UNSET or incoming.params is None else incoming.params
    if incoming.method is UNSET:
        return _response(incoming)
    if not isinstance(incoming.method, str):
        raise RpcError(INVALID_REQUEST, "'method' must be a string.")
    if not isinstance(params, dict):
        raise RpcError(INVALID_REQUEST, "'params' must be an object.")
    if incoming.id is UNSET:
        return RpcNotification(method=incoming.method, params=params)
    return RpcRequest(id=_checked_id(incoming.id), method=incoming.method, params=params)


def _response(incoming: Incoming) -> RpcResponse:
    if incoming.id is UNSET or (incoming.result is UNSET) is (incoming.error is UNSET):
        raise RpcError(INVALID_REQUEST, "The message has no 'method' and is no response either. Send one of the two.")
    return RpcResponse(id=_checked_id(incoming.id), result=None if incoming.result is UNSET else incoming.result)


def _checked_id(value: Any) -> RequestId:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise RpcError(INVALID_REQUEST, "'id' must be a string or a whole number.")


def response(request_id: RequestId, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(request_id), result)


def error_response(request_id: RequestId | None, error: RpcError) -> bytes:
    return encode(_ErrorResponse(id=request_id, error=_Error(code=error.code, message=error.message, data=error.data)))


def notification(method: str, params: Any = None) -> bytes:
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % encode(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def request(request_id: RequestId, method: str, params: Any) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (encode(request_id), encode(method), encode(params))


def text_param(params: dict[str, Any], name: str) -> str:
    """A parameter that must be a text, or the `RpcError` that says so."""
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"'params.{name}' must be a string. Add or correct it.")
    return value


def object_param(params: dict[str, Any], name: str) -> dict[str, Any]:
    """A parameter that is an object; left out it is an empty one."""
    value = params.get(name)
    if value is not None and not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"'params.{name}' must be an object. Correct it.")
    return value or {}
