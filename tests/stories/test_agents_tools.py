"""The tools that every agent has, each with what it does, what it answers and what it refuses."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.agents import transactions as agent_tx
from jackfield.agents.builtin_handlers import HISTORY
from jackfield.agents.builtin_tools import ENTRIES
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.view import View
from jackfield.model.call import Call, CallStatus, Failed
from jackfield.model.principal import Principal
from jackfield.model.space import Sender
from jackfield.model.text import iso_time
from jackfield.spaces import transactions as space_tx
from tests.requirement import requirement
from tests.stories.agent_harness import AgentsGateway, agents_gateway, outputs_of, told

SEED = {
    "enter_space",
    "leave_space",
    "send_message",
    "read_messages",
    "skip",
    "set_goals",
    "delete_goals",
    "set_memories",
    "delete_memories",
    "set_plans",
    "delete_plans",
    "get_plans",
}
CONFIG = """
[agents.ada]
name = "Ada"
spaces = ["home"]
model = "mind"

[agents.bob]
model = "quiet"

[models.quiet]
provider = "scripted"
script = "quiet.toml"

[[tools]]
name = "skip"
description = "Not the built-in one."
inputSchema = { type = "object" }
executionType = "internal"

[[tools]]
name = "enter_space"
description = "Not the built-in one."
inputSchema = { type = "object" }
executionType = "internal"

[[tools]]
name = "forecast"
description = "Tells the weather of tomorrow"
inputSchema = { type = "object" }
executionType = "internal"
"""
QUIET = '[otherwise]\ncalls = [{ tool = "skip" }]\n'
SCRIPT = """
[[turns]]
when = {{ user = "Go" }}
calls = {calls}
[otherwise]
say = "Done."
"""


async def did(folder: Path, *calls: tuple[str, dict[str, Any]], before: Any = None) -> "Deeds":
    """What ada is told when she makes these calls, one after the other in one step."""
    made = "[" + ", ".join(f'{{ tool = "{tool}", raw = {_toml(arguments)} }}' for tool, arguments in calls) + "]"
    async with agents_gateway(folder, SCRIPT.format(calls=made), CONFIG, files={"quiet.toml": QUIET}) as place:
        if before is not None:
            await before(place)
        await place.trigger("ada")
        cycle = await place.cycle("ada", 1)
        await place.settled()
        told_ada = [
            msgspec.json.decode(text) if text[:1] in "{[" else text for _, text in outputs_of(place.requests[-1])
        ]
        return Deeds(
            told=told_ada,
            calls=await place.calls(cycle),
            messages=await place.messages("home"),
            events=await place.events("home"),
            memories={memory.key: memory.value for memory in await place.store.read(partial(agent_tx.memories, "ada"))},
            goals=[
                (goal.description, goal.status, goal.priority)
                for goal in await place.store.read(partial(agent_tx.goals, "ada"))
            ],
            plans=await place.store.read(partial(agent_tx.plans, "ada")),
            began=cycle.created_at,
        )


class Deeds(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a cycle."""

    told: list[Any]
    calls: list[Call]
    messages: list[dict[str, Any]]
    events: list[tuple[str, dict[str, Any]]]
    memories: dict[str, str]
    goals: list[tuple[str, str, int]]
    plans: list[Any]
    began: int


def _toml(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(msgspec.json.encode(arguments).decode()).decode()


async def forty_messages(place: AgentsGateway) -> None:
    for number in range(40):
        await place.store.write(
            partial(
                space_tx.post_message,
                "home",
                sender=Sender("eve", "Eve", "person"),
                content=str(number),
                wakes_agents=False,
            )
        )


async def a_strange_space(place: AgentsGateway) -> None:
    await place.store.write(partial(space_tx.create_space, "away", name="Away"))


@requirement("SPACE-builtin-injected", "CON-agents-builtin-extra")
async def test_every_agent_has_the_built_in_tools_without_a_word_of_config(tmp_path: Path) -> None:
    async with agents_gateway(tmp_path, QUIET, CONFIG, files={"quiet.toml": QUIET}) as place:
        await place.trigger("bob")
        await place.cycle("bob", 1)
        quiet: Any = await place.gateway.models.get("quiet")
        offered = {tool.name: tool for tool in quiet.requests[-1].tools}
    assert SEED | {"get_memories", "peek_inbox", "search_tools"} <= set(offered)
    assert all(offered[name].description for name in ENTRIES)


@requirement("SPACE-builtin-not-configurable")
async def test_a_tool_of_the_config_cannot_take_the_place_of_a_built_in_one(tmp_path: Path) -> None:
    made = await did(
        tmp_path,
        ("internal_enter_space", {"spaceId": "home"}),
        ("internal_skip", {}),
        ("send_message", {"text": "Am I in?"}),
        ("enter_space", {"spaceId": "home"}),
    )
    assert made.told[0] == {"success": True, "args": {"spaceId": "home"}}, "it is an ordinary tool by another name"
    assert made.told[1] == {"success": True, "args": {}}
    assert made.told[2]["success"] is False, "and it leads nowhere"
    assert made.told[3]["spaceName"] == "home"
    assert made.calls[-1].source == "builtin"


@requirement("SPACE-builtin-not-configurable", "SAFE-empty-is-none")
async def test_an_agent_that_may_use_no_tool_still_has_the_built_in_ones(tmp_path: Path) -> None:
    forecast = CONFIG[CONFIG.rindex("[[tools]]") :]
    config = f'[agents.ada]\nmodel = "mind"\ntools = []\n[agents.all]\nmodel = "mind"\n{forecast}'
    async with agents_gateway(tmp_path, '[otherwise]\nsay = "Hm."\n', config) as place:
        made = await place.client.post("/api/agents", json={"id": "eve", "model": "mind", "tools": []})
        assert made.status_code == 201, made.text
        for agent in ("ada", "eve"):
            await place.trigger(agent)
            await place.cycle(agent, 1)
            assert {tool.name for tool in place.requests[-1].tools} == set(ENTRIES)
        await place.trigger("all")
        await place.cycle("all", 1)
        assert {tool.name for tool in place.requests[-1].tools} == {*ENTRIES, "forecast"}


@requirement("SPACE-builtin-enter-space", "SPACE-builtin-enter-space-history")
async def test_enter_space_brings_the_latest_messages_along(tmp_path: Path) -> None:
    made = await did(tmp_path, ("enter_space", {"spaceId": "home"}), before=forty_messages)
    [entered] = made.told
    history = entered.pop("history")
    assert entered == {"success": True, "spaceId": "home", "spaceName": "home", "totalMessages": 40}
    assert [message["content"] for message in history] == [str(number) for number in range(40 - HISTORY, 40)]
    assert {key: history[-1][key] for key in ("senderName", "senderType", "entityId")} == {
        "senderName": "Eve",
        "senderType": "person",
        "entityId": "eve",
    }
    assert set(history[-1]) == {"id", "content", "senderName", "senderType", "entityId", "timestamp"}


@requirement("SPACE-builtin-enter-space", "SPACE-builtin-read-messages")
async def test_a_space_that_one_is_no_member_of_is_closed_whether_it_exists_or_not(tmp_path: Path) -> None:
    tried = [(tool, {"spaceId": space}) for tool in ("enter_space", "read_messages") for space in ("away", "nowhere")]
    made = await did(tmp_path, *tried, ("send_message", {"text": "Hi"}), before=a_strange_space)
    assert made.told[:4] == [{"success": False, "error": "Not a member of this space."}] * 4
    assert made.told[4]["error"] == "MESSAGE NOT SENT — you are not in any space. Call enter_space first."
    assert {call.status for call in made.calls} == {CallStatus.FAILED}


@requirement("SPACE-builtin-send-message")
async def test_send_message_posts_to_the_active_space_in_the_agents_name(tmp_path: Path) -> None:
    made = await did(tmp_path, ("enter_space", {"spaceId": "home"}), ("send_message", {"text": "Hello."}))
    [message] = made.messages
    assert made.told[1] == {"success": True, "messageId": message["id"], "status": "delivered"}
    assert (message["content"], message["entityId"], message["senderName"], message["senderType"], message["role"]) == (
        "Hello.",
        "ada",
        "Ada",
        "agent",
        "assistant",
    )
    assert message["runId"] == made.calls[0].cycle_id


@requirement("SPACE-builtin-send-message", "SPACE-builtin-leave-space")
async def test_outside_of_all_spaces_and_after_leaving_one_nothing_can_be_said(tmp_path: Path) -> None:
    made = await did(
        tmp_path,
        ("send_message", {"text": "Anybody?"}),
        ("enter_space", {"spaceId": "home"}),
        ("leave_space", {}),
        ("send_message", {"text": "Still there?"}),
        ("leave_space", {}),
    )
    refusal = {
        "success": False,
        "error": "MESSAGE NOT SENT — you are not in any space. Call enter_space first.",
        "action": "enter_space",
    }
    assert [made.told[0], *made.told[2:]] == [refusal, {"success": True}, refusal, {"success": True}]
    assert made.messages == []
    assert [kind for kind, _ in made.events if kind.startswith("agent.")] == ["agent.active", "agent.inactive"]


async def test_the_active_space_does_not_outlive_the_cycle(tmp_path: Path) -> None:
    script = """
[[turns]]
when = { user = "enter" }
calls = [{ tool = "enter_space", arguments = { spaceId = "home" } }]
[[turns]]
when = { user = "speak" }
calls = [{ tool = "send_message", arguments = { text = "Am I still here?" } }]
[otherwise]
say = "Done."
"""
    async with agents_gateway(tmp_path, script, CONFIG, files={"quiet.toml": QUIET}) as place:
        await place.trigger("ada", "enter")
        await place.cycle("ada", 1)
        await place.trigger("ada", "speak", event_id="evt_2")
        await place.cycle("ada", 2)
        assert told(place.requests[-1], "send_message")["success"] is False
        assert await place.messages("home") == []


@requirement("SPACE-builtin-read-messages", "SPACE-builtin-read-messages-page")
async def test_read_messages_pages_back_from_the_newest(tmp_path: Path) -> None:
    made = await did(
        tmp_path,
        ("read_messages", {"spaceId": "home", "limit": 3}),
        ("enter_space", {"spaceId": "home"}),
        ("read_messages", {"limit": 2, "offset": 3}),
        ("read_messages", {"offset": 39}),
        ("read_messages", {"offset": 40}),
        before=forty_messages,
    )
    pages = [[message["content"] for message in made.told[place]["messages"]] for place in (0, 2, 3, 4)]
    assert pages == [["37", "38", "39"], ["35", "36"], ["0"], []]
    assert {made.told[place]["total"] for place in (0, 2, 3, 4)} == {40}


@requirement("SPACE-builtin-read-messages")
async def test_read_messages_without_a_space_says_so(tmp_path: Path) -> None:
    made = await did(tmp_path, ("read_messages", {}))
    assert made.told == [
        {"success": False, "error": "You are not in any space. Give a spaceId, or call enter_space first."}
    ]


@requirement("SPACE-builtin-set-memories", "SPACE-builtin-delete-memories", "CON-agents-builtin-extra")
async def test_memories_are_set_overwritten_read_and_deleted_by_key(tmp_path: Path) -> None:
    made = await did(
        tmp_path,
        ("set_memories", {"memories": [{"key": "tea", "value": "green"}, {"key": "cup", "value": "blue"}]}),
        ("set_memories", {"memories": [{"key": "tea", "value": "black"}]}),
        ("get_memories", {}),
        ("get_memories", {"keys": ["cup", "none"]}),
        ("delete_memories", {"keys": ["cup", "none"]}),
    )
    assert made.told[:2] == [{"success": True, "count": 2}, {"success": True, "count": 1}]
    assert [(one["key"], one["value"]) for one in made.told[2]["memories"]] == [("cup", "blue"), ("tea", "black")]
    assert [one["key"] for one in made.told[3]["memories"]] == ["cup"]
    assert made.told[4] == {"success": True, "deleted": 1}
    assert made.memories == {"tea": "black"}


@requirement("SPACE-builtin-set-goals", "SPACE-builtin-delete-goals")
async def test_goals_are_made_changed_and_deleted_by_id(tmp_path: Path) -> None:
    script = """
[[turns]]
when = { user = "Go" }
[[turns.calls]]
tool = "set_goals"
arguments.goals = [{ description = "Tidy up" }, { description = "Rest", priority = 5 }]
[[turns]]
when = { result = "set_goals", says = '"count":2' }
[[turns.calls]]
tool = "set_goals"
arguments.goals = [{ id = "{result.goals.0.id}", description = "Tidy up", status = "done" }]
[[turns.calls]]
tool = "set_goals"
arguments.goals = [{ description = "New" }, { id = "goal_of_another", description = "Mine" }]
[[turns.calls]]
tool = "delete_goals"
arguments.goalIds = ["{result.goals.1.id}", "goal_of_another"]
[otherwise]
say = "Done."
"""
    async with agents_gateway(tmp_path, script, CONFIG, files={"quiet.toml": QUIET}) as place:
        await place.trigger("ada")
        await place.cycle("ada", 1)
        answers = [msgspec.json.decode(text) for _, text in outputs_of(place.requests[-1])]
        goals = [
            (goal.description, goal.status, goal.priority)
            for goal in await place.store.read(partial(agent_tx.goals, "ada"))
        ]
    first = answers[0]["goals"]
    assert [(goal["description"], goal["status"], goal["priority"]) for goal in first] == [
        ("Tidy up", "active", 0),
        ("Rest", "active", 5),
    ]
    assert answers[1]["goals"] == [first[0] | {"status": "done"}]
    said = "You have no goals with these ids: goal_of_another. Nothing was changed."
    assert answers[2] == {"success": False, "error": said}
    assert answers[3] == {"success": True, "deleted": 1}
    assert goals == [("Tidy up", "done", 0)]


@requirement("SPACE-builtin-set-plans", "SPACE-builtin-get-plans", "CON-agents-plans")
async def test_plans_are_made_for_once_and_for_again_and_again_and_are_read_back(tmp_path: Path) -> None:
    made = await did(
        tmp_path,
        (
            "set_plans",
            {
                "plans": [
                    {"name": "soon", "instruction": "Look again", "runAfter": "2 hours"},
                    {"name": "then", "scheduledAt": "2030-06-01T12:00:00Z"},
                    {"name": "local", "scheduledAt": "2030-06-01T12:00:00", "timeZone": "Europe/Berlin"},
                    {"name": "daily", "cron": "0 9 * * *", "timeZone": "Asia/Tokyo"},
                    {"name": "utc", "cron": "0 9 * * *"},
                ]
            },
        ),
        ("get_plans", {}),
        ("get_plans", {"status": "done"}),
    )
    plans = {plan["name"]: plan for plan in made.told[1]["plans"]}
    answered = made.told[0].pop("plans")
    assert made.told[0] == {"success": True, "count": 5}
    assert {plan["name"]: plan for plan in answered} == plans
    assert 0 <= next(plan for plan in made.plans if plan.name == "soon").next_run_at - made.began - 7_200_000 < 5_000
    assert plans["then"]["nextRunAt"] == plans["then"]["scheduledAt"] == "2030-06-01T12:00:00.000Z"
    assert plans["local"]["nextRunAt"] == "2030-06-01T10:00:00.000Z"
    assert plans["daily"]["nextRunAt"][11:] == "00:00:00.000Z", "nine in Tokyo is midnight in UTC"
    assert plans["utc"]["nextRunAt"][11:] == "09:00:00.000Z"
    assert [plans[name]["isRecurring"] for name in ("soon", "daily")] == [False, True]
    assert plans["soon"]["instruction"] == "Look again"
    assert made.told[2] == {"plans": []}


BAD_PLANS: list[tuple[dict[str, Any], str]] = [
    ({"name": "x"}, "A plan needs exactly one of runAfter, scheduledAt and cron. It has none."),
    (
        {"name": "x", "runAfter": "1 day", "cron": "* * * * *"},
        "A plan needs exactly one of runAfter, scheduledAt and cron. It has runAfter, cron.",
    ),
    ({"name": "x", "runAfter": "soon"}, "runAfter 'soon' is not understood. Write '<n> seconds|minutes|hours|days'."),
    (
        {"name": "x", "scheduledAt": "noon"},
        "scheduledAt 'noon' is not a valid time. Write it like 2026-01-15T10:30:00Z.",
    ),
    (
        {"name": "x", "cron": "0 9 * * *", "timeZone": "Mars/Base"},
        "There is no time zone 'Mars/Base'. Use a name like Europe/Berlin or UTC.",
    ),
    (
        {"name": "x", "runAfter": "1 day", "id": "plan_no"},
        "You have no plans with these ids: plan_no. Nothing was changed.",
    ),
]


@requirement("SPACE-builtin-set-plans", "CON-agents-plans")
async def test_a_plan_that_cannot_be_kept_is_refused_in_words_and_nothing_is_written(tmp_path: Path) -> None:
    fine = {"name": "fine", "runAfter": "1 day"}
    made = await did(tmp_path, *(("set_plans", {"plans": [fine, plan]}) for plan, _ in BAD_PLANS))
    assert made.told == [{"success": False, "error": says} for _, says in BAD_PLANS]
    assert made.plans == []


@requirement("SPACE-builtin-delete-plans", "SPACE-builtin-set-plans")
async def test_a_plan_is_changed_and_deleted_by_id(tmp_path: Path) -> None:
    script = """
[[turns]]
when = { user = "Go" }
[[turns.calls]]
tool = "set_plans"
arguments.plans = [
  { name = "a", instruction = "x", cron = "0 9 * * *", timeZone = "Asia/Tokyo" },
  { name = "b", runAfter = "1 day" },
]
[[turns]]
when = { result = "set_plans", says = '"count":2' }
calls = [
  { tool = "set_plans", arguments = { plans = [{ id = "{result.plans.0.id}", name = "renamed" }] } },
  { tool = "delete_plans", arguments = { planIds = ["{result.plans.1.id}"] } },
]
[otherwise]
say = "Done."
"""
    async with agents_gateway(tmp_path, script, CONFIG, files={"quiet.toml": QUIET}) as place:
        await place.trigger("ada")
        await place.cycle("ada", 1)
        answers = [msgspec.json.decode(text) for _, text in outputs_of(place.requests[-1])]
        [plan] = await place.store.read(partial(agent_tx.plans, "ada"))
    before = answers[0]["plans"][0]
    assert answers[1]["plans"] == [before | {"name": "renamed"}], "what a change leaves out stays"
    assert answers[2] == {"success": True, "deleted": 1}
    assert (plan.name, plan.cron, plan.time_zone) == ("renamed", "0 9 * * *", "Asia/Tokyo")


@requirement("CON-agents-plans")
async def test_a_plan_whose_time_has_come_wakes_its_agent_once_with_its_instruction(tmp_path: Path) -> None:
    script = """
[[turns]]
when = { user = "Go" }
[[turns.calls]]
tool = "set_plans"
arguments.plans = [{ name = "later", instruction = "Water the plants", runAfter = "1 second" }]
[[turns]]
when = { user = 'Plan: later' }
say = "Watered."
[otherwise]
say = "Planned."
"""
    async with agents_gateway(tmp_path, script, CONFIG, files={"quiet.toml": QUIET}) as place:
        await place.trigger("ada")
        await place.cycle("ada", 1)
        [plan] = await place.store.read(partial(agent_tx.plans, "ada"))
        second = await place.cycle("ada", 2)
        assert second.summary == "Watered."
        assert plan.next_run_at is not None
        assert second.consumed == (f"{plan.id}:{iso_time(plan.next_run_at)}",)
        opening = place.requests[-1].items[-1]
        assert f'[Plan: later] (planId: {plan.id}) "Water the plants"' in str(opening)
        [done] = await place.store.read(partial(agent_tx.plans, "ada"))
        assert (done.status, done.next_run_at) == ("done", None)
        assert done.last_run_at is not None


@requirement("CON-agents-builtin-extra")
async def test_peek_inbox_shows_what_came_since_and_leaves_it_for_the_next_cycle(tmp_path: Path) -> None:
    script = """
[[turns]]
when = { user = "Go" }
wait = 0.3
calls = [{ tool = "peek_inbox", arguments = { count = 1 } }]
[otherwise]
say = "Seen."
"""
    async with agents_gateway(tmp_path, script, CONFIG, files={"quiet.toml": QUIET}) as place:
        await place.trigger("ada")
        await place.begun("ada")
        await place.trigger("ada", {"n": 1}, event_id="evt_2")
        await place.trigger("ada", {"n": 2}, event_id="evt_3")
        await place.cycle("ada", 1)
        peeked = next(told(one, "peek_inbox") for one in place.requests if outputs_of(one))
        assert peeked == {"events": ['[Service: clock] (just now) {"n":1}'], "remaining": 1}
        second = await place.cycle("ada", 2)
        assert second.consumed == ("evt_2", "evt_3")


@requirement("CON-agents-builtin-extra")
async def test_search_tools_finds_what_the_agent_may_use(tmp_path: Path) -> None:
    made = await did(tmp_path, ("search_tools", {"query": "weather tomorrow", "limit": 1}))
    [found] = made.told[0]["tools"]
    assert found == {
        "name": "forecast",
        "description": "Tells the weather of tomorrow",
        "inputSchema": {"type": "object"},
    }


async def test_what_a_built_in_tool_needs_of_the_catalog_is_looked_up_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its script runs in the store's own thread, and the catalog belongs to the loop."""
    threads = set()
    view = Catalog.view

    def noted(catalog: Catalog, principal: Principal) -> View:
        threads.add(threading.get_ident())
        return view(catalog, principal)

    monkeypatch.setattr(Catalog, "view", noted)
    made = await did(tmp_path, ("search_tools", {"query": "weather"}), ("peek_inbox", {}))
    assert made.told[0]["tools"]
    assert threads == {threading.get_ident()}


async def test_calls_of_built_in_tools_are_decided_told_and_counted_as_all_others_are(tmp_path: Path) -> None:
    calls = '[{ tool = "send_message", arguments = { text = "Hi" } }, { tool = "skip" }]'
    async with agents_gateway(tmp_path, SCRIPT.format(calls=calls), CONFIG, files={"quiet.toml": QUIET}) as place:
        gateway = place.gateway
        async with gateway.pipeline.events.follow(None) as events:
            await place.trigger("ada")
            cycle = await place.cycle("ada", 1)
            seen = [await anext(events) for _ in range(4)]
        sent, skipped = await place.calls(cycle)
        counted = {key: count for key, count in gateway.pipeline.counters.calls.items() if key[1] == "builtin"}
    assert sorted((event.call_id, event.type) for event in seen) == sorted(
        (call.id, kind) for call in (sent, skipped) for kind in ("call.settled", "call.started")
    )
    assert counted == {
        ("send_message", "builtin", "agent:ada", "failed"): 1,
        ("skip", "builtin", "agent:ada", "completed"): 1,
    }


@requirement("OPS-REFUSAL-agents")
async def test_arguments_that_a_built_in_tool_does_not_take_are_refused_in_words_for_the_model(tmp_path: Path) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("send_message", {"text": ""}, "text"),
        ("enter_space", {}, "spaceId"),
        ("read_messages", {"spaceId": "home", "limit": 201}, "limit"),
        ("read_messages", {"spaceId": "home", "offset": -1}, "offset"),
        ("set_memories", {"memories": []}, "memories"),
        ("set_goals", {"goals": [{"description": "x", "colour": "red"}]}, "colour"),
        ("skip", {"why": "x"}, "why"),
    ]
    made = await did(tmp_path, *((tool, arguments) for tool, arguments, _ in wrong))
    for call, said, (_, _, word) in zip(made.calls, made.told, wrong, strict=True):
        assert isinstance(call.outcome, Failed)
        assert call.outcome.code == "invalid_arguments"
        assert (call.status, call.count) == (CallStatus.REFUSED, 1)
        assert word in str(said)
        assert str(said).count(str(said).partition("arguments: ")[2].rstrip(".")) == 1, "each fault is told once"


async def test_a_tool_that_does_not_exist_is_an_answer_and_not_the_end(tmp_path: Path) -> None:
    made = await did(tmp_path, ("fly_away", {}), ("set_memories", {"memories": [{"key": "a", "value": "b"}]}))
    assert made.told[0] == "There is no tool 'fly_away'. Use one of the tools you were given, or answer without one."
    assert made.memories == {"a": "b"}, "the step's other calls stand"
