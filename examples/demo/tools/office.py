"""Tools that need care. The demo's config asks a person before `send_invoice` and switches `erase_notes` off."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass
class Invoice:
    number: str
    customer: str
    amount: float


def send_invoice(
    customer: Annotated[str, Meta(min_length=1, max_length=80)],
    amount: Annotated[float, Meta(gt=0)],
) -> Invoice:
    """Send an invoice to a customer. In this demo nothing is sent.

    Args:
        customer: Who has to pay.
        amount: How much, in euros.
    """
    return Invoice(f"{sum(customer.encode()) % 10_000:04d}", customer, amount)


def erase_notes(folder: str) -> str:
    """Erase all notes in a folder. In this demo there are none.

    Args:
        folder: Which folder.
    """
    return f"There are no notes in {folder}."


def fail_on_purpose(reason: str = "you asked for it") -> None:
    """Fail, to see what a failing tool looks like.

    Args:
        reason: What to say.
    """
    raise RuntimeError(f"This tool always fails: {reason}.")
