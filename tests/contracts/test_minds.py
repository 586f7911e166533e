"""What every store holds of agents and what they have in mind: memories, goals, plans."""

import asyncio
from functools import partial
from typing import Any

import pytest

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import StepCall, commit, get_context, inbox_page, open_cycle, push_event
from jackfield.model.agent_state import GoalDraft, Plan, PlanDraft, UnknownIds
from jackfield.model.call import Done, Failed, done
from jackfield.model.text import iso_time
from jackfield.spaces import transactions as space_tx
from jackfield.store import Store
from jackfield.store.scripts import Script
from tests.store.calls import a_call
from tests.store.cycles import RECORD, data_of, events_of, inbox_of, known, stepped, woken
from tests.store.spaces import a_space, kinds, said

HOUR_MS = 3_600_000


async def test_an_agent_is_kept_changed_and_listed(store: Store) -> None:
    made = await store.write(partial(agent_tx.put_agent, "cleo", definition='{"model":"default"}', origin="config"))
    assert (made.id, made.definition, made.origin, made.enabled) == ("cleo", '{"model":"default"}', "config", True)
    assert await store.read(partial(agent_tx.get_agent, "cleo")) == made
    changed = await store.write(partial(agent_tx.put_agent, "cleo", definition="{}", origin="api", enabled=False))
    assert (changed.definition, changed.origin, changed.enabled) == ("{}", "api", False)
    assert changed.created_at == made.created_at
    await known(store, "ada")
    assert [agent.id for agent in await store.read(agent_tx.list_agents)] == ["ada", "cleo"]
    assert await store.read(partial(agent_tx.get_agent, "nobody")) is None


async def test_whoever_changes_an_agent_wakes_those_who_look_after_agents_and_the_agent_itself(store: Store) -> None:
    for topic in ("agents", "inbox:ada", "plans"):
        with store.bus.listen(topic) as event:
            await known(store, "ada")
            assert event.is_set(), topic


async def test_agents_that_the_config_no_longer_has_are_switched_off_with_all_they_know(store: Store) -> None:
    for agent, origin in (("ada", "config"), ("bob", "config"), ("cleo", "api")):
        await store.write(
            partial(agent_tx.put_agent, agent, definition="{}", origin="config" if origin == "config" else "api")
        )
    await store.write(partial(agent_tx.set_memories, "bob", [("k", "v")]))
    assert await store.write(partial(agent_tx.retire_config_agents, besides=["ada"])) == ["bob"]
    assert await store.write(partial(agent_tx.retire_config_agents, besides=["ada"])) == []
    assert [(one.id, one.enabled) for one in await store.read(agent_tx.list_agents)] == [
        ("ada", True),
        ("bob", False),
        ("cleo", True),
    ]
    assert [memory.value for memory in await store.read(partial(agent_tx.memories, "bob"))] == ["v"]


async def test_an_agent_that_is_removed_is_forgotten_whole_and_leaves_its_spaces(store: Store) -> None:
    for space_id in ("lobby", "hall"):
        await a_space(store, space_id, agents=("ada", "bob"))
    await said(store, "hi")
    for agent in ("ada", "bob"):
        await store.write(partial(agent_tx.set_memories, agent, [("k", "v")]))
        await store.write(partial(agent_tx.set_goals, agent, [GoalDraft(description="g")]))
        await store.write(partial(agent_tx.set_plans, agent, [PlanDraft(name="p")]))
    first = await store.write(partial(open_cycle, "cycle_1", agent="ada", owner="gw_a"))
    assert first is not None
    await store.write(partial(commit, first.cycle, context="c", record=RECORD))
    await said(store, "hi again")
    second = await store.write(partial(open_cycle, "cycle_2", agent="ada", owner="gw_a"))
    assert second is not None
    assert await store.write(partial(agent_tx.remove_agent, "ada"))
    assert await store.write(partial(commit, second.cycle, context="c", record=RECORD)) is None
    assert not await store.write(partial(agent_tx.remove_agent, "ada"))
    assert await mind_of(store, "ada") == ([], [], [])
    assert await mind_of(store, "bob") == (["k"], ["g"], ["p"])
    assert await store.read(partial(get_context, "ada")) is None
    assert await store.read(partial(space_tx.list_spaces, member="ada")) == []
    assert (await kinds(store))[-2:] == ["member.left", "agent.inactive"]
    assert await kinds(store, "hall") == ["member.left"]
    assert await store.read(partial(agent_tx.get_agent, "bob")) is not None


async def mind_of(store: Store, agent: str) -> tuple[list[str], list[str], list[str]]:
    """Keys of memories, what goals say, names of plans."""
    return (
        [memory.key for memory in await store.read(partial(agent_tx.memories, agent))],
        [goal.description for goal in await store.read(partial(agent_tx.goals, agent))],
        [plan.name for plan in await store.read(partial(agent_tx.plans, agent))],
    )


async def test_memories_are_kept_by_key_replaced_and_forgotten(store: Store) -> None:
    assert await store.write(partial(agent_tx.set_memories, "ada", [("b", "1"), ("a", "2"), ("b", "3")])) == 2
    await store.write(partial(agent_tx.set_memories, "bob", [("a", "bob's")]))
    assert await values_of(store) == {"a": "2", "b": "3"}
    assert await store.write(partial(agent_tx.set_memories, "ada", [("a", "4")])) == 1
    assert await store.write(partial(agent_tx.set_memories, "ada", [])) == 0
    assert [memory.key for memory in await store.read(partial(agent_tx.memories, "ada", keys=["b", "x"]))] == ["b"]
    assert await store.write(partial(agent_tx.delete_memories, "ada", ["a", "x"])) == 1
    assert await values_of(store) == {"b": "3"}
    assert await store.write(partial(agent_tx.replace_memories, "ada", [("c", "5"), ("b", "6")])) == 2
    assert await values_of(store) == {"b": "6", "c": "5"}
    assert await store.write(partial(agent_tx.replace_memories, "ada", [])) == 0
    assert await values_of(store) == {}
    assert await values_of(store, "bob") == {"a": "bob's"}


async def test_a_nul_in_a_key_is_no_fault_of_the_database(store: Store) -> None:
    await store.write(partial(agent_tx.set_memories, "ada", [("a\x00b", "1"), ("c", "2")]))
    [memory] = await store.read(partial(agent_tx.memories, "ada", keys=["a\x00b", "\x00"]))
    assert (memory.key, memory.value) == ("a\ufffdb", "1")
    assert await store.write(partial(agent_tx.delete_memories, "ada", ["a\x00b"])) == 1
    assert await store.write(partial(agent_tx.delete_goals, "ada", ["\x00"])) == 0
    assert await values_of(store) == {"c": "2"}


async def test_what_is_made_at_once_is_listed_in_the_order_it_was_given(store: Store) -> None:
    names = [f"{n}" for n in range(50)]
    await store.write(partial(agent_tx.set_plans, "ada", [PlanDraft(name=name) for name in names]))
    await store.write(partial(agent_tx.set_goals, "ada", [GoalDraft(description=name) for name in names]))
    assert [plan.name for plan in await store.read(partial(agent_tx.plans, "ada"))] == names
    assert [goal.description for goal in await store.read(partial(agent_tx.goals, "ada"))] == names


async def test_of_plans_that_are_over_the_last_ones_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_tx, "DONE_PLANS_KEPT", 2)
    await known(store, "ada")
    await store.write(partial(agent_tx.set_plans, "ada", [PlanDraft(name=f"{n}", next_run_at=n + 1) for n in range(5)]))
    await store.write(partial(agent_tx.set_plans, "ada", [PlanDraft(name="daily", cron="0 9 * * *", next_run_at=6)]))
    for plan in await store.read(agent_tx.due_plans):
        assert await store.write(partial(agent_tx.fire_plan, plan, next_run_at=None if plan.cron is None else 2**50))
    kept = {plan.name: plan.status for plan in await store.read(partial(agent_tx.plans, "ada"))}
    assert kept == {"3": "done", "4": "done", "daily": "active"}
    assert len(await events_of(store)) == 6


async def values_of(store: Store, agent: str = "ada") -> dict[str, str]:
    return {memory.key: memory.value for memory in await store.read(partial(agent_tx.memories, agent))}


async def test_goals_are_made_changed_by_their_id_and_given_up(store: Store) -> None:
    made = await store.write(
        partial(
            agent_tx.set_goals,
            "ada",
            [GoalDraft(description="rest"), GoalDraft(description="work", priority=5, status="blocked")],
        )
    )
    assert isinstance(made, list)
    assert [(goal.description, goal.status, goal.priority) for goal in made] == [
        ("rest", "active", 0),
        ("work", "blocked", 5),
    ]
    assert await store.read(partial(agent_tx.goals, "ada")) == [made[1], made[0]]
    changed = await store.write(
        partial(agent_tx.set_goals, "ada", [GoalDraft(id=made[1].id, description="work on", status="active")])
    )
    assert isinstance(changed, list)
    [goal] = changed
    assert (goal.id, goal.description, goal.status, goal.priority) == (made[1].id, "work on", "active", 5)
    assert goal.created_at == made[1].created_at
    assert await store.write(partial(agent_tx.delete_goals, "bob", [made[0].id])) == 0
    assert await store.write(partial(agent_tx.delete_goals, "ada", [made[0].id, "goal_x"])) == 1
    assert await store.read(partial(agent_tx.goals, "ada")) == [goal]
    replaced = await store.write(partial(agent_tx.replace_goals, "ada", [GoalDraft(description="sleep")]))
    assert await store.read(partial(agent_tx.goals, "ada")) == replaced


@pytest.mark.parametrize("how", ["set", "replace"])
async def test_an_id_that_is_not_the_agents_own_changes_nothing(store: Store, how: str) -> None:
    goals = await store.write(partial(agent_tx.set_goals, "bob", [GoalDraft(description="bob's")]))
    plans = await store.write(partial(agent_tx.set_plans, "bob", [PlanDraft(name="bob's")]))
    assert isinstance(goals, list)
    assert isinstance(plans, list)
    own = await store.write(partial(agent_tx.set_goals, "ada", [GoalDraft(description="own")]))
    wanted = [GoalDraft(description="new"), GoalDraft(id=goals[0].id, description="stolen")]
    wanted += [GoalDraft(id="goal_x", description="unknown")]
    goal_script = getattr(agent_tx, f"{how}_goals")
    assert await store.write(partial(goal_script, "ada", wanted)) == UnknownIds((goals[0].id, "goal_x"))
    plan_script = getattr(agent_tx, f"{how}_plans")
    stolen = [PlanDraft(id=plans[0].id, name="stolen")]
    assert await store.write(partial(plan_script, "ada", stolen)) == UnknownIds((plans[0].id,))
    assert await store.read(partial(agent_tx.goals, "ada")) == own
    assert await store.read(partial(agent_tx.goals, "bob")) == goals
    assert await store.read(partial(agent_tx.plans, "ada")) == []
    assert await store.read(partial(agent_tx.plans, "bob")) == plans


async def a_plan(store: Store, agent: str = "ada", **fields: Any) -> Plan:
    """A plan that was due a moment ago, of an agent that is there."""
    await known(store, agent)
    due = {"next_run_at": await store.now_ms() - 1_000}
    kept = await store.write(
        partial(agent_tx.set_plans, agent, [PlanDraft(**({"name": "Report", "instruction": "Do it."} | due | fields))])
    )
    assert isinstance(kept, list)
    return kept[0]


async def test_plans_are_kept_whole_changed_and_dropped(store: Store) -> None:
    now = await store.now_ms()
    draft = PlanDraft(
        name="Report",
        instruction="Do it.",
        cron="0 9 * * *",
        time_zone="Asia/Tokyo",
        scheduled_at=now,
        next_run_at=now + HOUR_MS,
    )
    kept = await store.write(partial(agent_tx.set_plans, "ada", [draft, PlanDraft(name="Later")]))
    assert isinstance(kept, list)
    plan, later = kept
    assert (plan.name, plan.instruction, plan.cron, plan.time_zone) == ("Report", "Do it.", "0 9 * * *", "Asia/Tokyo")
    assert (plan.scheduled_at, plan.next_run_at, plan.status, plan.last_run_at) == (now, now + HOUR_MS, "active", None)
    changed = await store.write(
        partial(agent_tx.set_plans, "ada", [PlanDraft(id=plan.id, name="Summary", next_run_at=now)])
    )
    assert isinstance(changed, list)
    assert (changed[0].id, changed[0].name, changed[0].cron, changed[0].next_run_at) == (plan.id, "Summary", None, now)
    assert await store.read(partial(agent_tx.plans, "ada")) == [changed[0], later]
    assert await store.write(partial(agent_tx.delete_plans, "bob", [plan.id])) == 0
    assert await store.write(partial(agent_tx.delete_plans, "ada", [plan.id])) == 1
    replaced = await store.write(partial(agent_tx.replace_plans, "ada", [PlanDraft(name="Only")]))
    assert await store.read(partial(agent_tx.plans, "ada")) == replaced


async def test_due_plans_are_those_whose_time_has_come_of_agents_that_are_on(store: Store) -> None:
    now = await store.now_ms()
    assert await store.read(agent_tx.next_plan_at) is None
    due = await a_plan(store, next_run_at=now - 10)
    longer = await a_plan(store, "bob", next_run_at=now - 5_000)
    await a_plan(store, next_run_at=now + HOUR_MS)
    await a_plan(store, next_run_at=None)
    await a_plan(store, status="done")
    await a_plan(store, "dora", next_run_at=now - 9_000)
    await store.write(partial(agent_tx.put_agent, "dora", definition="{}", origin="api", enabled=False))
    await store.write(partial(agent_tx.set_plans, "nobody", [PlanDraft(name="x", next_run_at=1)]))
    assert await store.read(agent_tx.due_plans) == [longer, due]
    assert await store.read(partial(agent_tx.due_plans, limit=1)) == [longer]
    assert await store.read(agent_tx.next_plan_at) == now - 5_000


async def test_a_plan_that_is_due_tells_its_agent_once_and_waits_for_its_next_time_or_is_done(store: Store) -> None:
    plan = await a_plan(store)
    assert plan.next_run_at is not None
    again = plan.next_run_at + HOUR_MS
    with store.bus.listen("inbox:ada") as woken_up:
        assert await store.write(partial(agent_tx.fire_plan, plan, next_run_at=again))
        assert woken_up.is_set()
    assert not await store.write(partial(agent_tx.fire_plan, plan, next_run_at=again))
    [event] = await events_of(store)
    assert (event.event_id, event.type) == (f"{plan.id}:{iso_time(plan.next_run_at)}", "plan")
    assert data_of(event) == {"planId": plan.id, "planName": "Report", "instruction": "Do it."}
    [waiting] = await store.read(partial(agent_tx.plans, "ada"))
    assert (waiting.next_run_at, waiting.status) == (again, "active")
    assert waiting.last_run_at is not None
    assert await store.read(agent_tx.due_plans) == []
    assert await store.write(partial(agent_tx.fire_plan, waiting, next_run_at=None))
    [over] = await store.read(partial(agent_tx.plans, "ada"))
    assert (over.next_run_at, over.status) == (None, "done")
    assert len(await events_of(store)) == 2
    with pytest.raises(ValueError, match="not due"):
        await store.write(partial(agent_tx.fire_plan, over, next_run_at=None))


async def test_a_plan_that_was_moved_or_dropped_meanwhile_does_not_fire(store: Store) -> None:
    plan, dropped = await a_plan(store), await a_plan(store)
    await store.write(partial(agent_tx.set_plans, "ada", [PlanDraft(id=plan.id, name="Report", next_run_at=2)]))
    await store.write(partial(agent_tx.delete_plans, "ada", [dropped.id]))
    for one in (plan, dropped):
        assert not await store.write(partial(agent_tx.fire_plan, one, next_run_at=None))
    assert await inbox_of(store) == {}


async def test_a_plan_fires_once_however_many_try(store: Store) -> None:
    plan = await a_plan(store)
    fired = await asyncio.gather(*(store.write(partial(agent_tx.fire_plan, plan, next_run_at=None)) for _ in range(10)))
    assert sum(fired) == 1
    assert len(await events_of(store)) == 1


async def test_whoever_changes_plans_wakes_those_who_keep_the_time(store: Store) -> None:
    with store.bus.listen("plans") as event:
        await a_plan(store)
        assert event.is_set()


async def test_the_state_a_built_in_writes_is_committed_with_its_step_or_not_at_all(store: Store) -> None:
    cycle = (await woken(store)).cycle

    def remembering(key: str) -> Script[Done | Failed]:
        return done({"count": (yield from agent_tx.set_memories("ada", [(key, "v")]))})

    await stepped(store, cycle, StepCall(a_call(), lambda: remembering("first")))
    clash = a_call()
    with pytest.raises(Exception, match=r"(?i)unique"):
        await stepped(
            store,
            cycle,
            StepCall(clash, lambda: remembering("second")),
            StepCall(clash, lambda: remembering("third")),
            n=2,
        )
    assert await values_of(store) == {"first": "v"}


async def test_what_was_to_be_told_to_a_removed_agent_wakes_no_namesake(store: Store) -> None:
    await store.write(partial(agent_tx.put_agent, "ada", definition="{}", origin="api"))
    await store.write(partial(push_event, "ada", event_id="e1", type="service", data="{}"))
    await store.write(partial(push_event, "bob", event_id="e2", type="service", data="{}"))
    assert await store.write(partial(agent_tx.remove_agent, "ada"))
    assert (await store.read(partial(inbox_page, "ada")))[0] == []
    assert [event.event_id for event in (await store.read(partial(inbox_page, "bob")))[0]] == ["e2"]
