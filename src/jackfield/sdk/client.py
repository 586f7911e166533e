"""The asynchronous client of one gateway; `sync.py` has the blocking one."""

from types import TracebackType
from typing import Self

import httpx2

from jackfield.sdk.address import find_address
from jackfield.sdk.agents import Agents
from jackfield.sdk.audit import Audit
from jackfield.sdk.calls import Calls
from jackfield.sdk.config import Config
from jackfield.sdk.connection import ApiRequest, GatewayConnection, get
from jackfield.sdk.connections import Connections
from jackfield.sdk.grants import Grants
from jackfield.sdk.groups import Groups
from jackfield.sdk.keys import Keys
from jackfield.sdk.models import Models
from jackfield.sdk.notifications import Notifications
from jackfield.sdk.reading import Prompts, Resources
from jackfield.sdk.runs import Runs
from jackfield.sdk.secrets import Secrets
from jackfield.sdk.sessions import Sessions
from jackfield.sdk.sources import Sources, Workers
from jackfield.sdk.spaces import Spaces
from jackfield.sdk.switches import Switches
from jackfield.sdk.tools import Tools
from jackfield.sdk.types import Identity, Readiness
from jackfield.sdk.users import Users
from jackfield.sdk.vault import Vault

NOT_READY = 503


class Client:
    """A gateway. Use it in a `with` block, or `close()` it.

    `url` and `key` default to `JACKFIELD_URL` and `JACKFIELD_KEY`, then to the gateway of this machine and the key
    in its data folder. `timeout`: seconds until a response must arrive; calls and streams are not limited by it.
    `retries`: how often a request is sent again after a lost connection; only GETs and calls with an idempotency key
    are. `retry_after`: up to how many seconds a `Retry-After` is waited for before a retry; 0: such errors are final.
    `transport`: an httpx2 transport in place of the network.
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
        self._connection = GatewayConnection(
            find_address(url, key), timeout=timeout, retries=retries, retry_after=retry_after, transport=transport
        )
        self.tools = Tools(self._connection)
        self.groups = Groups(self._connection)
        self.resources = Resources(self._connection)
        self.prompts = Prompts(self._connection)
        self.keys = Keys(self._connection)
        self.switches = Switches(self._connection)
        self.users = Users(self._connection)
        self.grants = Grants(self._connection)
        self.vault = Vault(self._connection)
        self.audit = Audit(self._connection)
        self.config = Config(self._connection)
        self.notifications = Notifications(self._connection)
        self.secrets = Secrets(self._connection)
        self.models = Models(self._connection)
        self.connections = Connections(self._connection)
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
        """Whether the gateway is ready, and the state of its store; with a key, of its sources too."""
        request = ApiRequest(method="GET", path="/readyz", repeatable=True, accepted=(NOT_READY,))
        return await self._connection.fetch(request, Readiness)

    async def identity(self) -> Identity:
        """Who this key belongs to, and what it may do."""
        return await self._connection.fetch(get("/api/login"), Identity)

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
