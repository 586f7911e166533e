from typing import Any

import msgspec
import pytest

from jackfield.model.call import Done, Failed
from jackfield.outgoing import OutgoingResponse
from jackfield.sources.openapi.source import only, outcome_of

ORDER = {"id": 1, "customer": {"name": "A", "city": "B"}, "lines": [{"sku": "x", "n": 1}, {"sku": "y", "n": 2}]}


def answer(content: bytes, *, status: int = 200, kind: str = "application/json") -> OutgoingResponse:
    return OutgoingResponse(status=status, headers={"content-type": kind}, content=content, url="http://x")


def result(content: bytes, **more: Any) -> Any:
    outcome = outcome_of(answer(content, kind=more.pop("kind", "application/json")), **more)
    assert isinstance(outcome, Done), outcome
    return msgspec.json.decode(outcome.result)


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        (["id"], {"id": 1}),
        (["customer"], {"customer": {"name": "A", "city": "B"}}),
        (["customer.name"], {"customer": {"name": "A"}}),
        (["customer.name", "customer.city", "id"], {"id": 1, "customer": {"name": "A", "city": "B"}}),
        (["lines.sku"], {"lines": [{"sku": "x"}, {"sku": "y"}]}),
        (["customer", "customer.name"], {"customer": {"name": "A", "city": "B"}}),
        (["nothing", "id"], {"id": 1}),
        (["id.deeper"], None),
        (["nothing"], None),
    ],
)
def test_dotted_paths_name_what_is_kept_and_go_through_lists(fields: list[str], kept: Any) -> None:
    assert only(ORDER, fields) == kept
    assert only([ORDER, ORDER], fields) == (None if kept is None else [kept, kept])


def test_an_answer_is_trimmed_to_the_fields_that_were_asked_for_and_whole_where_none_of_them_is_in_it() -> None:
    content = msgspec.json.encode([ORDER])
    assert result(content, fields=["id"]) == [{"id": 1}]
    assert result(content, fields=["nothing"]) == [ORDER]
    assert result(content) == [ORDER]
    assert result(b"7", fields=["id"]) == 7


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"message": "no such pet"}, "no such pet"),
        ({"error": "no such pet"}, "no such pet"),
        ({"error": {"code": 4, "message": "no such pet"}}, "no such pet"),
        ({"errors": [{"message": "too long"}, {"message": "too wide"}]}, "too long; too wide"),
        ({"type": "about:blank", "title": "Not Found", "detail": "no such pet", "status": 404}, "no such pet"),
        ({"detail": [{"loc": ["query", "n"], "msg": "x", "message": "must be a number"}]}, "must be a number"),
        ("no such pet", "no such pet"),
        ({"code": 5}, '{"code":5}'),
        ({}, "{}"),
    ],
)
def test_a_failure_is_told_in_the_services_own_words(body: Any, says: str) -> None:
    outcome = outcome_of(answer(msgspec.json.encode(body), status=404))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == ("http_error", f"HTTP 404: {says}")
    assert outcome.result is not None
    assert msgspec.json.decode(outcome.result) == {"error": f"HTTP 404: {says}", "status": 404}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "HTTP 503: Service Unavailable"),
        (b"<html>\n <b>Away</b></html>", "HTTP 503: <html> <b>Away</b></html>"),
        (b"\xff\xfe", "HTTP 503: \ufffd\ufffd"),
        (b"x" * 5_000, f"HTTP 503: {'x' * 500}…"),
        (b"[" * 100_000, f"HTTP 503: {'[' * 500}…"),
    ],
)
def test_a_failure_that_is_no_json_is_told_by_how_it_begins(content: bytes, says: str) -> None:
    outcome = outcome_of(answer(content, status=503))
    assert isinstance(outcome, Failed)
    assert outcome.message == says


@pytest.mark.parametrize("kind", ["text/plain; charset=utf-8", "text/csv", "application/xml", "image/svg+xml"])
def test_text_is_a_result_too(kind: str) -> None:
    assert result(b"a,b\n1,2\n", kind=kind) == "a,b\n1,2\n"


def test_a_page_for_people_is_no_result() -> None:
    outcome = outcome_of(answer(b"<html>Log in</html>", kind="text/html; charset=utf-8"))
    assert isinstance(outcome, Failed)
    assert "text/html" in outcome.message


def test_an_answer_that_cannot_be_trimmed_comes_whole() -> None:
    deep = b"[" * 600 + b'{"a":1}' + b"]" * 600
    outcome = outcome_of(answer(deep), fields=["b"])
    assert isinstance(outcome, Done)
    assert bytes(outcome.result) == deep


def test_no_content_is_null_and_a_page_where_json_was_to_come_is_a_failure() -> None:
    assert result(b"", kind="application/json") is None
    for kind in ("text/html", "application/json"):
        outcome = outcome_of(answer(b"<h1>Sign in</h1>", kind=kind))
        assert isinstance(outcome, Failed)
        assert outcome.code == "bad_response"
        assert kind in outcome.message


def test_bytes_are_an_image_a_sound_or_a_resource() -> None:
    assert result(b"\x89PNG", kind="image/png") == {
        "content": [{"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]
    }
    assert result(b"RIFF", kind="audio/wav")["content"][0]["type"] == "audio"
    [block] = result(b"PK\x03\x04", kind="application/zip")["content"]
    assert block["type"] == "resource"
    assert (block["resource"]["mimeType"], block["resource"]["blob"]) == ("application/zip", "UEsDBA==")
