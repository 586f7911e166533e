"""Units and money. The rates are invented and fixed, so that the demo needs no network."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

METRES = {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0, "in": 0.0254, "ft": 0.3048, "mi": 1609.344}
KILOGRAMS = {"g": 0.001, "kg": 1.0, "oz": 0.028349523125, "lb": 0.45359237}

Unit = Literal["mm", "cm", "m", "km", "in", "ft", "mi", "g", "kg", "oz", "lb", "C", "F"]


class Currency(StrEnum):
    CHF = "CHF"
    EUR = "EUR"
    GBP = "GBP"
    JPY = "JPY"
    NOK = "NOK"
    USD = "USD"


PER_EURO = {
    Currency.CHF: 0.94,
    Currency.EUR: 1.0,
    Currency.GBP: 0.86,
    Currency.JPY: 163.5,
    Currency.NOK: 11.6,
    Currency.USD: 1.08,
}


@dataclass
class Money:
    amount: float
    currency: Currency


def convert_units(value: float, source: Unit, target: Unit) -> float:
    """Convert a length, a mass or a temperature.

    Args:
        value: The number to convert.
        source: The unit it is in.
        target: The unit you want.
    """
    for table in (METRES, KILOGRAMS):
        if source in table and target in table:
            return round(value * table[source] / table[target], 6)
    match source, target:
        case "C", "F":
            return round(value * 9 / 5 + 32, 6)
        case "F", "C":
            return round((value - 32) * 5 / 9, 6)
        case _ if source == target:
            return value
    raise ValueError(f"{source} cannot become {target}: they measure different things.")


def convert_currency(amount: float, source: Currency, target: Currency) -> Money:
    """Convert money at the demo's fixed rates.

    Args:
        amount: How much money.
        source: The currency it is in.
        target: The currency you want.
    """
    return Money(round(amount * PER_EURO[target] / PER_EURO[source], 2), target)
