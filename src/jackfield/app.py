"""One gateway: every room, put together, started and stopped in order.

Above: the doors (`web/`) and the command line, which run the same gateway with and without a port. Below: all rooms.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Self

import msgspec

from jackfield.calls.execution import Executor
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.redaction import Redactor
from jackfield.calls.telemetry import open_telemetry
from jackfield.catalog.catalog import Catalog
from jackfield.errors import ConfigError
from jackfield.keys import ADMIN, Keyring
from jackfield.model.ids import new_id
from jackfield.model.tool import ExecutionType, Tool
from jackfield.settings import Settings, ToolSettings
from jackfield.sources.base import Source, Surroundings
from jackfield.sources.http import HttpSource
from jackfield.sources.internal import InternalSource
from jackfield.sources.keeper import Panel
from jackfield.sources.kinds import make_source
from jackfield.sources.outgoing import Outgoing
from jackfield.sources.registry import Registry, RegistrySource
from jackfield.store import open_store

log = logging.getLogger("jackfield")

SOURCES_COME_UP_WITHIN = 2.0
"""How long the start waits for sources before it serves without the slow ones, in seconds."""
BEAT_SECONDS = 5.0
PRUNE_SECONDS = 600.0
PRUNE_STEP = 500
PRUNE_PAUSE = 0.05


class Gateway:
    """A running Jackfield without its doors."""

    def __init__(self, settings: Settings) -> None:
        self.id = new_id("gw")
        self.settings = settings
        self.ready = False
        self.keyring = Keyring.from_settings(settings)
        self.store = open_store(settings.store_url, folder=settings.folder, data=settings.data)
        self.outgoing = Outgoing(settings.outgoing.allow)
        self.catalog = Catalog(
            settings.categories, {source.name: source.tools for source in settings.sources}, settings.scenario
        )
        self.panel = Panel(on_listing=self._listing_changed)
        executor = Executor(
            catalog=self.catalog,
            panel=self.panel,
            store=self.store,
            gateway_id=self.id,
            redactor=Redactor(lambda: settings.secrets.used),
        )
        self.pipeline = Pipeline(catalog=self.catalog, store=self.store, executor=executor, gateway_id=self.id)
        self._executor = executor
        self._sources = self._make_sources()
        self._listings_changed = asyncio.Event()
        self._chores: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Open the store, bring the sources up, take over what the last gateway left, then be ready."""
        await self.store.open()
        await self.store.enter(self.id)
        self._executor.telemetry = open_telemetry(os.environ, gateway_id=self.id)
        for source in self._sources:
            await self.panel.add(source)
        await self.panel.settled(within=SOURCES_COME_UP_WITHIN)
        await self.catalog.update_aside(self.panel.listings())
        recovered = await self._executor.recover()
        if recovered:
            log.warning("took over %d calls that were running when the last gateway stopped", recovered)
        self._chores = [
            asyncio.create_task(self._follow_listings(), name="catalog"),
            asyncio.create_task(_every(BEAT_SECONDS, self._beat), name="heartbeat"),
            asyncio.create_task(_every(PRUNE_SECONDS, self._prune), name="pruning"),
        ]
        self.ready = True

    async def stop(self) -> None:
        """Take no more calls, see the running ones to their end, then close every room, the last opened first."""
        self.ready = False
        await self.pipeline.close()
        for chore in self._chores:
            chore.cancel()
        if self._chores:
            await asyncio.wait(self._chores)
        self.catalog.close()
        await asyncio.gather(self.panel.close(), self._send_last_spans())
        await self.outgoing.close()
        await self.store.close()

    def _make_sources(self) -> list[Source]:
        surroundings = self._surroundings()
        configured = [
            make_source(source.kind, source.name, source.options, surroundings) for source in self.settings.sources
        ]
        tools = self.settings.tools
        for tool in tools:
            if tool.execution_type not in (ExecutionType.GATEWAY, ExecutionType.INTERNAL):
                raise ConfigError(
                    f"Tool '{tool.name}' is answered by somebody else (executionType {tool.execution_type.value}), "
                    "which this version cannot wait for yet. Remove it, or make it a gateway or internal tool."
                )
        return [
            RegistrySource("builtin", Registry()),
            *configured,
            HttpSource(_tools_of(tools, ExecutionType.GATEWAY, "http"), self.outgoing),
            InternalSource(_tools_of(tools, ExecutionType.INTERNAL, "internal")),
        ]

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            folder=self.settings.folder,
            data=self.settings.data,
            changed=self.panel.request_refresh,
            secret=self.settings.secrets.get,
            config=self._public_settings,
            registry=lambda: [msgspec.json.decode(entry.manifest) for entry in self.catalog.view(ADMIN).entries],
            call_tool=self.pipeline.call_from,
            outgoing=self.outgoing,
        )

    def _public_settings(self) -> dict[str, Any]:
        """What in-process tools may know of the settings: no key, no secret, no header."""
        settings = self.settings
        return {
            "url": settings.url,
            "scenario": msgspec.to_builtins(settings.scenario),
            "categories": msgspec.to_builtins(settings.categories),
            "sources": [{"name": source.name, "kind": source.kind} for source in settings.sources],
        }

    def _listing_changed(self) -> None:
        self._listings_changed.set()

    async def _follow_listings(self) -> None:
        while True:
            await self._listings_changed.wait()
            self._listings_changed.clear()
            await self.catalog.update_aside(self.panel.listings())

    async def _send_last_spans(self) -> None:
        telemetry, self._executor.telemetry = self._executor.telemetry, None
        if telemetry is not None:
            await telemetry.close()

    async def _beat(self) -> None:
        await self.store.beat(self.id)

    async def _prune(self) -> None:
        """Small steps with pauses between them: calls come first."""
        gone = PRUNE_STEP
        while gone == PRUNE_STEP:
            gone = await self.store.prune(keep_days=self.settings.keep_days, limit=PRUNE_STEP)
            await asyncio.sleep(PRUNE_PAUSE)


async def _every(seconds: float, chore: Callable[[], Awaitable[None]]) -> None:
    """Do a chore now and every so often. One that fails is logged and tried again next time."""
    while True:
        try:
            await chore()
        except Exception:
            log.exception("a chore of the gateway failed; it is tried again in %g s", seconds)
        await asyncio.sleep(seconds)


def _tools_of(settings: tuple[ToolSettings, ...], execution_type: ExecutionType, source: str) -> tuple[Tool, ...]:
    """The `[[tools]]` of one execution type. Only `internal` ones are invisible unless they say otherwise."""
    return tuple(
        Tool(
            source=source,
            name=tool.name,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            execution_type=tool.execution_type,
            execution=tool.execution,
            visible=tool.visible if tool.visible is not None else execution_type is not ExecutionType.INTERNAL,
            is_async=tool.is_async,
            timeout_ms=tool.timeout,
            expires_in_ms=tool.expires_in,
            category=tool.category,
            metadata=tool.metadata,
        )
        for tool in settings
        if tool.execution_type is execution_type
    )
