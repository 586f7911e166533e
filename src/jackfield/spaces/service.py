"""The spaces of one gateway: who follows which, and what is in flight.

Above: the handlers, which follow; agents, which write through `live`. Below: one feed per space that is followed.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import Struct

from jackfield.model.space import LIVE_TOPIC, SPACE_TOPIC, SpaceEvent
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.cluster import RemoteDrafts, Sharing
from jackfield.spaces.drafts import Flight
from jackfield.spaces.frames import Passing, connected, durable, passing
from jackfield.spaces.live import Live
from jackfield.store.base import Store

MOST_FRAMES = 1_000
MOST_BYTES = 8 * 1024 * 1024
"""How far a follower may be behind. A slower one is cut off, comes back with `Last-Event-ID` and has lost nothing."""


class Subscription:
    """The backlog of one follower. Nothing in it grows but what waits to be sent."""

    __slots__ = ("_frames", "_is_closed", "_size", "_waiter", "after", "agents")

    def __init__(self, *, after: int, agents: tuple[str, ...] = ()) -> None:
        self.after = after
        """Durable events up to here are not wanted."""
        self.agents = agents
        """As whom it follows, if only members may."""
        self._frames: list[bytes] = []
        self._size = 0
        self._is_closed = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, frame: bytes) -> None:
        """One more frame; too many close it, after those that it has."""
        if self._is_closed:
            return
        self._frames.append(frame)
        self._size += len(frame)
        if len(self._frames) > MOST_FRAMES or self._size > MOST_BYTES:
            self._is_closed = True
        if self._waiter is not None:
            self._wake()

    async def take(self) -> bytes:
        """All that waits, as soon as something does; nothing: it is closed."""
        if not self._frames and not self._is_closed:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        frames, self._frames = self._frames, []
        self._size = 0
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def close(self) -> None:
        """No more frames; those that wait are still taken."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


log = logging.getLogger(__name__)

PAGE = 200
"""Events that are read at once."""
LOOK_AFTER = 5.0
"""Seconds after which it is seen whether the others that write are still there."""
LOST_AFTER = 15.0
"""Seconds after which it looks though nobody woke it: a gateway may have died between a commit and its word."""
AGAIN_AFTER = 1.0
"""Seconds until the next try when the store could not be read."""
REMEMBERED = 1_000
"""Streams of which it is known that they are over."""
_STARTED = "tool.started"
_LEFT = "member.left"
_ENDING = frozenset({"space.message", "tool.done", "tool.error"})
_NOTED = _ENDING | {_STARTED, _LEFT}


class _About(Struct, frozen=True, rename="camel"):
    """What an event is about, as far as it matters here."""

    stream_id: str | None = None
    entity_id: str | None = None


_about = msgspec.json.Decoder(_About).decode


class Feed:
    """The stream of one space at this gateway, as long as somebody follows it."""

    def __init__(self, space_id: str, *, store: Store, live: Live, gateway_id: str) -> None:
        self.space_id = space_id
        self.position = 0
        """Events up to this number have been handed out, or were before anybody followed."""
        self.followers = 0
        """Those who follow, or are about to."""
        self.is_over = False
        """The space is gone."""
        self._store = store
        self._live = live
        self._elsewhere = RemoteDrafts(gateway_id)
        self._subscriptions: set[Subscription] = set()
        self._over: dict[str, None] = {}
        self._written = asyncio.Event()
        self._told = asyncio.Event()
        self._has_begun = asyncio.Event()
        self._reader = asyncio.create_task(self._run(), name=f"feed of {space_id}")

    async def begun(self) -> None:
        """Until its position is known; as long as the store is away, that is not."""
        await self._has_begun.wait()

    async def stop(self) -> None:
        self._reader.cancel()
        await asyncio.wait((self._reader,))

    def look(self) -> None:
        """There may be durable events that it has not handed out."""
        self._written.set()

    def subscribe(self, *, after: int, agents: tuple[str, ...] = ()) -> Subscription:
        """From now on: everything that is handed out, but for durable events up to `after`."""
        subscription = Subscription(after=after, agents=agents)
        self._subscriptions.add(subscription)
        if self.is_over:
            subscription.close()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def hand_out(self, frame: bytes) -> None:
        """Something in flight, to all."""
        for subscription in self._subscriptions:
            subscription.put(frame)

    def in_flight(self) -> list[Flight]:
        return [*self._live.in_space(self.space_id), *self._elsewhere.flights]

    async def _run(self) -> None:
        bus = self._store.bus
        with (
            bus.listen(SPACE_TOPIC + self.space_id, event=self._written),
            bus.listen(LIVE_TOPIC + self.space_id, event=self._told),
        ):
            await self._tried(self._find_position)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_events())
                if self._store.is_shared:
                    group.create_task(self._follow_rows())

    async def _follow_events(self) -> None:
        self._written.set()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOST_AFTER if self._store.is_shared else None):
                    await self._written.wait()
            self._written.clear()
            await self._tried(self._read_events)

    async def _follow_rows(self) -> None:
        self._told.set()
        while True:
            # A gateway that dies tells nobody: as long as one is writing, somebody looks after it.
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AFTER if self._elsewhere.flights else None):
                    await self._told.wait()
            self._told.clear()
            await self._tried(self._read_rows)

    async def _tried(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do it, if need be again and again: a store that is away comes back."""
        while True:
            try:
                await act()
            except Exception:
                log.exception("space %s could not be read; trying again", self.space_id)
                await asyncio.sleep(AGAIN_AFTER)
            else:
                return

    async def _find_position(self) -> None:
        position = await self._store.read(partial(space_tx.last_seq, self.space_id))
        if position is None:
            self._end()
        self.position = position or 0
        self._has_begun.set()

    async def _read_events(self) -> None:
        """Hand out all that is there, and after it what may be shown by now."""
        hidden = self._hidden()
        found = False
        while page := await self._store.read(partial(space_tx.events_after, self.space_id, self.position, PAGE)):
            found = True
            for event in page:
                self._tell(event)
            if len(page) < PAGE:
                break
        self._show_all(hidden)
        if not found:
            last = await self._store.read(partial(space_tx.last_seq, self.space_id))
            if last is None or last < self.position:  # it was deleted, and perhaps made again
                self._end()

    async def _read_rows(self) -> None:
        rows = await self._store.read(partial(space_tx.live_in, self.space_id))
        self._hand_out_all(self._elsewhere.update(rows, over=self._over))
        if self._hidden():
            self.look()

    def _tell(self, event: SpaceEvent) -> None:
        frame, seq = durable(event), event.seq
        about = _about(event.data) if event.type in _NOTED else _About()
        if about.stream_id and event.type in _ENDING:
            self._remember_end(about.stream_id)
        self.position = seq
        for subscription in self._subscriptions:
            if seq > subscription.after:
                subscription.put(frame)
        if event.type == _STARTED:
            self._show_all(flight for flight in self._hidden() if flight.stream_id == about.stream_id)
        elif event.type == _LEFT:
            self._cut_off(about.entity_id)

    def _cut_off(self, entity_id: str | None) -> None:
        """Who was a member and followed as one may ask again, and is refused."""
        for subscription in self._subscriptions:
            if entity_id in subscription.agents:
                subscription.close()

    def _hidden(self) -> list[Flight]:
        return [flight for flight in self.in_flight() if not flight.is_shown]

    def _show_all(self, flights: Iterable[Flight]) -> None:
        for flight in flights:
            if flight.is_shown:
                continue
            if flight in self._elsewhere.flights:
                self._hand_out_all(self._elsewhere.show(flight))
            else:
                self._live.show(flight)

    def _hand_out_all(self, pieces: Iterable[Passing]) -> None:
        for piece in pieces:
            self.hand_out(passing(piece))

    def _remember_end(self, stream_id: str) -> None:
        self._elsewhere.forget(stream_id)
        self._over[stream_id] = None
        if len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]

    def _end(self) -> None:
        self.is_over = True
        for subscription in self._subscriptions:
            subscription.close()


class SpaceService:
    """Streams of spaces. Messages and members are in the store (`transactions`)."""

    def __init__(self, store: Store, *, gateway_id: str) -> None:
        self._store = store
        self._gateway_id = gateway_id
        self._feeds: dict[str, Feed] = {}
        self._sharing = Sharing(store, gateway_id) if store.is_shared else None
        self.live = Live(self._feeds, sharing=self._sharing)

    async def follow(
        self, space_id: str, *, after: int | None = None, agents: tuple[str, ...] = ()
    ) -> AsyncGenerator[bytes]:
        """The frames of a space: `connected`, what came after `after`, what is in flight, then all that comes.

        None begins now. Ends when the space is gone, for one who reads too slowly, and when one of `agents`, as
        whom it is followed, is taken out of the space.
        """
        feed = self._feed_of(space_id)
        feed.followers += 1
        try:
            await feed.begun()
            if after is not None and after > feed.position:
                last = await self._store.read(partial(space_tx.last_seq, space_id))
                after = min(after, last or 0)
            # From here to the snapshot nothing else happens. What comes later is in the subscription.
            self.live.catch_up(space_id)
            position = feed.position
            begins = position if after is None else after
            subscription = feed.subscribe(after=max(begins, position), agents=agents)
            flights = feed.in_flight()
            snapshot = b"".join(passing(piece) for flight in flights for piece in flight.snapshot())
            try:
                if agents and not await self._is_member(space_id, agents):
                    return  # taken out between the handler and here
                present = await self._store.read(partial(space_tx.presence_in, space_id))
                streams = [flight.stream_id for flight in flights]
                yield connected(
                    space_id, last_seq=max(position, begins), after=begins, present=present, streams=streams
                )
                async for page in self._replay(space_id, after=begins, until=position):
                    yield b"".join(map(durable, page))
                if snapshot:
                    yield snapshot
                while frames := await subscription.take():
                    yield frames
            finally:
                feed.unsubscribe(subscription)
        finally:
            await self._leave(feed)

    async def close(self) -> None:
        self.live.close()
        if self._sharing is not None:
            await self._sharing.close()
        for feed in [*self._feeds.values()]:
            await feed.stop()
        self._feeds.clear()

    def _feed_of(self, space_id: str) -> Feed:
        feed = self._feeds.get(space_id)
        if feed is None or feed.is_over:
            feed = Feed(space_id, store=self._store, live=self.live, gateway_id=self._gateway_id)
            self._feeds[space_id] = feed
        return feed

    async def _is_member(self, space_id: str, agents: tuple[str, ...]) -> bool:
        return any([await self._store.read(partial(space_tx.get_member, space_id, agent)) for agent in agents])

    async def _leave(self, feed: Feed) -> None:
        feed.followers -= 1
        if feed.followers:
            return
        if self._feeds.get(feed.space_id) is feed:
            del self._feeds[feed.space_id]
            self.live.leave(feed.space_id)
        await feed.stop()

    async def _replay(self, space_id: str, *, after: int, until: int) -> AsyncGenerator[list[SpaceEvent]]:
        while after < until:
            events = await self._store.read(partial(space_tx.events_after, space_id, after, PAGE))
            page = [event for event in events if event.seq <= until]
            if not page:
                return
            after = page[-1].seq
            yield page
