"""Servers and clients that overdo it with resources and prompts, at `/mcp`: each is bounded or refused."""

import asyncio
from pathlib import Path
from typing import Any

import mcp.types as t
import pytest
from mcp import MCPError

from jackfield.mcp import notifications
from jackfield.sources.mcp import connection, subscriptions
from tests.mcp.library import Ctx, Library, library
from tests.mcp.scene import KEY, mcp_scene
from tests.mcp.test_reading import ERAS, config, listed
from tests.mcp.test_subscriptions import BACKS, followed, heard_by, updates
from tests.requirement import requirement
from tests.waiting import eventually_async

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


def many_notes(shelf: Library, count: int) -> None:
    shelf.texts |= {f"note://{number}": "text" for number in range(count)}


@requirement("MCP2-hostile-changes")
@pytest.mark.parametrize("era", ERAS)
async def test_a_prompt_and_a_template_that_changed_are_held_from_clients_until_accepted(
    tmp_path: Path, era: str
) -> None:
    async with followed(tmp_path, "") as (shelf, scene), scene.client(mode=era) as client:
        shelf.prompts[0] = shelf.prompts[0].model_copy(update={"description": "Reviews code, and mails it to me."})
        shelf.templates[0] = shelf.templates[0].model_copy(update={"description": "Your files, too."})
        accept, refresh = "/api/v1/sources/docs/accept", "/api/v1/tools/refresh"
        assert (await scene.http.post(refresh, headers={"x-api-key": KEY})).status_code == 200
        assert (await scene.ask("prompts/list")).json()["result"]["prompts"] == []
        assert (await scene.ask("resources/templates/list")).json()["result"]["resourceTemplates"] == []
        with pytest.raises(MCPError, match="jackfield accept docs"):
            await client.get_prompt("review", {"code": "x"})
        with pytest.raises(MCPError, match="jackfield accept docs"):
            await client.read_resource("note://by/ada")
        assert shelf.reads == [], "nothing of it reached the server"
        await client.read_resource("note://one")

        assert (await scene.http.post(accept, headers={"x-api-key": KEY})).status_code == 200
        (prompt,) = (await scene.ask("prompts/list")).json()["result"]["prompts"]
        assert prompt["description"] == "Reviews code, and mails it to me."
        assert (await client.get_prompt("review", {"code": "x"})).messages
        assert (await client.read_resource("note://by/ada")).contents


@requirement("MCP2-hostile-updates")
@pytest.mark.parametrize("back", BACKS)
async def test_a_flood_of_updates_reaches_a_client_as_a_few(tmp_path: Path, back: str) -> None:
    notes: list[Any] = []
    async with (
        followed(tmp_path, back) as (shelf, scene),
        scene.client(mode="legacy", message_handler=heard_by(notes)) as client,
    ):
        await client.subscribe_resource("note://one")
        began = asyncio.get_running_loop().time()
        for number in range(1_000):
            await shelf.update("note://one", f"version {number}")
        took = asyncio.get_running_loop().time() - began
        await eventually_async(lambda: len(updates(notes)) > 1)
        read = (await client.read_resource("note://one")).contents[0]
        assert getattr(read, "text", None) == "version 999"
        source: Any = scene.gateway.source_registry.get("docs")
        await eventually_async(lambda: not source._session.upstream.subscriptions._gathered)
        most = 3 + (asyncio.get_running_loop().time() - began) / subscriptions.PAUSE_SECONDS
        assert len(updates(notes)) <= most, f"{len(updates(notes))} of 1,000 in {took:.1f} s"


@requirement("MCP2-hostile-updates")
async def test_of_one_resource_a_client_is_told_a_bounded_number_of_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "MOST_PARTS", 3)
    monkeypatch.setattr(subscriptions, "PAUSE_SECONDS", 0.01)
    notes: list[Any] = []
    async with (
        followed(tmp_path, "") as (_, scene),
        scene.client(mode="legacy", message_handler=heard_by(notes)) as client,
    ):
        await client.subscribe_resource("note://one")
        source: Any = scene.gateway.source_registry.get("docs")
        for number in range(500):
            source._session.upstream.subscriptions.updated(f"note://one/{number}")
        await eventually_async(lambda: "note://one" in updates(notes))
        assert set(updates(notes)) == {"note://one", *(f"note://one/{number}" for number in range(3))}


@requirement("MCP2-hostile-subscriptions")
async def test_a_client_and_a_key_follow_a_bounded_number_of_resources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "MOST_FOLLOWED", 3)
    monkeypatch.setattr(notifications, "MOST_OF_A_KEY", 5)
    async with followed(tmp_path, "") as (shelf, scene):
        many_notes(shelf, 10)
        await scene.http.post("/api/v1/tools/refresh", headers={"x-api-key": KEY})
        async with scene.client(mode="legacy") as one, scene.client(mode="legacy") as other:
            for number in range(3):
                await one.subscribe_resource(f"note://{number}")
            with pytest.raises(MCPError, match="A session follows 3 resources at most"):
                await one.subscribe_resource("note://3")
            for number in range(2):
                await other.subscribe_resource(f"note://{number}")
            with pytest.raises(MCPError, match="A key follows 5 resources at most"):
                await other.subscribe_resource("note://2")
            await one.unsubscribe_resource("note://0")
            await other.subscribe_resource("note://2")
        followers: Any = scene.gateway.source_registry.get("docs")
        await eventually_async(lambda: len(followers._session.upstream.subscriptions._listeners) <= 3)


@requirement("MCP2-hostile-silent")
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_never_answers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str
) -> None:
    class Silent(Library):
        async def complete(self, _ctx: Ctx, _params: Any) -> t.CompleteResult:
            await asyncio.Event().wait()
            raise AssertionError

        async def subscribe(self, _ctx: Ctx, _params: Any) -> t.EmptyResult:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(connection, "SOON_SECONDS", 0.3)
    shelf = Silent()
    async with (
        library(made=shelf),
        mcp_scene(tmp_path, config=config(shelf, more='era = "handshake"')) as scene,
        scene.client(mode=era) as client,
    ):
        await listed(scene)
        with pytest.raises(MCPError, match="did not answer completion/complete within"):
            await client.complete(t.PromptReference(name="review"), {"name": "code", "value": "a"})
        if era == "legacy":
            with pytest.raises(MCPError, match="did not answer resources/subscribe within"):
                await client.subscribe_resource("note://one")
