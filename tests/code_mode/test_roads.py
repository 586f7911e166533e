"""Programs on every road to a tool: REST, `/mcp`, responses, agents, a space; what becomes of the calls in them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.types import TextContent

from jackfield.gateway.gateway import Gateway
from tests.code_mode.test_programs import CONFIG, TOOLS, over, record, run, waiting
from tests.harness.in_process import in_process_gateway
from tests.mcp.scene import mcp_scene
from tests.requirement import requirement
from tests.waiting import eventually_async

PAYS = "return [await tools.add(a=1, b=2), await tools.pay(amount=7)]"
SCRIPT = f"""
[[turns]]
when = {{ result = "run_program" }}
say = "The program is done."
[[turns]]
when = {{ user = "program" }}
calls = [{{ tool = "run_program", arguments = {{ code = {json.dumps(PAYS)} }} }}]
[otherwise]
say = "Noted."
"""
MORE = """
[models.mind]
provider = "scripted"
script = "mind.toml"

[agents.ada]
model = "mind"
tools = ["*"]

[[tools]]
name = "showChart"
description = "Show a chart"
executionType = "space"
inputSchema = { type = "object" }

[sources.local.tools.brief]
metadata = { requires_approval = true }
expires_in = 1

[sources.local.tools.visible]
visible = true
"""
MORE_TOOLS = '''

def brief() -> str:
    """Must be allowed within a second."""
    return "allowed"


def visible(n: int) -> int:
    """Shown in its space."""
    return n
'''


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    (tmp_path / "tools.py").write_text(TOOLS + MORE_TOOLS)
    (tmp_path / "mind.toml").write_text(SCRIPT)
    async with in_process_gateway(tmp_path, CONFIG + MORE) as made:
        yield made


@pytest.fixture
def client(both: tuple[Gateway, httpx2.AsyncClient]) -> httpx2.AsyncClient:
    return both[1]


async def approve(client: httpx2.AsyncClient, call_id: str) -> None:
    answer = await client.post(f"/api/v1/calls/{call_id}/approve", json={})
    assert answer.status_code == 200, answer.text


async def asked(client: httpx2.AsyncClient) -> dict[str, Any]:
    [call] = await eventually_async(lambda: waiting(client))
    made: dict[str, Any] = call
    return made


@requirement("PROG-ROADS")
async def test_thirty_calls_in_loops_and_in_parallel_with_two_approvals_each_made_once(
    client: httpx2.AsyncClient,
) -> None:
    code = """
total = 0
for n in range(10):
    total = await tools.add(a=total, b=n)
first = await tools.pay(amount=total)
sums = await asyncio.gather(*(tools.add(a=n, b=n) for n in range(18)))
second = await tools.pay(amount=sum(sums))
return [total, first, second, await tools.made()]
"""
    told = await run(client, code)
    assert told["http"] == 202
    for amount in (45, 306):
        call = await asked(client)
        assert call["arguments"] == {"amount": amount}
        await approve(client, call["id"])
    assert (await over(client, told["call_id"]))["result"] == [45, "paid 45", "paid 306", 28]
    made = (await client.get(f"/api/v1/calls?run_id={told['run_id']}&limit=100")).json()["calls"]
    assert len([call for call in made if call["tool"] != "run_program"]) == 31


@requirement("PROG-ROADS")
async def test_an_inner_call_that_expires_is_told_to_the_program(client: httpx2.AsyncClient) -> None:
    code = "try:\n    await tools.brief()\nexcept ToolFailed as error:\n    return [error.code, str(error)]"
    told = await run(client, code)
    ended = await over(client, told["call_id"])
    assert ended["result"][0] == "expired", ended


@requirement("PROG-ROADS")
async def test_a_programs_call_stays_open_longer_than_what_it_waits_for(client: httpx2.AsyncClient) -> None:
    told = await run(client, "await tools.pay(amount=1)")
    inner, outer = await asked(client), await record(client, told["call_id"])
    assert outer["expires_at"] > inner["expires_at"]


@requirement("PROG-ROADS")
async def test_two_programs_of_one_caller_run_side_by_side(client: httpx2.AsyncClient) -> None:
    first, second = await run(client, PAYS), await run(client, PAYS)
    calls = await eventually_async(lambda: waiting(client))
    assert len(calls) == 2
    for call in calls:
        await approve(client, call["id"])
    for told in (first, second):
        assert (await over(client, told["call_id"]))["result"] == [3, "paid 7"]


@requirement("PROG-ROADS")
async def test_a_long_sleep_holds_no_process_and_passes(client: httpx2.AsyncClient, both: Any) -> None:
    told = await run(client, "await asyncio.sleep(3600)\nreturn await tools.add(a=1, b=1)")
    assert (told["http"], told["status"]) == (202, "pending")
    run_id = f"prog_{told['call_id']}"
    assert (await client.get(f"/api/runs/{run_id}")).json()["run"]["status"] == "parked"
    await client.post(f"/api/runs/{run_id}/cancel")
    assert (await over(client, told["call_id"]))["status"] == "cancelled"
    bounded = "async with asyncio.timeout(3600):\n    return await tools.pay(amount=2)"
    told = await run(client, bounded)
    assert told["http"] == 202
    await approve(client, (await asked(client))["id"])
    assert (await over(client, told["call_id"]))["result"] == "paid 2"


@requirement("PROG-ROADS")
async def test_calls_of_a_program_in_a_space_are_shown_as_cards(client: httpx2.AsyncClient) -> None:
    await client.post("/api/spaces", json={"id": "home"})
    told = await run_in_space(client, "return [await tools.visible(n=n) for n in range(2)]")
    assert told["result"] == [0, 1], told
    cards = await cards_in(client)
    assert [(card["toolName"], card["result"], card["status"]) for card in cards] == [
        ("visible", 0, "complete"),
        ("visible", 1, "complete"),
    ]
    told = await run_in_space(client, "return await tools.showChart(title='Rain')")
    assert told["status"] == "pending", told
    [card] = [card for card in await cards_in(client) if card["toolName"] == "showChart"]
    body = {"callId": card["toolCallId"], "result": {"seen": True}}
    answer = await client.post(f"/api/runs/{card['runId']}/tool-results", json=body)
    assert answer.status_code == 200, answer.text
    assert (await over(client, told["call_id"]))["result"] == {"seen": True}


async def run_in_space(client: httpx2.AsyncClient, code: str) -> dict[str, Any]:
    body = {"arguments": {"code": code}, "space_id": "home"}
    answer = await client.post("/api/v1/tools/run_program/execute", json=body, timeout=60)
    told: dict[str, Any] = answer.json()
    return told


async def cards_in(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    messages = (await client.get("/api/spaces/home/messages")).json()["messages"]
    return [message["metadata"] for message in messages if message["metadata"].get("type") == "tool_call"]


@requirement("PROG-ROADS")
async def test_a_response_in_the_background_waits_for_an_approval_inside_a_program(
    client: httpx2.AsyncClient,
) -> None:
    tools = [{"type": "mcp", "server_label": "jackfield", "require_approval": "never"}]
    body = {"model": "mind", "input": "Run the program", "tools": tools, "background": True}
    made = (await client.post("/v1/responses", json=body)).json()
    await approve(client, (await asked(client))["id"])

    async def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"/v1/responses/{made['id']}")).json()
        return found if found["status"] not in ("queued", "in_progress") else None

    response = await eventually_async(ended)
    assert response["status"] == "completed", response
    [item] = [item for item in response["output"] if item["type"] == "mcp_call"]
    assert json.loads(item["output"]) == [3, "paid 7"]
    assert response["output"][-1]["content"][0]["text"] == "The program is done."
    shown = (await client.get(f"/api/runs/{made['id']}")).json()["run"]
    assert [child["kind"] for child in shown["children"]] == ["program"]
    program = (await client.get(f"/api/runs/{shown['children'][0]['id']}")).json()["run"]
    assert [call["tool"] for step in program["steps"] for call in step["calls"]] == ["add", "pay"]


@requirement("PROG-ROADS")
async def test_an_agent_is_told_the_result_of_its_program_whenever_it_comes(client: httpx2.AsyncClient) -> None:
    await client.post("/api/agents/ada/trigger", json={"serviceName": "door", "payload": "program"})
    call = await asked(client)
    assert call["agent"] == "ada"
    assert call["principal"] == "agent:ada"
    await approve(client, call["id"])

    async def told() -> dict[str, Any] | None:
        cycles = (await client.get("/api/runs?agent=ada&kind=cycle")).json()["runs"]
        for cycle in cycles:
            whole = (await client.get(f"/api/runs/{cycle['id']}?messages=true")).json()["run"]
            if "paid 7" in json.dumps([step.get("messages") for step in whole["steps"]]):
                return dict(whole)
        return None

    assert (await eventually_async(told))["kind"] == "cycle"


@requirement("PROG-ROADS")
async def test_an_mcp_client_in_code_mode_is_told_of_an_approval_inside_its_program(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with mcp_scene(tmp_path, f"{CONFIG}\n[mcp]\ncode_mode = true\n") as scene, scene.client(mode="legacy") as mcp:
        told = await mcp.call_tool("run_program", {"code": PAYS})
        text = told.content[0]
        assert isinstance(text, TextContent)
        assert "pending" in text.text
        failed = await mcp.call_tool("run_program", {"code": "await tools.fail(why='broken')"})
        assert failed.is_error
        text = failed.content[0]
        assert isinstance(text, TextContent)
        assert "broken" in text.text
