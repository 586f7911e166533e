"""What a server says that it needs more of the client behind a call."""

from typing import Any

import msgspec
import pytest

from jackfield.protocol.jsonrpc import RpcError
from jackfield.sources.mcp.capabilities import url_required
from tests.requirement import requirement

SIGN_IN = {"mode": "url", "url": "https://example.com/go", "message": "Sign in", "elicitationId": "e"}


@requirement("MCP2-url-required")
def test_a_url_that_is_to_be_opened_first_is_told_and_kept() -> None:
    data = {"elicitations": [SIGN_IN, {**SIGN_IN, "url": "https://example.com/a\u200bb"}]}
    failed = url_required(RpcError(-32042, "Not yet.", data), "pay")
    assert failed.code == "url_required"
    assert failed.message == (
        "The server of 'pay' needs somebody to open https://example.com/go and https://example.com/ab first: "
        "Not yet. Then call it again."
    )
    assert failed.result is not None
    assert msgspec.json.decode(failed.result)["error"] == {"code": -32042, "message": "Not yet.", "data": data}


@pytest.mark.parametrize("data", [None, {}, {"elicitations": 5}, {"elicitations": [{"url": "javascript:alert(1)"}]}])
def test_what_cannot_be_opened_is_not_named(data: Any) -> None:
    assert "needs somebody to open a page first" in url_required(RpcError(-32042, "Not yet.", data), "pay").message


def test_no_more_than_a_few_urls_are_named() -> None:
    failed = url_required(RpcError(-32042, "Not yet.", {"elicitations": [SIGN_IN] * 100}), "pay")
    assert failed.message.count("https://") == 5
