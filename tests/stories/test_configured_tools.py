"""`[[tools]]` of the types that a gateway runs itself, through the real doors: HTTP requests, and nothing at all."""

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.sources.upstream import Received, Upstream, json_reply, never, redirect, reply

T = TypeVar("T")

CONFIG = """
[outgoing]
allow = ["127.0.0.1:{listed}"]

[[tools]]
name = "weather"
description = "The weather of a city."
executionType = "gateway"
inputSchema = {{ type = "object", properties = {{ city = {{ type = "string" }} }}, required = ["city"] }}
[tools.execution]
url = "{service}/current?units=metric"
method = "GET"
headers = {{ Authorization = "Bearer ${{KEY}}" }}

[[tools]]
name = "order"
description = "Order something."
executionType = "gateway"
inputSchema = {{ type = "object" }}
execution = {{ url = "{service}/orders", headers = {{ X-Shop = "north", Content-Type = "application/vnd.shop+json" }} }}

[[tools]]
name = "change_order"
description = "Change an order."
executionType = "gateway"
inputSchema = {{ type = "object", properties = {{ id = {{ type = "integer" }} }}, required = ["id"] }}
execution = {{ url = "{service}/orders/{{id}}", method = "PUT" }}

[[tools]]
name = "slow"
description = "Never answers."
executionType = "gateway"
inputSchema = {{ type = "object" }}
timeout = 300
execution = {{ url = "{service}/slow" }}

[[tools]]
name = "slow_by_metadata"
description = "Never answers."
executionType = "gateway"
inputSchema = {{ type = "object" }}
execution = {{ url = "{service}/slow" }}
metadata = {{ timeout_seconds = 1 }}

[[tools]]
name = "scarce"
description = "Twice a minute."
executionType = "gateway"
inputSchema = {{ type = "object" }}
execution = {{ url = "{service}/scarce" }}
metadata = {{ rate_limit_per_minute = 2 }}

[[tools]]
name = "chart"
description = "Show a chart."
executionType = "internal"
inputSchema = {{ type = "object", properties = {{ points = {{ type = "array" }} }}, required = ["points"] }}

[[tools]]
name = "remote_ref"
description = "Its schema is elsewhere."
executionType = "internal"
inputSchema = {{ type = "object", properties = {{ a = {{ "$ref" = "{service}/schema.json" }} }} }}
"""
FETCH = """
[[tools]]
name = "fetch_{name}"
description = "Asks for {name}."
executionType = "gateway"
inputSchema = {{ type = "object" }}
execution = {{ url = "{service}/{name}" }}
"""
FETCHED = (
    *("broken", "missing", "page", "empty", "null", "half"),
    *("to_near", "to_metadata", "to_loopback", "to_private", "to_listed", "to_file"),
)


class Loop:
    """An event loop in a thread, for servers that outlive one test."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def served() -> Iterator[Upstream]:
    async def make() -> Upstream:
        return await Upstream().__aenter__()

    loop = Loop()
    try:
        upstream = loop.run(make())
        yield upstream
        loop.run(upstream.__aexit__())
    finally:
        loop.close()


@pytest.fixture(scope="module")
def service() -> Iterator[Upstream]:
    """What the config's urls name."""
    with served() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def secret_service() -> Iterator[Upstream]:
    """Another server on loopback that no url in the config names."""
    with served() as upstream:
        upstream.answers["/secret"] = json_reply("treasure")
        yield upstream


@pytest.fixture(scope="module")
def listed_service() -> Iterator[Upstream]:
    """Another one, which `[outgoing] allow` lists."""
    with served() as upstream:
        upstream.answers["/open"] = json_reply("welcome")
        yield upstream


@pytest.fixture(scope="module")
def gateway(
    service: Upstream,
    secret_service: Upstream,
    listed_service: Upstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningGateway]:
    def echo(request: Received) -> bytes:
        return json_reply({"method": request.method, "body": request.body.decode()})

    service.answers |= {
        "/current": lambda request: json_reply({"sky": "clear", "seen": request.headers.get("authorization")}),
        "/orders": lambda _: json_reply({"ordered": True}, 201),
        "/orders/7": echo,
        "/slow": never,
        "/scarce": json_reply("one"),
        "/schema.json": json_reply({"type": "string"}),
        "/broken": json_reply({"detail": "database on fire"}, 500),
        "/missing": reply(404, b""),
        "/page": reply(200, b"<html>Log in, please</html>", content_type="text/html"),
        "/half": reply(200, b'{"half": ', content_type="application/json"),
        "/empty": reply(204, b""),
        "/null": json_reply(None),
        "/to_near": redirect("/current", 303),
        "/to_metadata": redirect("http://169.254.169.254/latest/meta-data/"),
        "/to_loopback": redirect(f"{secret_service.url}/secret", 307),
        "/to_private": redirect("http://10.0.0.1/"),
        "/to_listed": redirect(f"{listed_service.url}/open", 303),
        "/to_file": redirect("file:///etc/passwd"),
    }
    config = CONFIG.format(service=service.url, listed=listed_service.port)
    config += "".join(FETCH.format(name=name, service=service.url) for name in FETCHED)
    with running_gateway(tmp_path_factory.mktemp("configured"), config, env={"KEY": "weather-key-123"}) as gateway:
        yield gateway


def execute(gateway: RunningGateway, tool: str, **arguments: Any) -> httpx2.Response:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    return httpx2.post(url, json={"arguments": arguments}, headers=gateway.headers, timeout=20)


def last_request(service: Upstream, path: str) -> Received:
    return [request for request in service.received if urlsplit(request.target).path == path][-1]


@requirement(
    "SPACE-type-gateway",
    "SPACE-field-execution-url",
    "SPACE-field-execution-method",
    "SPACE-field-execution-headers",
    "SPACE-sync-url-inline",
)
def test_a_gateway_tool_is_a_request_to_its_url_and_its_answer_is_the_result(
    gateway: RunningGateway, service: Upstream
) -> None:
    answer = execute(gateway, "weather", city="Zürich & more", days=2, detail=True, tags=["a", "b"])

    request = last_request(service, "/current")
    assert (request.method, request.body) == ("GET", b"")
    assert parse_qs(urlsplit(request.target).query) == {
        "units": ["metric"],
        "city": ["Zürich & more"],
        "days": ["2"],
        "detail": ["true"],
        "tags": ["a", "b"],
    }
    assert request.headers["authorization"] == "Bearer weather-key-123"
    body = answer.json()
    assert (answer.status_code, body["success"], body["status"]) == (200, True, "completed")
    assert body["result"] == {"sky": "clear", "seen": "Bearer [redacted]"}


@requirement("SPACE-type-gateway", "SPACE-field-execution-method", "SPACE-field-execution-headers")
def test_without_a_method_it_is_a_post_of_the_arguments_as_json(gateway: RunningGateway, service: Upstream) -> None:
    body = execute(gateway, "order", what="tea", grams=250, gift=None).json()

    request = last_request(service, "/orders")
    assert (request.method, request.json) == ("POST", {"what": "tea", "grams": 250, "gift": None})
    assert request.headers["x-shop"] == "north"
    assert request.headers["content-type"] == "application/vnd.shop+json"
    assert (body["status"], body["result"]) == ("completed", {"ordered": True})


@requirement("SPACE-field-execution-url", "SPACE-field-execution-method")
def test_an_argument_fills_its_place_in_the_url_and_leaves_the_body(gateway: RunningGateway) -> None:
    body = execute(gateway, "change_order", id=7, what="coffee").json()

    assert body["result"] == {"method": "PUT", "body": '{"what":"coffee"}'}


@requirement("DISC-meta-timeout-acts", "SPACE-sync-url-inline")
@pytest.mark.parametrize(("tool", "milliseconds"), [("slow", 300), ("slow_by_metadata", 1000)])
def test_a_url_that_does_not_answer_is_given_up_at_the_tools_timeout(
    gateway: RunningGateway, tool: str, milliseconds: int
) -> None:
    began = time.monotonic()
    answer = execute(gateway, tool)
    took = time.monotonic() - began

    body = answer.json()
    assert (answer.status_code, body["status"], body["error"]["code"]) == (200, "failed", "timeout")
    assert body["result"] == {"error": f"Tool timed out after {milliseconds}ms", "toolCallId": body["call_id"]}
    assert milliseconds / 1000 <= took < milliseconds / 1000 + 30


@pytest.mark.parametrize(
    ("tool", "code", "message"),
    [
        ("fetch_broken", "http_error", 'HTTP 500: {"detail":"database on fire"}'),
        ("fetch_missing", "http_error", "HTTP 404: Not Found"),
        (
            "fetch_page",
            "bad_response",
            "The answer is not JSON (content type: text/html); it begins: <html>Log in, please</html>",
        ),
        (
            "fetch_half",
            "bad_response",
            'The answer is not JSON (content type: application/json); it begins: {"half":',
        ),
    ],
)
@requirement("SPACE-type-gateway")
def test_an_answer_that_is_an_error_or_no_json_fails_the_call_and_says_what_came(
    gateway: RunningGateway, tool: str, code: str, message: str
) -> None:
    answer = execute(gateway, tool)

    assert (answer.status_code, answer.json()["status"]) == (200, "failed")
    assert answer.json()["error"] == {"code": code, "message": message}


@pytest.mark.parametrize("tool", ["fetch_empty", "fetch_null"])
def test_an_empty_answer_and_null_are_the_result_null(gateway: RunningGateway, tool: str) -> None:
    body = execute(gateway, tool).json()

    assert (body["status"], body["success"], body["result"], body["error"]) == ("completed", True, None, None)


@requirement("CON-outgoing-guard")
@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("fetch_to_metadata", "The request to '169.254.169.254' was refused: that is a cloud metadata address."),
        ("fetch_to_loopback", "The request to '127.0.0.1' was refused: that is a loopback address."),
        ("fetch_to_private", "The request to '10.0.0.1' was refused: that is a private address."),
    ],
)
def test_a_redirect_to_an_address_behind_the_wall_is_refused_and_nothing_is_sent_there(
    gateway: RunningGateway, secret_service: Upstream, tool: str, reason: str
) -> None:
    answer = execute(gateway, tool, token="give it to me")

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (200, "outgoing_refused")
    assert error["message"].startswith(reason)
    assert "[outgoing]" in error["message"]
    assert secret_service.connections == 0
    assert "treasure" not in answer.text


@requirement("CON-outgoing-guard")
def test_a_redirect_to_a_file_is_refused(gateway: RunningGateway) -> None:
    answer = execute(gateway, "fetch_to_file")

    assert (answer.json()["status"], answer.json()["result"]) == ("failed", None)
    assert "root:" not in answer.text


@requirement("CON-outgoing-guard")
def test_a_redirect_within_the_configs_own_origin_or_to_a_listed_address_is_followed(
    gateway: RunningGateway, listed_service: Upstream
) -> None:
    assert execute(gateway, "fetch_to_near").json()["result"] == {"sky": "clear", "seen": None}
    assert execute(gateway, "fetch_to_listed").json()["result"] == "welcome"
    assert listed_service.targets == ["/open"]


@requirement("CON-outgoing-guard")
def test_a_tool_whose_schema_is_elsewhere_is_left_out_with_a_notice_and_nothing_is_fetched(
    gateway: RunningGateway, service: Upstream
) -> None:
    names = httpx2.get(f"{gateway.url}/api/v1/tools", headers=gateway.headers).json()["tools"]
    notices = httpx2.get(f"{gateway.url}/readyz", headers=gateway.headers).json()["notices"]

    assert "remote_ref" not in [tool["name"] for tool in names]
    assert "chart" in [tool["name"] for tool in names]
    assert [notice["message"] for notice in notices] == [
        (
            f"Tool 'remote_ref' of 'internal' is left out: its input schema refers to '{service.url}/schema.json', "
            "and nothing outside a schema is fetched; put that part under $defs. Correct it there."
        )
    ]
    assert execute(gateway, "remote_ref").status_code == 404
    assert "/schema.json" not in service.targets


@requirement("SPACE-type-internal")
def test_an_internal_tool_runs_nothing_and_gives_its_arguments_back(gateway: RunningGateway, service: Upstream) -> None:
    before = len(service.received)

    body = execute(gateway, "chart", points=[1, 2.5, None], title="é").json()

    assert body["result"] == {"success": True, "args": {"points": [1, 2.5, None], "title": "é"}}
    assert body["status"] == "completed"
    assert len(service.received) == before
    assert execute(gateway, "chart").json()["error"]["code"] == "invalid_arguments"


@requirement("CON-error-rate-limited", "DISC-meta-rate-limit-acts")
def test_calls_past_the_limit_are_refused_with_when_to_come_back_and_do_not_reach_the_url(
    gateway: RunningGateway, service: Upstream
) -> None:
    answers = [execute(gateway, "scarce") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    error = answers[2].json()["error"]
    assert (error["code"], "scarce" in error["message"]) == ("rate_limited", True)
    assert 1 <= int(answers[2].headers["retry-after"]) <= 60
    assert service.targets.count("/scarce") == 2
