# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""A small, invented hotel table. By the block above it runs in a process of its own, here with nothing to install.

`pack` puts `hotel_` before the name of each tool; `__all__` says which functions are tools.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Literal

pack = "hotel"

__all__ = ["quote", "search"]


@dataclass(frozen=True)
class Meta:
    """The limits of a number. msgspec's, pydantic's `Field` and annotated_types do as well, where installed."""

    ge: int
    le: int


@dataclass
class Hotel:
    name: str
    city: str
    stars: int
    price: float
    by_the_water: bool


@dataclass
class Party:
    """Who travels.

    Attributes:
        adults: How many grown-ups.
        children: How many children; they pay half.
    """

    adults: Annotated[int, Meta(ge=1, le=20)] = 2
    children: Annotated[int, Meta(ge=0, le=20)] = 0


@dataclass
class Quote:
    hotel: str
    arrival: date
    departure: date
    total: float
    currency: str


HOTELS = (
    Hotel("Casa Azul", "Lisbon", 3, 84.0, by_the_water=False),
    Hotel("Miradouro", "Lisbon", 4, 132.0, by_the_water=True),
    Hotel("Palácio do Rio", "Lisbon", 5, 245.0, by_the_water=True),
    Hotel("Bryggen Loft", "Bergen", 3, 118.0, by_the_water=True),
    Hotel("Fjordheim", "Bergen", 4, 171.0, by_the_water=True),
    Hotel("Fløyen Park", "Bergen", 5, 262.0, by_the_water=False),
    Hotel("Zum Anker", "Hamburg", 3, 96.0, by_the_water=False),
    Hotel("Speicherhaus", "Hamburg", 4, 149.0, by_the_water=True),
    Hotel("Alsterblick", "Hamburg", 5, 228.0, by_the_water=True),
    Hotel("Machiya Nishijin", "Kyoto", 3, 104.0, by_the_water=False),
    Hotel("Kamogawa Inn", "Kyoto", 4, 158.0, by_the_water=False),
    Hotel("Higashiyama Garden", "Kyoto", 5, 297.0, by_the_water=False),
    Hotel("Yanaka House", "Tokyo", 3, 112.0, by_the_water=False),
    Hotel("Sumida View", "Tokyo", 4, 186.0, by_the_water=True),
    Hotel("Ginza Grand", "Tokyo", 5, 340.0, by_the_water=False),
)

BREAKFAST = 14.0
CHILD_SHARE = 0.5


def search(
    city: Literal["Bergen", "Hamburg", "Kyoto", "Lisbon", "Tokyo"],
    *,
    stars: Annotated[int, Meta(ge=1, le=5)] = 3,
    max_price: float | None = None,
    by_the_water: bool = False,
    sort_by: Literal["price", "stars"] = "price",
) -> list[Hotel]:
    """Find hotels in a city.

    Args:
        city: Where to stay.
        stars: At least this many stars.
        max_price: At most this much for a double room and night, in euros.
        by_the_water: Only hotels that look onto the water.
        sort_by: Cheapest first, or most stars first.
    """
    found = [
        hotel
        for hotel in HOTELS
        if hotel.city == city
        and hotel.stars >= stars
        and (max_price is None or hotel.price <= max_price)
        and (hotel.by_the_water or not by_the_water)
    ]
    return sorted(found, key=lambda hotel: hotel.price if sort_by == "price" else -hotel.stars)


def quote(
    hotel: str,
    arrival: date,
    nights: Annotated[int, Meta(ge=1, le=60)],
    *,
    party: Party | None = None,
    meals: Literal["none", "breakfast"] = "none",
) -> Quote:
    """Work out what a stay costs.

    Args:
        hotel: The hotel's name as hotel_search gives it.
        arrival: The first day.
        nights: How many nights.
        party: Who travels; two adults if left out.
        meals: What is eaten there.
    """
    chosen = next((one for one in HOTELS if one.name.casefold() == hotel.casefold()), None)
    if chosen is None:
        raise LookupError(f"There is no hotel called {hotel}. Use hotel_search to find one.")
    party = party or Party()
    guests = party.adults + party.children * CHILD_SHARE
    a_night = guests * (chosen.price / 2 + (BREAKFAST if meals == "breakfast" else 0))
    return Quote(chosen.name, arrival, arrival + timedelta(days=nights), round(a_night * nights, 2), "EUR")
