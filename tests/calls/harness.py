"""A catalog, a registry with one source of Python functions, a store and the pipeline, without HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from jackfield.audit.log import AuditLog
from jackfield.calls.executor import Executor
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.redaction import Redactor
from jackfield.calls.requests import CallRequest
from jackfield.calls.verification import Verification
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.limits import LocalLimits
from jackfield.catalog.preferences import PreferenceBook
from jackfield.hooks.service import Hooks
from jackfield.model.call import Outcome
from jackfield.model.principal import Principal
from jackfield.model.tool import Tool, ToolKind
from jackfield.outgoing import Outgoing
from jackfield.sources.base import Invocation, Listing
from jackfield.sources.source_registry import SourceRegistry
from jackfield.store import Store, open_store
from jackfield.store import gateways as gateway_tx
from jackfield.workers.host import WorkerHost

OPS = Principal(name="ops", scopes=frozenset({"admin"}))
GUEST = Principal(name="guest", scopes=frozenset({"call"}))

Body = Callable[[Invocation], Awaitable[Outcome]]


class FunctionSource:
    """Tools that are coroutine functions of the test."""

    kind: ClassVar[str] = "functions"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, name: str = "local", *, max_concurrency: int | None = None) -> None:
        self.name = name
        self.max_concurrency = max_concurrency
        self.opened = self.closed = 0
        self.fault: Exception | None = None
        self._tools: dict[str, tuple[Tool, Body]] = {}

    def offer(self, name: str, body: Body, **fields: Any) -> None:
        self._tools[name] = (Tool(source=self.name, name=name, **fields), body)

    async def open(self) -> None:
        self.opened += 1
        if self.fault:
            raise self.fault

    async def refresh(self) -> Listing:
        if self.fault:
            raise self.fault
        return Listing(tools=tuple(tool for tool, _ in self._tools.values()))

    async def execute(self, invocation: Invocation) -> Outcome:
        return await self._tools[invocation.tool.name][1](invocation)

    def can_execute(self, tool: Tool) -> bool:
        return tool.name in self._tools

    async def close(self) -> None:
        self.closed += 1


class Harness(Struct, frozen=True):
    """What a test of the road needs to hold."""

    source: FunctionSource
    store: Store
    catalog: Catalog
    source_registry: SourceRegistry
    executor: Executor
    pipeline: Pipeline

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **fields: Any) -> Any:
        request = CallRequest(tool=tool, arguments=arguments or {}, **({"principal": OPS} | fields))
        return await self.pipeline.call(request)


@asynccontextmanager
async def pipeline_harness(
    source: FunctionSource, folder: Path, *, secrets: set[str] | None = None
) -> AsyncIterator[Harness]:
    """A harness on a SQLite file in `folder`, its one source up."""
    store = open_store("sqlite:///calls.db", folder=folder, data=folder)
    await store.open()
    await store.write(partial(gateway_tx.enter, "gw_test", is_shared=store.is_shared))
    audit = AuditLog("gw_test")
    await store.write(audit.begin)
    catalog = Catalog()
    source_registry = SourceRegistry(on_listing=lambda: _take(catalog, source_registry))
    await source_registry.add(source)
    await source_registry.settled(within=5)
    executor = Executor(
        catalog=catalog,
        source_registry=source_registry,
        store=store,
        gateway_id="gw_test",
        redactor=Redactor(lambda: secrets or set()),
        hooks=no_hooks(folder),
        audit=audit,
    )
    preferences = PreferenceBook()
    preferences.load([])
    pipeline = Pipeline(
        catalog=catalog,
        preferences=preferences,
        limits=LocalLimits(store),
        store=store,
        executor=executor,
        gateway_id="gw_test",
    )
    try:
        yield Harness(source, store, catalog, source_registry, executor, pipeline)
    finally:
        await pipeline.close(grace=0.2)
        await source_registry.close()
        await store.close()


def verification_of(
    harness: Harness, find_principal: Callable[[str], Principal | None] = lambda _: None
) -> Verification:
    """What asks whether a call took effect, in the name of whoever is found."""
    return Verification(
        store=harness.store,
        pipeline=harness.pipeline,
        executor=harness.executor,
        source_registry=harness.source_registry,
        find_principal=find_principal,
        gateway_id="gw_test",
    )


def no_hooks(folder: Path) -> Hooks:
    """The service as it is where the config has none."""
    host = WorkerHost(folder / "workers", redact=str)
    return Hooks(folder=folder, data=folder, outgoing=Outgoing(()), worker_host=host, redact=str)


def _take(catalog: Catalog, source_registry: SourceRegistry) -> None:
    catalog.update(source_registry.listings())
