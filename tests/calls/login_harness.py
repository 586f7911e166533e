"""A source that wants a login and has none until the test says so; and gateways that have it.

async with login_harness("memory:", tmp_path) as (harness, server):
    call = await harness.call("book", {"n": 1})          # pending_login
    server.log_in("ops")
    await harness.answers.login_done("local", "ops")
"""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from jackfield.errors import LoginNeeded
from jackfield.gateway.gateway import Gateway
from jackfield.model.call import Outcome, done
from jackfield.model.tool import Metadata
from jackfield.sources.base import Invocation
from tests.calls.harness import FunctionSource
from tests.calls.pending_harness import PendingHarness, pending_harness
from tests.waiting import TIMEOUT

SOURCE = "local"


class LoginServer:
    """Knows who is logged in with which scopes, as `SourceLogins` and as the server behind the tools."""

    def __init__(self, *, is_per_user: bool = True) -> None:
        self._is_per_user = is_per_user
        self._there: dict[str | None, frozenset[str]] = {}
        self.wants: tuple[str, ...] = ()
        """Scopes that it asks for."""
        self.asked = 0
        """How often a call came without the login it needs."""
        self.acted: list[str] = []
        """The calls that it carried out."""
        self.acted_for: list[str] = []
        self.owner_of: Callable[[str], str] = str
        """Whose login a principal's calls use."""

    def log_in(self, principal: str | None, *scopes: str) -> None:
        self._there[principal] = frozenset(scopes)

    def log_out(self, principal: str | None) -> None:
        self._there.pop(principal, None)

    def of(self, source: str, principal: str) -> None:  # noqa: ARG002
        return None

    def is_per_user(self, source: str) -> bool:  # noqa: ARG002
        return self._is_per_user

    def is_missing(self, source: str, principal: str, scopes: Collection[str] = ()) -> bool:  # noqa: ARG002
        held = self._there.get(self._whose(principal))
        return held is None or not held.issuperset(scopes)

    async def last_principal(self, source: str) -> str | None:  # noqa: ARG002
        return next(iter(self._there), None)

    async def book(self, invocation: Invocation) -> Outcome:
        whose = self._whose(invocation.principal)
        held = self._there.get(whose)
        if held is None or not held.issuperset(self.wants):
            self.asked += 1
            raise LoginNeeded(f"Log in at '{SOURCE}'.", source=SOURCE, principal=whose, scopes=self.wants)
        self.acted.append(invocation.call_id)
        self.acted_for.append(invocation.principal)
        return done({"booked": invocation.arguments.get("n")})

    def _whose(self, principal: str) -> str | None:
        return self.owner_of(principal) if self._is_per_user else None


def offer_tools(source: FunctionSource, server: LoginServer) -> None:
    source.offer("book", server.book)
    source.offer("book_again", server.book, metadata=Metadata(idempotent=True))
    source.offer("book_with_approval", server.book, metadata=Metadata(requires_approval=True))
    source.offer("book_soon", server.book, expires_in_ms=1)


@asynccontextmanager
async def login_harness(
    url: str, folder: Path, *, gateway_id: str = "gw_test", server: LoginServer | None = None
) -> AsyncIterator[tuple[PendingHarness, LoginServer]]:
    server = server or LoginServer()
    async with pending_harness(url, folder, gateway_id=gateway_id, logins=server) as harness:
        offer_tools(harness.local, server)
        await harness.source_registry.refresh(SOURCE)
        await harness.catalog.update_aside(harness.source_registry.listings())
        yield harness, server


async def add_login_source(gateway: Gateway, server: LoginServer) -> None:
    """The same tools in a whole gateway."""
    source = FunctionSource(SOURCE)
    offer_tools(source, server)
    await gateway.source_registry.add(source)
    await gateway.source_registry.settled(within=TIMEOUT)
    await gateway.catalog.update_aside(gateway.source_registry.listings())
    gateway.answers._logins = server
    server.owner_of = gateway._login_name
