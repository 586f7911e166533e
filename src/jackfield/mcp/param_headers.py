"""Arguments that are sent as headers too (`x-mcp-header`, 2026-07-28): the header must agree with the argument."""

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from jackfield.catalog.merge import Entry
from jackfield.protocol.jsonrpc import RpcError
from jackfield.protocol.mcp import (
    HEADER_MISMATCH,
    PARAM_PREFIX,
    ParamHeader,
    argument_at,
    declared_headers,
    header_value,
    scalar_text,
)

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
