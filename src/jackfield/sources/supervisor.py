"""Brings sources up, keeps what they last listed, and lets each go down alone.

Every source has one supervisor: a task that opens it, reads its tools, and on a fault tries again with growing pauses,
which a call that needs the source cuts short. What a source listed before stays listed while it is down, and reading a
listing never waits for a source. One that takes another's place shows the other's list until it has read its own, and
calls wait for that; the other sees its running calls to their end before it is closed.
Above: the registry. Below: the sources.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

import msgspec
from msgspec import Struct

from jackfield.errors import JackfieldError, SourceUnavailable, ToolNotFound, UpstreamFailed
from jackfield.model.call import Failed, Outcome
from jackfield.model.text import iso_time
from jackfield.model.tool import ToolKind
from jackfield.outgoing import answers_noted_on
from jackfield.protocol.backoff import RetryDelays
from jackfield.sources.base import (
    Begun,
    InTransaction,
    Invocation,
    Listing,
    Source,
    TalkativeSource,
)
from jackfield.sources.slots import CallSlot

log = logging.getLogger("jackfield.sources")

OPEN_SECONDS = 30.0
CLOSE_SECONDS = 10.0
DRAIN_SECONDS = 30.0
"""How long the running calls of a source that was replaced or removed may go on."""
MOST_FAILURES = 50
_FAULTS_OF_THE_SOURCE = frozenset(
    {"bad_response", "bad_result", "http_error", "mcp_error", "source_unavailable", "timeout", "unreachable"}
)
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
SAID_LINES = 10
MOST_TOLD = 3
LONGEST_REFRESH_PAUSE = 5.0
NEEDED_PAUSE = 1.0
"""The longest pause between attempts while calls come that need the source."""


class SourceState(Enum):
    """How a source is."""

    STARTING = "starting"
    UP = "up"
    DOWN = "down"
    FAULTY = "faulty"
    """Up, but a part of it is broken and cannot be offered."""
    LOGIN_NEEDED = "login_needed"
    """It takes calls, and shows its last known list: what it offers now is seen after a login only."""

    @property
    def takes_calls(self) -> bool:
        return self in (SourceState.UP, SourceState.FAULTY, SourceState.LOGIN_NEEDED)


_TAKE_CALLS = (SourceState.UP, SourceState.LOGIN_NEEDED)


class SourceStatus(Struct, frozen=True, kw_only=True):
    """A source as it is shown to people."""

    name: str
    kind: str
    status: SourceState
    error: str | None
    tools: int
    resources: int = 0
    templates: int = 0
    prompts: int = 0
    faults: tuple[str, ...]
    calls: int
    """How many run now."""
    doing: str | None = None
    """What it is busy with while it is not up."""
    last_words: tuple[str, ...] = ()
    """The newest lines that it said on stderr, or of what failed there; for its operator alone."""
    since: int | None = None
    """Since when it is as it is."""
    checked_at: int | None = None
    """When its tools were last read or tried to be, in milliseconds since 1970; None: not yet."""
    listed_at: int | None = None
    """When they were last read."""
    reconnects: int = 0
    """How often it came up again after it was down."""


class _Failure(Struct, frozen=True, kw_only=True):
    """What went wrong there, once or time and again."""

    said: str
    at: int
    times: int
    since: int | None
    """The first of several times."""

    def __str__(self) -> str:
        again = "" if self.since is None else f" ({self.times} times since {iso_time(self.since)})"
        return f"{iso_time(self.at)} {self.said}{again}"


class SourceSupervisor:
    """One source and its life."""

    def __init__(
        self,
        source: Source,
        *,
        on_listing: Callable[[], None],
        redact: Callable[[str], str] = str,
        before: "SourceSupervisor | None" = None,
    ) -> None:
        """`redact` takes secrets out of what went wrong; `before`: the one whose place it takes."""
        self.source = source
        self.state = SourceState.STARTING
        self.error: str | None = None
        self.listing: Listing = Listing() if before is None else before.listing
        self.running = 0
        self.checked_at: int | None = None
        self.listed_at: int | None = None
        self.reconnects = 0
        self.since = _now_ms()
        self._is_faulty = False
        self._faulty_changed_at = 0
        self._is_awaited = before is not None
        self._was_up = False
        self._is_retiring = False
        self._is_restarting = False
        self._drained = asyncio.Event()
        self._failures: deque[_Failure] = deque(maxlen=MOST_FAILURES)
        """What went wrong last, for whoever looks for the reason; the newest at the end."""
        self._talkative = source if isinstance(source, TalkativeSource) else None
        self.settled = asyncio.Event()
        """Set when the first attempt has ended, well or badly."""
        self._on_listing = on_listing
        self._redact = redact
        self._tried_at = time.monotonic()
        self._wanted = asyncio.Event()
        self._refreshed = asyncio.Event()
        self._slots = asyncio.Semaphore(source.max_concurrency) if source.max_concurrency else None
        self._life = asyncio.create_task(self._live(), name=f"source {source.name}")

    async def execute(self, invocation: Invocation) -> Outcome | InTransaction | Begun:
        """Run one call, when the source has a slot free. A source that is down refuses, and what it does not have."""
        if self._is_awaited and not self.settled.is_set():
            await self.settled.wait()  # it is the new shape of a source that was up a moment ago
        self.require_up(invocation.tool.name, what=invocation.tool.operation.value)
        if not self.source.can_execute(invocation.tool):
            self.request_refresh()
            raise ToolNotFound(
                f"Source '{self.source.name}' has no tool '{invocation.tool.name}' any more. List the tools anew."
            )
        self.running += 1
        try:
            return await self._execute(invocation)
        except (SourceUnavailable, UpstreamFailed) as fault:
            self._note_failure(f"{invocation.tool.name}: {fault.message}", *answers_noted_on(fault))
            raise
        finally:
            self.running -= 1
            if self._is_retiring and not self.running:
                self._drained.set()

    async def _execute(self, invocation: Invocation) -> Outcome | InTransaction | Begun:
        if self._slots is None:
            outcome = await self.source.execute(invocation)
        else:
            async with CallSlot(self._slots) as slot:
                outcome = await self.source.execute(slot.lent_to(invocation))
        is_shown = not invocation.tool.metadata.sensitive_output
        if isinstance(outcome, Failed) and outcome.code in _FAULTS_OF_THE_SOURCE and is_shown:
            self._note_failure(f"{invocation.tool.name}: {outcome.message}")
        return outcome

    def _note_failure(self, *sentences: str) -> None:
        said, now, times, since = self._redact(" ".join(sentences)), _now_ms(), 1, None
        if self._failures and self._failures[-1].said == said:
            last = self._failures.pop()
            times, since = last.times + 1, last.since or last.at
        self._failures.append(_Failure(said=said, at=now, times=times, since=since))

    def require_up(self, name: str, *, what: str = "tool") -> None:
        """Raise `SourceUnavailable` while the source is down; it is tried again soon, since it is needed."""
        if self.state not in _TAKE_CALLS:
            self._try_for_a_call()
            why = self.error or "it has not come up yet"
            raise SourceUnavailable(f"Source '{self.source.name}' of {what} '{name}' is down: {why} Try again later.")

    def request_refresh(self) -> None:
        """Read the tools anew soon; also ends a pause between attempts."""
        self._wanted.set()

    async def refresh(self) -> None:
        """Read the tools anew and wait until that was tried."""
        self._refreshed.clear()
        self._wanted.set()
        await self._refreshed.wait()

    def restart(self) -> None:
        """Close the source and open it again, at once. Calls that run there fail; later ones wait for it."""
        if self._is_restarting:
            return  # it has not been opened since
        self._is_restarting = True
        self._life.cancel()
        self.settled.clear()
        self.error, self._is_awaited = None, True
        self._is(SourceState.STARTING)
        self._life = asyncio.create_task(self._live_again(self._life), name=f"source {self.source.name}")

    async def _live_again(self, before: "asyncio.Task[None]") -> None:
        await asyncio.wait([before])
        await self._close_source()
        self._wanted.clear()
        self._is_restarting = False
        await self._live()

    async def retire(self) -> None:
        """Close it when its running calls are over, or have had their time."""
        self._is_retiring = True
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._drained.wait()
        if self.running:
            log.warning("source %s is closed with %d calls running", self.source.name, self.running)
        await self.close()

    def hurry(self) -> None:
        """Do not wait for running calls any more."""
        self._drained.set()

    async def close(self) -> None:
        self._life.cancel()
        await asyncio.wait([self._life])
        self.settled.set()  # nobody tries any more, so nobody waits for that
        self._refreshed.set()
        await self._close_source()

    def status(self) -> SourceStatus:
        talkative = self._talkative
        found, broken = self._broken_parts()
        is_faulty = self._is_faulty
        return SourceStatus(
            name=self.source.name,
            kind=self.source.kind,
            status=SourceState.FAULTY if is_faulty else self.state,
            error=" ".join(broken[:MOST_TOLD]) if is_faulty else self.error,
            tools=len(self.listing.tools),
            resources=len(self.listing.resources),
            templates=len(self.listing.templates),
            prompts=len(self.listing.prompts),
            faults=(*self.listing.faults, *found),
            calls=self.running,
            doing=None if talkative is None or self.state in _TAKE_CALLS else talkative.doing(),
            last_words=(() if talkative is None else talkative.last_words()) or tuple(map(str, self._failures)),
            since=max(self.since, self._faulty_changed_at),
            checked_at=self.checked_at,
            listed_at=self.listed_at,
            reconnects=self.reconnects,
        )

    def _broken_parts(self) -> tuple[tuple[str, ...], list[str]]:
        """What turned out broken when it was used, and all that is broken. Also notes whether the source is faulty: a
        part can break at any call, so that is known when the list is read, and else when somebody looks.
        """
        found = () if self._talkative is None else tuple(map(self._redact, self._talkative.broken()))
        broken = [*(one.why for one in self.listing.unoffered if one.is_broken), *found]
        is_faulty = self.state is SourceState.UP and bool(broken)
        if is_faulty is not self._is_faulty:
            self._is_faulty, self._faulty_changed_at = is_faulty, _now_ms()
        return found, broken

    @property
    def _open_seconds(self) -> float:
        return OPEN_SECONDS if self._talkative is None else max(OPEN_SECONDS, self._talkative.open_seconds)

    def _try_for_a_call(self) -> None:
        """A source that somebody needs now does not rest for long."""
        if time.monotonic() - self._tried_at >= NEEDED_PAUSE:
            self._wanted.set()

    async def _live(self) -> None:
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            try:
                async with asyncio.timeout(self._open_seconds):
                    await self.source.open()
                    await self._read()
                self.reconnects += self._was_up
                self._was_up = True
                delays.reset()
                await self._follow()
            except Exception as fault:  # noqa: BLE001 - a border: whatever one source raises is its own fault alone
                self._went_down(fault)
                await self._close_source()
            await self._rest(delays.next())

    async def _follow(self) -> None:
        """Up: read the tools anew whenever that is wanted, until it fails."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            began = time.monotonic()
            async with asyncio.timeout(self._open_seconds):
                await self._read()
            # A server that announces changes without end has its lists read no more than half of the time.
            await asyncio.sleep(min(time.monotonic() - began, LONGEST_REFRESH_PAUSE))

    async def _read(self) -> None:
        listing = of_kind(await self.source.refresh(), self.source.tool_kind)
        state = SourceState.UP if listing.login_needed is None else SourceState.LOGIN_NEEDED
        changed = listing != self.listing or self.state is not state
        if listing.login_needed is not None and self.state is not state:
            log.info("source %s: %s", self.source.name, listing.login_needed)
        self.listing, self.error = listing, listing.login_needed
        self.listed_at = _now_ms()
        self._is(state)
        self._broken_parts()
        if changed:
            for fault in listing.faults:
                log.warning("source %s: %s", self.source.name, fault)
            self._on_listing()
        self._tried()

    def _went_down(self, fault: Exception) -> None:
        self._wanted.clear()  # whoever asked before has had this try; the next one waits for its time
        self.error = self._redact(sentence_of(fault))
        self._note_failure(self.error, *answers_noted_on(fault))
        if self.state is not SourceState.DOWN:
            log.warning(
                "source %s is down: %s%s", self.source.name, self.error, self._said(), exc_info=_unexpected(fault)
            )
        self._is(SourceState.DOWN)
        self._on_listing()
        self._tried()

    def _is(self, state: SourceState) -> None:
        if state is not self.state:
            self.state, self.since = state, _now_ms()

    def _said(self) -> str:
        """The end of what it said, for the log: the line with the cause is the last, not the first."""
        lines = () if self._talkative is None else self._talkative.last_words()[-SAID_LINES:]
        return "".join(f"\n    {line}" for line in lines)

    def _tried(self) -> None:
        self.checked_at = _now_ms()
        self._tried_at = time.monotonic()
        self.settled.set()
        self._refreshed.set()

    async def _rest(self, pause: float) -> None:
        try:
            async with asyncio.timeout(pause):
                await self._wanted.wait()
        except TimeoutError:
            return
        self._wanted.clear()

    async def _close_source(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.source.close()
        except Exception:
            log.exception("source %s did not close cleanly", self.source.name)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def of_kind(listing: Listing, kind: ToolKind) -> Listing:
    """The listing with every tool of the kind that its source executes (seed 001)."""
    if all(tool.kind is kind for tool in listing.tools):
        return listing
    tools = tuple(tool if tool.kind is kind else msgspec.structs.replace(tool, kind=kind) for tool in listing.tools)
    return msgspec.structs.replace(listing, tools=tools)


def sentence_of(fault: Exception) -> str:
    """What went wrong, for people."""
    if isinstance(fault, TimeoutError) and not str(fault):
        return f"It did not answer within {OPEN_SECONDS:g} s."
    text = str(fault) or type(fault).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _unexpected(fault: Exception) -> bool:
    """Whether a traceback says more than the sentence does."""
    return not isinstance(fault, (JackfieldError, OSError, TimeoutError))
