"""What one follower of a space has been handed and has not sent yet.

Above: `room.py`, which empties it. Below: nothing. The feed puts the same bytes into all of them and waits for none.
"""

import asyncio

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
