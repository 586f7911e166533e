"""Calls that somebody else answers, without HTTP: tool servers, people, and the sweeper, run by hand.

    async with pending_harness("memory:", tmp_path) as harness:
        call = await harness.begin("ask", agent="ada")          # it waits
        await harness.answer(call, 42)
        await harness.sweep()                                    # one round, now

Several houses on one PostgreSQL are several gateways. Nothing runs in the background: no heartbeat, no sweeper.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.agents.cycle_transactions import inbox_page
from jackfield.audit.log import AuditLog
from jackfield.calls import transactions as call_tx
from jackfield.calls.answers import Answers
from jackfield.calls.events import CallEvent
from jackfield.calls.executor import Executor
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.recovery import Recovery
from jackfield.calls.redaction import Redactor
from jackfield.calls.requests import CallRequest
from jackfield.calls.sweeper import Sweeper
from jackfield.calls.tool_servers import ToolServers
from jackfield.calls.verification import Verification
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.limits import LocalLimits
from jackfield.catalog.preferences import PreferenceBook
from jackfield.model.call import Call, CallStatus, Outcome, done
from jackfield.model.principal import Principal
from jackfield.model.tool import ExecutionType, Metadata, Tool
from jackfield.sources.authorization import NoLogins, SourceLogins
from jackfield.sources.base import Invocation
from jackfield.sources.external import OthersSource
from jackfield.sources.source_registry import SourceRegistry
from jackfield.store import Store, open_store, scripts
from jackfield.store import gateways as gateway_tx
from jackfield.store.scripts import Sql
from tests import waiting
from tests.calls.harness import OPS, FunctionSource, no_hooks
from tests.waiting import TIMEOUT, eventually_async

WITHIN = TIMEOUT
HOUR_MS = 3_600_000
APPROVAL = Metadata(requires_approval=True)
AGAIN = Metadata(idempotent=True)


def external(name: str, **fields: Any) -> Tool:
    """A tool that a tool server answers."""
    return Tool(source="external", name=name, execution_type=ExecutionType.EXTERNAL, **fields)


TOOLS = (
    external("ask"),
    external("ask_again", metadata=AGAIN),
    external("ask_briefly", timeout_ms=150),
    external("ask_later", is_async=True),
    external("ask_later_again", is_async=True, metadata=AGAIN),
    external("ask_in_vain", is_async=True, expires_in_ms=1),
    external("ask_number", output_schema={"type": "integer"}),
    external("ask_boss", metadata=APPROVAL),
)
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}


class PendingHarness(Struct, frozen=True, kw_only=True):
    """One gateway's rooms, as far as calls that somebody else answers need them."""

    id: str
    store: Store
    catalog: Catalog
    source_registry: SourceRegistry
    others: OthersSource
    local: FunctionSource
    executor: Executor
    pipeline: Pipeline
    answers: Answers
    servers: ToolServers
    sweeper: Sweeper
    starts: list[str]
    """The calls that a tool was started for, in order."""

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **fields: Any) -> Call:
        """The call as whoever made it sees it."""
        request = CallRequest(tool=tool, arguments=arguments or {}, **({"principal": OPS} | fields))
        return await self.pipeline.call(request)

    async def begin(
        self, tool: str, arguments: dict[str, Any] | None = None, **fields: Any
    ) -> "tuple[Call, asyncio.Task[Call]]":
        """A call for which somebody waits: its record, and the waiting."""
        async with self.pipeline.events.follow(None) as told:
            waiting = asyncio.create_task(self.call(tool, arguments, **fields))
            event: CallEvent = await within(anext(told))
        return await self.record(event.call_id), waiting

    async def answer(self, call: Call, value: Any, *, principal: Principal | None = OPS) -> Call:
        return await self.answers.submit(call.id, done(value), principal=principal)

    async def record(self, call_id: str) -> Call:
        call = await self.store.read(partial(call_tx.get_call, call_id))
        assert call is not None
        return call

    async def inbox(self, agent: str) -> list[tuple[str, Any]]:
        """The agent's events: id, and what it is told as the tool's result."""
        events, _ = await self.store.read(partial(inbox_page, agent))
        return [(event.event_id, msgspec.json.decode(event.data)["result"]) for event in events]

    async def sweep(self) -> None:
        await self.sweeper.sweep()

    async def ended(self, call_id: str) -> Call:
        """The call when it is over."""
        call = await self.pipeline.wait(call_id, seconds=WITHIN)
        assert call.status.is_final, call
        return call

    async def until_clock(self, moment: int | None) -> None:
        """Until the database's clock has passed that moment."""
        assert moment is not None

        async def is_past() -> bool:
            return await self.store.now_ms() >= moment

        await eventually_async(is_past)

    async def list_tools(self, *tools: Tool) -> None:
        """From now on these are all external tools."""
        self.others.replace(tools)
        await self.source_registry.refresh("external")
        await self.catalog.update_aside(self.source_registry.listings())


@asynccontextmanager
async def pending_harness(
    url: str,
    folder: Path,
    *,
    gateway_id: str = "gw_test",
    tools: Sequence[Tool] = TOOLS,
    logins: SourceLogins | None = None,
) -> AsyncIterator[PendingHarness]:
    store = open_store(url, folder=folder, data=folder)
    await store.open()
    await store.write(partial(gateway_tx.enter, gateway_id, is_shared=store.is_shared))
    await store.write((audit := AuditLog(gateway_id)).begin)
    catalog = Catalog()
    source_registry = SourceRegistry(on_listing=lambda: None)
    others, starts = OthersSource("external", tuple(tools)), list[str]()
    local = _local_tools(starts)
    for source in (local, others):
        await source_registry.add(source)
    await source_registry.settled(within=WITHIN)
    await catalog.update_aside(source_registry.listings())
    harness = _put_together(store, catalog, source_registry, others, local, starts, gateway_id, logins, audit)
    try:
        yield harness
    finally:
        await harness.pipeline.close(grace=0.2)
        harness.servers.close()
        await source_registry.close()
        await store.close()


def another_gateway(harness: PendingHarness, gateway_id: str) -> PendingHarness:
    """A gateway on the same database and with the same tools."""
    return _put_together(
        harness.store,
        harness.catalog,
        harness.source_registry,
        harness.others,
        harness.local,
        harness.starts,
        gateway_id,
        harness.answers._logins,
        harness.answers._audit,
    )


async def _nothing_to_connect(_source: str) -> None:
    """No agent here has a server of its own."""


def _put_together(  # noqa: PLR0917 - a list of rooms
    store: Store,
    catalog: Catalog,
    source_registry: SourceRegistry,
    others: OthersSource,
    local: FunctionSource,
    starts: list[str],
    gateway_id: str,
    logins: SourceLogins | None,
    audit: AuditLog,
) -> PendingHarness:
    redactor, preferences = Redactor(lambda: {"open sesame"}), PreferenceBook()
    preferences.load([])
    executor = Executor(
        catalog=catalog,
        source_registry=source_registry,
        store=store,
        gateway_id=gateway_id,
        redactor=redactor,
        hooks=no_hooks(Path()),
        audit=audit,
    )
    pipeline = Pipeline(
        catalog=catalog,
        preferences=preferences,
        limits=LocalLimits(store),
        store=store,
        executor=executor,
        gateway_id=gateway_id,
    )
    servers = ToolServers(store=store, catalog=catalog, gateway_id=gateway_id)
    answers = Answers(
        switches=preferences.switches,
        catalog=catalog,
        store=store,
        executor=executor,
        gateway_id=gateway_id,
        audit=audit,
        redactor=redactor,
        offer=servers.announce,
        find_principal={OPS.name: OPS}.get,
        connect_source=_nothing_to_connect,
        logins=logins or NoLogins(),
    )
    verification = Verification(
        store=store,
        pipeline=pipeline,
        executor=executor,
        source_registry=source_registry,
        find_principal={OPS.name: OPS}.get,
        gateway_id=gateway_id,
    )
    sources_listed = asyncio.Event()
    sources_listed.set()
    sweeper = Sweeper(
        store=store,
        pipeline=pipeline,
        executor=executor,
        answers=answers,
        servers=servers,
        recovery=Recovery(
            store=store,
            catalog=catalog,
            executor=executor,
            verification=verification,
            gateway_id=gateway_id,
            sources_listed=sources_listed,
        ),
        verification=verification,
        gateway_id=gateway_id,
    )
    return PendingHarness(
        id=gateway_id,
        store=store,
        catalog=catalog,
        source_registry=source_registry,
        others=others,
        local=local,
        executor=executor,
        pipeline=pipeline,
        answers=answers,
        servers=servers,
        sweeper=sweeper,
        starts=starts,
    )


def _local_tools(starts: list[str]) -> FunctionSource:
    """Tools that the gateway runs itself and that record their starts."""

    async def charge(invocation: Invocation) -> Outcome:
        starts.append(invocation.call_id)
        return done(invocation.arguments)

    source = FunctionSource()
    source.offer("charge", charge, input_schema=COUNT, metadata=APPROVAL)
    source.offer("count", charge, input_schema=COUNT)
    source.offer("count_again", charge, input_schema=COUNT, metadata=AGAIN)
    return source


async def change(store: Store, sql: str, **values: Any) -> None:
    """Change rows behind the gateway's back, for what would otherwise have to be waited for."""
    await store.write(partial(scripts.run, Sql("of the test", sql), **values))


async def within(coming: Awaitable[Any], seconds: float = WITHIN) -> Any:
    """What comes, if it comes in time."""
    async with asyncio.timeout(seconds):
        return await coming


until = waiting.eventually_async


def status_of(call: Call) -> tuple[CallStatus, str | None]:
    return call.status, call.delivery.value if call.delivery else None
