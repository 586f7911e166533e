"""Seed 003's decision flow through the doors: pending at once, waited for, too late, and callers that hang up."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Generator
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from tests.harness.api import Api, error_of
from tests.requirement import requirement
from tests.stories.pending import PendingClient, hang_up_after, pending_api, pending_client, raw_execute
from tests.waiting import TIMEOUT, Stopwatch, eventually_async

PENDING_TEXT = "Waiting for result. It will arrive in your inbox when ready."


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with pending_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture
async def at(api: Api) -> AsyncIterator[PendingClient]:
    async with pending_client(api) as opened:
        yield opened


@requirement("CON-exec-202", "SPACE-field-is-async", "SPACE-flow-async", "SPACE-async-returns-at-once")
@requirement("SPACE-cycle-pending-id", "SPACE-async-inbox-later")
async def test_an_async_tool_is_pending_at_once_and_its_result_comes_by_inbox(at: PendingClient) -> None:
    answer = await at.execute("ext_job", {"n": 1}, agent="async")
    body = answer.json()
    assert answer.status_code == 202
    assert (body["success"], body["status"], body["error"]) == (False, "pending", None)
    assert body["result"] == {"status": "pending", "pendingToolCallId": body["call_id"], "message": PENDING_TEXT}
    record = await at.record(body["call_id"])
    assert (record["status"], record["delivery"], record["run_id"]) == ("pending", "inbox", body["run_id"])
    assert await at.inbox("async") == []
    assert (await at.submit(body, result="ready")).json()["delivery"] == "inbox"
    [event] = await at.inbox("async")
    assert (event["eventId"], event["type"], event["status"]) == (f"tr:{body['call_id']}", "tool_result", "pending")
    assert event["data"] == {
        "toolCallId": body["call_id"],
        "toolName": "ext_job",
        "originRunId": body["run_id"],
        "result": "ready",
    }


@requirement("SPACE-example-confirm-pending")
async def test_a_person_in_a_space_answers_a_confirmation_later(at: PendingClient) -> None:
    answer = await at.execute("confirmAction", {"question": "Book it?"}, agent="tokyo", space_id="lobby")
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    assert (await at.submit(answer.json(), key="answerer", result={"confirmed": True})).status_code == 200
    assert [event["data"]["result"] for event in await at.inbox("tokyo")] == [{"confirmed": True}]


@requirement("SPACE-tools-agnostic")
async def test_a_tool_works_the_same_with_and_without_a_space(at: PendingClient) -> None:
    told = []
    places: list[dict[str, Any]] = [{}, {"space_id": "lobby"}]
    for where in places:
        call = at.begin("ask_person", {"n": 1}, agent="anywhere", **where)
        record = await at.waiting("ask_person")
        assert record["arguments"] == {"n": 1}, "no tool is told where it is shown"
        await at.submit(record, key="answerer", result="yes")
        told.append((await call).json())
    for one in told:
        del one["call_id"], one["run_id"], one["execution_time_ms"]
    assert told[0] == told[1]


async def test_a_sync_space_tool_waits_for_a_person(at: PendingClient) -> None:
    call = at.begin("ask_person", agent="asker")
    record = await at.waiting("ask_person")
    await at.submit(record, key="answerer", result="yes")
    assert (await call).json()["result"] == "yes"


@requirement("SPACE-sync-waits", "SPACE-flow-sync", "SPACE-sync-flow-status")
async def test_a_sync_call_is_seen_as_waiting_until_its_result_is_there(at: PendingClient) -> None:
    call = at.begin("ext_lookup")
    record = await at.waiting("ext_lookup")
    assert (record["status"], record["delivery"], record["result"]) == ("waiting", None, None)
    assert record["deadline"] > record["created_at"]
    assert not call.done()
    await at.submit(record, result=1)
    assert (await call).json()["status"] == "completed"


@requirement("SPACE-sync-timeout-error", "SPACE-flow-sync-timeout", "SPACE-sync-flow-error-text", "SPACE-field-timeout")
@requirement("SPACE-never-forever", "SPACE-sync-flow-late-inbox")
async def test_past_the_timeout_the_caller_has_an_error_and_the_late_result_is_in_the_inbox_once(
    at: PendingClient,
) -> None:
    began = time.monotonic()
    answer = await at.execute("ext_quick", agent="late")
    assert 0.25 < time.monotonic() - began < TIMEOUT
    body = answer.json()
    text = "Tool timed out after 300ms"
    assert answer.status_code == 200
    assert (body["success"], body["status"]) == (False, "failed")
    assert body["error"] == {"code": "timeout", "message": text}
    assert body["result"] == {"error": text, "toolCallId": body["call_id"]}
    record = await at.record(body["call_id"])
    assert (record["status"], record["delivery"], record["error"]) == ("pending", "inbox", None)
    submitted = await at.submit(body, result="late")
    assert (submitted.status_code, submitted.json()["delivery"]) == (200, "inbox")
    assert (await at.submit(body, result="later")).status_code == 409
    assert [event["data"]["result"] for event in await at.inbox("late")] == ["late"]
    assert (await at.record(body["call_id"]))["status"] == "completed"


@requirement("SPACE-example-external-late", "SPACE-example-external-submits")
async def test_ten_seconds_are_ten_seconds(at: PendingClient) -> None:
    submitted, late = at.begin("ext_lookup", agent="ten"), at.begin("ext_lookup", agent="ten")
    await eventually_async(partial(_count_waiting, at, 2))
    page = (await at.ask("GET", "/api/v1/calls?tool=ext_lookup&status=waiting")).json()["calls"]
    await at.submit(page[0], result="in time")
    told = [(await call).json() for call in (submitted, late)]
    [in_time] = [one for one in told if one["status"] == "completed"]
    [too_late] = [one for one in told if one["status"] == "failed"]
    assert in_time["result"] == "in time"
    assert too_late["error"]["message"] == "Tool timed out after 10000ms"
    await at.submit(too_late, result="after all")
    assert [event["data"]["result"] for event in await at.inbox("ten")] == ["after all"]


async def _count_waiting(at: PendingClient, count: int) -> bool:
    page = (await at.ask("GET", "/api/v1/calls?tool=ext_lookup&status=waiting")).json()
    return len(page["calls"]) == count


@requirement("CON-late-result-home")
async def test_a_late_result_of_a_call_without_an_agent_is_in_the_record_alone(at: PendingClient) -> None:
    body = (await at.execute("ext_quick")).json()
    submitted = await at.submit(body, result="late")
    assert (submitted.status_code, submitted.json()["agentEntityId"]) == (200, None)
    record = await at.record(body["call_id"])
    assert (record["status"], record["result"]) == ("completed", "late")


async def test_a_result_in_the_moment_of_the_deadline_is_inline_or_in_the_inbox_and_never_both(
    at: PendingClient,
) -> None:
    outcomes = set()
    for trial in range(20):
        agent = f"edge-{trial}"
        call = at.begin("ext_quick", agent=agent)
        record = await eventually_async(lambda: _newest_of(at, agent))  # noqa: B023 - asked within this turn
        # Nobody answers before the deadline, so this is the moment: a little earlier or later each time.
        await asyncio.wait([call], timeout=max(0.0, _until_deadline(record) - 0.02 + 0.002 * trial))
        submitted = (await at.submit(record, result="edge")).json()
        body = (await call).json()
        events = [event["data"]["result"] for event in await at.inbox(agent)]
        outcomes.add(submitted["delivery"])
        if submitted["delivery"] == "inline":
            assert (body["result"], events) == ("edge", [])
        else:
            assert (body["error"]["code"], events) == ("timeout", ["edge"])
    assert outcomes <= {"inline", "inbox"}


async def _newest_of(at: PendingClient, agent: str) -> dict[str, Any]:
    """The record of the agent's call, whatever has become of it by now."""
    page = (await at.ask("GET", "/api/v1/calls", params={"tool": "ext_quick", "agent": agent})).json()
    found: dict[str, Any] = page["calls"][0] if page["calls"] else {}
    return found


def _until_deadline(record: dict[str, Any]) -> float:
    """Seconds; both clocks are this machine's."""
    return datetime.fromisoformat(record["created_at"]).timestamp() + 0.3 - time.time()


@requirement("CON-late-result-home")
@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
async def test_a_client_that_hangs_up_while_it_waits_finds_the_result_in_the_inbox_once(
    api: Api, at: PendingClient, accept: str
) -> None:
    agent = f"gone-{len(accept)}"
    request = raw_execute(api, "ext_lookup", agent=agent, accept=accept)
    record = await hang_up_after(api, request, lambda: at.waiting("ext_lookup"))
    pending = await eventually_async(lambda: _in_status(at, record["call_id"], "pending"))
    assert (pending["delivery"], pending["agent"]) == ("inbox", agent)
    assert (await at.submit(record, result="for the inbox")).json()["delivery"] == "inbox"
    assert [event["data"]["result"] for event in await at.inbox(agent)] == ["for the inbox"]


async def test_a_client_without_an_agent_that_hangs_up_leaves_its_result_in_the_record(
    api: Api, at: PendingClient
) -> None:
    record = await hang_up_after(api, raw_execute(api, "ext_lookup"), lambda: at.waiting("ext_lookup"))
    await eventually_async(lambda: _in_status(at, record["call_id"], "pending"))
    await at.submit(record, result="kept")
    assert (await at.record(record["call_id"]))["result"] == "kept"


@requirement("CON-late-result-home")
@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
async def test_a_client_that_hangs_up_while_its_tool_runs_finds_the_result_in_the_inbox_once(
    api: Api, at: PendingClient, accept: str, tmp_path: object
) -> None:
    agent, gate = f"left-{len(accept)}", f"{tmp_path}/gate"
    request = raw_execute(api, "slow", agent=agent, accept=accept, arguments={"gate": gate})
    running = await hang_up_after(api, request, lambda: at.waiting("slow", status="running"))
    with open(gate, "w"):  # noqa: ASYNC230, PTH123 - an empty file on a local disk
        pass
    events = await eventually_async(lambda: at.inbox(agent))
    assert [(event["eventId"], event["data"]["result"]) for event in events] == [(f"tr:{running['call_id']}", "done")]


async def _in_status(at: PendingClient, call_id: str, status: str) -> dict[str, Any]:
    record = await at.record(call_id)
    return record if record["status"] == status else {}


async def test_a_client_that_has_its_answer_finds_nothing_in_the_inbox(at: PendingClient) -> None:
    for headers in ({}, {"accept": "text/event-stream"}):
        answer = await at.execute("add", {"a": 1}, agent="served", headers=headers)
        assert answer.status_code == 200
        assert "completed" in answer.text
    await at.execute("ext_quick", agent="served")  # three sweeps would have found something to give by then
    assert await at.inbox("served") == []


async def test_a_stream_of_a_call_that_others_answer_tells_that_it_waits_and_then_its_answer(at: PendingClient) -> None:
    call = at.begin("ext_lookup", agent="listener", headers={"accept": "text/event-stream"})
    record = await at.waiting("ext_lookup")
    await at.submit(record, result=[1])
    answer = await call
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    told = [json.loads(line) for line in lines]
    assert [one.get("type") for one in told] == ["call.pending", "call.settled", None]
    assert (told[-1]["status"], told[-1]["result"]) == ("completed", [1])
    assert await at.inbox("listener") == []


async def test_a_repeat_with_the_same_key_waits_for_the_same_call_and_delivers_nothing_twice(at: PendingClient) -> None:
    headers = {"idempotency-key": "one-lookup"}
    first = at.begin("ext_lookup", agent="twice", headers=headers)
    record = await at.waiting("ext_lookup")
    again = at.begin("ext_lookup", agent="twice", headers=headers)
    await at.submit(record, result="once")
    answers = [(await call).json() for call in (first, again)]
    assert answers[0] == answers[1]
    assert answers[0]["result"] == "once"
    later = await at.execute("ext_lookup", agent="twice", headers=headers)
    assert later.json() == answers[0]
    assert await at.inbox("twice") == []


async def test_a_waiting_call_can_be_cancelled_and_its_caller_is_told(at: PendingClient) -> None:
    call = at.begin("ext_lookup")
    record = await at.waiting("ext_lookup")
    answer = await at.ask("POST", f"/api/v1/calls/{record['call_id']}/cancel", key="caller")
    assert (answer.status_code, answer.json()["call"]["status"]) == (200, "cancelled")
    told = (await call).json()
    assert (told["status"], told["error"]["code"]) == ("cancelled", "cancelled")
    late = await at.submit(record, result=1)
    assert (late.status_code, error_of(late)["code"]) == (409, "already_resolved")


async def test_a_stopping_gateway_leaves_a_waiting_call_to_the_next_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("restart")
    with pending_api(folder) as api:
        async with pending_client(api) as at:
            call = at.begin("ext_lookup", agent="survivor")
            record = await at.waiting("ext_lookup")
            watch = Stopwatch()
            assert await asyncio.to_thread(api.gateway.stop) == 0
            assert watch.seconds() < 5
            told = await call
            assert (told.status_code, told.json()["status"]) == (202, "pending")
            assert told.json()["call_id"] == record["call_id"]
    with pending_api(folder) as api:
        async with pending_client(api) as at:
            assert (await at.submit(record, result="after the restart")).status_code == 200
            events = await eventually_async(lambda: at.inbox("survivor"))
            assert [event["data"]["result"] for event in events] == ["after the restart"]
