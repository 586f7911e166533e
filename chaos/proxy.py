"""A TCP proxy that delays, stalls and resets, and that can send new connections elsewhere.

In the storm it runs in the harness, before PostgreSQL; between two hosts it is a process of its own in the network
between them, which is told what to do by lines of JSON on stdin:

    python -m chaos.proxy 10.0.0.1:7000 10.0.1.1:7000
    {"delay": 0.05}      {"stalled": true}      {"reset": true}

`sys.path` has to have the repository.
"""

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

PIECE = 1 << 16
ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends RST, as a firewall does that has lost its table."""
Address = tuple[str, int]


class Proxy:
    """Listens at one address and passes every connection on to another."""

    def __init__(self, to: Address, *, delay: float = 0.0) -> None:
        self.to = to
        self.delay = delay
        """Seconds that every piece is on its way, in each direction."""
        self.seen: Counter[str] = Counter()
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """The port."""
        self._server = await asyncio.start_server(self._pass_on, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.reset()
        self.stall(on=False)

    def stall(self, *, on: bool) -> None:
        """Pass nothing on, and break nothing."""
        self._flows.clear() if on else self._flows.set()

    def reset(self) -> int:
        """Break every connection at once; how many there were."""
        count = len(self._writers)
        for writer in tuple(self._writers):
            with suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            writer.transport.abort()
        self.seen["connections reset"] += count // 2
        return count // 2

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen["connections"] += 1
        self._writers.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(*self.to)
        except OSError:
            self._end(writer)
            return
        self._writers.add(there_writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, there_writer))
                group.create_task(self._pump(there_reader, writer))
        finally:
            self._end(writer)
            self._end(there_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction. What is late does not hold up what follows: the delay is a pipe, not a gate."""
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=1024)
        sending = asyncio.create_task(self._send(on_the_way, writer))
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while piece := await reader.read(PIECE):
                self.seen["bytes"] += len(piece)
                await on_the_way.put((loop.time() + self.delay, piece))
        await on_the_way.put((loop.time() + self.delay, b""))
        await sending

    async def _send(self, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while True:
                due, piece = await pieces.get()
                await self._flows.wait()
                if (early := due - loop.time()) > 0:
                    await asyncio.sleep(early)
                if not piece:
                    if writer.can_write_eof():
                        writer.write_eof()
                    return
                writer.write(piece)
                await writer.drain()

    def _end(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.close()


async def _obey(proxy: Proxy) -> None:
    """Lines from stdin, until it is closed."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order: dict[str, Any] = json.loads(line)
        proxy.delay = order.get("delay", proxy.delay)
        if "stalled" in order:
            proxy.stall(on=order["stalled"])
        if order.get("reset"):
            proxy.reset()
        print(json.dumps(proxy.seen), flush=True)


async def _run(here: Address, there: Address) -> None:
    proxy = Proxy(there)
    await proxy.listen(*here)
    print("ready", flush=True)
    await _obey(proxy)
    await proxy.close()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    asyncio.run(_run(_address(sys.argv[1]), _address(sys.argv[2])))
