"""Discovery: from the url of a server to its authorization server (RFC 9728, RFC 8414, OpenID Connect Discovery).

Nothing in a foreign document is taken for granted: the resource has to be the server we asked, the issuer the one we
asked for, and every endpoint a url that may be used.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import structs

from jackfield.connections.oauth.challenges import valid_scopes
from jackfield.connections.oauth.errors import DiscoveryFailed, OAuthError, OAuthUnavailable
from jackfield.connections.oauth.http import JsonAnswer, OAuthHttp, host_of
from jackfield.connections.oauth.types import AuthorizationServer, ProtectedResource
from jackfield.outgoing import OutgoingBadUrl
from jackfield.outgoing.urls import origin_of, parse_url

MAX_SERVERS = 8
"""More authorization servers of one resource are not looked at."""
_RESOURCE = "/.well-known/oauth-protected-resource"
_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_RESOURCE_FIELDS = frozenset(ProtectedResource.__struct_fields__)
_SERVER_FIELDS = frozenset(AuthorizationServer.__struct_fields__) - {"origin"}
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint")


def resource_metadata_urls(url: str, named: str | None) -> tuple[str, ...]:
    """Where a server's resource metadata may be, best first. `named` is the address in its challenge."""
    origin, path = _parts(url)
    own = (f"{origin}{_RESOURCE}{path}", f"{origin}{_RESOURCE}")
    return tuple(dict.fromkeys((named, *own) if named is not None else own))


def server_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where an issuer's metadata may be, best first."""
    origin, path = _parts(issuer)
    if not path:
        return f"{origin}{_SERVER}", f"{origin}{_OPENID}"
    return f"{origin}{_SERVER}{path}", f"{origin}{_OPENID}{path}", f"{origin}{path}{_OPENID}"


def is_resource_of(resource: str, url: str) -> bool:
    """Whether metadata about `resource` is about the server at `url`: the same origin, and the path or one above it."""
    try:
        (origin, path), (ours, our_path) = _parts(resource), _parts(url)
    except OutgoingBadUrl:
        return False
    return origin == ours and "#" not in resource and (our_path == path or our_path.startswith(f"{path}/"))


def canonical_resource(url: str) -> str:
    """The `resource` of a server that does not name one: its url without query, fragment and last slash."""
    return "".join(_parts(url))


def own_issuer(url: str) -> str:
    """The issuer of a server that names none (revision 2025-03-26): its origin."""
    return _parts(url)[0]


def default_server(url: str) -> AuthorizationServer:
    """The authorization server of a server without any metadata, as revision 2025-03-26 has it."""
    issuer = own_issuer(url)
    return AuthorizationServer(
        issuer=issuer,
        authorization_endpoint=f"{issuer}/authorize",
        token_endpoint=f"{issuer}/token",
        registration_endpoint=f"{issuer}/register",
        origin="default",
    )


async def find_resource(http: OAuthHttp, url: str, *, named: str | None) -> ProtectedResource | None:
    """What the server at `url` says about itself; None if it says nothing."""
    if named is not None:
        http.check_url(named, what="resource metadata", host=host_of(url))
    for address in resource_metadata_urls(url, named):
        answer = await http.get(address)
        if answer.status == HTTPStatus.OK and answer.body is not None:
            return parse_resource(answer.body, url=url, address=address)
        _raise_if_broken(answer, address)
    return None


def parse_resource(document: Mapping[str, Any], *, url: str, address: str) -> ProtectedResource:
    """Resource metadata, if it is about the server at `url`."""
    known = {name: value for name, value in document.items() if name in _RESOURCE_FIELDS and value is not None}
    known.setdefault("authorization_servers", [])
    try:
        resource = msgspec.convert(known, ProtectedResource)
    except msgspec.ValidationError as fault:
        raise DiscoveryFailed(f"The resource metadata at {host_of(address)} cannot be used: {fault}.") from None
    if not is_resource_of(resource.resource, url):
        raise DiscoveryFailed(
            f"The resource metadata of {host_of(url)} is about another server, {host_of(resource.resource)}. "
            f"No login is begun. Check the source's url."
        )
    scopes = resource.scopes_supported
    return structs.replace(
        resource,
        authorization_servers=tuple(dict.fromkeys(resource.authorization_servers))[:MAX_SERVERS],
        scopes_supported=None if scopes is None else valid_scopes(scopes),
    )


async def find_server(http: OAuthHttp, issuer: str) -> AuthorizationServer | None:
    """The metadata of an issuer; None if it has none. Raises `DiscoveryFailed` for metadata that may not be used."""
    http.check_url(issuer, what="an authorization server", host=host_of(issuer))
    fault: DiscoveryFailed | None = None
    for address in server_metadata_urls(issuer):
        answer = await http.get(address)
        if answer.status == HTTPStatus.OK and answer.body is not None:
            try:
                return parse_server(http, answer.body, issuer=issuer)
            except DiscoveryFailed as refused:
                fault = fault or refused
        else:
            _raise_if_broken(answer, address)
    if fault is not None:
        raise fault
    return None


def parse_server(http: OAuthHttp, document: Mapping[str, Any], *, issuer: str) -> AuthorizationServer:
    """The metadata of an authorization server, if it is this issuer's and its endpoints may be used."""
    host = host_of(issuer)
    known = {name: value for name, value in document.items() if name in _SERVER_FIELDS and value is not None}
    try:
        server = msgspec.convert(known, AuthorizationServer)
    except msgspec.ValidationError as fault:
        raise DiscoveryFailed(f"The metadata of {host} cannot be used: {fault}.") from None
    if not is_same_issuer(server.issuer, issuer):
        raise DiscoveryFailed(
            f"The metadata of {host} names another issuer, {host_of(server.issuer)}, and is not used. "
            f"Tell whoever runs it."
        )
    for name in _ENDPOINTS:
        endpoint = getattr(server, name)
        if endpoint is not None:
            http.check_url(endpoint, what=f"its {name}", host=host)
    return server


def is_same_issuer(said: str, asked: str) -> bool:
    """Whether metadata is the issuer's that was asked: the same text.

    One slash after a bare host may differ: many programs add it when they write down the issuer, and both spellings
    have the same metadata, so nothing is gained by it. From then on the spelling in the metadata counts.
    """
    if said == asked:
        return True
    short, long = sorted((said, asked), key=len)
    return long == f"{short}/" and short.partition("://")[2].find("/") < 0


async def choose_server(
    http: OAuthHttp, issuers: tuple[str, ...], *, preferred: str | None, url: str
) -> AuthorizationServer:
    """The first of a resource's authorization servers that can be used, the one we have a login at before others."""
    faults: list[OAuthError] = []
    for issuer in sorted(issuers, key=lambda issuer: preferred is None or not is_same_issuer(issuer, preferred)):
        try:
            server = await find_server(http, issuer)
        except OAuthError as fault:
            faults.append(fault)
            continue
        if server is not None:
            return server
    if faults:
        raise faults[0]
    raise DiscoveryFailed(
        f"{host_of(url)} names the authorization server {host_of(issuers[0])}, which has no metadata. "
        f"Set `authorization_url` and `token_url` in the source's `oauth`, or tell whoever runs it."
    )


def _raise_if_broken(answer: JsonAnswer, address: str) -> None:
    """A server in trouble is no server without metadata: the login must not go on by an older way."""
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise OAuthUnavailable(
            f"{host_of(address)} answered {answer.status} when it was asked for its metadata. Try again later."
        )


def _parts(url: str) -> tuple[str, str]:
    """The origin of a url, and its path without the last slash."""
    parsed = parse_url(url)
    return str(origin_of(parsed)), parsed.raw_path.decode("ascii").partition("?")[0].rstrip("/")
