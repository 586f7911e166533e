"""How many requests, with which status, how long they took, how many streams are open: figures for `/metrics`.

Above: `app.py`, which counts, and the page of figures. A request is counted when its response begins, so that a stream
that stays open for hours is neither missing nor slow.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from jackfield.http.routing import Route
from jackfield.model.durations import Durations

NO_ROUTE = "(none)"
"""What was refused before its route was known: a wrong path, method, Host or Origin."""
GONE = 499
"""The client hung up before there was a response."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER = "(other)"
StreamKind = Literal["sse", "websocket"]


class HttpCounters:
    """Since this gateway started. Labels are routes as they are documented, never paths that clients name."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        """(method, route, status) → requests."""
        self.durations: dict[tuple[str, str], Durations] = {}
        """(method, route) → how long it took until the response began."""
        self.streams: dict[StreamKind, int] = {"sse": 0, "websocket": 0}
        """Open now."""

    def count(self, method: str, route: Route | None, status: int, seconds: float) -> None:
        path = NO_ROUTE if route is None else route.path
        if method not in _METHODS:
            method = _OTHER
        series = (method, path, status)
        self.requests[series] = self.requests.get(series, 0) + 1
        found = self.durations.get((method, path))
        if found is None:
            found = self.durations[method, path] = Durations()
        found.add(seconds * 1000)

    @contextmanager
    def stream(self, kind: StreamKind) -> Iterator[None]:
        """Count a stream while it is open."""
        self.streams[kind] += 1
        try:
            yield
        finally:
            self.streams[kind] -= 1
