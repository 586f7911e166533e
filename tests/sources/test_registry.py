import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from jackfield.errors import NameTaken, ToolNotFound
from jackfield.model.call import Failed, Outcome, done
from jackfield.model.tool import Tool, ToolDefinition, ToolKind
from jackfield.sources.base import Invocation, Source
from jackfield.sources.registry import InternalTool, Registry, RegistrySource
from tests.requirement import requirement
from tests.sources.invocations import invocation_of

AGAIN = "It is tried again at the next refresh."
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


async def nothing() -> None:
    """Comes back at once."""


async def broken() -> None:
    raise RuntimeError("the index is gone")


async def hanging() -> None:
    await asyncio.Event().wait()


class Counter:
    """A small internal tool that writes down what happens to it."""

    def __init__(
        self,
        name: str,
        diary: list[str] | None = None,
        *,
        initialise: Callable[[], Awaitable[None]] = nothing,
        shutdown: Callable[[], Awaitable[None]] = nothing,
    ) -> None:
        self.name = name
        self.diary = [] if diary is None else diary
        self.on_initialise = initialise
        self._on_shutdown = shutdown

    def definition(self) -> Tool:
        return Tool(source="?", name=self.name, description=f"Does {self.name}.", input_schema=SCHEMA, type="counter")

    async def initialise(self) -> None:
        self.diary.append(f"initialise {self.name}")
        await self.on_initialise()

    async def execute(self, invocation: Invocation) -> Outcome:
        self.diary.append(f"execute {self.name}")
        return done(len(invocation.arguments["text"]))

    async def shutdown(self) -> None:
        self.diary.append(f"shutdown {self.name}")
        await self._on_shutdown()


def registry_of(*tools: InternalTool) -> Registry:
    registry = Registry()
    for tool in tools:
        registry.register(tool, owner="words")
    return registry


def source_of(*tools: InternalTool) -> RegistrySource:
    return RegistrySource("words", registry_of(*tools), initialise_seconds=0.05, shutdown_seconds=0.05)


def listed(name: str) -> Tool:
    return Tool(source="words", name=name, description=f"Does {name}.", input_schema=SCHEMA, type="counter")


@requirement("TOOL-registry-register", "TOOL-deliver-registry")
def test_a_name_that_is_taken_is_an_error_that_names_both_owners() -> None:
    registry = Registry()
    first = Counter("count")
    registry.register(first, owner="acme")

    with pytest.raises(NameTaken) as taken:
        registry.register(Counter("count"), owner="local")

    assert str(taken.value) == (
        "Tool 'count' is offered by both 'acme' and 'local'. Rename it in one of them, or register only one."
    )
    assert registry.get("count") is first
    assert registry.owner_of("count") == "acme"


@requirement("TOOL-registry-get")
def test_a_tool_is_found_by_its_name_and_an_unknown_name_is_a_clear_miss() -> None:
    tool = Counter("word_count")
    registry = registry_of(tool)

    assert registry.get("word_count") is tool
    with pytest.raises(ToolNotFound) as missed:
        registry.get("word_cuont")
    assert str(missed.value) == "There is no tool 'word_cuont' in this registry. Did you mean 'word_count'?"


@requirement("TOOL-registry-list", "TOOL-internal-definition")
def test_the_registry_lists_what_each_tool_says_of_itself_in_the_order_of_registration() -> None:
    assert registry_of(Counter("b"), Counter("a")).list() == [
        ToolDefinition(type="counter", name="b", description="Does b.", parameters=SCHEMA),
        ToolDefinition(type="counter", name="a", description="Does a.", parameters=SCHEMA),
    ]
    assert Registry().list() == []


@requirement("TOOL-internal-initialize", "TOOL-internal-definition")
async def test_a_tool_is_initialised_before_it_is_offered_and_called() -> None:
    diary: list[str] = []
    source: Source = source_of(Counter("a", diary))
    early = await source.execute(invocation_of(listed("a"), text="x"))
    assert early == Failed("source_unavailable", "Tool 'a' is not ready.")
    assert not source.can_execute(listed("a"))

    await source.open()

    assert (await source.refresh()).tools == (listed("a"),)
    assert source.can_execute(listed("a"))
    assert not source.can_execute(msgspec.structs.replace(listed("a"), source="other"))
    assert await source.execute(invocation_of(listed("a"), text="four")) == done(4)
    assert diary == ["initialise a", "execute a"]


@requirement("TOOL-internal-initialize-fails")
async def test_a_tool_that_cannot_be_initialised_is_a_fault_and_hurts_no_other() -> None:
    diary: list[str] = []
    source = source_of(
        Counter("bad", diary, initialise=broken), Counter("slow", diary, initialise=hanging), Counter("good", diary)
    )

    await asyncio.wait_for(source.open(), 5)
    listing = await source.refresh()

    assert listing.tools == (listed("good"),)
    assert listing.faults == (
        f"Tool 'bad' of 'words' could not be initialised: RuntimeError: the index is gone. {AGAIN}",
        f"Tool 'slow' of 'words' could not be initialised: it took longer than 0.05 s. {AGAIN}",
    )
    assert await source.execute(invocation_of(listed("good"), text="four")) == done(4)
    assert await source.execute(invocation_of(listed("bad"), text="")) == Failed(
        "source_unavailable", listing.faults[0]
    )
    assert not source.can_execute(listed("bad"))
    assert "execute bad" not in diary


@requirement("TOOL-internal-initialize-fails")
async def test_a_failed_tool_is_tried_again_at_the_next_refresh_and_then_offered() -> None:
    diary: list[str] = []
    tool = Counter("a", diary, initialise=broken)
    source = source_of(tool)
    await source.open()
    assert (await source.refresh()).tools == ()
    assert diary == ["initialise a"]

    tool.on_initialise = nothing
    listing = await source.refresh()

    assert (listing.tools, listing.faults) == ((listed("a"),), ())
    await source.refresh()
    assert diary == ["initialise a", "initialise a"]


async def test_tools_are_initialised_at_the_same_time() -> None:
    meeting = asyncio.Barrier(2)

    async def meet() -> None:
        await meeting.wait()

    source = RegistrySource("words", registry_of(Counter("a", initialise=meet), Counter("b", initialise=meet)))

    await asyncio.wait_for(source.open(), 5)

    assert (await source.refresh()).tools == (listed("a"), listed("b"))


async def test_a_tool_registered_later_is_offered_after_the_next_refresh() -> None:
    registry = registry_of(Counter("a"))
    source = RegistrySource("words", registry)
    await source.open()
    await source.refresh()

    registry.register(Counter("b"), owner="words")

    assert (await source.refresh()).tools == (listed("a"), listed("b"))


@requirement("TOOL-internal-shutdown")
async def test_closing_shuts_down_what_was_initialised_the_last_first(caplog: pytest.LogCaptureFixture) -> None:
    diary: list[str] = []
    source = source_of(
        Counter("a", diary),
        Counter("bad", diary, initialise=broken),
        Counter("b", diary, shutdown=broken),
        Counter("c", diary, shutdown=hanging),
        Counter("d", diary),
    )
    await source.open()
    diary.clear()
    caplog.clear()

    await asyncio.wait_for(source.close(), 5)

    assert diary == ["shutdown d", "shutdown c", "shutdown b", "shutdown a"]
    assert [record.getMessage() for record in caplog.records] == [
        "The tool c of the source words did not shut down cleanly",
        "The tool b of the source words did not shut down cleanly",
    ]
    assert not source.can_execute(listed("a"))


@requirement("TOOL-internal-shutdown")
async def test_closing_after_an_open_that_was_cancelled_shuts_down_what_had_come_up() -> None:
    diary: list[str] = []
    b_began = asyncio.Event()

    async def begin_and_hang() -> None:
        b_began.set()
        await hanging()

    source = RegistrySource("words", registry_of(Counter("a", diary), Counter("b", diary, initialise=begin_and_hang)))
    opening = asyncio.create_task(source.open())
    await asyncio.wait_for(b_began.wait(), 5)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening

    await source.close()

    assert diary == ["initialise a", "initialise b", "shutdown a"]


async def test_a_tool_that_raises_fails_its_call_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    source = source_of(Counter("a"))
    await source.open()

    assert await source.execute(invocation_of(listed("a"))) == Failed("tool_error", "KeyError: 'text'")
    assert [record.getMessage() for record in caplog.records] == [
        "The tool a of the source words failed in call call_1"
    ]


async def test_a_tool_that_returns_no_outcome_fails_its_call_with_the_cure() -> None:
    class Plain(Counter):
        async def execute(self, invocation: Invocation) -> Outcome:
            return {"words": len(invocation.run_id)}  # type: ignore[return-value]  # what a newcomer would write

    source = source_of(Plain("a"))
    await source.open()

    assert await source.execute(invocation_of(listed("a"))) == Failed(
        "tool_error", "Tool 'a' returned a dict, not an outcome. Its execute() must return done(value)."
    )


async def test_a_definition_that_breaks_later_is_a_fault_of_that_tool_alone() -> None:
    tool = Counter("a")
    source = source_of(tool, Counter("b"))
    await source.open()
    del tool.name

    listing = await source.refresh()

    assert listing.tools == (listed("b"),)
    assert listing.faults == (
        "Tool 'a' gave no definition: AttributeError: 'Counter' object has no attribute 'name'. Mend its definition().",
    )


async def test_an_empty_registry_is_a_source_without_tools() -> None:
    source: Source = RegistrySource("builtin", Registry())
    await source.open()

    listing = await source.refresh()
    await source.close()

    assert (source.name, source.tool_kind) == ("builtin", ToolKind.INTERNAL)
    assert (listing.tools, listing.faults) == ((), ())
