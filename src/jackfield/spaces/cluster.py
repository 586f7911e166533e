"""What agents at other gateways are writing into one space, as far as their rows tell.

Above: the feed. Below: `flight.py`. `sharing.py`, at the other gateways, writes the rows. Pure.
"""

from collections.abc import Container, Sequence

from jackfield.model.space import LiveStream
from jackfield.spaces.drafts import Flight
from jackfield.spaces.frames import Passing


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
