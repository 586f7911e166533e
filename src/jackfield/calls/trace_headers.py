"""What a call brings along from other gateways, read from its request: how it came here, and how long it may take.

Above: the execute door. Below: the words of a journey. A call that was here before is refused, and one that has come
through too many gateways, so that gateways of gateways never ask each other in circles.
"""

import re

from jackfield.calls.telemetry import continue_trace
from jackfield.errors import BadRequest, Loop
from jackfield.http.request import Request
from jackfield.model.trace_context import MOST_HOPS, TIMEOUT_HEADER, VIA_HEADER, via

_VIA = VIA_HEADER.encode()
_TIMEOUT = TIMEOUT_HEADER.encode()
LONGEST_WAY = 4_000
_HOUSE = re.compile(r"[A-Za-z0-9_]{1,64}", re.ASCII)


def continue_trace_context(visit: Request, tool: str) -> int | None:
    """Calls of this task go on from where the request comes; gives the time it leaves them in ms, if it says."""
    continue_trace(visit.headers)
    if (said := visit.headers.get(_VIA)) is not None:
        via.set(_way(said, house=visit.gateway.house, tool=tool))
    left = visit.headers.get(_TIMEOUT)
    if left is None:
        return None
    if not left.isdigit() or len(left) > 12 or int(left) == 0:  # noqa: PLR2004 - more than any call may take
        raise BadRequest(f"The header {TIMEOUT_HEADER} must be whole milliseconds above 0.", param=TIMEOUT_HEADER)
    return int(left)


def _way(said: bytes, *, house: str, tool: str) -> tuple[str, ...]:
    if len(said) > LONGEST_WAY:
        raise BadRequest(f"The header {VIA_HEADER} is far too long.", param=VIA_HEADER)
    houses = tuple(part for one in said.decode("latin-1").split(",") if (part := one.strip()))
    if not all(map(_HOUSE.fullmatch, houses)):
        raise BadRequest(f"The header {VIA_HEADER} names houses by letters, digits and '_'.", param=VIA_HEADER)
    if house in houses:
        raise Loop(
            f"The call of '{tool[:100]}' came back to this gateway, which had it passed on {len(houses)} "
            f"{'hop' if len(houses) == 1 else 'hops'} ago. Two gateways offer each other's tools; "
            "take the tool out of one of the two with allowed_tools."
        )
    if len(houses) > MOST_HOPS:
        raise Loop(
            f"The call of '{tool[:100]}' has come through {len(houses)} gateways; {MOST_HOPS} are as many as it may. "
            "Have the gateways ask each other more directly."
        )
    return houses
