"""Seed 003's flows, cycle by cycle: an agent wakes, asks, sleeps, and goes on when the answer is in its inbox."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.model.call import CallStatus
from jackfield.model.items import Message, text_of
from jackfield.spaces import transactions as space_tx
from tests.requirement import requirement
from tests.stories.agent_harness import AgentsGateway, agents_gateway, inbox_of, outputs_of, told
from tests.waiting import eventually_async

CONFIG = """
[agents.concierge]
name = "Concierge"
description = "Books hotels."
instructions = "Ask before you book."
spaces = ["lobby", "bar"]
model = "mind"

[agents.porter]
spaces = ["lobby"]
model = "porter"

[models.porter]
provider = "scripted"
script = "porter.toml"

[[tools]]
name = "confirmAction"
description = "Ask the user to confirm an action"
inputSchema = { type = "object", properties = { question = { type = "string" } }, required = ["question"] }
executionType = "space"
isAsync = true

[[tools]]
name = "displayChart"
description = "Show a chart"
inputSchema = { type = "object" }
executionType = "internal"
visible = true

[[tools]]
name = "fetchExternalData"
description = "Ask the project server"
inputSchema = { type = "object", properties = { query = { type = "string" } } }
executionType = "external"
visible = false
timeout = 400

[sources.local]
kind = "files"
path = "tools/*.py"
"""
TOOLS = '''\
def bookHotel(city: str) -> dict:
    """Book a hotel."""
    return {"booked": city}
'''
PORTER = '[otherwise]\ncalls = [{ tool = "skip" }]\n'
SCRIPT = r"""
[[turns]]
when = { user = 'book a hotel in (?P<city>\w+)' }
calls = [
  { tool = "enter_space", arguments = { spaceId = "lobby" } },
  { tool = "confirmAction", arguments = { question = "Confirm booking?" } },
]
[[turns]]
when = { result = "confirmAction", says = '"status":"pending"' }
say = "Asked Husam to confirm. Moving on to other tasks."
[[turns]]
when = { user = '\[Tool Result: confirmAction\] \(callId: [^)]+\) \{"confirmed":true\}' }
say = "Husam confirmed! Booking now..."
calls = [{ tool = "bookHotel", arguments = { city = "Tokyo" } }]
[[turns]]
when = { user = '\[Tool Result: confirmAction\] \(callId: [^)]+\) \{"confirmed":false\}' }
calls = [
  { tool = "enter_space", arguments = { spaceId = "lobby" } },
  { tool = "send_message", arguments = { text = "As you wish, no booking." } },
]
[[turns]]
when = { result = "bookHotel" }
calls = [
  { tool = "enter_space", arguments = { spaceId = "lobby" } },
  { tool = "send_message", arguments = { text = "Booked in {result.booked}." } },
]
[[turns]]
when = { result = "send_message" }
say = "Told them."

[[turns]]
when = { user = "look up active projects" }
calls = [{ tool = "fetchExternalData", arguments = { query = "active projects" } }]
[[turns]]
when = { result = "fetchExternalData", says = "timed out after" }
calls = [
  { tool = "enter_space", arguments = { spaceId = "lobby" } },
  { tool = "send_message", arguments = { text = "The project server does not answer." } },
]
[[turns]]
when = { result = "fetchExternalData" }
say = "Found {result.count} active projects."
[[turns]]
when = { user = 'Tool Result: fetchExternalData' }
say = "Late, but here."

[[turns]]
when = { user = "draw a chart" }
calls = [
  { tool = "enter_space", arguments = { spaceId = "lobby" } },
  { tool = "displayChart", arguments = { bars = [1, 2] } },
]
[[turns]]
when = { user = "chart without a space" }
calls = [{ tool = "displayChart", arguments = { bars = [] } }]
[[turns]]
when = { user = "chart after leaving" }
calls = [
  { tool = "enter_space", arguments = { spaceId = "lobby" } },
  { tool = "leave_space" },
  { tool = "displayChart", arguments = { bars = [] } },
]
[[turns]]
when = { user = "chart in the bar" }
calls = [
  { tool = "enter_space", arguments = { spaceId = "lobby" } },
  { tool = "enter_space", arguments = { spaceId = "bar" } },
  { tool = "displayChart", arguments = { bars = [3] } },
]
[[turns]]
when = { result = "displayChart" }
say = "Drawn, or not."
[otherwise]
calls = [{ tool = "skip", arguments = { reason = "nothing to do" } }]
"""
FILES = {"tools/hotel.py": TOOLS, "porter.toml": PORTER}


@pytest.fixture
async def place(tmp_path: Path) -> Any:
    async with agents_gateway(tmp_path, SCRIPT, CONFIG, files=FILES) as made:
        yield made


def tool_messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message["metadata"].get("type") == "tool_call"]


@requirement(
    "SPACE-cycle-pending-id",
    "SPACE-cycle-ends",
    "SPACE-cycle-next-inbox",
    "SPACE-cycle-acts-on-result",
    "SPACE-cycle-consciousness-saved",
    "SPACE-results-wakes",
    "SPACE-example-confirm-answer",
    "SPACE-type-space-user-result",
)
@pytest.mark.parametrize(
    ("result", "says"),
    [({"confirmed": True}, "Booked in Tokyo."), ({"confirmed": False}, "As you wish, no booking.")],
    ids=["confirm", "reject"],
)
async def test_a_confirmation_is_asked_for_in_one_cycle_and_acted_on_in_the_next(
    place: AgentsGateway, result: dict[str, bool], says: str
) -> None:
    await place.say("lobby", "Book a hotel in Tokyo")
    first = await place.cycle("concierge", 1)
    pending = await place.call_of("confirmAction", agent="concierge")
    assert told(place.requests[-1], "confirmAction") == {
        "status": "pending",
        "pendingToolCallId": pending.id,
        "message": msgspec.json.decode(dict(outputs_of(place.requests[-1]))["confirmAction"])["message"],
    }
    assert first.summary == "Asked Husam to confirm. Moving on to other tasks."
    assert (pending.status, pending.run_id) == (CallStatus.PENDING, first.id)
    await place.settled()

    assert await place.answer(pending, result) == "inbox"
    second = await place.cycle("concierge", 2)
    answer = msgspec.json.encode(result).decode()
    opening = next(request for request in place.requests if "Tool Result" in inbox_of(request))
    assert re.fullmatch(
        rf"INBOX \(1 events, now=\S+Z\):\n\[Tool Result: confirmAction\] \(callId: {pending.id}\) {re.escape(answer)}",
        inbox_of(opening),
    )
    told_before = [text_of(item) for item in opening.items if isinstance(item, Message)]
    assert '[Husam: "Book a hotel in Tokyo"]' in told_before[0], "the first cycle's inbox is remembered"
    assert "Asked Husam to confirm. Moving on to other tasks." in told_before, "and what it said"
    assert second.consumed == (f"tr:{pending.id}",)
    assert (await place.messages("lobby"))[-1]["content"] == says
    booked = [call for call in await place.calls(second) if call.tool == "bookHotel"]
    assert len(booked) == result["confirmed"]


@requirement(
    "SPACE-example-confirm-seen",
    "SPACE-type-space",
    "SPACE-event-requires-action",
    "SPACE-results-message-complete",
    "SPACE-message-metadata",
    "CON-spaces-call-message",
)
async def test_a_confirmation_is_one_message_that_waits_for_a_person_and_is_complete_with_the_answer(
    place: AgentsGateway,
) -> None:
    await place.say("lobby", "Book a hotel in Tokyo")
    await place.cycle("concierge", 1)
    pending = await place.call_of("confirmAction", agent="concierge")
    [shown] = tool_messages(await place.messages("lobby"))
    assert shown["metadata"] == {
        "type": "tool_call",
        "toolCallId": pending.id,
        "toolName": "confirmAction",
        "args": {"question": "Confirm booking?"},
        "result": None,
        "status": "requires_action",
        "runId": pending.run_id,
    }
    assert (shown["entityId"], shown["senderName"], shown["role"]) == ("concierge", "Concierge", "assistant")

    await place.answer(pending, {"confirmed": True})
    [shown] = tool_messages(await place.messages("lobby"))
    assert (shown["metadata"]["status"], shown["metadata"]["result"]) == ("complete", {"confirmed": True})
    names = [kind for kind, data in await place.events("lobby") if data.get("streamId") == pending.id]
    assert names == ["tool.started", "space.message", "tool.done"]


@requirement("SPACE-sync-flow-inline", "SPACE-results-waiting-skips")
async def test_a_result_within_the_timeout_is_read_in_the_same_cycle(place: AgentsGateway) -> None:
    await place.say("lobby", "Look up active projects")
    call = await place.call_of("fetchExternalData", agent="concierge")
    assert await place.answer(call, {"count": 3}) == "inline"
    cycle = await place.cycle("concierge", 1)
    assert cycle.summary == "Found 3 active projects."
    await place.settled()
    assert [event.type for event in await place.inbox("concierge")] == ["space_message"]


@requirement("SPACE-sync-flow-agent-informed", "SPACE-sync-flow-late-inbox", "SPACE-cycle-next-inbox")
async def test_after_a_timeout_the_cycle_goes_on_and_the_late_result_opens_the_next(place: AgentsGateway) -> None:
    await place.say("lobby", "Look up active projects")
    first = await place.cycle("concierge", 1)
    [call] = [call for call in await place.calls(first) if call.tool == "fetchExternalData"]
    assert told(place.requests[-1], "fetchExternalData") == {
        "error": "Tool timed out after 400ms",
        "toolCallId": call.id,
    }
    assert (await place.messages("lobby"))[-1]["content"] == "The project server does not answer."
    assert await place.answer(call, {"count": 2}) == "inbox"
    second = await place.cycle("concierge", 2)
    assert second.summary == "Late, but here."
    assert f'[Tool Result: fetchExternalData] (callId: {call.id}) {{"count":2}}' in inbox_of(place.requests[-1])


@requirement("SPACE-example-chart-rendered", "SPACE-visible-posted", "SPACE-event-done", "SPACE-message-render-by-name")
async def test_a_chart_is_drawn_in_the_space_at_once(place: AgentsGateway) -> None:
    await place.say("lobby", "Draw a chart")
    cycle = await place.cycle("concierge", 1)
    assert told(place.requests[-1], "displayChart") == {"success": True, "args": {"bars": [1, 2]}}
    [shown] = tool_messages(await place.messages("lobby"))
    [call] = [call for call in await place.calls(cycle) if call.tool == "displayChart"]
    assert shown["metadata"] == {
        "type": "tool_call",
        "toolCallId": call.id,
        "toolName": "displayChart",
        "args": {"bars": [1, 2]},
        "result": {"success": True, "args": {"bars": [1, 2]}},
        "status": "complete",
        "runId": cycle.id,
    }
    done = [data for kind, data in await place.events("lobby") if kind == "tool.done"]
    assert [(data["streamId"], data["result"]) for data in done] == [(call.id, shown["metadata"]["result"])]


@requirement("SPACE-visible-no-space-error", "SPACE-visible-no-space-not-run", "SPACE-principle-visible-needs-space")
@pytest.mark.parametrize("asked", ["chart without a space", "chart after leaving"])
async def test_a_visible_tool_outside_of_all_spaces_is_refused_and_neither_run_nor_shown(
    place: AgentsGateway, asked: str
) -> None:
    await place.say("lobby", asked)
    cycle = await place.cycle("concierge", 1)
    assert told(place.requests[-1], "displayChart") == {
        "error": 'Tool "displayChart" is visible but you are not in a space. Call enter_space first.'
    }
    [call] = [call for call in await place.calls(cycle) if call.tool == "displayChart"]
    assert call.status is CallStatus.FAILED
    assert tool_messages(await place.messages("lobby")) == []
    assert not [kind for kind, _ in await place.events("lobby") if kind.startswith("tool.")]


@requirement("SPACE-visible-correct-space", "SPACE-no-space-id-parameter")
async def test_a_visible_call_appears_in_the_space_that_was_entered_last_and_in_no_other(place: AgentsGateway) -> None:
    await place.say("lobby", "Chart in the bar")
    await place.cycle("concierge", 1)
    assert tool_messages(await place.messages("lobby")) == []
    [shown] = tool_messages(await place.messages("bar"))
    assert shown["metadata"]["args"] == {"bars": [3]}
    assert not [kind for kind, _ in await place.events("lobby") if kind.startswith("tool.")]


@requirement("SPACE-invisible-silent", "SPACE-invisible-agent-only", "SPACE-field-visible", "SPACE-builtin-invisible")
async def test_an_invisible_call_and_a_built_in_one_leave_nothing_in_the_space(place: AgentsGateway) -> None:
    await place.say("lobby", "Book a hotel in Tokyo")
    await place.cycle("concierge", 1)
    await place.answer(await place.call_of("confirmAction", agent="concierge"), {"confirmed": True})
    second = await place.cycle("concierge", 2)
    assert [call.tool for call in await place.calls(second)] == ["bookHotel", "enter_space", "send_message"]
    assert told(place.requests[-1], "bookHotel") == {"booked": "Tokyo"}
    shown = tool_messages(await place.messages("lobby"))
    assert [message["metadata"]["toolName"] for message in shown] == ["confirmAction"]
    started = [data["toolName"] for kind, data in await place.events("lobby") if kind == "tool.started"]
    assert started == ["confirmAction"]


@requirement("SPACE-message-send-triggers", "SPACE-message-no-trigger", "SPACE-message-same-pipeline")
async def test_what_an_agent_says_wakes_the_others_and_what_it_shows_does_not(place: AgentsGateway) -> None:
    said = await place.say("lobby", "Draw a chart")
    await place.cycle("concierge", 1)
    await place.settled()
    assert [event.event_id for event in await place.inbox("porter")] == [said["id"]], "the chart told nobody"

    await place.say("lobby", "Look up active projects")
    await place.cycle("concierge", 2)
    await place.settled()
    [answer] = [message for message in await place.messages("lobby") if "does not answer" in message["content"]]
    heard = {event.event_id: msgspec.json.decode(event.data) for event in await place.inbox("porter")}
    assert heard[answer["id"]]["content"] == "The project server does not answer."
    assert heard[answer["id"]]["senderType"] == "agent"
    own = [event for event in await place.inbox("concierge") if event.event_id == answer["id"]]
    assert own == [], "nobody hears himself"


@requirement("SPACE-message-no-trigger")
async def test_an_answer_to_a_visible_call_reaches_the_agent_that_asked_and_no_other(place: AgentsGateway) -> None:
    await place.say("lobby", "Book a hotel in Tokyo")
    await place.cycle("concierge", 1)
    await place.settled()
    before = await place.inbox("porter")
    await place.answer(await place.call_of("confirmAction", agent="concierge"), {"confirmed": "later"})
    await place.cycle("concierge", 2)
    await place.settled()
    assert await place.inbox("porter") == before


async def test_an_agent_at_work_is_seen_where_it_was_spoken_to_until_its_cycle_is_over(place: AgentsGateway) -> None:
    await place.say("lobby", "Look up active projects")
    call = await place.call_of("fetchExternalData", agent="concierge")
    present = await place.store.read(partial(space_tx.presence_in, "lobby"))
    assert [(one.agent, one.run_id) for one in present if one.agent == "concierge"] == [("concierge", call.run_id)]
    await place.cycle("concierge", 1)
    await place.settled()
    assert await place.store.read(partial(space_tx.presence_in, "lobby")) == []
    seen = [(kind, data) for kind, data in await place.events("lobby") if kind.startswith("agent.")]
    mine = [kind for kind, data in seen if data["agentEntityId"] == "concierge"]
    assert mine == ["agent.active", "agent.inactive"]
    assert seen[0][1]["runId"] is not None


@requirement("SPACE-builtin-skip")
async def test_an_agent_with_nothing_to_do_skips_and_its_model_is_asked_once(place: AgentsGateway) -> None:
    await place.say("lobby", "Lovely weather")
    cycle = await place.cycle("concierge", 1)
    await place.settled()
    assert len(place.requests) == 1, "after skip the model is not asked again"
    [call] = await place.calls(cycle)
    assert (call.tool, msgspec.json.decode(call.result or b"null")) == (
        "skip",
        {"success": True, "skipped": True, "reason": "nothing to do"},
    )
    assert [message["content"] for message in await place.messages("lobby")] == ["Lovely weather"]

    async def processed() -> bool:
        return [event.status for event in await place.inbox("concierge")] == ["processed"]

    await eventually_async(processed)


async def test_a_call_that_a_person_must_allow_waits_for_it_and_its_result_comes_by_inbox(tmp_path: Path) -> None:
    config = CONFIG + "tools.bookHotel.metadata = { requires_approval = true }\n"
    script = """
[[turns]]
when = { user = "Go" }
calls = [{ tool = "bookHotel", arguments = { city = "Oslo" } }]
[otherwise]
say = "Noted."
"""
    async with agents_gateway(tmp_path, script, config, files=FILES) as place:
        await place.trigger("concierge")
        await place.cycle("concierge", 1)
        call = await place.call_of("bookHotel", agent="concierge")
        assert call.status is CallStatus.PENDING_APPROVAL
        assert told(place.requests[-1], "bookHotel")["status"] == "pending_approval"
        answer = await place.client.post(f"/api/v1/calls/{call.id}/approve", json={})
        assert answer.status_code == 200, answer.text
        await place.cycle("concierge", 2)
        assert f'[Tool Result: bookHotel] (callId: {call.id}) {{"booked":"Oslo"}}' in inbox_of(place.requests[-1])


@pytest.mark.parametrize("ending", ["rejected", "cancelled"])
async def test_a_pending_call_that_comes_to_nothing_tells_its_agent_why(place: AgentsGateway, ending: str) -> None:
    await place.say("lobby", "Book a hotel in Tokyo")
    await place.cycle("concierge", 1)
    call = await place.call_of("confirmAction", agent="concierge")
    if ending == "rejected":
        body = {"callId": call.id, "error": "Nobody is here."}
        answer = await place.client.post(f"/api/runs/{call.run_id}/tool-results", json=body)
    else:
        answer = await place.client.post(f"/api/v1/calls/{call.id}/cancel", json={})
    assert answer.status_code == 200, answer.text
    second = await place.cycle("concierge", 2)
    assert second.consumed == (f"tr:{call.id}",)
    line = inbox_of(place.requests[-1]).splitlines()[1]
    assert line.startswith(f'[Tool Result: confirmAction] (callId: {call.id}) {{"error":')
    [shown] = tool_messages(await place.messages("lobby"))
    assert shown["metadata"]["status"] == "error"
    ends = [kind for kind, data in await place.events("lobby") if data.get("streamId") == call.id]
    assert ends == ["tool.started", "space.message", "tool.error"]


@requirement("SPACE-event-error", "SPACE-event-order")
async def test_a_visible_call_that_is_refused_after_it_was_announced_ends_as_an_error(tmp_path: Path) -> None:
    script = """
[[turns]]
when = { user = "Go" }
calls = [
  { tool = "enter_space", arguments = { spaceId = "lobby" } },
  { tool = "confirmAction", arguments = { answer = 42 } },
]
[otherwise]
say = "Noted."
"""
    async with agents_gateway(tmp_path, script, CONFIG, files=FILES) as place:
        await place.trigger("concierge")
        await place.cycle("concierge", 1)
        assert "question" in dict(outputs_of(place.requests[-1]))["confirmAction"]
        [shown] = tool_messages(await place.messages("lobby"))
        assert shown["metadata"]["status"] == "error"
        kinds = [kind for kind, _ in await place.events("lobby") if kind.startswith("tool.")]
        assert kinds == ["tool.started", "tool.error"]
        assert await place.inbox("porter") == []
