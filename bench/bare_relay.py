"""A process in the gateway's place that passes bytes on and looks at none: what one more process on the way costs.

    python -m bench.bare_relay PORT        # prints its own port

Each connection to it is a connection to that port of this machine. Above: the rows that show a floor.
"""

import asyncio
import sys
from typing import cast

import uvloop


class _End(asyncio.Protocol):
    """One of two connections; what comes in leaves by the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self._early: list[bytes] = []
        """What came before the other end was there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def join(self, other: "_End") -> None:
        self.other, other.other = other, self
        assert other.transport is not None
        for data in self._early:
            other.transport.write(data)
        if self.transport is None or self.transport.is_closing():
            other.transport.close()


class _Near(_End):
    """The end that a client has opened."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        _, far = await asyncio.get_running_loop().create_connection(_End, "127.0.0.1", self._port)
        self.join(far)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Near(port), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
