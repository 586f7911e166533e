"""What a key prefers of its tools, over HTTP: on or off, asked or not, everywhere or in a chat, each on its own."""

from collections.abc import AsyncIterator, Generator
from itertools import product
from typing import Any

import httpx2
import pytest

from tests.harness.api import Api, error_of
from tests.requirement import requirement
from tests.stories.pending import PendingClient, pending_api, pending_client

ADD = {"scenario": "local", "tool_name": "add"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with pending_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture
async def at(api: Api) -> AsyncIterator[PendingClient]:
    async with pending_client(api) as opened:
        yield opened
        for key, tool, chat in product(("caller", "boss", "ada"), ("add", "guarded", "asleep"), ("", "c1", "c2")):
            reset = {"scenario": "local", "tool_name": tool, "chat_id": chat, "key": key}
            assert (await opened.ask("DELETE", "/api/v1/tools/config", params=reset)).status_code == 200


async def enable(
    at: PendingClient, tool: str, *, on: bool, chat: str | None = None, key: str = "caller"
) -> httpx2.Response:
    body = {"scenario": "local", "tool_name": tool, "enabled": on, "chat_id": chat}
    return await at.ask("POST", "/api/v1/tools/config", key=key, json=body)


async def override(
    at: PendingClient, tool: str, how: str, *, chat: str | None = None, key: str = "admin", whose: str | None = "caller"
) -> httpx2.Response:
    body = {"scenario": "local", "tool_name": tool, "approval_override": how, "chat_id": chat}
    return await at.ask("POST", "/api/v1/tools/config/approval", key=key, json=body | ({"key": whose} if whose else {}))


async def stands(at: PendingClient, tool: str, *, chat: str = "", key: str = "caller") -> dict[str, Any]:
    """The tool in the effective set of the key, without its definition."""
    answer = await at.ask("GET", "/api/v1/tools/set", key=key, params={"chat_id": chat} if chat else {})
    assert answer.status_code == 200
    [found] = [one for one in answer.json()["tools"] if one["tool"]["name"] == tool]
    return {name: value for name, value in found.items() if name != "tool"}


def standing(
    *, on: bool = True, source: str = "", asks: bool = False, asks_by: str = "", how: str = ""
) -> dict[str, Any]:
    return {
        "scenario": "local",
        "enabled": on,
        "source": source,
        "requires_approval": asks,
        "approval_source": asks_by,
        "approval_override": how,
    }


async def test_the_set_has_every_tool_its_source_and_its_metadata_as_they_are(at: PendingClient) -> None:
    answer = await at.ask("GET", "/api/v1/tools/set", key="caller")
    body = answer.json()
    assert list(body) == ["scenarios", "tools", "categories", "generated_at"]
    manifest = (await at.ask("GET", "/api/v1/tools", key="caller")).json()
    assert [one["tool"] for one in body["tools"]] == manifest["tools"]
    assert body["categories"] == manifest["categories"]
    assert {one["name"] for one in body["scenarios"]} == {tool["source"] for tool in manifest["tools"]}
    assert list(body["scenarios"][0]) == ["name", "version", "description", "base_url"]
    assert await stands(at, "add") == standing()
    assert await stands(at, "guarded") == standing(asks=True)
    assert await stands(at, "asleep") == standing(on=False)


async def test_a_switched_off_tool_is_403_and_works_again_when_switched_on(at: PendingClient) -> None:
    answer = await enable(at, "add", on=False)
    assert answer.status_code == 200
    assert (answer.json()["success"], answer.json()["tool"]["enabled"]) == (True, False)
    refused = await at.execute("add", {"a": 1})
    assert (refused.status_code, error_of(refused)["code"]) == (403, "disabled")
    assert (await at.execute("add", {"a": 1}, key="rival")).status_code == 200
    await enable(at, "add", on=True)
    assert (await at.execute("add", {"a": 1})).status_code == 200


async def test_a_tool_that_is_off_by_default_can_be_switched_on(at: PendingClient) -> None:
    assert (await at.execute("asleep")).status_code == 403
    await enable(at, "asleep", on=True)
    assert (await at.execute("asleep")).json()["result"] == "awake"


@pytest.mark.parametrize(("everywhere", "in_chat"), list(product((None, True, False), (None, True, False))), ids=str)
async def test_chat_goes_before_everywhere_and_everywhere_before_the_metadata(
    at: PendingClient, *, everywhere: bool | None, in_chat: bool | None
) -> None:
    if everywhere is not None:
        await enable(at, "add", on=everywhere)
    if in_chat is not None:
        await enable(at, "add", on=in_chat, chat="c1")
    there = in_chat if in_chat is not None else everywhere
    source = "chat" if in_chat is not None else "global" if everywhere is not None else ""
    assert await stands(at, "add", chat="c1") == standing(on=there is not False, source=source)
    elsewhere = standing(on=everywhere is not False, source="" if everywhere is None else "global")
    assert await stands(at, "add", chat="c2") == elsewhere
    assert await stands(at, "add") == elsewhere
    assert (await at.execute("add", {"a": 1}, chat_id="c1")).status_code == (403 if there is False else 200)
    assert (await at.execute("add", {"a": 1}, chat_id="c2")).status_code == (403 if everywhere is False else 200)


@pytest.mark.parametrize(
    ("tool", "everywhere", "in_chat"),
    [(tool, *pair) for tool in ("add", "guarded") for pair in product(("", "require", "skip"), repeat=2)],
)
async def test_approval_follows_the_same_order(at: PendingClient, tool: str, everywhere: str, in_chat: str) -> None:
    assert (await override(at, tool, everywhere)).status_code == 200
    assert (await override(at, tool, in_chat, chat="c1")).status_code == 200
    how = in_chat or everywhere
    asks = how == "require" if how else tool == "guarded"
    by = "chat" if in_chat else "global" if everywhere else ""
    assert await stands(at, tool, chat="c1") == standing(asks=asks, asks_by=by, how=how)
    arguments = {"a": 1} if tool == "add" else {"amount": 1}
    called = await at.execute(tool, arguments, chat_id="c1")
    assert called.json()["status"] == ("pending_approval" if asks else "completed")
    elsewhere = everywhere == "require" if everywhere else tool == "guarded"
    assert (await stands(at, tool))["requires_approval"] is elsewhere


async def test_switching_leaves_the_override_alone_and_the_other_way_round(at: PendingClient) -> None:
    await override(at, "add", "require")
    await enable(at, "add", on=False)
    await enable(at, "add", on=True)
    assert await stands(at, "add") == standing(source="global", asks=True, asks_by="global", how="require")
    await override(at, "asleep", "require")
    assert await stands(at, "asleep") == standing(on=False, asks=True, asks_by="global", how="require")
    await override(at, "add", "")
    assert await stands(at, "add") == standing(source="global")


async def test_a_caller_cannot_excuse_itself_from_approval(at: PendingClient) -> None:
    for whose in (None, "caller"):
        refused = await override(at, "guarded", "skip", key="caller", whose=whose)
        assert (refused.status_code, error_of(refused)["code"]) == (403, "forbidden")
    await override(at, "add", "require")
    reset = await at.ask("DELETE", "/api/v1/tools/config", key="caller", params=ADD)
    assert reset.status_code == 200
    assert await stands(at, "add") == standing(asks=True, asks_by="global", how="require")
    assert (await at.execute("add", {"a": 1})).json()["status"] == "pending_approval"


async def test_a_key_that_answers_sets_its_own_override(at: PendingClient) -> None:
    assert (await override(at, "guarded", "skip", key="boss", whose=None)).status_code == 200
    assert (await at.execute("guarded", {"amount": 2}, key="boss")).json()["result"] == 2
    assert (await at.execute("guarded", {"amount": 2}, key="caller")).json()["status"] == "pending_approval"


async def test_a_reset_forgets_both(at: PendingClient) -> None:
    await enable(at, "add", on=False, key="boss")
    await override(at, "add", "require", key="boss", whose=None)
    answer = await at.ask("DELETE", "/api/v1/tools/config", key="boss", params=ADD)
    assert (answer.status_code, answer.json()["tool"]["enabled"]) == (200, True)
    assert await stands(at, "add", key="boss") == standing()
    again = await at.ask("DELETE", "/api/v1/tools/config", key="boss", params=ADD)
    assert again.status_code == 200


async def test_an_administrator_acts_for_another_key_and_nobody_else_does(at: PendingClient) -> None:
    await enable(at, "add", on=False)
    seen = await at.ask("GET", "/api/v1/tools/set", params={"key": "caller"})
    assert [one["enabled"] for one in seen.json()["tools"] if one["tool"]["name"] == "add"] == [False]
    own = await at.ask("GET", "/api/v1/tools/set")
    assert [one["enabled"] for one in own.json()["tools"] if one["tool"]["name"] == "add"] == [True]
    assert (await at.ask("GET", "/api/v1/tools/set", key="rival", params={"key": "caller"})).status_code == 403
    body = {**ADD, "enabled": True, "key": "caller"}
    assert (await at.ask("POST", "/api/v1/tools/config", key="rival", json=body)).status_code == 403
    unknown = await at.ask("POST", "/api/v1/tools/config", json=body | {"key": "nobody"})
    assert (unknown.status_code, error_of(unknown)["param"]) == (404, "key")


async def switch(at: PendingClient, *, on: bool, by: str = "admin", **more: Any) -> httpx2.Response:
    return await at.ask("POST", "/api/v1/tools/config", key=by, json={**ADD, "enabled": on} | more)


@requirement("SAFE-admins-preferences")
async def test_a_key_cannot_undo_what_an_administrator_switched(at: PendingClient) -> None:
    await switch(at, on=False, key="boss")
    assert (await enable(at, "add", on=True, key="boss")).json()["tool"]["enabled"] is False
    await enable(at, "add", on=True, chat="c1", key="boss")
    assert (await at.execute("add", {"a": 1}, key="boss", chat_id="c1")).status_code == 403
    reset = await at.ask("DELETE", "/api/v1/tools/config", key="boss", params=ADD)
    assert reset.json()["tool"]["enabled"] is False
    await override(at, "add", "require", whose="boss")
    assert (await override(at, "add", "skip", key="boss", whose=None)).json()["tool"]["requires_approval"] is True
    await at.ask("DELETE", "/api/v1/tools/config", params={**ADD, "key": "boss"})
    assert await stands(at, "add", key="boss") == standing()


@requirement("SAFE-admins-preferences")
async def test_what_an_administrator_says_for_everybody_holds_for_every_key(at: PendingClient) -> None:
    await enable(at, "add", on=True)
    assert (await switch(at, on=False, scope="all")).status_code == 200
    try:
        for key in ("caller", "rival", "admin"):
            refused = await at.execute("add", {"a": 1}, key=key)
            assert (refused.status_code, error_of(refused)["code"]) == (403, "disabled")
        await switch(at, on=True, key="rival")
        assert (await at.execute("add", {"a": 1}, key="rival")).status_code == 200
        for wrong in ({"key": "caller"}, {"chat_id": "c1"}):
            assert (await switch(at, on=True, scope="all", **wrong)).status_code == 400
        assert (await switch(at, on=True, by="boss", scope="all")).status_code == 403
    finally:
        for reset in ({"scope": "all"}, {"key": "rival"}):
            assert (await at.ask("DELETE", "/api/v1/tools/config", params={**ADD, **reset})).status_code == 200
    assert (await at.execute("add", {"a": 1})).status_code == 200


@requirement("SAFE-admins-preferences")
async def test_an_override_for_a_chat_counts_for_the_key_that_has_it_and_nobody_who_states_the_id(
    at: PendingClient,
) -> None:
    assert (await override(at, "guarded", "skip", chat="c1", key="boss", whose=None)).status_code == 200
    asked = {"amount": 1}
    assert (await at.execute("guarded", asked, key="boss", chat_id="c1")).json()["status"] == "completed"
    for key in ("caller", "rival", "admin"):
        called = await at.execute("guarded", asked, key=key, chat_id="c1")
        assert called.json()["status"] == "pending_approval"


@pytest.mark.parametrize(
    ("wrong", "status", "param"),
    [
        ({"scenario": "nowhere"}, 404, "scenario"),
        ({"tool_name": "nothing"}, 404, "tool_name"),
        ({"scenario": "pending"}, 404, "tool_name"),
        ({"enabled": "yes"}, 400, "enabled"),
        ({"chat": "c1"}, 400, "chat"),
        ({"chat_id": "a\u0000b"}, 400, "chat_id"),
    ],
)
async def test_a_preference_of_what_does_not_exist_is_refused(
    at: PendingClient, wrong: dict[str, Any], status: int, param: str
) -> None:
    answer = await at.ask("POST", "/api/v1/tools/config", key="caller", json={**ADD, "enabled": False} | wrong)
    assert (answer.status_code, error_of(answer)["param"]) == (status, param)
    if "enabled" not in wrong:
        approval = {**ADD, "approval_override": "skip"} | wrong
        assert (await at.ask("POST", "/api/v1/tools/config/approval", json=approval)).status_code == status
    assert await stands(at, "add") == standing()


async def test_a_tool_that_the_key_may_not_see_has_no_preference(at: PendingClient) -> None:
    body = {"scenario": "local", "tool_name": "boom", "enabled": False}
    assert (await at.ask("POST", "/api/v1/tools/config", key="limited", json=body)).status_code == 404
    names = {one["tool"]["name"] for one in (await at.ask("GET", "/api/v1/tools/set", key="limited")).json()["tools"]}
    assert names == {"add", "echo"}
    assert (await at.ask("GET", "/api/v1/tools/set", key="answerer")).status_code == 403


async def test_preferences_outlive_the_gateway(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("restart")
    with pending_api(folder) as api:
        async with pending_client(api) as at:
            await enable(at, "add", on=False)
            await override(at, "echo", "require")
    with pending_api(folder) as api:
        async with pending_client(api) as at:
            assert (await at.execute("add", {"a": 1})).status_code == 403
            assert (await at.execute("echo")).json()["status"] == "pending_approval"


async def test_scenarios_say_how_each_source_is(at: PendingClient) -> None:
    answer = await at.ask("GET", "/api/v1/tools/scenarios", key="reader")
    assert answer.status_code == 200
    found = {one["scenario"]: one for one in answer.json()}
    assert list(found["local"]) == ["scenario", "available", "last_checked", "tool_count", "error"]
    assert (found["local"]["available"], found["local"]["error"]) == (True, None)
    assert found["local"]["tool_count"] == 10
    assert found["local"]["last_checked"].endswith("Z")
    assert "builtin" not in found


async def test_a_refresh_reads_every_source_anew(api: Api, at: PendingClient) -> None:
    before = {one["scenario"]: one for one in (await at.ask("GET", "/api/v1/tools/scenarios")).json()}
    answer = await at.ask("POST", "/api/v1/tools/refresh", key="caller")
    tools = len((await at.ask("GET", "/api/v1/tools", key="caller")).json()["tools"])
    assert answer.status_code == 200
    assert answer.json() == {"success": True, "scenarios_count": len(before), "tools_count": tools}
    after = {one["scenario"]: one for one in (await at.ask("GET", "/api/v1/tools/scenarios")).json()}
    assert all(after[name]["last_checked"] > before[name]["last_checked"] for name in before)
    assert (await at.ask("POST", "/api/v1/tools/refresh", key="answerer")).status_code == 403
