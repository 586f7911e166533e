"""Sources that are added, replaced and removed while others go on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jackfield.errors import ConfigError, SourceUnavailable
from jackfield.model.call import Outcome, done
from jackfield.settings.tools import SourceSettings, parse_source
from jackfield.sources import supervisor as supervising
from jackfield.sources.base import Invocation, Updated
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import SourceState
from tests.calls.harness import FunctionSource
from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement
from tests.waiting import eventually_async


@pytest.fixture
async def registry() -> AsyncIterator[SourceRegistry]:
    made = SourceRegistry(on_listing=lambda: None)
    yield made
    await made.close()


def invocation_of(source: FunctionSource, name: str) -> Invocation:
    return Invocation(
        call_id="call_1",
        run_id="run_1",
        tool=source._tools[name][0],
        arguments={},
        principal="ops",
        timeout_ms=1000,
        report=lambda _progress: None,
    )


def source_that_says(word: str) -> FunctionSource:
    async def say(_: Invocation) -> Outcome:
        return done(word)

    source = FunctionSource("local")
    source.offer("say", say)
    return source


@requirement("OPS-sources-live")
async def test_running_calls_end_at_the_source_that_was_replaced_which_is_closed_then(registry: SourceRegistry) -> None:
    may_end = asyncio.Event()

    async def slow(_: Invocation) -> Outcome:
        await may_end.wait()
        return done("old")

    old, new, other = FunctionSource("local"), source_that_says("new"), FunctionSource("other")
    old.offer("say", slow)
    await registry.add(other)
    await registry.add(old)
    await registry.settled(within=5)
    invocation = invocation_of(old, "say")
    running = asyncio.create_task(registry.execute("local", invocation))
    await eventually_async(lambda: registry.statuses()[1].calls == 1)

    await registry.replace(new)
    assert await registry.execute("local", invocation) == done("new"), "calls wait for the new one to come up"
    assert old.closed == 0
    may_end.set()
    assert await running == done("old")
    await eventually_async(lambda: old.closed == 1)
    assert (other.opened, other.closed, new.closed) == (1, 0, 0)
    assert [name for name, _ in registry.listings()] == ["other", "local"], "its place is the same"


async def test_a_replaced_source_shows_its_list_until_the_new_one_has_read_its_own(registry: SourceRegistry) -> None:
    await registry.add(source_that_says("old"))
    await registry.settled(within=5)
    new = source_that_says("new")
    new.fault = ConnectionError("no route to host")
    await registry.replace(new)
    assert [tool.name for tool in registry.listings()[0][1].tools] == ["say"]
    await registry.settled(within=5)
    with pytest.raises(SourceUnavailable, match="no route to host"):
        await registry.execute("local", invocation_of(new, "say"))
    assert [tool.name for tool in registry.listings()[0][1].tools] == ["say"]


async def test_calls_that_do_not_end_are_given_up_with_their_source(
    registry: SourceRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "DRAIN_SECONDS", 0.01)

    async def endless(_: Invocation) -> Outcome:
        await asyncio.Event().wait()
        return done(None)

    source = FunctionSource("local")
    source.offer("say", endless)
    await registry.add(source)
    await registry.settled(within=5)
    running = asyncio.create_task(registry.execute("local", invocation_of(source, "say")))
    await eventually_async(lambda: registry.statuses()[0].calls == 1)
    await registry.remove("local")
    await eventually_async(lambda: source.closed == 1)
    running.cancel()
    with pytest.raises(SourceUnavailable, match="is gone"):
        await registry.execute("local", invocation_of(source, "say"))


async def test_a_registry_that_closes_closes_what_is_on_its_way_out(registry: SourceRegistry) -> None:
    async def endless(_: Invocation) -> Outcome:
        await asyncio.Event().wait()
        return done(None)

    source = FunctionSource("local")
    source.offer("say", endless)
    await registry.add(source)
    await registry.settled(within=5)
    running = asyncio.create_task(registry.execute("local", invocation_of(source, "say")))
    await eventually_async(lambda: registry.statuses()[0].calls == 1)
    await registry.remove("local")
    assert source.closed == 0
    await registry.close()
    assert source.closed == 1
    running.cancel()


class Followed(FunctionSource):
    """One whose resources can be followed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.followers: list[tuple[str, Updated]] = []

    async def subscribe(self, uri: str, updated: Updated, *, principal: str) -> None:  # noqa: ARG002 - its interface
        self.followers.append((uri, updated))

    def unsubscribe(self, uri: str, updated: Updated, *, principal: str) -> None:  # noqa: ARG002 - its interface
        self.followers.remove((uri, updated))


async def test_who_follows_a_resource_follows_it_at_the_source_that_takes_the_place(registry: SourceRegistry) -> None:
    old, new = Followed("local"), Followed("local")
    await registry.add(old)
    await registry.settled(within=5)
    told: list[str] = []
    end = await registry.subscribe("local", "note://1", told.append, principal="ops")
    await registry.replace(new)
    await eventually_async(lambda: told == ["note://1"])  # it may have changed meanwhile
    assert len(new.followers) == 1
    end()
    assert new.followers == []


async def test_a_source_that_came_back_counts_that(registry: SourceRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "FIRST_PAUSE", 0.01)
    source = source_that_says("hello")
    await registry.add(source)
    await registry.settled(within=5)
    assert registry.statuses()[0].reconnects == 0
    source.fault = ConnectionError("gone")
    await registry.refresh("local")
    source.fault = None
    await eventually_async(lambda: registry.statuses()[0].status is SourceState.UP)
    assert registry.statuses()[0].reconnects == 1
    assert registry.statuses()[0].listed_at is not None


FILE = 'def hello() -> str:\n    """Greet."""\n    return "{word}"\n'


@requirement("OPS-sources-live")
async def test_sources_come_change_and_go_and_the_catalog_with_them(tmp_path: Path) -> None:
    for folder, word in (("a", "one"), ("b", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "greeting.py").write_text(FILE.format(word=word))
    config = '[sources.a]\nkind = "files"\npath = "a/*.py"\n'
    async with in_process_gateway(tmp_path, config) as (gateway, client):

        async def tools() -> dict[str, str]:
            listed = (await client.get("/api/v1/tools")).json()["tools"]
            return {tool["name"]: tool["description"] for tool in listed if "hello" in tool["name"]}

        async def are_there(**expected: str) -> bool:
            return await tools() == expected

        def b_with(**options: Any) -> SourceSettings:
            return parse_source("b", {"kind": "files", "path": "b/*.py", **options}, None, folder=tmp_path)

        live, untouched = gateway.live_sources, gateway.source_registry.get("a")
        await live.add(b_with(prefix="b_"))
        await eventually_async(lambda: are_there(hello="Greet.", b_hello="Greet."))
        await live.replace(b_with(prefix="other_"))
        await eventually_async(lambda: are_there(hello="Greet.", other_hello="Greet."))
        described = b_with(prefix="other_", tools={"hello": {"description": "Say hello."}})
        await live.replace(described)
        await eventually_async(lambda: are_there(hello="Greet.", other_hello="Say hello."))
        with pytest.raises(ConfigError):
            await live.replace(b_with(nonsense="x"))
        assert gateway.source_book.get("b") == described, "a change that cannot be made changes nothing"
        assert gateway.source_registry.get("a") is untouched
        await live.remove("a")
        await live.remove("b")
        await eventually_async(are_there)
        await live.add(b_with())
        await eventually_async(lambda: are_there(hello="Greet."))  # the name is free
