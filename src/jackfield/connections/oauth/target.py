"""`find_target`: from a source's url and config to the authorization server, the resource and its scopes."""

from msgspec import structs

from jackfield.connections.oauth.discovery import (
    canonical_resource,
    choose_server,
    default_server,
    find_resource,
    find_server,
    is_same_issuer,
    own_issuer,
)
from jackfield.connections.oauth.errors import DiscoveryFailed
from jackfield.connections.oauth.http import OAuthHttp, host_of
from jackfield.connections.oauth.types import AuthorizationServer, Challenge, ProtectedResource, Target
from jackfield.settings.identity import SourceOAuth


async def find_target(
    http: OAuthHttp,
    url: str,
    config: SourceOAuth,
    *,
    challenge: Challenge | None,
    known_issuer: str | None,
    is_mcp: bool,
) -> Target:
    """Where to get tokens for the server at `url`. What the config says goes before what is discovered."""
    named = challenge.resource_metadata if challenge is not None else None
    resource: ProtectedResource | None = None
    if named is not None or not (_has_endpoints(config) or (config.issuer is not None and not is_mcp)):
        resource = await find_resource(http, url, named=named)
    needs_dpop = resource is not None and resource.dpop_bound_access_tokens_required
    asks_dpop = challenge is not None and challenge.scheme == "dpop"
    return Target(
        url=url,
        server=await _find_server(http, url, config, resource=resource, known_issuer=known_issuer, is_mcp=is_mcp),
        resource=_resource_of(url, config, resource, is_mcp=is_mcp),
        resource_scopes=None if resource is None else resource.scopes_supported,
        dpop=config.dpop or needs_dpop or asks_dpop,
    )


def _has_endpoints(config: SourceOAuth) -> bool:
    """Whether the config leaves nothing to discovery."""
    return config.token_url is not None and (config.grant != "code" or config.authorization_url is not None)


async def _find_server(
    http: OAuthHttp,
    url: str,
    config: SourceOAuth,
    *,
    resource: ProtectedResource | None,
    known_issuer: str | None,
    is_mcp: bool,
) -> AuthorizationServer:
    if config.token_url is not None and _has_endpoints(config):
        return AuthorizationServer(
            issuer=config.issuer or own_issuer(config.token_url),
            authorization_endpoint=config.authorization_url,
            token_endpoint=config.token_url,
            revocation_endpoint=config.revocation_url,
            origin="endpoints" if config.issuer is None else "config",
        )
    listed = resource.authorization_servers if resource is not None else ()
    if config.issuer is not None:
        if listed and not any(is_same_issuer(each, config.issuer) for each in listed):
            raise DiscoveryFailed(
                f"{host_of(url)} wants logins at {', '.join(map(host_of, listed))}, but the source's `oauth` has the "
                f"issuer {host_of(config.issuer)}. Correct `issuer`, and `client_id` with it."
            )
        server = await choose_server(http, (config.issuer,), preferred=None, url=url)
    elif listed:
        server = await choose_server(http, listed, preferred=known_issuer, url=url)
    else:
        found = await find_server(http, own_issuer(url))
        if found is None and not is_mcp:
            raise DiscoveryFailed(
                f"{host_of(url)} does not say where to log in. Set `issuer`, or `authorization_url` and `token_url`, "
                f"in the source's `oauth`."
            )
        server = found or default_server(url)
    given = {
        "authorization_endpoint": config.authorization_url,
        "token_endpoint": config.token_url,
        "revocation_endpoint": config.revocation_url,
    }
    return structs.replace(server, **{name: endpoint for name, endpoint in given.items() if endpoint is not None})


def _resource_of(url: str, config: SourceOAuth, resource: ProtectedResource | None, *, is_mcp: bool) -> str | None:
    if config.resource is not None:
        return config.resource or None
    if resource is not None:
        return resource.resource
    return canonical_resource(url) if is_mcp else None
