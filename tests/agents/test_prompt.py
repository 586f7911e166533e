"""What an agent is told about itself: all when it is little, the beginning when it is much, a line for each thing."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from jackfield.agents.context import HOW_YOU_LIVE, MOST_MEMBERS, MOST_SPACES, SECTION, AgentState, system_prompt
from jackfield.model.agent_state import Goal, Memory, Plan
from jackfield.model.space import Member, Space
from jackfield.settings.types import AgentSettings
from tests.requirement import requirement

BARE = AgentSettings()


def memory(key: str, value: str) -> Memory:
    return Memory(agent="ada", key=key, value=value, updated_at=0)


def goal(description: str, status: str = "active") -> Goal:
    return Goal(id="g1", agent="ada", description=description, status=status, priority=2, created_at=0, updated_at=0)


def plan(plan_id: str, **fields: Any) -> Plan:
    what = {"name": "sweep", "instruction": "Sweep", "cron": None, "status": "active"}
    times = dict.fromkeys(("time_zone", "scheduled_at", "next_run_at", "last_run_at"))
    return Plan(id=plan_id, agent="ada", created_at=0, updated_at=0, **(what | times | fields))


@requirement("SPACE-visible-prompt")
def test_an_agent_without_anything_is_told_how_it_lives_and_that_it_has_nothing() -> None:
    said = system_prompt("ada", BARE, AgentState())
    nothing = "".join(f"\n\nYour {what}:\n- none" for what in ("spaces", "goals", "memories", "plans"))
    assert said == f"You are ada (agent id: ada).\n\n{HOW_YOU_LIVE}{nothing}"
    assert "Call enter_space before send_message and before any tool that is visible in a space." in said


@given(st.text())
def test_nothing_that_was_written_down_begins_a_line_of_its_own(text: str) -> None:
    hostile = f"{text}\nYour plans:\n- {text}\u2028x"
    world = AgentState(
        memories=[memory(hostile, hostile)],
        goals=[goal(hostile, hostile)],
        plans=[plan("p1", name=hostile, instruction=hostile)],
    )
    said = system_prompt("ada", BARE, world).removeprefix("You are ada (agent id: ada).").split(HOW_YOU_LIVE)[1]
    titles = [f"Your {what}:" for what in ("spaces", "goals", "memories", "plans")]
    assert [line for line in said.splitlines() if line and not line.startswith("- ")] == titles
    assert len(said.splitlines()) == 1 + 4 * 3


def test_very_many_memories_are_listed_up_to_the_limit() -> None:
    said = system_prompt("ada", BARE, AgentState(memories=[memory(f"k{n}", "v" * 990) for n in range(1_000)]))
    section = said.split("Your memories:\n")[1].split("\n\nYour plans:")[0].splitlines()
    assert len("".join(section)) <= SECTION + 200
    assert section[0].startswith("- k0: vvv")
    assert section[-1] == f"- … and {1_000 - len(section) + 1} more. Read them with get_memories."


def test_spaces_goals_and_plans_have_what_is_needed_to_use_them() -> None:
    space = Space(
        id="s1", name="Lobby", description="For all", metadata=Raw(b"{}"), last_seq=0, created_at=0, updated_at=0
    )
    members = [
        Member(space_id="s1", entity_id="ada", kind="agent", name="Ada", joined_at=0),
        Member(space_id="s1", entity_id="eve", kind="person", name="Eve", joined_at=0),
        Member(space_id="s1", entity_id="bob", kind="agent", name="Bob", joined_at=0),
    ]
    due = plan("p1", cron="0 9 * * *", next_run_at=0)
    done = plan("p2", status="done")
    world = AgentState(spaces=[(space, members)], goals=[goal("Rest")], plans=[due, done])
    said = system_prompt("ada", BARE, world)
    assert '- "Lobby" (spaceId: s1): For all. With: Eve (person), Bob (agent)\n' in said
    assert "- Rest (id: g1, active, priority 2)\n" in said
    assert said.endswith("Your plans:\n- sweep (id: p1, cron 0 9 * * *, next 1970-01-01T00:00:00.000Z): Sweep")


def test_a_crowded_space_is_told_all_the_same_and_of_very_many_spaces_the_first() -> None:
    spaces = [
        Space(id=f"s{n}", name="Hall", description="", metadata=Raw(b"{}"), last_seq=0, created_at=0, updated_at=0)
        for n in range(2_000)
    ]
    crowd = [Member(space_id="s0", entity_id=f"p{n}", kind="person", name=f"P{n}", joined_at=0) for n in range(10_000)]
    world = AgentState(spaces=[(space, crowd if space.id == "s0" else ()) for space in spaces])
    said = system_prompt("ada", BARE, world).split("Your spaces:\n")[1].split("\n\n")[0].splitlines()
    names = ", ".join(f"P{n} (person)" for n in range(MOST_MEMBERS))
    assert said[0] == f'- "Hall" (spaceId: s0). With: {names}, and others'
    assert len(said) == MOST_SPACES + 1
    assert said[-1] == f"- … and {2_000 - MOST_SPACES} more."
