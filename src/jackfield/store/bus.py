"""Wake-ups: who waits for an id is told when something was written about it.

The bus carries ids, never data; whoever wakes reads the row. A wake-up only saves time, no result depends on it.
Above: whoever waits for a call. Below: nothing; a store publishes after its commit.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

Hear = Callable[[Sequence[str] | None], None]
"""Takes what another gateway told; None: something may have been missed."""


class Bus:
    """In one process. All methods are called on the event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._hearers: list[Hear] = []
        self._watchers: list[tuple[str, Callable[[str], None]]] = []

    @contextmanager
    def listen(self, *topics: str, event: asyncio.Event | None = None) -> Iterator[asyncio.Event]:
        """An event (or `event`) that is set when a topic is published. Listen first, then read the row, then wait."""
        event = event or asyncio.Event()
        for topic in topics:
            self._waiting.setdefault(topic, set()).add(event)
        try:
            yield event
        finally:
            for topic in topics:
                self._waiting[topic].discard(event)
                if not self._waiting[topic]:
                    del self._waiting[topic]

    @property
    def topics(self) -> list[str]:
        """What somebody listens for now."""
        return list(self._waiting)

    def publish(self, topic: str) -> None:
        for event in self._waiting.get(topic, ()):
            event.set()
        for beginning, hear in self._watchers:
            if topic.startswith(beginning):
                hear(topic)

    def watch(self, beginning: str, hear: Callable[[str], None]) -> None:
        """From now on, `hear` is called with every topic that begins so: for one who waits for thousands of them."""
        self._watchers.append((beginning, hear))

    def on_foreign(self, hear: Hear) -> None:
        """From now on, `hear` is called with every topic that comes from another gateway, many at a time."""
        self._hearers.append(hear)

    def hear(self, topics: Sequence[str]) -> None:
        """Another gateway told these."""
        for topic in topics:
            self.publish(topic)
        for hear in self._hearers:
            hear(topics)

    def wake_all(self) -> None:
        """Topics of other gateways may have been lost: whoever waits should read again."""
        for events in self._waiting.values():
            for event in events:
                event.set()
        for hear in self._hearers:
            hear(None)
