"""The records of calls: one, pages, filters, whose they are, live, and how to stop one."""

import json
import re
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.protocol.sse import EventParser
from tests.harness.api import Api, error_of, open_api
from tests.requirement import requirement
from tests.waiting import eventually

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
FIELDS = {
    "id",
    "call_id",
    "run_id",
    "login",
    "login_url",
    "tool",
    "source",
    "tool_version",
    "kind",
    "arguments",
    "principal",
    "agent",
    "space_id",
    "chat_id",
    "status",
    "delivery",
    "result",
    "error",
    "answered_by",
    "attempt",
    "count",
    "created_at",
    "finished_at",
    "deadline",
    "expires_at",
    "execution_time_ms",
    "callback_url",
    "approval_url",
    "asked_arguments",
    "decision",
    "decided_by",
    "decided_at",
    "hooks",
    "answer_schema",
    "waits_for",
    "verified_by",
    "trace",
    "toolCallId",
    "agentEntityId",
    "runId",
    "toolName",
    "args",
    "expiresAt",
    "trace_id",
    "replay_of",
    "timeline",
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


def page(api: Api, key: str = "admin", **params: Any) -> dict[str, Any]:
    answer = api.ask("GET", "/api/v1/calls", key=key, params=params)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    assert set(found) == {"calls", "next_cursor"}
    return found


def record(api: Api, call_id: str, key: str = "admin") -> dict[str, Any]:
    found: dict[str, Any] = api.ask("GET", f"/api/v1/calls/{call_id}", key=key).json()["call"]
    return found


@requirement("CON-calls-record")
def test_a_record_has_all_that_is_known_of_a_call(api: Api) -> None:
    body = {"agent": "ada", "space_id": "lobby", "chat_id": "c1"}
    made = api.execute("add", {"a": 2}, key="caller", body=body).json()
    found = record(api, made["call_id"])
    assert set(found) == FIELDS
    assert found["id"] == found["call_id"] == made["call_id"]
    assert {name: found[name] for name in ("tool", "source", "principal", "agent", "space_id", "chat_id")} == {
        "tool": "add",
        "source": "local",
        "principal": "caller",
        "agent": "ada",
        "space_id": "lobby",
        "chat_id": "c1",
    }
    assert (found["arguments"], found["result"], found["error"]) == ({"a": 2}, 3, None)
    assert (found["status"], found["run_id"]) == ("completed", made["run_id"])
    assert found["tool_version"] == api.ask("GET", "/api/v1/tools/add").json()["version"]
    assert TIME.fullmatch(found["created_at"])
    assert TIME.fullmatch(found["finished_at"])
    assert found["created_at"] <= found["finished_at"]
    assert found["execution_time_ms"] == made["execution_time_ms"]


@requirement("CON-calls-record")
def test_a_failed_call_is_on_record_with_its_error(api: Api) -> None:
    made = api.execute("boom", {"reason": "no luck"}).json()
    found = record(api, made["call_id"])
    assert (found["status"], found["error"]) == ("failed", made["error"])


@requirement("CON-calls-record")
def test_pages_go_from_the_newest_to_the_oldest_without_a_gap(api: Api) -> None:
    run_id = api.execute("echo", {"value": 0}).json()["run_id"]
    for number in range(1, 5):
        api.execute("echo", {"value": number}, body={"run_id": run_id})
    seen: list[int] = []
    cursor: str | None = None
    sizes = []
    while True:
        found = page(api, run_id=run_id, limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [call["result"] for call in found["calls"]]
        sizes.append(len(found["calls"]))
        cursor = found["next_cursor"]
        if cursor is None:
            break
    assert seen == [4, 3, 2, 1, 0]
    assert sizes == [2, 2, 1]


@requirement("CON-calls-record")
def test_pages_are_filtered_by_status_tool_agent_and_run(api: Api) -> None:
    good = api.execute("add", {"a": 1}, body={"agent": "filter"}).json()
    bad = api.execute("boom", body={"agent": "filter"}).json()

    def ids(**params: Any) -> list[str]:
        return [call["id"] for call in page(api, **params)["calls"]]

    assert ids(agent="filter") == [bad["call_id"], good["call_id"]]
    assert ids(agent="filter", status="failed") == [bad["call_id"]]
    assert ids(agent="filter", status="failed,completed") == [bad["call_id"], good["call_id"]]
    assert ids(agent="filter", status="pending") == []
    assert ids(agent="filter", tool="add") == [good["call_id"]]
    assert ids(run_id=good["run_id"]) == [good["call_id"]]


def test_a_key_sees_its_own_calls_and_no_others(api: Api) -> None:
    mine = api.execute("echo", key="caller").json()["call_id"]
    theirs = api.execute("echo", key="rival").json()["call_id"]
    assert record(api, mine, key="caller")["principal"] == "caller"
    hidden = api.ask("GET", f"/api/v1/calls/{theirs}", key="caller")
    assert (hidden.status_code, error_of(hidden)["code"]) == (404, "call_not_found")
    assert {call["principal"] for call in page(api, key="caller")["calls"]} == {"caller"}
    assert {"caller", "rival"} <= {call["principal"] for call in page(api)["calls"]}


def start_slow(api: Api, pool: ThreadPoolExecutor, gate: Path) -> tuple[str, "Future[httpx2.Response]"]:
    """A call that runs until `gate` exists: its id, and the answer to come."""
    answer = pool.submit(api.execute, "slow", {"gate": str(gate)}, key="caller")
    running = eventually(lambda: page(api, key="caller", tool="slow", status="running")["calls"])
    return running[0]["id"], answer


@requirement("CON-calls-cancel")
def test_cancel_stops_a_running_call_and_is_409_after(api: Api, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        call_id, answer = start_slow(api, pool, tmp_path / "gate")
        assert api.ask("POST", f"/api/v1/calls/{call_id}/cancel", key="rival").status_code == 404
        assert api.ask("POST", f"/api/v1/calls/{call_id}/cancel", key="reader").status_code == 403
        cancelled = api.ask("POST", f"/api/v1/calls/{call_id}/cancel", key="caller")
        assert (cancelled.status_code, cancelled.json()["call"]["status"]) == (200, "cancelled")
        told = answer.result(20).json()
        assert (told["success"], told["status"], told["error"]["code"]) == (False, "cancelled", "cancelled")
    again = api.ask("POST", f"/api/v1/calls/{call_id}/cancel", key="caller")
    assert (again.status_code, error_of(again)["code"]) == (409, "already_resolved")
    assert record(api, call_id)["status"] == "cancelled"


@requirement("CON-calls-cancel")
def test_cancel_stops_a_call_that_waits_for_approval(api: Api) -> None:
    call_id = api.execute("guarded", {"amount": 1}, key="caller").json()["call_id"]
    cancelled = api.ask("POST", f"/api/v1/calls/{call_id}/cancel", key="caller")
    assert (cancelled.status_code, cancelled.json()["call"]["status"]) == (200, "cancelled")
    assert api.ask("POST", f"/api/v1/calls/{call_id}/cancel", key="caller").status_code == 409


def test_the_live_stream_tells_what_happens_to_the_keys_own_calls(api: Api) -> None:
    parser = EventParser()
    events: list[dict[str, Any]] = []
    headers = {"x-api-key": "caller-key"}
    with api.client.stream("GET", "/api/v1/calls/stream?tool=add", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        chunks = answer.iter_bytes()
        next(chunks)
        api.execute("add", {"a": 1}, key="rival")
        api.execute("echo", key="caller")
        made = api.execute("add", {"a": 5}, key="caller").json()
        while len(events) < 2:
            for event in parser.feed(next(chunks)):
                told = json.loads(event.data)
                assert told["type"] == event.type
                events.append(told)
    assert [(event["type"], event["call_id"]) for event in events] == [
        ("call.started", made["call_id"]),
        ("call.settled", made["call_id"]),
    ]
    assert (events[1]["status"], events[1]["tool"]) == ("completed", "add")


def test_the_live_stream_can_be_of_one_status(api: Api) -> None:
    parser = EventParser()
    with api.client.stream(
        "GET", "/api/v1/calls/stream?status=pending_approval", headers={"x-api-key": "caller-key"}
    ) as answer:
        chunks = answer.iter_bytes()
        next(chunks)
        api.execute("echo", key="caller")
        waiting = api.execute("guarded", {"amount": 2}, key="caller").json()
        told: list[dict[str, Any]] = []
        while not told:
            told += [json.loads(event.data) for event in parser.feed(next(chunks))]
    assert [(one["status"], one["call_id"]) for one in told] == [("pending_approval", waiting["call_id"])]
