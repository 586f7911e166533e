"""The tools of one service that publishes a manifest: `kind = "manifest"`.

Above: the keeper, which keeps what was listed while the service is down and tries again with growing pauses. Below:
`fetching.py` and `following.py` for the manifest, `calling.py` and `work.py` for its tools.
"""

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
from jackfield.sources.base import Begun, Invocation, Listing, Look, Surroundings
from jackfield.sources.manifest import client
from jackfield.sources.manifest.client import ServiceClient
from jackfield.sources.manifest.feed import ChangeFollower, ManifestFetcher
from jackfield.sources.manifest.options import ManifestOptions, parse_options
from jackfield.sources.manifest.parser import ManifestRules

log = logging.getLogger("jackfield.sources")

CLOSE_SECONDS = 2.0
"""How long a source that closes waits for cancellations that are on their way."""
NEARLY_OVER = 0.25
"""Seconds before its deadline from which a call is left to that."""


def manifest_source(name: str, options: dict[str, Any], surroundings: Surroundings) -> "ManifestSource":
    """The factory of this kind."""
    return ManifestSource(name, parse_options(options, where=f"sources.{name}"), surroundings)


class ManifestSource:
    """One service's tools."""

    kind: ClassVar[str] = "manifest"
    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, name: str, options: ManifestOptions, surroundings: Surroundings) -> None:
        self.name = name
        self.max_concurrency = options.max_concurrency
        self._house = surroundings.house
        rules = ManifestRules(
            source=name, server=options.server, allowed=options.allowed_tools, timeout_ms=options.timeout_ms
        )
        self._fetcher = ManifestFetcher(
            options, rules, outgoing=surroundings.outgoing, due=partial(surroundings.changed, name)
        )
        self._follower = ChangeFollower(name, options, outgoing=surroundings.outgoing, changed=self._fetcher.call_due)
        self._peer = ServiceClient(
            name, options, outgoing=surroundings.outgoing, house=surroundings.house, lost=self._fetcher.call_due
        )
        self._names: frozenset[str] = frozenset()
        self._stopping: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """A service that comes up is asked for everything, past what was known of it before."""
        self._fetcher.forget()

    async def refresh(self) -> Listing:
        manifest = await self._fetcher.fetch()
        self._follower.start()
        listing = passed_on(manifest.listing, house=self._fetcher.house, ours=self._house())
        self._names = frozenset(tool.name for tool in listing.tools)
        return listing

    def can_execute(self, tool: Tool) -> bool:
        return tool.source == self.name and tool.name in self._names

    async def execute(self, invocation: Invocation) -> Outcome:
        outcome = await self._run(invocation)
        if isinstance(outcome, Begun):
            return await client.wait_for(self._peer, invocation, outcome)
        return outcome

    async def begin(self, invocation: Invocation) -> Done | Failed | Begun:
        return client.begun(await self._run(invocation), invocation)

    async def _run(self, invocation: Invocation) -> Done | Failed | Begun:
        """One call at the service. Cancelled here, it is cancelled at another gateway too; with any other service the
        connection is closed, and that is all that can be said. When its time is over, it is over there by itself.
        """
        ends = time.monotonic() + invocation.timeout_ms / 1000 - NEARLY_OVER
        try:
            return await self._peer.run(invocation)
        except asyncio.CancelledError:
            is_known = self._fetcher.house and not self._peer.is_templated(invocation.tool)
            if is_known and time.monotonic() < ends:
                stopping = asyncio.create_task(self._stop(invocation), name=f"stop {invocation.call_id}")
                self._stopping.add(stopping)
                stopping.add_done_callback(self._stopping.discard)
            raise

    async def _stop(self, invocation: Invocation) -> None:
        try:
            await self._peer.stop(invocation)
        except JackfieldError as fault:
            log.warning("call %s could not be cancelled at %s: %s", invocation.call_id, self.name, fault)

    async def look(self, invocation: Invocation, reference: Raw) -> Look:
        return await client.look(self._peer, invocation, reference)

    async def halt(self, invocation: Invocation, reference: Raw) -> None:
        await client.halt(self._peer, invocation, reference)

    def begins_once(self, tool: Tool) -> bool:
        """Another gateway knows a call by its id when it is sent again; any other service may not."""
        return tool.metadata.idempotent or bool(self._fetcher.house)

    async def close(self) -> None:
        if self._stopping:
            await asyncio.wait(self._stopping, timeout=CLOSE_SECONDS)
        self._fetcher.close()
        await self._follower.close()


def passed_on(listing: Listing, *, house: str, ours: str) -> Listing:
    """The tools with the house that passes them on, without those that are ours or have come too far."""
    if house and house == ours:
        raise SourceUnavailable("This is the gateway itself, or one on the same database. Remove the source.")
    # A service that is no gateway, or hides it, may still pass on what gateways say.
    tools = [(tool, (house, *tool.via) if house else tool.via) for tool in listing.tools]
    kept = tuple(
        msgspec.structs.replace(tool, via=way) for tool, way in tools if ours not in way and len(way) <= MOST_HOPS
    )
    return msgspec.structs.replace(listing, tools=kept)
