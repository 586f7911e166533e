"""One call through the door: its three forms, its refusals, its repeats."""

import json
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jackfield.protocol.sse import EventParser, ServerEvent
from tests.harness.api import Api, error_of, open_api
from tests.requirement import requirement
from tests.waiting import eventually

SHAPE = ["success", "call_id", "run_id", "status", "result", "error", "execution_time_ms"]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@requirement("CON-exec-shape", "DISC-future-execution")
def test_a_completed_call_answers_with_all_seven_fields(api: Api) -> None:
    answer = api.execute("add", {"a": 2, "b": 3}, key="caller")
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == SHAPE
    assert (body["success"], body["status"], body["result"], body["error"]) == (True, "completed", 5, None)
    assert body["call_id"].startswith("call_")
    assert body["run_id"].startswith("run_")
    assert 0 <= body["execution_time_ms"] < 5000
    assert answer.headers["x-call-id"] == body["call_id"]
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "value", [None, False, 0, "", [], {}, "ünïcode ☃", 12345678901234567890123, 1.5, {"a": [1, None]}]
)
def test_a_result_comes_back_as_it_is(api: Api, value: Any) -> None:
    body = api.execute("echo", {"value": value}).json()
    assert (body["status"], body["result"]) == ("completed", value)


@pytest.mark.parametrize("sent", [{"json": {}}, {}, {"content": b"", "headers": {"content-type": "application/json"}}])
def test_arguments_may_be_left_out(api: Api, sent: dict[str, Any]) -> None:
    answer = api.ask("POST", "/api/v1/tools/echo/execute", **sent)
    assert answer.json()["result"] is None


@requirement("CON-error-tool-failure-is-result")
def test_a_failing_tool_is_a_result_and_not_an_http_error(api: Api) -> None:
    answer = api.execute("boom", {"reason": "out of luck"})
    body = answer.json()
    assert answer.status_code == 200
    assert list(body) == SHAPE
    assert (body["success"], body["status"]) == (False, "failed")
    assert set(body["error"]) == {"code", "message"}
    assert "out of luck" in body["error"]["message"]
    assert "Traceback" not in answer.text


@requirement("DISC-meta-timeout-acts")
def test_a_tool_that_takes_too_long_is_stopped_by_its_metadata(api: Api) -> None:
    body = api.execute("sleeper").json()
    assert (body["status"], body["error"]["code"]) == ("failed", "timeout")
    assert body["result"] == {"error": "Tool timed out after 1000ms", "toolCallId": body["call_id"]}
    assert 900 < body["execution_time_ms"] < 5000


@requirement("CON-error-invalid-arguments", "DISC-params-required", "DISC-params-additional")
@pytest.mark.parametrize(
    ("tool", "arguments", "place"),
    [
        ("add", {}, "a"),
        ("add", {"a": "two"}, "a"),
        ("add", {"a": 1, "b": None}, "b"),
        ("strict", {"n": 0}, "n"),
        ("strict", {"n": 1, "extra": True}, "extra"),
    ],
)
def test_arguments_that_break_the_schema_are_400_with_every_fault(
    api: Api, tool: str, arguments: dict[str, Any], place: str
) -> None:
    answer = api.execute(tool, arguments)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_arguments", "arguments")
    assert error["details"]
    for detail in error["details"]:
        assert set(detail) == {"path", "message"}
    assert place in json.dumps(error["details"])


@requirement("CON-error-rate-limited", "DISC-meta-rate-limit-acts")
def test_calls_past_the_limit_are_429_and_told_when_to_come_back(api: Api) -> None:
    answers = [api.execute("scarce") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert error_of(answers[2])["code"] == "rate_limited"
    assert 1 <= int(answers[2].headers["retry-after"]) <= 60


def test_a_switched_off_tool_is_403(api: Api) -> None:
    answer = api.execute("asleep")
    assert (answer.status_code, error_of(answer)["code"]) == (403, "disabled")


def test_a_call_that_needs_approval_is_202_and_waits(api: Api) -> None:
    answer = api.execute("guarded", {"amount": 3})
    body = answer.json()
    assert answer.status_code == 202
    assert list(body) == SHAPE
    assert (body["success"], body["status"], body["error"]) == (False, "pending_approval", None)
    assert body["result"]["status"] == "pending_approval"
    assert body["result"]["pendingToolCallId"] == body["call_id"]
    record = api.ask("GET", f"/api/v1/calls/{body['call_id']}").json()["call"]
    assert (record["status"], record["arguments"]) == ("pending_approval", {"amount": 3})


@requirement("CON-exec-idempotency-key")
def test_the_same_idempotency_key_and_body_is_one_call(api: Api, tmp_path: Path) -> None:
    counted = str(tmp_path / "count")
    headers = {"idempotency-key": "once-1"}
    first = api.execute("count", {"path": counted}, headers=headers)
    body = f'{{ "arguments" : {{ "path" : {json.dumps(counted)} }} }}'.encode()
    again = api.ask(
        "POST",
        "/api/v1/tools/count/execute",
        content=body,
        headers={**headers, "content-type": "application/json"},
    )
    assert first.json() == again.json()
    assert first.json()["result"] == 1
    assert Path(counted).read_text() == "x"


@requirement("CON-exec-idempotency-key")
@pytest.mark.parametrize(("tool", "arguments"), [("echo", {"value": 2}), ("count", {"path": "/nowhere/x"})])
def test_the_same_idempotency_key_with_another_body_or_tool_is_409(
    api: Api, tool: str, arguments: dict[str, Any]
) -> None:
    headers = {"idempotency-key": f"conflict-{tool}"}
    assert api.execute("echo", {"value": 1}, headers=headers).status_code == 200
    answer = api.execute(tool, arguments, headers=headers)
    assert (answer.status_code, error_of(answer)["code"]) == (409, "conflict")


@requirement("CON-exec-idempotency-key")
def test_an_idempotency_key_is_each_principals_own(api: Api, tmp_path: Path) -> None:
    counted = {"path": str(tmp_path / "count")}
    headers = {"idempotency-key": "shared"}
    results = [api.execute("count", counted, key=key, headers=headers).json()["result"] for key in ("caller", "rival")]
    assert results == [1, 2]


@requirement("CON-exec-idempotency-key")
def test_repeats_at_the_same_time_run_the_tool_once(api: Api, tmp_path: Path) -> None:
    counted = {"path": str(tmp_path / "count")}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: api.execute("count", counted, headers={"idempotency-key": "race"}), range(8)))
    assert {answer.json()["call_id"] for answer in answers} == {answers[0].json()["call_id"]}
    assert (tmp_path / "count").read_text() == "x"


@requirement("CON-exec-run-id")
def test_a_run_is_known_or_404_and_another_principals_is_403(api: Api) -> None:
    run_id = api.execute("echo", key="caller").json()["run_id"]
    same = api.execute("echo", key="caller", body={"run_id": run_id})
    assert same.json()["run_id"] == run_id
    unknown = api.execute("echo", key="caller", body={"run_id": "run_none"})
    assert (unknown.status_code, error_of(unknown)["code"]) == (404, "run_not_found")
    foreign = api.execute("echo", key="rival", body={"run_id": run_id})
    assert (foreign.status_code, error_of(foreign)["code"]) == (403, "forbidden")


def stream(api: Api, tool: str, arguments: dict[str, Any], **more: Any) -> tuple[dict[str, str], list[ServerEvent]]:
    """The headers and all events of one streamed call."""
    events: list[ServerEvent] = []
    parser = EventParser()
    headers = {"x-api-key": "caller-key", "accept": "text/event-stream"}
    with api.client.stream(
        "POST", f"/api/v1/tools/{tool}/execute", headers=headers, json={"arguments": arguments}, **more
    ) as answer:
        assert answer.status_code == 200
        for chunk in answer.iter_bytes():
            events += parser.feed(chunk)
        return dict(answer.headers), events


@requirement("CON-exec-sse")
def test_a_streamed_call_tells_its_events_and_ends_with_the_same_object(api: Api) -> None:
    headers, events = stream(api, "stepping", {})
    assert headers["content-type"].startswith("text/event-stream")
    assert [event.type for event in events] == [
        "call.started",
        "call.progress",
        "call.progress",
        "call.settled",
        "call.result",
    ]
    told = [json.loads(event.data) for event in events]
    assert [one["progress"] for one in told[1:3]] == [
        {"progress": 1.0, "total": 2.0, "message": "half"},
        {"progress": 2.0, "total": 2.0, "message": "whole"},
    ]
    assert {one["call_id"] for one in told} == {headers["x-call-id"]}
    assert list(told[-1]) == SHAPE
    assert (told[-1]["status"], told[-1]["result"]) == ("completed", "there")
    for one in told[:-1]:
        assert {"type", "call_id", "run_id", "tool", "agent", "status", "at"} <= set(one)
        assert one["at"].endswith("Z")
    record = api.ask("GET", f"/api/v1/calls/{headers['x-call-id']}").json()["call"]
    assert (record["status"], record["result"]) == ("completed", "there")


@requirement("CON-exec-sse")
def test_a_streamed_failure_and_a_streamed_approval_end_with_their_object(api: Api) -> None:
    _, failed = stream(api, "boom", {"reason": "no"})
    assert json.loads(failed[-1].data)["status"] == "failed"
    _, waiting = stream(api, "guarded", {"amount": 1})
    assert (waiting[-1].type, json.loads(waiting[-1].data)["status"]) == ("call.result", "pending_approval")


@requirement("CON-exec-idempotency-key")
def test_a_streamed_repeat_answers_with_the_first_call(api: Api, tmp_path: Path) -> None:
    counted = {"path": str(tmp_path / "count")}
    sent = {"idempotency-key": "streamed", "accept": "text/event-stream"}
    first = api.execute("count", counted, key="caller", headers={"idempotency-key": "streamed"}).json()
    repeat = api.execute("count", counted, key="caller", headers=sent)
    [event] = EventParser().feed(repeat.content)
    assert (event.type, json.loads(event.data)) == ("call.result", first)
    assert repeat.headers["x-call-id"] == first["call_id"]
    assert (tmp_path / "count").read_text() == "x"


@pytest.mark.parametrize(("tool", "status"), [("missing", 404), ("add", 400), ("asleep", 403)])
def test_what_is_refused_before_the_first_event_is_an_ordinary_error(api: Api, tool: str, status: int) -> None:
    answer = api.execute(tool, {}, key="caller", headers={"accept": "text/event-stream"})
    assert answer.status_code == status
    assert error_of(answer)["message"]


def test_a_streamed_call_goes_on_when_its_listener_leaves(api: Api, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    headers = {"x-api-key": "caller-key", "accept": "text/event-stream"}
    path = "/api/v1/tools/slow/execute"
    with api.client.stream("POST", path, headers=headers, json={"arguments": {"gate": str(gate)}}) as answer:
        next(answer.iter_bytes())
        call_id = answer.headers["x-call-id"]
    gate.touch()
    assert eventually(lambda: settled(api, call_id)) == ("completed", "done")


def test_calls_at_the_same_time_do_not_wait_for_each_other(api: Api, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(api.execute, "slow", {"gate": str(gate)})
        assert api.execute("add", {"a": 1}).json()["result"] == 2
        assert not waiting.done()
        gate.touch()
        assert waiting.result(20).json()["result"] == "done"


def test_64_at_once_each_get_their_own_result(api: Api) -> None:
    start = threading.Barrier(64)

    def one(number: int) -> int:
        start.wait(20)
        result: int = api.execute("add", {"a": number, "b": 0}).json()["result"]
        return result

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(one, range(64))) == list(range(64))


def settled(api: Api, call_id: str) -> tuple[str, Any] | tuple[()]:
    """How the call ended; nothing while it has not. A call has its record 50 ms after its start at the latest."""
    answer = api.ask("GET", f"/api/v1/calls/{call_id}")
    if answer.status_code == 404:
        return ()
    record: dict[str, Any] = answer.json()["call"]
    return (record["status"], record["result"]) if record["finished_at"] else ()
