"""JSON-RPC messages as bytes, in and out. Results and params stay raw. Pure.

Above: the wires. Below: msgspec.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from jackfield.model.redaction import CUT, cut
from jackfield.sources.mcp.transport import McpClientError, RpcError

_encode = msgspec.json.Encoder().encode
NO_PARAMS = Raw(b"{}")
_EXCERPT = 80


class ErrorObject(Struct):
    code: int = 0
    message: str = ""
    data: Any = None


class Message(Struct):
    """Anything a peer may send: a response (`result` or `error`), a request (`id` and `method`), a notification."""

    id: int | str | None = None
    method: str | None = None
    params: Raw = NO_PARAMS
    result: Raw | UnsetType = UNSET
    error: ErrorObject | UnsetType = UNSET

    @property
    def is_response(self) -> bool:
        return self.method is None and (self.result is not UNSET or self.error is not UNSET)

    def taken(self) -> Raw:
        """The result of a response; its error raises."""
        if self.error is not UNSET:
            raise RpcError(
                self.error.message or "no message", number=self.error.code, data=msgspec.to_builtins(self.error.data)
            )
        assert self.result is not UNSET
        return self.result


_decode_one = msgspec.json.Decoder(Message).decode
_decode_many = msgspec.json.Decoder(list[Message]).decode


class NotAMessage(McpClientError):
    """Bytes that are no JSON-RPC."""


def parse(data: bytes | str) -> list[Message]:
    """The messages in one frame: one, or with revision 2025-03-26 several. Raises `NotAMessage`."""
    try:
        return _decode_many(data) if data[:1] in (b"[", "[") else [_decode_one(data)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        shown = data[: _EXCERPT * 4]
        text = shown.decode("utf-8", "replace") if isinstance(shown, bytes) else shown
        text += CUT if len(data) > len(shown) else ""
        raise NotAMessage(f"no JSON-RPC message: {cut(' '.join(text.split()), _EXCERPT)!r}") from None


def request(number: int, method: str, params: Raw) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (number, _encode(method), bytes(params))


def notification(method: str, params: Raw) -> bytes:
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_encode(method), bytes(params))


def response(to: int | str, result: Raw) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode(to), bytes(result))


def error_response(to: int | str, error: RpcError) -> bytes:
    told: dict[str, Any] = {"code": error.number, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    return _encode({"jsonrpc": "2.0", "id": to, "error": told})


def encoded(value: Any) -> Raw:
    return Raw(_encode(value))
