"""What was taken of each limit, for all gateways of this database, by the database's clock.

A window is counted in slots, `SLOTS` to a window. A slot counts until all of it has left the window, so a window never
holds more than the limit for being counted in slots; it may hold one slot's worth less.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from jackfield.store.scripts import Script

SLOTS = 60
Slots = dict[int, int]
"""Points by number of the slot, counted from 1970."""


class Account(Struct, frozen=True, kw_only=True):
    """A limit's window after a gateway has reported and taken."""

    now: int
    """The database's time, in milliseconds."""
    slots: Slots
    granted: int
    gateways: int
    """How many share the limit."""


def slot_ms(window_ms: int) -> int:
    return max(window_ms // SLOTS, 1)


def within(slots: Mapping[int, int], *, window_ms: int, now: int) -> Slots:
    """The slots that count at `now`."""
    length = slot_ms(window_ms)
    return {slot: points for slot, points in sorted(slots.items()) if (slot + 1) * length + window_ms > now}


def spend(
    limit_id: str, *, window_ms: int, most: int = 0, spent: int = 0, needs: int = 0, wants: int = 0
) -> Script[Account]:
    """Report what was `spent` without asking (less than 0: what was taken and not used), then take `wants` points.

    Fewer are granted where fewer are left, and none where less than `needs` is.
    """
    opened = yield "open_spending", {"id": limit_id}
    now = int(opened[0]["now"])
    slots = within(_decoded(opened[0]["slots"]), window_ms=window_ms, now=now)
    current = now // slot_ms(window_ms)
    _add(slots, current, spent)
    room = most - sum(slots.values())
    granted = max(min(wants, room), 0) if room >= needs else 0
    _add(slots, current, granted)
    yield "put_spending", {"id": limit_id, "slots": msgspec.json.encode(slots).decode()}
    counted = yield "count_gateways", {}
    return Account(now=now, slots=slots, granted=granted, gateways=max(int(counted[0]["gateways"]), 1))


def all_spending() -> Script[dict[str, tuple[Slots, int]]]:
    """The slots of every limit, and the database's time."""
    rows = yield "all_spending", {}
    return {row["id"]: (_decoded(row["slots"]), int(row["now"])) for row in rows}


def _add(slots: Slots, current: int, points: int) -> None:
    """Count points in the current slot; what is given back goes from the newest ones."""
    if points > 0:
        slots[current] = slots.get(current, 0) + points
        return
    for slot in sorted(slots, reverse=True):
        back = min(slots[slot], -points)
        slots[slot] -= back
        points += back
        if not slots[slot]:
            del slots[slot]


def _decoded(text: str) -> Slots:
    return msgspec.json.decode(text, type=dict[int, int])
