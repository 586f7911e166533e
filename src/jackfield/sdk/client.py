"""The asynchronous client: one gateway, its tools, its calls and its agents.

Above: programs, and our own command line. Below: `tools.py`, `calls.py`, `agents.py` and the connection they share.
"""

from types import TracebackType
from typing import Self

import httpx2

from jackfield.sdk.address import find_address
from jackfield.sdk.agents import Agents
from jackfield.sdk.calls import Calls
from jackfield.sdk.connection import Connection, Patience, get
from jackfield.sdk.pins import Sources
from jackfield.sdk.runs import Runs
from jackfield.sdk.sessions import Sessions
from jackfield.sdk.spaces import Spaces
from jackfield.sdk.tools import Tools
from jackfield.sdk.types import Identity, Readiness
from jackfield.sdk.workers import Workers

NOT_READY = 503


class Client:
    """A gateway, for `async` programs. Use it in `async with`, or `close()` it.

    `url` and `key` default to `JACKFIELD_URL` and `JACKFIELD_KEY`, then to the gateway of this machine and the key
    in its data folder. `retries`: how often a request is sent again after a lost connection; only GETs and calls
    with an idempotency key are. `retry_after`: up to how many seconds a busy gateway may ask us to wait before the
    next try. `transport`: another way to the gateway than the network.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float | None = 60.0,
        retries: int = 2,
        retry_after: float = 0.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        patience = Patience(timeout=timeout, retries=retries, retry_after=retry_after)
        self._connection = Connection(find_address(url, key), patience=patience, transport=transport)
        self.tools = Tools(self._connection)
        self.calls = Calls(self._connection)
        self.agents = Agents(self._connection)
        self.runs = Runs(self._connection)
        self.spaces = Spaces(self._connection)
        self.workers = Workers(self._connection)
        self.sources = Sources(self._connection)
        self.sessions = Sessions(self._connection)

    @property
    def url(self) -> str:
        return self._connection.url

    async def ready(self) -> Readiness:
        """Whether the gateway takes calls, and the state of its store; with a key, that of its sources too."""
        response = await self._connection.ask(get("/readyz", also=(NOT_READY,)))
        return self._connection.decode(response.content, Readiness)

    async def identity(self) -> Identity:
        """Whose key this is, and what it is good for."""
        response = await self._connection.ask(get("/api/login"))
        return self._connection.decode(response.content, Identity)

    async def close(self) -> None:
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"
