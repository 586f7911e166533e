"""Agents whose gateways die, hang or lose the store in the middle of a cycle: what was done stays done, once."""

import asyncio
import logging
import signal
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.agents import scheduler as cycles
from jackfield.agents import transactions as agent_tx
from jackfield.agents.cycle_transactions import open_cycle, push_event, take_over
from jackfield.model.agent_state import CycleStatus
from jackfield.model.call import Done
from jackfield.model.ids import new_id
from jackfield.store import open_store
from tests.harness.process import RunningGateway, free_port, start_gateway
from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.stories.agent_harness import agents_gateway, inbox_of
from tests.waiting import eventually, eventually_async

KEY = "key-of-the-crash"
AGENT = '[agents.ada]\nmodel = "mind"\nspaces = ["home"]\n'
CONFIG = f'{AGENT}[models.mind]\nprovider = "scripted"\nscript = "mind.toml"\n'
SCRIPT = """
[[turns]]
when = { user = "task" }
calls = [
  { tool = "set_goals", arguments = { goals = [{ description = "the task" }] } },
  { tool = "enter_space", arguments = { spaceId = "home" } },
  { tool = "send_message", arguments = { text = "began" } },
]
[[turns]]
when = { result = "send_message", says = "delivered", asked = "task" }
wait = 1.5
calls = [{ tool = "leave_space" }, { tool = "enter_space", arguments = { spaceId = "home" } }]
[[turns]]
when = { result = "enter_space" }
calls = [{ tool = "set_memories", arguments = { memories = [{ key = "task", value = "done" }] } }]
[otherwise]
say = "Over."
"""


@pytest.fixture
def quick_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(cycles, "BACKOFF_MS", 300)


class Database:
    """What the gateways have written."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self._server = server
        self._name = name
        self.url = server.url(name)

    def rows(self, sql: str) -> list[str]:
        return self._server.run(sql, database=self._name).splitlines()

    async def until(self, sql: str, *rows: str) -> None:
        async def is_so() -> bool:
            return await asyncio.to_thread(self.rows, sql) == [*rows]

        await eventually_async(is_so, within=30)


@pytest.fixture
def database(postgres_server: PostgresServer, empty_database: str) -> Database:
    return Database(postgres_server, empty_database)


def started(folder: Path, database: Database) -> RunningGateway:
    folder.mkdir()
    env = {"JACKFIELD_STORE": database.url, "JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_PORT": str(free_port())}
    return start_gateway(folder, CONFIG, env=env, files={"mind.toml": SCRIPT})


def ask(gateway: RunningGateway, method: str, path: str, **more: Any) -> Any:
    answer = httpx2.request(method, f"{gateway.url}{path}", headers=gateway.headers, timeout=20, **more)
    assert answer.is_success, answer.text
    return answer.json()


@requirement("CON-agents-cycle-atomic")
@pytest.mark.timeout(180)
async def test_a_gateway_that_hung_while_another_took_its_cycle_over_writes_nothing_when_it_wakes(
    tmp_path: Path, database: Database
) -> None:
    first = await asyncio.to_thread(started, tmp_path / "first", database)
    second = None
    try:
        [hung] = database.rows("SELECT id FROM gateways")
        ask(first, "POST", "/api/spaces/home/messages", json={"entityId": "eve", "content": "task"})
        await database.until("SELECT content FROM space_messages ORDER BY seq", "task", "began")
        first.process.send_signal(signal.SIGSTOP)
        second = await asyncio.to_thread(started, tmp_path / "second", database)
        database.rows(f"UPDATE gateways SET alive_until = 0 WHERE id = '{hung}'")
        await database.until("SELECT status, epoch, tries FROM runs", "done|2|2")
        after = "SELECT 'steps', count(*) FROM steps UNION ALL SELECT 'calls', count(*) FROM calls"
        written = database.rows(after)

        first.process.send_signal(signal.SIGCONT)
        reborn = f"SELECT count(*) FROM gateways WHERE dead = 0 AND id <> '{hung}'"
        await database.until(reborn, "2")  # it has noticed, and lives under a new id
        assert database.rows(after) == written
        assert database.rows("SELECT status, epoch, tries FROM runs") == ["done|2|2"]
        assert database.rows("SELECT content FROM space_messages ORDER BY seq") == ["task", "began"]
        assert database.rows("SELECT description FROM goals") == ["the task"]
        assert database.rows("SELECT key, value FROM memories") == ["task|done"]
        assert database.rows("SELECT status, count(*) FROM inbox GROUP BY status") == ["processed|1"]
        assert database.rows("SELECT version FROM consciousness") == ["1"]

        await asyncio.to_thread(eventually, lambda: httpx2.get(f"{first.url}/readyz").is_success)
        ask(first, "POST", "/api/spaces/home/messages", json={"entityId": "eve", "content": "another task"})
        await database.until("SELECT number, status FROM runs ORDER BY number", "1|done", "2|done")
    finally:
        for gateway in (first, second):
            if gateway is not None:
                gateway.process.send_signal(signal.SIGCONT)
                gateway.kill()


@requirement("CON-agents-cycle-atomic")
async def test_what_a_gateway_says_for_a_cycle_that_is_another_s_is_refused(
    tmp_path: Path, postgres_url: str, postgres_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="jackfield.agents")
    patient = SCRIPT.replace("wait = 1.5", "wait = 4")  # so that the other gateway is up before it goes on
    async with agents_gateway(tmp_path / "slow", patient, AGENT, store=postgres_url) as slow:
        await slow.say("home", "task")

        async def has_begun() -> bool:
            return len(await slow.messages("home")) == 2

        await eventually_async(has_begun)
        quick = SCRIPT.replace("wait = 1.5", "wait = 0")
        async with agents_gateway(tmp_path / "quick", quick, AGENT, store=postgres_url) as other:
            late = f"UPDATE gateways SET alive_until = 0 WHERE id = '{slow.gateway.id}'"
            postgres_server.run(late, database="swept")
            cycle = await other.cycle("ada", 1)
            calls = await other.calls(cycle)

            async def was_refused() -> bool:
                return "cycle 1 is another's now" in caplog.text

            await eventually_async(was_refused)
            assert (cycle.owner, cycle.epoch) == (other.gateway.id, 2)
            assert await other.calls(cycle) == calls
            assert [message["content"] for message in await other.messages("home")] == ["task", "began"]
            assert [event.status for event in await other.inbox("ada")] == ["processed"]


@requirement("CON-agents-cycle-atomic")
@pytest.mark.usefixtures("quick_tries")
async def test_a_cycle_whose_gateways_died_again_and_again_is_given_up_and_its_events_come_again(
    tmp_path: Path,
) -> None:
    script = """
[[turns]]
when = { user = "Cycle Failed" }
say = "I know."
"""
    url = f"sqlite:///{tmp_path / 'three.db'}"
    await _died_three_times(url, tmp_path)
    async with agents_gateway(tmp_path, script, AGENT, store=url) as place:
        first = await place.cycle("ada", 1, status=CycleStatus.FAILED)
        assert (first.tries, first.reason) == (4, "Its gateway stopped 3 times in the middle of it.")
        second = await place.cycle("ada", 2)
        assert second.consumed == ("evt_1", f"cf:{first.id}")
        assert '"Its gateway stopped 3 times in the middle of it." It had called nothing.' in inbox_of(
            place.requests[-1]
        )
        [warning] = await place.messages("home")
        assert warning["content"].startswith("ada could not go on: Its gateway stopped 3 times")


async def _died_three_times(url: str, folder: Path) -> None:
    """As three gateways left it that died in the same cycle; who starts next is the fourth that tries."""
    store = open_store(url, folder=folder, data=folder)
    await store.open()
    await store.write(
        partial(
            push_event,
            "ada",
            event_id="evt_1",
            type="service",
            data='{"serviceName": "clock", "payload": "task"}',
        )
    )
    opened = await store.write(partial(open_cycle, new_id("cycle"), agent="ada", owner="gw_first"))
    assert opened is not None
    second = await store.write(partial(take_over, opened.cycle, owner="gw_second"))
    assert second is not None
    assert await store.write(partial(take_over, second, owner="gw_third")) is not None
    await store.close()


async def test_a_cycle_that_was_opened_here_and_is_lived_by_nobody_is_picked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may fail after it has written: then the gateway has a cycle that it does not know of."""
    async with agents_gateway(tmp_path, '[otherwise]\nsay = "Here."\n', AGENT) as place:
        with monkeypatch.context() as deaf:
            deaf.setattr(place.gateway.scheduler, "wake", lambda _: None)
            await place.say("home", "task")
            opened = await place.store.write(partial(open_cycle, new_id("cycle"), agent="ada", owner=place.gateway.id))
            assert opened is not None
        cycle = await place.cycle("ada", 1)
        assert (cycle.summary, cycle.epoch, cycle.tries) == ("Here.", 1, 1)


async def test_a_gateway_that_stops_leaves_its_cycles_to_the_next_which_goes_on_after_the_last_step(
    tmp_path: Path,
) -> None:
    """What is on record is not asked for again, and not done again."""
    url = f"sqlite:///{tmp_path / 'two.db'}"
    async with agents_gateway(tmp_path, SCRIPT, AGENT, store=url) as place:
        await place.say("home", "task")

        async def has_begun() -> bool:
            return len(await place.messages("home")) == 2

        await eventually_async(has_begun)
    async with agents_gateway(tmp_path, SCRIPT.replace("wait = 1.5", "wait = 0"), AGENT, store=url) as place:
        cycle = await place.cycle("ada", 1)
        assert (cycle.tries, cycle.summary) == (2, "Over.")
        assert [message["content"] for message in await place.messages("home")] == ["task", "began"]
        assert [goal.description for goal in await place.store.read(partial(agent_tx.goals, "ada"))] == ["the task"]
        calls = await place.calls(cycle)
        assert [call.tool for call in calls] == [
            "set_goals",
            "enter_space",
            "send_message",
            "leave_space",
            "enter_space",
            "set_memories",
        ]
        assert all(isinstance(call.outcome, Done) for call in calls)
        assert len(place.requests) == 3, "the first step was not asked for again"
        told = [type(item).__name__ for item in place.requests[0].items]
        assert told == ["Message", *["FunctionCall"] * 3, *["FunctionCallOutput"] * 3], "it is told what it has done"
