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
from jackfield.sources.supervisor import SourceRegistry, SourceState
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
async def panel(listener: Listener) -> AsyncIterator[SourceRegistry]:
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


def states(panel: SourceRegistry) -> dict[str, SourceState]:
    return {status.name: status.status for status in panel.statuses()}


async def test_a_source_comes_up_by_itself_and_lists_its_tools(panel: SourceRegistry) -> None:
    await panel.add(a_source())
    assert states(panel) == {"local": SourceState.STARTING}
    await panel.settled(within=5)
    assert states(panel) == {"local": SourceState.UP}
    assert [(name, [tool.name for tool in listing.tools]) for name, listing in panel.listings()] == [
        ("local", ["hello"])
    ]


@requirement("TOOL-kind-function", "TOOL-executor-kind")
async def test_every_tool_of_a_source_is_of_the_kind_that_the_source_executes(panel: SourceRegistry) -> None:
    declared = Tool(source="crm", name="ask")
    await panel.add(OthersSource("crm", (declared,)))
    await panel.add(SpaceSource("space", (Tool(source="space", name="confirm"),)))
    await panel.add(a_source())
    await panel.settled(within=5)
    kinds = {tool.name: tool.kind for _, listing in panel.listings() for tool in listing.tools}
    assert kinds == {"ask": ToolKind.FUNCTION, "confirm": ToolKind.FUNCTION, "hello": ToolKind.INTERNAL}


@requirement("TOOL-executor-can-execute", "TOOL-loop-finds-executor")
async def test_a_source_is_not_given_a_call_of_a_tool_that_it_does_not_have(panel: SourceRegistry) -> None:
    source = a_source()
    await panel.add(source)
    await panel.settled(within=5)
    invocation = an_invocation(source)
    gone = msgspec.structs.replace(invocation, tool=msgspec.structs.replace(invocation.tool, name="gone"))
    with pytest.raises(ToolNotFound, match="Source 'local' has no tool 'gone' any more"):
        await panel.execute("local", gone)
    assert await panel.execute("local", invocation) == done("hello")


async def test_a_source_that_fails_goes_down_alone_and_comes_back_by_itself(
    panel: SourceRegistry, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "FIRST_PAUSE", 0.01)
    bad, good = a_source("bad"), a_source("good")
    bad.fault = ConnectionError("no route to host")
    await panel.add(bad)
    await panel.add(good)
    await panel.settled(within=5)
    assert states(panel) == {"bad": SourceState.DOWN, "good": SourceState.UP}
    assert next(status.error for status in panel.statuses() if status.name == "bad") == "no route to host."
    with pytest.raises(SourceUnavailable, match="no route to host"):
        await panel.execute("bad", an_invocation(bad))
    assert await panel.execute("good", an_invocation(good)) == done("hello")
    bad.fault = None
    while states(panel)["bad"] is not SourceState.UP:
        await listener.wait()
    assert await panel.execute("bad", an_invocation(bad)) == done("hello")
    assert bad.closed >= 1


async def test_a_call_ends_the_pause_of_a_source_that_is_down_unless_it_was_tried_just_now(
    panel: SourceRegistry, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "FIRST_PAUSE", 600)
    source = a_source()
    source.fault = ConnectionError("no route to host")
    await panel.add(source)
    await panel.settled(within=5)
    source.fault = None
    with pytest.raises(SourceUnavailable):
        await panel.execute("local", an_invocation(source))
    await asyncio.sleep(0.05)
    assert states(panel) == {"local": SourceState.DOWN}

    monkeypatch.setattr(keeping, "NEEDED_PAUSE", 0)
    with pytest.raises(SourceUnavailable):
        await panel.execute("local", an_invocation(source))
    async with asyncio.timeout(5):
        while states(panel)["local"] is not SourceState.UP:
            await listener.wait()
    assert await panel.execute("local", an_invocation(source)) == done("hello")


async def test_what_a_source_listed_stays_listed_while_it_is_down(panel: SourceRegistry) -> None:
    source = a_source()
    await panel.add(source)
    await panel.settled(within=5)
    source.fault = TimeoutError()
    await panel.refresh("local")
    assert states(panel) == {"local": SourceState.DOWN}
    assert [tool.name for tool in panel.listings()[0][1].tools] == ["hello"]


async def test_a_silent_source_delays_nobody(panel: SourceRegistry) -> None:
    class Silent(FunctionSource):
        async def open(self) -> None:
            await asyncio.Event().wait()

    await panel.add(Silent("silent"))
    await panel.add(a_source("good"))
    await panel.settled(within=0.2)
    assert states(panel) == {"silent": SourceState.STARTING, "good": SourceState.UP}


async def test_a_source_that_says_it_changed_is_read_again(panel: SourceRegistry, listener: Listener) -> None:
    source = a_source()
    await panel.add(source)
    await panel.settled(within=5)
    await listener.wait()
    source.offer("bye", _hello)
    panel.request_refresh("local")
    await listener.wait()
    assert [tool.name for tool in panel.listings()[0][1].tools] == ["hello", "bye"]


async def test_a_source_added_under_a_known_name_takes_its_place(panel: SourceRegistry) -> None:
    first, second = a_source(), a_source()
    second.offer("more", _hello)
    await panel.add(first)
    await panel.settled(within=5)
    await panel.add(second)
    await panel.settled(within=5)
    assert (first.closed, second.closed) == (1, 0)
    assert [tool.name for tool in panel.listings()[0][1].tools] == ["hello", "more"]
    await panel.remove("local")
    assert panel.listings() == []
    assert second.closed == 1


async def test_a_source_of_another_name_is_not_there(panel: SourceRegistry) -> None:
    with pytest.raises(SourceUnavailable, match="is gone"):
        await panel.execute("nobody", an_invocation(a_source()))


async def test_whoever_waits_for_a_source_that_is_taken_away_is_let_go(panel: SourceRegistry) -> None:
    source = a_source()
    await panel.add(source)
    await panel.settled(within=5)
    reading = asyncio.Event()

    async def hang() -> Listing:
        reading.set()
        await asyncio.Event().wait()
        raise AssertionError

    source.refresh = hang  # type: ignore[method-assign]
    waiting = asyncio.create_task(panel.refresh())
    async with asyncio.timeout(5):
        await reading.wait()
        await panel.remove("local")
        await waiting
