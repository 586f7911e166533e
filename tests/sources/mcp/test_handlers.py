"""What a server may ask and say while a call runs."""

import logging
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from jackfield.protocol.jsonrpc import RpcError
from jackfield.sources.base import ElicitAnswer, ElicitRequest, LogNote, Progress
from jackfield.sources.mcp.handlers import (
    MAX_SAMPLING,
    ServerRequest,
    answer_requests,
    as_progress,
    log_note,
    opened_id,
)
from tests.requirement import requirement
from tests.sources.invocations import asking
from tests.sources.mcp.scene import raw_json

FORM = {"message": "Who\u200b is it?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "string"}}}}
SIGN_IN = {"message": "Sign in", "mode": "url", "url": "https://login.example"}


async def answered(
    params: dict[str, Any], answer: ElicitAnswer, *, key: str | None = None
) -> tuple[ElicitRequest, Any]:
    asked: list[ElicitRequest] = []

    async def person(request: ElicitRequest) -> ElicitAnswer:
        asked.append(request)
        return answer

    question = ServerRequest("elicitation/create", raw_json(params), key)
    (raw,) = await answer_requests((question,), ask=asking(person))
    return asked[0], msgspec.json.decode(raw)


async def test_a_form_is_asked_and_answered() -> None:
    request, answer = await answered(FORM, ElicitAnswer(action="accept", content={"n": "Ada"}))
    assert (request.message, request.url) == ("Who is it?", None)
    assert request.schema == FORM["requestedSchema"]
    assert answer == {"action": "accept", "content": {"n": "Ada"}}
    _, declined = await answered(FORM, ElicitAnswer(action="decline", content={"n": "kept to themselves"}))
    assert declined == {"action": "decline"}


@requirement("MCP2-elicitation-defaults")
async def test_what_an_answer_leaves_out_gets_the_forms_default() -> None:
    fields = {"name": {"type": "string", "default": "Ada"}, "age": {"type": "integer", "default": 0}, "city": {}}
    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": fields}}
    _, answer = await answered(form, ElicitAnswer(action="accept", content={"age": 36}))
    assert answer["content"] == {"name": "Ada", "age": 36}
    _, empty = await answered(form, ElicitAnswer(action="accept"))
    assert empty["content"] == {"name": "Ada", "age": 0}
    _, declined = await answered(form, ElicitAnswer(action="decline"))
    assert declined == {"action": "decline"}


@pytest.mark.parametrize("properties", [None, [], {"a": True}])
async def test_a_form_without_fields_has_no_defaults(properties: Any) -> None:
    form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": properties}}
    _, answer = await answered(form, ElicitAnswer(action="accept", content={"b": 1}))
    assert answer["content"] == {"b": 1}


async def test_a_question_keeps_the_name_that_its_server_has_for_it() -> None:
    accepted = ElicitAnswer(action="accept", content={"n": "Ada"})
    named, _ = await answered(FORM, accepted, key="user\u200b_name")
    assert named.key == "user_name"
    unnamed, _ = await answered(FORM, accepted)
    assert unnamed.key == "question"


async def test_a_url_is_shown_and_has_no_content() -> None:
    request, answer = await answered(SIGN_IN, ElicitAnswer(action="accept"))
    assert (request.url, request.schema) == ("https://login.example", None)
    assert answer == {"action": "accept"}


async def test_where_nobody_can_be_asked_a_question_is_declined() -> None:
    (declined,) = await answer_requests((ServerRequest("elicitation/create", raw_json(FORM)),), ask=None)
    assert msgspec.json.decode(declined) == {"action": "decline"}


@pytest.mark.parametrize("method", ["sampling/createMessage", "roots/list", "tasks/get"])
async def test_what_we_do_not_give_is_refused_by_name(method: str) -> None:
    with pytest.raises(RpcError, match=method) as caught:
        await answer_requests((ServerRequest(method, Raw(b"{}")),), ask=None)
    assert caught.value.number == -32601


@pytest.mark.parametrize("params", [{}, {"message": 5}, {"message": "x", "requestedSchema": {"required": ["a\u200b"]}}])
async def test_a_question_that_cannot_be_asked_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(RpcError, match="elicitation request is invalid"):
        await answer_requests((ServerRequest("elicitation/create", raw_json(params)),), ask=None)


def test_a_url_that_was_opened_has_an_id() -> None:
    assert opened_id(raw_json({"elicitationId": "e\u200b-1"})) == "e-1"
    assert opened_id(raw_json({"elicitationId": "x" * 1_000})) == "x" * 200
    assert opened_id(raw_json({"elicitationId": 5})) is None


def data_of(note: LogNote) -> Any:
    assert note.data is not UNSET
    return msgspec.json.decode(note.data)


def test_progress_names_its_request() -> None:
    said = raw_json({"progressToken": 7, "progress": 1, "total": 4, "message": "half"})
    assert as_progress(said) == (7, Progress(progress=1, total=4, message="half"))
    assert as_progress(raw_json({"progressToken": "x", "progress": 1}))[0] is None
    assert as_progress(raw_json({"progress": "fast"})) == (None, None)


@requirement("MCP2-log-data")
def test_a_log_notification_is_one_bounded_line_and_what_it_was_made_of() -> None:
    level, note = log_note(raw_json({"level": "alert", "logger": "db", "data": "a\nb\x1b[31m"}))
    assert (level, note.level, note.message, note.logger) == (logging.ERROR, "alert", "a b[31m", "db")
    assert data_of(note) == "a\nb[31m"
    level, note = log_note(raw_json({"level": "debug", "data": {"a": [1, "\n"]}}))
    assert (level, note.message, data_of(note)) == (logging.DEBUG, '{"a":[1,"\\n"]}', {"a": [1, "\n"]})
    assert log_note(raw_json({"level": "info", "data": "words"}))[1] == LogNote(level="info", message="words")
    long = log_note(raw_json({"data": "x" * 10_000}))[1]
    assert (len(long.message), len(data_of(long))) == (2_001, 10_000)
    assert log_note(raw_json({"data": ["x" * 100_000]}))[1].data is UNSET
    assert log_note(raw_json({"level": "loud", "data": ""}))[1].level == "info"
    assert log_note(raw_json([]))[0] == logging.DEBUG


async def test_what_a_model_is_asked_is_bounded_and_an_object() -> None:
    for params in (raw_json({"messages": [], "systemPrompt": "x" * MAX_SAMPLING}), Raw(b"[]")):
        with pytest.raises(RpcError, match="sampling request") as caught:
            await answer_requests((ServerRequest("sampling/createMessage", params),), ask=None)
        assert caught.value.number == -32602
