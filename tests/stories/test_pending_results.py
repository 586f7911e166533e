"""Results from outside: what is taken, from whom, and that the second answer loses."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Generator
from itertools import pairwise
from typing import Any

import pytest

from tests.harness.api import Api, error_of
from tests.requirement import requirement
from tests.stories.pending import PendingClient, pending_api, pending_client, stream
from tests.waiting import eventually_async

FALSY: list[Any] = [None, False, 0, "", [], {}, 0.0]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with pending_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture
async def at(api: Api) -> AsyncIterator[PendingClient]:
    async with pending_client(api) as opened:
        yield opened


@requirement("SPACE-results-endpoint", "SPACE-results-stores", "CON-results-delivery", "SPACE-results-waiting-skips")
@requirement("SPACE-type-external", "SPACE-sync-resolved-inline", "SPACE-flow-sync-resolved")
async def test_a_result_reaches_the_caller_that_waits_and_not_the_inbox(at: PendingClient) -> None:
    call = at.begin("ext_lookup", {"q": 1}, agent="inline")
    record = await at.waiting("ext_lookup")
    assert (record["agent"], record["arguments"], record["status"]) == ("inline", {"q": 1}, "waiting")
    answer = await at.submit(record, result={"found": 3})
    assert answer.status_code == 200
    assert answer.json() == {
        "success": True,
        "callId": record["call_id"],
        "agentEntityId": "inline",
        "delivery": "inline",
    }
    told = await call
    assert told.status_code == 200
    assert (told.json()["success"], told.json()["status"], told.json()["result"]) == (True, "completed", {"found": 3})
    assert told.json()["call_id"] == record["call_id"]
    assert told.json()["execution_time_ms"] >= 0
    kept = await at.record(record["call_id"])
    assert (kept["status"], kept["delivery"], kept["result"]) == ("completed", "inline", {"found": 3})
    assert await at.inbox("inline") == []


@requirement("CON-results-falsy")
@pytest.mark.parametrize("value", FALSY, ids=json.dumps)
async def test_a_falsy_result_arrives_inline_as_it_is(at: PendingClient, value: Any) -> None:
    call = at.begin("ext_lookup", agent="falsy")
    record = await at.waiting("ext_lookup")
    assert (await at.submit(record, result=value)).status_code == 200
    told = (await call).json()
    assert (told["status"], told["result"], told["error"]) == ("completed", value, None)
    assert type(told["result"]) is type(value)


@requirement("CON-results-falsy", "SPACE-results-pending-pushes")
@pytest.mark.parametrize("value", FALSY, ids=json.dumps)
async def test_a_falsy_result_arrives_in_the_inbox_as_it_is(at: PendingClient, value: Any) -> None:
    agent = f"falsy-{json.dumps(value)}"
    call = (await at.execute("ext_job", agent=agent)).json()
    answer = await at.submit(call, result=value)
    assert (answer.status_code, answer.json()["delivery"]) == (200, "inbox")
    [event] = await at.inbox(agent)
    assert event["data"]["result"] == value
    assert type(event["data"]["result"]) is type(value)
    assert (await at.record(call["call_id"]))["result"] == value


async def test_an_error_is_an_answer_too(at: PendingClient) -> None:
    call = at.begin("ext_lookup")
    record = await at.waiting("ext_lookup")
    assert (await at.submit(record, error="no luck")).status_code == 200
    told = await call
    assert told.status_code == 200
    assert (told.json()["status"], told.json()["error"]) == ("failed", {"code": "tool_error", "message": "no luck"})
    assert told.json()["result"] == {"error": "no luck"}


@pytest.mark.parametrize(
    "text", ["", "a\u0000b", "\U0001f600 \u2028", "x" * 100_000], ids=["none", "nul", "odd", "long"]
)
async def test_any_text_is_an_error_or_a_reason(at: PendingClient, text: str) -> None:
    call = (await at.execute("ext_job")).json()
    assert (await at.submit(call, error=text)).status_code == 200
    kept = await at.record(call["call_id"])
    assert (kept["status"], kept["result"]) == ("failed", {"error": text})
    other = (await at.execute("ext_job")).json()
    assert (await at.submit(other, result={"deep": [text]})).status_code == 200
    assert (await at.record(other["call_id"]))["result"] == {"deep": [text]}


@requirement("CON-results-statuses")
async def test_of_two_submissions_at_once_one_wins_and_the_other_is_told_so(at: PendingClient) -> None:
    for trial in range(50):
        call = at.begin("ext_lookup") if trial % 2 else await at.execute("ext_job")
        record = await at.waiting("ext_lookup") if isinstance(call, asyncio.Task) else call.json()
        answers = await asyncio.gather(*(at.submit(record, result=number) for number in (1, 2)))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        [loser] = [answer for answer in answers if answer.status_code == 409]
        assert error_of(loser)["code"] == "already_resolved"
        winner = 1 if answers[0].status_code == 200 else 2
        assert (await at.record(record["call_id"]))["result"] == winner
        if isinstance(call, asyncio.Task):
            assert (await call).json()["result"] == winner


async def _refusal(at: PendingClient, call: dict[str, Any], how: str) -> tuple[int, str]:
    """One submission that cannot be taken: its status and code."""
    path, call_id = f"/api/runs/{call['run_id']}/tool-results", call["call_id"]
    key, body = "crm", {"callId": call_id, "result": 1}
    if how == "another run":
        path = "/api/runs/run_of_somebody_else/tool-results"
    elif how == "no callId":
        del body["callId"]
    elif how == "unknown":
        body["callId"] = "call_unknown"
    elif how == "foreign key":
        key = "server"
    elif how == "caller":
        key = "caller"
    elif how == "both":
        body["error"] = "x"
    elif how == "neither":
        del body["result"]
    elif how == "more":
        body["status"] = "resolved"
    answer = await at.ask("POST", path, key=key, json=body)
    return answer.status_code, error_of(answer)["code"]


@requirement("CON-results-statuses", "CON-results-one-of", "SPACE-results-lookup")
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("no callId", (400, "invalid_request")),
        ("both", (400, "invalid_request")),
        ("neither", (400, "invalid_request")),
        ("more", (400, "invalid_request")),
        ("another run", (403, "forbidden")),
        ("foreign key", (403, "forbidden")),
        ("caller", (403, "forbidden")),
        ("unknown", (404, "call_not_found")),
    ],
)
async def test_what_cannot_be_taken_leaves_the_call_as_it_was(
    at: PendingClient, how: str, expected: tuple[int, str]
) -> None:
    agent = f"untouched-{how}"
    call = (await at.execute("ext_job", agent=agent)).json()
    before = await at.record(call["call_id"])
    assert await _refusal(at, call, how) == expected
    assert await at.record(call["call_id"]) == before
    assert await at.inbox(agent) == []
    assert (await at.submit(call, result="right")).status_code == 200


@requirement("CON-results-statuses")
async def test_a_resolved_call_stays_as_it_was_answered(at: PendingClient) -> None:
    call = (await at.execute("ext_job", agent="resolved")).json()
    await at.submit(call, result="first")
    before = await at.record(call["call_id"])
    for body in ({"result": "second"}, {"error": "second"}):
        answer = await at.submit(call, **body)
        assert (answer.status_code, error_of(answer)["code"]) == (409, "already_resolved")
    assert await at.record(call["call_id"]) == before
    assert [event["data"]["result"] for event in await at.inbox("resolved")] == ["first"]


@requirement("CON-results-statuses", "CON-expires-in")
async def test_an_expired_call_takes_no_result_and_its_agent_is_told_once(at: PendingClient) -> None:
    call = (await at.execute("ext_brief", agent="expired")).json()
    kept = await at.settled(call["call_id"])
    assert (kept["status"], kept["error"]["code"]) == ("expired", "expired")
    answer = await at.submit(call, result="too late")
    assert (answer.status_code, error_of(answer)["code"]) == (410, "expired")
    assert await at.record(call["call_id"]) == kept
    [event] = await at.inbox("expired")
    assert event["eventId"] == f"tr:{call['call_id']}"
    assert event["data"]["result"] == {
        "error": "Expired: nobody answered this call in time.",
        "toolCallId": call["call_id"],
    }


@pytest.mark.parametrize("key", ["crm", "answerer", "admin", "boss"])
async def test_results_are_taken_from_every_key_that_may_answer(at: PendingClient, key: str) -> None:
    call = (await at.execute("ext_job")).json()
    assert (await at.submit(call, key=key, result=key)).status_code == 200


async def test_a_key_limited_to_tools_answers_those_only(at: PendingClient) -> None:
    other = (await at.execute("ext_guarded")).json()
    within = (await at.execute("ext_job")).json()
    assert (await at.ask("POST", f"/api/v1/calls/{other['call_id']}/approve", key="clerk")).status_code == 403
    assert (await at.ask("POST", f"/api/v1/calls/{other['call_id']}/reject", key="clerk")).status_code == 403
    assert (await at.record(other["call_id"]))["status"] == "pending_approval"
    assert (await at.ask("GET", f"/api/v1/calls/{other['call_id']}", key="clerk")).status_code == 404
    assert (await at.submit(within, key="clerk", result=1)).status_code == 200


async def test_a_result_that_breaks_the_tools_own_schema_is_sent_back(at: PendingClient) -> None:
    call = at.begin("ext_exact")
    record = await at.waiting("ext_exact")
    answer = await at.submit(record, result="seven")
    assert (answer.status_code, error_of(answer)["param"]) == (400, "result")
    assert (await at.record(record["call_id"]))["status"] == "waiting"
    assert (await at.submit(record, result=7)).status_code == 200
    assert (await call).json()["result"] == 7


async def test_a_call_that_nobody_outside_answers_takes_no_result(at: PendingClient) -> None:
    done = (await at.execute("add", {"a": 1})).json()
    assert (await at.submit(done, key="admin", result=5)).status_code == 409
    waits = (await at.execute("charge", {"path": "/nowhere", "amount": 1})).json()
    answer = await at.submit(waits, key="admin", result=5)
    assert (answer.status_code, error_of(answer)["code"]) == (409, "conflict")
    assert (await at.record(waits["call_id"]))["status"] == "pending_approval"


async def test_a_callback_url_answers_its_call_once_and_needs_no_key(at: PendingClient) -> None:
    call = (await at.execute("ext_job", agent="webhook")).json()
    url = (await at.record(call["call_id"], key="crm"))["callback_url"]
    assert url.startswith(f"{at.api.gateway.url}/api/v1/callbacks/")
    answer = await at.ask("POST", url, key=None, json={"paid": True})
    assert answer.status_code == 200
    assert answer.json() == {
        "success": True,
        "callId": call["call_id"],
        "agentEntityId": "webhook",
        "delivery": "inbox",
    }
    again = await at.ask("POST", url, key=None, json={"paid": False})
    assert (again.status_code, error_of(again)["code"]) == (409, "already_resolved")
    assert [event["data"]["result"] for event in await at.inbox("webhook")] == [{"paid": True}]
    assert (await at.record(call["call_id"]))["callback_url"] is None


@pytest.mark.parametrize(
    ("sent", "result"), [({}, None), ({"json": None}, None), ({"json": [1]}, [1]), ({"json": "x"}, "x")]
)
async def test_the_body_of_a_callback_is_the_result(at: PendingClient, sent: dict[str, Any], result: Any) -> None:
    call = (await at.execute("ext_job")).json()
    url = (await at.record(call["call_id"]))["callback_url"]
    assert (await at.ask("POST", url, key=None, **sent)).status_code == 200
    kept = await at.record(call["call_id"])
    assert (kept["status"], kept["result"]) == ("completed", result)


async def test_a_callback_url_that_was_tampered_with_answers_nothing(at: PendingClient) -> None:
    call = (await at.execute("ext_job")).json()
    other = (await at.execute("ext_job")).json()
    url = (await at.record(call["call_id"]))["callback_url"]
    for wrong in (
        url[:-1] + ("0" if url[-1] != "0" else "1"),
        url.replace(call["call_id"], other["call_id"]),
        url[:-9],
    ):
        answer = await at.ask("POST", wrong, key=None, json=1)
        assert (answer.status_code, error_of(answer)["code"]) == (404, "call_not_found")
    not_json = await at.ask("POST", url, key=None, content=b"{", headers={"content-type": "application/json"})
    assert not_json.status_code == 400
    assert {(await at.record(one["call_id"]))["status"] for one in (call, other)} == {"pending"}


async def test_a_callback_url_is_shown_to_those_who_may_answer_and_nobody_else(at: PendingClient) -> None:
    call = (await at.execute("ext_job", key="caller")).json()
    assert (await at.record(call["call_id"], key="caller"))["callback_url"] is None
    for key in ("crm", "answerer", "admin"):
        assert (await at.record(call["call_id"], key=key))["callback_url"]
    guarded = (await at.execute("ext_guarded", key="caller")).json()
    assert (await at.record(guarded["call_id"]))["callback_url"] is None


async def test_a_callback_url_of_an_expired_call_is_gone(at: PendingClient) -> None:
    call = (await at.execute("ext_brief")).json()
    url = (await at.record(call["call_id"]))["callback_url"]
    await at.settled(call["call_id"])
    answer = await at.ask("POST", url, key=None, json=1)
    assert (answer.status_code, error_of(answer)["code"]) == (410, "expired")


async def test_progress_is_told_and_keeps_a_waiting_call_past_its_timeout(at: PendingClient, api: Api) -> None:
    call = at.begin("ext_lookup")
    record = await at.waiting("ext_lookup")
    deadlines = [record["deadline"]]
    async with stream(api, "/api/v1/calls/stream", key="crm", tool="ext_lookup") as frames:
        for step in range(1, 9):
            path = f"/api/v1/calls/{record['call_id']}/progress"
            body = {"progress": step, "total": 8, "message": f"step {step}"}
            answer = await at.ask("POST", path, key="crm", json=body)
            assert (answer.status_code, answer.json()["call"]["status"]) == (200, "waiting")
            told = await frames.next()
            assert (told["type"], told["call_id"]) == ("call.progress", record["call_id"])
            assert told["progress"] == {"progress": step, "total": 8, "message": f"step {step}"}
            deadlines.append(answer.json()["call"]["deadline"])
    assert deadlines == sorted(set(deadlines)), "each sets the end of the wait anew"
    assert (await at.submit(record, result="after all")).json()["delivery"] == "inline"
    assert (await call).json()["result"] == "after all"


async def test_progress_stretches_a_wait_to_ten_times_the_timeout_and_no_further(at: PendingClient) -> None:
    while True:
        call = at.begin("ext_quick")
        record = await at.waiting("ext_quick")
        path = f"/api/v1/calls/{record['call_id']}/progress"
        told_at = [time.monotonic()]

        async def tell() -> bool:
            answer = await at.ask("POST", path, key="crm", json={"progress": 1})  # noqa: B023 - within this turn
            told_at.append(time.monotonic())  # noqa: B023
            return bool(answer.json()["call"]["status"] == "pending")

        await eventually_async(tell)
        told = (await call).json()
        assert (told["status"], told["error"]["code"]) == ("failed", "timeout")
        if max(later - earlier for earlier, later in pairwise(told_at)) < 0.2:
            break  # else the machine was late once, and the wait rightly ended at the tool's own 300 ms
    assert told["execution_time_ms"] >= 2900


async def test_progress_of_a_call_is_refused_like_its_result(at: PendingClient) -> None:
    call = (await at.execute("ext_job")).json()
    path = f"/api/v1/calls/{call['call_id']}/progress"
    assert (await at.ask("POST", path, key="server", json={"progress": 1})).status_code == 403
    assert (await at.ask("POST", path, key="crm", json={"progress": "much"})).status_code == 400
    assert (await at.ask("POST", "/api/v1/calls/nobody/progress", key="crm", json={"progress": 1})).status_code == 404
    await at.submit(call, result=1)
    assert (await at.ask("POST", path, key="crm", json={"progress": 1})).status_code == 409
