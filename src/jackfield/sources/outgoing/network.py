"""Connects, after a look at the address. Above: `transport.py`'s connection pools. Below: httpcore2's sockets.

A name is resolved once per connection; what was looked at is what is connected to, so a name that answers
differently the second time (DNS rebinding) has no second time.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address

import httpcore2

from jackfield.sources.outgoing.addresses import Address, Allowed, closed_because, literal, opened
from jackfield.sources.outgoing.errors import OutgoingError, OutgoingRefused, OutgoingUnreachable

log = logging.getLogger(__name__)

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""`resolve(host, port)`: the addresses of a name, best first. Raises `OSError` when it has none."""

GIVE_WAY_SECONDS = 2.0
"""After this long without a connection, an address gives way to the next one of the same name."""


async def resolve_by_system(host: str, port: int) -> list[str]:
    """What the machine's own resolver says: hosts file, DNS."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to open addresses only, or to any if `named`: then the operator's config chose the host."""

    def __init__(
        self,
        *,
        named: bool,
        allow: tuple[Allowed, ...],
        resolve: Resolve,
        sockets: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._named = named
        self._allow = allow
        self._resolve = resolve
        self._sockets = sockets or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        del local_address, socket_options  # our pools set neither
        try:
            async with asyncio.timeout(timeout):
                return await self._connect(host, port, await self.reachable(host, port))
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"No connection to {host} within {timeout} s") from None

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        del timeout, socket_options
        raise OutgoingRefused(f"The Unix socket {path} was not opened: outgoing requests go over TCP only.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def reachable(self, host: str, port: int) -> list[Address]:
        """The addresses of `host` that may be connected to, best first. Raises `OutgoingError` when there is none.

        For a name that the config does not name, one refusal says all: whoever chose it must not learn from us what
        our resolver knows. The log has the detail.
        """
        try:
            return self._permitted(host, port, await self._addresses(host, port))
        except OutgoingError as fault:
            if self._named or literal(host) is not None:
                raise
            log.warning("%s", fault)
            raise OutgoingRefused(_refusal_of_a_name(host)) from None

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
        if self._named:
            return addresses
        permitted = [
            address
            for address in addresses
            if closed_because(address) is None or opened(self._allow, host=host, port=port, address=address)
        ]
        if not permitted:
            raise OutgoingRefused(_refusal(host, addresses[0]))
        return permitted

    async def _connect(self, host: str, port: int, addresses: list[Address]) -> httpcore2.AsyncNetworkStream:
        faults: list[str] = []
        for position, address in enumerate(addresses, start=1):
            try:
                return await self._sockets.connect_tcp(
                    str(address), port, timeout=None if position == len(addresses) else GIVE_WAY_SECONDS
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as fault:
                tells = self._named and str(address) != host
                faults.append(f"{address} ({_root(fault)})" if tells else _root(fault))
        raise OutgoingUnreachable(
            f"The host '{host}' could not be reached at port {port}: {', '.join(dict.fromkeys(faults))}. "
            "Check that it is up."
        )


def _refusal(host: str, address: Address) -> str:
    kind = closed_because(address)
    subject = f"'{host}'" if literal(host) is not None else f"'{host}', which resolves to {address},"
    entries = f'"{address}"' if literal(host) is not None else f'"{host}" or "{address}"'
    return (
        f"The request to {subject} was refused: that is {kind} address. "
        f"To permit it, add {entries} to allow under [outgoing] in the config."
    )


def _refusal_of_a_name(host: str) -> str:
    return (
        f"The request to '{host}' was refused: the name has no address, or one that is not public. "
        "The gateway's log says which. The operator can add it to allow under [outgoing] in the config."
    )


def _root(fault: BaseException) -> str:
    """The words of the innermost cause: `Connection refused` rather than `All connection attempts failed`."""
    while (cause := fault.__cause__) is not None:
        fault = cause
    if isinstance(fault, TimeoutError | httpcore2.ConnectTimeout) and not str(fault):
        return "no answer"
    return os.strerror(fault.errno) if isinstance(fault, OSError) and fault.errno else str(fault)
