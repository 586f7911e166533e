"""The spaces of one gateway: who follows which, and what is in flight.

Above: the handlers, which follow; agents, which write through `live`. Below: one feed per space that is followed.
"""

from collections.abc import AsyncGenerator
from functools import partial

from jackfield.model.space import SpaceEvent
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.cluster import Sharing
from jackfield.spaces.feed import PAGE, Feed
from jackfield.spaces.frames import connected, durable, passing
from jackfield.spaces.live import Live
from jackfield.store.base import Store


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
