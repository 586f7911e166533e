"""What must not stop an agent for ever: a word that never came, a removal in the middle, dates from the year one."""

import time
from functools import partial
from pathlib import Path

import msgspec
import pytest

from jackfield.agents import mcp_servers
from jackfield.agents import scheduler as cycles
from jackfield.agents import transactions as agent_tx
from jackfield.agents.api import MOST_PAYLOAD
from jackfield.agents.builtin_tools import MOST_KEPT
from jackfield.agents.cycle_transactions import get_context, get_cycle
from jackfield.model.agent_state import CycleStatus, GoalDraft, PlanDraft
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.api import MAX_EXCHANGES
from jackfield.store import scripts
from tests.sources.mcp.scene import http_server
from tests.stories.agent_harness import agents_gateway, inbox_of, outputs_of, told
from tests.waiting import eventually_async

ADA = '[agents.ada]\nspaces = ["home"]\nmodel = "mind"\n'
DONE = '[otherwise]\nsay = "Done."\n'


@pytest.fixture
def quick_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "PAUSES", (0.0, 0.0))


async def test_an_agent_that_nobody_told_this_gateway_of_wakes_all_the_same(tmp_path: Path) -> None:
    async with agents_gateway(tmp_path, DONE, ADA) as place:
        book = place.gateway.agents
        book._agents.clear()  # as if its making had never been told here
        await place.trigger("ada")
        await place.cycle("ada")
        assert book.get("ada") is not None


async def test_a_cycle_goes_by_what_the_agent_is_now_not_by_what_was_last_told(tmp_path: Path) -> None:
    async with agents_gateway(tmp_path, DONE, ADA) as place:
        made = await place.client.post("/api/agents", json={"id": "bob", "model": "mind", "instructions": "Old."})
        assert made.status_code == 201
        book, first = place.gateway.agents, place.gateway.agents.get("bob")

        async def was_read_again() -> bool:
            return book.get("bob") is not first

        await eventually_async(was_read_again)
        changed = {"definition": '{"model": "mind", "instructions": "New."}', "origin": "api", "enabled": 1}
        await place.store.write(
            partial(scripts.one, "put_agent", agent="bob", owner=None, **changed)
        )  # and nobody is told
        await place.trigger("bob")
        await place.cycle("bob")
        assert "New." in (place.requests[-1].instructions or "")


async def test_an_agent_removed_in_the_middle_of_a_cycle_leaves_no_state_to_a_namesake(tmp_path: Path) -> None:
    script = '[[turns]]\nsay = "Old thoughts."\nwait = 0.3\n' + DONE
    async with agents_gateway(tmp_path, script, ADA) as place:
        await place.client.post("/api/agents", json={"id": "bob", "model": "mind"})
        await place.trigger("bob")
        cycle = await place.begun("bob")
        assert (await place.client.delete("/api/agents/bob")).status_code == 200
        over = await place.store.read(partial(get_cycle, cycle.id))
        assert over is not None
        assert (over.status, over.reason) == (CycleStatus.FAILED, "The agent was removed.")
        await eventually_async(lambda: _asleep(place.gateway.scheduler))
        assert await place.store.read(partial(get_context, "bob")) is None


async def _asleep(scheduler: cycles.AgentScheduler) -> bool:
    return not scheduler.awake


async def test_a_cycle_that_is_left_lying_again_and_again_is_taken_up_rarely_but_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gives_in(*_: object, **__: object) -> None:
        raise OSError("a fault of ours")

    async with agents_gateway(tmp_path, DONE, ADA) as place:
        scheduler = place.gateway.scheduler
        run_cycle = scheduler._run_cycle
        monkeypatch.setattr(scheduler, "_run_cycle", gives_in)
        await place.trigger("ada")
        await place.begun("ada")
        for _ in range(cycles.TRIES + 2):
            await eventually_async(lambda: _asleep(scheduler))
            await scheduler.sweep()
        await eventually_async(lambda: _asleep(scheduler))
        monkeypatch.setattr(scheduler, "_run_cycle", run_cycle)
        await scheduler.sweep()
        assert not scheduler.awake, "it is not tried all the time"
        clock = time.monotonic
        with monkeypatch.context() as later:
            later.setattr(time, "monotonic", lambda: clock() + cycles.RARELY)
            await scheduler.sweep()
        await place.cycle("ada")


async def test_a_cycle_that_is_resumed_has_only_the_steps_that_are_left(tmp_path: Path, quick_tries: None) -> None:
    script = """
[[turns]]
calls = [{ tool = "get_plans", arguments = {} }]
[[turns]]
fail = { status = 500, message = "broken" }
[otherwise]
calls = [{ tool = "get_plans", arguments = {} }]
"""
    async with agents_gateway(tmp_path, script, ADA + "max_steps = 3\n") as place:
        await place.trigger("ada")
        cycle = await place.cycle("ada")
        assert len(await place.calls(cycle)) == 3
        assert cycle.summary is not None
        assert cycle.summary.startswith("Stopped before the end (max_steps).")


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
async def test_a_plan_from_the_edge_of_time_is_refused_and_the_cycle_goes_on(tmp_path: Path, when: str) -> None:
    plans = f'{{ plans = [{{ name = "p", scheduledAt = "{when}" }}] }}'
    script = f'[[turns]]\ncalls = [{{ tool = "set_plans", arguments = {plans} }}]\n' + DONE
    async with agents_gateway(tmp_path, script, ADA) as place:
        await place.trigger("ada")
        await place.cycle("ada")
        assert told(place.requests[-1], "set_plans")["success"] is False
        body = {"plans": [{"name": "p", "scheduledAt": when}]}
        answer = await place.client.put("/api/agents/ada/plans", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "plans[0]"
        assert await place.store.read(partial(agent_tx.plans, "ada")) == []


async def test_the_state_of_an_agent_is_limited_and_the_agent_is_told_when_it_is_full(tmp_path: Path) -> None:
    script = (
        """
[[turns]]
calls = [
  { tool = "set_memories", arguments = { memories = [{ key = "k1", value = "changed" }] } },
  { tool = "set_memories", arguments = { memories = [{ key = "one", value = "more" }, { key = "k2", value = "x" }] } },
  { tool = "set_goals", arguments = { goals = [{ description = "One more" }] } },
  { tool = "set_plans", arguments = { plans = [{ name = "one more", runAfter = "1 day" }] } },
]
"""
        + DONE
    )
    async with agents_gateway(tmp_path, script, ADA) as place:
        await place.store.write(partial(agent_tx.set_memories, "ada", [(f"k{n}", "v") for n in range(MOST_KEPT)]))
        await place.store.write(partial(agent_tx.set_goals, "ada", [GoalDraft(description="g")] * MOST_KEPT))
        await place.store.write(
            partial(agent_tx.set_plans, "ada", [PlanDraft(name="p", next_run_at=2**42)] * MOST_KEPT)
        )
        await place.trigger("ada")
        await place.cycle("ada")
        answers = [(name, msgspec.json.decode(text)) for name, text in outputs_of(place.requests[-1])]
        assert answers[0] == ("set_memories", {"success": True, "count": 1})
        for (name, answer), what in zip(answers[1:], ("memories", "goals", "plans"), strict=True):
            assert answer == {
                "success": False,
                "error": f"You have 1,000 {what}; 1,000 are the most. Delete some first. Nothing was changed.",
            }, name
        kept = {memory.key: memory.value for memory in await place.store.read(partial(agent_tx.memories, "ada"))}
        assert (len(kept), kept["k1"], kept["k2"]) == (MOST_KEPT, "changed", "v")
        assert (
            len(await place.store.read(partial(agent_tx.goals, "ada")))
            == len(await place.store.read(partial(agent_tx.plans, "ada")))
            == MOST_KEPT
        )


async def test_an_agent_that_sleeps_lets_its_own_servers_go_and_finds_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_servers, "AGENT_IDLE_SECONDS", 0.05)
    with http_server(tmp_path / "own") as server:
        config = f"""
[agents.ada]
model = "mind"
[[agents.ada.mcp.servers]]
name = "far"
url = "{server.url}"
transport = "http"
"""
        async with agents_gateway(tmp_path, DONE, config) as place:
            lent = place.gateway.source_registry._lent

            async def nothing_is_lent() -> bool:
                return not lent

            for number in (1, 2):
                await place.trigger("ada", event_id=f"evt_{number}")
                await place.cycle("ada", number)
                assert "echo" in {tool.name for tool in place.requests[-1].tools}
                await eventually_async(nothing_is_lent)


async def test_what_an_agents_servers_are_reached_with_is_in_no_database(tmp_path: Path) -> None:
    with http_server(tmp_path / "own") as server:
        config = f"""
[agents.ada]
model = "mind"
[[agents.ada.mcp.servers]]
name = "far"
url = "{server.url}?word=sesame-1"
transport = "http"
headers = {{ Authorization = "Bearer sesame-2" }}
"""
        async with agents_gateway(tmp_path, DONE, config) as place:
            kept = await place.store.read(partial(agent_tx.get_agent, "ada"))
            assert kept is not None
            assert "sesame" not in kept.definition
            await place.trigger("ada")
            await place.cycle("ada")
            assert "echo" in {tool.name for tool in place.requests[-1].tools}, "the config still knows"
            shown = (await place.client.get("/api/agents/ada")).json()["agent"]
            assert shown["mcpServers"] == [{"name": "far", "transport": "http", "allowedTools": None}]


async def test_what_was_meant_for_a_space_that_is_closed_is_not_said_in_another(tmp_path: Path) -> None:
    script = (
        """
[[turns]]
calls = [
  { tool = "enter_space", arguments = { spaceId = "home" } },
  { tool = "enter_space", arguments = { spaceId = "secret" } },
  { tool = "send_message", arguments = { text = "The safe is open." } },
]
[[turns]]
calls = [{ tool = "send_message", arguments = { text = "Good morning." } }]
"""
        + DONE
    )
    async with agents_gateway(tmp_path, script, ADA) as place:
        await place.client.post("/api/spaces", json={"id": "secret"})
        await place.trigger("ada")
        cycle = await place.cycle("ada")
        assert [message["content"] for message in await place.messages("home")] == ["Good morning."]
        assert await place.messages("secret") == []
        where = [(call.tool, call.space_id, call.error is None) for call in await place.calls(cycle)]
        assert where == [
            ("enter_space", None, True),
            ("enter_space", "home", False),
            ("send_message", None, False),
            ("send_message", "home", True),
        ]


async def test_what_a_service_says_has_a_size(tmp_path: Path) -> None:
    async with agents_gateway(tmp_path, DONE, ADA) as place:
        path = "/api/agents/ada/trigger"
        answer = await place.client.post(path, json={"serviceName": "s", "payload": "x" * MOST_PAYLOAD})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "payload")
        assert await place.inbox("ada") == []
        answer = await place.client.post(path, json={"serviceName": "s", "payload": "x" * (MOST_PAYLOAD - 100)})
        assert answer.status_code == 200
        await place.cycle("ada")


async def test_an_agent_that_the_config_no_longer_has_is_not_seen_at_work_for_ever(tmp_path: Path) -> None:
    script = '[[turns]]\nwhen = { user = "Hello" }\nsay = "Hm."\nwait = 60\n' + DONE
    store = f"sqlite:///{tmp_path}/house.db"
    async with agents_gateway(tmp_path, script, ADA, store=store) as place:
        await place.say("home", "Hello")
        cycle = await place.begun("ada")
    async with agents_gateway(tmp_path, DONE, "", store=store) as place:
        over = await place.store.read(partial(get_cycle, cycle.id))
        assert over is not None
        assert (over.status, over.reason) == (CycleStatus.FAILED, "The config no longer has the agent.")
        assert await place.store.read(partial(space_tx.presence_in, "home")) == []
    async with agents_gateway(tmp_path, DONE, ADA, store=store) as place:
        await place.cycle("ada", 2)
        assert '[Husam: "Hello"]' in inbox_of(place.requests[-1])


BOT = """
[auth.keys.bot]
key = "bot-key-0123456789"
scopes = ["agent:bot"]
"""
REPLIES = """
[[turns]]
when = { user = "INBOX" }
calls = [
  { tool = "enter_space", arguments = { spaceId = "home" } },
  { tool = "send_message", arguments = { text = "And you?" } },
]
[otherwise]
say = "Answered."
"""


async def test_an_agent_outside_that_answers_an_agent_here_is_stopped_too_and_people_are_told(tmp_path: Path) -> None:
    async with agents_gateway(tmp_path, REPLIES, ADA + BOT) as place:
        member = {"entityId": "bot", "kind": "agent"}
        assert (await place.client.post("/api/spaces/home/members", json=member)).status_code == 201
        headers = {"x-api-key": "bot-key-0123456789"}
        for _ in range(MAX_EXCHANGES + 5):
            said = await place.client.post("/api/spaces/home/messages", json={"content": "And you?"}, headers=headers)
            assert said.status_code == 201
            await place.settled()
        messages = await place.messages("home")
        notices = [m for m in messages if m["metadata"].get("type") == "exchange_stopped"]
        assert len([m for m in messages if m["entityId"] == "ada"]) == MAX_EXCHANGES
        assert len(notices) == 1
        await place.say("home", "Go on")
        await place.settled()
        assert len([m for m in await place.messages("home") if m["entityId"] == "ada"]) == MAX_EXCHANGES + 1
