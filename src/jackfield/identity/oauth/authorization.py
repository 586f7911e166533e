"""The authorization endpoint: what a client asks for, and the answer that goes back to it.

Above: the handlers in `authorize_api.py`. Below: clients and their redirect URIs. Pure but for finding the client.
Whatever is wrong with the client or its redirect URI is shown to the person; only then may anything go back to it.
"""

import re
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from jackfield.errors import BadRequest
from jackfield.http.request import Request
from jackfield.identity.oauth.addresses import RESOURCE_PATH, Addresses
from jackfield.identity.oauth.clients import Clients
from jackfield.identity.oauth.redirects import LOOPBACK, is_registered
from jackfield.identity.oauth.types import DEFAULT_SCOPE, SCOPES, Client, OAuthError

LONGEST_STATE = 2_000
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
PARAMETERS = (
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
)


class Asker(Struct, frozen=True, kw_only=True):
    """Who asks, and where the answer goes: both are known to be right."""

    client: Client
    redirect_uri: str
    state: str | None

    @property
    def is_trusted(self) -> bool:
        """Whether the browser may be sent there without asking: to its own machine, or to the client's own host.

        Anybody may register a client, so an error that redirects at once would make the gateway lead people anywhere.
        """
        target = urlsplit(self.redirect_uri)
        if target.scheme == "http" and target.hostname in LOOPBACK:
            return True
        return self.client.is_verified and target.scheme == "https" and target.netloc == urlsplit(self.client.id).netloc

    def answer(self, issuer: str, **values: str) -> str:
        """The redirect URI with an answer, which names its issuer (RFC 9207)."""
        said = values | ({} if self.state is None else {"state": self.state}) | {"iss": issuer}
        separator = "&" if urlsplit(self.redirect_uri).query else "?"
        return f"{self.redirect_uri}{separator}{urlencode(said)}"


class Wanted(Struct, frozen=True, kw_only=True):
    """What is asked for."""

    scopes: tuple[str, ...]
    resource: str
    """Its path."""
    challenge: str


async def find_asker(fields: Mapping[str, str], clients: Clients) -> Asker:
    """The client and its redirect URI. What is wrong with them is for the person to see: `BadRequest`."""
    client_id = fields.get("client_id", "")
    if not client_id:
        raise BadRequest("The program that sent you here did not say who it is ('client_id').", param="client_id")
    client = await clients.find(client_id)
    uri = fields.get("redirect_uri")
    if uri is None and len(client.redirect_uris) == 1:
        uri = client.redirect_uris[0]
    if uri is None or not is_registered(uri, client.redirect_uris):
        raise BadRequest(
            "The program that sent you here wants the answer at an address that it has not registered. "
            "Nothing was sent there. Do not go on unless you know why.",
            param="redirect_uri",
        )
    return Asker(client=client, redirect_uri=uri, state=fields.get("state"))


def wanted_in(fields: Mapping[str, str], request: Request, addresses: Addresses) -> Wanted:
    """What the request asks for. Raises `OAuthError`, which may go back to the client."""
    if fields.get("response_type") != "code":
        raise OAuthError("unsupported_response_type", "The only response type is 'code'.")
    if fields.get("response_mode", "query") != "query":
        raise OAuthError("invalid_request", "The only response mode is 'query'.")
    if len(fields.get("state", "")) > LONGEST_STATE:
        raise OAuthError("invalid_request", f"'state' is longer than {LONGEST_STATE:,} characters.")
    if fields.get("code_challenge_method") != "S256":
        raise OAuthError("invalid_request", "PKCE is required: send 'code_challenge_method=S256'.")
    challenge = fields.get("code_challenge", "")
    if _CHALLENGE.fullmatch(challenge) is None:
        raise OAuthError("invalid_request", "PKCE is required: send a 'code_challenge' made with S256.")
    resource = fields.get("resource")
    return Wanted(
        scopes=_scopes(fields.get("scope")),
        resource=RESOURCE_PATH if resource is None else addresses.path_of(resource, request),
        challenge=challenge,
    )


def _scopes(text: str | None) -> tuple[str, ...]:
    """The scopes that are known here; what else is asked for is ignored, as OAuth allows."""
    asked = set((text or DEFAULT_SCOPE).split())
    found = tuple(scope for scope in SCOPES if scope in asked)
    if not found:
        raise OAuthError("invalid_scope", f"None of these scopes is known. There are: {', '.join(SCOPES)}.")
    return found
