"""How often an address may do what anybody may: begin a sign-in, register a client. In memory, per gateway.

Above: the handlers of these. Below: nothing.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from jackfield.errors import RateLimited
from jackfield.identity.authentication import network_of

MOST_ADDRESSES = 10_000


class AddressLimit:
    """A burst for each address, which comes back with time."""

    def __init__(
        self, *, burst: float, per_second: float, refusal: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`refusal`: the sentence for who has to wait."""
        self._burst = burst
        self._per_second = per_second
        self._refusal = refusal
        self._clock = clock
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Count one more, or raise `RateLimited`."""
        network, now = network_of(address), self._clock()
        spent, at = self._spent.pop(network, (0.0, now))
        spent = max(0.0, spent - (now - at) * self._per_second)
        over = spent - (self._burst - 1)
        self._spent[network] = spent + (over <= 0), now
        if len(self._spent) > MOST_ADDRESSES:
            self._spent.popitem(last=False)
        if over > 0:
            raise RateLimited(self._refusal, retry_after=over / self._per_second)
