import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from jackfield.errors import ConfigError
from jackfield.model.call import Done, Failed, Outcome
from jackfield.model.tool import ExecutionType, HttpExecution, Tool, ToolKind
from jackfield.outgoing import Outgoing
from jackfield.sources.base import Source
from jackfield.sources.http import HttpSource
from tests.sources.invocations import invocation_of
from tests.sources.upstream import Received, Upstream, json_reply, never, redirect, reply


@pytest.fixture
async def server() -> AsyncIterator[Upstream]:
    async with Upstream() as upstream:
        yield upstream


@pytest.fixture
async def outgoing() -> AsyncIterator[Outgoing]:
    async with Outgoing() as client:
        yield client


def tool_at(url: str, method: str = "POST", **headers: str) -> Tool:
    return Tool(
        source="http",
        name="fetchWeather",
        execution_type=ExecutionType.GATEWAY,
        execution=HttpExecution(url=url, method=method, headers=headers),
    )


async def call(outgoing: Outgoing, tool: Tool, *, timeout_ms: int = 5_000, **arguments: Any) -> Outcome:
    source = HttpSource((tool,), outgoing)
    return await source.execute(invocation_of(tool, timeout_ms=timeout_ms, **arguments))


def echo(received: Received) -> bytes:
    return json_reply({"method": received.method, "target": received.target, "body": received.body.decode()})


async def test_the_source_lists_its_tools_and_executes_only_these(outgoing: Outgoing) -> None:
    tool = tool_at("http://a.example/x")
    source: Source = HttpSource((tool,), outgoing)

    await source.open()
    listing = await source.refresh()
    await source.close()

    assert (source.name, source.kind, source.tool_kind) == ("http", "http", ToolKind.INTERNAL)
    assert (listing.tools, listing.faults) == ((tool,), ())
    assert source.can_execute(tool)
    assert not source.can_execute(msgspec.structs.replace(tool, name="other"))
    assert not source.can_execute(msgspec.structs.replace(tool, source="local"))
    unknown = await source.execute(invocation_of(msgspec.structs.replace(tool, name="other")))
    assert isinstance(unknown, Failed)
    assert unknown.code == "tool_not_found"


def test_two_tools_of_one_name_are_a_config_error(outgoing: Outgoing) -> None:
    with pytest.raises(ConfigError, match=r"^Two of the \[\[tools\]\] are called 'fetchWeather'\. Rename one"):
        HttpSource((tool_at("http://a.example"), tool_at("http://b.example")), outgoing)


def test_an_unusable_url_is_a_config_error_at_the_start(outgoing: Outgoing) -> None:
    with pytest.raises(ConfigError, match="The tool 'fetchWeather'"):
        HttpSource((tool_at("nowhere"),), outgoing)


async def test_a_tool_is_a_request_to_its_url_with_its_method_and_headers(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/current"] = echo
    tool = tool_at(server.url + "/current?units=metric", "get", Authorization="Bearer k", X_Trace="1")

    outcome = await call(outgoing, tool, city="Zürich", days=2)

    assert outcome == Done(
        msgspec.Raw(b'{"method":"GET","target":"/current?units=metric&city=Z%C3%BCrich&days=2","body":""}')
    )
    (received,) = server.received
    assert (received.headers["authorization"], received.headers["x_trace"]) == ("Bearer k", "1")


async def test_arguments_travel_as_json_unless_the_method_has_no_body(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/book"] = echo

    await call(outgoing, tool_at(server.url + "/book"), nights=3, breakfast=None)

    (received,) = server.received
    assert (received.method, received.target) == ("POST", "/book")
    assert received.headers["content-type"] == "application/json"
    assert received.json == {"nights": 3, "breakfast": None}


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (b'{"a": 1.0,  "b": [12345678901234567890123]}', b'{"a": 1.0,  "b": [12345678901234567890123]}'),
        (b"null", b"null"),
        (b"false", b"false"),
        (b"0", b"0"),
        (b'""', b'""'),
        (b"[]", b"[]"),
        ('"é"'.encode(), '"é"'.encode()),
        (b"\xef\xbb\xbf[1]", b"[1]"),
        (b'{\r\n  "a": [\n    1\n  ]\n}\n', b'{"a":[1]}'),
        (b"", b"null"),
        (b" \r\n", b"null"),
    ],
)
async def test_a_json_answer_is_the_result_as_it_came(
    server: Upstream, outgoing: Outgoing, body: bytes, result: bytes
) -> None:
    server.answers["/x"] = reply(200, body, content_type="text/plain")

    assert await call(outgoing, tool_at(server.url + "/x")) == Done(msgspec.Raw(result))


async def test_no_content_is_the_result_null(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/x"] = b"HTTP/1.1 204 No Content\r\n\r\n"

    assert await call(outgoing, tool_at(server.url + "/x", "DELETE")) == Done(msgspec.Raw(b"null"))


async def test_a_head_request_has_the_result_null(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/x"] = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n"

    assert await call(outgoing, tool_at(server.url + "/x", "HEAD")) == Done(msgspec.Raw(b"null"))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(500, b"  it\n broke "), "HTTP 500: it broke"),
        (reply(404, b'{"detail": "no such city"}'), 'HTTP 404: {"detail": "no such city"}'),
        (reply(503), "HTTP 503: Service Unavailable"),
        (reply(799), "HTTP 799: no text"),
        (reply(302, b"nowhere to go"), "HTTP 302: nowhere to go"),
        (reply(400, b"x" * 1000), "HTTP 400: " + "x" * 200 + "…"),
        (reply(400, b"\xff\xfe"), "HTTP 400: \ufffd\ufffd"),
    ],
)
async def test_an_error_status_is_a_failure_with_the_servers_words(
    server: Upstream, outgoing: Outgoing, answer: bytes, message: str
) -> None:
    server.answers["/x"] = answer

    outcome = await call(outgoing, tool_at(server.url + "/x"))

    assert outcome == Failed("http_error", message, msgspec.Raw(msgspec.json.encode({"error": message})))


@pytest.mark.parametrize(
    ("body", "begins"),
    [
        (b"<html>\n<b>hi</b>" + b"x" * 100, "<html> <b>hi</b>" + "x" * 64 + "…"),
        (b'{"a": 1', '{"a": 1'),
        (b'{"a": 1} trailing', '{"a": 1} trailing'),
        (b'{"a": "\xff"}', '{"a": "\ufffd"}'),
        (b"NaN", "NaN"),
        (b"[" * 100_000, "[" * 80 + "…"),
    ],
)
async def test_an_answer_that_is_not_json_is_a_failure_that_shows_what_came(
    server: Upstream, outgoing: Outgoing, body: bytes, begins: str
) -> None:
    server.answers["/x"] = reply(200, body, content_type="text/html; charset=utf-8")

    outcome = await call(outgoing, tool_at(server.url + "/x"))

    assert outcome == Failed(
        "bad_response", f"The answer is not JSON (content type: text/html; charset=utf-8); it begins: {begins}"
    )


async def test_the_calls_timeout_is_the_requests(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/x"] = never

    outcome = await asyncio.wait_for(call(outgoing, tool_at(server.url + "/x"), timeout_ms=50), 2)

    assert outcome == Failed(
        "timeout",
        "Tool timed out after 50ms",
        msgspec.Raw(b'{"error":"Tool timed out after 50ms","toolCallId":"call_1"}'),
    )


async def test_a_redirect_to_a_closed_address_is_a_failure_that_names_the_setting(
    server: Upstream, outgoing: Outgoing
) -> None:
    server.answers["/x"] = redirect("http://169.254.169.254/latest/meta-data/")

    outcome = await call(outgoing, tool_at(server.url + "/x"))

    assert outcome == Failed(
        "outgoing_refused",
        "The request to '169.254.169.254' was refused: that is a cloud metadata address. "
        'To permit it, add "169.254.169.254" to allow under [outgoing] in the config.',
    )


async def test_a_url_at_which_nobody_listens_is_a_failure(outgoing: Outgoing) -> None:
    outcome = await call(outgoing, tool_at("http://127.0.0.1:1/x"))

    assert outcome == Failed(
        "unreachable",
        "The host '127.0.0.1' could not be reached at port 1: Connection refused. Check that it is up.",
    )


async def test_an_answer_beyond_the_limit_is_a_failure(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/x"] = reply(200, b'"' + b"x" * 10 * 1024 * 1024 + b'"')

    outcome = await call(outgoing, tool_at(server.url + "/x"))

    assert outcome == Failed("bad_response", f"{server.url} answered with more than the 10,485,760 bytes allowed.")


async def test_an_argument_that_does_not_fit_the_url_is_a_failure_and_nothing_is_sent(
    server: Upstream, outgoing: Outgoing
) -> None:
    outcome = await call(outgoing, tool_at(server.url + "/items/{id}"), id="../admin")

    assert isinstance(outcome, Failed)
    assert outcome.code == "invalid_arguments"
    assert server.received == []


async def test_cancelling_a_call_stops_its_request(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/x"] = never
    task = asyncio.create_task(call(outgoing, tool_at(server.url + "/x")))
    await asyncio.wait_for(server.arrived.wait(), 5)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(server.drained(), 5)
