"""The address check: which addresses a request may connect to.

Foreign urls may not reach loopback, private and other special addresses unless `[outgoing] allow` lists them; a url of
the operator's config may. A name is resolved once per connection, and the connection goes to the address that was
checked, so DNS rebinding has no second answer to give.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

import httpx2
from msgspec import Struct

from jackfield.errors import ConfigError
from jackfield.outgoing.errors import OutgoingError, OutgoingRefused, OutgoingUnreachable

log = logging.getLogger(__name__)

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""`resolve(host, port)`: the addresses of a name, best first. Raises `OSError` when it has none."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_CLOSED: tuple[tuple[str, tuple[Network, ...]], ...] = tuple(
    (kind, tuple(ip_network(network) for network in networks))
    for kind, networks in (
        # Cloud metadata first: it is the most telling word for an address that is also link-local or private.
        ("a cloud metadata", ("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")),
        ("the unspecified", ("0.0.0.0", "::")),  # noqa: S104 - refused, not bound
        ("a loopback", ("127.0.0.0/8", "::1")),
        ("a private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
        ("a link-local", ("169.254.0.0/16", "fe80::/10")),
        ("a carrier-grade NAT", ("100.64.0.0/10",)),
        ("a multicast", ("224.0.0.0/4", "ff00::/8")),
        ("a tunnel", ("192.88.99.0/24", "2002::/16", "2001::/32")),
        ("a reserved", ("0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24")),
        ("a reserved", ("203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20")),
    )
)
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}", re.IGNORECASE)
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")


def closed_because(address: Address) -> str | None:
    """What kind of address this is (`a loopback`, …) when foreign urls may not reach it; None when they may."""
    inner = embedded(address)
    if inner is not None:
        return closed_because(inner)
    for kind, networks in _CLOSED:
        if any(address in network for network in networks if network.version == address.version):
            return kind
    if not address.is_global or (isinstance(address, IPv6Address) and address not in _GLOBAL_IPV6):
        return "a reserved"
    return None


def embedded(address: Address) -> IPv4Address | None:
    """The IPv4 address that a mapped or NAT64 address stands for: packets go there."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def literal(host: str) -> Address | None:
    """The address that `host` spells, in any spelling the system takes (`2130706433`, `0x7f.1`); None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    if not _NUMERIC.fullmatch(host):
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


def is_host_name(host: str) -> bool:
    """Whether `host` (lower case, ASCII) can be asked of DNS."""
    return _NAME.fullmatch(host) is not None


class Allowed(Struct, frozen=True, kw_only=True):
    """One entry of `[outgoing] allow`: a host name or a network, at one port or at all."""

    name: str | None = None
    network: Network | None = None
    port: int | None = None

    def covers(self, host: str, port: int, address: Address) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.name is not None:
            return self.name == host
        inner = embedded(address)
        return self._holds(address) or (inner is not None and self._holds(inner))

    def _holds(self, address: Address) -> bool:
        return self.network is not None and self.network.version == address.version and address in self.network


def parse_allowed(entry: str) -> Allowed:
    """`127.0.0.1`, `::1`, `10.0.0.0/8`, `host`, `host:8080`, `[::1]:8080`; anything else is a `ConfigError`."""
    host, port = _split_port(entry.strip().lower(), entry)
    if "/" in host and port is None:
        try:
            return Allowed(network=ip_network(host, strict=False))
        except ValueError:
            raise _unusable(entry) from None
    host = _ascii(host.removesuffix("."))
    address = literal(host)
    if address is not None and "%" not in host:
        return Allowed(network=ip_network(address), port=port)
    if not is_host_name(host):
        raise _unusable(entry)
    return Allowed(name=host, port=port)


def _split_port(text: str, entry: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"\[(?P<six>[^\]]*)\](?::(?P<port>.*))?|(?P<host>[^:]*):(?P<host_port>[^:]*)", text)
    if found is None:
        return text, None
    host = found["six"] if found["six"] is not None else found["host"]
    port = found["port"] if found["six"] is not None else found["host_port"]
    if port is None:
        return host, None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):  # noqa: PLR2004 - the range of TCP ports
        raise _unusable(entry)
    return host, int(port)


def _ascii(host: str) -> str:
    """An international name as DNS and parsed urls spell it."""
    try:
        return host if host.isascii() else httpx2.URL(scheme="http", host=host).raw_host.decode("ascii")
    except httpx2.InvalidURL:
        return host


def _unusable(entry: str) -> ConfigError:
    return ConfigError(
        f"[outgoing] allow has '{entry}', which is not a host, address, network or host:port. "
        'Write it like "intranet.example", "127.0.0.1", "10.0.0.0/8" or "intranet.example:8080".'
    )


async def resolve_by_system(host: str, port: int) -> list[str]:
    """By the machine's own resolver: hosts file, DNS."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Guard:
    """Resolves hosts and drops the addresses that are closed."""

    def __init__(self, allow: tuple[Allowed, ...], *, resolve: Resolve = resolve_by_system) -> None:
        self._allow = allow
        self._resolve = resolve

    async def reachable(self, host: str, port: int, *, named: bool) -> list[Address]:
        """The addresses of `host` that may be connected to, best first; `named`: the operator's config names it.

        Raises `OutgoingError` when there is none. For a host name that the config does not name there is only one
        refusal: whoever chose it must not learn what our resolver knows. The log has the detail.
        """
        try:
            addresses = await self._addresses(host, port)
            return addresses if named else self._permitted(host, port, addresses)
        except OutgoingError as fault:
            if named or literal(host) is not None:
                raise
            log.warning("%s", fault)
            raise OutgoingRefused(
                f"The request to '{host}' was refused: the name has no address, or one that is not public. "
                "The gateway's log says which. The operator can add it to allow under [outgoing] in the config."
            ) from None

    async def _addresses(self, host: str, port: int) -> list[Address]:
        address = literal(host)
        if address is not None:
            return [address]
        try:
            found = [ip_address(text) for text in await self._resolve(host, port)]
        except (OSError, UnicodeError) as fault:
            why = fault.strerror if isinstance(fault, OSError) and fault.strerror else fault
            raise OutgoingUnreachable(f"The host '{host}' was not found: {why}. Check its spelling and DNS.") from None
        if not found:
            raise OutgoingUnreachable(f"The host '{host}' has no address. Check its spelling and DNS.")
        return found

    def _permitted(self, host: str, port: int, addresses: list[Address]) -> list[Address]:
        permitted = [
            address
            for address in addresses
            if closed_because(address) is None or any(entry.covers(host, port, address) for entry in self._allow)
        ]
        if permitted:
            return permitted
        address = addresses[0]
        subject, entries = f"'{host}', which resolves to {address},", f'"{host}" or "{address}"'
        if literal(host) is not None:
            subject, entries = f"'{host}'", f'"{address}"'
        raise OutgoingRefused(
            f"The request to {subject} was refused: that is {closed_because(address)} address. "
            f"To permit it, add {entries} to allow under [outgoing] in the config."
        )
