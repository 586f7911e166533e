# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Tools that run in `jackfield work`, on other machines than the gateways: here in processes of their own."""

import os


def invoice(item: str, number: int = 1) -> dict:
    """What so many of an item cost, and which process wrote it."""
    return {"item": item, "cents": number * (100 + len(item)), "written_by": os.getpid()}
