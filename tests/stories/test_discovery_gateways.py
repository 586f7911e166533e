"""Gateways of gateways: each hop's policy holds, nothing goes in circles, and what a call brings along arrives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette

from jackfield.discovery import mount
from tests.requirement import requirement
from tests.sources.manifest.scene import TOOLS
from tests.stories.services import Served, execute, knows, listening, names, scenario, served, settled, tool_file
from tests.waiting import eventually_async

STEPS = '''
async def steps(ctx) -> str:
    """Tell how far it is."""
    ctx.progress(1, 2, "half way")
    return "there"
'''
SLOW = 'import asyncio\n\nasync def slow() -> str:\n    """Take long."""\n    await asyncio.sleep(30)\n    return ""\n'


async def test_each_hops_policy_is_applied(tmp_path: Path) -> None:
    """The middle gateway lets a key see one tool only; the last one asks a person before it passes that on."""
    first_config = tool_file(tmp_path / "first", "greet")
    tool_file(tmp_path / "first", "secret")
    narrow = '[auth.keys.narrow]\nkey = "narrow-key-3"\ntools = ["greet"]\n'
    asks = "[sources.middle.tools.greet]\nmetadata = { requires_approval = true }\n"
    async with (
        served(tmp_path / "first", first_config) as first,
        served(tmp_path / "middle", knows("first", first.url) + narrow) as middle,
        served(tmp_path / "last", knows("middle", middle.url, "narrow-key-3", more=asks)) as last,
    ):
        assert await names(middle.client) == ["greet", "secret"]
        assert await names(last.client) == ["greet"]
        asked = (await execute(last.client, "greet")).json()
        assert asked["status"] == "pending_approval"
        assert await calls_of(first) == []
        await last.client.post(f"/api/v1/calls/{asked['call_id']}/approve", json={})
        assert (await settled(last.client, asked["call_id"]))["result"] == "greet"
        assert [call["principal"] for call in await calls_of(middle)] == ["narrow"]


async def calls_of(at: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await at.client.get("/api/v1/calls")).json()["calls"]
    return found


async def test_gateways_that_know_each_other_do_not_offer_tools_in_circles(tmp_path: Path) -> None:
    """A ring of three: everybody has everybody's tools, once, however often they are read."""
    sockets = {name: listening() for name in ("one", "two", "three")}
    urls = {name: f"http://127.0.0.1:{bound.getsockname()[1]}" for name, bound in sockets.items()}
    ring = {"one": "two", "two": "three", "three": "one"}
    async with AsyncExitStack() as stack:
        gateways = {}
        for name, other in ring.items():
            config = tool_file(tmp_path / name, f"from_{name}") + knows(other, urls[other], more="timeout = 0.3\n")
            gateways[name] = await stack.enter_async_context(served(tmp_path / name, config, listener=sockets[name]))
        clients = [gateway.client for gateway in gateways.values()]
        everything = ["from_one", "from_three", "from_two"]
        await eventually_async(lambda: _all_list(clients, everything))
        for client in clients * 2:
            await client.post(f"{TOOLS}/refresh")
        assert [await names(client) for client in clients] == [everything] * 3
        for name, gateway in gateways.items():
            for wanted in everything:
                answer = (await execute(gateway.client, wanted)).json()
                assert answer["result"] == wanted, (name, wanted)


async def _all_list(clients: list[httpx2.AsyncClient], wanted: list[str]) -> bool:
    return all([await names(client) == wanted for client in clients])


async def test_a_call_that_comes_back_or_has_come_too_far_is_refused_in_words(tmp_path: Path) -> None:
    async with served(tmp_path / "here", tool_file(tmp_path / "here", "greet")) as here:
        cluster = here.gateway.cluster.id
        path = f"{TOOLS}/greet/execute"

        async def via(*houses: str) -> httpx2.Response:
            return await here.client.post(path, json={"arguments": {}}, headers={"jackfield-via": ", ".join(houses)})

        assert (await via("house_a", "house_b")).json()["result"] == "greet"
        back = await via("house_a", cluster, "house_b")
        assert (back.status_code, back.json()["error"]["code"]) == (409, "loop")
        assert "The call of 'greet' came back to this gateway" in back.json()["error"]["message"]
        far = await via(*(f"house_{number}" for number in range(9)))
        assert (far.status_code, far.json()["error"]["code"]) == (409, "loop")
        assert "has come through 9 gateways" in far.json()["error"]["message"]
        assert [(await via(odd)).status_code for odd in ("a;b", "a b", "x" * 65)] == [400, 400, 400]


async def test_the_time_that_is_left_travels_along(tmp_path: Path) -> None:
    """A call never outlives whoever asked for it, however long its tool may take."""
    config = tool_file(tmp_path / "first", "greet")
    (tmp_path / "first/tools/slow.py").write_text(SLOW)
    async with (
        served(tmp_path / "first", config) as first,
        served(tmp_path / "last", knows("first", first.url)) as last,
    ):
        headers = {"jackfield-timeout-ms": "900"}
        answer = await last.client.post(f"{TOOLS}/slow/execute", json={"arguments": {}}, headers=headers)
        assert answer.json()["error"] == {"code": "timeout", "message": "Tool timed out after 900ms"}
        [there] = await calls_of(first)
        over = await settled(first.client, there["id"])
        assert over["error"] == {"code": "timeout", "message": "Tool timed out after 900ms"}
        wrong = await last.client.post(f"{TOOLS}/greet/execute", json={}, headers={"jackfield-timeout-ms": "soon"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "jackfield-timeout-ms")


@requirement("DISC-cancel-at-peer")
@pytest.mark.parametrize("more", ["", "[sources.local.tools.slow]\nmetadata = { long_running = true }\n"])
async def test_a_call_that_is_cancelled_is_cancelled_at_the_gateway_that_runs_it(tmp_path: Path, more: str) -> None:
    (tmp_path / "first").mkdir()
    config = tool_file(tmp_path / "first", "greet") + more
    (tmp_path / "first/tools/slow.py").write_text(SLOW)
    async with (
        served(tmp_path / "first", config) as first,
        served(tmp_path / "last", knows("first", first.url)) as last,
    ):
        asking = asyncio.create_task(execute(last.client, "slow"))
        [there] = await eventually_async(lambda: running_at(first))
        [here] = await calls_of(last)
        assert (await last.client.post(f"/api/v1/calls/{here['id']}/cancel")).status_code == 200
        assert (await settled(first.client, there["id"]))["status"] == "cancelled"
        assert (await settled(last.client, here["id"]))["status"] == "cancelled"
        assert (await asking).status_code in (200, 202)


@requirement("MCP2-cancel-at-service")
async def test_a_call_that_is_cancelled_is_cancelled_at_a_service_that_can(tmp_path: Path) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Take long."""
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()
        return ""

    app = Starlette()
    mount(app, tools=[slow], name="slowly", key="service-key-1")
    async with (
        serve_app(app) as url,
        served(tmp_path / "here", knows("slowly", url, "service-key-1")) as here,
        asyncio.timeout(20),
    ):
        asking = asyncio.create_task(execute(here.client, "slow"))
        await started.wait()
        [call] = await eventually_async(lambda: running_at(here))
        unknown = httpx2.AsyncClient(base_url=url, headers={"x-api-key": "service-key-1"})
        async with unknown as client:
            assert (await client.post("/api/v1/calls/other/cancel")).status_code == 404
            assert (
                await client.post(f"/api/v1/calls/{call['id']}/cancel", headers={"x-api-key": "no"})
            ).status_code == 401
            assert (await client.get(f"/api/v1/calls/{call['id']}/cancel")).status_code == 405
        assert not stopped.is_set()
        assert (await here.client.post(f"/api/v1/calls/{call['id']}/cancel")).status_code == 200
        await stopped.wait()
        assert (await asking).json()["error"]["code"] == "cancelled"


@asynccontextmanager
async def serve_app(app: Starlette) -> AsyncIterator[str]:
    """An app on a free port; its url."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve())
    await eventually_async(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


@requirement("MCP2-peer-progress")
async def test_the_progress_of_a_call_at_another_gateway_is_told_here(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    config = tool_file(tmp_path / "first", "greet")
    (tmp_path / "first/tools/steps.py").write_text(STEPS)
    async with (
        served(tmp_path / "first", config) as first,
        served(tmp_path / "middle", knows("first", first.url)) as middle,
        served(tmp_path / "last", knows("middle", middle.url)) as last,
    ):
        accept = {"accept": "text/event-stream"}
        for gateway in (middle, last):
            told = await gateway.client.post(f"{TOOLS}/steps/execute", json={"arguments": {}}, headers=accept)
            assert "event: call.progress" in told.text, told.text
            assert '"progress":{"progress":1.0,"total":2.0,"message":"half way"' in told.text
            assert '"result":"there"' in told.text
        assert (await execute(last.client, "steps")).json()["result"] == "there"
        refused = await last.client.post(f"{TOOLS}/steps/execute", json={"arguments": {"x": 1}}, headers=accept)
        assert refused.status_code == 400


async def running_at(gateway: Served) -> list[dict[str, Any]]:
    return [call for call in await calls_of(gateway) if call["status"] == "running"]


async def test_a_call_is_cancelled_by_its_idempotency_key_too_but_only_by_who_made_it(tmp_path: Path) -> None:
    config = tool_file(tmp_path / "here", "greet") + '[auth.keys.other]\nkey = "another-key-9"\nscopes = ["call"]\n'
    (tmp_path / "here/tools/slow.py").write_text(SLOW)
    async with served(tmp_path / "here", config) as here:
        path = f"{TOOLS}/slow/execute"
        asking = asyncio.create_task(here.client.post(path, json={}, headers={"idempotency-key": "mine"}))
        [there] = await eventually_async(lambda: running_at(here))
        other = await here.client.post("/api/v1/calls/mine/cancel", headers={"x-api-key": "another-key-9"})
        assert other.status_code == 404
        assert (await here.client.post("/api/v1/calls/mine/cancel")).json()["call"]["id"] == there["id"]
        assert (await asking).json()["error"]["code"] == "cancelled"


async def test_a_call_that_waits_for_a_person_still_knows_which_gateways_it_came_through(tmp_path: Path) -> None:
    """What is passed on when its request is long over carries the whole way, so that it cannot go in circles."""
    asks = "[sources.first.tools.greet]\nmetadata = { requires_approval = true }\n"
    async with (
        served(tmp_path / "first", tool_file(tmp_path / "first", "greet")) as first,
        served(tmp_path / "last", knows("first", first.url, more=asks)) as last,
    ):
        headers = {"jackfield-via": f"house_a, {first.gateway.cluster.id}"}
        asked = await last.client.post(f"{TOOLS}/greet/execute", json={"arguments": {}}, headers=headers)
        call_id = asked.json()["call_id"]
        await last.client.post(f"/api/v1/calls/{call_id}/approve", json={})
        over = await settled(last.client, call_id)
        assert (over["status"], over["error"]["code"]) == ("failed", "loop")


@requirement("DISC-client-merges", "DISC-consumer-merge-preferences")
async def test_preferences_are_each_gateways_own(tmp_path: Path) -> None:
    async with (
        served(tmp_path / "first", tool_file(tmp_path / "first", "greet")) as first,
        served(tmp_path / "last", knows("first", first.url)) as last,
    ):
        off = {"scenario": "first", "tool_name": "greet", "enabled": False}
        assert (await last.client.post(f"{TOOLS}/config", json=off)).status_code == 200
        assert (await execute(last.client, "greet")).status_code == 403
        assert (await execute(first.client, "greet")).status_code == 200
        assert (await scenario(last.client, "first"))["available"] is True
