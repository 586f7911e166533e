"""The bus between gateways: LISTEN and NOTIFY on one connection of its own, ids only.

What a batch wrote is told after its commit, gathered with what others wrote meanwhile. Inside the transaction it would
cost more than it gives: PostgreSQL lets one committing transaction with a NOTIFY through at a time, sync included. The
server sends our own words back under our own process id, which is how they are known. Whoever was cut off may have
missed something, so after a reconnect all that wait are woken to read again. What only followers want to know goes
along with the next wake-up, or after a moment: however many calls there are, it costs a few messages a second.
Above: `postgres.py`. Below: `bus.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg

from jackfield.protocol.backoff import RetryDelays
from jackfield.store.bus import Bus

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


class Listener:
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
