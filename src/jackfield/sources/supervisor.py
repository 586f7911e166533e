"""Brings sources up, keeps what they last listed, and lets each go down alone.

Every source has one supervisor: a task that opens it, reads its tools, and on a fault tries again with growing pauses,
which a call that needs the source cuts short. What a source listed before stays listed while it is down, and reading a
listing never waits for a source. One that takes another's place shows the other's list until it has read its own, and
calls wait for that; the other sees its running calls to their end before it is closed.
Above: the catalog (listings), the pipeline (execute), the handlers (statuses). Below: the sources.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Container, Coroutine, Iterable
from contextlib import suppress
from enum import Enum
from functools import partial

import msgspec
from msgspec import Raw, Struct

from jackfield.errors import JackfieldError, SourceUnavailable, ToolNotFound, UpstreamFailed
from jackfield.model.call import Failed, Outcome
from jackfield.model.skill import Skill
from jackfield.model.text import iso_time
from jackfield.model.tool import ToolKind
from jackfield.outgoing import answers_noted_on
from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.jsonrpc import METHOD_NOT_FOUND, RpcError
from jackfield.sources.base import (
    NO_COMPLETION,
    About,
    Begun,
    CompletingSource,
    CompletionRequest,
    InTransaction,
    Invocation,
    Listing,
    LoginSource,
    OperatingSource,
    SkillSource,
    Source,
    SubscribableSource,
    TalkativeSource,
    Updated,
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
        self._is_awaited = before is not None
        self._was_up = False
        self._is_retiring = False
        self._is_restarting = False
        self._drained = asyncio.Event()
        self._failures: deque[str] = deque(maxlen=MOST_FAILURES)
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
        self._failures.append(f"{iso_time(_now_ms())} {self._redact(' '.join(sentences))}")

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
        broken = [one.why for one in self.listing.unoffered if one.is_broken]
        is_faulty = self.state is SourceState.UP and bool(broken)
        return SourceStatus(
            name=self.source.name,
            kind=self.source.kind,
            status=SourceState.FAULTY if is_faulty else self.state,
            error=" ".join(broken[:MOST_TOLD]) if is_faulty else self.error,
            tools=len(self.listing.tools),
            resources=len(self.listing.resources),
            templates=len(self.listing.templates),
            prompts=len(self.listing.prompts),
            faults=self.listing.faults,
            calls=self.running,
            doing=None if talkative is None or self.state in _TAKE_CALLS else talkative.doing(),
            last_words=(() if talkative is None else talkative.last_words()) or tuple(self._failures),
            since=self.since,
            checked_at=self.checked_at,
            listed_at=self.listed_at,
            reconnects=self.reconnects,
        )

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


class _Subscription(Struct, frozen=True, eq=False):
    """Somebody who follows a resource of a source."""

    uri: str
    updated: Updated
    principal: str


class SourceRegistry:
    """All sources, in config order, each of them added, replaced and removed without touching another."""

    def __init__(self, *, on_listing: Callable[[], None], redact: Callable[[str], str] = str) -> None:
        """`redact` takes secrets out of what went wrong."""
        self._on_listing = on_listing
        self._redact = redact
        self._supervisors: dict[str, SourceSupervisor] = {}
        self._subscriptions: dict[str, set[_Subscription]] = {}
        """By source: who follows a resource stays a follower when the source is replaced."""
        self._retiring: set[SourceSupervisor] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        """Sources that see their last calls to the end, and subscriptions that are made anew."""
        self._lent: dict[str, SourceSupervisor] = {}
        """Sources that somebody brought along for a while: they execute, and are listed nowhere."""

    async def add(self, source: Source) -> None:
        """Begin to keep a source. Returns at once; the source comes up by itself. A known name: as `replace`."""
        await self.replace(source)

    async def replace(self, source: Source) -> None:
        """Have a source take the place of the one of its name.

        The new one comes up by itself, and calls wait until it has or has failed. Calls that run at the other go on
        there, for 30 s at most.
        """
        await self.exchange((), (source,))

    async def exchange(self, gone: Iterable[str], come: Iterable[Source]) -> None:
        """Keep the sources of these names no longer, and others from now on, all at the same time."""
        over = [*map(self._take_out, gone), *map(self._put_in, come)]
        for supervisor in over:
            if supervisor is not None:
                await self._retire(supervisor)

    def _put_in(self, source: Source) -> SourceSupervisor | None:
        """Returns the one that it takes the place of."""
        before = self._supervisors.get(source.name)
        made = SourceSupervisor(source, on_listing=self._on_listing, redact=self._redact, before=before)
        self._supervisors[source.name] = made
        if before is not None and self._subscriptions.get(source.name):
            self._keep(self._subscribe_anew(made), f"subscriptions of {source.name}")
        return before

    def _take_out(self, name: str) -> SourceSupervisor | None:
        supervisor = self._supervisors.pop(name, None)
        if supervisor is not None:
            self._subscriptions.pop(name, None)
            self._on_listing()
        return supervisor

    def get(self, name: str) -> Source | None:
        """The source of this name, if one is kept."""
        supervisor = self._supervisors.get(name)
        return None if supervisor is None else supervisor.source

    def restart(self, name: str) -> bool:
        """Close a source and open it again. False: there is none of that name."""
        supervisor = self._supervisors.get(name)
        if supervisor is not None:
            supervisor.restart()
        return supervisor is not None

    async def remove(self, name: str) -> None:
        """Keep the source no longer. Its tools are gone at once; calls that run there go on, for 30 s at most."""
        await self.exchange((name,), ())

    async def _retire(self, supervisor: SourceSupervisor) -> None:
        """Now if it has nothing to do, else without holding anybody up."""
        if not supervisor.running:
            await supervisor.close()
            return
        self._retiring.add(supervisor)
        task = self._keep(supervisor.retire(), f"the last calls of {supervisor.source.name}")
        task.add_done_callback(lambda _: self._retiring.discard(supervisor))

    def _keep(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _subscribe_anew(self, supervisor: SourceSupervisor) -> None:
        """Who followed resources of the source before it was replaced follows them there, and reads them again."""
        await supervisor.settled.wait()
        name, source = supervisor.source.name, supervisor.source
        for one in list(self._subscriptions.get(name, ())):
            if self._supervisors.get(name) is not supervisor or not isinstance(source, SubscribableSource):
                return
            try:
                await source.subscribe(one.uri, one.updated, principal=one.principal)
            except (JackfieldError, RpcError) as fault:
                log.warning("source %s: a subscription could not be made anew: %s", name, fault)
            one.updated(one.uri)

    async def lend(self, source: Source) -> None:
        """Begin to keep a source for those who know its name."""
        self._lent[source.name] = SourceSupervisor(source, on_listing=_tell_nobody, redact=self._redact)

    def take_back(self, name: str) -> SourceSupervisor | None:
        """Nobody needs a lent source any more: it is not lent from now on, and who takes it back closes it."""
        return self._lent.pop(name, None)

    async def lent(self, name: str, *, within: float) -> tuple[SourceStatus, Listing]:
        """How a lent source is, and its tools, once it has come up or failed, or after `within` seconds.

        One that was down is tried again: somebody needs it now.
        """
        supervisor = self._lent[name]
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                if supervisor.state is SourceState.DOWN:
                    await supervisor.refresh()
                await supervisor.settled.wait()
        return supervisor.status(), supervisor.listing

    async def close(self) -> None:
        for leaving in self._retiring:
            leaving.hurry()
        await asyncio.gather(
            *self._tasks,
            *(supervisor.close() for supervisor in (*self._supervisors.values(), *self._lent.values())),
        )

    async def settled(
        self, *, within: float, kinds: Container[str] | None = None, names: Container[str] | None = None
    ) -> bool:
        """Wait until every source (of these kinds or names) has come up or failed once, at most `within` seconds.

        False: one of them has done neither.
        """
        supervisors = [
            one
            for one in self._supervisors.values()
            if (kinds is None or one.source.kind in kinds) and (names is None or one.source.name in names)
        ]
        waits = [asyncio.ensure_future(supervisor.settled.wait()) for supervisor in supervisors]
        if waits:
            _, late = await asyncio.wait(waits, timeout=within)
            for wait in late:
                wait.cancel()
        return all(supervisor.settled.is_set() for supervisor in supervisors)

    def listings(self) -> list[tuple[str, Listing]]:
        return [(name, supervisor.listing) for name, supervisor in self._supervisors.items()]

    def about(self, name: str) -> About:
        """What the source says of itself, where it is a service of its own."""
        supervisor = self._supervisors.get(name)
        return (supervisor.listing.about if supervisor is not None else None) or About()

    def statuses(self) -> list[SourceStatus]:
        return [supervisor.status() for supervisor in self._supervisors.values()]

    def request_refresh(self, name: str) -> None:
        """A source says that its tools may have changed."""
        supervisor = self._supervisors.get(name) or self._lent.get(name)
        if supervisor is not None:
            supervisor.request_refresh()

    def login_changed(self, source: str, principal: str | None, *, is_over: bool) -> None:
        """A login at the source was made anew or has ended; None: the one for all. It is listed anew at once."""
        supervisor = self._supervisors.get(source)
        if supervisor is None:
            return
        if isinstance(supervisor.source, LoginSource):
            supervisor.source.login_changed(principal, is_over=is_over)
        supervisor.request_refresh()

    async def refresh(self, name: str | None = None) -> None:
        """Read one source's tools, or everybody's, anew and wait until that was tried."""
        wanted = self._supervisors.values() if name is None else [self._supervisors[name]]
        await asyncio.gather(*(supervisor.refresh() for supervisor in wanted))

    async def execute(self, source: str, invocation: Invocation) -> Outcome | InTransaction | Begun:
        return await self._supervisor_of(source, invocation.tool.name).execute(invocation)

    def operating(self, source: str, *, tool: str) -> OperatingSource:
        """The source, to have work begun and followed that goes on at the owner of `tool`."""
        operating = self._up(source, tool)
        if not isinstance(operating, OperatingSource):
            raise SourceUnavailable(f"Source '{source}' has no work of '{tool}' that could be followed.")
        return operating

    async def complete(self, source: str, request: CompletionRequest) -> Raw:
        """Values that an argument may have, as the source suggests them; none where it suggests nothing."""
        completing = self._up(source, request.name, what=request.operation.value)
        return await completing.complete(request) if isinstance(completing, CompletingSource) else NO_COMPLETION

    async def skill(self, source: str, uri: str, *, principal: str) -> Skill | None:
        """A skill as its source describes it now; None: it has none there."""
        asked = self._up(source, uri, what="skill")
        return await asked.skill(uri, principal=principal) if isinstance(asked, SkillSource) else None

    async def directory(self, source: str, uri: str, cursor: str | None, *, principal: str) -> Raw:
        """What a directory has. Raises `SourceUnavailable`, `LoginNeeded` or `RpcError`."""
        asked = self._up(source, uri, what="directory")
        if not isinstance(asked, SkillSource):
            raise RpcError(METHOD_NOT_FOUND, f"Source '{source}' does not read directories.")
        return await asked.directory(uri, cursor, principal=principal)

    async def subscribe(self, source: str, uri: str, updated: Updated, *, principal: str) -> Callable[[], None]:
        """Follow a resource; returns how to end that. Raises `SourceUnavailable`, `LoginNeeded` or `RpcError`."""
        followed = self._up(source, uri, what="resource")
        if not isinstance(followed, SubscribableSource):
            raise RpcError(METHOD_NOT_FOUND, f"Source '{source}' does not offer subscriptions to resources.")
        await followed.subscribe(uri, updated, principal=principal)
        subscription = _Subscription(uri, updated, principal)
        self._subscriptions.setdefault(source, set()).add(subscription)
        return partial(self._unsubscribe, source, subscription)

    def _unsubscribe(self, source: str, subscription: _Subscription) -> None:
        subscriptions = self._subscriptions.get(source, set())
        if subscription in subscriptions:
            subscriptions.remove(subscription)
            if not subscriptions:
                del self._subscriptions[source]
        supervisor = self._supervisors.get(source) or self._lent.get(source)
        if supervisor is not None and isinstance(supervisor.source, SubscribableSource):
            supervisor.source.unsubscribe(subscription.uri, subscription.updated, principal=subscription.principal)

    def _up(self, source: str, name: str, *, what: str = "tool") -> Source:
        supervisor = self._supervisor_of(source, name, what=what)
        supervisor.require_up(name, what=what)
        return supervisor.source

    def _supervisor_of(self, source: str, name: str, *, what: str = "tool") -> SourceSupervisor:
        supervisor = self._supervisors.get(source) or self._lent.get(source)
        if supervisor is None:
            raise SourceUnavailable(f"Source '{source}' of {what} '{name}' is gone. List the {what}s anew.")
        return supervisor


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def of_kind(listing: Listing, kind: ToolKind) -> Listing:
    """The listing with every tool of the kind that its source executes (seed 001)."""
    if all(tool.kind is kind for tool in listing.tools):
        return listing
    tools = tuple(tool if tool.kind is kind else msgspec.structs.replace(tool, kind=kind) for tool in listing.tools)
    return msgspec.structs.replace(listing, tools=tools)


def _tell_nobody() -> None:
    return


def sentence_of(fault: Exception) -> str:
    """What went wrong, for people."""
    if isinstance(fault, TimeoutError) and not str(fault):
        return f"It did not answer within {OPEN_SECONDS:g} s."
    text = str(fault) or type(fault).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _unexpected(fault: Exception) -> bool:
    """Whether a traceback says more than the sentence does."""
    return not isinstance(fault, (JackfieldError, OSError, TimeoutError))
