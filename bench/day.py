"""A day of a million agents, minute by minute: what several databases and their gateways have to do.

    python -m bench.day [--agents 1000000] [--shards 4] [--cores 8]

Not a measurement. The costs of a call and of a cycle are those that `bench.gateways` measured (docs/scale.md); how
often agents wake and how families of them are spread is assumed, here at the top. A database that cannot do a minute's
work in that minute takes the rest over into the next one.

Above: a reader of docs/scale.md. Below: nothing but arithmetic and chance.
"""

import hashlib
import math
import random
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

from msgspec import Struct

DAY = 24 * 60
FAMILIES = 20_000
"""Customers, teams: agents that share spaces, and so a shard."""
ZIPF = 0.8
"""How unequal they are: the n-th has 1 / n to this power of the first one's agents."""
WAKES = 96
"""Cycles of an agent a day: messages, results that it waited for, plans."""
CALLS = 4
"""Tool calls of a cycle, beside those of Jackfield's own that are part of its cost."""
NIGHT = 0.25
"""Of the busiest minute's load, at the quietest one."""
BURST = 0.3
"""Spread of a family's minutes around what the hour says."""
OUTAGE = range(15 * 60, 15 * 60 + 1)
"""The busiest database's failover to its replica, in which it does nothing."""
KEEP_DAYS = 30
OF_WAL = 0.6
"""Of disk, for each byte of WAL: rows and indexes that stay. The rest of the WAL is about rows that change and go."""


class Costs(Struct, frozen=True, kw_only=True):
    """Of one call and one cycle, in milliseconds of CPU and bytes, from docs/scale.md."""

    call_database_ms: float = 0.05
    call_gateway_ms: float = 0.13
    call_wal: float = 1_130
    cycle_database_ms: float = 6.1
    cycle_gateway_ms: float = 8.0
    cycle_wal: float = 19_800


class Minute(Struct, frozen=True):
    """Of all shards together, and of the one that has most to do."""

    at: int
    cycles: float
    busiest: float
    """Of its cores, in use or wanted."""
    behind: float
    """Seconds of work that wait at the shard that has most."""


def main() -> int:
    options = _options()
    costs = Costs()
    loads = shares(options.shards)
    minutes = list(day(options, costs, loads))
    print("\n".join(report(options, costs, loads, minutes)))
    return 0


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m bench.day", description="A day of many agents, by arithmetic and chance.")
    parser.add_argument("--agents", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=4, help="databases")
    parser.add_argument("--cores", type=int, default=8, help="of each database")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def shares(shards: int) -> list[list[float]]:
    """Of all agents, those of each family, by the shard that it hashes to."""
    sizes = [1 / (number + 1) ** ZIPF for number in range(FAMILIES)]
    total, found = sum(sizes), [[] for _ in range(shards)]  # type: tuple[float, list[list[float]]]
    for number, size in enumerate(sizes):
        place = max(range(shards), key=lambda n: hashlib.sha256(f"{n} family{number}".encode()).digest())
        found[place].append(size / total)
    return found


def curve(minute: int) -> float:
    """Of the day's mean: quiet at four in the morning, busiest at four in the afternoon."""
    wave = (1 - math.cos((minute / DAY - 4 / 24) * 2 * math.pi)) / 2
    return (NIGHT + (1 - NIGHT) * wave) / ((1 + NIGHT) / 2)


def day(options: Namespace, costs: Costs, loads: Sequence[Sequence[float]]) -> Iterator[Minute]:
    """What is done in each minute."""
    chance = random.Random(options.seed)
    work_ms = costs.cycle_database_ms + CALLS * costs.call_database_ms
    mean = options.agents * WAKES / DAY
    capacity = options.cores * 60_000.0
    behind = [0.0] * options.shards
    hottest = max(range(options.shards), key=lambda n: sum(loads[n]))
    for minute in range(DAY):
        cycles = [mean * curve(minute) * _spread(families, chance) for families in loads]
        wanted = [behind[n] + cycles[n] * work_ms for n in range(options.shards)]
        can = [0.0 if minute in OUTAGE and n == hottest else capacity for n in range(options.shards)]
        behind = [max(0.0, want - could) for want, could in zip(wanted, can, strict=True)]
        yield Minute(minute, sum(cycles), max(wanted) / capacity, max(behind) / capacity * 60)


def _spread(families: Sequence[float], chance: random.Random) -> float:
    """A shard's part of the load in one minute. Families go up and down by themselves; many together hardly do."""
    part = sum(families)
    deviation = BURST * math.sqrt(sum(size * size for size in families))
    return max(0.0, chance.gauss(part, deviation))


def report(
    options: Namespace, costs: Costs, loads: Sequence[Sequence[float]], minutes: Sequence[Minute]
) -> Iterator[str]:
    """Sentences and a table, in Markdown."""
    cycles = sum(minute.cycles for minute in minutes)
    peak = max(minute.cycles for minute in minutes) / 60
    gateway_ms = costs.cycle_gateway_ms + CALLS * costs.call_gateway_ms
    wal = cycles * (costs.cycle_wal + CALLS * costs.call_wal)
    parts = sorted(sum(families) for families in loads)
    late = [minute for minute in minutes if minute.behind > 0]
    most, least = parts[-1] * options.shards, parts[0] * options.shards
    yield (
        f"- {options.agents:,} agents in {FAMILIES:,} families, {WAKES} cycles a day each with {CALLS} calls, on "
        f"{options.shards} databases of {options.cores} cores."
    )
    yield (
        f"- {cycles:,.0f} cycles and {cycles * CALLS:,.0f} calls a day; at the peak {peak:,.0f} and "
        f"{peak * CALLS:,.0f} a second."
    )
    yield f"- Gateways: {peak * gateway_ms / 1000:,.0f} cores at the peak."
    yield f"- The largest shard has {most:.2f} times the mean, the smallest {least:.2f}."
    yield (
        f"- WAL: {wal / 1e12:.1f} TB a day, {wal / options.shards / 86_400 / 1e6:.1f} MB a second at a mean shard; "
        f"on record after {KEEP_DAYS} days about {wal * KEEP_DAYS * OF_WAL / options.shards / 1e12:.0f} TB a shard."
    )
    yield (
        f"- The busiest database is away for a minute at 15:00: at most {max(one.behind for one in minutes):.0f} s of "
        f"its work wait, for {len(late)} minute{'s' * (len(late) != 1)} in all."
    )
    yield ""
    yield "| hour | cycles a second | calls a second | busiest database |"
    yield "|---:|---:|---:|---:|"
    for hour in range(0, 24, 3):
        some = [minute for minute in minutes if hour * 60 <= minute.at < (hour + 3) * 60]
        rate = sum(minute.cycles for minute in some) / len(some) / 60
        busiest = max(one.busiest for one in some)
        yield f"| {hour}–{hour + 3} | {rate:,.0f} | {rate * CALLS:,.0f} | {busiest * 100:.0f} % |"


if __name__ == "__main__":
    sys.exit(main())
