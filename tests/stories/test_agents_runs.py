"""Runs: cycles, responses and bare calls, listed, read whole and followed to their end, over HTTP and the SDK."""

import asyncio
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.sdk import AgentNotFound, Client, Conflict, Goal, Plan, RunEvent, RunNotFound, SyncClient
from tests.harness.api import ADMIN_KEY, Api, key_of, open_api
from tests.requirement import requirement
from tests.waiting import TIMEOUT, eventually, eventually_async

CONFIG = """
[models.mind]
provider = "scripted"
script = "mind.toml"

[agents.ada]
model = "mind"
spaces = ["home"]

[[tools]]
name = "confirmAction"
description = "Ask the user to confirm an action"
executionType = "space"
isAsync = true
visible = false
inputSchema = { type = "object" }
"""
MIND = r"""
[[turns]]
when = { user = 'wait for (?P<gate>[^"\\]+)' }
think = "It is slow, and may fail."
calls = [{ tool = "slow", arguments = { gate = "{gate}" } }, { tool = "boom" }, { tool = "confirmAction" }]
[[turns]]
when = { result = "confirmAction" }
say = "That was slow."
[otherwise]
say = "Noted."
"""
WITHIN = TIMEOUT


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway"), extra=CONFIG, files={"mind.toml": MIND}) as opened:
        yield opened


@pytest.fixture
async def client(api: Api) -> AsyncIterator[Client]:
    async with Client(api.gateway.url, ADMIN_KEY) as made:
        yield made


async def begun(client: Client, payload: str) -> str:
    """The id of the cycle that a trigger with this payload has opened."""
    event = (await client.agents.trigger("ada", "door", payload)).event_id

    async def found() -> str | None:
        cycles = (await client.agents.cycles("ada", limit=5)).cycles
        return next((cycle.id for cycle in cycles if event in cycle.consumed), None)

    return await eventually_async(found)


async def the_rest(stream: AsyncIterator[RunEvent]) -> list[RunEvent]:
    async with asyncio.timeout(WITHIN):
        return [event async for event in stream]


def respond(api: Api, *, key: str = "admin") -> dict[str, Any]:
    body = {"model": "mind", "input": "Hello", "tools": []}
    answer = api.ask("POST", "/v1/responses", key=key, json=body)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


@requirement("CON-agents-crud")
async def test_a_cycle_is_followed_live_call_by_call_to_its_end(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run_id = await begun(client, f"wait for {gate}")
    stream = client.runs.stream(run_id)
    async with asyncio.timeout(WITHIN):
        assert (await anext(stream)).type == "connected"
        seen = [await anext(stream) for _ in range(8)]
    started = [(event.type, event.tool_name) for event in seen]
    assert started[:3] == [("step.done", None), ("tool.started", "slow"), ("tool.ready", "slow")]
    assert ("tool.ready", "confirmAction") in started
    assert ("tool.done", "slow") not in started  # it waits for the gate
    assert seen[2].args == {"gate": str(gate)}
    gate.touch()
    rest = await the_rest(stream)
    told = [(event.type, event.tool_name) for event in [*seen, *rest]]
    assert told.count(("tool.done", "slow")) == told.count(("tool.error", "boom")) == 1
    assert told[-1] == ("run.completed", None)
    [error] = [event.error for event in [*seen, *rest] if event.type == "tool.error"]
    assert error == "ValueError: no reason"

    again = await the_rest(client.runs.stream(run_id))
    assert [(event.type, event.tool_name) for event in again] == [
        ("connected", None),
        ("step.done", None),
        ("tool.started", "slow"),
        ("tool.ready", "slow"),
        ("tool.done", "slow"),
        ("tool.started", "boom"),
        ("tool.ready", "boom"),
        ("tool.error", "boom"),
        ("tool.started", "confirmAction"),
        ("tool.ready", "confirmAction"),
        ("step.done", None),
        ("run.completed", None),
    ]


async def test_a_cycle_is_shown_with_its_events_steps_calls_and_usage(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    run_id = await begun(client, f"wait for {gate}")
    await the_rest(client.runs.stream(run_id))
    run = await client.runs.get(run_id)
    assert (run.kind, run.status, run.agent_entity_id, run.summary) == ("cycle", "completed", "ada", "That was slow.")
    assert [(event.type, event.data["payload"]) for event in run.events] == [("service", f"wait for {gate}")]
    step, last = run.steps
    assert [item["type"] for item in last.items] == ["message"]
    assert [item["type"] for item in step.items] == ["reasoning", *["function_call"] * 3]
    assert [(call.tool, call.status) for call in step.calls] == [
        ("slow", "completed"),
        ("boom", "failed"),
        ("confirmAction", "pending"),
    ]
    assert step.calls[0].result == "done"
    assert step.usage is not None
    assert 0 < step.usage["output_tokens"] < (run.output_tokens or 0)


async def test_cycles_and_responses_are_listed_together_newest_first_in_pages(api: Api, client: Client) -> None:
    first = respond(api)["id"]
    cycle = await begun(client, "anything")
    await the_rest(client.runs.stream(cycle))
    second = respond(api)["id"]
    page = await client.runs.list(limit=2)
    rest = await client.runs.list(limit=2, cursor=page.next_cursor)
    assert [run.id for run in (*page.runs, *rest.runs)][:3] == [second, cycle, first]
    assert [(run.kind, run.status) for run in page.runs] == [("response", "completed"), ("cycle", "completed")]
    of_ada = await client.runs.list(agent="ada", limit=200)
    assert cycle in {run.id for run in of_ada.runs}
    assert {run.kind for run in of_ada.runs} == {"cycle"}
    assert (await client.runs.list(agent="nobody")).runs == ()


async def test_a_response_and_a_bare_run_are_shown_and_followed_like_a_cycle(api: Api, client: Client) -> None:
    made = respond(api)
    run = await client.runs.get(made["id"])
    assert (run.kind, run.status, run.response) == ("response", "completed", made)
    told = [event.type for event in await the_rest(client.runs.stream(made["id"]))]
    assert told == ["connected", "step.done", "run.completed"]

    bare = api.execute("add", {"a": 1}).json()["run_id"]
    shown = await client.runs.get(bare)
    assert (shown.kind, shown.status, [call.result for call in shown.calls]) == ("calls", "completed", [2])
    failed = api.execute("boom").json()["run_id"]
    events = await the_rest(client.runs.stream(failed))
    assert [event.type for event in events] == ["connected", "tool.started", "tool.ready", "tool.error", "run.failed"]


async def test_a_key_sees_its_own_runs_and_nobody_elses(api: Api, client: Client) -> None:
    mine = respond(api, key="caller")["id"]
    call = api.execute("add", {"a": 1}, key="caller").json()["run_id"]
    cycle = await begun(client, "anything")
    for run_id, who in ((mine, {"admin", "caller"}), (call, {"admin", "caller"}), (cycle, {"admin", "ada"})):
        for key in ("admin", "caller", "rival", "ada", "reader"):
            for path in (f"/api/runs/{run_id}", f"/api/runs/{run_id}/stream"):
                assert _status(api, path, key=key) == (200 if key in who else 404), (run_id, key)
    listed = api.ask("GET", "/api/runs", key="caller").json()["runs"]
    assert [run["id"] for run in listed] == [mine]
    listed = api.ask("GET", "/api/runs?limit=200", key="ada").json()["runs"]
    assert {run["agentEntityId"] for run in listed} == {"ada"}
    assert api.ask("GET", "/api/runs?agent=ada", key="rival").json()["runs"] == []
    with pytest.raises(RunNotFound):
        await client.runs.get("cycle_0")
    with pytest.raises(RunNotFound):
        await client.runs.get("run_0")


def _status(api: Api, path: str, *, key: str) -> int:
    headers = {"x-api-key": key_of(key)}
    with httpx2.stream("GET", f"{api.gateway.url}{path}", headers=headers, timeout=WITHIN) as answer:
        return answer.status_code


def test_the_blocking_client_creates_agents_and_reads_their_state_and_runs(api: Api) -> None:
    with SyncClient(api.gateway.url, ADMIN_KEY) as client:
        made = client.agents.create("fay", model="mind", name="Fay", max_steps=4)
        assert (made.id, made.name, made.max_steps, made.origin, made.is_awake) == ("fay", "Fay", 4, "api", False)
        assert client.agents.update("fay", description="New here.").description == "New here."
        assert "fay" in {agent.id for agent in client.agents.list()}
        assert [(m.key, m.value) for m in client.agents.set_memories("fay", {"tea": "green"})] == [("tea", "green")]
        assert client.agents.memories("fay")[0].value == "green"
        [goal] = client.agents.set_goals("fay", [Goal(description="Learn", priority=2)])
        assert client.agents.goals("fay") == (goal,)
        [plan] = client.agents.set_plans("fay", [Plan(name="later", run_after="2 hours", instruction="Rest")])
        assert client.agents.set_plans("fay", client.agents.plans("fay")) == (plan,)
        client.agents.trigger("fay", "door", "hello")
        [cycle] = eventually(lambda: [c for c in client.agents.cycles("fay").cycles if c.status == "done"])
        told = [event.type for event in client.runs.stream(cycle.id)]
        assert told == ["connected", "step.done", "run.completed"]
        assert client.runs.list(agent="fay").runs[0].id == client.runs.get(cycle.id).id == cycle.id
        assert client.agents.get("fay").last_cycle == cycle
        assert client.agents.inbox("fay").events[0].status == "processed"
        client.agents.delete("fay")
        with pytest.raises(AgentNotFound):
            client.agents.get("fay")
        with pytest.raises(Conflict):
            client.agents.delete("ada")
