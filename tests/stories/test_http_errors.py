"""What a client is told when something is wrong: one shape, the right status, nothing that is nobody's business."""

import http.client
import json
import socket
from collections.abc import Generator

import pytest

from tests.harness.api import ADMIN_KEY, Api, error_of, open_api
from tests.requirement import requirement

EXECUTE = "/api/v1/tools/echo/execute"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@requirement("CON-error-shape")
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/api/v1/tools/", 404, "tool_not_found"),
        ("GET", "/api/v1/tools/missing", 404, "tool_not_found"),
        ("POST", "/api/v1/tools/missing/execute", 404, "tool_not_found"),
        ("GET", "/api/v1/calls/missing", 404, "call_not_found"),
        ("POST", "/api/v1/calls/missing/cancel", 404, "call_not_found"),
        ("DELETE", "/api/v1/calls", 405, "method_not_allowed"),
        ("GET", EXECUTE, 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("TRACE", "/api/v1/tools", 405, "method_not_allowed"),
        ("GET", "/api/v1/tools/search?limit=0", 400, "invalid_request"),
        ("GET", "/api/v1/tools/search?limit=many", 400, "invalid_request"),
        ("GET", "/api/v1/calls?status=lost", 400, "invalid_request"),
        ("GET", "/api/v1/calls?colour=red", 400, "invalid_request"),
        ("GET", "/api/v1/calls?limit=1&limit=2", 400, "invalid_request"),
        ("GET", "/api/v1/calls?tool=%00", 400, "invalid_request"),
        ("GET", "/api/v1/calls?tool=%FF", 400, "invalid_request"),
        ("GET", "/api/v1/calls?tool=" + "x" * 3_000, 400, "invalid_request"),
    ],
)
def test_every_error_has_the_shape_and_the_right_status(
    api: Api, method: str, path: str, status: int, code: str
) -> None:
    answer = api.ask(method, path)
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)


def test_a_405_and_an_options_say_what_is_allowed(api: Api) -> None:
    assert api.ask("DELETE", EXECUTE).headers["allow"] == "POST, OPTIONS"
    options = api.ask("OPTIONS", "/api/v1/calls", key=None)
    assert (options.status_code, options.content, options.headers["allow"]) == (204, b"", "GET, HEAD, OPTIONS")
    assert not [name for name in options.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("path", ["/api/v1/tools", "/readyz", "/", "/api/v1/tools/changes"])
def test_head_answers_like_get_without_a_body(api: Api, path: str) -> None:
    answer = api.ask("HEAD", path)
    assert (answer.status_code, answer.content) == (200, b"")


@requirement("CON-error-malformed")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not valid JSON"),
        (b"", None),
        (b"nonsense", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"arguments": {"value": "\xff"}}', "not valid UTF-8"),
        (b'{"arguments": {"value": "\\ud800"}}', "not valid JSON"),
        (b'{"arguments": {"value": 1e999}}', "number out of range"),
        (b'{"arguments": {"value": NaN}}', "not valid JSON"),
        (b'{"arguments": {}} trailing', "not valid JSON"),
        (b"[]", "expected `object`"),
        (b"null", "expected `object`"),
        (b'"text"', "expected `object`"),
        (b'{"arguments": []}', "'arguments'"),
        (b'{"arguments": null}', "'arguments'"),
        (b'{"arguments": "{}"}', "'arguments'"),
        (b'{"arguments": {}, "agent": 5}', "'agent'"),
        (b'{"arguments": {}, "agent": ""}', "'agent'"),
        (b'{"arguments": {}, "agent": "a\\u0000b"}', "'agent'"),
        (b'{"arguments": {}, "agent": "a\\n"}', "'agent'"),
        (b'{"arguments": {}, "run_id": "' + b"x" * 300 + b'"}', "'run_id'"),
        (b'{"argument": {}}', "Did you mean 'arguments'?"),
        (b'{"a`b": 1}', "unknown key"),
    ],
)
def test_a_malformed_body_is_400_with_what_is_wrong(api: Api, body: bytes, says: str | None) -> None:
    answer = api.ask("POST", EXECUTE, content=body, headers=JSON)
    if says is None:
        assert answer.status_code == 200
        return
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request")
    assert says in error_of(answer)["message"]


@requirement("CON-error-malformed")
@pytest.mark.parametrize("depth", [201, 900, 5_000, 90_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_body_that_is_nested_too_deep_is_400(api: Api, depth: int, opening: bytes, closing: bytes) -> None:
    depth = min(depth, 190_000 // (len(opening) + 1))
    inner = opening * depth + b"1" + closing * depth
    answer = api.ask("POST", EXECUTE, content=b'{"arguments": {"value": ' + inner + b"}}", headers=JSON)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request")
    assert "deep" in error_of(answer)["message"]


def test_a_body_as_deep_as_may_be_comes_back_whole(api: Api) -> None:
    value: object = 1
    for _ in range(198):
        value = [value]
    answer = api.execute("echo", {"value": value})
    assert answer.status_code == 200
    assert answer.json()["result"] == value


@requirement("CON-error-malformed")
@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "json", "multipart/json"]
)
def test_a_body_that_is_not_declared_as_json_is_415(api: Api, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    answer = api.ask("POST", EXECUTE, content=b"{}", headers=headers)
    assert (answer.status_code, error_of(answer)["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"]
)
def test_json_under_its_other_names_is_taken(api: Api, content_type: str) -> None:
    assert api.ask("POST", EXECUTE, content=b"{}", headers={"content-type": content_type}).status_code == 200


@requirement("CON-error-malformed")
def test_a_body_over_the_limit_is_413_whether_its_length_is_told_or_not(api: Api) -> None:
    body = b'{"arguments": {"value": "' + b"x" * 300_000 + b'"}}'
    told = api.ask("POST", EXECUTE, content=body, headers=JSON)
    untold = api.ask("POST", EXECUTE, content=iter([body[:1000], body[1000:]]), headers=JSON)
    for answer in (told, untold):
        assert (answer.status_code, error_of(answer)["code"]) == (413, "too_large")
        assert "max_body" in error_of(answer)["message"]


def test_a_body_in_pieces_is_read_whole(api: Api) -> None:
    pieces = [b'{"arguments": ', b'{"value": "', b"x" * 150_000, b'"}}']
    answer = api.ask("POST", EXECUTE, content=iter(pieces), headers=JSON)
    assert answer.json()["result"] == "x" * 150_000


def raw_request(api: Api, request: bytes) -> int:
    """The status of the answer to these bytes."""
    with socket.create_connection(("127.0.0.1", api.gateway.port), timeout=10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status


HEAD = b" HTTP/1.1\r\nHost: localhost\r\nx-api-key: KEY\r\n"


@requirement("CON-error-malformed")
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /\xff" + HEAD + b"\r\n",
        b"GET /api/v1/tools/%ff%00" + HEAD + b"\r\n",
        b"GET /api/v1/tools/" + b"x" * 20_000 + HEAD + b"\r\n",
        b"GET /api/v1/tools HTTP/1.1\r\nx-api-key: KEY\r\n\r\n",
        b"GET /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nx-api-key: \xff\xfe\r\n\r\n",
        b"GET /api/v1/tools" + HEAD + b"Host: evil.example\r\n\r\n",
        b"POST /api/v1/tools/echo/execute" + HEAD + b"Content-Length: -1\r\n\r\n",
        b"POST /api/v1/tools/echo/execute" + HEAD + b"Content-Length: 99999999999999999999\r\n\r\n",
        b"POST /api/v1/tools/echo/execute" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_bytes_that_are_no_honest_request_get_a_4xx(api: Api, request_bytes: bytes) -> None:
    assert 400 <= raw_request(api, request_bytes.replace(b"KEY", ADMIN_KEY.encode())) < 500


@pytest.mark.parametrize("key", ["", "x" * 256, "with space", "ümlaut", "tab\there"])
def test_an_idempotency_key_of_the_wrong_form_is_400(api: Api, key: str) -> None:
    answer = api.ask("POST", EXECUTE, json={}, headers={"idempotency-key": key.encode("latin-1")})  # type: ignore[dict-item]
    assert (answer.status_code, error_of(answer)["param"]) == (400, "Idempotency-Key")


@requirement("CON-error-no-leak")
def test_no_error_shows_a_trace_a_secret_or_a_path(api: Api) -> None:
    answers = [
        api.ask("GET", "/nowhere"),
        api.ask("GET", "/api/v1/tools/..%2F..%2Fetc%2Fpasswd"),
        api.execute("boom", {"reason": "told"}),
        api.ask("POST", EXECUTE, content=b"{", headers=JSON),
        api.ask("GET", "/readyz"),
        api.ask("GET", "/readyz", key=None),
        api.ask("GET", "/metrics"),
    ]
    for answer in answers:
        assert "Traceback" not in answer.text
        assert str(api.gateway.folder) not in answer.text
        assert "site-packages" not in answer.text
        assert ADMIN_KEY not in answer.text


def test_every_answer_tells_browsers_to_be_careful(api: Api) -> None:
    for path in ("/", "/api/v1/tools", "/nowhere", "/healthz"):
        answer = api.ask("GET", path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers
    assert api.ask("GET", "/api/v1/calls").headers["cache-control"] == "no-store"
    assert api.ask("GET", "/nowhere").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/api/spaces/lobby/messages?beforeSeq=null", "/api/spaces/lobby/messages?afterSeq=NULL"]
)
def test_the_word_null_is_no_number(api: Api, path: str) -> None:
    api.ask("POST", "/api/spaces", json={"id": "lobby", "name": "Lobby"})
    answer = api.ask("GET", path)
    assert (answer.status_code, error_of(answer)["param"]) == (400, path.partition("?")[2].partition("=")[0])


def test_nothing_here_was_a_fault_of_the_gateway(api: Api) -> None:
    log = [line for line in api.gateway.log.splitlines() if " error " in line]
    assert log == []
    assert json.loads(api.ask("GET", "/healthz").text) == {"status": "ok"}
