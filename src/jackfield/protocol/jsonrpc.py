"""JSON-RPC 2.0: messages in and out, and the codes of errors. Pure.

Used by the MCP server, the MCP client and the sockets of sessions. `params` and results that are passed on stay raw.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.errors import JackfieldError
from jackfield.protocol.json_bodies import UNREADABLE

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000
"""The first of those that the specification leaves to implementations."""

RequestId = int | str
encode = msgspec.json.Encoder().encode
NO_PARAMS = Raw(b"{}")
_EXCERPT = 80


class RpcError(JackfieldError):
    """An error response: received from the other side, or to be sent to it."""

    code = "mcp_error"

    def __init__(self, number: int, message: str, data: Any = UNSET, *, status: int | None = None) -> None:
        super().__init__(message)
        self.number = number
        self.data = data
        self.status = status
        """The HTTP status it is sent with, where it is not the number's own."""


class NotAMessage(JackfieldError):
    """Bytes that are not JSON-RPC."""

    code = "bad_response"


class UncheckedMessage(Struct, frozen=True, kw_only=True):
    """A message as a client sent it; `message_of` checks it."""

    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: Any = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class RpcRequest(Struct, frozen=True, kw_only=True):
    """Wants a response under its id."""

    id: RequestId
    method: str
    params: dict[str, Any]

    @property
    def meta(self) -> dict[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


class RpcNotification(Struct, frozen=True, kw_only=True):
    """Wants no response."""

    method: str
    params: dict[str, Any]


class ErrorObject(Struct, frozen=True):
    code: int = 0
    message: str = ""
    data: Any = UNSET


class RpcResponse(Struct, frozen=True, kw_only=True):
    """The response to a request of ours; `result` is None when it is an error."""

    id: RequestId
    result: Raw | None
    error: Raw | None = None

    def unwrap(self) -> Raw:
        """The result. Raises the `RpcError` that it has instead."""
        if self.result is not None:
            return self.result
        try:
            error = ErrorObject() if self.error is None else msgspec.json.decode(self.error, type=ErrorObject)
        except UNREADABLE:
            error = ErrorObject()
        raise RpcError(error.code or SERVER_ERROR, error.message or "no message", error.data)


class _ErrorResponse(Struct, frozen=True, kw_only=True):
    jsonrpc: str = "2.0"
    id: RequestId | UnsetType | None
    error: ErrorObject


class RpcMessage(Struct):
    """Anything a server may send: a response (`result` or `error`), a request (`id` and `method`), a notification."""

    id: int | str | None = None
    method: str | None = None
    params: Raw = NO_PARAMS
    result: Raw | UnsetType = UNSET
    error: ErrorObject | UnsetType = UNSET

    @property
    def is_response(self) -> bool:
        return self.method is None and (self.result is not UNSET or self.error is not UNSET)

    def unwrap(self) -> Raw:
        """The result of a response. Raises the `RpcError` that it has instead."""
        if self.result is not UNSET and self.error is UNSET:
            return self.result
        error = ErrorObject(INVALID_REQUEST, "neither a result nor an error") if self.error is UNSET else self.error
        raise RpcError(error.code, error.message or "no message", error.data)


_decode_one = msgspec.json.Decoder(RpcMessage).decode
_decode_many = msgspec.json.Decoder(list[RpcMessage]).decode


def parse(data: bytes | str) -> list[RpcMessage]:
    """The messages of a server: one, or with MCP's revision 2025-03-26 several. Raises `NotAMessage`."""
    try:
        return _decode_many(data) if data[:1] in (b"[", "[") else [_decode_one(data)]
    except UNREADABLE:
        shown = data[: _EXCERPT * 4]
        text = " ".join((shown.decode("utf-8", "replace") if isinstance(shown, bytes) else shown).split())
        is_cut = len(text) > _EXCERPT or len(data) > len(shown)
        raise NotAMessage(f"no JSON-RPC message: {text[:_EXCERPT] + ('…' if is_cut else '')!r}") from None


def message_of(unchecked: UncheckedMessage) -> RpcRequest | RpcNotification | RpcResponse:
    """Which of the three kinds it is. Raises the `RpcError` that says why it is none."""
    if unchecked.jsonrpc != "2.0":
        raise RpcError(INVALID_REQUEST, 'The message is not JSON-RPC 2.0. Send {"jsonrpc": "2.0", …}.')
    if unchecked.method is UNSET:
        return _response(unchecked)
    if not isinstance(unchecked.method, str):
        raise RpcError(INVALID_REQUEST, "'method' must be a string.")
    params = {} if unchecked.params is UNSET or unchecked.params is None else unchecked.params
    if not isinstance(params, dict):
        raise RpcError(INVALID_REQUEST, "'params' must be an object.")
    if unchecked.id is UNSET:
        return RpcNotification(method=unchecked.method, params=params)
    return RpcRequest(id=checked_id(unchecked.id), method=unchecked.method, params=params)


def _response(unchecked: UncheckedMessage) -> RpcResponse:
    if unchecked.id is UNSET or (unchecked.result is UNSET) is (unchecked.error is UNSET):
        raise RpcError(INVALID_REQUEST, "The message is neither a request nor a response. Send one of the two.")
    return RpcResponse(
        id=checked_id(unchecked.id),
        result=None if unchecked.result is UNSET else unchecked.result,
        error=None if unchecked.error is UNSET else unchecked.error,
    )


def checked_id(value: Any) -> RequestId:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise RpcError(INVALID_REQUEST, "'id' must be a string or a whole number.")


def text_param(params: dict[str, Any], name: str) -> str:
    """A parameter that must be a string. Raises `RpcError`."""
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"'params.{name}' must be a string. Add or correct it.")
    return value


def object_param(params: dict[str, Any], name: str) -> dict[str, Any]:
    """A parameter that is an object; an empty one if it is left out. Raises `RpcError`."""
    value = params.get(name)
    if value is not None and not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"'params.{name}' must be an object. Correct it.")
    return value or {}


def request(request_id: RequestId, method: str, params: Any) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (encode(request_id), encode(method), encode(params))


def notification(method: str, params: Any = None) -> bytes:
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % encode(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params))


def response(request_id: RequestId, result: bytes | Raw) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(request_id), bytes(result))


def error_response(request_id: RequestId | UnsetType | None, error: RpcError) -> bytes:
    return encode(_ErrorResponse(id=request_id, error=ErrorObject(error.number, error.message, error.data)))
