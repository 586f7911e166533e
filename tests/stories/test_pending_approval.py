"""Calls that a person must allow first: approved once, with other arguments, rejected, expired, changed meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import httpx2
import pytest

from tests.harness.api import Api, error_of
from tests.requirement import requirement
from tests.stories.pending import PendingClient, pending_api, pending_client, tool_server
from tests.waiting import eventually_async


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with pending_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture
async def at(api: Api) -> AsyncIterator[PendingClient]:
    async with pending_client(api) as opened:
        yield opened


@pytest.fixture
def till(tmp_path: Path) -> Path:
    return tmp_path / "till"


def taken(till: Path) -> str:
    """What the tool wrote, a line for each time it ran."""
    return till.read_text() if till.exists() else ""


async def decide(
    at: PendingClient, call_id: str, what: str, *, key: str = "answerer", **body: object
) -> httpx2.Response:
    sent = {"json": body} if body else {}
    return await at.ask("POST", f"/api/v1/calls/{call_id}/{what}", key=key, **sent)


@requirement("CON-exec-202", "CON-calls-approve", "DISC-meta-approval-acts")
async def test_an_approved_call_runs_once_and_its_result_comes_by_inbox(at: PendingClient, till: Path) -> None:
    answer = await at.execute("charge", {"path": str(till), "amount": 5}, agent="approved")
    call = answer.json()
    assert (answer.status_code, call["status"]) == (202, "pending_approval")
    assert call["result"]["pendingToolCallId"] == call["call_id"]
    assert taken(till) == ""
    approved = await decide(at, call["call_id"], "approve")
    assert approved.status_code == 200
    assert approved.json()["call"]["id"] == call["call_id"]
    kept = await at.settled(call["call_id"])
    assert (kept["status"], kept["result"], kept["delivery"]) == ("completed", 5, "inbox")
    assert taken(till) == "5\n"
    [event] = await at.inbox("approved")
    assert (event["eventId"], event["data"]["result"]) == (f"tr:{call['call_id']}", 5)
    again = await decide(at, call["call_id"], "approve")
    assert (again.status_code, error_of(again)["code"]) == (409, "already_resolved")
    assert taken(till) == "5\n"


@requirement("CON-calls-approve")
async def test_edited_arguments_are_checked_again_and_are_what_runs(at: PendingClient, till: Path) -> None:
    call = (await at.execute("charge", {"path": str(till), "amount": 500}, agent="edited")).json()
    for wrong in ({"amount": 5}, {"path": str(till), "amount": "five"}):
        refused = await decide(at, call["call_id"], "approve", arguments=wrong)
        assert (refused.status_code, error_of(refused)["code"]) == (400, "invalid_arguments")
    assert (await at.record(call["call_id"]))["status"] == "pending_approval"
    edited = {"path": str(till), "amount": 50}
    assert (await decide(at, call["call_id"], "approve", arguments=edited)).status_code == 200
    kept = await at.settled(call["call_id"])
    assert (kept["arguments"], kept["result"]) == (edited, 50)
    assert taken(till) == "50\n"


@requirement("CON-calls-approve")
async def test_a_rejection_reaches_the_agent_with_its_reason_and_nothing_runs(at: PendingClient, till: Path) -> None:
    call = (await at.execute("charge", {"path": str(till), "amount": 5}, agent="rejected")).json()
    rejected = await decide(at, call["call_id"], "reject", reason="too dear")
    assert (rejected.status_code, rejected.json()["call"]["status"]) == (200, "rejected")
    [event] = await at.inbox("rejected")
    assert event["data"]["result"] == {"rejected": True, "reason": "too dear"}
    assert (await at.record(call["call_id"]))["error"] == {
        "code": "rejected",
        "message": "A person rejected this call: too dear",
    }
    for what in ("approve", "reject"):
        again = await decide(at, call["call_id"], what)
        assert (again.status_code, error_of(again)["code"]) == (409, "already_resolved")
    assert taken(till) == ""


async def test_a_rejection_needs_no_reason(at: PendingClient, till: Path) -> None:
    call = (await at.execute("charge", {"path": str(till), "amount": 5}, agent="silent")).json()
    assert (await decide(at, call["call_id"], "reject")).status_code == 200
    assert [event["data"]["result"] for event in await at.inbox("silent")] == [{"rejected": True, "reason": ""}]


@requirement("CON-calls-approve")
async def test_of_two_approvals_at_once_one_wins_and_the_tool_runs_once(at: PendingClient, till: Path) -> None:
    for _ in range(20):
        call = (await at.execute("charge", {"path": str(till), "amount": 1})).json()
        answers = await asyncio.gather(
            *(decide(at, call["call_id"], "approve", key=key) for key in ("boss", "answerer"))
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        await at.settled(call["call_id"])
    assert taken(till) == "1\n" * 20


async def test_of_an_approval_and_a_rejection_at_once_one_wins(at: PendingClient, till: Path) -> None:
    ran = 0
    for _ in range(20):
        call = (await at.execute("charge", {"path": str(till), "amount": 1})).json()
        answers = await asyncio.gather(*(decide(at, call["call_id"], what) for what in ("approve", "reject")))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        kept = await at.settled(call["call_id"])
        assert kept["status"] == ("completed" if answers[0].status_code == 200 else "rejected")
        ran += kept["status"] == "completed"
    assert taken(till) == "1\n" * ran


@requirement("CON-expires-in")
async def test_an_approval_that_nobody_gives_expires_and_the_agent_is_told(at: PendingClient, till: Path) -> None:
    call = (await at.execute("fleeting", {"path": str(till)}, agent="forgotten")).json()
    kept = await at.settled(call["call_id"])
    assert kept["status"] == "expired"
    for what in ("approve", "reject"):
        answer = await decide(at, call["call_id"], what)
        assert (answer.status_code, error_of(answer)["code"]) == (410, "expired")
    assert [event["eventId"] for event in await at.inbox("forgotten")] == [f"tr:{call['call_id']}"]
    assert taken(till) == ""


async def test_a_call_whose_tool_changed_meanwhile_is_not_run(api: Api, at: PendingClient, till: Path) -> None:
    file = api.gateway.folder / "pending" / "changing.py"
    file.write_text('def changing(path: str) -> str:\n    """One thing."""\n    return open(path, "w").write("x")\n')
    await eventually_async(lambda: _has_tool(at, "changing", "One thing."))
    await at.ask("POST", "/api/v1/tools/config/approval", json=_require("changing"))
    call = (await at.execute("changing", {"path": str(till)}, agent="stale")).json()
    assert call["status"] == "pending_approval"
    file.write_text(file.read_text().replace("One thing", "Another thing"))
    await eventually_async(lambda: _has_tool(at, "changing", "Another thing."))
    refused = await decide(at, call["call_id"], "approve")
    assert (refused.status_code, error_of(refused)["code"]) == (409, "conflict")
    assert "has changed" in error_of(refused)["message"]
    assert (await at.record(call["call_id"]))["status"] == "pending_approval"
    assert taken(till) == ""
    assert (await decide(at, call["call_id"], "reject", reason="changed")).status_code == 200


def _require(tool: str) -> dict[str, str]:
    return {"scenario": "pending", "tool_name": tool, "approval_override": "require", "key": "caller"}


async def _has_tool(at: PendingClient, name: str, description: str) -> bool:
    answer = await at.ask("GET", f"/api/v1/tools/{name}")
    return answer.status_code == 200 and answer.json()["description"] == description


async def test_an_approved_call_of_a_tool_server_is_offered_then(api: Api, at: PendingClient) -> None:
    async with tool_server(api, tools="ext_guarded") as server:
        call = (await at.execute("ext_guarded", {"n": 1}, agent="offered")).json()
        await server.nothing(within=1.2)
        approved = await decide(at, call["call_id"], "approve", arguments={"n": 2})
        assert approved.json()["call"]["status"] == "pending"
        offer = await server.next()
        assert (offer["toolCallId"], offer["args"]) == (call["call_id"], {"n": 2})
        await at.submit(offer, result="served")
    assert [event["data"]["result"] for event in await at.inbox("offered")] == ["served"]


@pytest.mark.parametrize("key", ["caller", "crm", "reader", "ada"])
async def test_only_a_key_that_answers_may_decide(at: PendingClient, till: Path, key: str) -> None:
    call = (await at.execute("charge", {"path": str(till), "amount": 1})).json()
    for what in ("approve", "reject"):
        assert (await decide(at, call["call_id"], what, key=key)).status_code == 403
    assert (await at.record(call["call_id"]))["status"] == "pending_approval"


async def test_what_does_not_wait_for_a_decision_is_409_and_what_is_unknown_404(at: PendingClient) -> None:
    job = (await at.execute("ext_job")).json()
    for what in ("approve", "reject"):
        assert error_of(await decide(at, job["call_id"], what))["code"] == "conflict"
        assert (await decide(at, "call_unknown", what)).status_code == 404
        assert (await decide(at, job["call_id"], what, verdict="yes")).status_code == 400
    assert (await at.record(job["call_id"]))["status"] == "pending"


async def test_an_approved_tool_acts_in_its_callers_name_and_not_in_the_approvers(at: PendingClient) -> None:
    call = (await at.execute("nested", key="modest")).json()
    assert (await decide(at, call["call_id"], "approve", key="admin")).status_code == 200
    kept = await at.settled(call["call_id"])
    assert kept["status"] == "failed", "it called a tool that only the approver may call"
    allowed = (await at.execute("nested", key="caller")).json()
    await decide(at, allowed["call_id"], "approve", key="admin")
    assert (await at.settled(allowed["call_id"]))["result"] == 2


async def test_an_approved_call_without_an_agent_is_in_the_record(at: PendingClient, till: Path) -> None:
    call = (await at.execute("charge", {"path": str(till), "amount": 3})).json()
    await decide(at, call["call_id"], "approve")
    assert (await at.settled(call["call_id"]))["result"] == 3


@requirement("CON-approvals-on-record")
async def test_the_record_says_who_decided_when_and_what_was_asked(at: PendingClient, till: Path) -> None:
    asked = {"path": str(till), "amount": 500}
    edited = {"path": str(till), "amount": 50}
    call = (await at.execute("charge", asked)).json()
    open_record = await at.record(call["call_id"])
    assert (open_record["asked_arguments"], open_record["arguments"]) == (asked, asked)
    assert (open_record["decision"], open_record["decided_by"], open_record["decided_at"]) == (None, None, None)
    told = (await decide(at, call["call_id"], "approve", arguments=edited)).json()["call"]
    kept = await at.settled(call["call_id"])
    for record in (told, kept):
        assert (record["asked_arguments"], record["arguments"]) == (asked, edited)
        assert (record["decision"], record["decided_by"]) == ("approved", "answerer")
        assert record["created_at"] <= record["decided_at"]
    other = (await at.execute("charge", asked)).json()
    await decide(at, other["call_id"], "reject", key="boss")
    kept = await at.record(other["call_id"])
    assert (kept["decision"], kept["decided_by"], kept["asked_arguments"]) == ("rejected", "boss", asked)
    bare = (await at.execute("add", {"a": 1})).json()
    kept = await at.record(bare["call_id"])
    assert (kept["asked_arguments"], kept["decision"]) == ({"a": 1}, None)


@requirement("CON-approvals-on-record", "SAFE-approval-link")
async def test_a_signed_link_says_who_asks_in_whose_name_and_nothing_of_it_when_it_is_decided(
    at: PendingClient, till: Path
) -> None:
    asked = {"path": str(till), "amount": 5}
    for agent in ("ada", None):
        call = (await at.execute("charge", asked, agent=agent)).json()
        record = await at.record(call["call_id"])
        url = record["approval_url"]
        shown = (await at.ask("GET", url, key=None)).json()
        assert (shown["agent"], shown["principal"], shown["arguments"]) == (agent, record["principal"], asked)
        assert (await at.ask("POST", url, key=None, json={"approve": True})).status_code == 200
        kept = await at.settled(call["call_id"])
        assert (kept["decision"], kept["decided_by"]) == ("approved", "signed link")
        over = (await at.ask("GET", url, key=None)).json()
        assert (over["arguments"], over["answer_schema"], over["status"]) == (None, None, "completed")
    answered = (await at.execute("ext_job", {})).json()
    url = (await at.record(answered["call_id"]))["callback_url"]
    assert (await at.ask("GET", url, key=None)).json()["arguments"] is not None
    assert (await at.ask("POST", url, key=None, json=1)).status_code == 200
    assert (await at.ask("GET", url, key=None)).json()["arguments"] is None
