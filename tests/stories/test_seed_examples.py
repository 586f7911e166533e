"""Seed 003's own examples and its table of a pending call, as they stand there, through the real doors."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2

from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.sources.upstream import Upstream, json_reply

# The words of the seed, only with a schema where it has a comment and a service that is really there.
CONFIRM_ACTION = {
    "name": "confirmAction",
    "description": "Ask the user to confirm an action",
    "inputSchema": {},
    "executionType": "space",
    "visible": True,
    "isAsync": True,
    "timeout": 30000,
    "execution": {"url": "...", "method": "POST"},
}
FETCH_EXTERNAL_DATA = {
    "name": "fetchExternalData",
    "description": "Ask another system.",
    "inputSchema": {},
    "executionType": "external",
    "visible": False,
    "isAsync": True,
}
DISPLAY_CHART = {
    "name": "displayChart",
    "description": "Show a chart.",
    "inputSchema": {},
    "executionType": "internal",
    "visible": True,
}


def fetch_weather(url: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "fetchWeather",
        "description": "The weather now.",
        "inputSchema": {},
        "executionType": "gateway",
        "visible": True,
        "execution": {"url": f"{url}/current", "method": "GET"},
        **more,
    }


def write(folder: Path, *tools: dict[str, Any]) -> None:
    (folder / "jackfield.json").write_text(json.dumps({"tools": tools}))


async def execute(gateway: RunningGateway, tool: str, body: dict[str, Any]) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=gateway.url, headers=gateway.headers, timeout=30) as client:
        return await client.post(f"/api/v1/tools/{tool}/execute", json=body)


@requirement("SPACE-config-minimal")
def test_the_seeds_example_of_a_tool_is_accepted_as_it_stands(tmp_path: Path) -> None:
    write(tmp_path, CONFIRM_ACTION)
    with running_gateway(tmp_path, args=("--config", "jackfield.json")) as gateway:
        body = {"arguments": {"question": "Book it?"}, "agent": "ada", "space_id": "lobby"}
        answer = asyncio.run(execute(gateway, "confirmAction", body))
        shown = httpx2.get(f"{gateway.url}/api/v1/tools/confirmAction", headers=gateway.headers).json()
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    assert (shown["name"], shown["description"]) == ("confirmAction", "Ask the user to confirm an action")


@requirement("SPACE-type-gateway-inline", "SPACE-flow-url", "SPACE-example-weather")
async def test_a_tool_with_a_url_answers_inline_also_when_it_is_said_to_be_async(tmp_path: Path) -> None:
    async with Upstream() as service:
        service.answers["/current"] = json_reply({"temperature": 21})
        asynchronous = fetch_weather(service.url, name="fetchWeatherAsync", isAsync=True)
        write(tmp_path, fetch_weather(service.url), asynchronous)
        with running_gateway(tmp_path, args=("--config", "jackfield.json")) as gateway:
            for tool in ("fetchWeather", "fetchWeatherAsync"):
                answer = await execute(gateway, tool, {"arguments": {"city": "Tokyo"}})
                assert answer.status_code == 200
                assert answer.json()["status"] == "completed"
                assert answer.json()["result"] == {"temperature": 21}
    assert [request.method for request in service.received] == ["GET", "GET"]


@requirement("SPACE-flow-url", "SPACE-flow-internal")
async def test_a_url_decides_before_the_type_and_internal_before_the_url(tmp_path: Path) -> None:
    async with Upstream() as service:
        service.answers["/current"] = json_reply({"temperature": 21})
        kinds = ("external", "space", "internal")
        tools = [fetch_weather(service.url, name=kind, executionType=kind, isAsync=True) for kind in kinds]
        write(tmp_path, *tools)
        with running_gateway(tmp_path, args=("--config", "jackfield.json")) as gateway:
            answers = {kind: await execute(gateway, kind, {"arguments": {}}) for kind in kinds}
    assert {answer.status_code for answer in answers.values()} == {200}
    results = {kind: answer.json()["result"] for kind, answer in answers.items()}
    assert results["external"] == results["space"] == {"temperature": 21}
    assert results["internal"] == {"success": True, "args": {}}
    assert len(service.received) == 2


@requirement("SPACE-flow-sync", "SPACE-flow-async", "CON-expires-in-never")
async def test_a_gateway_tool_without_a_url_waits_for_a_tool_server_and_for_ever_where_the_config_says_so(
    tmp_path: Path,
) -> None:
    bare = {name: value for name, value in fetch_weather("").items() if name != "execution"}
    write(tmp_path, bare, {**bare, "name": "later", "isAsync": True, "expiresIn": 0})
    with running_gateway(tmp_path, args=("--config", "jackfield.json")) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, headers=gateway.headers, timeout=30) as client:
            path = "/api/tools/stream?tools=fetchWeather"
            async with client.stream("GET", path) as offers:
                lines = offers.aiter_lines()
                assert "connected" in await anext(line async for line in lines if line.startswith("data:"))
                calling = asyncio.create_task(execute(gateway, "fetchWeather", {"arguments": {"city": "Tokyo"}}))
                offer = json.loads((await anext(line async for line in lines if line.startswith("data:")))[5:])
                submitted = {"callId": offer["toolCallId"], "result": {"temperature": 3}}
                await client.post(f"/api/runs/{offer['runId']}/tool-results", json=submitted)
                answer = await calling
            later = (await client.post("/api/v1/tools/later/execute", json={"arguments": {}})).json()
            record = (await client.get(f"/api/v1/calls/{later['call_id']}")).json()["call"]
    assert (offer["toolName"], offer["args"]) == ("fetchWeather", {"city": "Tokyo"})
    assert (answer.status_code, answer.json()["result"]) == (200, {"temperature": 3})
    assert (record["status"], record["expires_at"], record["expiresAt"]) == ("pending", None, None)


@requirement("SPACE-example-chart-returns")
def test_display_chart_gives_its_arguments_back_at_once(tmp_path: Path) -> None:
    write(tmp_path, DISPLAY_CHART)
    chart = {"type": "bar", "data": [1, 2, 3]}
    with running_gateway(tmp_path, args=("--config", "jackfield.json")) as gateway:
        answer = asyncio.run(execute(gateway, "displayChart", {"arguments": chart}))
    assert answer.json()["result"] == {"success": True, "args": chart}


@requirement(
    "SPACE-status-async-created",
    "SPACE-status-async-resolved",
    "SPACE-column-tool-call-id",
    "SPACE-column-agent-entity-id",
    "SPACE-column-run-id",
    "SPACE-column-tool-name",
    "SPACE-column-args",
    "SPACE-column-status",
    "SPACE-column-result",
    "SPACE-column-expires-at",
    "CON-status-resolved",
)
async def test_the_record_of_a_pending_call_has_what_the_seeds_table_has(tmp_path: Path) -> None:
    write(tmp_path, FETCH_EXTERNAL_DATA)
    question = {"query": "active projects"}
    with running_gateway(tmp_path, args=("--config", "jackfield.json")) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, headers=gateway.headers, timeout=30) as client:

            async def ask(agent: str) -> dict[str, Any]:
                body = {"arguments": question, "agent": agent}
                answer = await client.post("/api/v1/tools/fetchExternalData/execute", json=body)
                assert answer.status_code == 202
                found: dict[str, Any] = answer.json()
                return found

            made, other = await ask("ada"), await ask("ada")
            before = (await client.get(f"/api/v1/calls/{made['call_id']}")).json()["call"]
            inbox_before = (await client.get("/api/agents/ada/inbox")).json()["events"]
            path = f"/api/runs/{made['run_id']}/tool-results"
            accepted = await client.post(path, json={"callId": made["call_id"], "result": {"projects": 3}})
            after = (await client.get(f"/api/v1/calls/{made['call_id']}")).json()["call"]
            resolved = (await client.get("/api/v1/calls", params={"status": "resolved"})).json()["calls"]
            inbox = (await client.get("/api/agents/ada/inbox")).json()["events"]

    assert made["call_id"] != other["call_id"]
    assert (before["id"], before["run_id"]) == (made["call_id"], made["run_id"])
    assert (before["agent"], before["tool"], before["arguments"]) == ("ada", "fetchExternalData", question)
    assert (before["toolCallId"], before["runId"]) == (made["call_id"], made["run_id"])
    assert (before["agentEntityId"], before["toolName"], before["args"]) == ("ada", "fetchExternalData", question)
    assert before["expiresAt"] == before["expires_at"]
    assert before["expiresAt"] > before["created_at"]
    assert [call["id"] for call in resolved] == [made["call_id"]]
    assert (before["status"], before["result"]) == ("pending", None)
    assert accepted.status_code == 200
    assert (after["status"], after["result"]) == ("completed", {"projects": 3})
    assert inbox_before == []
    assert [event["eventId"] for event in inbox] == [f"tr:{made['call_id']}"]
    assert inbox[0]["data"] == {
        "toolCallId": made["call_id"],
        "toolName": "fetchExternalData",
        "originRunId": made["run_id"],
        "result": {"projects": 3},
    }


@requirement("SPACE-async-creates-pending")
async def test_an_async_call_is_on_record_before_its_answer_leaves_the_gateway(tmp_path: Path) -> None:
    """Killed the moment its answer is there: what was only promised would be gone."""
    write(tmp_path, FETCH_EXTERNAL_DATA)
    args = ("--config", "jackfield.json")
    with running_gateway(tmp_path, args=args) as gateway:
        answer = (await execute(gateway, "fetchExternalData", {"arguments": {"q": 1}, "agent": "ada"})).json()
        gateway.kill()
    assert answer["status"] == "pending"
    with running_gateway(tmp_path, args=args) as gateway:
        async with httpx2.AsyncClient(base_url=gateway.url, headers=gateway.headers, timeout=30) as client:
            record = (await client.get(f"/api/v1/calls/{answer['call_id']}")).json()["call"]
            assert (record["status"], record["tool"], record["args"]) == ("pending", "fetchExternalData", {"q": 1})
            submitted = {"callId": answer["call_id"], "result": 42}
            assert (await client.post(f"/api/runs/{answer['run_id']}/tool-results", json=submitted)).status_code == 200
            [event] = (await client.get("/api/agents/ada/inbox")).json()["events"]
            assert event["data"]["result"] == 42
