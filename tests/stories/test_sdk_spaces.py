"""`client.spaces`: everything about spaces from a Python program, and a stream that looks after itself."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from jackfield.sdk import Client, Conflict, Forbidden, NotFound, SpaceEvent, SpaceNotFound, SyncClient
from tests.harness.api import ADMIN_KEY, key_of
from tests.harness.process import start_gateway
from tests.requirement import requirement
from tests.stories.spaces import Lobby, open_lobby
from tests.waiting import TIMEOUT

pytestmark = pytest.mark.timeout(120)
WITHIN = TIMEOUT


@pytest.fixture(scope="module")
def lobby(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lobby]:
    with open_lobby(tmp_path_factory.mktemp("sdk_spaces")) as opened:
        yield opened


def client_of(lobby: Lobby, key: str = "admin") -> Client:
    return Client(lobby.api.gateway.url, key_of(key))


async def test_spaces_members_and_messages(lobby: Lobby) -> None:
    async with client_of(lobby) as client:
        space = await client.spaces.create("Trip", id="trip", metadata={"to": "Tokyo"})
        assert (space.id, space.name, space.metadata, space.last_seq) == ("trip", "Trip", {"to": "Tokyo"}, 0)
        assert [each.id for each in await client.spaces.list()] == ["lobby", "trip"]
        assert (await client.spaces.update("trip", name="Journey")).name == "Journey"
        assert (await client.spaces.get("trip")).name == "Journey"
        with pytest.raises(Conflict):
            await client.spaces.create(id="trip")
        member = await client.spaces.join("trip", "husam", name="Husam")
        assert (member.entity_id, member.kind, member.name) == ("husam", "person", "Husam")
        message = await client.spaces.send("trip", "When?", entity="husam", metadata={"a": 1})
        assert (message.sender_name, message.content, message.metadata) == ("Husam", "When?", {"a": 1})
        await client.spaces.send("trip", "Soon", id="mine")
        await client.spaces.send("trip", "Soon", id="mine")
        page = await client.spaces.messages("trip")
        assert [each.content for each in page.messages] == ["When?", "Soon"]
        assert page.last_seq == page.messages[-1].seq
        assert (await client.spaces.messages("trip", after=message.seq)).messages == page.messages[1:]
        assert (await client.spaces.messages("trip", limit=1, before=page.last_seq)).messages == page.messages[:1]
        await client.spaces.leave("trip", "husam")
        assert [each.entity_id for each in await client.spaces.members("trip")] == ["admin"]
        read = await client.spaces.mark_read("trip")
        assert read.entity_id == "admin"
        assert [each.last_seen_seq for each in await client.spaces.members("trip")] == [read.last_seen_seq]
        with pytest.raises(NotFound):
            await client.spaces.leave("trip", "husam")
        await client.spaces.delete("trip")
        with pytest.raises(SpaceNotFound):
            await client.spaces.get("trip")
    async with client_of(lobby, "caller") as client:
        with pytest.raises(Forbidden):
            await client.spaces.send("lobby", "no", entity="husam")


async def test_a_member_called_like_a_step_up_is_not_the_space(lobby: Lobby) -> None:
    async with client_of(lobby) as client:
        await client.spaces.create(id="stays")
        for name in ("..", "."):
            await client.spaces.join("stays", name)
            await client.spaces.leave("stays", name)
        assert await client.spaces.members("stays") == ()
        await client.spaces.delete("stays")


@requirement("CON-spaces-stream-resume")
async def test_a_stream_goes_on_by_itself_when_the_gateway_was_away(tmp_path: Path) -> None:
    with open_lobby(tmp_path) as lobby:
        await _see_it_go_on(lobby, tmp_path)


async def _see_it_go_on(lobby: Lobby, folder: Path) -> None:
    async with client_of(lobby) as client, aclosing(client.spaces.follow("lobby")) as events:
        assert (await anext(events)).type == "connected"
        # Broken before the first durable event: what comes meanwhile is not lost.
        lobby.api.gateway.kill()
        again = start_gateway(folder, env={"JACKFIELD_ADMIN_KEY": ADMIN_KEY})
        try:
            for number in range(3):
                await client.spaces.send("lobby", f"message {number}")
            heard: list[SpaceEvent] = []
            async with asyncio.timeout(WITHIN):
                while [each.type for each in heard].count("space.message") < 3:
                    heard.append(await anext(events))
            seqs = [each.seq for each in heard if each.seq is not None]
            assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
            said = [each.message.content for each in heard if each.message is not None]
            assert said == ["message 0", "message 1", "message 2"]
        finally:
            again.stop()


async def test_a_stream_begins_after_a_number_and_ends_with_its_space(lobby: Lobby) -> None:
    async with client_of(lobby) as client:
        await client.spaces.create(id="brief")
        first = await client.spaces.send("brief", "one")
        await client.spaces.send("brief", "two")
        said: list[str] = []

        async def follow() -> None:
            async for event in client.spaces.follow("brief", after=first.seq):
                if event.message is not None:
                    said.append(event.message.content)
                    await client.spaces.delete("brief")

        with pytest.raises(SpaceNotFound):
            await asyncio.wait_for(follow(), WITHIN)
        assert said == ["two"]


async def test_a_visible_call_is_a_message_that_knows_its_call(lobby: Lobby) -> None:
    async with client_of(lobby) as client, aclosing(client.spaces.follow("lobby")) as events:
        await anext(events)
        await client.tools.call("displayChart", {"n": 1}, agent="ada", space_id="lobby")
        seen = [await anext(events)]
        while seen[-1].type != "tool.done":
            seen.append(await anext(events))
        assert seen[0].type == "tool.started"
        assert (seen[0].tool_name, seen[0].agent_entity_id) == ("displayChart", "ada")
        assert seen[-1].result == {"success": True, "args": {"n": 1}}
        [message] = (await client.spaces.messages("lobby")).messages
        assert message.call is not None
        assert (message.call["toolName"], message.call["status"]) == ("displayChart", "complete")


def test_the_blocking_client_does_the_same(lobby: Lobby) -> None:
    with SyncClient(lobby.api.gateway.url, ADMIN_KEY) as client:
        assert client.spaces.create("Trip", id="trip").id == "trip"
        assert client.spaces.update("trip", description="far").description == "far"
        assert client.spaces.get("trip").description == "far"
        assert client.spaces.join("trip", "husam").entity_id == "husam"
        assert [each.entity_id for each in client.spaces.members("trip")] == ["husam"]
        assert client.spaces.mark_read("trip", entity="husam").entity_id == "husam"
        client.spaces.leave("trip", "husam")
        first = client.spaces.send("trip", "one")
        client.spaces.send("trip", "two")
        assert [each.content for each in client.spaces.messages("trip").messages] == ["one", "two"]
        events = client.spaces.follow("trip", after=first.seq)
        assert [next(events).type for _ in range(2)] == ["connected", "space.message"]
        events.close()
        client.spaces.delete("trip")
        assert [each.id for each in client.spaces.list()] == ["lobby"]
