"""Trying a source without keeping it, and what stands for one that cannot run."""

import asyncio
from contextlib import suppress
from typing import ClassVar

from msgspec import Struct

from jackfield.errors import SourceUnavailable
from jackfield.model.call import Failed, Outcome
from jackfield.model.tool import Tool, ToolKind
from jackfield.sources.base import Invocation, Listing, Source, TalkativeSource
from jackfield.sources.supervisor import CLOSE_SECONDS, OPEN_SECONDS, sentence_of

TEST_SECONDS = 60.0


class Trial(Struct, frozen=True, kw_only=True):
    """What came of trying a source."""

    listing: Listing
    error: str | None
    last_words: tuple[str, ...]


async def try_source(source: Source) -> Trial:
    """Open a source, list it and close it."""
    talkative = source if isinstance(source, TalkativeSource) else None
    allowed = OPEN_SECONDS if talkative is None else max(OPEN_SECONDS, talkative.open_seconds)
    listing, error = Listing(), None
    try:
        async with asyncio.timeout(min(allowed, TEST_SECONDS)):
            await source.open()
            listing = await source.refresh()
        error = listing.login_needed
    except Exception as fault:  # noqa: BLE001 - a border: whatever a source raises is what the test found
        error = sentence_of(fault)
    words = () if talkative is None else talkative.last_words()
    with suppress(Exception):
        async with asyncio.timeout(CLOSE_SECONDS):
            await source.close()
    return Trial(listing=listing, error=error, last_words=words)


class UnusableSource:
    """Stands for a source that cannot run here: it is down, and says why."""

    tool_kind: ClassVar[ToolKind] = ToolKind.INTERNAL

    def __init__(self, name: str, kind: str, fault: str) -> None:
        self.name = name
        self.kind = kind
        self.max_concurrency: int | None = None
        self._fault = fault

    async def open(self) -> None:
        raise SourceUnavailable(self._fault)

    async def refresh(self) -> Listing:
        return Listing()

    async def execute(self, invocation: Invocation) -> Outcome:
        return Failed("source_unavailable", f"Tool '{invocation.tool.name}' cannot be called: {self._fault}")

    def can_execute(self, tool: Tool) -> bool:  # noqa: ARG002 - it executes none
        return False

    async def close(self) -> None:
        """Nothing was opened."""
