"""Answers to `tools/call` as outcomes."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.model.call import Done, Failed
from jackfield.sources.mcp.input_required import input_required
from jackfield.sources.mcp.results import outcome_of
from jackfield.sources.mcp.transport import McpClientError

INFO = {"io.modelcontextprotocol/serverInfo": {"name": "inner", "version": "1"}}
TEXT = {"type": "text", "text": "hello"}


def answered(answer: Any) -> Any:
    outcome = outcome_of(Raw(msgspec.json.encode(answer)))
    assert isinstance(outcome, Done), outcome
    return msgspec.json.decode(outcome.result)


def test_an_answer_becomes_the_result_it_says() -> None:
    assert answered({"content": [TEXT]}) == "hello"
    assert answered({"content": [TEXT], "resultType": "complete", "_meta": INFO, "structuredContent": None}) == "hello"
    assert answered({"content": [], "structuredContent": [1, 2]}) == [1, 2]
    assert answered({"structuredContent": {"a": 1}}) == {"a": 1}
    assert answered({"content": []}) == {"content": []}
    assert answered({"toolResult": {"a": 1}}) == {"a": 1}


def test_what_a_server_says_of_itself_stays_behind() -> None:
    assert answered({"content": [TEXT], "_meta": {**INFO, "a/b": 1}}) == {"content": [TEXT], "_meta": {"a/b": 1}}


def test_a_failing_tool_is_a_failure_with_its_words_and_its_content() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    outcome = outcome_of(Raw(msgspec.json.encode({"content": [TEXT, image], "isError": True})))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == ("tool_error", "hello")
    assert outcome.result is not None
    assert msgspec.json.decode(outcome.result) == {"content": [TEXT, image]}
    silent = outcome_of(Raw(b'{"content":[],"isError":true}'))
    assert isinstance(silent, Failed)
    assert silent.message == "The tool failed without saying why."


def test_a_result_is_on_one_line() -> None:
    outcome = outcome_of(Raw(b'{"content": [\n{"type": "image", "data": "A",\r\n "mimeType": "b"}]}'))
    assert isinstance(outcome, Done)
    assert b"\n" not in bytes(outcome.result)
    assert b"\r" not in bytes(outcome.result)


@pytest.mark.parametrize(
    "answer",
    [
        b'"text"',
        b"[]",
        b'{"content": "text"}',
        b'{"content": [], "isError": "yes"}',
        b'{"content": [{"type":"text","text":"\xff"}]}',
        b'{"content": [' + b"[" * 5_000 + b"]" * 5_000 + b"]}",
    ],
)
def test_an_answer_that_is_not_mcps_is_a_failure_that_says_so(answer: bytes) -> None:
    outcome = outcome_of(Raw(answer))
    assert isinstance(outcome, Failed)
    assert outcome.code == "bad_response"
    assert outcome.message.startswith("The server's response is not valid MCP: ")


def test_a_question_is_told_from_an_answer() -> None:
    assert input_required(Raw(b'{"content":[{"type":"text","text":"input_required"}]}')) is None
    question = input_required(
        Raw(b'{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}')
    )
    assert question is not None
    assert question.requests is not None
    assert (question.requests["a"].method, question.state) == ("roots/list", "s")
    with pytest.raises(McpClientError):
        input_required(Raw(b'{"resultType":"input_required","inputRequests":[]}'))
