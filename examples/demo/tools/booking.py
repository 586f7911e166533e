"""What the concierge does once somebody has said yes. Nothing is booked anywhere, of course."""

import zlib
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass
class Booking:
    reference: str
    hotel: str
    nights: int


def book_hotel(hotel: str, *, nights: Annotated[int, Meta(ge=1, le=60)] = 1) -> Booking:
    """Book a room in a hotel. Only for somebody who has confirmed it.

    Args:
        hotel: The hotel's name as hotel_search gives it.
        nights: How many nights.
    """
    return Booking(f"JF-{zlib.crc32(hotel.encode()) % 10_000:04}", hotel, nights)
