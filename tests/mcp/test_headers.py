"""Arguments in headers: the same reading as the SDK's, on schemas and arguments of every shape."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import (
    find_invalid_x_mcp_header,
    mcp_param_headers,
    validate_mcp_param_headers,
    x_mcp_header_map,
)

from jackfield.catalog.merge import Entry
from jackfield.mcp.headers import check_param_headers
from jackfield.model.tool import Tool
from jackfield.protocol.jsonrpc import RpcError
from jackfield.protocol.mcp import HEADER_MISMATCH, declared_headers, header_text, param_headers

_leaf = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "boolean", "number", "object"])},
    optional={"x-mcp-header": st.sampled_from(["Region", "region", "Count", "", "bad name", 5])},
)
_schema = st.recursive(
    _leaf,
    lambda inner: st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "anyOf": st.lists(inner, max_size=2),
            "items": inner,
            "default": st.just({"x-mcp-header": "Data"}),
        },
    ),
    max_leaves=6,
)
_value = st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8) | st.just([1])
_arguments = st.dictionaries(
    st.sampled_from("abc"), _value | st.dictionaries(st.sampled_from("abc"), _value, max_size=2), max_size=3
)


@given(_schema)
def test_the_same_arguments_are_declared_as_the_sdk_reads_them(schema: dict[str, Any]) -> None:
    expected = {} if find_invalid_x_mcp_header(schema) else x_mcp_header_map(schema)
    assert {declared.path: declared.header for declared in declared_headers(schema)} == expected


@given(_schema, _arguments)
def test_the_same_headers_are_sent_as_the_sdk_sends(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    expected = {} if find_invalid_x_mcp_header(schema) else mcp_param_headers(x_mcp_header_map(schema), arguments)
    assert param_headers(declared_headers(schema), arguments) == expected


@given(_schema, _arguments, st.dictionaries(st.sampled_from(["Region", "Count"]), st.text("1x=?", max_size=3)))
def test_the_same_requests_are_refused_as_the_sdk_refuses(
    schema: dict[str, Any], arguments: dict[str, Any], given_headers: dict[str, str]
) -> None:
    headers = {f"mcp-param-{name.lower()}": value for name, value in given_headers.items()}
    expected = validate_mcp_param_headers(schema, arguments, headers)
    assert refused(schema, arguments, headers) is (expected is not None)


@given(_schema, _arguments)
def test_the_headers_that_are_sent_are_those_that_are_wanted(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    sent = {name.lower(): value for name, value in param_headers(declared_headers(schema), arguments).items()}
    assert refused(schema, arguments, sent) is False


def refused(schema: dict[str, Any], arguments: dict[str, Any], headers: dict[str, str]) -> bool:
    tool = Tool(source="s", name="t", input_schema=schema)
    entry = Entry(
        name="t",
        tool=tool,
        version=repr(schema),
        manifest=b"",
        mcp_name="t",
        deadline_ms=30_000,
        pending_ms=0,
        answered_by_others=False,
    )
    raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    try:
        check_param_headers(entry, arguments, raw)
    except RpcError as error:
        return error.number == HEADER_MISMATCH
    return False


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("two words", "two words"),
        ("", ""),
        (" edge", "=?base64?IGVkZ2U=?="),
        ("ü", "=?base64?w7w=?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
    ],
)
def test_what_a_header_cannot_carry_is_coded(value: str, text: str) -> None:
    assert header_text(value) == text
