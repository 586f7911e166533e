"""Clients, grants and tokens of the built-in authorization server, and how a request to it is refused."""

from msgspec import Struct

from jackfield.errors import BadRequest

CODE_SECONDS = 60
ACCESS_SECONDS = 3_600
REFRESH_SECONDS = 30 * 86_400
"""Of the newest refresh token of a grant; whoever does not refresh for so long has to ask again."""
GRANT_SECONDS = 90 * 86_400
"""Of a grant, however often it is refreshed: then the person is asked again."""
DEFAULT_SCOPE = "call"
SCOPES = {
    "call": "Call tools in your name, and see the tools and your calls",
    "read": "See the tools and your calls, without calling anything",
    "answer": "Approve, reject and answer calls that wait for somebody",
}
"""What a token may be good for, in words."""
ACCESS_PREFIX = "jfa_"
REFRESH_PREFIX = "jfr_"
CODE_PREFIX = "jfc_"
GRANT_CODE, GRANT_REFRESH = "authorization_code", "refresh_token"
PUBLIC, BY_HEADER, BY_FORM = AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")
"""How a client authenticates at the token endpoint."""
BY_KEY = "private_key_jwt"
"""The same, for a client with a metadata document."""


class OAuthError(BadRequest):
    """A request that the authorization server refuses, with the code that its RFC gives to the reason."""

    def __init__(self, error: str, description: str, *, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.status = status
        vars(self)["code"] = error


class Client(Struct, frozen=True, kw_only=True):
    """A program that asks for tokens."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    auth_method: str = PUBLIC
    secret_digest: str | None = None
    grant_types: tuple[str, ...] = (GRANT_CODE, GRANT_REFRESH)
    jwks_uri: str | None = None
    """Where its keys are, if it authenticates by `private_key_jwt`."""
    is_verified: bool = False
    """Whether its metadata comes from the address that is its id; otherwise its name is only claimed."""

    @property
    def refreshes(self) -> bool:
        return GRANT_REFRESH in self.grant_types


class Rights(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person allowed."""

    scopes: tuple[str, ...]
    groups: tuple[str, ...] | None = None
    """Groups of tools that it is limited to; None: no limit but the person's own."""


class Grant(Struct, frozen=True, kw_only=True):
    """What a person allowed a client, where, and until when. Times are milliseconds since 1970."""

    id: str
    client_id: str
    client_name: str
    principal: str
    credential: str
    """What the person's sign-in was bound to: the grant ends with it."""
    resource: str
    """The path of the resource: `/mcp` or `/mcp/NAME`."""
    rights: Rights
    client_auth: str | None
    """`private_key_jwt` for a client that has to sign for its tokens."""
    created_at: int
    used_at: int | None
    """When it last gave tokens; None: its code was not taken yet."""
    expires_at: int


class NewGrant(Struct, frozen=True, kw_only=True):
    """A grant that is about to be kept, with the code that stands for it."""

    client_id: str
    client_name: str
    principal: str
    credential: str
    resource: str
    rights: Rights
    client_auth: str | None
    redirect_uri: str
    challenge: str
    """Of PKCE, S256."""


class IssuedTokens(Struct, frozen=True, kw_only=True):
    """New tokens as they are kept: digests only."""

    access: str
    refresh: str | None
    scopes: tuple[str, ...]
