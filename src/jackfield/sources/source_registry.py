"""All sources by name: added, replaced, removed and asked one by one.

Above: the catalog (listings), the pipeline (execute), the handlers (statuses). Below: a supervisor for each source.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine, Iterable
from contextlib import suppress
from functools import partial

from msgspec import Raw, Struct

from jackfield.errors import JackfieldError, SourceUnavailable
from jackfield.model.call import Outcome
from jackfield.model.skill import Skill
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
    Updated,
)
from jackfield.sources.supervisor import SourceState, SourceStatus, SourceSupervisor

log = logging.getLogger("jackfield.sources")


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


def _tell_nobody() -> None:
    return
