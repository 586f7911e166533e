"""Wake-ups: who waits for an id is told when something was written about it.

The bus carries ids, never data; whoever wakes reads the row. A wake-up only saves time, no result depends on it.
Above: whoever waits for a call. Below: nothing; a store publishes after its commit.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import asyncpg

from jackfield.protocol.backoff import RetryDelays

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


if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record]
    AnyConnection = Connection | PoolConnectionProxy[asyncpg.Record]

log = logging.getLogger("jackfield.store")

EVERYTHING = "*"
PAYLOAD_BYTES = 7_900  # PostgreSQL takes less than 8000
BACKLOG = 10_000
SOON_SECONDS = 0.02
CHECK_SECONDS = 5.0
ANSWER_SECONDS = 5.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 0.5
NO_SYNC = "SET synchronous_commit = off"
"""What a crash of the server takes from this connection are words to listeners that it takes as well."""


class NotifyListener:
    """Publishes at the local bus what other gateways tell, and tells them what is written here."""

    def __init__(self, bus: Bus, connect: "Callable[[], Awaitable[Connection]]") -> None:
        self._bus = bus
        self._connect = connect
        self._channel = ""
        self._connection: Connection | None = None
        self._untold: set[str] = set()
        self._news: dict[str, None] = {}
        """What may be told a moment later, in order."""
        self._soon: asyncio.TimerHandle | None = None
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self, channel: str) -> None:
        """Returns when nothing can be missed any more."""
        self._channel = channel
        self._connection = await self._listening()
        self._task = asyncio.create_task(self._stay(), name="store-listener")

    async def close(self) -> None:
        """Tell what is untold, then let go."""
        if self._soon is not None:
            self._soon.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            await self._send(connection)
            await connection.close(timeout=ANSWER_SECONDS)
        connection.terminate()

    def tell(self, topics: Iterable[str]) -> None:
        """Wake whoever waits for these at the other gateways. Returns at once."""
        self._untold.update(topics)
        if len(self._untold) > BACKLOG:
            self._untold = {EVERYTHING}
        self._wanted.set()

    def tell_soon(self, topic: str) -> None:
        """As `tell`, for what nobody waits for: later by a moment, and while cut off only the newest are kept."""
        self._news[topic] = None
        if len(self._news) > BACKLOG:
            del self._news[next(iter(self._news))]
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(SOON_SECONDS, self._tell_news)

    def _tell_news(self) -> None:
        self._soon = None
        self._wanted.set()

    async def _stay(self) -> None:
        """Serve a connection until it is lost, get another, wake all; until cancelled."""
        while True:
            assert self._connection is not None
            fault = await self._serve(self._connection)
            log.warning("The connection for wake-ups was lost (%s); waiting calls are looked at when it is back", fault)
            self._connection.terminate()
            self._connection = await self._listening_again()
            log.info("Wake-ups from other gateways are back")
            self._bus.wake_all()

    async def _serve(self, connection: "Connection") -> Exception:
        """Tell what there is to tell, and from time to time ask whether the other end is there; why that ended."""
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._wanted.wait()
                self._wanted.clear()
                if self._untold or self._news:
                    await self._send(connection)
                else:
                    await connection.execute("SELECT 1", timeout=ANSWER_SECONDS)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as fault:
            return fault

    async def _send(self, connection: "Connection") -> None:
        told, self._untold = self._untold, set()
        news, self._news = self._news, {}
        messages = [(self._channel, payload) for payload in pack([*told, *news])]
        if not messages:
            return
        try:
            await connection.executemany("SELECT pg_notify($1, $2)", messages, timeout=ANSWER_SECONDS)
        except BaseException:
            self._news = dict.fromkeys([*news, *self._news][-BACKLOG:])
            self.tell(told)
            raise

    async def _listening_again(self) -> "Connection":
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            try:
                return await self._listening()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(delays.next())

    async def _listening(self) -> "Connection":
        connection = await self._connect()
        connection.add_termination_listener(lambda _: self._wanted.set())
        try:
            await connection.execute(NO_SYNC)
            await connection.add_listener(self._channel, self._hear)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _hear(self, connection: "AnyConnection", pid: int, _channel: str, payload: object) -> None:
        if pid == connection.get_server_pid():
            return
        topics = str(payload).split("\n")
        if EVERYTHING in topics:
            self._bus.wake_all()
        else:
            self._bus.hear(topics)


def pack(topics: Iterable[str]) -> list[str]:
    """The topics in as few payloads as their size allows. One that fits into none becomes `EVERYTHING`."""
    payloads: list[list[str]] = [[]]
    room = PAYLOAD_BYTES
    for topic in topics:
        size = len(topic.encode()) + 1
        if size > PAYLOAD_BYTES:
            return [EVERYTHING]
        if size > room:
            payloads.append([])
            room = PAYLOAD_BYTES
        payloads[-1].append(topic)
        room -= size
    return ["\n".join(payload) for payload in payloads if payload]
