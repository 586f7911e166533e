"""Signing in with an OpenID provider: the request that a browser is sent with, and what its answer proves.

Above: `oidc_api.py`. Below: `jwks.py` for the provider's metadata, keys and tokens, and the guarded HTTP client. Code
flow with PKCE, state and nonce; the answer must come from the provider that was asked (RFC 9207).
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote_plus, urlencode

import msgspec
from msgspec import Struct

from jackfield.errors import BadRequest, Forbidden, Unauthenticated, Unavailable
from jackfield.identity.jwks import Issuer, IssuerMetadata
from jackfield.identity.people import USER_PREFIX
from jackfield.identity.people_transactions import BegunSignIn, Person
from jackfield.identity.roles import roles_for
from jackfield.outgoing import Outgoing, OutgoingBadUrl, OutgoingError, OutgoingResponse
from jackfield.outgoing.urls import origin_of, parse_url
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.settings.identity import OidcSettings, RoleSettings

log = logging.getLogger("jackfield")

CALLBACK = "/api/login/oidc/callback"
SECONDS = 10.0
"""In which the provider must have answered, whatever it is asked."""
MAX_BYTES = 512 * 1024
LONGEST_SUB = 255
LONGEST_NAME = 200
MOST_GROUPS = 10_000
MOST_LOGGED = 20
"""Groups of somebody without a role that the log names."""
_OK, _FAULTS = 200, 500


class AuthorizationRequest(Struct, frozen=True, kw_only=True):
    """Where to send the browser, and what its answer is checked against."""

    url: str
    state: str
    begun: BegunSignIn


class AuthorizationResponse(Struct, frozen=True, kw_only=True):
    """What the browser comes back with."""

    state: str = ""
    code: str | None = None
    iss: str | None = None
    error: str | None = None
    error_description: str | None = None


class _Tokens(Struct, frozen=True, kw_only=True):
    id_token: str
    access_token: str | None = None


class OidcProvider:
    """The provider of `[auth.oidc]`, as this gateway uses it."""

    def __init__(
        self,
        settings: OidcSettings,
        roles: Mapping[str, RoleSettings],
        *,
        outgoing: Outgoing,
        url: str,
        issuer: Issuer | None = None,
    ) -> None:
        """`url`: the gateway's own."""
        self.settings = settings
        self.apply(roles)
        self._outgoing = outgoing
        self._issuer = issuer or Issuer(settings.issuer, outgoing=outgoing)
        self._redirect_uri = f"{url}{CALLBACK}"

    def apply(self, roles: Mapping[str, RoleSettings]) -> None:
        """Who signs in from now on gets these roles."""
        self._roles = roles

    async def fault(self) -> str | None:
        """Why nobody could sign in with it now, for its operator; None: nothing is known against it."""
        try:
            await self.begin("/")
        except Unavailable:
            said = (
                " ".join(self._issuer.faults) or "its metadata names endpoints that cannot be used, or it is too slow"
            )
            return f"{self.settings.issuer} cannot be used: {said}"
        return None

    async def begin(self, return_to: str, *, asks_anew: bool = False) -> AuthorizationRequest:
        """A new request; `asks_anew`: the provider asks who it is, even if it knows.

        Raises `Unavailable` while the provider cannot be reached.
        """
        async with self._within(SECONDS):
            metadata = await self._metadata()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        parameters = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **({"prompt": "login"} if asks_anew else {}),
        }
        endpoint = self._endpoint(metadata.authorization_endpoint, "authorization")
        url = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"
        begun = BegunSignIn(issuer=self.settings.issuer, nonce=nonce, verifier=verifier, return_to=return_to)
        return AuthorizationRequest(url=url, state=state, begun=begun)

    async def finish(self, response: AuthorizationResponse, begun: BegunSignIn) -> Person:
        """Who signed in, with the roles that they have; perhaps none. Everything is checked."""
        async with self._within(2 * SECONDS):
            metadata = await self._metadata()
            self._check_response(response, begun, metadata)
            if response.code is None:
                raise BadRequest("The provider's answer has no code. Sign in again.", param="code")
            tokens = await self._exchange(response.code, begun.verifier, metadata)
            claims = await self._issuer.verify(tokens.id_token, audience=self.settings.client_id)
            self._check_claims(claims, begun)
            if self._lacks_something(claims):
                claims = together(await self._user_info(tokens.access_token, metadata, subject=claims["sub"]), claims)
        person = self.person(claims)
        if not person.roles:
            self._log_no_role(person, claims)
        return person

    def _log_no_role(self, person: Person, claims: Mapping[str, Any]) -> None:
        """What the operator needs to see which role is missing, or that the claim has another name."""
        claim = self.settings.groups_claim
        groups = [_text(group) for group in (groups_in(claims, claim) or [])[:MOST_LOGGED]]
        log.info(
            "%s was not signed in, for want of a role: verified email %s, groups in the claim '%s': %s",
            person.id,
            person.email or "none",
            claim,
            ", ".join(groups) or "none",
        )

    def person(self, claims: Mapping[str, Any]) -> Person:
        """Whom these claims are about, and the roles that they have by them."""
        subject = claims["sub"]
        email = _text(claims.get("email"))
        verified = verified_email(claims)
        groups = groups_in(claims, self.settings.groups_claim)
        names = (claims.get("name"), claims.get("preferred_username"), email, subject)
        return Person(
            id=f"{USER_PREFIX}{subject}",
            issuer=self.settings.issuer,
            name=next(text for name in names if (text := _text(name))),
            email=verified,
            roles=tuple(roles_for(self._roles, groups=groups or (), email=verified)),
        )

    @asynccontextmanager
    async def _within(self, seconds: float) -> AsyncIterator[None]:
        """Bounds all that is asked of the provider, also the wait for what others ask."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            log.warning("%s did not answer within %g s", self.settings.issuer, seconds)
            raise self._unavailable() from None

    async def _metadata(self) -> IssuerMetadata:
        try:
            return await self._issuer.metadata()
        except Unavailable as fault:
            raise self._unavailable() from fault

    def _check_response(self, response: AuthorizationResponse, begun: BegunSignIn, metadata: IssuerMetadata) -> None:
        issuer = self.settings.issuer
        if begun.issuer != issuer:
            raise BadRequest("The sign-in was begun with another provider. Sign in again.")
        says_who = metadata.authorization_response_iss_parameter_supported
        if (response.iss is None and says_who) or (response.iss is not None and response.iss != issuer):
            raise BadRequest("The answer is not from the provider that was asked. Sign in again.", param="iss")
        if response.error is not None:
            said = _text(response.error_description) or _text(response.error) or "no reason given"
            raise Forbidden(f"{self.settings.name} did not sign you in: {said}")

    def _check_claims(self, claims: Mapping[str, Any], begun: BegunSignIn) -> None:
        nonce, party, audience = claims.get("nonce"), claims.get("azp"), claims["aud"]
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), begun.nonce.encode()):
            raise Unauthenticated("The provider's token is not of this sign-in. Sign in again.")
        is_shared = isinstance(audience, list) and len(audience) > 1
        if (party is not None or is_shared) and party != self.settings.client_id:
            raise Unauthenticated("The provider's token was made for another client. Sign in again.")
        _check_subject(claims.get("sub"))

    async def _exchange(self, code: str, verifier: str, metadata: IssuerMetadata) -> _Tokens:
        """The tokens for a code, which the provider takes once."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        client, secret = self.settings.client_id, self.settings.client_secret
        if secret is None:
            form["client_id"] = client
        elif "client_secret_basic" in (methods := metadata.token_endpoint_auth_methods_supported) or not methods:
            basic = b64encode(f"{quote_plus(client)}:{quote_plus(secret)}".encode()).decode()
            headers["authorization"] = f"Basic {basic}"
        else:
            form |= {"client_id": client, "client_secret": secret}
        url = self._endpoint(metadata.token_endpoint, "token")
        response = await self._request("POST", url, headers=headers, content=urlencode(form).encode())
        if response.status != _OK:
            log.warning("%s refused the code of a sign-in: %s", self.settings.issuer, _error_in(response))
            raise BadRequest(
                f"{self.settings.name} refused the code: it is used up or too old, or [auth.oidc] is not right. "
                "Sign in again; if that does not help, see the gateway's log.",
                param="code",
            )
        try:
            return msgspec.json.decode(response.content, type=_Tokens)
        except UNREADABLE as fault:
            log.warning("%s answered a sign-in without an id token: %s", self.settings.issuer, fault)
            raise self._unavailable() from None

    def _lacks_something(self, claims: Mapping[str, Any]) -> bool:
        """Whether roles could depend on what the id token does not say."""
        needs_groups = any(set(role.groups) - {"*"} for role in self._roles.values())
        needs_email = any(role.emails for role in self._roles.values())
        has_groups = groups_in(claims, self.settings.groups_claim) is not None
        return (needs_groups and not has_groups) or (needs_email and "email" not in claims) or "name" not in claims

    async def _user_info(self, token: str | None, metadata: IssuerMetadata, *, subject: str) -> dict[str, Any]:
        """What the provider says besides; nothing where it says nothing."""
        if token is None or metadata.userinfo_endpoint is None:
            return {}
        url = self._endpoint(metadata.userinfo_endpoint, "userinfo")
        response = await self._request(
            "GET", url, headers={"accept": "application/json", "authorization": f"Bearer {token}"}
        )
        if response.status != _OK:
            log.warning("%s gave no userinfo: %s", self.settings.issuer, _error_in(response))
            return {}
        try:
            claims = msgspec.json.decode(response.content, type=dict[str, Any])
        except UNREADABLE:
            log.warning("%s gave userinfo that is not JSON; it is not used", self.settings.issuer)
            return {}
        if claims.get("sub") != subject:
            raise Unauthenticated("The provider's userinfo is about somebody else. Sign in again.")
        return claims

    def _endpoint(self, url: str | None, what: str) -> str:
        """An address of the provider's metadata: of TLS, or of the origin that the config names."""
        try:
            parsed = None if url is None else parse_url(url)
            own = origin_of(parse_url(self.settings.issuer))
        except OutgoingBadUrl:
            parsed = None
        if url is None or parsed is None or not (parsed.scheme == "https" or origin_of(parsed) == own):
            log.warning("%s names a %s endpoint that cannot be used: %.200r", self.settings.issuer, what, url)
            raise self._unavailable()
        return str(parsed)

    async def _request(
        self, method: str, url: str, *, headers: dict[str, str], content: bytes | None = None
    ) -> OutgoingResponse:
        """Secrets go where the metadata says and to no redirect."""
        try:
            response = await self._outgoing.request(
                method,
                url,
                headers=headers,
                content=content,
                timeout=SECONDS,
                max_bytes=MAX_BYTES,
                named_by=self.settings.issuer,
                max_redirects=0,
            )
        except OutgoingError as fault:
            log.warning("%s cannot be reached for a sign-in: %s", self.settings.issuer, fault)
            raise self._unavailable() from None
        if response.status >= _FAULTS:
            log.warning("%s failed at a sign-in with status %d", self.settings.issuer, response.status)
            raise self._unavailable()
        return response

    def _unavailable(self) -> Unavailable:
        return Unavailable(
            f"{self.settings.name} cannot be used right now. Try again later, or sign in with a key; "
            "the gateway's log says why."
        )


def groups_in(claims: Mapping[str, Any], claim: str) -> list[str] | None:
    """The groups that a claim lists; None: the claim is not there. Dots lead into objects."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if found is None:
        return None
    listed = found if isinstance(found, list) else [found]
    return [group for group in listed[:MOST_GROUPS] if isinstance(group, str)]


def together(info: Mapping[str, Any], claims: Mapping[str, Any]) -> dict[str, Any]:
    """Userinfo with the claims of the id token over it. That an email is verified counts for that email only."""
    said = {**info, **claims}
    about = [one for one in (claims, info) if one.get("email") == said.get("email") and "email_verified" in one]
    return said | {"email_verified": about[0]["email_verified"] if about else False}


def verified_email(claims: Mapping[str, Any]) -> str | None:
    """The email, if the issuer verified it. One that could only be shown cut or cleaned would be another's, so none."""
    email, is_verified = claims.get("email"), claims.get("email_verified")
    is_plain = isinstance(email, str) and 0 < len(email) <= LONGEST_NAME and email == _text(email)
    return email if is_plain and (is_verified is True or is_verified == "true") else None


def is_subject(subject: object) -> bool:
    """Whether this can be the `sub` of a person."""
    return isinstance(subject, str) and 0 < len(subject) <= LONGEST_SUB and subject.isprintable()


def _check_subject(subject: object) -> None:
    if not is_subject(subject):
        raise Unauthenticated("The provider's token names nobody that can be signed in. Ask whoever runs it.")


def _text(value: object) -> str:
    """Foreign text for people: without control and hidden characters, and not long."""
    return "".join(filter(str.isprintable, value[:LONGEST_NAME])).strip() if isinstance(value, str) else ""


def _error_in(response: OutgoingResponse) -> str:
    """What an error response says, for the log."""
    try:
        said = msgspec.json.decode(response.content, type=dict[str, Any])
    except UNREADABLE:
        said = {}
    words = (_text(said.get("error")), _text(said.get("error_description")))
    return f"status {response.status} {' '.join(filter(None, words))}"
