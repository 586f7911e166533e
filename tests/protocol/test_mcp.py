"""The headers of 2026-07-28, held against the SDK's own rules."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound

from jackfield.protocol.mcp import (
    declared_headers,
    header_fault,
    header_text,
    header_value,
    param_headers,
    routing_headers,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "page": {"type": "object", "properties": {"size": {"type": "integer", "x-mcp-header": "Size"}}},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
    },
}


def test_arguments_are_repeated_as_headers_where_the_schema_asks_for_it() -> None:
    wanted = declared_headers(SCHEMA)
    assert param_headers(wanted, {"region": "eu", "page": {"size": 5}, "dry": False}) == {
        "Mcp-Param-Region": "eu",
        "Mcp-Param-Size": "5",
        "Mcp-Param-Dry": "false",
    }
    assert param_headers(wanted, {"region": None, "page": 3}) == {}


def test_a_request_names_its_revision_method_and_tool() -> None:
    assert routing_headers("2026-07-28", "tools/call", "échö") == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "=?base64?w6ljaMO2?=",
    }


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_a_header(value: str) -> None:
    assert header_text(value) == inbound.encode_header_value(value)
    assert inbound.decode_header_value(header_text(value)) == value
    assert header_value(header_text(value).encode()) == value


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        {"type": "object"},
        True,
        {"x-mcp-header": "A"},
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A b"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": 3}}},
        {"properties": {"a": {"type": ["string", "null"], "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}},
        {"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]},
        {"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "string", "default": {"x-mcp-header": "A"}}}},
    ],
)
def test_a_schema_is_at_fault_where_the_sdk_says_so_too(schema: Any) -> None:
    assert (header_fault(schema) is None) == (inbound.find_invalid_x_mcp_header(schema) is None)
    if header_fault(schema) is None:
        found = {param.path: param.header for param in declared_headers(schema)}
        assert found == inbound.x_mcp_header_map(schema)
    else:
        assert declared_headers(schema) == ()
