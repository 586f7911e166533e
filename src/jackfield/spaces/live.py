"""What this gateway's agents are writing into spaces right now, piece by piece as their models say it.

Nothing here is durable: the message, or the call with its arguments, is written when it is whole. Pieces that come
quickly are joined: a stream has at most twenty frames a second, and fewer when they are large.
Above: agents, which begin, append and end. Below: `flight.py`, the feeds of spaces that somebody follows here, and
`sharing.py`, by which other gateways hear of it.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from jackfield.spaces.cluster import Sharing
from jackfield.spaces.drafts import Flight, Kind
from jackfield.spaces.frames import Passing, passing

PAUSE = 0.05
"""Seconds between two frames of one stream."""
BYTES_PER_SECOND = 256 * 1024
"""Of one stream, to one follower: partial arguments are told whole each time, so long ones are told less often."""


class Audience(Protocol):
    """Those who follow one space here."""

    def hand_out(self, frame: bytes) -> None: ...

    def look(self) -> None:
        """There may be durable events that it has not handed out."""


class Live:
    """Everything in flight at this gateway. All methods are called on the event loop and wait for nothing."""

    def __init__(self, audiences: Mapping[str, Audience], *, sharing: Sharing | None) -> None:
        """`audiences`: by space, as they come and go. `sharing`: None where there are no other gateways."""
        self._audiences = audiences
        self._sharing = sharing
        self._flights: dict[str, Flight] = {}
        self._spaces: dict[str, dict[str, Flight]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._not_before: dict[str, float] = {}

    def begin(
        self,
        space_id: str,
        stream_id: str,
        *,
        kind: Kind,
        run_id: str | None,
        agent: str,
        agent_name: str,
        tool: str | None = None,
    ) -> None:
        """Something is being written. Of a call, `tool.started` is committed by now."""
        self._drop(stream_id)
        flight = Flight(
            stream_id,
            space_id=space_id,
            kind=kind,
            run_id=run_id,
            agent=agent,
            agent_name=agent_name,
            tool=tool or "",
        )
        self._flights[stream_id] = flight
        self._spaces.setdefault(space_id, {})[stream_id] = flight
        audience = self._audiences.get(space_id)
        if not flight.is_shown and audience is not None:
            audience.look()
        self._flush(flight)
        if self._sharing is not None:
            self._sharing.begin(flight)

    def append(self, stream_id: str, text: str) -> None:
        """A little more. What belongs to nothing in flight is dropped."""
        flight = self._flights.get(stream_id)
        if flight is None or flight.is_ended or not text:
            return
        flight.append(text)
        if self._sharing is not None:
            self._sharing.changed(flight)
        if stream_id in self._timers or flight.space_id not in self._audiences:
            return
        loop = asyncio.get_running_loop()
        wait = self._not_before.get(stream_id, 0.0) - loop.time()
        if wait <= 0:
            self._flush(flight)
        else:
            self._timers[stream_id] = loop.call_later(wait, self._flush, flight)

    def end(self, stream_id: str, *, failed: bool = False) -> None:
        """It is whole, or it will never be. What is written of it durably comes after this."""
        flight = self._flights.get(stream_id)
        if flight is None or flight.is_ended:
            return
        flight.is_ended = True
        if self._sharing is not None:
            self._sharing.end(flight, failed=failed)
        audience = self._audiences.get(flight.space_id)
        if audience is not None and not flight.is_shown and not failed:
            return  # `show` says the rest
        if audience is not None and flight.is_shown:
            self._hand_out(audience, flight.last_pieces(failed=failed))
        self._forget(flight)

    def in_space(self, space_id: str) -> list[Flight]:
        return [*self._spaces.get(space_id, {}).values()]

    def catch_up(self, space_id: str) -> None:
        """Somebody follows the space now: what was written while nobody did is handed out."""
        for flight in self.in_space(space_id):
            self._flush(flight)

    def show(self, flight: Flight) -> None:
        """Its `tool.started` has been handed out."""
        if flight.is_shown:
            return
        flight.is_shown = True
        self._flush(flight)
        if flight.is_ended:
            self._forget(flight)

    def leave(self, space_id: str) -> None:
        """Nobody follows the space any more."""
        for flight in self.in_space(space_id):
            if flight.is_ended:
                self._forget(flight)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _drop(self, stream_id: str) -> None:
        """A stream that begins again under its id."""
        self.end(stream_id, failed=True)
        flight = self._flights.get(stream_id)
        if flight is not None:
            self._forget(flight)

    def _flush(self, flight: Flight) -> None:
        timer = self._timers.pop(flight.stream_id, None)
        if timer is not None:
            timer.cancel()
        audience = self._audiences.get(flight.space_id)
        if audience is None or not flight.is_shown:
            return
        size = self._hand_out(audience, flight.next_pieces())
        pause = max(PAUSE, size / BYTES_PER_SECOND) if flight.text else 0.0
        self._not_before[flight.stream_id] = asyncio.get_running_loop().time() + pause

    def _hand_out(self, audience: Audience, pieces: list[Passing]) -> int:
        frames = [*map(passing, pieces)]
        for frame in frames:
            audience.hand_out(frame)
        return sum(map(len, frames))

    def _forget(self, flight: Flight) -> None:
        stream_id, space = flight.stream_id, self._spaces[flight.space_id]
        del self._flights[stream_id], space[stream_id]
        if not space:
            del self._spaces[flight.space_id]
        self._not_before.pop(stream_id, None)
        timer = self._timers.pop(stream_id, None)
        if timer is not None:
            timer.cancel()
