"""`OAuthClient`: our side of OAuth with one server behind the gateway. Above: the stored connections.

It keeps no logins: callers hand in what was stored and store what they get. All it remembers are DPoP nonces.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from msgspec import structs

from jackfield.connections.oauth.authorization import authorization_request, check_callback, dpop_key_for
from jackfield.connections.oauth.challenges import Refusal, initial_scopes, refusal_of
from jackfield.connections.oauth.discovery import canonical_resource
from jackfield.connections.oauth.endpoint import TokenEndpoints
from jackfield.connections.oauth.enterprise import EnterpriseProvider, SignIn
from jackfield.connections.oauth.errors import (
    CallbackRefused,
    GrantEnded,
    OAuthError,
    OAuthUnavailable,
    RegistrationFailed,
    TokenRefused,
)
from jackfield.connections.oauth.http import OAuthHttp, host_of
from jackfield.connections.oauth.jose import dpop_proof, signed_assertion
from jackfield.connections.oauth.registration import configured_client, is_document_url, is_usable, register
from jackfield.connections.oauth.target import find_target
from jackfield.connections.oauth.tokens import (
    INVALID_CLIENT,
    JWT_BEARER,
    WRONG_CLIENT,
    audience,
    client_authentication,
    is_revoked,
    parse_tokens,
)
from jackfield.connections.oauth.types import (
    AuthorizationRequest,
    AuthorizationServer,
    Challenge,
    Client,
    Target,
    Tokens,
)
from jackfield.outgoing import Outgoing
from jackfield.outgoing.urls import named_origin
from jackfield.settings.identity import SourceOAuth

MAX_TOKEN_FILE = 64 * 1024
REFRESH_SECONDS = 40.0
"""All requests of one refresh together."""


class OAuthClient:
    """The protocol with the server at `url`, a url of the operator's config, as `config` (its `oauth`) has it.

    `redirect_uri` is where browsers come back to; `document_url` is where the gateway serves its client id metadata
    document, None where that is not an https address. `is_mcp` servers get a `resource` even if they have no metadata.
    `identity` is the gateway's client at the provider where people sign in, for `grant = "enterprise"`.
    """

    def __init__(
        self,
        outgoing: Outgoing,
        url: str,
        config: SourceOAuth,
        *,
        redirect_uri: str,
        document_url: str | None = None,
        is_mcp: bool = True,
        identity: Client | None = None,
    ) -> None:
        self.url = url
        self.config = config
        self._redirect_uri = redirect_uri
        self._document_url = document_url if is_document_url(document_url) else None
        self._is_mcp = is_mcp
        configured = (config.issuer, config.authorization_url, config.token_url, config.revocation_url)
        named = (url, *configured, config.identity_provider)
        self._http = OAuthHttp(outgoing, named=[each for each in named if each])
        self._endpoints = TokenEndpoints(self._http)
        self._enterprise = EnterpriseProvider(self._http, self._endpoints, config, identity=identity, host=host_of(url))

    @property
    def host(self) -> str:
        """The server's host, for messages."""
        return host_of(self.url)

    async def discover(self, challenge: Challenge | None = None, *, known_issuer: str | None = None) -> Target:
        """Find out where to get tokens. `challenge` is the server's, `known_issuer` that of a login we have."""
        target = await find_target(
            self._http, self.url, self.config, challenge=challenge, known_issuer=known_issuer, is_mcp=self._is_mcp
        )
        if self.config.grant != "enterprise":
            return target
        return structs.replace(target, identity_provider=await self._enterprise.discover())

    async def client(self, target: Target, *, known: Client | None = None, scopes: tuple[str, ...] = ()) -> Client:
        """The client to log in with: the config's, else by metadata document, else the `known` one or a new one.

        `known` is what was stored for this source. It is used again only at the server that it belongs to.
        """
        server, configured_id = target.server, self.config.client_id
        is_document = is_document_url(configured_id) and self.config.client_secret is None
        if configured_id is not None and not (is_document and self.config.grant == "code"):
            known_issuer = known.issuer if known is not None and known.origin == "config" else None
            return await configured_client(
                server, self.config, redirect_uri=self._redirect_uri, known_issuer=known_issuer
            )
        if self.config.grant != "code":
            raise RegistrationFailed(
                f'The source at {self.host} needs a `client_id` in its `oauth` for `grant = "{self.config.grant}"`.'
            )
        if server.client_id_metadata_document_supported and (document := configured_id or self._document_url):
            return Client(
                issuer=server.issuer,
                client_id=document,
                redirect_uri=self._redirect_uri,
                origin="metadata_document",
            )
        if known is not None and is_usable(known, server, redirect_uri=self._redirect_uri):
            return known
        return await register(self._http, server, redirect_uri=self._redirect_uri, scopes=scopes)

    def scopes(self, target: Target, challenge: Challenge | None = None) -> tuple[str, ...]:
        """What a first login asks for."""
        return initial_scopes(target, challenge, configured=self.config.scopes)

    def begin(
        self, target: Target, client: Client, *, scopes: tuple[str, ...], state: str | None = None
    ) -> AuthorizationRequest:
        """A login for a person's browser. Store it with the target and the client until the callback comes."""
        _check_bound(target.server, client)
        if target.identity_provider is not None:
            return self._enterprise.begin(
                target.identity_provider, scopes=scopes, redirect_uri=self._redirect_uri, state=state
            )
        return authorization_request(target, client, scopes=scopes, redirect_uri=self._redirect_uri, state=state)

    async def finish(
        self, target: Target, client: Client, request: AuthorizationRequest, callback: Mapping[str, str]
    ) -> Tokens:
        """The tokens for a callback that answers `request`. Raises `CallbackRefused` for any other."""
        server = target.server
        if target.identity_provider is not None:
            return await self._finish_sign_in(target, client, request, callback)
        if not server.issuer == client.issuer == request.issuer or client.client_id != request.client_id:
            raise CallbackRefused(
                f"The login was begun at {host_of(request.issuer)}, but is wanted elsewhere now. Start it again."
            )
        code = check_callback(request, callback)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": request.redirect_uri,
            "code_verifier": request.verifier,
        }
        answer = await self._endpoints.ask(server, client, form, resource=request.resource, dpop_key=request.dpop_key)
        return parse_tokens(
            answer,
            server=server,
            client=client,
            resource=request.resource,
            scopes=request.scopes,
            dpop_key=request.dpop_key,
        )

    async def refresh(self, server: AuthorizationServer, client: Client, tokens: Tokens) -> Tokens:
        """Fresh tokens. The refresh token stays where the server gives no new one.

        Raises `GrantEnded` where only a login helps, with `error` = `invalid_client` if the server has forgotten a
        client that registered itself.
        """
        _check_bound(server, client, tokens)
        client = await self._current_client(server, client)
        try:
            async with asyncio.timeout(REFRESH_SECONDS):
                return await self._refresh(server, client, tokens)
        except TimeoutError:
            raise OAuthUnavailable(f"{host_of(server.issuer)} took too long to refresh the login.") from None
        except TokenRefused as refused:
            if client.origin == "registered" and refused.error in WRONG_CLIENT:
                raise GrantEnded(
                    f"{host_of(server.issuer)} does not know the gateway any more. Log in again.", error=INVALID_CLIENT
                ) from None
            raise

    async def _refresh(self, server: AuthorizationServer, client: Client, tokens: Tokens) -> Tokens:
        if tokens.refresh_token is None:
            raise GrantEnded(f"The login at {host_of(server.issuer)} is over. Log in again.", error="no_refresh_token")
        if tokens.is_refreshed_by_provider:
            return await self._refresh_sign_in(server, client, tokens, tokens.refresh_token)
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        answer = await self._endpoints.ask(server, client, form, resource=tokens.resource, dpop_key=tokens.dpop_key)
        return parse_tokens(
            answer,
            server=server,
            client=client,
            resource=tokens.resource,
            scopes=tokens.scopes,
            dpop_key=tokens.dpop_key,
            before=tokens,
        )

    async def machine(self, target: Target, client: Client, *, scopes: tuple[str, ...]) -> Tokens:
        """Tokens that need no person: client credentials, a signed assertion, or a token in a file."""
        server, grant = target.server, self.config.grant
        _check_bound(server, client)
        if grant == "client_credentials":
            form: dict[str, str] = {"grant_type": grant}
        elif grant in ("jwt_bearer", "workload"):
            form = {"grant_type": JWT_BEARER, "assertion": await self._assertion(server, client, scopes)}
        elif grant == "enterprise" and self.config.token_file is not None:
            id_token = await asyncio.to_thread(_read_token, self.config.token_file)
            return await self._vouched(target, client, id_token, scopes=scopes)
        else:
            raise OAuthError(f'`grant = "{grant}"` needs a person to log in.')
        return await self._granted(target, client, form, scopes=scopes)

    async def _finish_sign_in(
        self, target: Target, client: Client, request: AuthorizationRequest, callback: Mapping[str, str]
    ) -> Tokens:
        """The tokens for somebody who has signed in at the enterprise's identity provider."""
        assert target.identity_provider is not None
        signed_in = await self._enterprise.finish(target.identity_provider, request, callback)
        tokens = await self._vouched(target, client, signed_in.id_token, scopes=request.scopes)
        return _refreshed_by(signed_in, tokens)

    async def _refresh_sign_in(
        self, server: AuthorizationServer, client: Client, tokens: Tokens, refresh_token: str
    ) -> Tokens:
        provider = await self._enterprise.discover()
        signed_in = await self._enterprise.refresh(provider, refresh_token)
        is_bound = tokens.dpop_key is not None
        target = Target(
            url=self.url, server=server, resource=tokens.resource, dpop=is_bound, identity_provider=provider
        )
        fresh = await self._vouched(target, client, signed_in.id_token, scopes=tokens.asked, dpop_key=tokens.dpop_key)
        return _refreshed_by(signed_in, fresh)

    async def _vouched(
        self, target: Target, client: Client, id_token: str, *, scopes: tuple[str, ...], dpop_key: str | None = None
    ) -> Tokens:
        """Tokens for somebody for whom the identity provider vouches."""
        provider = target.identity_provider or await self._enterprise.discover()
        resource = target.resource or canonical_resource(self.url)
        assertion = await self._enterprise.exchange(
            provider, id_token, audience=target.server.issuer, resource=resource, scopes=scopes
        )
        form = {"grant_type": JWT_BEARER, "assertion": assertion}
        return await self._granted(target, client, form, scopes=scopes, dpop_key=dpop_key)

    async def revoke(self, server: AuthorizationServer, client: Client, tokens: Tokens) -> bool:
        """End a login at the server (RFC 7009). False: the server has no way to."""
        _check_bound(server, client, tokens)
        client = await self._current_client(server, client)
        if server.revocation_endpoint is None:
            return False
        ours = None if tokens.is_refreshed_by_provider else tokens.refresh_token
        revoked = False
        held = (("refresh_token", ours), ("access_token", tokens.access_token))
        for kind, token in held:
            if token is not None:
                body, headers = client_authentication(server, client)
                form = {"token": token, "token_type_hint": kind, **body}
                answer = await self._http.post_form(server.revocation_endpoint, form, headers=headers)
                revoked |= is_revoked(answer, server)
        return revoked

    def headers(self, tokens: Tokens, method: str, url: str) -> dict[str, str]:
        """The headers that authorize one request; those for an MCP server to its own origin only."""
        if self._is_mcp and named_origin(url) != named_origin(self.url):
            raise OAuthError(f"The login at {self.host} is not sent to {host_of(url)}.")
        if tokens.token_type != "DPoP" or tokens.dpop_key is None:  # noqa: S105 - its kind
            return {"authorization": f"Bearer {tokens.access_token}"}
        nonce = self._endpoints.nonce(url)
        proof = dpop_proof(tokens.dpop_key, method, url, nonce=nonce, access_token=tokens.access_token)
        return {"authorization": f"DPoP {tokens.access_token}", "dpop": proof}

    def refusal(self, status: int, headers: Mapping[str, str]) -> Refusal:
        """What the server's refusal means for the login. A DPoP nonce in it is used from then on."""
        self._endpoints.keep_nonce(self.url, headers)
        return refusal_of(status, headers)

    async def _current_client(self, server: AuthorizationServer, client: Client) -> Client:
        """A client of the config as the config has it now: its secret may be another than when somebody logged in."""
        if client.origin != "config":
            return client
        if client.client_id != self.config.client_id:
            raise GrantEnded(
                f"The source at {self.host} has another `client_id` now. Log in again.", error="client_changed"
            )
        return await configured_client(server, self.config, redirect_uri=client.redirect_uri, known_issuer=None)

    async def _assertion(self, server: AuthorizationServer, client: Client, scopes: tuple[str, ...]) -> str:
        if self.config.token_file is not None:
            return await asyncio.to_thread(_read_token, self.config.token_file)
        if self.config.grant == "workload" or client.private_key is None:
            missing = "token_file" if self.config.grant == "workload" else "private_key"
            raise OAuthError(f'The source at {self.host} has `grant = "{self.config.grant}"` but no `{missing}`.')
        return signed_assertion(
            client.private_key,
            client_id=client.client_id,
            audience=audience(server),
            algorithm=client.signing_algorithm,
            claims={"scope": " ".join(scopes)} if scopes else None,
        )

    async def _granted(
        self,
        target: Target,
        client: Client,
        form: dict[str, str],
        *,
        scopes: tuple[str, ...],
        dpop_key: str | None = None,
    ) -> Tokens:
        """Tokens for a grant without a callback."""
        _check_bound(target.server, client)
        if scopes:
            form = {**form, "scope": " ".join(scopes)}
        if dpop_key is None and target.dpop:
            dpop_key = dpop_key_for(target.server)
        answer = await self._endpoints.ask(target.server, client, form, resource=target.resource, dpop_key=dpop_key)
        return parse_tokens(
            answer, server=target.server, client=client, resource=target.resource, scopes=scopes, dpop_key=dpop_key
        )


def _check_bound(server: AuthorizationServer, client: Client, tokens: Tokens | None = None) -> None:
    """Client and tokens are shown to the server they belong to, and to no other."""
    if client.issuer != server.issuer or (
        tokens is not None and (tokens.issuer, tokens.client_id) != (client.issuer, client.client_id)
    ):
        raise GrantEnded(
            f"The login belongs to {host_of((tokens or client).issuer)}, but the server wants logins at "
            f"{host_of(server.issuer)} now. Log in again.",
            error="issuer_changed",
        )


def _refreshed_by(signed_in: SignIn, tokens: Tokens) -> Tokens:
    """`tokens`, to be refreshed at the identity provider where the server gives no refresh token."""
    if tokens.refresh_token is not None or signed_in.refresh_token is None:
        return tokens
    return structs.replace(tokens, refresh_token=signed_in.refresh_token, is_refreshed_by_provider=True)


def _read_token(path: str) -> str:
    try:
        with Path(path).expanduser().open(encoding="ascii") as file:
            token = file.read(MAX_TOKEN_FILE).strip()
    except (OSError, ValueError):
        token = ""
    if not token:
        raise OAuthError("`token_file` of the source's `oauth` cannot be read, or is empty. It has to hold one token.")
    return token
