"""The tokens of connections: read from the vault, kept for a while, refreshed once for everybody.

Above: `connections.py`. Below: the store, the vault and the OAuth client of each source. Within a process one task
refreshes for all callers; over gateways the one that has the lease of the connection does, and the others wait for it.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from jackfield.connections import transactions as tx
from jackfield.connections.oauth import Client, GrantEnded, OAuthError, Target, TokenRefused, Tokens
from jackfield.connections.oauth.client import OAuthClient
from jackfield.connections.oauth.tokens import INVALID_CLIENT
from jackfield.connections.transactions import CONNECTION, CONNECTION_TOPIC
from jackfield.connections.types import NOTHING, Connection, Wanted, connection_id
from jackfield.errors import SourceUnavailable, Unavailable
from jackfield.identity.vault import Vault
from jackfield.identity.vault_transactions import SealedRow
from jackfield.protocol.backoff import RetryDelays
from jackfield.settings import Secrets
from jackfield.store import Store
from jackfield.store.scripts import Script

log = logging.getLogger("jackfield")
T = TypeVar("T")

MOST_CACHED = 2_000
"""Connections whose tokens are kept unsealed in memory."""
EARLY_SECONDS = 60.0
EARLY_PART = 0.1
"""Tokens are refreshed so long before they end, or when so much of their life is left."""
AGAIN_SECONDS = 10.0
"""Tokens that are refused so soon after they replaced refused ones are not refreshed any more."""
PAUSE_SECONDS = 5.0
LEASE_MS = 45_000
"""Longer than a request to an authorization server may take."""
WAIT_SECONDS = 50.0
LOOK_SECONDS = 0.5
WRITE_SECONDS = 20.0


class Credentials(Struct, frozen=True, kw_only=True):
    """All that a connection needs to make requests and to refresh itself; sealed in the store."""

    source: str
    principal: str
    tokens: Tokens
    target: Target
    client: Client
    obtained_at: float
    """In seconds since 1970."""
    after_refusal: bool = False
    """These tokens replace some that the server refused."""

    @property
    def has_ended(self) -> bool:
        ends = self.tokens.expires_at
        return ends is not None and ends <= time.time()

    @property
    def is_refused_again(self) -> bool:
        """If the server refuses these, others of the same login would not help."""
        return self.after_refusal and time.time() < self.obtained_at + AGAIN_SECONDS

    @property
    def refresh_at(self) -> float | None:
        """From when on they should be refreshed; None: not before the server refuses them."""
        ends = self.tokens.expires_at
        return None if ends is None else ends - min(EARLY_SECONDS, (ends - self.obtained_at) * EARLY_PART)

    @property
    def is_fresh(self) -> bool:
        at = self.refresh_at
        return at is None or time.time() < at


class Ended(Exception):
    """There are no tokens, or none that are good; only a login helps."""


class CredentialStore:
    """Credentials of all connections, by source and principal."""

    def __init__(
        self,
        store: Store,
        vault: Vault,
        *,
        secrets: Secrets,
        gateway_id: str,
        url_of: Callable[[str], str | None],
        on_write: Callable[[Connection], None],
        on_unknown_client: Callable[[Credentials], Awaitable[None]],
    ) -> None:
        """`url_of`: where the server of a source is, if there is one; `on_write`: told of each connection on record;
        `on_unknown_client`: of one whose client the server forgot.
        """
        self._url_of = url_of
        self._store = store
        self._vault = vault
        self._secrets = secrets
        self._gateway_id = gateway_id
        self._on_write = on_write
        self._on_unknown_client = on_unknown_client
        self._cached: OrderedDict[str, tuple[int, Credentials]] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[Credentials]] = {}
        self._not_before: dict[str, float] = {}
        """When a refresh that failed is tried again, as long as the old tokens are good."""

    def cached(self, name: str, version: int) -> Credentials | None:
        """What this process has of a connection in this version, if it can be used as it is."""
        kept = self._cached.get(name)
        if kept is None or kept[0] != version:
            return None
        credentials = kept[1]
        if credentials.is_fresh:
            return credentials
        is_paused = self._not_before.get(name, 0.0) > time.monotonic()
        return credentials if is_paused and not credentials.has_ended else None

    def forget(self, name: str) -> None:
        self._cached.pop(name, None)
        self._not_before.pop(name, None)

    async def once(self, name: str, work: Callable[[], Awaitable[Credentials]]) -> Credentials:
        """Have it done by one task for everybody who asks meanwhile. Who gives up does not stop it."""
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(_run(work), name=f"tokens of {name}")
            task.add_done_callback(partial(self._done, name))
        return await asyncio.shield(task)

    async def next(self, name: str, work: Callable[[], Awaitable[Credentials]]) -> Credentials:
        """The same, by a task that begins after this moment."""
        while (task := self._tasks.get(name)) is not None:
            await asyncio.wait([task])
        return await self.once(name, work)

    def _done(self, name: str, task: asyncio.Task[Credentials]) -> None:
        self._tasks.pop(name, None)
        if not task.cancelled():
            task.exception()  # whoever waits has it

    async def close(self) -> None:
        """A refresh that has begun is seen to its end: its old tokens may be worth nothing by now."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=2.0)

    async def read(self, source: str, principal: str) -> tuple[Connection, Credentials]:
        """As they are on record. Raises `Ended` where there are none, or none for the server that the source is now."""
        held = await self._store.read(partial(tx.get_held, source, principal))
        if held is None or not held.connection.is_connected or held.sealed is None:
            raise Ended
        credentials = self._unsealed(held.connection, held.sealed)
        if credentials.target.url != (url := self._url_of(source)):
            if url is not None:
                await self.end(held.connection)
            raise Ended
        self.remember(held.connection, credentials)
        return held.connection, credentials

    def _unsealed(self, connection: Connection, sealed: str) -> Credentials:
        secret = self._vault.unseal(CONNECTION, connection.id, sealed)
        credentials = msgspec.json.decode(secret, type=Credentials)
        if (credentials.source, credentials.principal) != (connection.source, connection.principal):
            raise Unavailable("The tokens of a connection are somebody else's. Remove it and log in again.")
        return credentials

    def remember(self, connection: Connection, credentials: Credentials) -> None:
        self.note(credentials)
        self._on_write(connection)
        self._cached[connection.id] = (connection.version, credentials)
        self._cached.move_to_end(connection.id)
        if len(self._cached) > MOST_CACHED:
            self._cached.popitem(last=False)

    def note(self, credentials: Credentials) -> None:
        """Have them taken out of all that is said from now on."""
        held = (credentials.tokens.refresh_token, credentials.client.client_secret, credentials.tokens.access_token)
        self._secrets.note(*(one for one in held if one))

    def sealed(self, credentials: Credentials) -> SealedRow:
        name = connection_id(credentials.source, credentials.principal)
        return self._vault.row(CONNECTION, name, msgspec.json.encode(credentials))

    async def keep(
        self,
        credentials: Credentials,
        *,
        wanted: Wanted = NOTHING,
        flow: str | None = None,
        noting: Callable[[Callable[[], Script[Connection]]], Callable[[], Script[Connection]]] = lambda script: script,
    ) -> Connection:
        """Keep what a login gave. `flow`: its own, which ends with it. `noting`: adds to the transaction."""
        self.note(credentials)
        connection = await self._persist(noting(partial(self._connect, credentials, wanted, flow)))
        self.remember(connection, credentials)
        return connection

    def _connect(self, credentials: Credentials, wanted: Wanted, flow: str | None) -> Script[Connection]:
        source, principal, sealed = credentials.source, credentials.principal, self.sealed(credentials)
        return tx.connect(source, principal, credentials.tokens, sealed, wanted=wanted, flow=flow)

    async def refreshed(
        self,
        connection: Connection,
        credentials: Credentials,
        oauth: OAuthClient,
        *,
        after_refusal: bool = False,
    ) -> Credentials:
        """Others in place of these, by whichever gateway is the first. Raises `Ended` or `SourceUnavailable`."""
        until = time.monotonic() + WAIT_SECONDS
        with self._store.bus.listen(CONNECTION_TOPIC + connection.id) as changed:
            while time.monotonic() < until:
                leased = await self._store.write(
                    partial(tx.lease_refresh, connection, gateway=self._gateway_id, lease_ms=LEASE_MS)
                )
                if leased:
                    newer = await self._refresh(connection, credentials, oauth, after_refusal=after_refusal)
                    if newer is not None:
                        return newer
                now, current = await self.read(connection.source, connection.principal)
                if now.version != connection.version:
                    return current
                if not credentials.has_ended and not after_refusal:
                    return credentials  # another gateway refreshes them; these are still good
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    pass
                changed.clear()
        raise SourceUnavailable(
            f"The login at source '{connection.source}' is being refreshed by another gateway, which takes too long. "
            "Try again in a minute."
        )

    async def _refresh(
        self, connection: Connection, credentials: Credentials, oauth: OAuthClient, *, after_refusal: bool
    ) -> Credentials | None:
        """Refresh them under the lease. None: the connection is another one by now."""
        try:
            tokens = await oauth.refresh(credentials.target.server, credentials.client, credentials.tokens)
            newer = msgspec.structs.replace(
                credentials, tokens=tokens, obtained_at=time.time(), after_refusal=after_refusal
            )
            self.note(newer)
            now = await self._persist(partial(self._finish, connection, newer))
        except OAuthError as fault:
            if _is_final(fault, credentials.client):
                if isinstance(fault, GrantEnded) and fault.error == INVALID_CLIENT:
                    await self._on_unknown_client(credentials)
                await self.end(connection)
                return None
            await self._release(connection)
            if not credentials.has_ended and not after_refusal:
                log.warning("The login at source '%s' could not be refreshed: %s", connection.source, fault.message)
                self._not_before[connection.id] = time.monotonic() + PAUSE_SECONDS
                return credentials
            raise SourceUnavailable(
                f"The login at source '{connection.source}' could not be refreshed. {fault.message}"
            ) from None
        except BaseException:
            await self._release(connection)
            raise
        if now is None:
            await self._revoke_orphan(connection, newer, oauth)
            return None
        self.remember(now, newer)
        return newer

    async def _revoke_orphan(self, connection: Connection, newer: Credentials, oauth: OAuthClient) -> None:
        """Whoever ended the login while it was refreshed revoked the tokens that were there, not these."""
        if await self._store.read(partial(tx.get_held, connection.source, connection.principal)) is None:
            with suppress(OAuthError):
                await oauth.revoke(newer.target.server, newer.client, newer.tokens)

    async def _release(self, connection: Connection) -> None:
        with suppress(Unavailable):  # then the lease ends by itself
            await self._store.write(partial(tx.release_refresh, connection, gateway=self._gateway_id))

    def _finish(self, connection: Connection, newer: Credentials) -> Script[Connection | None]:
        return tx.finish_refresh(connection, newer.tokens, self.sealed(newer), gateway=self._gateway_id)

    async def end(self, connection: Connection) -> None:
        """They are not good any more; others that somebody has put there meanwhile stay."""
        self.forget(connection.id)
        ended = await self._store.write(partial(tx.end_connection, connection))
        if ended is not None:
            self._on_write(ended)

    async def _persist(self, script: Callable[[], Script[T]]) -> T:
        """Write what the server gave. It cannot be had again, so a store that is busy is asked for a while."""
        until = time.monotonic() + WRITE_SECONDS
        delays = RetryDelays(first=0.1, longest=2.0)
        while True:
            try:
                return await self._store.write(script)
            except Unavailable:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(delays.next())


def _is_final(fault: OAuthError, client: Client) -> bool:
    """Whether asking again would not help. A client of the config is the operator's to correct, not a person's."""
    return isinstance(fault, GrantEnded) or (isinstance(fault, TokenRefused) and client.origin != "config")


async def _run(work: Callable[[], Awaitable[Credentials]]) -> Credentials:
    return await work()
