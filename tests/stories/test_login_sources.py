"""A source whose server hides what it offers: how it is shown before a login, after it, and after a restart."""

import asyncio
from pathlib import Path
from typing import Any

from tests.connections.world import Place, config_of, gateway_at, upstream
from tests.requirement import requirement
from tests.waiting import eventually_async


async def source_of(place: Place) -> dict[str, Any]:
    answer = await place.client.get("/api/v1/sources/far", headers=place.headers("admin"))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["source"]
    return found


async def has_status(place: Place, status: str) -> bool:
    return bool((await source_of(place))["status"] == status)


async def offers(place: Place, *tools: str) -> bool:
    """The catalog takes a list a moment after its source has read it."""
    return bool((await source_of(place))["tools"] == list(tools))


@requirement("ID-upstream-hidden-list")
async def test_a_source_waits_for_a_login_shows_its_last_list_after_a_restart_and_takes_calls(tmp_path: Path) -> None:
    async with upstream() as server:
        async with gateway_at(tmp_path, server) as place:
            await eventually_async(lambda: has_status(place, "login_needed"))
            shown = await source_of(place)
            assert shown["tools"] == []
            assert "jackfield login far" in shown["error"]
            ready = await place.client.get("/readyz", headers=place.headers("ann"))
            assert (ready.status_code, ready.json()["status"]) == (200, "ready")
            [far] = [one for one in ready.json()["sources"] if one["name"] == "far"]
            assert far["status"] == "login_needed"
            await place.log_in("ann")
            await eventually_async(lambda: has_status(place, "up"))
            await eventually_async(lambda: offers(place, "whoami"))
            ended = await place.client.delete("/api/v1/connections/far", headers=place.headers("ann"))
            assert ended.status_code == 204, ended.text
            await eventually_async(lambda: has_status(place, "login_needed"))
            await eventually_async(lambda: offers(place, "whoami"))

        async with gateway_at(tmp_path, server) as place:
            await eventually_async(lambda: has_status(place, "login_needed"))
            await eventually_async(lambda: offers(place, "whoami"))
            asked = await place.call("bob")
            assert asked.status_code == 202, asked.text
            assert server.calls == {}
            await place.log_in("bob")
            record = await place.result("bob", asked.json()["call_id"])
            assert record["result"] == "bob"
            assert server.calls == {"bob": 1}
            await eventually_async(lambda: has_status(place, "up"))


@requirement("ID-upstream-own-token")
async def test_a_call_of_anybody_waits_for_the_shared_login(tmp_path: Path) -> None:
    async with upstream() as server, gateway_at(tmp_path, server, config=config_of(server, auth="shared")) as place:
        assert (await place.log_in("admin")).status_code == 200
        await place.listed()
        await place.client.delete("/api/v1/connections/far", headers=place.headers("admin"))
        await eventually_async(lambda: has_status(place, "login_needed"))
        asked = await place.call("ann")
        assert asked.status_code == 202, asked.text
        assert (await place.log_in("admin")).status_code == 200
        assert (await place.result("ann", asked.json()["call_id"]))["result"] == "admin"
        assert server.calls == {"admin": 1}


@requirement("ID-upstream-connection")
async def test_a_tool_over_http_waits_for_the_login_of_its_connection_and_then_has_its_callers_token(
    tmp_path: Path,
) -> None:
    async with upstream() as server:
        tool = f"""
[[tools]]
name = "probe"
description = "Asks the server."
executionType = "gateway"
inputSchema = {{ type = "object" }}
execution = {{ url = "{server.url}/other", connection = "far" }}
"""
        async with gateway_at(tmp_path, server, config=config_of(server, more=tool)) as place:
            body = {"arguments": {"method": "probe"}}
            path = "/api/v1/tools/probe/execute"
            asked = await place.client.post(path, json=body, headers=place.headers("ann"))
            assert asked.status_code == 202, asked.text
            await place.log_in("bob")
            await place.log_in("ann")
            record = await place.result("ann", asked.json()["call_id"])
            assert "404" in record["error"]["message"]
            assert [seen.person for seen in server.mcp.requests if seen.method == "probe"] == ["ann"]


@requirement("ID-upstream-own-token")
async def test_a_tool_that_calls_another_has_its_callers_token_there(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "nested.py").write_text("async def ask_who(ctx) -> str:\n    return await ctx.call_tool('whoami')\n")
    more = '[sources.local]\nkind = "files"\npath = "tools/*.py"\n'
    async with upstream() as server, gateway_at(tmp_path, server, config=config_of(server, more=more)) as place:
        await place.log_in("ann")
        await place.log_in("bob")
        await place.listed()
        answers = await asyncio.gather(*(place.call(person, "ask_who") for _ in range(5) for person in ("ann", "bob")))
        assert [answer.json()["result"] for answer in answers] == ["ann", "bob"] * 5
