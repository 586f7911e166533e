"""Agents' inboxes through the door: their shape, their order, who reads them, and services that write to them."""

import re
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest

from tests.harness.api import Api, error_of
from tests.requirement import requirement
from tests.stories.pending import PendingClient, pending_api, pending_client

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with pending_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture
async def at(api: Api) -> AsyncIterator[PendingClient]:
    async with pending_client(api) as opened:
        yield opened


async def trigger(at: PendingClient, agent: str, payload: Any, *, key: str = "caller") -> dict[str, Any]:
    body = {"serviceName": "billing", "payload": payload}
    answer = await at.ask("POST", f"/api/agents/{agent}/trigger", key=key, json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@requirement("CON-inbox-shape")
async def test_a_result_is_an_event_with_the_calls_id(at: PendingClient) -> None:
    call = (await at.execute("ext_job", agent="shape")).json()
    await at.submit(call, result=None)
    answer = await at.ask("GET", "/api/agents/shape/inbox")
    body = answer.json()
    assert list(body) == ["events", "next_cursor"]
    assert body["next_cursor"] is None
    [event] = body["events"]
    assert list(event) == ["eventId", "type", "timestamp", "data", "status"]
    assert TIME.fullmatch(event["timestamp"])
    assert event | {"timestamp": ""} == {
        "eventId": f"tr:{call['call_id']}",
        "type": "tool_result",
        "timestamp": "",
        "data": {
            "toolCallId": call["call_id"],
            "toolName": "ext_job",
            "originRunId": call["run_id"],
            "result": None,
        },
        "status": "pending",
    }


async def test_a_service_puts_an_event_into_the_inbox(at: PendingClient) -> None:
    told = await trigger(at, "served", {"invoice": 7})
    assert (told["success"], told["agentEntityId"]) == (True, "served")
    assert re.fullmatch(r"svc:[0-9a-f-]{36}", told["eventId"])
    [event] = await at.inbox("served")
    assert (event["eventId"], event["type"]) == (told["eventId"], "service")
    assert event["data"] == {"serviceName": "billing", "payload": {"invoice": 7}}


async def test_events_come_in_order_page_by_page(at: PendingClient) -> None:
    sent = [(await trigger(at, "pages", number))["eventId"] for number in range(5)]
    seen: list[str] = []
    cursor: str | None = None
    sizes = []
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await at.ask("GET", "/api/agents/pages/inbox", params=params)).json()
        seen += [event["eventId"] for event in page["events"]]
        sizes.append(len(page["events"]))
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == sent
    assert sizes == [2, 2, 1]


async def test_events_are_filtered_by_status(at: PendingClient) -> None:
    await trigger(at, "statuses", 1)
    counts = {}
    for status in ("pending", "processing", "processed"):
        page = await at.ask("GET", "/api/agents/statuses/inbox", params={"status": status})
        counts[status] = len(page.json()["events"])
    assert counts == {"pending": 1, "processing": 0, "processed": 0}
    assert (await at.ask("GET", "/api/agents/quiet/inbox")).json() == {"events": [], "next_cursor": None}


@requirement("CON-agent-unknown")
async def test_an_agent_that_is_neither_here_nor_has_a_key_is_404_and_no_event_is_kept(at: PendingClient) -> None:
    answer = await at.ask("POST", "/api/agents/nobody/trigger", json={"serviceName": "s"})
    assert (answer.status_code, error_of(answer)["code"]) == (404, "agent_not_found")
    for part in ("cycles", "memories", "goals", "plans"):
        assert (await at.ask("GET", f"/api/agents/nobody/{part}")).status_code == 404, part
    assert await at.inbox("nobody") == []  # a program may look before it makes its first call
    call = (await at.execute("ext_job", agent="nobody")).json()
    assert (await at.ask("GET", "/api/agents/nobody/inbox")).json() == {"events": [], "next_cursor": None}
    await at.submit(call, result="later")
    assert [event["eventId"] for event in await at.inbox("nobody")] == [f"tr:{call['call_id']}"]


@pytest.mark.parametrize(
    "params", [{"status": "lost"}, {"limit": 0}, {"limit": 1000}, {"cursor": "x"}, {"cursor": "-1"}, {"page": 1}]
)
async def test_a_query_that_means_nothing_is_400(at: PendingClient, params: dict[str, Any]) -> None:
    answer = await at.ask("GET", "/api/agents/ada/inbox", params=params)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request")


async def test_an_inbox_is_read_by_its_agent_and_an_administrator_alone(at: PendingClient) -> None:
    await trigger(at, "ada", "hello")
    for key, status in (
        ("ada", 200),
        ("admin", 200),
        ("caller", 403),
        ("answerer", 403),
        ("crm", 403),
        ("reader", 403),
    ):
        assert (await at.ask("GET", "/api/agents/ada/inbox", key=key)).status_code == status
    assert (await at.ask("GET", "/api/agents/bob/inbox", key="ada")).status_code == 403


async def test_who_may_act_as_an_agent_may_speak_to_it(at: PendingClient) -> None:
    for agent, key, status in (
        ("ada", "ada", 200),
        ("bob", "ada", 403),
        ("bob", "caller", 200),
        ("bob", "crm", 403),
        ("bob", "reader", 403),
    ):
        answer = await at.ask("POST", f"/api/agents/{agent}/trigger", key=key, json={"serviceName": "s"})
        assert answer.status_code == status


@pytest.mark.parametrize(
    "body", [{}, {"payload": 1}, {"serviceName": ""}, {"serviceName": "s", "more": 1}, {"serviceName": 5}]
)
async def test_a_trigger_without_a_service_is_400(at: PendingClient, body: dict[str, Any]) -> None:
    answer = await at.ask("POST", "/api/agents/quiet/trigger", json=body)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request")
    assert await at.inbox("quiet") == []


@pytest.mark.parametrize("agent", ["a%00b", "a%0Ab", "x" * 300])
async def test_what_cannot_be_an_agent_is_404(at: PendingClient, agent: str) -> None:
    assert (await at.ask("GET", f"/api/agents/{agent}/inbox")).status_code == 404
    assert (await at.ask("POST", f"/api/agents/{agent}/trigger", json={"serviceName": "s"})).status_code == 404
