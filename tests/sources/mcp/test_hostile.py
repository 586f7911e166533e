"""Servers that mean us no good: lists without end, floods of questions, addresses that are none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.errors import ConfigError
from jackfield.protocol.jsonrpc import RpcError
from jackfield.sources.base import ElicitAnswer, ElicitRequest
from jackfield.sources.mcp import connection, duplex, list_pages, open_calls
from jackfield.sources.mcp.handlers import MAX_LOG, ServerRequest, answer_requests, as_progress
from jackfield.sources.mcp.source import server_of_a_request
from jackfield.sources.mcp.transport import McpClientError
from tests.sources.invocations import asking
from tests.sources.mcp.scene import raw_json, scene
from tests.sources.mcp.test_http import HELLO, Server, event, said, streamed
from tests.sources.upstream import Received, Upstream


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Upstream() as upstream:
        yield Server(upstream)


async def test_a_list_without_end_is_not_read_to_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_pages, "MAX_LIST", 100_000)
    pages = 0
    plain = server.answer

    def endless(request: Received) -> Any:
        nonlocal pages
        message = msgspec.json.decode(request.body) if request.method == "POST" else {}
        if message.get("method") != "tools/list":
            return plain(request)
        pages += 1
        tool = {"name": f"t{pages}", "description": "x" * 10_000, "inputSchema": {"type": "object"}}
        return said(message, {"tools": [tool], "nextCursor": str(pages)})

    server.upstream.answers["/mcp"] = endless
    async with scene(tmp_path, url=server.url) as far:
        with pytest.raises(McpClientError, match="answers to tools/list have more than the 100,000 bytes allowed"):
            await far.source.refresh()
    assert pages == 10


async def test_of_a_flood_of_questions_a_bounded_number_is_put(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplex, "MAX_TASKS", 20)
    asked: list[str] = []

    async def never_answered(question: Any) -> ElicitAnswer:
        asked.append(question.message)
        await asyncio.Event().wait()
        raise AssertionError

    def flood(message: Any) -> bytes:
        params = {"message": "Well?", "requestedSchema": {"type": "object", "properties": {}}}
        questions = [
            event({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": params})
            for number in range(500)
        ]
        return streamed(*questions, event({"jsonrpc": "2.0", "id": message["id"], "result": HELLO}))

    server.calls = flood
    async with scene(tmp_path, url=server.url) as far:
        await far.open()
        assert await far.result("echo", ask=asking(never_answered)) == "hello"
    assert len(asked) == 20


async def test_a_model_is_asked_for_a_call_only() -> None:
    no_wire: Any = None
    idle = connection.Connection("far", lambda _: no_wire, lost=lambda *_: None, changed=lambda: None, sample=_spend)
    with pytest.raises(RpcError, match="sampling/createMessage is refused"):
        await idle.asked("sampling/createMessage", raw_json({}), during=None)


async def test_roots_are_those_of_a_calls_client_so_outside_calls_there_are_none() -> None:
    no_wire: Any = None
    idle = connection.Connection("far", lambda _: no_wire, lost=lambda *_: None, changed=lambda: None)
    with pytest.raises(RpcError, match="roots/list is refused"):
        await idle.asked("roots/list", raw_json({}), during=None)


async def _spend(_: Any) -> Any:
    raise AssertionError("A model was asked.")


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "", None])
async def test_only_addresses_of_the_web_are_shown_to_people(url: str | None) -> None:
    params = {"message": "Sign in", "mode": "url", "url": url}
    with pytest.raises(RpcError, match="Only http and https urls"):
        await answer_requests((ServerRequest("elicitation/create", raw_json(params)),), ask=None)


def test_what_progress_says_is_short_and_plain() -> None:
    _, progress = as_progress(raw_json({"progressToken": 1, "progress": 1, "message": "a\u202eb" + "x" * 10_000}))
    assert progress is not None
    assert progress.message is not None
    assert (progress.message[:3], len(progress.message)) == ("abx", MAX_LOG + 1)


@pytest.mark.parametrize("headers", [{"Host": "inner.example"}, {"transfer-encoding": "chunked"}, {"x": "a\r\nb: c"}])
def test_who_brings_a_server_along_says_neither_its_host_nor_where_a_message_ends(headers: dict[str, str]) -> None:
    source_context: Any = None
    with pytest.raises(ConfigError):
        server_of_a_request("r", url="https://far.example/mcp", headers=headers, source_context=source_context)


def _shared_line(asked: list[str]) -> tuple[connection.Connection, Callable[[str], open_calls.CallHandlers]]:
    """A connection that several calls share, and how to make a call of a principal on it."""
    no_wire: Any = None

    def talk(principal: str) -> open_calls.CallHandlers:
        async def elicit(_: ElicitRequest) -> ElicitAnswer:
            asked.append(principal)
            return ElicitAnswer(action="cancel")

        return open_calls.CallHandlers(
            report=lambda _: None, note=lambda _: None, ask=asking(elicit), principal=principal
        )

    return connection.Connection("far", lambda _: no_wire, lost=lambda *_: None, changed=lambda: None), talk


async def test_a_question_that_could_be_of_two_calls_is_put_to_neither() -> None:
    asked: list[str] = []
    line, talk = _shared_line(asked)
    line._calls.handlers = {1: talk("ada"), 2: talk("bob")}
    question = raw_json({"message": "Well?"})
    with pytest.raises(RpcError, match="nothing says which of them asks"):
        await line.asked("elicitation/create", question, during=None)
    await line.asked("elicitation/create", question, during=2)
    assert asked == ["bob"]


async def test_a_question_is_never_put_to_another_key_because_the_asker_already_waits() -> None:
    asked: list[str] = []
    line, talk = _shared_line(asked)
    question = raw_json({"message": "Well?"})
    for other, put_to in (("ada", ["ada"]), ("bob", [])):
        line._calls.handlers = {1: talk("ada"), 2: talk(other)}
        line._calls._asking[1] = 1
        asked.clear()
        with nullcontext() if put_to else pytest.raises(RpcError, match="nothing says which of them asks"):
            await line.asked("elicitation/create", question, during=None)
        assert asked == put_to
