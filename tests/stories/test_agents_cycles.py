"""How agents live: what they know when they wake, in what order they hear, what they remember, what stops them."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.agents import scheduler as cycles
from jackfield.agents import transactions as agent_tx
from jackfield.agents.context import tokens_of
from jackfield.agents.cycle_transactions import cycles_of_agent, push_event
from jackfield.calls.rows import CallFilter, call_page
from jackfield.gateway.gateway import Gateway
from jackfield.model.agent_state import CycleStatus
from jackfield.model.call import Call, CallStatus, Delivery
from jackfield.model.items import Message, text_of
from jackfield.model.space import Sender
from jackfield.settings import Settings
from jackfield.settings.types import AgentSettings
from jackfield.spaces import transactions as space_tx
from tests.requirement import requirement
from tests.sources.mcp.scene import HttpServer, http_server
from tests.stories.agent_harness import agents_gateway, inbox_of, outputs_of
from tests.waiting import eventually_async

SETTLED = 60.0
SLOWEST_START = 3.0
"""Seconds of work, not of the clock: the machine may have other things to do."""
ADA = '[agents.ada]\nname = "Ada"\nspaces = ["home"]\nmodel = "mind"\n'


@pytest.fixture
def quick_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed try is repeated at once, and a cycle that was given up comes again soon."""
    monkeypatch.setattr(cycles, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(cycles, "BACKOFF_MS", 300)


@requirement("SPACE-visible-prompt")
async def test_an_agent_is_told_who_it_is_where_it_is_and_how_it_lives(tmp_path: Path) -> None:
    config = """
[agents.ada]
name = "Ada"
description = "Keeps the house."
instructions = "Be brief.\\n"
spaces = ["home"]
model = "mind"
"""
    script = """
[[turns]]
when = { user = "Go" }
calls = [
  { tool = "set_memories", arguments = { memories = [{ key = "tea", value = "green\\nand hot" }] } },
  { tool = "set_goals", arguments = { goals = [{ description = "Keep it tidy", priority = 3 }] } },
  { tool = "set_plans", arguments = { plans = [
    { name = "sweep", instruction = "Sweep the floor", cron = "0 9 * * *", timeZone = "Europe/Berlin" },
  ] } },
]
[otherwise]
say = "Done."
"""
    async with agents_gateway(tmp_path, script, config) as place:
        await place.store.write(partial(space_tx.put_member, "home", entity_id="eve", kind="person", name="Eve"))
        await place.trigger("ada")
        await place.cycle("ada", 1)
        first = place.requests[0].instructions or ""
        await place.trigger("ada", "Again", event_id="evt_2")
        await place.cycle("ada", 2)
        second = place.requests[-1].instructions or ""
        [goal] = await place.store.read(partial(agent_tx.goals, "ada"))
        [plan] = await place.store.read(partial(agent_tx.plans, "ada"))
    assert first.startswith("You are Ada (agent id: ada). Keeps the house.\n\nBe brief.\n\n")
    assert "Call enter_space before send_message and before any tool that is visible in a space." in first
    assert 'Your spaces:\n- "home" (spaceId: home). With: Eve (person)\n' in first
    assert "Your goals:\n- none\n\nYour memories:\n- none\n\nYour plans:\n- none" in first
    assert f"Your goals:\n- Keep it tidy (id: {goal.id}, active, priority 3)" in second
    assert "Your memories:\n- tea: green and hot" in second, "on one line, whatever was remembered"
    assert f"Your plans:\n- sweep (id: {plan.id}, cron 0 9 * * *, next " in second
    assert second.endswith("): Sweep the floor")


async def test_the_inbox_is_read_by_weight_people_first_then_results_then_plans_and_services_then_agents(
    tmp_path: Path,
) -> None:
    script = '[[turns]]\nwhen = { user = "Go" }\nwait = 0.3\nsay = "Slow."\n[otherwise]\nsay = "Done."\n'
    async with agents_gateway(tmp_path, script, ADA) as place:
        await place.trigger("ada")
        await place.begun("ada")
        for kind, event_id, data in (
            ("space_message", "e1", _message("Bob", "agent", "from an agent")),
            ("service", "e2", {"serviceName": "clock", "payload": {"tick": 1}}),
            ("plan", "plan_1:x", {"planId": "plan_1", "planName": "sweep", "instruction": "Sweep"}),
            ("tool_result", "tr:c1", {"toolName": "look", "toolCallId": "c1", "result": {"n": 1}}),
            ("space_message", "e3", _message("Eve", "human", "first")),
            ("space_message", "e4", _message("Husam", "human", "second")),
            ("space_message", "e3", _message("Eve", "human", "said twice")),
        ):
            text = msgspec.json.encode(data).decode()
            await place.store.write(partial(push_event, "ada", event_id=event_id, type=kind, data=text))
        await place.cycle("ada", 2)
        head, *lines = inbox_of(place.requests[-1]).split("\n")
    assert head.startswith("INBOX (6 events, now=")
    assert lines == [
        '[Eve: "first"] ("Home", spaceId: home, just now)',
        '[Husam: "second"] ("Home", spaceId: home, just now)',
        '[Tool Result: look] (callId: c1) {"n":1}',
        '[Service: clock] (just now) {"tick":1}',
        '[Plan: sweep] (planId: plan_1) "Sweep"',
        '[Bob: "from an agent"] ("Home", spaceId: home, just now)',
    ]


def _message(sender: str, kind: str, content: str) -> dict[str, Any]:
    where = {"spaceId": "home", "spaceName": "Home", "messageId": "m"}
    return where | {"senderEntityId": sender, "senderName": sender, "senderType": kind, "content": content, "hops": 1}


@requirement("SPACE-async-agent-continues")
async def test_after_a_pending_call_the_agent_goes_on_with_other_calls_in_the_same_cycle(tmp_path: Path) -> None:
    config = (
        ADA
        + """
[[tools]]
name = "job"
description = "Takes long"
inputSchema = { type = "object" }
executionType = "external"
visible = false
isAsync = true
"""
    )
    script = """
[[turns]]
when = { user = "Go" }
calls = [{ tool = "job" }]
[[turns]]
when = { result = "job" }
calls = [{ tool = "set_memories", arguments = { memories = [{ key = "job", value = "{result.pendingToolCallId}" }] } }]
[otherwise]
say = "Done."
"""
    async with agents_gateway(tmp_path, script, config) as place:
        await place.trigger("ada")
        cycle = await place.cycle("ada", 1)
        job, _ = await place.calls(cycle)
        [memory] = await place.store.read(partial(agent_tx.memories, "ada"))
    assert (job.status.value, memory.value) == ("pending", job.id)


async def test_two_agents_that_answer_each_other_are_stopped_and_people_are_told_until_one_speaks(
    tmp_path: Path,
) -> None:
    config = "".join(
        f'[agents.{name}]\nspaces = ["home"]\nmodel = "mind"\nmax_exchanges = 4\n' for name in ("ada", "bob")
    )
    script = """
[[turns]]
when = { result = "send_message" }
say = "Answered."
[otherwise]
calls = [
  { tool = "enter_space", arguments = { spaceId = "home" } },
  { tool = "send_message", arguments = { text = "And you?" } },
]
"""
    async with agents_gateway(tmp_path, script, config) as place:
        await place.trigger("ada")
        await place.cycle("ada", 3)
        await place.settled()
        said = [(message["entityId"], message["content"]) for message in await place.messages("home")]
        warning = (
            "The agents here have sent 4 messages in a row without a person. "
            "They do not wake each other any further; write something to go on."
        )
        answers = [(name, "And you?") for name in ("ada", "bob", "ada", "bob", "ada")]
        assert said == [*answers, ("jackfield", warning)], "the fifth wakes nobody, and people are told"
        assert len(await place.store.read(partial(cycles_of_agent, "bob"))) == 2

        await place.say("home", "Go on")
        await place.cycle("bob", 4)
        await place.settled()
        assert len(await place.messages("home")) > len(said) + 3, "a person's word begins anew"


@requirement("SPACE-cycle-consciousness-saved")
async def test_an_agents_history_is_kept_verbatim_up_to_a_limit_and_then_summarized(
    tmp_path: Path,
) -> None:
    config = ADA + "context_tokens = 1000\n"
    script = """
[[turns]]
when = { user = '"n":(?P<n>\\d+)' }
say = "I saw number {n}."
"""
    async with agents_gateway(tmp_path, script, config) as place:
        for number in range(1, 13):
            await place.trigger("ada", {"n": number, "words": "x" * 1200}, event_id=f"evt_{number}")
            await place.cycle("ada", number)
        items = place.requests[-1].items
    texts = [text_of(item) for item in items if isinstance(item, Message)]
    assert texts[0].startswith("Summaries of your earlier cycles, the oldest first:\nCycle ")
    assert "Cycle 8: I saw number 8." in texts[0]
    assert texts[-2] == "I saw number 11."
    assert '"n":11' in texts[-3], "the newest past is there word by word"
    assert not any('"n":5' in text for text in texts), "the oldest is not"
    assert tokens_of(items[:-1]) <= 1000 + 1000 // 4


@requirement("CON-agents-model-failure")
@pytest.mark.usefixtures("quick_tries")
async def test_a_model_that_fails_twice_is_asked_a_third_time_and_what_was_done_is_not_done_again(
    tmp_path: Path,
) -> None:
    script = """
[[turns]]
calls = [
  { tool = "enter_space", arguments = { spaceId = "home" } },
  { tool = "send_message", arguments = { text = "On it." } },
]
[[turns]]
fail = "Out of order."
[[turns]]
say = "Half a sen"
fail = "Cut off."
[[turns]]
say = "All done."
"""
    async with agents_gateway(tmp_path, script, ADA) as place:
        await place.say("home", "Please")
        cycle = await place.cycle("ada", 1)
        await place.settled()
        assert cycle.summary == "All done."
        assert len(place.requests) == 4
        assert [tool for tool, _ in outputs_of(place.requests[-1])] == ["enter_space", "send_message"]
        assert [message["content"] for message in await place.messages("home")] == ["Please", "On it."]


@requirement("CON-agents-model-failure")
@pytest.mark.usefixtures("quick_tries")
async def test_a_model_that_fails_three_times_keeps_the_events_records_the_failure_and_people_are_told_once(
    tmp_path: Path,
) -> None:
    config = ADA.replace('["home"]', '["home", "attic"]')
    script = "".join(f'[[turns]]\nfail = "Out of order {number}."\n' for number in range(6))
    script += '[otherwise]\nsay = "Back again."\n'
    async with agents_gateway(tmp_path, script, config) as place:
        said = await place.say("home", "Please")
        first = await place.cycle("ada", 1, status=CycleStatus.FAILED)
        assert first.reason == "Out of order 2."
        second = await place.cycle("ada", 2, status=CycleStatus.FAILED)
        assert second.consumed == (said["id"], f"cf:{first.id}"), "the event is found again, and what went wrong"
        third = await place.cycle("ada", 3)
        await place.settled()
        assert third.consumed == (said["id"], f"cf:{first.id}", f"cf:{second.id}")
        assert "[Cycle Failed]" in inbox_of(place.requests[-1])
        assert "It had called nothing." in inbox_of(place.requests[-1])
        _, warning = await place.messages("home")
        assert warning["senderType"] == "system"
        assert warning["content"].startswith("Ada could not go on: Out of order 2. It tries again in ")
        assert warning["metadata"] == {"type": "cycle_failed", "agent": "ada", "cycleId": first.id}
        assert await place.messages("attic") == [], "where it was not spoken to, nobody needs to know"
        assert {event.status for event in await place.inbox("ada")} == {"processed"}


@requirement("CON-agents-model-failure", "SPACE-event-error")
@pytest.mark.usefixtures("quick_tries")
async def test_a_visible_call_that_was_cut_off_in_the_middle_ends_as_an_error_in_the_space(tmp_path: Path) -> None:
    config = ADA + '[[tools]]\nname = "chart"\ndescription = "x"\ninputSchema = { type = "object" }\n'
    config += 'executionType = "internal"\nvisible = true\n'
    script = """
[[turns]]
calls = [{ tool = "enter_space", arguments = { spaceId = "home" } }]
[[turns]]
calls = [{ tool = "chart", arguments = { bars = [1, 2, 3, 4, 5, 6, 7, 8, 9] } }]
fail = "Cut off."
[[turns]]
calls = [{ tool = "chart", arguments = { bars = [2] } }]
[[turns]]
say = "Drawn."
"""
    async with agents_gateway(tmp_path, script, config) as place:
        await place.trigger("ada")
        await place.cycle("ada", 1)
        events = [(kind, data["streamId"]) for kind, data in await place.events("home") if kind.startswith("tool.")]
        shown = [message["metadata"] for message in await place.messages("home")]
    cut_off, drawn = shown[0]["toolCallId"], shown[1]["toolCallId"]
    assert [kind for kind, stream in events if stream == cut_off] == ["tool.started", "tool.error"]
    assert [kind for kind, stream in events if stream == drawn] == ["tool.started", "tool.done"]
    assert [(one["status"], one["args"]) for one in shown] == [("error", {}), ("complete", {"bars": [2]})]


@pytest.mark.usefixtures("quick_tries")
async def test_a_cycle_that_takes_too_long_is_given_up_and_one_with_too_many_steps_ends(tmp_path: Path) -> None:
    config = ADA + "timeout = 0.2\n" + '[agents.bob]\nmodel = "mind"\nmax_steps = 3\n'
    script = """
[[turns]]
when = { user = "slow" }
say = "At last."
wait = 30
[otherwise]
calls = [{ tool = "get_memories" }]
"""
    async with agents_gateway(tmp_path, script, config) as place:
        await place.trigger("ada", "slow")
        failed = await place.cycle("ada", 1, status=CycleStatus.FAILED)
        assert failed.reason == "It took longer than 0.2 s."
        await place.trigger("bob", event_id="evt_2")
        stopped = await place.cycle("bob", 1)
        assert stopped.summary == "Stopped before the end (max_steps). Called get_memories."
        assert len(await place.calls(stopped)) == 3


@requirement(
    "CON-spaces-events", "SPACE-event-started", "SPACE-event-streaming", "SPACE-event-order", "SPACE-visible-streamed"
)
async def test_a_visible_call_is_seen_from_its_first_word_to_its_result(tmp_path: Path) -> None:
    config = ADA + '[[tools]]\nname = "chart"\ndescription = "x"\ninputSchema = { type = "object" }\n'
    config += 'executionType = "internal"\nvisible = true\n'
    script = """
pace = 0.02
[[turns]]
when = { user = "Go" }
calls = [{ tool = "enter_space", arguments = { spaceId = "home" } }]
[[turns]]
when = { result = "enter_space" }
calls = [
  { tool = "chart", arguments = { title = "How it went, week by week", bars = [1, 2, 3, 4] } },
  { tool = "send_message", arguments = { text = "This is how it went, week by week." } },
]
[otherwise]
say = "Done."
"""
    async with agents_gateway(tmp_path, script, config) as place:
        following = place.gateway.spaces.follow("home")
        seen = list(_frames(await anext(following)))
        await place.trigger("ada")
        while not any(event["type"] == "agent.inactive" for event in seen):
            async with asyncio.timeout(10):
                seen += list(_frames(await anext(following)))
        await following.aclose()
    assert [event["type"] for event in seen[:2]] == ["connected", "agent.active"]
    call = next(event["streamId"] for event in seen if event["type"] == "tool.started")
    of_call = [event for event in seen if event.get("streamId") == call]
    assert [event["type"] for event in of_call if event["type"] in ("tool.started", "tool.done")] == [
        "tool.started",
        "tool.done",
    ]
    pieces = [event for event in of_call if event["type"] == "tool.streaming"]
    assert len(pieces) >= 2, "the arguments come in pieces"
    whole = "".join(event["delta"] for event in pieces)
    assert msgspec.json.decode(whole) == {"title": "How it went, week by week", "bars": [1, 2, 3, 4]}
    assert of_call[0]["type"] == "tool.started"
    assert of_call.index(pieces[-1]) < [event["type"] for event in of_call].index("tool.done")
    message = next(event for event in seen if event["type"] == "space.message" and event["streamId"] != call)
    spoken = [event for event in seen if event.get("streamId") == message["streamId"]]
    assert {event["type"] for event in spoken} == {"space.message.streaming", "space.message"}
    said = "".join(event.get("delta") or "" for event in spoken)
    assert said == message["message"]["content"] == "This is how it went, week by week."


def _frames(raw: bytes) -> Iterator[dict[str, Any]]:
    for line in raw.decode().splitlines():
        if line.startswith("data: "):
            yield msgspec.json.decode(line[6:])


@pytest.fixture(scope="module")
def far_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with http_server(tmp_path_factory.mktemp("own")) as server:
        yield server


@requirement(
    "SPACE-mcp-build-time",
    "SPACE-mcp-server-name",
    "SPACE-mcp-server-url",
    "SPACE-mcp-server-transport",
    "SPACE-mcp-server-allowed",
    "SPACE-mcp-like-gateway",
    "SPACE-mcp-invisible-default",
    "SPACE-mcp-executes-remote",
)
async def test_an_agents_own_servers_are_loaded_for_it_alone_with_the_tools_it_may_have(
    tmp_path: Path, far_server: HttpServer
) -> None:
    config = f"""
[agents.ada]
model = "mind"
spaces = ["home"]
tools = []

[[agents.ada.mcp.servers]]
name = "github-tools"
url = "{far_server.url}"
transport = "http"
allowedTools = ["echo", "mixed"]

[[agents.ada.mcp.servers]]
name = "down"
url = "http://127.0.0.1:9/mcp"
transport = "http"

[agents.bob]
model = "mind"
"""
    script = """
[[turns]]
when = { tool = "echo", user = "Go" }
calls = [
  { tool = "enter_space", arguments = { spaceId = "home" } },
  { tool = "echo", arguments = { text = "hi" } },
  { tool = "weather", arguments = {} },
]
[otherwise]
say = "Done."
"""
    async with agents_gateway(tmp_path, script, config) as place:
        await place.trigger("ada")
        cycle = await place.cycle("ada", 1)
        offered = {tool.name for tool in place.requests[-1].tools}
        answers = dict(outputs_of(place.requests[-1]))
        _, own, _ = await place.calls(cycle)
        await place.trigger("bob", event_id="evt_2")
        await place.cycle("bob", 1)
        others = {tool.name for tool in place.requests[-1].tools}
        listed = (await place.client.get("/api/v1/tools")).json()["tools"]
        messages = await place.messages("home")
    assert {"echo", "mixed"} <= offered
    assert "weather" not in offered
    assert answers["echo"] == "hi"
    assert answers["weather"].startswith("There is no tool 'weather'.")
    assert (own.status, own.delivery) == (CallStatus.COMPLETED, Delivery.INLINE)
    assert own.source == "github-tools@ada"
    assert not {"echo", "mixed"} & others, "nobody else has them"
    assert not [tool["name"] for tool in listed if "echo" in tool["name"]]
    assert messages == [], "they are not visible"


async def test_servers_of_two_agents_are_never_taken_for_each_other(tmp_path: Path, far_server: HttpServer) -> None:
    """Their names put together are the same: `a_b` with `c`, and `a` with `b_c`."""
    config = "".join(
        f"""
[agents.{agent}]
model = "mind"
tools = []
[[agents.{agent}.mcp.servers]]
name = "{server}"
url = "{far_server.url}"
transport = "http"
allowedTools = ["{tool}"]
"""
        for agent, server, tool in (("a_b", "c", "echo"), ("a", "b_c", "mixed"))
    )
    async with agents_gateway(tmp_path, '[otherwise]\nsay = "Seen."\n', config) as place:
        for number, (agent, tool) in enumerate([("a_b", "echo"), ("a", "mixed"), ("a_b", "echo")]):
            await place.trigger(agent, event_id=f"evt_{number}")
            await place.cycle(agent, 1 + number // 2)
            offered = {tool.name for tool in place.requests[-1].tools}
            assert offered & {"echo", "mixed"} == {tool}
        listed = {status.name for status in place.gateway.source_registry.statuses()}
        assert not [name for name in listed if "@" in name], "nor are they in anybody else's list"


async def test_ten_thousand_agents_sleep_in_one_process_at_the_cost_of_a_row_each(tmp_path: Path) -> None:
    count = 10_000
    url = f"sqlite:///{tmp_path / 'many.db'}"
    (tmp_path / "mind.toml").write_text('[otherwise]\nsay = "Good morning."\n')
    agents = {f"a{n}": AgentSettings(model="mind", spaces=(f"room{n % 50}",)) for n in range(count)}
    settings = Settings(
        path=None,
        folder=tmp_path,
        data=tmp_path,
        store_url=url,
        models={"mind": {"provider": "scripted", "script": "mind.toml"}},
        agents=agents,
    )
    async with Gateway(settings):
        pass
    began = time.process_time()
    gateway = Gateway(settings)
    async with gateway:
        assert time.process_time() - began < SLOWEST_START, "what the store has already is not written again"
        tasks = asyncio.all_tasks()
        assert len(tasks) < 60, "no task for one who sleeps"
        assert gateway.scheduler.awake == frozenset()
        before = time.process_time()
        await gateway.scheduler.sweep()
        assert time.process_time() - before < 0.2, "a round of the sweep does not look at who sleeps"
        space = "room7"
        await gateway.store.write(
            partial(space_tx.post_message, space, sender=Sender("eve", "Eve", "person"), content="Wake up")
        )

        async def all_done() -> bool:
            done = [await gateway.store.read(partial(cycles_of_agent, f"a{n}", limit=1)) for n in range(7, count, 50)]
            return all(one and one[0].status is CycleStatus.DONE for one in done)

        await eventually_async(all_done, within=SETTLED)
        assert gateway.scheduler.awake == frozenset()
        assert await gateway.store.read(partial(cycles_of_agent, "a8", limit=1)) == [], "the others slept on"


@requirement("SAFE-waiting-cycles-hold-no-place")
async def test_four_hundred_agents_that_wait_for_an_answer_do_not_keep_another_from_its_work(tmp_path: Path) -> None:
    count = 2 * cycles.AT_ONCE
    agents = "".join(f'[agents.a{n}]\nmodel = "mind"\n' for n in range(count))
    config = (
        agents
        + ADA
        + """
[[tools]]
name = "ask"
description = "Somebody answers, some day"
inputSchema = { type = "object" }
executionType = "external"
visible = false
timeout = 600000
"""
    )
    script = """
[[turns]]
when = { user = "Wait" }
calls = [{ tool = "ask" }]
[[turns]]
when = { result = "ask" }
say = "Told: {result}"
[otherwise]
say = "Good morning."
"""
    async with agents_gateway(tmp_path, script, config) as place:
        for n in range(count):
            await place.trigger(f"a{n}", "Wait")

        async def all_wait() -> list[Call] | None:
            page = await place.store.read(
                partial(call_page, CallFilter(tool="ask", status=(CallStatus.WAITING,)), limit=count)
            )
            return page.calls if len(page.calls) == count else None

        waiting = await eventually_async(all_wait, within=SETTLED)
        await place.trigger("ada", "Hello")
        assert (await place.cycle("ada", 1)).summary == "Good morning."
        assert len(place.gateway.scheduler.awake) >= count, "the others wait on"
        for call in waiting:
            assert await place.answer(call, 42) == "inline"
        for n in range(count):
            assert (await place.cycle(f"a{n}", 1)).summary == "Told: 42"
