"""Changed lists and updated resources reach the clients that may see them, in every pairing of eras."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp.types as t
import pytest

from tests.mcp.library import Library, library
from tests.mcp.scene import Scene, mcp_scene
from tests.mcp.test_reading import config, listed
from tests.requirement import requirement
from tests.waiting import eventually_async

NARROW = '[auth.keys.narrow]\nkey = "narrow-key"\nscopes = ["call"]\ntools = ["other:*"]\n'
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
BACKS = ["", 'era = "handshake"']


@asynccontextmanager
async def followed(tmp_path: Path, back: str) -> AsyncIterator[tuple[Library, Scene]]:
    async with library() as shelf, mcp_scene(tmp_path, config=config(shelf, more=back) + NARROW) as scene:
        await listed(scene)
        yield shelf, scene


def heard_by(notes: list[Any]) -> Any:
    async def listen(message: object) -> None:
        notes.append(message)

    return listen


def updates(notes: list[Any]) -> list[str]:
    return [str(note.params.uri) for note in notes if isinstance(note, t.ResourceUpdatedNotification)]


@requirement("MCP2-subscriptions")
@pytest.mark.parametrize("back", BACKS)
async def test_a_session_hears_of_what_it_subscribed_to_until_it_ends_that(tmp_path: Path, back: str) -> None:
    notes: list[Any] = []
    async with (
        followed(tmp_path, back) as (shelf, scene),
        scene.client(mode="legacy", message_handler=heard_by(notes)) as client,
    ):
        await client.subscribe_resource("note://one")
        await shelf.update("note://two", "nobody follows this")
        await shelf.update("note://one", "changed")
        await eventually_async(lambda: updates(notes) == ["note://one"])
        read = (await client.read_resource("note://one")).contents[0]
        assert getattr(read, "text", None) == "changed"
        await client.unsubscribe_resource("note://one")
        source: Any = scene.gateway.source_registry.get("docs")
        await eventually_async(lambda: not source._session.upstream.subscriptions._listeners)
        await eventually_async(lambda: shelf.subscribed == [])


@pytest.mark.parametrize("back", BACKS)
async def test_a_subscription_of_2026_hears_of_its_resources_and_lists(tmp_path: Path, back: str) -> None:
    async with followed(tmp_path, back) as (shelf, scene), scene.client(mode="2026-07-28") as client:
        wanted = ["note://one", "note://missing/elsewhere"]
        async with client.listen(resource_subscriptions=wanted, resources_list_changed=True) as events:
            await shelf.update("note://one", "changed")
            event = await anext(aiter(events))
            assert getattr(event, "uri", None) == "note://one"


@requirement("MCP2-list-changed")
async def test_only_who_may_see_it_hears_of_a_change(tmp_path: Path) -> None:
    wide: list[Any] = []
    narrow: list[Any] = []
    async with (
        followed(tmp_path, "") as (shelf, scene),
        scene.client(mode="legacy", message_handler=heard_by(wide)),
        scene.client(mode="legacy", key="narrow-key", message_handler=heard_by(narrow)) as limited,
    ):
        assert (await limited.list_resources()).resources == []
        with pytest.raises(Exception, match="no resource"):
            await limited.subscribe_resource("note://one")
        await eventually_async(lambda: len(scene.gateway.catalog._list_followers) == 2)
        shelf.texts["note://three"] = "new"
        shelf.prompts = []
        await shelf.announce()
        names = (t.ResourceListChangedNotification, t.PromptListChangedNotification)
        await eventually_async(lambda: all(any(isinstance(note, kind) for note in wide) for kind in names))
        await asyncio.sleep(0)
        assert not [note for note in narrow if isinstance(note, names)]


async def test_a_subscription_outlives_the_connection_to_its_server(tmp_path: Path) -> None:
    notes: list[Any] = []
    async with (
        followed(tmp_path, 'era = "handshake"') as (shelf, scene),
        scene.client(mode="legacy", message_handler=heard_by(notes)) as client,
    ):
        await client.subscribe_resource("note://one")
        source: Any = scene.gateway.source_registry.get("docs")
        upstream = source._session.upstream
        upstream._drop(upstream._connection)
        await scene.gateway.source_registry.refresh("docs")
        await eventually_async(lambda: updates(notes) == ["note://one"])
        await eventually_async(lambda: shelf.subscribed == ["note://one", "note://one"])
        await shelf.update("note://one", "changed")
        await eventually_async(lambda: updates(notes) == ["note://one", "note://one"])


@pytest.mark.parametrize("back", BACKS)
async def test_clients_of_every_gateway_hear_it_once(tmp_path: Path, back: str) -> None:
    notes: list[Any] = []
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    async with (
        library() as shelf,
        mcp_scene(one, config=config(shelf, more=back)) as first,
        mcp_scene(other, config=config(shelf, more=back)) as second,
    ):
        await listed(first)
        await listed(second)
        async with (
            first.client(mode="legacy", message_handler=heard_by(notes)) as here,
            second.client(mode="2026-07-28") as there,
            there.listen(resource_subscriptions=["note://one"]) as events,
        ):
            await here.subscribe_resource("note://one")
            for text in ("changed", "changed again"):
                await shelf.update("note://one", text)
                event = await anext(aiter(events))
                assert getattr(event, "uri", None) == "note://one"
            await eventually_async(lambda: len(updates(notes)) == 2)
