"""`Connections`: everybody's logins at the servers behind the gateway, as sources use them.

Above: sources, by `SourceContext.logins`; the login flows and `api.py`. Below: the book of who is connected, the
credentials in the vault, and the OAuth client of each source.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Protocol

import msgspec

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry
from jackfield.connections import transactions as tx
from jackfield.connections.book import ConnectionBook
from jackfield.connections.credentials import Credentials, CredentialStore, Ended
from jackfield.connections.oauth import Challenge, Client, OAuthError, StepUpRefused
from jackfield.connections.oauth.challenges import stepped_up_scopes
from jackfield.connections.oauth.client import OAuthClient
from jackfield.connections.transactions import OAUTH_CLIENT, Held
from jackfield.connections.types import (
    NOTHING,
    SHARED,
    ConnectedSource,
    Connection,
    Wanted,
    connected_sources,
    connection_id,
)
from jackfield.errors import ConfigError, LoginNeeded, NotFound, SourceUnavailable, Unavailable
from jackfield.identity.vault import Vault
from jackfield.identity.vault_transactions import delete_sealed, put_sealed
from jackfield.model.text import nearest
from jackfield.outgoing import Outgoing
from jackfield.settings import Settings
from jackfield.settings.tools import SourceSettings
from jackfield.store import Store

log = logging.getLogger("jackfield")

STEP_UP_MS = 600_000
"""After so long, a server that wants more scopes is not being stubborn."""
CALLBACK_PATH = "/connect/callback"
DOCUMENT_PATH = "/oauth/client-metadata.json"


class LoginChanged(Protocol):
    """Told of a login at the source that was made, or is over; `principal` None: the one for all."""

    def __call__(self, source: str, principal: str | None, *, is_over: bool) -> None: ...


class Connections:
    """Every source's logins; implements `sources.authorization.SourceLogins`."""

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        vault: Vault,
        outgoing: Outgoing,
        audit: AuditLog,
        on_change: LoginChanged,
    ) -> None:
        self.sources: dict[str, ConnectedSource] = {}
        self.book = ConnectionBook(store, on_change=self._changed)
        self.credentials = CredentialStore(
            store,
            vault,
            secrets=settings.secrets,
            gateway_id=audit.gateway_id,
            url_of=self._url_of,
            on_write=self.book.take,
            on_unknown_client=self._forget_unknown,
        )
        self._store = store
        self._audit = audit
        self._vault = vault
        self._on_change = on_change
        self._outgoing = outgoing
        self._settings = settings
        self._oauth: dict[str, OAuthClient] = {}
        try:
            self.apply(settings.sources)
        except ConfigError as fault:
            raise ConfigError(f"{settings.path}: {fault}") from None

    def apply(self, sources: Iterable[SourceSettings]) -> None:
        """Take these as the sources there are. Raises `ConfigError`, and takes nothing then.

        What is not changed keeps its client. The logins of a source that is gone stay on record, and are good for a
        source of its name at the same server.
        """
        connected = connected_sources(sources)
        same = {name for name, source in connected.items() if self.sources.get(name) == source}
        self._oauth = {
            name: self._oauth[name] if name in same else self._client(source) for name, source in connected.items()
        }
        self.sources = connected
        for one in self.book.all:
            if one.source not in same:
                self.credentials.forget(one.id)
        for source in connected.values():
            self._settings.secrets.note(*(one for one in (source.oauth.client_secret,) if one))

    def _client(self, source: ConnectedSource) -> OAuthClient:
        url = self._settings.url
        return OAuthClient(
            self._outgoing,
            source.url,
            source.oauth,
            redirect_uri=f"{url}{CALLBACK_PATH}",
            document_url=f"{url}{DOCUMENT_PATH}" if url.startswith("https://") else None,
            is_mcp=source.is_mcp,
            identity=_identity(self._settings),
        )

    def _url_of(self, name: str) -> str | None:
        source = self.sources.get(name)
        return None if source is None else source.url

    def of(self, source: str, principal: str) -> "SourceAuthorization | None":
        """What authorizes this principal's requests to the source; None: it needs no login."""
        connected = self.sources.get(source)
        if connected is None:
            return None
        return SourceAuthorization(self, connected, principal, self._oauth[source])

    def is_per_user(self, source: str) -> bool:
        connected = self.sources.get(source)
        return connected is not None and connected.is_per_user

    def is_missing(self, source: str, principal: str, scopes: Collection[str] = ()) -> bool:
        """Whether somebody has to log in before this principal's calls of the source can run."""
        connected = self.sources.get(source)
        if connected is None or connected.is_for_machines:
            return False
        known = self.book.get(connection_id(source, connected.principal(principal)))
        return known is None or not known.is_connected or not set(scopes) <= set(known.scopes)

    async def last_principal(self, source: str) -> str | None:
        """Whose own login there was made or refreshed last; None: nobody has one."""
        own = [one for one in self.book.all if one.source == source and one.is_connected and one.principal != SHARED]
        return max(own, key=lambda one: one.updated_at).principal if own else None

    def source(self, name: str) -> ConnectedSource:
        """The source of that name that has logins. Raises `NotFound`."""
        connected = self.sources.get(name)
        if connected is None:
            hint = nearest(name[:100], sorted(self.sources))
            raise NotFound(
                f"There is no source '{name[:100]}' that has logins.{hint} 'jackfield connections' lists them."
            )
        return connected

    def oauth(self, source: str) -> OAuthClient:
        """Raises `NotFound` like `source`."""
        return self._oauth[self.source(source).name]

    async def get(self, source: ConnectedSource, principal: str, oauth: OAuthClient) -> Credentials:
        """The credentials to make a request with. Raises `LoginNeeded`, or `SourceUnavailable`."""
        whose = source.principal(principal)
        name = connection_id(source.name, whose)
        known = self.book.get(name)
        if known is not None and (kept := self.credentials.cached(name, known.version)) is not None:
            return kept
        try:
            return await self.credentials.once(name, partial(self._current, source, whose, oauth))
        except Ended:
            raise login_needed(source, principal) from None

    async def _current(self, source: ConnectedSource, whose: str, oauth: OAuthClient) -> Credentials:
        """Those on record, refreshed where they are about to end; of a machine, others where they have ended."""
        try:
            connection, credentials = await self.credentials.read(source.name, whose)
        except Ended:
            if source.is_for_machines:
                return await self._machine(source, whose, oauth, NOTHING)
            raise
        if credentials.is_fresh:
            return credentials
        if credentials.tokens.refresh_token is not None:
            return await self.credentials.refreshed(connection, credentials, oauth)
        if source.is_for_machines:
            try:
                return await self._machine(source, whose, oauth, connection.wanted)
            except SourceUnavailable:
                if credentials.has_ended:
                    raise
        if not credentials.has_ended:
            return credentials
        await self.credentials.end(connection)
        raise Ended

    async def _machine(
        self,
        source: ConnectedSource,
        whose: str,
        oauth: OAuthClient,
        wanted: Wanted,
        *,
        after_refusal: bool = False,
    ) -> Credentials:
        """Tokens that need no person. Each gateway gets its own; the last to come is on record."""
        try:
            target = await oauth.discover(wanted.challenge)
            scopes = wanted.scopes or oauth.scopes(target, wanted.challenge)
            client = await oauth.client(target, scopes=scopes)
            tokens = await oauth.machine(target, client, scopes=scopes)
        except OAuthError as fault:
            raise SourceUnavailable(f"The gateway cannot log in at source '{source.name}'. {fault.message}") from None
        credentials = Credentials(
            source=source.name,
            principal=whose,
            tokens=tokens,
            target=target,
            client=client,
            obtained_at=time.time(),
            after_refusal=after_refusal,
        )
        await self.credentials.keep(credentials, wanted=wanted)
        return credentials

    async def replace_refused(
        self, source: ConnectedSource, principal: str, oauth: OAuthClient, *, sent: str, challenge: Challenge | None
    ) -> bool:
        """The server does not take the token that was `sent`: whether there is another now. Raises `LoginNeeded`."""
        whose = source.principal(principal)
        work = partial(self._replaced, source, whose, oauth, sent, challenge)
        try:
            credentials = await self.credentials.next(connection_id(source.name, whose), work)
        except Ended:
            raise login_needed(source, principal) from None
        return credentials.tokens.access_token != sent

    async def _replaced(
        self, source: ConnectedSource, whose: str, oauth: OAuthClient, sent: str, challenge: Challenge | None
    ) -> Credentials:
        try:
            connection, credentials = await self.credentials.read(source.name, whose)
        except Ended:
            if source.is_for_machines:
                return await self._machine(source, whose, oauth, Wanted(challenge=challenge))
            raise
        if credentials.tokens.access_token != sent:
            return credentials  # somebody refreshed it meanwhile
        if source.is_for_machines:
            if credentials.is_refused_again:
                return credentials
            wanted = Wanted(challenge=challenge, scopes=connection.wanted.scopes)
            return await self._machine(source, whose, oauth, wanted, after_refusal=True)
        if credentials.tokens.refresh_token is None or credentials.is_refused_again:
            await self._want(source, whose, Wanted(challenge=challenge, scopes=connection.wanted.scopes))
            await self.credentials.end(connection)
            raise Ended
        return await self.credentials.refreshed(connection, credentials, oauth, after_refusal=True)

    async def step_up(
        self, source: ConnectedSource, principal: str, oauth: OAuthClient, *, sent: str, challenge: Challenge | None
    ) -> bool:
        """The server wants more scopes: whether there is a token with them. False: nothing would help.

        Raises `LoginNeeded` with all that the next login asks for.
        """
        whose = source.principal(principal)
        try:
            connection, credentials = await self.credentials.read(source.name, whose)
        except Ended:
            raise login_needed(source, principal) from None
        if credentials.tokens.access_token != sent:
            return True
        before = connection.wanted
        age = await self._store.now_ms() - connection.updated_at
        attempts = before.attempts if age < STEP_UP_MS else 0
        try:
            scopes = stepped_up_scopes(
                credentials.tokens, challenge, attempts=attempts, where=oauth.host, asked=before.scopes
            )
        except StepUpRefused as refused:
            log.warning("Source '%s': %s", source.name, refused.message)
            return False
        wanted = Wanted(challenge=challenge, scopes=scopes, attempts=attempts + 1)
        if source.is_for_machines:
            await self._machine(source, whose, oauth, wanted)
            return True
        await self._want(source, whose, wanted)
        raise login_needed(source, principal, scopes=scopes)

    async def _want(self, source: ConnectedSource, whose: str, wanted: Wanted) -> None:
        self.book.take(await self._store.write(partial(tx.want, source.name, whose, wanted)))

    async def registered_client(self, source: ConnectedSource, issuer: str) -> Client | None:
        """Who the gateway is at an authorization server, if it was there before."""
        secret = await self._vault.read(OAUTH_CLIENT, _client_id(source, issuer))
        client = None if secret is None else msgspec.json.decode(secret, type=Client)
        is_other = client is not None and client.origin == "config" and client.client_id != source.oauth.client_id
        return None if is_other else client

    async def keep_client(self, source: ConnectedSource, client: Client) -> None:
        row = self._vault.row(OAUTH_CLIENT, _client_id(source, client.issuer), msgspec.json.encode(client))
        await self._store.write(partial(put_sealed, row))

    async def forget_client(self, source: ConnectedSource, issuer: str) -> None:
        """The authorization server does not know it any more; the next login registers anew."""
        await self._store.write(partial(delete_sealed, OAUTH_CLIENT, _client_id(source, issuer)))

    async def _forget_unknown(self, credentials: Credentials) -> None:
        """Forget a client, unless another has taken its place."""
        source, client = self.sources.get(credentials.source), credentials.client
        if source is None:
            return
        kept = await self.registered_client(source, client.issuer)
        if kept is not None and kept.client_id == client.client_id:
            await self.forget_client(source, client.issuer)

    async def connected(
        self, source: ConnectedSource, whose: str, credentials: Credentials, *, flow: str | None, by: str
    ) -> Connection:
        """Keep what a person's login gave."""
        before = self.book.get(connection_id(source.name, whose))
        wanted = NOTHING if before is None else msgspec.structs.replace(before.wanted, challenge=None)
        change = Entry(
            actor=by,
            action="connection.created",
            subject=source.name,
            after={"principal": whose or None, "issuer": credentials.client.issuer},
        )
        return await self.credentials.keep(
            credentials, wanted=wanted, flow=flow, noting=lambda script: self._audit.noting(script, lambda _: change)
        )

    async def disconnect(self, source: ConnectedSource, whose: str, *, by: str) -> bool:
        """Forget a login, and end it at the server where that can be done. False: there was none."""
        script = partial(tx.disconnect, source.name, whose)
        held = await self._store.write(self._audit.noting(script, partial(_ended, by)))
        self._gone(connection_id(source.name, whose))
        if held is None or not held.connection.is_connected:
            return False
        await self._revoke(held)
        if not any(one.source == source.name and one.is_connected for one in self.book.all):
            kept = await self.registered_client(source, held.connection.issuer)
            if kept is not None and kept.origin == "registered":  # the server may have forgotten it
                await self.forget_client(source, held.connection.issuer)
        return True

    async def forget_principal(self, principal: str) -> None:
        """Somebody is gone, and so are their logins."""
        if not self.sources or principal == SHARED:
            return
        gone = await self._store.write(partial(tx.disconnect_principal, principal))
        for held in gone:
            self._gone(held.connection.id)
        await asyncio.gather(*map(self._revoke, gone))

    async def _revoke(self, held: Held) -> None:
        """At the server, where it can be. The login is forgotten here in any case."""
        oauth = self._oauth.get(held.connection.source)
        if oauth is None or held.sealed is None:
            return
        try:
            secret = self._vault.unseal(tx.CONNECTION, held.connection.id, held.sealed)
            credentials = msgspec.json.decode(secret, type=Credentials)
            self.credentials.note(credentials)
            await oauth.revoke(credentials.target.server, credentials.client, credentials.tokens)
        except (OAuthError, Unavailable) as fault:
            log.warning("A login at source '%s' could not be revoked there: %s", held.connection.source, fault.message)

    def _gone(self, name: str) -> None:
        self.credentials.forget(name)
        self.book.drop(name)

    def _changed(self, connection: Connection) -> None:
        now = self.book.get(connection.id)
        is_over = now is None or not now.is_connected
        if is_over:
            self.credentials.forget(connection.id)
        self._on_change(connection.source, connection.principal or None, is_over=is_over)

    async def close(self) -> None:
        await self.credentials.close()


class SourceAuthorization:
    """One principal's login at one source; implements `sources.authorization.Authorization`."""

    __slots__ = ("_connections", "_oauth", "_principal", "_source")

    def __init__(self, connections: Connections, source: ConnectedSource, principal: str, oauth: OAuthClient) -> None:
        self._connections = connections
        self._source = source
        self._principal = principal
        self._oauth = oauth

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """The headers that authorize one request. Raises `LoginNeeded`."""
        credentials = await self._connections.get(self._source, self._principal, self._oauth)
        return self._oauth.headers(credentials.tokens, method, url)

    async def refused(self, status: int, headers: Mapping[str, str], *, sent: Mapping[str, str]) -> bool:
        """Whether there are other headers now. Raises `LoginNeeded` where only a person can help."""
        refusal = self._oauth.refusal(status, headers)
        if refusal.kind == "other":
            return False
        if refusal.kind == "nonce":
            return True
        act = self._connections.step_up if refusal.kind == "scopes" else self._connections.replace_refused
        _, _, token = sent.get("authorization", "").partition(" ")
        return await act(self._source, self._principal, self._oauth, sent=token, challenge=refusal.challenge)


def _ended(by: str, held: Held | None) -> Entry | None:
    if held is None or not held.connection.is_connected:
        return None
    before = {"principal": held.connection.principal or None, "issuer": held.connection.issuer}
    return Entry(actor=by, action="connection.ended", subject=held.connection.source, before=before)


def _identity(settings: Settings) -> Client | None:
    """Who the gateway is at the provider that people sign in with, for `grant = "enterprise"`."""
    oidc = settings.oidc
    if oidc is None:
        return None
    return Client(
        issuer=oidc.issuer,
        client_id=oidc.client_id,
        client_secret=oidc.client_secret,
        auth_method="none" if oidc.client_secret is None else "client_secret_basic",
        origin="config",
    )


def _client_id(source: ConnectedSource, issuer: str) -> str:
    """A client that registers itself is another one at each issuer; the config's is for the one it was made for."""
    return f"{source.name} {'config' if source.oauth.client_id is not None else issuer}"


def login_needed(source: ConnectedSource, principal: str, *, scopes: tuple[str, ...] = ()) -> LoginNeeded:
    """Says who has to log in, and how."""
    more = f" for more than before ({' '.join(scopes)})" if scopes else ""
    if source.is_per_user:
        message = f"Source '{source.name}' needs a login of '{principal}'{more}. Run: jackfield login {source.name}"
        return LoginNeeded(message, source=source.name, principal=principal, scopes=scopes)
    message = f"Source '{source.name}' needs a login{more}. An administrator makes it: jackfield login {source.name}"
    return LoginNeeded(message, source=source.name, principal=None, scopes=scopes)
