"""The types of the OAuth client protocol. All are frozen and can be stored as JSON (`msgspec.json`).

Those that hold a secret show it in no `repr`; whoever stores them seals them first.
"""

from typing import Literal

from msgspec import Struct

AuthMethod = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
"""How a client authenticates at the token endpoint."""


class Challenge(Struct, frozen=True, kw_only=True):
    """One challenge of a `WWW-Authenticate` header."""

    scheme: str
    """In lower case: `bearer`, `dpop`."""
    resource_metadata: str | None = None
    scopes: tuple[str, ...] = ()
    error: str | None = None
    algs: tuple[str, ...] = ()
    """For `dpop`: the algorithms that the server takes."""


class ProtectedResource(Struct, frozen=True, kw_only=True):
    """What a server says about itself (RFC 9728)."""

    resource: str
    authorization_servers: tuple[str, ...]
    """Issuers; a server that names none is its own."""
    scopes_supported: tuple[str, ...] | None = None
    dpop_bound_access_tokens_required: bool = False
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None


class AuthorizationServer(Struct, frozen=True, kw_only=True):
    """The metadata of an authorization server (RFC 8414, OpenID Connect Discovery), or what the config says of it."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    authorization_grant_profiles_supported: tuple[str, ...] | None = None
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    origin: Literal["metadata", "default", "config", "endpoints"] = "metadata"
    """`metadata`: its own. `config`: endpoints and issuer are the operator's. `endpoints`: only these are, and the
    issuer is their origin. `default`: it has no metadata, so its endpoints are where revision 2025-03-26 puts them."""

    @property
    def knows_issuer(self) -> bool:
        """Whether `issuer` is the server's own word or the operator's, and not only the origin of its endpoints."""
        return self.origin != "endpoints"


class Target(Struct, frozen=True, kw_only=True):
    """What discovery found out about a server behind the gateway: where to get tokens for it, and for what."""

    url: str
    """Of the server itself, as the config has it."""
    server: AuthorizationServer
    resource: str | None
    """The `resource` of authorization and token requests; None: the server has no resource metadata and wants none."""
    resource_scopes: tuple[str, ...] | None = None
    """`scopes_supported` of the resource."""
    dpop: bool = False
    """The resource takes only tokens that are bound to a key."""
    identity_provider: AuthorizationServer | None = None
    """Where people sign in for it, where an enterprise's identity provider vouches for them."""


class WithSecrets(Struct, frozen=True, kw_only=True):
    """A struct whose `repr` leaves out the fields that `_secret_fields` names."""

    def __repr__(self) -> str:
        hidden = self._secret_fields()
        shown = (
            f"{name}={'…' if name in hidden and getattr(self, name) is not None else repr(getattr(self, name))}"
            for name in self.__struct_fields__
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def _secret_fields(cls) -> frozenset[str]:
        return frozenset()


class Client(WithSecrets, frozen=True, kw_only=True):
    """Who we are at one authorization server, and at no other."""

    issuer: str
    client_id: str
    client_secret: str | None = None
    private_key: str | None = None
    """PEM, for `private_key_jwt`."""
    signing_algorithm: str | None = None
    auth_method: AuthMethod = "none"
    redirect_uri: str | None = None
    """The one it was registered with."""
    origin: Literal["config", "metadata_document", "registered"]
    expires_at: float | None = None
    """When its secret ends, in seconds since 1970; None: never."""

    @classmethod
    def _secret_fields(cls) -> frozenset[str]:
        return frozenset({"client_secret", "private_key"})


class AuthorizationRequest(WithSecrets, frozen=True, kw_only=True):
    """A login that was begun: where the person goes, and what the callback is checked against."""

    url: str
    state: str
    verifier: str
    issuer: str
    client_id: str
    redirect_uri: str
    resource: str | None
    scopes: tuple[str, ...]
    """Those asked for."""
    wants_issuer: bool = False
    """The server says that its callbacks name the issuer: one without is refused."""
    knows_issuer: bool = True
    """False: the config has the server's endpoints only, so an `iss` in the callback cannot be compared."""
    dpop_key: str | None = None
    """The private key that the tokens will be bound to, as a JWK in JSON."""

    @classmethod
    def _secret_fields(cls) -> frozenset[str]:
        return frozenset({"url", "state", "verifier", "dpop_key"})


class Tokens(WithSecrets, frozen=True, kw_only=True):
    """What a token endpoint gave, for one resource."""

    access_token: str
    token_type: Literal["Bearer", "DPoP"] = "Bearer"  # noqa: S105 - its kind
    expires_at: float | None = None
    """Seconds since 1970; None: the server did not say."""
    refresh_token: str | None = None
    is_refreshed_by_provider: bool = False
    """The refresh token is one of the enterprise's identity provider, not of the server."""
    scopes: tuple[str, ...] = ()
    """Those granted; where the server did not say, those asked for."""
    asked: tuple[str, ...] = ()
    """Those asked for."""
    issuer: str
    client_id: str
    resource: str | None = None
    dpop_key: str | None = None

    @classmethod
    def _secret_fields(cls) -> frozenset[str]:
        return frozenset({"access_token", "refresh_token", "dpop_key"})
