"""Where a service is: what the config says, else what its document says if that is where the document is from. Pure.

Above: `operations.py`. Below: `document.py`. A document may name any server; were it believed, whoever writes it could
have our credentials sent anywhere, or requests made within our network.
"""

import re
from typing import Any

import httpx2
from msgspec import Struct

from jackfield.sources.openapi.document import Node, Unreadable, Unusable, list_in, object_in, shown, text_in
from jackfield.sources.outgoing import OutgoingBadUrl
from jackfield.sources.outgoing.urls import named_origin, origin_of, parse_url

_VARIABLE = re.compile(r"\{([^{}]*)\}")


class Base(Struct, frozen=True, kw_only=True):
    """What an operation's path is put after, without a slash at its end."""

    url: str
    named_by: str
    """The config's own url, on the same origin."""
    by_document: bool
    """Whether the document chose it."""


def base_of(servers: list[Any], *, url: str | None, base_url: str | None) -> Base:
    """Where a document's operations are, that has these servers. Raises `Unreadable`."""
    if base_url is not None:
        return Base(url=base_url.rstrip("/"), named_by=base_url, by_document=False)
    assert url is not None
    servers = servers or [{"url": "/"}]
    found = _same_origin(servers, url)
    if found is None:
        raise Unreadable(
            f"says that the service is at {shown(_first_url(servers))}, which is not where the document is from. "
            "Set base_url to where calls are to go."
        )
    return Base(url=found, named_by=url, by_document=True)


def own_base(nodes: tuple[Node, ...], base: Base) -> Base:
    """The base of an operation that may have servers of its own. The first of `nodes` that has some counts.

    Where the operator says where the service is, all of it is there: what the document says is about another place.
    """
    if not base.by_document:
        return base
    servers = next((own for node in nodes if (own := list_in(node, "servers"))), None)
    if servers is None:
        return base
    found = _same_origin(servers, f"{base.url}/")
    if found is None:
        raise Unusable(f"it is on another server ({shown(_first_url(servers))}) than the rest")
    return Base(url=found, named_by=base.named_by, by_document=True)


def _same_origin(servers: list[Any], url: str) -> str | None:
    """The first server on the origin of `url`, which relative ones start from."""
    for server in servers:
        if not isinstance(server, dict):
            continue
        try:
            found = parse_url(httpx2.URL(url).join(_filled(server)))
        except (OutgoingBadUrl, httpx2.InvalidURL):
            continue
        if origin_of(found) == named_origin(url) and not found.userinfo:
            return str(found.copy_with(query=None)).rstrip("/")
    return None


def _filled(server: Node) -> str:
    variables = object_in(server, "variables")
    url = _VARIABLE.sub(lambda found: text_in(object_in(variables, found[1]), "default"), text_in(server, "url"))
    return url or "/"


def _first_url(servers: list[Any]) -> Any:
    return servers[0].get("url") if isinstance(servers[0], dict) else None
