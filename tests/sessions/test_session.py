"""The ring of a session's events: numbered, bounded, honest about what is gone."""

import asyncio

import pytest
from msgspec import Raw

from jackfield.errors import EventsPurged
from jackfield.sessions.session import EventBuffer, SessionEvent


def filled(count: int, *, kept: int = 5) -> EventBuffer:
    ring = EventBuffer("ses", kept=kept)
    for number in range(count):
        ring.add("message", text=str(number))
    return ring


def indexes(events: list[SessionEvent]) -> list[int]:
    return [event.index for event in events]


def test_minus_one_is_everything_and_an_index_is_what_came_after() -> None:
    ring = filled(4)
    assert indexes(ring.since(-1)) == [0, 1, 2, 3]
    assert indexes(ring.since(1)) == [2, 3]
    assert indexes(ring.since(1, limit=1)) == [2]
    assert ring.since(3) == ring.since(99) == []
    assert (ring.last_index, ring.dropped) == (3, 0)


def test_what_is_gone_is_counted_and_asking_for_it_is_an_error() -> None:
    ring = filled(12)
    assert (ring.dropped, indexes(ring.since(-1))) == (7, [7, 8, 9, 10, 11])
    assert indexes(ring.since(6)) == [7, 8, 9, 10, 11]
    with pytest.raises(EventsPurged, match="oldest available: 7"):
        ring.since(5)


def test_large_events_evict_earlier() -> None:
    ring = EventBuffer("ses", kept=100, kept_bytes=1_000)
    for _ in range(10):
        ring.add("caller_tool_request", arguments=Raw(b'"' + b"x" * 300 + b'"'))
    assert len(ring.since(-1)) == 3
    ring.add("message", text="y" * 5_000)
    assert indexes(ring.since(-1)) == [10]


async def test_a_follower_misses_nothing_and_ends_with_the_session() -> None:
    ring, seen = filled(2), list[int]()

    async def follow() -> None:
        async for event in ring.follow(0):
            seen.append(event.index)
            if event.index == 2:
                ring.add("message", text="while it reads")

    following = asyncio.create_task(follow())
    await asyncio.sleep(0)
    ring.add("message", text="later")
    await asyncio.sleep(0)
    ring.close()
    await asyncio.wait_for(following, 5)
    assert seen == [1, 2, 3]


async def test_who_names_an_index_that_is_still_to_come_hears_what_comes_next() -> None:
    ring = filled(2)
    events = ring.follow(70)
    coming = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    ring.add("message", text="x")
    assert (await asyncio.wait_for(coming, 5)).index == 2


async def test_a_follower_that_is_too_slow_is_told_so() -> None:
    ring = filled(1)
    events = ring.follow(-1)
    assert (await anext(events)).index == 0
    for number in range(10):
        ring.add("message", text=str(number))
    with pytest.raises(EventsPurged):
        await anext(events)


async def test_waiting_for_an_event_ends_with_one_with_the_time_or_with_the_session() -> None:
    ring = filled(1)
    await asyncio.wait_for(ring.wait_past(-1, within=60), 5)
    waiting = asyncio.create_task(ring.wait_past(0, within=60))
    await asyncio.sleep(0)
    ring.add("message", text="x")
    await asyncio.wait_for(waiting, 5)
    await asyncio.wait_for(ring.wait_past(1, within=0.01), 5)
    waiting = asyncio.create_task(ring.wait_past(1, within=60))
    await asyncio.sleep(0)
    ring.close()
    await asyncio.wait_for(waiting, 5)
