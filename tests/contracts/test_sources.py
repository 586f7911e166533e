"""What every source must hold, whatever its tools live in. A new kind of source is one more `Case` here."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec import Struct, field

from jackfield.catalog.catalog import Catalog
from jackfield.identity.keys import ADMIN
from jackfield.model.call import Done, Failed, Outcome, done
from jackfield.model.tool import Category, ExecutionType, HttpExecution, Tool, ToolKind
from jackfield.outgoing import Outgoing
from jackfield.sources.base import Invocation, Listing, Source
from jackfield.sources.external import DeclaredSource, InternalSource, OthersSource, SpaceSource
from jackfield.sources.http import HttpSource
from jackfield.sources.registry import InternalTool, Registry, RegistrySource
from jackfield.sources.source_registry import SourceRegistry
from tests.requirement import requirement
from tests.sources.invocations import invocation_of
from tests.sources.manifest import scene as manifests
from tests.sources.mcp.scene import plain, scene
from tests.sources.openapi.scene import document, json_body, operation, service
from tests.sources.toolbox import BOUND, Toolbox
from tests.sources.upstream import Received, Upstream, json_reply, never
from tests.waiting import eventually_async

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
EXTERNAL = Tool(source="elsewhere", name="echo", input_schema=TEXT)


class Case(Struct, frozen=True, kw_only=True):
    """One source with a tool that works (`tool`) and, where its kind can do that, the tools `fail` and `hang`."""

    source: Source
    kind: str
    tool_kind: ToolKind = ToolKind.INTERNAL
    tools: frozenset[str]
    tool: str = "echo"
    """The tool that is called."""
    arguments: dict[str, Any] = field(default_factory=lambda: {"text": "hello"})
    result: Any
    """What `tool` returns for `arguments`."""
    hanging: Callable[[], Awaitable[object]] | None = None
    """Comes back when `hang` runs."""
    stopped: Callable[[], Awaitable[object]] | None = None
    """Comes back when what `hang` did has ended."""


Maker = Callable[[Path], AbstractAsyncContextManager[Case]]

FILE = '''
import asyncio
from pathlib import Path

HERE = Path(__file__).parent


def echo(text: str) -> str:
    """Say it again."""
    return text


def fail() -> None:
    """Never work."""
    raise ValueError("no luck")


async def hang() -> None:
    """Never end."""
    (HERE / "hanging").touch()
    try:
        await asyncio.Event().wait()
    finally:
        (HERE / "stopped").touch()
'''


@asynccontextmanager
async def files(folder: Path) -> AsyncIterator[Case]:
    toolbox = Toolbox(folder)
    toolbox.write("a.py", FILE)

    def appears(name: str) -> Callable[[], Awaitable[object]]:
        async def wait() -> None:
            await eventually_async((folder / "tools" / name).exists)

        return wait

    yield Case(
        source=toolbox.source,
        kind="files",
        tools=frozenset({"echo", "fail", "hang"}),
        result="hello",
        hanging=appears("hanging"),
        stopped=appears("stopped"),
    )


@asynccontextmanager
async def http(_: Path) -> AsyncIterator[Case]:
    def echo(request: Received) -> bytes:
        return json_reply(request.json)

    async with Upstream() as upstream, Outgoing() as outgoing:
        upstream.answers |= {"/echo": echo, "/fail": json_reply({"error": "no luck"}, 500), "/hang": never}
        tools = tuple(
            Tool(
                source="http",
                name=name,
                input_schema=TEXT if name == "echo" else NOTHING,
                execution_type=ExecutionType.GATEWAY,
                execution=HttpExecution(url=f"{upstream.url}/{name}"),
            )
            for name in ("echo", "fail", "hang")
        )
        yield Case(
            source=HttpSource(tools, outgoing),
            kind="http",
            tools=frozenset({"echo", "fail", "hang"}),
            result={"text": "hello"},
            hanging=upstream.arrived.wait,
            stopped=upstream.drained,
        )


@asynccontextmanager
async def openapi(folder: Path) -> AsyncIterator[Case]:
    def echo(request: Received) -> bytes:
        return json_reply(request.json)

    paths = {f"/{name}": {"post": operation(name)} for name in ("fail", "hang")}
    paths["/echo"] = {"post": operation("echo", requestBody=json_body(TEXT))}
    async with service(folder, fields=False) as far:
        far.publish(document(paths))
        upstream = far.upstream
        upstream.answers |= {"/echo": echo, "/fail": json_reply({"message": "no luck"}, 500), "/hang": never}

        async def hangs() -> None:
            await eventually_async(lambda: "/hang" in upstream.targets)

        yield Case(
            source=far.source,
            kind="openapi",
            tools=frozenset({"echo", "fail", "hang"}),
            result={"text": "hello"},
            hanging=hangs,
            stopped=upstream.drained,
        )


@asynccontextmanager
async def manifest(folder: Path) -> AsyncIterator[Case]:
    def echo(request: Received) -> bytes:
        return json_reply({"success": True, "status": "completed", "result": request.json})

    async with manifests.scene(folder, follow=False) as far:
        upstream, at = far.upstream, manifests.TOOLS
        tools = [
            manifests.tool("echo"),
            manifests.tool("fail", parameters=NOTHING),
            manifests.tool("hang", parameters=NOTHING),
        ]
        upstream.answers |= {
            at: manifests.published(manifests.manifest(*tools)),
            f"{at}/echo/execute": echo,
            f"{at}/fail/execute": json_reply({"success": False, "status": "failed", "error": "no luck"}),
            f"{at}/hang/execute": never,
        }

        async def hangs() -> None:
            await eventually_async(lambda: f"{at}/hang/execute" in upstream.targets)

        yield Case(
            source=far.source,
            kind="manifest",
            tools=frozenset({"echo", "fail", "hang"}),
            result={"arguments": {"text": "hello"}},
            hanging=hangs,
            stopped=partial(upstream.hung_up, f"{at}/hang/execute"),
        )


@asynccontextmanager
async def internal(_: Path) -> AsyncIterator[Case]:
    echo = Tool(source="internal", name="echo", input_schema=TEXT, execution_type=ExecutionType.INTERNAL)
    yield Case(
        source=InternalSource((echo,)),
        kind="internal",
        tools=frozenset({"echo"}),
        result={"success": True, "args": {"text": "hello"}},
    )


class Hosted:
    """An internal tool of a few words."""

    def __init__(self, name: str, schema: dict[str, Any], act: Callable[[Invocation], Awaitable[Outcome]]) -> None:
        self._tool = Tool(source="", name=name, input_schema=schema)
        self._act = act

    def definition(self) -> Tool:
        return self._tool

    async def initialise(self) -> None:
        """Nothing to prepare."""

    async def execute(self, invocation: Invocation) -> Outcome:
        return await self._act(invocation)

    async def shutdown(self) -> None:
        """Nothing to give back."""


def registry_of(*tools: InternalTool) -> Registry:
    registry = Registry()
    for tool in tools:
        registry.register(tool, owner="words")
    return registry


@asynccontextmanager
async def registry(_: Path) -> AsyncIterator[Case]:
    began, ended = asyncio.Event(), asyncio.Event()

    async def echo(invocation: Invocation) -> Outcome:
        return done(invocation.arguments["text"])

    async def fail(_: Invocation) -> Outcome:
        raise ValueError("no luck")

    async def hang(_: Invocation) -> Outcome:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return done(None)

    hosted = registry_of(Hosted("echo", TEXT, echo), Hosted("fail", NOTHING, fail), Hosted("hang", NOTHING, hang))
    yield Case(
        source=RegistrySource("words", hosted),
        kind="registry",
        tools=frozenset({"echo", "fail", "hang"}),
        result="hello",
        hanging=began.wait,
        stopped=ended.wait,
    )


@asynccontextmanager
async def mcp(folder: Path) -> AsyncIterator[Case]:
    async with scene(folder, command=plain("good"), allowed_tools=["echo", "fail", "hang"]) as far:
        yield Case(
            source=far.source,
            kind="mcp",
            tool_kind=ToolKind.MCP,
            tools=frozenset({"echo", "fail", "hang"}),
            result="hello",
            hanging=partial(eventually_async, (folder / "hanging").exists),
            stopped=partial(eventually_async, (folder / "cancelled").exists),
        )


ALL: list[Maker] = [files, http, internal, manifest, mcp, openapi, registry]
THAT_RUN_SOMETHING: list[Maker] = [files, http, manifest, mcp, openapi, registry]


@pytest.fixture(params=ALL, ids=lambda maker: maker.__name__)
async def case(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    """One source of each kind, not opened yet."""
    async with request.param(tmp_path) as made:
        yield made
        await made.source.close()


@pytest.fixture(params=THAT_RUN_SOMETHING, ids=lambda maker: maker.__name__)
async def busy(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Case]:
    """One source of each kind whose tools run something, open and listed."""
    async with request.param(tmp_path) as made:
        await made.source.open()
        await made.source.refresh()
        yield made
        await made.source.close()


async def opened(case: Case) -> dict[str, Tool]:
    """Open the source and read its tools."""
    async with asyncio.timeout(BOUND):
        await case.source.open()
        return {tool.name: tool for tool in (await case.source.refresh()).tools}


def a_panel(catalog: Catalog) -> SourceRegistry:
    """A panel whose listings are the catalog's."""

    def take() -> None:
        catalog.update(source_registry.listings())

    source_registry = SourceRegistry(on_listing=take)
    return source_registry


async def execute(case: Case, tool: Tool, **arguments: Any) -> Outcome:
    async with asyncio.timeout(BOUND):
        outcome = await case.source.execute(invocation_of(tool, **arguments))
    assert isinstance(outcome, Outcome)
    return outcome


@requirement("TOOL-executor-kind", "TOOL-deliver-executor")
async def test_a_source_says_which_kind_of_tools_it_runs_and_lists_only_such(case: Case) -> None:
    assert case.source.kind == case.kind
    assert case.source.tool_kind is case.tool_kind
    assert {tool.kind for tool in (await opened(case)).values()} == {case.source.tool_kind}


@pytest.fixture(params=[OthersSource, SpaceSource, DeclaredSource])
def answered_elsewhere(request: pytest.FixtureRequest) -> OthersSource:
    """Tools that a tool server, or a person in a space, answers."""
    kind = ExecutionType.SPACE if request.param is SpaceSource else ExecutionType.EXTERNAL
    echo = Tool(source="theirs", name="echo", kind=ToolKind.FUNCTION, input_schema=TEXT, execution_type=kind)
    made: OthersSource = request.param("theirs", (echo,))
    return made


@requirement("TOOL-executor-kind", "TOOL-executor-can-execute", "TOOL-executor-execute")
async def test_a_source_whose_tools_somebody_else_answers_lists_them_and_runs_none(
    answered_elsewhere: OthersSource,
) -> None:
    source = answered_elsewhere
    await source.open()
    [echo] = (await source.refresh()).tools
    assert source.tool_kind is echo.kind is ToolKind.FUNCTION
    assert not source.can_execute(echo)
    outcome = await source.execute(invocation_of(echo, text="hello"))
    assert isinstance(outcome, Failed)
    assert outcome.code == "not_executed_here"
    await source.close()


@requirement("DISC-provider-tools", "TOOL-deliver-executor")
async def test_a_source_lists_its_tools_under_its_own_name_and_the_same_again_when_nothing_changed(case: Case) -> None:
    tools = await opened(case)

    assert tools.keys() == case.tools
    assert {tool.source for tool in tools.values()} == {case.source.name}
    assert tools[case.tool].input_schema["properties"].keys() == case.arguments.keys()
    assert (await case.source.refresh()).tools == tuple(tools.values())


@requirement("TOOL-executor-can-execute", "TOOL-deliver-executor")
async def test_a_source_takes_its_own_tools_and_nobody_elses(case: Case) -> None:
    tools = await opened(case)

    assert all(case.source.can_execute(tool) for tool in tools.values())
    assert not case.source.can_execute(EXTERNAL)
    assert not case.source.can_execute(msgspec.structs.replace(tools[case.tool], name="unheard_of"))


@requirement("TOOL-executor-execute", "TOOL-deliver-executor")
async def test_a_source_runs_a_call_and_returns_its_result(case: Case) -> None:
    tools = await opened(case)

    outcome = await execute(case, tools[case.tool], **case.arguments)

    assert isinstance(outcome, Done)
    assert msgspec.json.decode(outcome.result) == case.result


@requirement("TOOL-executor-execute", "TOOL-deliver-executor")
async def test_a_failing_tool_is_an_outcome_with_a_code_and_its_own_words(busy: Case) -> None:
    [fail] = [tool for tool in (await busy.source.refresh()).tools if tool.name == "fail"]

    outcome = await execute(busy, fail)

    assert isinstance(outcome, Failed)
    assert outcome.code in {"tool_error", "http_error"}
    assert "no luck" in outcome.message


@requirement("TOOL-executor-execute", "TOOL-deliver-executor")
async def test_a_call_that_is_cancelled_stops(busy: Case) -> None:
    assert busy.hanging is not None
    assert busy.stopped is not None
    [hang] = [tool for tool in (await busy.source.refresh()).tools if tool.name == "hang"]
    call = asyncio.create_task(busy.source.execute(invocation_of(hang)))
    async with asyncio.timeout(BOUND):
        await busy.hanging()
        assert not call.done()

        call.cancel()
        await asyncio.wait([call])
        await busy.stopped()

    assert call.cancelled()


@requirement("TOOL-executor-execute", "TOOL-deliver-executor")
async def test_calls_run_side_by_side(busy: Case) -> None:
    tools = {tool.name: tool for tool in (await busy.source.refresh()).tools}
    assert busy.hanging is not None
    hanging = asyncio.create_task(busy.source.execute(invocation_of(tools["hang"])))
    async with asyncio.timeout(BOUND):
        await busy.hanging()
        outcomes = await asyncio.gather(*(execute(busy, tools[busy.tool], **busy.arguments) for _ in range(20)))

    hanging.cancel()
    await asyncio.wait([hanging])
    assert [msgspec.json.decode(outcome.result) for outcome in outcomes if isinstance(outcome, Done)] == (
        [busy.result] * 20
    )


async def test_a_source_can_be_closed_before_it_was_opened_and_twice(case: Case) -> None:
    async with asyncio.timeout(BOUND):
        await case.source.close()
        await case.source.open()
        await case.source.close()
        await case.source.close()


async def test_a_closed_source_can_be_opened_again_as_the_supervisor_does_after_a_fault(case: Case) -> None:
    await opened(case)
    await case.source.close()

    tools = await opened(case)

    assert tools.keys() == case.tools
    outcome = await execute(case, tools[case.tool], **case.arguments)
    assert isinstance(outcome, Done)
    assert msgspec.json.decode(outcome.result) == case.result


@requirement("DISC-provider-name", "DISC-provider-tools")
async def test_a_source_kept_under_a_known_name_takes_the_others_place(case: Case) -> None:
    diary: list[str] = []

    class Former(RegistrySource):
        async def close(self) -> None:
            diary.append("closed")
            await super().close()

    catalog = Catalog()
    source_registry = a_panel(catalog)
    former = Former(case.source.name, registry_of(Hosted("bygone", NOTHING, _nothing)))
    try:
        async with asyncio.timeout(BOUND):
            await source_registry.add(former)
            await source_registry.settled(within=BOUND)
            assert [entry.name for entry in catalog.view(ADMIN).entries] == ["bygone"]

            await source_registry.add(case.source)
            await source_registry.settled(within=BOUND)
            await source_registry.refresh(case.source.name)

        assert diary == ["closed"]
        assert [status.name for status in source_registry.statuses()] == [case.source.name]
        assert {entry.name for entry in catalog.view(ADMIN).entries} == case.tools
        assert {entry.tool.source for entry in catalog.view(ADMIN).entries} == {case.source.name}
    finally:
        await source_registry.close()


class Sorted(RegistrySource):
    """A source whose listing brings its own category, and a tool in it."""

    kind: ClassVar[str] = "sorted"

    async def refresh(self) -> Listing:
        listing = await super().refresh()
        tools = tuple(msgspec.structs.replace(tool, category="travel") for tool in listing.tools)
        return Listing(tools=tools, categories=(Category(id="travel", name="Travel", icon="plane"),))


@requirement("DISC-provider-categories", "DISC-provider-tools")
async def test_a_source_brings_categories_and_the_manifest_has_them() -> None:
    catalog = Catalog()
    source_registry = a_panel(catalog)
    try:
        await source_registry.add(Sorted("trips", registry_of(Hosted("book", NOTHING, _nothing))))
        await source_registry.settled(within=BOUND)
    finally:
        await source_registry.close()

    manifest = msgspec.json.decode(catalog.view(ADMIN).manifest)
    assert manifest["categories"] == [{"id": "travel", "name": "Travel", "description": None, "icon": "plane"}]
    assert [(tool["name"], tool["category"]) for tool in manifest["tools"]] == [("book", "travel")]


async def _nothing(_: Invocation) -> Outcome:
    return done(None)
