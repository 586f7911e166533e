"""Wrong keys from one address: a burst is answered, then one a second. So a weak key cannot be found by trying.

Above: `admission.py` and `login.py`, which ask with every key they looked up. Below: nothing. While an address is over
its limit, a right key is told the same as a wrong one, unless it was used from there before or is too long to be found
by trying: a guesser must not see the difference, and nobody else behind that address must suffer, such as a session
that begins there. The same wrong key again is no guess but a program with an old
key: it has a burst of its own, which every right key from that address renews.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

from msgspec import Struct

from jackfield.errors import RateLimited
from jackfield.keys import digest_of
from jackfield.model.principal import Principal

log = logging.getLogger(__name__)

BURST = 60
"""Different wrong keys that an address may send at once; as many repeats of them."""
PER_SECOND = 1.0
"""How many more it may send in every second after that."""
MOST = 10_000
"""Addresses, and keys at addresses, that are remembered."""
UNGUESSABLE = 32
"""Characters of a key that nobody finds by trying; those that the gateway makes have more."""
KEPT = 16
"""Wrong keys of an address that are known again, as digests."""


class _Bucket:
    """What is spent of a burst; it comes back with time."""

    __slots__ = ("at", "spent")

    def __init__(self) -> None:
        self.spent = 0.0
        self.at = 0.0

    def require(self, now: float, *, takes: int) -> None:
        """Take so much, or nothing and raise `RateLimited`; 0 only asks whether there is room."""
        self.spent = max(0.0, self.spent - (now - self.at) * PER_SECOND)
        self.at = now
        if self.spent > BURST - 1:
            raise RateLimited(
                "Too many wrong keys came from this address. Wait, and check the key.",
                retry_after=(self.spent - BURST + 1) / PER_SECOND,
            )
        self.spent += takes


class _Address(Struct):
    guesses: _Bucket
    repeats: _Bucket
    wrong: list[str]


class Throttle:
    """What each address has left of its bursts, and who has come from where."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, address: str, key: str | bytes, principal: Principal | None) -> None:
        """Raise `RateLimited` where too many wrong keys came from `address`. `principal`: whose key it is, if right."""
        if principal is None:
            self._count(_network_of(address), digest_of(key))
            return
        if self._addresses:
            is_known = len(key) >= UNGUESSABLE or (address, principal.name) in self._known
            self._let_in(_network_of(address), is_known=is_known)
        if (address, principal.name) not in self._known:
            self._known[address, principal.name] = None
            if len(self._known) > MOST:
                self._known.popitem(last=False)

    def _let_in(self, network: str, *, is_known: bool) -> None:
        found = self._addresses.get(network)
        if found is None:
            return
        if not is_known:
            found.guesses.require(self._clock(), takes=0)
        found.repeats.spent = 0.0

    def _count(self, network: str, digest: str) -> None:
        found = self._addresses.get(network)
        if found is None:
            found = self._addresses[network] = _Address(_Bucket(), _Bucket(), [])
            if len(self._addresses) > MOST:
                self._addresses.popitem(last=False)
        else:
            self._addresses.move_to_end(network)
        if digest in found.wrong:
            found.repeats.require(self._clock(), takes=1)
            return
        found.guesses.require(self._clock(), takes=1)
        found.wrong = [*found.wrong[1 - KEPT :], digest]
        if found.guesses.spent > BURST - 1:
            log.warning("Many wrong keys from %s: it is made to wait.", network or "an unknown address")


@lru_cache(maxsize=4096)
def _network_of(address: str) -> str:
    """Whom an address stands for: of IPv6 a whole /64, because a single machine has that many."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, 64), strict=False))
    return address
