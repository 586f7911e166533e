"""Logins by a person's browser: from the link of a waiting call to the tokens, in the name of its caller.

Above: `pages.py` and `api.py`. Below: `connections.py` and the OAuth client of the source. Each step is on record
before the browser is told: a gateway that is killed anywhere leaves the login made, or still to be made.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec
from msgspec import Struct

from jackfield.connections import transactions as tx
from jackfield.connections.connections import Connections
from jackfield.connections.credentials import Credentials
from jackfield.connections.oauth import AuthorizationRequest, Challenge, Client, OAuthError, Target, TokenRefused
from jackfield.connections.oauth.challenges import challenge_of
from jackfield.connections.transactions import LOGIN_FLOW
from jackfield.connections.types import (
    NOTHING,
    ConnectedSource,
    Flow,
    FlowSecrets,
    WaitingCall,
    connection_id,
)
from jackfield.errors import BadRequest, Conflict, Expired, Forbidden, UpstreamFailed
from jackfield.identity.keys import digest_of
from jackfield.identity.vault import Vault
from jackfield.identity.vault_transactions import SealedRow
from jackfield.model.ids import new_id
from jackfield.model.principal import Principal
from jackfield.outgoing import Outgoing, OutgoingError
from jackfield.store import Store
from jackfield.store.scripts import Script

log = logging.getLogger("jackfield")

CALL_PREFIX = "call_"
LINK_MS = 3_600_000
"""How long a link that was asked for over the API is good."""
ATTEMPT_MS = 900_000
"""How long a person may take at the authorization server."""
PROBE_SECONDS = 10.0
_AGENT = "agent:"
_NO_FLOW = (
    "This login is finished, or was not begun here. If it said that you are connected, close this page; "
    "else start the login again."
)

FindCall = Callable[[str], Awaitable[WaitingCall | None]]
LoginDone = Callable[[str, str | None], Awaitable[object]]
"""Takes the source and whose login it is, None for the one for all: lets the calls run that waited for it."""


class LoginOffer(Struct, frozen=True, kw_only=True):
    """What a link leads to: a login at this source, in this name."""

    id: str
    source: ConnectedSource
    whose: str
    """Empty: for everybody."""
    tool: str | None
    """The tool of the call that waits for it."""
    lasts_ms: int


class LoginFlows:
    """Logins that are asked for, begun and finished."""

    def __init__(
        self,
        connections: Connections,
        *,
        store: Store,
        vault: Vault,
        outgoing: Outgoing,
        public_url: str,
        find_call: FindCall,
        login_done: LoginDone,
    ) -> None:
        self._connections = connections
        self._store = store
        self._vault = vault
        self._outgoing = outgoing
        self._public_url = public_url
        self._find_call = find_call
        self._login_done = login_done

    async def open(self, source: ConnectedSource, principal: Principal) -> str:
        """A link for this principal's browser to make a login, or for an administrator's to make the one for all."""
        if source.is_for_machines:
            raise Conflict(
                f"Source '{source.name}' logs in by itself (grant = \"{source.oauth.grant}\"). There is nothing to do."
            )
        whose = source.principal(principal.on_record)
        require_may_log_in(principal, source, whose)
        flow = Flow(id=new_id("login"), source=source.name, principal=whose, asked_by=principal.on_record, browser=None)
        await self._store.write(partial(tx.open_flow, flow, lasts_ms=LINK_MS))
        return f"{self._public_url}/connect/{flow.id}"

    async def look(self, flow_id: str, principal: Principal) -> LoginOffer:
        """What the link leads to. Raises `Forbidden` for anybody else than it is for, `Expired` when it has ended."""
        if flow_id.startswith(CALL_PREFIX):
            call = await self._find_call(flow_id)
            if call is None:
                raise Expired("The call does not wait for a login any more, or there is none. You can close this page.")
            source = self._connections.source(call.source)
            whose, tool, lasts_ms = source.principal(call.caller), call.tool, call.lasts_ms
        else:
            flow = await self._store.read(partial(tx.get_flow, flow_id))
            if flow is None:
                raise Expired("The link has been used, or is too old. Ask for another: jackfield login SOURCE")
            source = self._connections.source(flow.source)
            whose, tool, lasts_ms = flow.principal, None, ATTEMPT_MS
        require_may_log_in(principal, source, whose)
        return LoginOffer(id=flow_id, source=source, whose=whose, tool=tool, lasts_ms=lasts_ms)

    async def begin(self, flow_id: str, principal: Principal, *, browser: str) -> str:
        """Where the browser goes: a page of the authorization server. `browser`: the digest of its sign-in."""
        offer = await self.look(flow_id, principal)
        try:
            target, client, request = await self._request(offer.source, offer.whose)
        except OAuthError as fault:
            raise UpstreamFailed(f"The login at source '{offer.source.name}' cannot begin. {fault.message}") from None
        flow = Flow(
            id=flow_id,
            source=offer.source.name,
            principal=offer.whose,
            asked_by=principal.on_record,
            browser=browser,
        )
        secrets = FlowSecrets(request=request, target=target, client=client)
        lasts_ms = min(ATTEMPT_MS, offer.lasts_ms)
        await self._store.write(partial(self._begun, flow, secrets, lasts_ms))
        return request.url

    def _begun(self, flow: Flow, secrets: FlowSecrets, lasts_ms: int) -> Script[None]:
        sealed: SealedRow = self._vault.row(LOGIN_FLOW, flow.id, msgspec.json.encode(secrets))
        return tx.begin_flow(flow, digest_of(secrets.request.state), sealed, lasts_ms=lasts_ms)

    async def _request(self, source: ConnectedSource, whose: str) -> tuple[Target, Client, AuthorizationRequest]:
        oauth = self._connections.oauth(source.name)
        known = self._connections.book.get(connection_id(source.name, whose))
        wanted = NOTHING if known is None else known.wanted
        challenge = await self._probe(source) or wanted.challenge
        target = await oauth.discover(challenge, known_issuer=known.issuer or None if known is not None else None)
        scopes = wanted.scopes or oauth.scopes(target, challenge)
        before = await self._connections.registered_client(source, target.server.issuer)
        client = await oauth.client(target, known=before, scopes=scopes)
        if client != before and client.origin != "metadata_document":
            await self._connections.keep_client(source, client)
        return target, client, oauth.begin(target, client, scopes=scopes)

    async def _probe(self, source: ConnectedSource) -> Challenge | None:
        """Ask the server without a login, to see what it asks for."""
        headers = {"accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}} if source.is_mcp else None
        try:
            answer = await self._outgoing.request(
                "POST" if source.is_mcp else "GET",
                source.url,
                headers=headers,
                json=body,
                timeout=PROBE_SECONDS,
                named_by=source.url,
            )
        except OutgoingError:
            return None  # discovery has other ways
        return challenge_of(answer.headers) if answer.status == 401 else None  # noqa: PLR2004

    async def finish(self, answer: Mapping[str, str], principal: Principal, *, browser: str) -> LoginOffer:
        """The authorization server's answer, brought by the browser: the login is made when this comes back."""
        state_digest = digest_of(answer.get("state", ""))
        found = await self._store.read(partial(tx.flow_by_state, state_digest))
        if found is None:
            raise BadRequest(_NO_FLOW, param="state")
        flow, sealed = found
        if flow.browser != browser or flow.asked_by != principal.on_record:
            raise Forbidden("The login was begun in another browser, or by somebody else. Open its link again here.")
        offer = await self.look(flow.id, principal)
        if sealed is None or not await self._store.write(partial(tx.use_flow, flow, state_digest)):
            raise BadRequest(_NO_FLOW, param="state")
        secrets = msgspec.json.decode(self._vault.unseal(LOGIN_FLOW, flow.id, sealed), type=FlowSecrets)
        credentials = await self._redeem(offer, secrets, answer)
        await self._connections.connected(offer.source, offer.whose, credentials, flow=flow.id, by=principal.on_record)
        try:
            await self._login_done(offer.source.name, offer.whose or None)
        except Exception:
            log.exception("calls that waited for a login are not let go at once; the sweeper finds them")
        return offer

    async def take_back(self, offer: LoginOffer) -> None:
        """End a login that was just made, because who made it is gone: nobody would end it later."""
        await self._connections.disconnect(offer.source, offer.whose, by=offer.whose)

    async def _redeem(self, offer: LoginOffer, secrets: FlowSecrets, answer: Mapping[str, str]) -> Credentials:
        source = offer.source
        oauth = self._connections.oauth(source.name)
        try:
            tokens = await oauth.finish(secrets.target, secrets.client, secrets.request, answer)
        except OAuthError as fault:
            is_unknown = isinstance(fault, TokenRefused) and fault.error == "invalid_client"
            if is_unknown and secrets.client.origin == "registered":
                await self._connections.forget_client(source, secrets.client.issuer)
            raise UpstreamFailed(f"The login at source '{source.name}' was not made. {fault.message}") from None
        return Credentials(
            source=source.name,
            principal=offer.whose,
            tokens=tokens,
            target=secrets.target,
            client=secrets.client,
            obtained_at=time.time(),
        )


def require_may_log_in(principal: Principal, source: ConnectedSource, whose: str) -> None:
    """Raise `Forbidden` unless this principal may make the login, or end it."""
    if not source.is_per_user:
        if not principal.is_admin or principal.is_limited:
            raise Forbidden(
                f"The login at source '{source.name}' is for everybody, so an administrator makes and ends it. "
                "Sign in as one."
            )
        return
    if whose.startswith(_AGENT):
        agent = whose.removeprefix(_AGENT)
        if principal.is_admin or agent in principal.named("agent"):
            return
    elif principal.on_record == whose and principal.session is None:
        return
    raise Forbidden("This login is somebody else's. Sign in as the one whom it is for.")
