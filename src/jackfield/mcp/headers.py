"""Headers of revision 2026-07-28: `_meta` must be complete, headers must agree with the body, the revision be served.

Above: `api.py` and `tools_call.py`. Below: `protocol/mcp.py`. Headers are checked because proxies route by them. Pure.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from jackfield.catalog.merge import Entry
from jackfield.protocol import mcp
from jackfield.protocol.jsonrpc import INVALID_PARAMS, RpcError, RpcRequest
from jackfield.protocol.mcp import (
    CAPABILITIES_KEY,
    HEADER_MISMATCH,
    MODERN,
    NAMED_BY,
    PARAM_PREFIX,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    ParamHeader,
    argument_at,
    declared_headers,
    header_value,
    scalar_text,
)

VERSION_HEADER = mcp.VERSION_HEADER.encode()
METHOD_HEADER = mcp.METHOD_HEADER.encode()
NAME_HEADER = mcp.NAME_HEADER.encode()


def client_capabilities(request: RpcRequest, headers: Mapping[bytes, bytes]) -> dict[str, Any]:
    """The declared client capabilities; raises `RpcError` for a request that contradicts itself."""
    meta = request.params.get("_meta")
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if not isinstance(meta, dict) or key not in meta]
    if missing or not isinstance(meta, dict):
        raise RpcError(INVALID_PARAMS, f"'params._meta' lacks {' and '.join(missing)}. Revision {MODERN} needs them.")
    version, capabilities = meta[VERSION_KEY], meta[CAPABILITIES_KEY]
    _check_headers(request, headers, version)
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"'params._meta': {VERSION_KEY} is a string, {CAPABILITIES_KEY} an object.")
    check_version(version)
    return capabilities


def check_version(version: str) -> None:
    if version != MODERN:
        raise RpcError(
            UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": [MODERN], "requested": version}
        )


def _check_headers(request: RpcRequest, headers: Mapping[bytes, bytes], version: Any) -> None:
    if header_value(headers.get(VERSION_HEADER)) != version or version is None:
        raise _mismatch("MCP-Protocol-Version", "the revision in 'params._meta'")
    if header_value(headers.get(METHOD_HEADER)) != request.method:
        raise _mismatch("Mcp-Method", "'method'")
    named_by = NAMED_BY.get(request.method)
    name = None if named_by is None else request.params.get(named_by)
    if name is not None and header_value(headers.get(NAME_HEADER)) != name:
        raise _mismatch("Mcp-Name", f"'params.{named_by}'")


def _mismatch(header: str, body: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"The header {header} is missing or does not agree with {body} of the body.")


_DECIMAL = re.compile(r"-?[0-9]+(\.0+)?")
_MAX_KNOWN = 25_000
_known: OrderedDict[str, tuple[ParamHeader, ...]] = OrderedDict()
"""What each version of a tool declares, parsed once."""


def check_param_headers(entry: Entry, arguments: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> None:
    """Raise `RpcError` unless each declared argument and its header say the same, or neither is there."""
    for declared in _declared_by(entry):
        given = headers.get(f"{PARAM_PREFIX}{declared.header}".lower().encode())
        value = scalar_text(argument_at(arguments, declared.path))
        if value is None and given is None:
            continue
        if value is None or given is None or not _agree(header_value(given), value, declared.type):
            where = ".".join(declared.path)
            raise RpcError(
                HEADER_MISMATCH,
                f"The header {PARAM_PREFIX}{declared.header} and the argument '{where}' must agree, or both be absent.",
            )


def _declared_by(entry: Entry) -> tuple[ParamHeader, ...]:
    found = _known.get(entry.version)
    if found is None:
        found = _known[entry.version] = declared_headers(entry.tool.input_schema)
        if len(_known) > _MAX_KNOWN:
            _known.popitem(last=False)
    return found


def _agree(header: str | None, value: str, kind: str) -> bool:
    if header is None:
        return False
    if kind == "integer" and _DECIMAL.fullmatch(header) and _DECIMAL.fullmatch(value):
        return header.partition(".")[0] == value.partition(".")[0]
    return header == value
