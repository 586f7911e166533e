"""Servers that requests bring along: whose they are, how many, and what becomes of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, ClassVar

import pytest

from jackfield.agents import mcp_servers as servers
from jackfield.agents.mcp_servers import McpServers
from jackfield.catalog.catalog import Catalog
from jackfield.errors import BadRequest, ConfigError
from jackfield.model.call import Outcome, done
from jackfield.model.principal import Principal
from jackfield.model.response_request import McpTool
from jackfield.model.tool import Tool, ToolKind
from jackfield.sources.base import Invocation, Listing
from jackfield.sources.source_registry import SourceRegistry

ALICE = Principal(name="alice", scopes=frozenset({"call"}))
BOB = Principal(name="bob", scopes=frozenset({"call"}))


class FarServer:
    """A source that is down until `is_up`."""

    kind: ClassVar[str] = "mcp"
    tool_kind: ClassVar[ToolKind] = ToolKind.MCP
    max_concurrency = None

    def __init__(self, name: str, place: "Place") -> None:
        self.name = name
        self._place = place

    async def open(self) -> None:
        if not self._place.is_up:
            raise ConnectionError("Nobody is there.")
        self._place.open.add(self)

    async def refresh(self) -> Listing:
        return Listing(tools=(Tool(source=self.name, name="look"),))

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name

    async def execute(self, invocation: Invocation) -> Outcome:
        return done(invocation.arguments)

    async def close(self) -> None:
        self._place.open.discard(self)
        self._place.closed.set()


class Place:
    """Where all servers of a test are."""

    def __init__(self) -> None:
        self.is_up = True
        self.open: set[FarServer] = set()
        self.closed = asyncio.Event()

    def make(self, name: str, tool: McpTool) -> Any:
        if tool.server_url == "bad":
            raise ConfigError("The url is invalid.")
        return FarServer(name, self)

    def make_for_agent(self, name: str, *_: object) -> Any:
        return FarServer(name, self)


class Scene:
    def __init__(self) -> None:
        self.place = Place()
        self.source_registry = SourceRegistry(on_listing=lambda: None)
        self.catalog = Catalog()
        self.servers = McpServers(
            sources=self.source_registry,
            catalog=self.catalog,
            make_for_request=self.place.make,
            make_for_agent=self.place.make_for_agent,
            find_agent=lambda _: None,
            on_listing=lambda: None,
        )

    async def reach_once(self, url: str, who: Principal = ALICE) -> servers.RequestServer:
        async with self.servers.of_request(named(url), principal=who) as reached:
            return reached


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.servers.close()
    assert not made.place.open


def named(url: str, **fields: Any) -> McpTool:
    return McpTool(server_label="far", server_url=url, **fields)


async def test_keys_and_credentials_do_not_share_a_connection(scene: Scene) -> None:
    async with AsyncExitStack() as stack:
        for who, fields in ((ALICE, {}), (ALICE, {}), (BOB, {}), (ALICE, {"authorization": "x"})):
            await stack.enter_async_context(scene.servers.of_request(named("https://far", **fields), principal=who))
        assert len(scene.place.open) == 3


async def test_a_server_that_was_down_is_tried_again_by_the_next_request(scene: Scene) -> None:
    scene.place.is_up = False
    for _ in range(4):  # by now the pauses between attempts have grown to seconds
        assert (await scene.reach_once("https://far")).error == "Nobody is there."
    scene.place.is_up = True
    async with asyncio.timeout(1):
        reached = await scene.reach_once("https://far")
    assert reached.error is None
    assert [entry.tool.name for entry in reached.entries] == ["look"]


async def test_servers_that_nobody_uses_give_way_the_longest_unused_first(scene: Scene) -> None:
    for number in range(servers.MOST_OF_A_KEY):
        await scene.reach_once(f"https://far/{number}")
    await scene.reach_once("https://far/0")
    first, second = (servers.request_source_name(named(f"https://far/{number}"), ALICE) for number in (0, 1))
    await scene.reach_once("https://far/one-more")
    names = {server.name for server in scene.place.open}
    assert first in names
    async with asyncio.timeout(5):
        await scene.place.closed.wait()
    assert second not in {server.name for server in scene.place.open}
    assert len(scene.place.open) == servers.MOST_OF_A_KEY


async def test_one_key_cannot_take_the_places_of_all_others(scene: Scene) -> None:
    async with AsyncExitStack() as stack:
        for number in range(servers.MOST_OF_A_KEY):
            tool = named(f"https://far/{number}")
            await stack.enter_async_context(scene.servers.of_request(tool, principal=ALICE))
        with pytest.raises(BadRequest, match="in use by requests of this key"):
            await scene.reach_once("https://far/one-more")
        assert (await scene.reach_once("https://far/one-more", BOB)).error is None


async def test_a_url_that_cannot_be_used_takes_no_place(scene: Scene) -> None:
    with pytest.raises(BadRequest, match="The url is invalid"):
        await scene.reach_once("bad")
    assert not scene.servers._connections


async def test_a_server_that_is_asked_for_while_it_is_given_up_is_there(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "REQUEST_IDLE_SECONDS", 0)
    for _ in range(20):
        async with asyncio.timeout(1), scene.servers.of_request(named("https://far"), principal=ALICE) as reached:
            assert reached.error is None
            await asyncio.sleep(0)
            _, listing = await scene.source_registry.lent(
                servers.request_source_name(named("https://far"), ALICE), within=1
            )
            assert listing.tools
