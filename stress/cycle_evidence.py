"""What agents' cycles left in the store after many deaths, and what must be true of it."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import InboxEvent, cycles_of_agent, get_context, inbox_page, read_journal
from jackfield.model.agent_state import Cycle, CycleStatus
from jackfield.model.call import Call, CallStatus, Failed
from jackfield.spaces import transactions as space_tx
from jackfield.store import Store, open_store
from stress.report import Report

ALL = 1_000_000
CALLS_OF_A_TASK = ["set_goals", "set_memories", "enter_space", "send_message", "work", "work_again", "send_message"]


class Life(Struct, frozen=True, kw_only=True):
    """All that the store knows of one agent."""

    agent: str
    events: list[InboxEvent]
    cycles: list[Cycle]
    calls: dict[str, list[Call]]
    """Of each cycle, in their order."""
    said: Counter[str]
    goals: Counter[str]
    memories: set[str]
    minds_written: int


async def gather(store_url: str, folder: Path, agents: Sequence[str]) -> list[Life]:
    """Read when all gateways are gone."""
    store = open_store(store_url, folder=folder, data=folder)
    await store.open()
    try:
        return [await _life(store, agent) for agent in agents]
    finally:
        await store.close()


async def _life(store: Store, agent: str) -> Life:
    events, _ = await store.read(partial(inbox_page, agent, limit=ALL))
    cycles = await store.read(partial(cycles_of_agent, agent, limit=ALL))
    calls = {}
    for cycle in cycles:
        journal = await store.read(partial(read_journal, cycle.id))
        calls[cycle.id] = [] if journal is None else [call for step in journal.steps for call in step.calls]
    mind = await store.read(partial(get_context, agent))
    messages = await store.read(partial(space_tx.messages, f"room_{agent}", limit=ALL))
    return Life(
        agent=agent,
        events=events,
        cycles=cycles,
        calls=calls,
        said=Counter(message.content for message in messages if message.entity_id == agent),
        goals=Counter(goal.description for goal in await store.read(partial(agent_tx.goals, agent))),
        memories={memory.key for memory in await store.read(partial(agent_tx.memories, agent))},
        minds_written=0 if mind is None else mind.version,
    )


def judge(report: Report, lives: Sequence[Life], *, given: dict[str, int], starts: Path) -> None:
    started = Counter(starts.read_text(encoding="utf-8").split() if starts.exists() else ())
    for life in lives:
        report.seen["tasks"] += given[life.agent]
        report.seen["cycles"] += len(life.cycles)
        report.seen["cycles that went on after a death"] += sum(cycle.tries > 1 for cycle in life.cycles)
        report.seen["deaths in the middle of a cycle"] += sum(cycle.tries - 1 for cycle in life.cycles)
        report.seen["cycles given up"] += sum(cycle.status is CycleStatus.FAILED for cycle in life.cycles)
        _judge_events(report, life)
        for number in range(1, given[life.agent] + 1):
            _judge_task(report, life, number)
        for calls in life.calls.values():
            for call in calls:
                _judge_call(report, call, started)
    report.expect(report.seen["tasks"] > 0, "nobody did anything")


def _judge_events(report: Report, life: Life) -> None:
    """Every event in one committed cycle, every cycle over."""
    done = [cycle for cycle in life.cycles if cycle.status is CycleStatus.DONE]
    consumed = Counter(event_id for cycle in done for event_id in cycle.consumed)
    is_over = all(cycle.status is not CycleStatus.OPEN for cycle in life.cycles)
    report.expect(is_over, f"{life.agent}: a cycle is open that nobody lives")
    for event in life.events:
        times = consumed.pop(event.event_id, 0)
        report.expect(times == 1, f"{life.agent}: {event.event_id} is in {times} committed cycles")
        report.expect(event.status == "processed", f"{life.agent}: {event.event_id} is {event.status}")
    report.expect(not consumed, f"{life.agent}: cycles consumed events that are not there: {list(consumed)[:3]}")
    numbers = sorted(cycle.number for cycle in life.cycles)
    report.expect(numbers == list(range(1, len(numbers) + 1)), f"{life.agent}: cycles are numbered {numbers[:10]}…")
    report.expect(life.minds_written == len(done), f"{life.agent}: {life.minds_written} minds of {len(done)} cycles")


def _judge_task(report: Report, life: Life, number: int) -> None:
    """Said, remembered and called once; what was given up is told, and not done again."""
    what, event_id = f"{life.agent}, task {number}", f"task-{life.agent}-{number}"
    about = [cycle for cycle in life.cycles if event_id in cycle.consumed]
    failed = [cycle for cycle in about if cycle.status is CycleStatus.FAILED]
    said = {word: life.said[f"{word} {number}"] for word in ("began", "done", "gave up")}
    report.expect(max(said["began"], said["done"]) <= 1, f"{what}: said twice: {said}")
    report.expect(said["gave up"] in range(bool(failed), len(failed) + 1), f"{what}: {len(failed)} failures, {said}")
    report.expect(life.goals[f"task {number}"] == said["began"], f"{what}: {life.goals[f'task {number}']} goals")
    report.expect((f"task {number}" in life.memories) == bool(said["began"]), f"{what}: memory against {said}")
    if failed:
        told = {event.event_id for event in life.events}
        report.expect(all(f"cf:{cycle.id}" in told for cycle in failed), f"{what}: its agent was not told")
        return
    names = [[call.tool for call in life.calls[cycle.id]] for cycle in about]
    report.expect(names == [CALLS_OF_A_TASK], f"{what}: called {names}")


def _judge_call(report: Report, call: Call, started: Counter[str]) -> None:
    if call.tool not in ("work", "work_again"):
        report.expect(call.status is CallStatus.COMPLETED, f"{call.id} ({call.tool}) is {call.status.value}")
        return
    task = bytes(call.arguments).decode().partition('":"')[2].rstrip('"}')
    times = started[f"{call.tool}-{task}"]
    report.seen[f"{call.tool} {call.status.value}"] += 1
    if call.status is CallStatus.COMPLETED:
        most = 1 if call.tool == "work" else call.attempt
        report.expect(1 <= times <= most, f"{call.id} ({call.tool}, attempt {call.attempt}) started {times} times")
    else:
        failure = call.outcome
        is_told = isinstance(failure, Failed) and failure.code == "interrupted"
        report.expect(is_told, f"{call.id} ({call.tool}) is {call.status.value}: {failure}")
        report.expect(times <= (1 if call.tool == "work" else 3), f"{call.id} ({call.tool}) started {times} times")
