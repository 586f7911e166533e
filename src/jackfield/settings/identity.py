"""`[auth.oidc]`, `[auth.roles.NAME]`, `[auth.oauth]`, and the `auth` and `oauth` of a source."""

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct, structs

from jackfield.errors import ConfigError
from jackfield.model.principal import is_scope
from jackfield.settings.parsing import parse_config

Text = Annotated[str, Meta(min_length=1)]
WELL_KNOWN = "/.well-known/"
PEM = "-----BEGIN"


class OidcSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auth.oidc]`: the provider that people sign in with."""

    issuer: Text
    """The provider's address, as its metadata spells it."""
    client_id: Text
    """What the provider calls this gateway."""
    client_secret: str | None = None
    """None: a public client, which has PKCE only."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    """What is asked for at the provider; `openid` is needed."""
    groups_claim: str = "groups"
    """The claim with a person's groups, for `[auth.roles]`; dots lead into objects."""
    name: str = "single sign-on"
    """How the sign-in page calls the provider."""


class RoleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auth.roles.NAME]`: who has the role, by group or by verified email, and what they may do."""

    groups: tuple[str, ...] = ()
    """Groups of the provider; `*`: everybody who signed in."""
    emails: tuple[str, ...] = ()
    """Addresses and globs, such as `*@example.org`."""
    scopes: tuple[str, ...] = ("call",)
    """As those of a key."""
    tools: tuple[str, ...] | None = None
    """Tools that the role can see and call; an empty list allows none."""
    agents: tuple[str, ...] | None = None
    """Agents that it may see, trigger and act as; an empty list allows none."""
    spaces: tuple[str, ...] | None = None
    """Spaces that it may see and speak in; an empty list allows none."""
    groups_of_tools: tuple[str, ...] | None = None
    """Groups of the catalog that limit what the role sees; an empty list allows none."""


def check_oidc(oidc: OidcSettings, *, where: str) -> None:
    """Raise `ConfigError` for a provider that nobody could sign in with."""
    parts = urlsplit(oidc.issuer)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(
            f"{where}.issuer is {oidc.issuer!r}, which is not the URL of an issuer. "
            "Write it as the provider does, for example https://accounts.example.org."
        )
    if WELL_KNOWN in parts.path:
        raise ConfigError(
            f"{where}.issuer is the address of the provider's metadata. "
            f"Write the issuer: {oidc.issuer.partition(WELL_KNOWN)[0]}"
        )
    if "openid" not in oidc.scopes:
        raise ConfigError(f"{where}.scopes lacks 'openid', without which the provider signs nobody in. Add it.")


def check_role(role: RoleSettings, *, where: str) -> None:
    """Raise `ConfigError` for a role that nobody has, or that allows what there is not."""
    check_scopes(role.scopes, where=where)
    if not role.groups and not role.emails:
        raise ConfigError(
            f'{where} has neither groups nor emails, so nobody has it. Add groups = ["*"] for everybody who signs in.'
        )
    if (no_address := next((email for email in role.emails if "@" not in email), None)) is not None:
        raise ConfigError(
            f"{where}.emails has {no_address!r}, which matches no address. For everybody of a domain write '*@DOMAIN'."
        )


def check_scopes(scopes: tuple[str, ...], *, where: str) -> None:
    """Raise `ConfigError` for a scope that there is not."""
    unknown = next((scope for scope in scopes if not is_scope(scope)), None)
    if unknown is not None:
        raise ConfigError(
            f"{where}.scopes has the unknown scope '{unknown}'. "
            "Known: admin, call, read, answer, worker:GLOB, agent:NAME, session:ID."
        )


class OAuthSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[auth.oauth]`: which tokens `/mcp` takes besides keys."""

    mode: Literal["builtin", "external", "off"] = "builtin"
    """Tokens of the gateway's own authorization server, of another one, or none."""
    issuer: str | None = None
    """For `external`: whose JWT access tokens are taken."""
    jwks_url: str | None = None
    """For `external`: where its keys are; None: as its metadata says."""


class SourceOAuth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sources.NAME.oauth]`: what is not left to discovery and registration."""

    grant: Literal["code", "client_credentials", "jwt_bearer", "enterprise", "workload"] = "code"
    """How a token is got: by a person in a browser (`code`), or without one."""
    client_id: str | None = None
    """None: registered dynamically, or by a metadata document; an https URL is the address of one."""
    client_secret: str | None = None
    """What the client proves itself with, if it has a secret."""
    private_key: str | None = None
    """PEM text, or the path of a file with it."""
    signing_algorithm: str | None = None
    """Of the client's assertions; made from the key if left out."""
    token_endpoint_auth_method: (
        Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"] | None
    ) = None
    """How the client proves itself; as the server says, if left out."""
    scopes: tuple[str, ...] | None = None
    """None: those that the server asks for."""
    issuer: str | None = None
    """The authorization server, if not the one that the source names."""
    authorization_url: str | None = None
    """With `token_url`: for servers without metadata."""
    token_url: str | None = None
    """With `authorization_url`: for servers without metadata."""
    revocation_url: str | None = None
    """Where tokens are revoked when a login ends, for servers without metadata."""
    resource: str | None = None
    """The `resource` of its tokens; None: as the server says, else its url. Empty: none is sent."""
    dpop: bool = False
    """Whether tokens are bound to a key of the gateway (RFC 9449)."""
    identity_provider: str | None = None
    """For `enterprise`: whose id tokens are exchanged: the issuer of `[auth.oidc]`, or of the one in `token_file`."""
    token_file: str | None = None
    """For `workload`: the file with this machine's own token. For `enterprise`: one with an id token, for all."""


SourceAuth = Literal["none", "shared", "user"]


def parse_source_login(options: dict[str, Any], *, where: str, folder: Path) -> tuple[SourceAuth, SourceOAuth]:
    """Take `auth`, where it is a word, and `oauth` out of a source's options. Files are relative to `folder`."""
    auth: SourceAuth = "none"
    if isinstance(options.get("auth"), str):
        said = options.pop("auth")
        if said not in ("none", "shared", "user"):
            raise ConfigError(f"{where}.auth is {said!r}; it takes 'none', 'shared' or 'user'. Correct it.")
        auth = said
    if "oauth" not in options:
        return auth, SourceOAuth()
    oauth = parse_config(options.pop("oauth"), SourceOAuth, where=f"{where}.oauth")
    if auth == "none":
        raise ConfigError(f'{where}.oauth says how to log in, but not for whom. Add auth = "shared" or auth = "user".')
    if auth == "user" and oauth.grant in ("client_credentials", "jwt_bearer", "workload"):
        raise ConfigError(f"{where}.oauth.grant '{oauth.grant}' is for machines. Write auth = \"shared\".")
    _check_source_oauth(oauth, where=f"{where}.oauth")
    key = oauth.private_key
    return auth, structs.replace(
        oauth,
        private_key=key if key is None or PEM in key else _file_in(folder, key),
        token_file=None if oauth.token_file is None else _file_in(folder, oauth.token_file),
    )


def _file_in(folder: Path, path: str) -> str:
    return str(folder / Path(path).expanduser())


def _check_source_oauth(oauth: SourceOAuth, *, where: str) -> None:
    """Raise `ConfigError` for a login that lacks what it needs."""
    has_secret = oauth.client_secret is not None or oauth.private_key is not None
    if oauth.grant == "code" and has_secret and not oauth.client_id:
        raise ConfigError(f"{where} has a secret or a private key, but not the client's id. Add client_id.")
    if oauth.grant == "code" and (oauth.authorization_url is None) != (oauth.token_url is None):
        missing = "authorization_url" if oauth.authorization_url is None else "token_url"
        raise ConfigError(f"{where}: authorization_url and token_url go together. Add {missing}, or write issuer.")
    if oauth.grant != "code" and (lacks := _lacks(oauth)) is not None:
        raise ConfigError(f'{where}.grant = "{oauth.grant}" needs {lacks}. Add it.')


def _lacks(oauth: SourceOAuth) -> str | None:
    """What a grant without a person's login needs and does not have."""
    if not oauth.client_id:
        return "client_id"
    needed = {
        "client_credentials": ("client_secret or private_key", oauth.client_secret or oauth.private_key),
        "jwt_bearer": ("private_key", oauth.private_key or oauth.token_file),
        "workload": ("token_file", oauth.token_file),
        "enterprise": ("identity_provider", oauth.identity_provider),
    }
    name, given = needed[oauth.grant]
    return None if given else name
