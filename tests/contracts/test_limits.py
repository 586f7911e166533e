"""Limits that several gateways keep together: counted over all of them, within a tenth, without a write per call."""

import asyncio
import math
from functools import partial

import pytest

from jackfield.catalog.cluster_limits import ClusterLimits
from jackfield.catalog.limit_transactions import Account, spend
from jackfield.catalog.limits import Limit
from jackfield.store import Store
from jackfield.store import gateways as gateway_tx
from jackfield.store.scripts import Script, Sql
from tests.requirement import requirement

LONG = 36_000.0
"""Seconds: no test lasts as long as this window, nor as the parts of it in which leases end."""


def limit(most: int) -> Limit:
    return Limit("tool here:echo", most, LONG)


def writes_of(limit_id: str) -> Script[int]:
    rows = yield Sql("writes", "SELECT writes FROM spending WHERE id = :id"), {"id": limit_id}
    return int(rows[0]["writes"]) if rows else 0


async def writes(store: Store) -> int:
    return await store.read(partial(writes_of, limit(1).id))


async def gateways(store: Store, count: int) -> list[ClusterLimits]:
    """So many gateways that are alive; the store has one already."""
    for number in range(1, count):
        await store.write(partial(gateway_tx.enter, f"gw_more{number}", is_shared=True))
    return [ClusterLimits(store) for _ in range(count)]


async def admitted(gateway: ClusterLimits, most: int, *, calls: int, callers: int = 8) -> int:
    """How many of so many calls, from several callers at once, are let through."""
    left = [calls]

    async def caller() -> int:
        through = 0
        while left[0]:
            left[0] -= 1
            through += await gateway.take(limit(most)) == 0.0
            await asyncio.sleep(0)
        return through

    return sum(await asyncio.gather(*(caller() for _ in range(callers))))


@requirement("OPS-limits-cluster")
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("most", [100, 1_000, 5_000])
async def test_all_gateways_together_admit_the_limit(store: Store, count: int, most: int) -> None:
    cluster = await gateways(store, count)
    through = await asyncio.gather(*(admitted(one, most, calls=most) for one in cluster))
    assert 0.9 * most <= sum(through) <= 1.1 * most
    assert await writes(store) < max(0.7 * most, 10), "far fewer writes than calls"
    if most >= 1_000:
        assert await writes(store) <= 40 * count


async def test_a_far_larger_demand_at_one_gateway_gets_what_the_others_leave(store: Store) -> None:
    busy, quiet = await gateways(store, 2)
    a_little = await admitted(quiet, 1_000, calls=30, callers=1)
    assert a_little == 30
    through = await admitted(busy, 1_000, calls=3_000)
    assert 900 <= a_little + through <= 1_100


async def test_calls_in_turn_at_two_gateways(store: Store) -> None:
    cluster = await gateways(store, 2)
    through = [await cluster[number % 2].take(limit(300)) == 0.0 for number in range(600)]
    assert 270 <= sum(through) <= 330


@requirement("OPS-limits-cluster")
@pytest.mark.parametrize("most", [1, 2, 7])
async def test_a_small_limit_is_exact_at_any_number_of_gateways(store: Store, most: int) -> None:
    cluster = await gateways(store, 3)
    through = await asyncio.gather(*(admitted(one, most, calls=20) for one in cluster))
    assert sum(through) == most


async def test_a_limit_that_is_used_up_is_not_asked_for_at_every_call(store: Store) -> None:
    cluster = await gateways(store, 2)
    for one in cluster:
        await admitted(one, 10, calls=20)
    before = await writes(store)
    assert await admitted(cluster[0], 10, calls=1_000) == 0
    assert await writes(store) == before
    assert 0 < await cluster[1].take(limit(10)) <= LONG * (1 + 1 / 60)


async def test_a_call_far_from_the_limit_writes_nothing(store: Store) -> None:
    (one,) = await gateways(store, 1)
    assert [await one.take(limit(1_000)) for _ in range(10)] == [0.0] * 10
    assert await writes(store) == 0
    await one.close()
    assert await writes(store) == 1


@requirement("OPS-limits-cluster")
async def test_a_gateway_that_dies_takes_no_more_than_a_tenth_with_it(store: Store) -> None:
    dying, other = await gateways(store, 2)
    used = await admitted(dying, 1_000, calls=450)  # its lease is never given back, its credit never reported
    through = used + await admitted(other, 1_000, calls=2_000)
    assert 900 <= through <= 1_100


async def test_a_gateway_that_stops_gives_its_lease_back(store: Store) -> None:
    stopping, other = await gateways(store, 2)
    used = await admitted(stopping, 1_000, calls=450)
    await stopping.close()
    through = used + await admitted(other, 1_000, calls=2_000)
    assert through == pytest.approx(1_000, abs=1)


async def test_what_was_taken_and_is_not_used_is_given_back(store: Store) -> None:
    (one,) = await gateways(store, 1)
    assert await one.take(limit(1)) == 0.0
    one.give_back(limit(1))
    assert await one.take(limit(1)) == 0.0
    assert await one.take(limit(1)) > 0


async def test_calls_of_different_costs_share_a_budget(store: Store) -> None:
    cluster = await gateways(store, 2)
    spent = 0
    for number in range(300):
        points = (1, 5, 25)[number % 3]
        spent += points if await cluster[number % 2].take(limit(1_000), points) == 0.0 else 0
    assert 900 <= spent <= 1_100
    assert await cluster[0].take(limit(10), 25) == math.inf
    assert await cluster[0].take(limit(10), 0) == 0.0


async def test_a_call_that_is_cancelled_while_it_waits_leaves_the_others_alone(store: Store) -> None:
    (one,) = await gateways(store, 1)
    waiting = [asyncio.create_task(one.take(limit(5))) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    through = await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(found == 0.0 for found in through) == 4


async def test_slots_leave_the_window_whole_and_points_go_back_to_the_newest(store: Store) -> None:
    def spending(**values: int) -> partial[Script[Account]]:
        return partial(spend, "x", window_ms=60_000_000, **values)

    assert (await store.write(spending(most=10, needs=1, wants=4))).granted == 4
    assert (await store.write(spending(most=10, needs=1, wants=40))).granted == 6
    assert (await store.write(spending(most=10, needs=1, wants=1))).granted == 0
    assert sum((await store.write(spending(spent=-3))).slots.values()) == 7
    assert (await store.write(spending(most=10, needs=5, wants=5))).granted == 0, "all that is needed, or nothing"
    assert sum((await store.write(spending(spent=-100))).slots.values()) == 0
