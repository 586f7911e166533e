"""What agents at other gateways are writing into one space, as far as their rows tell.

Above: the feed. Below: `flight.py`. `sharing.py`, at the other gateways, writes the rows. Pure.
"""

import asyncio
import logging
from collections.abc import Container, Sequence
from functools import partial
from typing import Literal

from jackfield.model.space import LiveStream
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.drafts import Flight
from jackfield.spaces.frames import Passing
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


class RemoteDrafts:
    """The flights of other gateways in one space."""

    def __init__(self, gateway_id: str) -> None:
        self._gateway_id = gateway_id
        self._flights: dict[str, Flight] = {}

    @property
    def flights(self) -> list[Flight]:
        return [*self._flights.values()]

    def update(self, rows: Sequence[LiveStream], *, over: Container[str]) -> list[Passing]:
        """What the rows tell that was not known. `over`: streams whose end has been handed out already."""
        news: list[Passing] = []
        told: set[str] = set()
        for row in rows:
            if row.gateway == self._gateway_id or row.stream_id in over:
                continue
            if row.state != "open" and row.stream_id not in self._flights:
                continue
            told.add(row.stream_id)
            news += self._take(row)
        for flight in self.flights:
            if flight.stream_id not in told and not flight.is_ended:
                news += self._end(flight, failed=True)
        return news

    def show(self, flight: Flight) -> list[Passing]:
        """Its `tool.started` has been handed out: what is known of its arguments."""
        flight.is_shown = True
        if flight.is_ended:
            self._flights.pop(flight.stream_id, None)
        return flight.next_pieces()

    def forget(self, stream_id: str) -> None:
        self._flights.pop(stream_id, None)

    def _take(self, row: LiveStream) -> list[Passing]:
        flight = self._flights.get(row.stream_id)
        if flight is None:
            flight = self._flights[row.stream_id] = _flight_of(row)
        flight.become(row.text)
        if row.state != "open":
            return self._end(flight, failed=row.state == "failed")
        return flight.next_pieces() if flight.is_shown else []

    def _end(self, flight: Flight, *, failed: bool) -> list[Passing]:
        flight.is_ended = True
        if not flight.is_shown and not failed:
            return []
        self.forget(flight.stream_id)
        return flight.last_pieces(failed=failed) if flight.is_shown else []


def _flight_of(row: LiveStream) -> Flight:
    return Flight(
        row.stream_id,
        space_id=row.space_id,
        kind=row.kind,
        run_id=row.run_id,
        agent=row.agent,
        agent_name=row.agent_name,
        tool=row.tool or "",
    )
