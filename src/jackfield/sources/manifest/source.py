"""The tools of one service that publishes a manifest: `kind = "manifest"`."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from jackfield.errors import JackfieldError, SourceUnavailable
from jackfield.model.call import Done, Failed, Outcome
from jackfield.model.redaction import SecretForms
from jackfield.model.tool import Tool, ToolKind
from jackfield.model.trace_context import CANCELS_HEADER, CLUSTER_HEADER, MOST_HOPS
from jackfield.outgoing import Outgoing, OutgoingError, OutgoingResponse, StreamedResponse, with_answer
from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.sse import EventParser
from jackfield.sources.base import Begun, Invocation, Listing, Look, SourceContext
from jackfield.sources.foreign import ListingRules
from jackfield.sources.manifest.client import ServiceClient
from jackfield.sources.manifest.options import CACHE_TTL, ManifestOptions, parse_options
from jackfield.sources.manifest.parser import BadManifest, ServiceManifest, manifest_of
from jackfield.sources.manifest.responses import begun_of

PATH = "/api/v1/tools"
MAX_BYTES = 32 * 1024 * 1024
LONGEST_TTL = 3600.0
RECHECK_SECONDS = 1.0
"""Before a manifest that is older than the last one is fetched again: a service that has restarted says so twice."""
PARSE_IN_THREAD = 64 * 1024
"""Bytes above which a manifest is parsed in a thread, so that the event loop goes on."""
CHANGES_PATH = "/api/v1/tools/changes"
CHANGED = "tools.changed"
QUIET_SECONDS = 90.0
"""A stream without an event or a ping for so long is dead."""
CHANGE_SPACING = 0.5
"""A service that changes without end is fetched no faster than this."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
MAX_EVENT = 1024 * 1024
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,10})", re.IGNORECASE)

log = logging.getLogger("jackfield.sources")


class ServiceDown(JackfieldError):
    """The service did not give its manifest."""

    code = "source_unavailable"


class ManifestFetcher:
    """One service's manifest, as last fetched."""

    def __init__(
        self, options: ManifestOptions, rules: ListingRules, *, outgoing: Outgoing, due: Callable[[], None]
    ) -> None:
        """`due` is called when the manifest has expired, from the event loop."""
        self._options = options
        self._rules = rules
        self._redact = SecretForms(word for value in options.headers.values() for word in (value, *value.split())).text
        self._outgoing = outgoing
        self._due = due
        self._timer: asyncio.TimerHandle | None = None
        self._etag: str | None = None
        self._is_due = False
        self._went_back = False
        self.held = ServiceManifest()
        self.cancels = False
        """Whether the service says that it cancels running calls."""
        self.cluster_id = ""
        """The gateways that response; empty: it is no gateway."""

    def forget(self) -> None:
        """The next manifest is fetched whole and accepted whatever its time."""
        self._etag, self._is_due, self._went_back = None, False, False
        self.held = ServiceManifest()

    def expire(self) -> None:
        """The manifest may have changed."""
        self._is_due = True
        self._due()

    async def fetch(self) -> ServiceManifest:
        """The current manifest. Raises `ServiceDown` or `BadManifest`; the last one is kept then."""
        is_due, self._is_due = self._is_due, False
        response = await self._ask(if_none_match=self._etag if is_due else None)
        if response.status == HTTPStatus.NOT_MODIFIED and is_due:
            self._schedule(response)
            return self.held
        manifest = await self._read(response)
        if self._is_older(manifest) and not self._went_back:
            # Most likely an old copy from a cache in between. It is accepted when it comes twice.
            response = await self._ask(if_none_match=None)
            manifest = await self._read(response)
            if self._is_older(manifest):
                self._went_back = True
                self._schedule(response, within=RECHECK_SECONDS)
                return self.held
        self._went_back = False
        self._etag = response.headers.get("etag")
        self.cluster_id = response.headers.get(CLUSTER_HEADER, "")[:100]
        self.cancels = bool(self.cluster_id) or response.headers.get(CANCELS_HEADER) == "true"
        self.held = manifest
        self._schedule(response)
        return manifest

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _ask(self, *, if_none_match: str | None) -> OutgoingResponse:
        headers: Mapping[str, str] = {
            "accept": "application/json",
            "cache-control": "no-cache",
            **self._options.headers,
        }
        if if_none_match is not None:
            headers = {**headers, "if-none-match": if_none_match}
        return await self._outgoing.request(
            "GET",
            self._options.at(PATH),
            headers=headers,
            timeout=self._options.timeout,
            max_bytes=MAX_BYTES,
            named_by=self._options.url,
        )

    async def _read(self, response: OutgoingResponse) -> ServiceManifest:
        if response.status != HTTPStatus.OK:
            fault = ServiceDown(_why(response.status, self._options.at(PATH)))
            raise with_answer(fault, response.content, redact=self._redact)
        try:
            if len(response.content) <= PARSE_IN_THREAD:
                return manifest_of(response.content, self._rules)
            return await asyncio.to_thread(manifest_of, response.content, self._rules)
        except BadManifest as fault:
            raise with_answer(fault, response.content, redact=self._redact) from None

    def _is_older(self, manifest: ServiceManifest) -> bool:
        held, now = self.held.generated_at, manifest.generated_at
        return held is not None and now is not None and now < held

    def _schedule(self, response: OutgoingResponse, *, within: float | None = None) -> None:
        """Schedule the next fetch for when this response expires, or sooner."""
        self.close()
        seconds = time_to_live(response.headers.get("cache-control", ""), configured=self._options.cache_ttl)
        seconds = seconds if within is None else min(seconds, within)
        self._timer = asyncio.get_running_loop().call_later(seconds, self.expire)


def time_to_live(cache_control: str, *, configured: float | None) -> float:
    """Seconds that a response is cached: as configured, else 60, else as long as the service allows up to an hour."""
    if configured is not None:
        return configured
    found = _MAX_AGE.search(cache_control)
    return CACHE_TTL if found is None else min(max(float(found[1]), CACHE_TTL), LONGEST_TTL)


def _why(status: int, url: str) -> str:
    if status == HTTPStatus.NOT_FOUND:
        return f"{url} answered 404: no manifest is there. Correct the url, or have the service publish one."
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"{url} answered {status}: it wants other credentials. Set them in the source's headers."
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return f"{url} answered 503: the service is unavailable. It is tried again."
    return f"{url} answered {status} where a manifest was expected. It is tried again."


class ChangeFollower:
    """Follows the stream of one service's changes (`GET /api/v1/tools/changes`), if it has one."""

    def __init__(self, name: str, options: ManifestOptions, *, outgoing: Outgoing, changed: Callable[[], None]) -> None:
        self._name = name
        self._options = options
        self._outgoing = outgoing
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Follow, unless it does already."""
        if self._options.follow and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._guarded(), name=f"changes of {self._name}")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _guarded(self) -> None:
        """A bug costs the stream and nothing else: the manifest is still fetched when it has expired."""
        try:
            await self._follow()
        except Exception:
            log.exception("the changes of %s are not followed any more", self._name)

    async def _follow(self) -> None:
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            try:
                async with asyncio.timeout(self._options.timeout):
                    response = await self._connect()
            except (OutgoingError, TimeoutError) as fault:
                log.debug("the changes of %s cannot be followed now: %s", self._name, fault)
            else:
                if not _is_stream(response):
                    await response.aclose()
                    return
                self._changed()  # changes between the manifest and this stream were not streamed
                if await self._read_events(response):
                    delays.reset()
                self._changed()
            await asyncio.sleep(delays.next())

    async def _connect(self) -> StreamedResponse:
        return await self._outgoing.send(
            "GET",
            self._options.at(CHANGES_PATH),
            headers={"accept": "text/event-stream", **self._options.headers},
            named_by=self._options.url,
        )

    async def _read_events(self, response: StreamedResponse) -> bool:
        """Read until the stream ends; whether it had any event."""
        parser = EventParser()
        heard, size = False, 0
        parts = response.aiter_bytes()
        try:
            while True:
                async with asyncio.timeout(QUIET_SECONDS):
                    part = await anext(parts, None)
                if part is None:
                    return heard
                events = parser.feed(part)
                size = 0 if events else size + len(part)
                if size > MAX_EVENT:
                    return heard
                heard = heard or bool(events)
                if any(event.type == CHANGED for event in events):
                    self._changed()
                    await asyncio.sleep(CHANGE_SPACING)
        except (OutgoingError, TimeoutError) as fault:
            log.debug("the stream of changes of %s broke: %s", self._name, fault)
            return heard
        finally:
            await response.aclose()


def _is_stream(response: StreamedResponse) -> bool:
    media = response.headers.get("content-type", "")
    return response.status == HTTPStatus.OK and media.startswith("text/event-stream")


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
        """One call at the service. A cancelled call is cancelled there too, if the service can; any other one only sees
        its connection close.
        """
        ends = time.monotonic() + invocation.timeout_ms / 1000 - DEADLINE_MARGIN
        try:
            return await self._client.run(invocation, is_peer=bool(self._fetcher.cluster_id))
        except asyncio.CancelledError:
            is_known = self._fetcher.cancels and self._options.template(invocation.tool) is None
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
