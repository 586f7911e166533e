"""The requests of the OAuth client: guarded, bounded, and with errors that say what to do.

Addresses come from foreign metadata. They have to be https, or http to this machine or to an origin that the operator's
config names; private addresses are closed unless the config names them.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from jackfield.connections.oauth.errors import DiscoveryFailed, OAuthUnavailable
from jackfield.outgoing import Outgoing, OutgoingBadUrl, OutgoingError, OutgoingRefused, OutgoingResponse
from jackfield.outgoing.client import MAX_REDIRECTS
from jackfield.outgoing.urls import HttpOrigin, origin_of, parse_url
from jackfield.protocol.json_bodies import UNREADABLE

MAX_BYTES = 256 * 1024
SECONDS = 15.0
MAX_URL = 4_096
FORM = "application/x-www-form-urlencoded"


class JsonAnswer(Struct, frozen=True):
    """A response that may be a JSON object."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any] | None
    """None: it is not one."""


class OAuthHttp:
    """Requests to authorization servers. `named` are the urls of the config that may be reached wherever they are."""

    def __init__(self, outgoing: Outgoing, *, named: Sequence[str]) -> None:
        self._outgoing = outgoing
        self._named: dict[HttpOrigin, str] = {}
        for url in named:
            self._named.setdefault(_origin(url), url)

    def check_url(self, url: str, *, what: str, host: str) -> str:
        """`url`, if it may be used as an endpoint. `what` it is, and the `host` that named it, are for the message."""
        try:
            parsed = parse_url(url) if len(url) <= MAX_URL else None
        except OutgoingBadUrl:
            parsed = None
        if parsed is None or parsed.userinfo or "#" in url:
            raise DiscoveryFailed(f"{host} names {what} that is not a usable https url. Tell whoever runs it.")
        if parsed.scheme != "https" and not is_loopback(parsed.host) and origin_of(parsed) not in self._named:
            raise DiscoveryFailed(
                f"{host} names {what} without TLS, at {origin_of(parsed)}. Tell whoever runs it, "
                f"or name the address in the source's `oauth` if it is yours."
            )
        return url

    async def get(self, url: str) -> JsonAnswer:
        """GET a document, by redirects too."""
        return await self._json("GET", url, headers={"accept": "application/json"})

    async def post_form(
        self, url: str, form: Mapping[str, str], *, headers: Mapping[str, str] | None = None
    ) -> JsonAnswer:
        """POST a form, which may hold secrets: never to where a redirect leads."""
        return await self._json(
            "POST",
            url,
            headers={"accept": "application/json", "content-type": FORM, **(headers or {})},
            content=urlencode(form).encode("ascii"),
        )

    async def post_json(self, url: str, document: Mapping[str, Any]) -> JsonAnswer:
        return await self._json(
            "POST",
            url,
            headers={"accept": "application/json", "content-type": "application/json"},
            content=msgspec.json.encode(document),
        )

    async def _json(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None = None
    ) -> JsonAnswer:
        try:
            response = await self._outgoing.request(
                method,
                url,
                headers=headers,
                content=content,
                timeout=SECONDS,
                max_bytes=MAX_BYTES,
                named_by=self._named.get(_origin(url)),
                max_redirects=MAX_REDIRECTS if content is None else 0,
            )
        except OutgoingRefused as fault:
            raise DiscoveryFailed(fault.message) from None
        except OutgoingError as fault:
            raise OAuthUnavailable(fault.message) from None
        return JsonAnswer(response.status, response.headers, _object(response))


def host_of(url: str) -> str:
    """The host of a url, for messages."""
    try:
        return str(parse_url(url).netloc, "ascii").rpartition("@")[2]
    except OutgoingBadUrl:
        return "the server"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _object(response: OutgoingResponse) -> dict[str, Any] | None:
    try:
        decoded = msgspec.json.decode(response.content)
    except UNREADABLE:
        return None
    return decoded if isinstance(decoded, dict) else None


def _origin(url: str) -> HttpOrigin:
    return origin_of(parse_url(url))
