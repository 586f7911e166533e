import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from jackfield.errors import SourceUnavailable, ToolNotFound
from jackfield.model.call import Outcome, done
from jackfield.model.tool import Tool, ToolKind
from jackfield.sources import supervisor as keeping
from jackfield.sources.base import Invocation, Listing
from jackfield.sources.external import OthersSource, SpaceSource
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import SourceState
from tests.calls.harness import FunctionSource
from tests.requirement import requirement


class Listener:
    """Counts the times that a listing changed."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()

    def __call__(self) -> None:
        self.changed.set()

    async def wait(self) -> None:
        async with asyncio.timeout(5):
            await self.changed.wait()
        self.changed.clear()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
async def source_registry(listener: Listener) -> AsyncIterator[SourceRegistry]:
    made = SourceRegistry(on_listing=listener)
    yield made
    await made.close()


def a_source(name: str = "local") -> FunctionSource:
    source = FunctionSource(name)
    source.offer("hello", _hello)
    return source


async def _hello(_: Invocation) -> Outcome:
    return done("hello")


def an_invocation(source: FunctionSource) -> Invocation:
    tool = source._tools["hello"][0]
    return Invocation(
        call_id="call_1",
        run_id="run_1",
        tool=tool,
        arguments={},
        principal="ops",
        timeout_ms=1000,
        report=lambda _progress: None,
    )


def states(source_registry: SourceRegistry) -> dict[str, SourceState]:
    return {status.name: status.status for status in source_registry.statuses()}


async def test_a_source_comes_up_by_itself_and_lists_its_tools(source_registry: SourceRegistry) -> None:
    await source_registry.add(a_source())
    assert states(source_registry) == {"local": SourceState.STARTING}
    await source_registry.settled(within=5)
    assert states(source_registry) == {"local": SourceState.UP}
    assert [(name, [tool.name for tool in listing.tools]) for name, listing in source_registry.listings()] == [
        ("local", ["hello"])
    ]


@requirement("TOOL-kind-function", "TOOL-executor-kind")
async def test_every_tool_of_a_source_is_of_the_kind_that_the_source_executes(source_registry: SourceRegistry) -> None:
    declared = Tool(source="crm", name="ask")
    await source_registry.add(OthersSource("crm", (declared,)))
    await source_registry.add(SpaceSource("space", (Tool(source="space", name="confirm"),)))
    await source_registry.add(a_source())
    await source_registry.settled(within=5)
    kinds = {tool.name: tool.kind for _, listing in source_registry.listings() for tool in listing.tools}
    assert kinds == {"ask": ToolKind.FUNCTION, "confirm": ToolKind.FUNCTION, "hello": ToolKind.INTERNAL}


@requirement("TOOL-executor-can-execute", "TOOL-loop-finds-executor")
async def test_a_source_is_not_given_a_call_of_a_tool_that_it_does_not_have(source_registry: SourceRegistry) -> None:
    source = a_source()
    await source_registry.add(source)
    await source_registry.settled(within=5)
    invocation = an_invocation(source)
    gone = msgspec.structs.replace(invocation, tool=msgspec.structs.replace(invocation.tool, name="gone"))
    with pytest.raises(ToolNotFound, match="Source 'local' has no tool 'gone' any more"):
        await source_registry.execute("local", gone)
    assert await source_registry.execute("local", invocation) == done("hello")


async def test_a_source_that_fails_goes_down_alone_and_comes_back_by_itself(
    source_registry: SourceRegistry, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "FIRST_PAUSE", 0.01)
    bad, good = a_source("bad"), a_source("good")
    bad.fault = ConnectionError("no route to host")
    await source_registry.add(bad)
    await source_registry.add(good)
    await source_registry.settled(within=5)
    assert states(source_registry) == {"bad": SourceState.DOWN, "good": SourceState.UP}
    assert next(status.error for status in source_registry.statuses() if status.name == "bad") == "no route to host."
    with pytest.raises(SourceUnavailable, match="no route to host"):
        await source_registry.execute("bad", an_invocation(bad))
    assert await source_registry.execute("good", an_invocation(good)) == done("hello")
    bad.fault = None
    while states(source_registry)["bad"] is not SourceState.UP:
        await listener.wait()
    assert await source_registry.execute("bad", an_invocation(bad)) == done("hello")
    assert bad.closed >= 1


async def test_a_call_ends_the_pause_of_a_source_that_is_down_unless_it_was_tried_just_now(
    source_registry: SourceRegistry, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "FIRST_PAUSE", 600)
    source = a_source()
    source.fault = ConnectionError("no route to host")
    await source_registry.add(source)
    await source_registry.settled(within=5)
    source.fault = None
    with pytest.raises(SourceUnavailable):
        await source_registry.execute("local", an_invocation(source))
    await asyncio.sleep(0.05)
    assert states(source_registry) == {"local": SourceState.DOWN}

    monkeypatch.setattr(keeping, "NEEDED_PAUSE", 0)
    with pytest.raises(SourceUnavailable):
        await source_registry.execute("local", an_invocation(source))
    async with asyncio.timeout(5):
        while states(source_registry)["local"] is not SourceState.UP:
            await listener.wait()
    assert await source_registry.execute("local", an_invocation(source)) == done("hello")


async def test_what_a_source_listed_stays_listed_while_it_is_down(source_registry: SourceRegistry) -> None:
    source = a_source()
    await source_registry.add(source)
    await source_registry.settled(within=5)
    source.fault = TimeoutError()
    await source_registry.refresh("local")
    assert states(source_registry) == {"local": SourceState.DOWN}
    assert [tool.name for tool in source_registry.listings()[0][1].tools] == ["hello"]


async def test_a_silent_source_delays_nobody(source_registry: SourceRegistry) -> None:
    class Silent(FunctionSource):
        async def open(self) -> None:
            await asyncio.Event().wait()

    await source_registry.add(Silent("silent"))
    await source_registry.add(a_source("good"))
    await source_registry.settled(within=0.2)
    assert states(source_registry) == {"silent": SourceState.STARTING, "good": SourceState.UP}


async def test_a_source_that_says_it_changed_is_read_again(source_registry: SourceRegistry, listener: Listener) -> None:
    source = a_source()
    await source_registry.add(source)
    await source_registry.settled(within=5)
    await listener.wait()
    source.offer("bye", _hello)
    source_registry.request_refresh("local")
    await listener.wait()
    assert [tool.name for tool in source_registry.listings()[0][1].tools] == ["hello", "bye"]


async def test_a_source_added_under_a_known_name_takes_its_place(source_registry: SourceRegistry) -> None:
    first, second = a_source(), a_source()
    second.offer("more", _hello)
    await source_registry.add(first)
    await source_registry.settled(within=5)
    await source_registry.add(second)
    await source_registry.settled(within=5)
    assert (first.closed, second.closed) == (1, 0)
    assert [tool.name for tool in source_registry.listings()[0][1].tools] == ["hello", "more"]
    await source_registry.remove("local")
    assert source_registry.listings() == []
    assert second.closed == 1


async def test_a_source_of_another_name_is_not_there(source_registry: SourceRegistry) -> None:
    with pytest.raises(SourceUnavailable, match="is gone"):
        await source_registry.execute("nobody", an_invocation(a_source()))


async def test_whoever_waits_for_a_source_that_is_taken_away_is_let_go(source_registry: SourceRegistry) -> None:
    source = a_source()
    await source_registry.add(source)
    await source_registry.settled(within=5)
    reading = asyncio.Event()

    async def hang() -> Listing:
        reading.set()
        await asyncio.Event().wait()
        raise AssertionError

    source.refresh = hang  # type: ignore[method-assign]
    waiting = asyncio.create_task(source_registry.refresh())
    async with asyncio.timeout(5):
        await reading.wait()
        await source_registry.remove("local")
        await waiting
