"""The tools of one service that publishes a manifest: `kind = "manifest"`."""

import asyncio
import logging
import time
from functools import partial
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from jackfield.errors import JackfieldError, SourceUnavailable
from jackfield.model.call import Done, Failed, Outcome
from jackfield.model.tool import Tool, ToolKind
from jackfield.model.trace_context import MOST_HOPS
from jackfield.sources.base import Begun, Invocation, Listing, Look, SourceContext
from jackfield.sources.foreign import ListingRules
from jackfield.sources.manifest.client import ServiceClient
from jackfield.sources.manifest.feed import ChangeFollower, ManifestFetcher
from jackfield.sources.manifest.options import ManifestOptions, parse_options
from jackfield.sources.manifest.responses import begun_of

log = logging.getLogger("jackfield.sources")

CLOSE_SECONDS = 2.0
"""How long a source that closes waits for cancellations in progress."""
DEADLINE_MARGIN = 0.25
"""Seconds before its deadline from which a call is not cancelled any more: it ends by itself."""


def manifest_source(name: str, options: dict[str, Any], source_context: SourceContext) -> "ManifestSource":
    """The factory of this kind."""
    return ManifestSource(name, parse_options(options, where=f"sources.{name}"), source_context)


class ManifestSource:
    """One service's tools."""

    kind: ClassVar[str] = "manifest"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, name: str, options: ManifestOptions, source_context: SourceContext) -> None:
        self.name = name
        self.max_concurrency = options.max_concurrency
        self._options = options
        self._cluster_id = source_context.cluster_id
        rules = ListingRules(
            source=name, server=options.server, allowed=options.allowed_tools, timeout_ms=options.timeout_ms
        )
        self._fetcher = ManifestFetcher(
            options, rules, outgoing=source_context.outgoing, due=partial(source_context.changed, name)
        )
        self._follower = ChangeFollower(name, options, outgoing=source_context.outgoing, changed=self._fetcher.expire)
        self._client = ServiceClient(
            name,
            options,
            outgoing=source_context.outgoing,
            cluster_id=source_context.cluster_id,
            lost=self._fetcher.expire,
        )
        self._names: frozenset[str] = frozenset()
        self._cancelling: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Forget the last manifest: the service may be another than before."""
        self._fetcher.forget()

    async def refresh(self) -> Listing:
        manifest = await self._fetcher.fetch()
        self._follower.start()
        listing = without_loops(manifest.listing, theirs=self._fetcher.cluster_id, ours=self._cluster_id())
        self._names = frozenset(tool.name for tool in listing.tools)
        return listing

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.name in self._names

    async def execute(self, invocation: Invocation) -> Outcome:
        outcome = await self._run(invocation)
        if isinstance(outcome, Begun):
            return await self._client.wait_for(invocation, outcome)
        return outcome

    async def begin(self, invocation: Invocation) -> Done | Failed | Begun:
        outcome, behavior = await self._run(invocation), invocation.tool.metadata.async_behavior
        if isinstance(outcome, Done) and behavior is not None:
            return begun_of(outcome.result, behavior, tool=invocation.tool.name)
        return outcome

    async def _run(self, invocation: Invocation) -> Done | Failed | Begun:
        """One call at the service. A cancelled call is cancelled at another gateway too; any other service only sees
        its connection close.
        """
        ends = time.monotonic() + invocation.timeout_ms / 1000 - DEADLINE_MARGIN
        try:
            return await self._client.run(invocation)
        except asyncio.CancelledError:
            is_known = self._fetcher.cluster_id and self._options.template(invocation.tool) is None
            if is_known and time.monotonic() < ends:
                cancelling = asyncio.create_task(self._cancel(invocation), name=f"cancel {invocation.call_id}")
                self._cancelling.add(cancelling)
                cancelling.add_done_callback(self._cancelling.discard)
            raise

    async def _cancel(self, invocation: Invocation) -> None:
        try:
            await self._client.cancel(invocation)
        except JackfieldError as fault:
            log.warning("call %s could not be cancelled at %s: %s", invocation.call_id, self.name, fault)

    async def look(self, invocation: Invocation, reference: Raw) -> Look:
        return await self._client.poll(invocation, reference)

    async def halt(self, invocation: Invocation, reference: Raw) -> None:
        await self._client.stop(invocation, reference)

    def begins_once(self, tool: Tool) -> bool:
        """Another gateway knows a call by its id when it is sent again; any other service may not."""
        return tool.metadata.idempotent or bool(self._fetcher.cluster_id)

    async def close(self) -> None:
        if self._cancelling:
            await asyncio.wait(self._cancelling, timeout=CLOSE_SECONDS)
        self._fetcher.close()
        await self._follower.close()


def without_loops(listing: Listing, *, theirs: str, ours: str) -> Listing:
    """The tools with the cluster that passes them on, without those that are ours or came over too many hops."""
    if theirs and theirs == ours:
        raise SourceUnavailable("This is the gateway itself, or one on the same database. Remove the source.")
    # A service that is no gateway, or hides it, may still pass on tools of gateways.
    hops = [(tool, (theirs, *tool.via) if theirs else tool.via) for tool in listing.tools]
    kept = [(tool, via) for tool, via in hops if ours not in via and len(via) <= MOST_HOPS]
    return msgspec.structs.replace(listing, tools=tuple(msgspec.structs.replace(tool, via=via) for tool, via in kept))
