"""Visible calls in a space: one message each that says how the call stands, and the events on the way."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.harness.api import Api, error_of, key_of
from tests.requirement import requirement
from tests.stories.spaces import Lobby, followed, open_lobby

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with open_lobby(tmp_path_factory.mktemp("visible")) as opened:
        yield opened.api


@pytest.fixture
def lobby(api: Api, request: pytest.FixtureRequest) -> Lobby:
    """A space and an agent of the test's own."""
    number = len(request.session.items) + request.session.items.index(request.node)
    return Lobby(api, space=f"lobby_{number}", agent=f"ada_{number}")


def answer(lobby: Lobby, call: dict[str, Any], result: Any) -> None:
    body = {"callId": call["call_id"], "result": result}
    lobby.made("POST", f"/api/runs/{call['run_id']}/tool-results", json=body)


@requirement(
    "CON-spaces-call-message",
    "SPACE-visible-posted",
    "SPACE-field-visible",
    "SPACE-message-metadata",
    "SPACE-no-space-id-parameter",
    "SPACE-event-started",
    "SPACE-event-done",
    "SPACE-event-order",
)
async def test_a_visible_call_with_its_result_is_one_message_in_the_space(lobby: Lobby) -> None:
    arguments = {"title": "Rain", "rows": [1, 2]}
    async with followed(lobby) as stream:
        call = lobby.execute("displayChart", arguments)
        assert call["result"] == {"success": True, "args": arguments}
        done = await stream.event("tool.done")
    [message] = lobby.messages()
    metadata = {
        "type": "tool_call",
        "toolCallId": call["call_id"],
        "toolName": "displayChart",
        "args": arguments,
        "result": {"success": True, "args": arguments},
        "status": "complete",
        "runId": call["run_id"],
    }
    assert message["metadata"] == metadata
    assert (message["role"], message["entityId"], message["senderType"]) == ("assistant", lobby.agent, "agent")
    [listed] = [one for one in lobby.made("GET", "/api/spaces")["spaces"] if one["lastMessage"] is not None]
    assert listed["lastMessage"]["toolName"] == "displayChart"
    names = {
        "streamId": call["call_id"],
        "runId": call["run_id"],
        "agentEntityId": lobby.agent,
        "toolName": "displayChart",
    }
    started = stream.events[1]
    assert started == {"type": "tool.started", "seq": started["seq"], **names}
    assert done == {"type": "tool.done", "seq": done["seq"], **names, "result": metadata["result"]}
    kinds = [event["type"] for event in stream.events]
    assert kinds.index("tool.started") < kinds.index("tool.done")
    assert kinds.count("tool.started") == kinds.count("tool.done") == 1


@requirement("SPACE-message-same-pipeline")
async def test_visible_calls_and_messages_share_one_line_of_events_and_one_history(lobby: Lobby) -> None:
    async with followed(lobby, afterSeq=0) as stream:
        first = lobby.say("before")
        lobby.execute("displayChart", {"n": 1})
        last = lobby.say("after")
        await stream.until(last["seq"])
    assert stream.seqs == list(range(1, last["seq"] + 1))
    history = lobby.messages()
    assert [each["id"] for each in history[::2]] == [first["id"], last["id"]]
    assert history[1]["metadata"]["type"] == "tool_call"
    assert [each["seq"] for each in history] == sorted(each["seq"] for each in history)


@requirement("SPACE-event-error")
async def test_a_call_that_fails_is_shown_as_failed(lobby: Lobby) -> None:
    async with followed(lobby) as stream:
        lobby.execute("boom", {"reason": "the moon"})
        event = await stream.event("tool.error")
    assert "the moon" in event["error"]
    [shown] = lobby.calls()
    assert shown["status"] == "error"
    assert shown["error"] == event["error"]


@requirement("SPACE-event-requires-action", "SPACE-type-space", "SPACE-type-space-user-result")
async def test_a_question_to_the_user_stays_open_until_the_user_answers(lobby: Lobby) -> None:
    async with followed(lobby) as stream:
        call = lobby.execute("confirmAction", {"question": "Book it?"}, status=202)
        assert (await stream.event("tool.started"))["toolName"] == "confirmAction"
        [shown] = lobby.calls()
        assert (shown["status"], shown["args"], shown["result"]) == ("requires_action", {"question": "Book it?"}, None)
        answer(lobby, call, {"confirmed": True})
        assert (await stream.event("tool.done"))["result"] == {"confirmed": True}
    [shown] = lobby.calls()
    assert (shown["status"], shown["result"]) == ("complete", {"confirmed": True})
    [event] = lobby.made("GET", f"/api/agents/{lobby.agent}/inbox")["events"]
    assert event["data"]["result"] == {"confirmed": True}


@requirement("SPACE-type-space", "SPACE-type-space-user-result")
async def test_what_the_user_enters_is_the_result_of_the_call_that_waits(lobby: Lobby) -> None:
    async with (
        followed(lobby) as stream,
        httpx2.AsyncClient(base_url=lobby.api.gateway.url, timeout=30) as client,
    ):
        body = {"arguments": {}, "agent": lobby.agent, "space_id": lobby.space}
        path, headers = "/api/v1/tools/pickColour/execute", {"x-api-key": key_of("admin")}
        calling = asyncio.create_task(client.post(path, json=body, headers=headers))
        started = await stream.event("tool.started")
        [shown] = lobby.calls()
        assert shown["status"] == "requires_action"
        answer(lobby, {"call_id": started["streamId"], "run_id": started["runId"]}, "blue")
        assert (await calling).json()["result"] == "blue"
        assert (await stream.event("tool.done"))["result"] == "blue"


@requirement("SPACE-invisible-silent", "SPACE-invisible-agent-only", "SPACE-field-visible")
async def test_an_invisible_call_leaves_nothing_in_the_space(lobby: Lobby) -> None:
    async with followed(lobby) as stream:
        assert lobby.execute("ponder", {"about": "life"})["success"] is True
        marker = lobby.say("marker")
        while (event := await stream.next()).get("seq") != marker["seq"]:
            assert event["type"] == "member.joined"
    assert lobby.messages() == [marker]


@requirement("SPACE-visible-no-space-error", "SPACE-visible-no-space-not-run")
async def test_a_visible_call_outside_any_space_is_told_so_and_not_run(lobby: Lobby) -> None:
    async with followed(lobby) as stream:
        call = lobby.execute("confirmAction", {"question": "Book it?"}, space_id=None)
        text = 'Tool "confirmAction" is visible but you are not in a space. Call enter_space first.'
        assert (call["success"], call["status"], call["result"]) == (False, "failed", {"error": text})
        lobby.say("marker")
        await stream.event("space.message")
        assert [event["type"] for event in stream.events if event["type"].startswith("tool.")] == []
    assert lobby.calls() == []
    assert lobby.made("GET", "/api/v1/calls", params={"status": "pending", "agent": lobby.agent})["calls"] == []


async def test_a_call_is_shown_in_its_space_and_in_no_other(lobby: Lobby) -> None:
    lobby.made("POST", "/api/spaces", status=201, json={"id": "attic"})
    lobby.join(lobby.agent, space="attic", kind="agent")
    lobby.execute("displayChart", {"n": 1}, space_id="attic")
    assert [each["args"] for each in lobby.calls("attic")] == [{"n": 1}]
    assert lobby.calls() == []


@requirement("SPACE-message-no-reply")
def test_a_visible_call_cannot_be_replied_to_nor_made_up(lobby: Lobby) -> None:
    lobby.execute("displayChart", {"n": 1})
    [message] = lobby.messages()
    for metadata in (
        {"replyTo": message["id"]},
        {"replyTo": {"messageId": message["id"]}},
        {"type": "tool_call", "toolName": "confirmAction", "status": "requires_action"},
    ):
        refused = lobby.ask(
            "POST", f"/api/spaces/{lobby.space}/messages", json={"content": "Nice!", "metadata": metadata}
        )
        assert (refused.status_code, error_of(refused)["code"]) == (400, "invalid_request")
    said = lobby.say("Nice!")
    assert lobby.say("Indeed", metadata={"replyTo": said["id"]})["metadata"] == {"replyTo": said["id"]}


@requirement("SPACE-message-no-trigger")
def test_a_visible_call_tells_no_other_agent_and_a_message_tells_all_but_its_sender(lobby: Lobby) -> None:
    bob = f"bob_of_{lobby.agent}"
    lobby.join(bob, kind="agent")
    lobby.execute("displayChart", {"n": 1})
    lobby.execute("boom")
    assert lobby.made("GET", f"/api/agents/{bob}/inbox")["events"] == []
    said = lobby.say("Hello, both", key="caller")
    for agent in (lobby.agent, bob):
        [event] = lobby.made("GET", f"/api/agents/{agent}/inbox")["events"]
        assert (event["eventId"], event["type"]) == (said["id"], "space_message")
        assert event["data"]["content"] == "Hello, both"
    own = lobby.say("I heard you", entityId=lobby.agent)
    assert own["id"] not in [
        event["eventId"] for event in lobby.made("GET", f"/api/agents/{lobby.agent}/inbox")["events"]
    ]
    assert own["id"] in [event["eventId"] for event in lobby.made("GET", f"/api/agents/{bob}/inbox")["events"]]
