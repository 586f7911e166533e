"""Clients with a metadata document that sign instead of having a secret (`private_key_jwt`, RFC 7523).

Above: `Grants`, once it knows that a person allowed this client. Below: `jwks.py` with the keys of the document, which
are fetched from public addresses only.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from jackfield.errors import Unauthenticated
from jackfield.identity.jwks import Issuer
from jackfield.identity.keys import digest_of
from jackfield.identity.oauth.documents import ClientDocuments
from jackfield.identity.oauth.types import OAuthError
from jackfield.outgoing import Outgoing

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LONGEST_SECONDS = 3_600
MOST_CLIENTS = 500
MOST_SEEN = 10_000


class Assertions:
    """Checks what clients signed."""

    def __init__(self, documents: ClientDocuments, outgoing: Outgoing, *, now: Callable[[], float] = time.time) -> None:
        self._documents = documents
        self._outgoing = outgoing
        self._now = now
        self._issuers: OrderedDict[tuple[str, str], Issuer] = OrderedDict()
        self._seen: OrderedDict[str, float] = OrderedDict()
        """Digests of assertions, and until when they would be good: each works once here."""

    async def check(self, client_id: str, fields: Mapping[str, str], *, audiences: tuple[str, ...]) -> None:
        """Raise `OAuthError` unless the request has an assertion that this client signed for one of `audiences`."""
        assertion = fields.get("client_assertion", "")
        if fields.get("client_assertion_type") != ASSERTION_TYPE or not assertion:
            raise _refused("This client authenticates by 'private_key_jwt': send a 'client_assertion'.")
        client = await self._documents.find(client_id)
        if client.jwks_uri is None:
            raise _refused("The metadata document of this client names no 'jwks_uri'.")
        issuer = self._issuer(client_id, client.jwks_uri)
        try:
            claims = await issuer.verify(assertion, audience=audiences)
        except Unauthenticated as fault:
            raise _refused(f"The client's assertion is not good. {fault.message}") from None
        if claims.get("sub") != client_id:
            raise _refused("The client's assertion is about another client ('sub').")
        self._use_up(assertion, until=float(claims["exp"]))

    def _issuer(self, client_id: str, jwks_uri: str) -> Issuer:
        known = (client_id, jwks_uri)
        if known not in self._issuers:
            self._issuers[known] = Issuer(
                client_id, outgoing=self._outgoing, jwks_url=jwks_uri, is_configured=False, now=self._now
            )
            if len(self._issuers) > MOST_CLIENTS:
                self._issuers.popitem(last=False)
        return self._issuers[known]

    def _use_up(self, assertion: str, *, until: float) -> None:
        now, digest = self._now(), digest_of(assertion)
        if until > now + LONGEST_SECONDS:
            raise _refused("The client's assertion is good for more than an hour. Make it shorter.")
        while self._seen and (len(self._seen) >= MOST_SEEN or next(iter(self._seen.values())) < now):
            self._seen.popitem(last=False)
        if digest in self._seen:
            raise _refused("The client's assertion was used before. Sign another one.")
        self._seen[digest] = until + LONGEST_SECONDS


def _refused(why: str) -> OAuthError:
    return OAuthError("invalid_client", why, status=401)
