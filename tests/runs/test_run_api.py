"""`/api/runs`: runs of every kind listed with filters, shown with steps, times, tokens, cost and messages, ended and
resumed, in a gateway of the test's own process."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.gateway.gateway import Gateway
from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement
from tests.waiting import eventually_async

TOOLS = '''
import pathlib
import time


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def hold(gate: str) -> str:
    """Wait until a file is there."""
    while not pathlib.Path(gate).exists():
        time.sleep(0.01)
    return "opened"
'''
SCRIPT = r"""
[[turns]]
when = { result = "add" }
say = "It is three."
[[turns]]
when = { user = 'hold (?P<gate>[^"\\]+)' }
calls = [{ tool = "hold", arguments = { gate = "{gate}" } }]
[[turns]]
when = { user = "add" }
think = "I can add."
calls = [{ tool = "add", arguments = { a = 1, b = 2 } }]
[otherwise]
say = "Noted, s3cr3t-value."
"""
BROKEN = """
[[turns]]
when = { user = "try" }
calls = [{ tool = "add", arguments = { a = 1, b = 2 } }]
[[turns]]
say = "It comes to"
fail = "The model is out of order."
[[turns]]
say = "It comes to 3."
"""
CONFIG = """
[programs]
enabled = true

[models.mind]
provider = "scripted"
script = "mind.toml"
price = { input = 2.0, output = 10.0 }

[models.broken]
provider = "scripted"
script = "broken.toml"

[agents.ada]
model = "mind"
tools = ["*"]

[sources.local]
kind = "files"
path = "tools.py"

[sources.local.tools.pay]
metadata = { requires_approval = true }

[auth.keys.own]
key = "own-key"
scopes = ["call", "read"]

[auth.keys.other]
key = "other-key"
scopes = ["call", "read"]
"""
OWN, OTHER = {"x-api-key": "own-key"}, {"x-api-key": "other-key"}
PROGRAM = 'print("before")\npaid = await tools.pay(amount=5)\nprint("after")\nreturn paid'


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "mind.toml").write_text(SCRIPT)
    (tmp_path / "broken.toml").write_text(BROKEN)
    async with in_process_gateway(tmp_path, CONFIG) as made:
        made[0].settings.secrets.add("s3cr3t-value")
        yield made


@pytest.fixture
def client(both: tuple[Gateway, httpx2.AsyncClient]) -> httpx2.AsyncClient:
    return both[1]


async def respond(client: httpx2.AsyncClient, said: str, **more: Any) -> dict[str, Any]:
    headers = more.pop("headers", OWN)
    body = {
        "model": "mind",
        "input": said,
        "tools": [{"type": "mcp", "server_label": "jackfield", "require_approval": "never"}],
        **more,
    }
    answer = await client.post("/v1/responses", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def show(client: httpx2.AsyncClient, run_id: str, query: str = "", **more: Any) -> dict[str, Any]:
    answer = await client.get(f"/api/runs/{run_id}{query}", **more)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["run"]
    return found


async def act(client: httpx2.AsyncClient, run_id: str, what: str, **more: Any) -> httpx2.Response:
    return await client.post(f"/api/runs/{run_id}/{what}", **more)


async def started_cycle(client: httpx2.AsyncClient, payload: str) -> str:
    event = (await client.post("/api/agents/ada/trigger", json={"serviceName": "door", "payload": payload})).json()

    async def found() -> str | None:
        cycles = (await client.get("/api/agents/ada/cycles")).json()["cycles"]
        return next((one["id"] for one in cycles if event["eventId"] in one["consumed"]), None)

    return await eventually_async(found)


async def in_status(client: httpx2.AsyncClient, run_id: str, *statuses: str) -> dict[str, Any]:
    async def reached() -> dict[str, Any] | None:
        run = await show(client, run_id)
        return run if run["status"] in statuses else None

    return await eventually_async(reached)


async def parked_program(client: httpx2.AsyncClient) -> tuple[dict[str, Any], str]:
    """A program that waits for an approval: its call, and its run."""
    answer = await client.post(
        "/api/v1/tools/run_program/execute", json={"arguments": {"code": PROGRAM}}, headers=OWN, timeout=60
    )
    assert answer.status_code == 202, answer.text
    call = answer.json()
    return call, f"prog_{call['call_id']}"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


@requirement("RUN-SHOWN")
async def test_a_response_is_shown_with_the_times_tokens_cost_and_messages_of_its_steps(
    client: httpx2.AsyncClient,
) -> None:
    made = await respond(client, "Please add", instructions="Be brief.")
    run = await show(client, made["id"], "?messages=true", headers=OWN)
    assert (run["kind"], run["status"], run["principal"], run["model"]) == ("response", "completed", "own", "mind")
    assert (run["stepsTaken"], run["actions"], run["parked_since"]) == (2, [], None)
    first, last = run["steps"]
    assert [call["tool"] for call in first["calls"]] == ["add"]
    assert run["calls"] == last["calls"] == []
    assert [item["type"] for item in first["items"]] == ["reasoning", "function_call"]
    assert last["items"][0]["content"][0]["text"] == "It is three."
    [call] = first["calls"]
    times = (first["askedAt"], first["firstAt"], first["answeredAt"], call["started_at"], call["finished_at"])
    assert [*map(moment, times)] == sorted(map(moment, times))
    assert moment(last["askedAt"]) >= moment(call["created_at"])
    usage = made["usage"]
    assert (run["inputTokens"], run["outputTokens"]) == (usage["input_tokens"], usage["output_tokens"])
    assert run["cost"] == pytest.approx((usage["input_tokens"] * 2 + usage["output_tokens"] * 10) / 1e6)
    assert run["cost"] == pytest.approx(first["cost"] + last["cost"])
    sent = first["messages"]
    assert (sent["kept"], sent["instructions"]) == (0, "Be brief.")
    assert "add" in sent["tools"]
    assert [item["role"] for item in sent["sent"]] == ["user"]
    then = last["messages"]
    assert (then["kept"], then["instructions"], then["tools"]) == (3, None, None)
    assert [item["type"] for item in then["sent"]] == ["function_call_output"]
    assert "messages" not in (await show(client, made["id"]))["steps"][0]


@requirement("RUN-SHOWN")
async def test_a_continued_response_keeps_only_what_is_new_and_secrets_are_taken_out(
    client: httpx2.AsyncClient,
) -> None:
    before = await respond(client, "Hello")
    made = await respond(client, "And now?", previous_response_id=before["id"])
    [step] = (await show(client, made["id"], "?messages=true"))["steps"]
    assert step["messages"]["kept"] == 2
    assert [item["content"][0]["text"] for item in step["messages"]["sent"]] == ["And now?"]
    assert "s3cr3t-value" not in str(step)
    unstored = await respond(client, "Hello", store=False)
    assert (await client.get(f"/api/runs/{unstored['id']}")).status_code == 404


@requirement("RUN-LISTED")
async def test_runs_of_every_kind_are_listed_by_kind_status_agent_principal_and_time(
    client: httpx2.AsyncClient,
) -> None:
    mine = (await respond(client, "Hello"))["id"]
    _, program = await parked_program(client)
    cycle = await started_cycle(client, "hello")
    await in_status(client, cycle, "completed")
    opened = await client.post("/api/sessions", json={"agent": "ada", "message": "hello"}, headers=OWN)
    session = opened.json()["session"]["id"]
    theirs = (await respond(client, "Hello", headers=OTHER))["id"]

    async def listed(query: str = "", **more: Any) -> list[str]:
        answer = await client.get(f"/api/runs{query}", **more)
        assert answer.status_code == 200, answer.text
        return [run["id"] for run in answer.json()["runs"]]

    assert await listed() == [theirs, session, cycle, program, mine]
    assert await listed(headers=OWN) == [session, program, mine]
    assert await listed(headers=OTHER) == [theirs]
    assert await listed("?kind=program") == [program]
    assert await listed("?status=parked") == [program]
    assert await listed("?kind=session&status=running") == [session]
    assert await listed("?status=completed") == [theirs, cycle, mine]
    assert await listed("?agent=ada") == [session, cycle]
    assert await listed("?principal=own") == [session, program, mine]
    assert await listed("?principal=agent:ada") == [cycle]
    assert await listed("?principal=own", headers=OTHER) == []
    begun = (await show(client, cycle))["createdAt"]
    assert await listed(f"?since={begun}") == [theirs, session, cycle]
    assert await listed(f"?until={begun}") == [program, mine]
    assert (await client.get("/api/runs?kind=nonsense")).status_code == 400
    page = (await client.get("/api/runs?limit=2")).json()
    assert await listed(f"?limit=2&cursor={page['next_cursor']}") == [cycle, program]
    shown = await show(client, session)
    assert (shown["kind"], shown["agentEntityId"], shown["actions"]) == ("session", "ada", ["cancel"])
    await eventually_async(lambda: _steps(client, session))
    for run_id in (mine, program, session):
        assert (await client.get(f"/api/runs/{run_id}", headers=OTHER)).status_code == 404
        assert (await act(client, run_id, "cancel", headers=OTHER)).status_code == 404


async def _steps(client: httpx2.AsyncClient, run_id: str) -> bool:
    return len((await show(client, run_id))["steps"]) == 1


@requirement("RUN-SHOWN")
async def test_a_program_is_shown_with_its_code_log_what_it_waits_for_and_its_parent(
    client: httpx2.AsyncClient,
) -> None:
    call, run_id = await parked_program(client)
    run = await show(client, run_id)
    assert (run["kind"], run["status"], run["input"]["code"], run["log"]) == ("program", "parked", PROGRAM, "before\n")
    assert run["parked_since"] is not None
    [waits] = run["waitsFor"]
    assert (waits["tool"], waits["status"]) == ("pay", "pending_approval")
    assert run["parent"] == {"callId": call["call_id"], "runId": call["run_id"]}
    parent = await show(client, call["run_id"])
    assert [(one["id"], one["kind"]) for one in parent["children"]] == [(run_id, "program")]
    assert [one["tool"] for one in parent["calls"]] == ["run_program"]
    assert parent["calls"][0]["child_run"] == run_id
    await client.post(f"/api/v1/calls/{waits['callId']}/approve", json={})
    run = await in_status(client, run_id, "completed")
    assert (run["result"], run["log"], run["waitsFor"]) == ("paid 5", "before\nafter\n", [])
    assert [[ask["tool"] for ask in step.get("asks", [])] for step in run["steps"]] == [["pay"], []]
    assert run["steps"][0]["calls"][0]["result"] == "paid 5"
    told = await act(client, run_id, "cancel", headers=OWN)
    assert (told.status_code, "is over" in told.json()["error"]["message"]) == (409, True)


@requirement("RUN-ENDED")
async def test_a_cancelled_program_ends_at_once_with_the_calls_that_it_waits_for(client: httpx2.AsyncClient) -> None:
    call, run_id = await parked_program(client)
    assert (await act(client, run_id, "cancel", headers=OWN)).status_code == 200
    run = await in_status(client, run_id, "cancelled")

    async def inner() -> bool:
        return bool((await show(client, run_id))["steps"][0]["calls"][0]["status"] == "cancelled")

    await eventually_async(inner)
    assert (await client.get(f"/api/v1/calls/{call['call_id']}")).json()["call"]["status"] == "cancelled"
    told = await act(client, run_id, "resume", headers=OWN)
    assert (told.status_code, "call run_program again" in told.json()["error"]["message"]) == (409, True)
    assert run["actions"] == []


@requirement("RUN-ENDED")
async def test_a_stopped_cycle_ends_with_its_calls_and_is_tried_again_on_demand(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    cycle = await started_cycle(client, f"hold {gate}")

    async def holds() -> bool:
        steps = (await show(client, cycle))["steps"]
        return bool(steps) and bool(steps[0]["calls"])

    await eventually_async(holds)
    assert (await show(client, cycle))["actions"] == ["cancel"]
    answer = await act(client, cycle, "cancel")
    assert answer.status_code == 200, answer.text
    run = answer.json()["run"]
    assert (run["status"], run["reason"], run["actions"]) == ("cancelled", "Stopped by admin.", ["resume"])
    assert [event["status"] for event in run["events"]] == ["processed"]

    async def call_is_over() -> bool:
        return bool((await show(client, cycle))["steps"][0]["calls"][0]["status"] == "cancelled")

    await eventually_async(call_is_over)
    assert (await act(client, cycle, "cancel")).status_code == 409
    gate.touch()
    assert (await act(client, cycle, "resume")).status_code == 200

    async def next_one() -> str | None:
        cycles = (await client.get("/api/agents/ada/cycles")).json()["cycles"]
        return cycles[0]["id"] if cycles[0]["id"] != cycle else None

    again = await eventually_async(next_one)
    done = await in_status(client, again, "completed")
    assert done["steps"][0]["calls"][0]["result"] == "opened"
    told = await act(client, cycle, "resume")
    assert (told.status_code, "later cycle" in told.json()["error"]["message"]) == (409, True)
    told = await act(client, again, "resume")
    assert (told.status_code, "completed" in told.json()["error"]["message"]) == (409, True)


@requirement("RUN-ENDED")
async def test_sessions_and_bare_calls_are_ended_and_what_cannot_be_done_is_said(client: httpx2.AsyncClient) -> None:
    opened = await client.post("/api/sessions", json={"agent": "ada"}, headers=OWN)
    session = opened.json()["session"]["id"]
    ended = (await act(client, session, "cancel", headers=OWN)).json()["run"]
    assert ended["status"] == "completed"
    told = await act(client, session, "resume", headers=OWN)
    assert (told.status_code, "POST /api/sessions" in told.json()["error"]["message"]) == (409, True)
    asked = await client.post("/api/v1/tools/pay/execute", json={"arguments": {"amount": 1}}, headers=OWN)
    bare = asked.json()["run_id"]
    assert (await show(client, bare))["actions"] == ["cancel"]
    cancelled = (await act(client, bare, "cancel", headers=OWN)).json()["run"]
    assert [call["status"] for call in cancelled["calls"]] == ["cancelled"]
    assert (await act(client, bare, "cancel", headers=OWN)).status_code == 409
    assert (await act(client, bare, "resume", headers=OWN)).status_code == 409
    assert (await act(client, "run_0", "cancel", headers=OWN)).status_code == 404


@requirement("RUN-ENDED")
async def test_a_response_in_the_background_is_cancelled(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    made = await respond(client, f"hold {tmp_path / 'never'}", background=True)

    async def at_work() -> bool:
        run = await show(client, made["id"])
        return any(step["calls"] for step in run["steps"])

    await eventually_async(at_work)
    async with asyncio.timeout(30):
        answer = await act(client, made["id"], "cancel", headers=OWN)
    assert answer.status_code == 200, answer.text
    ended = answer.json()["run"]
    assert (ended["status"], ended["response"]["status"]) == ("cancelled", "cancelled")
    assert (await act(client, made["id"], "resume", headers=OWN)).status_code == 409


@requirement("RUN-ENDED")
async def test_a_response_that_failed_is_shown_so_and_resumed(client: httpx2.AsyncClient) -> None:
    made = await respond(client, "try", model="broken", background=True)
    run = await in_status(client, made["id"], "failed")
    assert run["actions"] == ["resume"]
    assert run["error"] == {"code": "model_error", "message": "The model is out of order."}
    first, broken = run["steps"]
    assert ([call["tool"] for call in first["calls"]], first["error"]) == (["add"], None)
    assert broken["error"] == run["error"]
    assert (await act(client, made["id"], "resume", headers=OTHER)).status_code == 404
    assert (await act(client, made["id"], "resume", headers=OWN)).status_code == 200
    run = await in_status(client, made["id"], "completed")
    assert [step["error"] for step in run["steps"]] == [None, None]
    assert run["steps"][1]["items"][0]["content"][0]["text"] == "It comes to 3."
    assert [call["tool"] for step in run["steps"] for call in step["calls"]] == ["add"]
