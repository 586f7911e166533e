"""Tools that take their time and say how far they are.

A parameter named `ctx` is filled in by the gateway and is not part of the schema. An `async def` tool shares the
gateway's event loop and can be stopped at every `await`; a `def` tool gets a thread of its own.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from jackfield.sources.context import Context

STEP = 20_000


@dataclass
class Primes:
    count: int
    largest: list[int]


async def count_down(
    ctx: Context,
    start: Annotated[int, Meta(ge=1, le=100)] = 5,
    pause: Annotated[float, Meta(ge=0, le=5)] = 0.2,
) -> str:
    """Count down to zero and report every step.

    Args:
        start: The number to start from.
        pause: How long to wait after each number, in seconds.
    """
    for number in range(start, 0, -1):
        ctx.progress(start - number, start, f"{number} …")
        await asyncio.sleep(pause)
    return "Lift-off!"


def find_primes(ctx: Context, limit: Annotated[int, Meta(ge=2, le=1_000_000)] = 100_000) -> Primes:
    """Count the prime numbers up to a limit and name the five largest.

    Args:
        limit: The largest number to look at.
    """
    candidate = bytearray([1]) * (limit + 1)
    primes: list[int] = []
    for number in range(2, limit + 1):
        if number % STEP == 0:
            ctx.progress(number, limit, f"{len(primes)} so far")
        if candidate[number]:
            primes.append(number)
            candidate[number * number :: number] = bytes(len(range(number * number, limit + 1, number)))
    return Primes(len(primes), primes[-5:])
