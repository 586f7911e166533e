"""What is in flight here, told to the other gateways on the same database.

One row per stream, written a few times a second with all of its text; whoever follows the space elsewhere is woken
and reads the row. The row says how the stream ended and stays a moment longer; one that vanishes without a word was a
dead gateway's.
Above: `live.py`. Below: the store. `elsewhere.py` is the other end.
"""

import asyncio
import logging
from functools import partial
from typing import Literal

from jackfield.model.space import LiveStream
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.drafts import Flight
from jackfield.store.base import Store

log = logging.getLogger(__name__)

PAUSE = 0.2
"""Seconds between two writes of one row."""
LINGER = 2.0
"""Seconds that the row of an ended stream stays, for those who are slow to read."""


class Sharing:
    """Keeps the rows of this gateway's flights, a task for each as long as it lasts."""

    def __init__(self, store: Store, gateway_id: str) -> None:
        self._store = store
        self._gateway_id = gateway_id
        self._news: dict[Flight, asyncio.Event] = {}
        self._failed: set[Flight] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, flight: Flight) -> None:
        self._news[flight] = asyncio.Event()
        task = asyncio.create_task(self._share(flight), name=f"sharing {flight.stream_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def changed(self, flight: Flight) -> None:
        if flight in self._news:
            self._news[flight].set()

    def end(self, flight: Flight, *, failed: bool) -> None:
        if failed:
            self._failed.add(flight)
        self.changed(flight)

    async def close(self) -> None:
        """Rows that are left behind are a dead gateway's, and count for nothing."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _share(self, flight: Flight) -> None:
        news = self._news[flight]
        try:
            if not flight.is_ended:
                await self._share_until_its_end(flight, news)
        except Exception:
            log.exception("what is being written into space %s is not shown at other gateways", flight.space_id)
        finally:
            del self._news[flight]
            self._failed.discard(flight)

    async def _share_until_its_end(self, flight: Flight, news: asyncio.Event) -> None:
        while not flight.is_ended:
            news.clear()
            await self._store.write(partial(space_tx.put_live, self._row(flight)))
            await asyncio.sleep(PAUSE)
            await news.wait()
        await self._store.write(partial(space_tx.put_live, self._row(flight)))
        await asyncio.sleep(LINGER)
        await self._store.write(partial(space_tx.drop_live, flight.stream_id))

    def _row(self, flight: Flight) -> LiveStream:
        return LiveStream(
            stream_id=flight.stream_id,
            space_id=flight.space_id,
            gateway=self._gateway_id,
            kind=flight.kind,
            state=self._state(flight),
            run_id=flight.run_id,
            agent=flight.agent,
            agent_name=flight.agent_name,
            tool=flight.tool or None,
            text=flight.text,
        )

    def _state(self, flight: Flight) -> Literal["open", "done", "failed"]:
        if not flight.is_ended:
            return "open"
        return "failed" if flight in self._failed else "done"
