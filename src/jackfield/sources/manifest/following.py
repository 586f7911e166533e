"""Hears of a service's changes as they happen, where it tells them: `GET /api/v1/tools/changes`.

Above: `source.py`. Below: `outgoing`. A stream that ends means that the service may be gone: its manifest is asked for
at once, and that says whether it is. A service without such a stream is asked when its manifest's time is over.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus

from jackfield.protocol.sse import EventParser
from jackfield.sources.manifest.options import ManifestOptions
from jackfield.sources.outgoing import Outgoing, OutgoingError, StreamedResponse

PATH = "/api/v1/tools/changes"
CHANGED = "tools.changed"
QUIET_SECONDS = 90.0
"""A stream that says nothing for so long, not even a ping, is taken for dead."""
SPACING = 0.5
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
MAX_EVENT = 1024 * 1024

log = logging.getLogger("jackfield.sources")


class Follower:
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
        pause = FIRST_PAUSE
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
                    pause = FIRST_PAUSE
                self._changed()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _connect(self) -> StreamedResponse:
        return await self._outgoing.send(
            "GET",
            self._options.at(PATH),
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
