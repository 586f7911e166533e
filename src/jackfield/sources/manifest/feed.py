"""Reads a service's manifest over HTTP, when it is due and no more often.

Above: `source.py`. Below: `outgoing`, the guarded client, and `reading.py`. A manifest is good for its time to live;
after that the service is asked whether it has another (`If-None-Match`). Who asks before wants it past every cache.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus

from jackfield.errors import JackfieldError
from jackfield.model.trace_context import HOUSE_HEADER
from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.sse import EventParser
from jackfield.sources.manifest.options import CACHE_TTL, ManifestOptions
from jackfield.sources.manifest.parser import ManifestRules, ServiceManifest, manifest_of
from jackfield.sources.outgoing import Outgoing, OutgoingError, OutgoingResponse, StreamedResponse

PATH = "/api/v1/tools"
MAX_BYTES = 32 * 1024 * 1024
LONGEST_TTL = 3600.0
RECHECK_SECONDS = 1.0
"""After so long a manifest that went back in time is looked at again: a service that was started anew says so again."""
READ_ASIDE = 64 * 1024
"""Bytes above which a manifest is read in a thread, so that the loop goes on meanwhile."""
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,10})", re.IGNORECASE)


class ServiceDown(JackfieldError):
    """The service did not give its manifest."""

    code = "source_unavailable"


class ManifestFetcher:
    """One service's manifest, as last read."""

    def __init__(
        self, options: ManifestOptions, rules: ManifestRules, *, outgoing: Outgoing, due: Callable[[], None]
    ) -> None:
        """`due` is called when the manifest's time is over, from the event loop."""
        self._options = options
        self._rules = rules
        self._outgoing = outgoing
        self._due = due
        self._timer: asyncio.TimerHandle | None = None
        self._etag: str | None = None
        self._is_due = False
        self._went_back = False
        self.held = ServiceManifest()
        self.house = ""
        """Which house of gateways answers; empty: it is none."""

    def forget(self) -> None:
        """The service may be another than before: ask it for everything, and believe what it says."""
        self._etag, self._is_due, self._went_back = None, False, False
        self.held = ServiceManifest()

    def call_due(self) -> None:
        """The manifest may not be the newest any more."""
        self._is_due = True
        self._due()

    async def fetch(self) -> ServiceManifest:
        """The manifest as it is now. Raises `ServiceDown` or `BadManifest`, and what stands stays."""
        is_due, self._is_due = self._is_due, False
        answer = await self._ask(if_none_match=self._etag if is_due else None)
        if answer.status == HTTPStatus.NOT_MODIFIED and is_due:
            self._plan(answer)
            return self.held
        manifest = await self._read(answer)
        if self._is_older(manifest) and not self._went_back:
            # Most likely an old copy that something between us kept. It is believed when it says so twice.
            answer = await self._ask(if_none_match=None)
            manifest = await self._read(answer)
            if self._is_older(manifest):
                self._went_back = True
                self._plan(answer, within=RECHECK_SECONDS)
                return self.held
        self._went_back = False
        self._etag = answer.headers.get("etag")
        self.house = answer.headers.get(HOUSE_HEADER, "")[:100]
        self.held = manifest
        self._plan(answer)
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

    async def _read(self, answer: OutgoingResponse) -> ServiceManifest:
        if answer.status != HTTPStatus.OK:
            raise ServiceDown(_why(answer.status, self._options.at(PATH)))
        if len(answer.content) <= READ_ASIDE:
            return manifest_of(answer.content, self._rules)
        return await asyncio.to_thread(manifest_of, answer.content, self._rules)

    def _is_older(self, manifest: ServiceManifest) -> bool:
        held, now = self.held.generated_at, manifest.generated_at
        return held is not None and now is not None and now < held

    def _plan(self, answer: OutgoingResponse, *, within: float | None = None) -> None:
        """Ask again when this answer's time is over, or sooner."""
        self.close()
        seconds = time_to_live(answer.headers.get("cache-control", ""), configured=self._options.cache_ttl)
        seconds = seconds if within is None else min(seconds, within)
        self._timer = asyncio.get_running_loop().call_later(seconds, self.call_due)


def time_to_live(cache_control: str, *, configured: float | None) -> float:
    """How long an answer is good: what the config says, else 60 s, else as long as the service allows up to an hour."""
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


CHANGES_PATH = "/api/v1/tools/changes"
CHANGED = "tools.changed"
QUIET_SECONDS = 90.0
"""A stream that says nothing for so long, not even a ping, is taken for dead."""
SPACING = 0.5
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
MAX_EVENT = 1024 * 1024

log = logging.getLogger("jackfield.sources")


class ChangeFollower:
    """One service's changes, for as long as it is up."""

    def __init__(self, name: str, options: ManifestOptions, *, outgoing: Outgoing, changed: Callable[[], None]) -> None:
        self._name = name
        self._options = options
        self._outgoing = outgoing
        self._changed = changed
        self._life: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow, unless that is done already."""
        if self._options.follow and (self._life is None or self._life.done()):
            self._life = asyncio.create_task(self._guarded(), name=f"changes of {self._name}")

    async def close(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            life.cancel()
            await asyncio.wait([life])

    async def _guarded(self) -> None:
        """A fault of ours costs the stream and nothing else: the manifest is still read when its time is over."""
        try:
            await self._follow()
        except Exception:
            log.exception("the changes of %s are not followed any more", self._name)

    async def _follow(self) -> None:
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            try:
                async with asyncio.timeout(self._options.timeout):
                    answer = await self._connect()
            except (OutgoingError, TimeoutError) as fault:
                log.debug("the changes of %s cannot be followed now: %s", self._name, fault)
            else:
                if not _is_stream(answer):
                    await answer.aclose()
                    return
                self._changed()  # what changed between the manifest and this stream was told to nobody
                if await self._hear(answer):
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

    async def _hear(self, answer: StreamedResponse) -> bool:
        """Until the stream ends, one way or another; whether it said anything."""
        parser = EventParser()
        heard, size = False, 0
        parts = answer.aiter_bytes()
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
                    await asyncio.sleep(SPACING)  # a service that changes without end is read no faster than this
        except (OutgoingError, TimeoutError) as fault:
            log.debug("the stream of changes of %s broke: %s", self._name, fault)
            return heard
        finally:
            await answer.aclose()


def _is_stream(answer: StreamedResponse) -> bool:
    media = answer.headers.get("content-type", "")
    return answer.status == HTTPStatus.OK and media.startswith("text/event-stream")
