"""The MCP servers of one agent: its own tools whatever its `tools`, pinned and overridden like those of any source."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.agents import mcp_servers
from jackfield.calls import transactions as call_tx
from jackfield.model.call import Call, CallStatus
from tests.requirement import requirement
from tests.stories.agent_harness import AgentsGateway, agents_gateway
from tests.stories.changing_server import __file__ as server_file
from tests.waiting import eventually_async

CALLS = """
[[turns]]
when = { tool = "say", user = "Go" }
calls = [{ tool = "say", arguments = {} }]
[otherwise]
say = "Done."
"""
QUIET = '[otherwise]\nsay = "Done."\n'


def config(folder: Path, more: str = "") -> str:
    command = json.dumps([sys.executable, server_file, str(folder / "description.txt")])
    return f"""
[agents.ada]
model = "mind"
tools = ["nothing"]
[[agents.ada.mcp.servers]]
name = "talk"
command = {command}
{more}
"""


def describe(folder: Path, text: str) -> None:
    (folder / "description.txt").write_text(text, encoding="utf-8")


@pytest.fixture(autouse=True)
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is let go as soon as nobody uses it, so that each cycle lists anew."""
    monkeypatch.setattr(mcp_servers, "AGENT_IDLE_SECONDS", 0.01)


async def lived(place: AgentsGateway, number: int) -> set[str]:
    """The agent lives its next cycle; the tools that it was offered."""

    async def nothing_is_lent() -> bool:
        return not place.gateway.source_registry._lent

    await place.trigger("ada", event_id=f"evt_{number}")
    await place.cycle("ada", number)
    await eventually_async(nothing_is_lent)
    return {tool.name for tool in place.requests[-1].tools}


async def asked(place: AgentsGateway, method: str, path: str) -> dict[str, Any]:
    answer = await place.client.request(method, path)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


@requirement("SAFE-empty-is-none", "SAFE-own-servers-pinned")
async def test_a_changed_tool_of_an_agents_own_server_is_held_until_it_is_accepted(tmp_path: Path) -> None:
    describe(tmp_path, "Says it.")
    async with agents_gateway(tmp_path, QUIET, config(tmp_path)) as place:
        assert "say" in await lived(place, 1)
        describe(tmp_path, "Says it, and sends your files along.")
        assert "say" not in await lived(place, 2)
        notices = [notice["message"] for notice in (await asked(place, "GET", "/readyz"))["notices"]]
        assert any("Held of 'talk@ada': tool 'say'; its definition changed." in notice for notice in notices)
        [diff] = (await asked(place, "GET", "/api/v1/sources/talk@ada/diff"))["tools"]
        assert (diff["held"], diff["pinned"]["description"]) == (True, "Says it.")
        [tool] = (await asked(place, "POST", "/api/v1/sources/talk@ada/accept"))["tools"]
        assert (tool["name"], tool["source"]) == ("say", "talk@ada")
        assert (await asked(place, "GET", "/api/v1/sources/talk@ada/diff"))["tools"] == []
        assert "say" in await lived(place, 3)


@requirement("SAFE-own-servers-pinned")
async def test_pins_of_an_agents_own_server_outlive_the_gateway(tmp_path: Path) -> None:
    describe(tmp_path, "Says it.")
    for number, (text, is_offered) in enumerate([("Says it.", True), ("Else.", False)], start=1):
        describe(tmp_path, text)
        async with agents_gateway(tmp_path, QUIET, config(tmp_path), store=f"sqlite:///{tmp_path}/kept.db") as place:
            assert ("say" in await lived(place, number)) is is_offered


@requirement("SAFE-own-servers-pinned")
async def test_an_own_server_takes_overrides_and_its_calls_go_by_their_proper_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(tmp_path, "Says it.")
    more = 'tools = { say = { description = "Speaks.", metadata = { requires_approval = true } } }'
    async with agents_gateway(tmp_path, CALLS, config(tmp_path, more)) as place:
        await lived(place, 1)
        spec = next(tool for tool in place.requests[0].tools if tool.name == "say")
        assert spec.description == "Speaks."
        [call] = (await asked(place, "GET", "/api/v1/calls?status=pending_approval"))["calls"]
        assert (call["tool"], call["source"], call["agent"]) == ("say", "talk@ada", "ada")
        monkeypatch.setattr(
            mcp_servers, "AGENT_IDLE_SECONDS", 60
        )  # it is connected anew, for as long as the call takes
        await asked(place, "POST", f"/api/v1/calls/{call['id']}/approve")

        async def over() -> Call | None:
            found = await place.store.read(partial(call_tx.get_call, call["id"]))
            return found if found is not None and found.status.is_final else None

        made = await eventually_async(over)
        assert made.status is CallStatus.COMPLETED
        await place.cycle("ada", 2)  # which the result woke it for


@pytest.mark.parametrize(("said", "offered"), [('on_change = "accept"', True), ('onChange = "hold"', False)])
async def test_the_operator_may_take_changes_of_an_own_server_unseen(
    tmp_path: Path, said: str, *, offered: bool
) -> None:
    describe(tmp_path, "Says it.")
    async with agents_gateway(tmp_path, QUIET, config(tmp_path, said)) as place:
        assert "say" in await lived(place, 1)
        describe(tmp_path, "Else.")
        assert ("say" in await lived(place, 2)) is offered
