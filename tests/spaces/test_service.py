"""Who follows a space is told everything once, in order, and cheaply."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest

from jackfield.model.space import SpaceEvent
from jackfield.spaces import live, service
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.service import SpaceService
from jackfield.store import Store
from jackfield.store import gateways as gateway_tx
from jackfield.store.opening import MemoryStore
from tests.requirement import requirement
from tests.spaces.follower import Follower, begin, following, say
from tests.store.intercepting import intercept

STARTED = {"streamId": "call_1", "runId": "run_1", "agentEntityId": "ada", "toolName": "confirm"}


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    opened = MemoryStore()
    await opened.open()
    await opened.write(partial(gateway_tx.enter, "gw_a", is_shared=opened.is_shared))
    await opened.write(partial(space_tx.create_space, "lobby", name="Lobby"))
    yield opened
    await opened.close()


@pytest.fixture
async def spaces(store: Store) -> AsyncIterator[SpaceService]:
    made = SpaceService(store, gateway_id="gw_a")
    yield made
    await made.close()


async def test_a_stream_says_where_it_is_and_begins_now(store: Store, spaces: SpaceService) -> None:
    before = await say(store, "before")
    async with following(spaces) as follower:
        first = follower.events[0]
        assert (first["type"], first["spaceId"], first["smartSpaceId"]) == ("connected", "lobby", "lobby")
        assert (first["lastSeq"], first["activeAgents"], first["streams"]) == (before, [], [])
        assert follower.last_id == before
        seq = await say(store, "after")
        event = await follower.event("space.message")
        assert (event["seq"], event["message"]["content"], event["message"]["seq"]) == (seq, "after", seq)


async def test_what_came_after_a_number_is_told_first_and_then_all_that_comes(
    store: Store, spaces: SpaceService
) -> None:
    for number in range(450):
        await say(store, str(number))
    async with following(spaces, after=7) as follower:
        last = await say(store, "new")
        await follower.until(lambda it: last in it.seqs)
        assert follower.seqs == list(range(8, last + 1))
        assert follower.events[0]["lastSeq"] >= 450


async def test_a_stream_that_breaks_before_anything_came_goes_on_where_it_was(
    store: Store, spaces: SpaceService
) -> None:
    async with following(spaces) as follower:
        resume = follower.last_id
    seq = await say(store, "meanwhile")
    async with following(spaces, after=resume) as follower:
        assert (await follower.event("space.message"))["seq"] == seq


async def test_a_number_that_is_yet_to_come_counts_as_now(store: Store, spaces: SpaceService) -> None:
    last = await say(store, "one")
    async with following(spaces, after=last + 1000) as follower:
        assert follower.last_id == last
        assert await say(store, "two") == (await follower.event("space.message"))["seq"]


@requirement("CON-spaces-stream-resume")
async def test_whoever_joins_in_the_middle_of_a_busy_space_misses_and_repeats_nothing(
    store: Store, spaces: SpaceService
) -> None:
    chance = random.Random(3)
    total = 400

    async def talk() -> None:
        for number in range(total):
            await say(store, str(number))
            if chance.random() < 0.3:
                await asyncio.sleep(0)

    async def listen(after: int) -> list[int]:
        seen: list[int] = []
        while after < total:
            async with following(spaces, after=after) as follower:
                wanted = min(total, after + chance.randint(1, 60))
                await follower.until(lambda it, wanted=wanted: it.last_id >= wanted)  # type: ignore[misc]
                seen += follower.seqs
                after = follower.last_id
        return seen

    talking = asyncio.create_task(talk())
    heard = await asyncio.gather(*(listen(chance.randint(0, 50)) for _ in range(20)))
    await talking
    for seqs in heard:
        assert seqs == list(range(seqs[0], total + 1))


async def test_an_event_is_read_and_encoded_once_for_all_who_follow(
    store: Store, spaces: SpaceService, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    plain = store.read

    async def counted(space_id: str, after: int, limit: int) -> list[SpaceEvent]:
        events = await plain(partial(space_tx.events_after, space_id, after, limit))
        reads.append(len(events))
        return events

    async with _crowd(spaces, 50) as crowd:
        intercept(monkeypatch, store, space_tx.events_after, counted)
        await say(store, "to all")
        for follower in crowd:
            await follower.event("space.message")
        assert sum(reads) == 1
        assert len({id(follower.chunks[-1]) for follower in crowd}) == 1


async def test_nothing_is_left_when_the_last_one_has_gone(store: Store, spaces: SpaceService) -> None:
    async with _crowd(spaces, 3):
        assert "space:lobby" in store.bus.topics
    assert [topic for topic in store.bus.topics if "lobby" in topic] == []
    assert spaces._feeds == {}


async def test_one_who_reads_too_slowly_is_cut_off_and_loses_nothing(
    store: Store, spaces: SpaceService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_FRAMES", 10)
    slow, got = spaces.follow("lobby"), Follower()
    got.take(await anext(slow))
    async with following(spaces) as quick:
        last = 0
        for number in range(50):
            last = await say(store, str(number))
            await quick.until(lambda it, last=last: last in it.seqs)  # type: ignore[misc]
        async for chunk in slow:
            got.take(chunk)
        assert got.seqs == list(range(1, len(got.seqs) + 1))
        assert len(got.seqs) < 50
        async with following(spaces, after=got.last_id) as again:
            await again.until(lambda it: last in it.seqs)
            assert got.seqs + again.seqs == quick.seqs


async def test_the_streams_of_a_deleted_space_end(store: Store, spaces: SpaceService) -> None:
    await say(store, "last words")
    async with following(spaces) as follower:
        await store.write(partial(space_tx.delete_space, "lobby"))
        await follower.until(lambda it: it.is_over)
    await store.write(partial(space_tx.create_space, "lobby", name="Another"))
    async with following(spaces, after=1) as follower:
        assert follower.events[0]["lastSeq"] == 0


async def test_a_message_in_flight_comes_in_pieces_and_then_whole(store: Store, spaces: SpaceService) -> None:
    async with following(spaces) as follower:
        begin(spaces, "s1")
        spaces.live.append("s1", "Hello ")
        await follower.until(lambda it: it.texts.get("s1") == "Hello ")
        spaces.live.append("s1", "you, 😀 ")
        spaces.live.append("s1", "and all.")
        await follower.until(lambda it: it.texts["s1"] == "Hello you, 😀 and all.")
        spaces.live.end("s1")
        await say(store, "Hello you, 😀 and all.", stream="s1")
        assert (await follower.event("space.message"))["streamId"] == "s1"
        told = [event for event in follower.events if event["type"] == "space.message.streaming"]
        assert [event["phase"] for event in told] == ["start", "delta", "delta", "done"]
        assert [event["offset"] for event in told] == [0, 0, 6, 21]
        assert ["text" in event for event in told] == [False, False, False, True]
        assert told[-1]["text"] == "Hello you, 😀 and all."
        assert {(event["runId"], event["agentEntityId"]) for event in told} == {("run_1", "ada")}
        assert follower.kinds[-2:] == ["space.message.streaming", "space.message"]


async def test_a_message_that_will_not_be_is_said_to_have_failed(spaces: SpaceService) -> None:
    async with following(spaces) as follower:
        begin(spaces, "s1")
        spaces.live.append("s1", "I was about to")
        spaces.live.end("s1", failed=True)
        assert await follower.event("space.message.failed") == {"type": "space.message.failed", "streamId": "s1"}
    async with following(spaces) as follower:
        assert follower.events[0]["streams"] == []


@requirement("SPACE-event-streaming")
async def test_arguments_come_piece_by_piece_with_what_they_say_so_far(store: Store, spaces: SpaceService) -> None:
    async with following(spaces) as follower:
        await store.write(partial(space_tx.add_event, "lobby", "tool.started", STARTED))
        begin(spaces, "call_1", tool="confirm")
        spaces.live.append("call_1", '{"question": "Book')
        first = await follower.event("tool.streaming")
        assert (first["offset"], first["delta"], first["partialArgs"]) == (
            0,
            '{"question": "Book',
            {"question": "Book"},
        )
        assert (first["toolName"], first["streamId"], first["runId"]) == ("confirm", "call_1", "run_1")
        spaces.live.append("call_1", ' it?"}')
        spaces.live.end("call_1")
        second = await follower.event("tool.streaming", count=2)
        assert (second["offset"], second["delta"], second["partialArgs"]) == (18, ' it?"}', {"question": "Book it?"})


@requirement("SPACE-event-order")
async def test_arguments_never_come_before_the_start_of_their_call_nor_after_its_end(
    store: Store, spaces: SpaceService
) -> None:
    chance = random.Random(11)
    async with following(spaces) as follower:
        for number in range(60):
            call = {**STARTED, "streamId": f"call_{number}"}
            await store.write(partial(space_tx.add_event, "lobby", "tool.started", call))
            begin(spaces, f"call_{number}", tool="confirm")
            for piece in ('{"n": ', f"{number}", "}"):
                spaces.live.append(f"call_{number}", piece)
                if chance.random() < 0.3:
                    await asyncio.sleep(chance.random() / 1000)
            spaces.live.end(f"call_{number}")
            await store.write(partial(space_tx.add_event, "lobby", "tool.done", call | {"result": number}))
        await follower.event("tool.done", count=60)
        for number in range(60):
            own = [event for event in follower.events if event.get("streamId") == f"call_{number}"]
            kinds = [event["type"] for event in own]
            assert (kinds[0], kinds[-1]) == ("tool.started", "tool.done")
            assert set(kinds[1:-1]) == {"tool.streaming"}
            assert follower.texts[f"call_{number}"] == f'{{"n": {number}}}'
            assert own[-2]["partialArgs"] == {"n": number}


async def test_who_comes_later_gets_what_is_in_flight_from_its_beginning(store: Store, spaces: SpaceService) -> None:
    await store.write(partial(space_tx.add_event, "lobby", "tool.started", STARTED))
    begin(spaces, "call_1", tool="confirm")
    spaces.live.append("call_1", '{"question": "Book')
    begin(spaces, "s1")
    spaces.live.append("s1", "One moment")
    async with following(spaces) as first, following(spaces) as second:
        for follower in (first, second):
            assert sorted(follower.events[0]["streams"]) == ["call_1", "s1"]
            await follower.until(lambda it: len(it.texts) == 2)
            assert follower.texts == {"call_1": '{"question": "Book', "s1": "One moment"}
        spaces.live.append("s1", " please.")
        await second.until(lambda it: it.texts["s1"] == "One moment please.")
        last = second.events[-1]
        assert (last["offset"], last["delta"]) == (10, " please.")
        whole = [event for event in second.events if event.get("text")]
        assert [(event["phase"], event["offset"], event["text"]) for event in whole] == [("delta", 0, "One moment")]


@requirement("CON-spaces-stream-resume")
async def test_a_stream_cut_again_and_again_ends_with_the_right_text(store: Store, spaces: SpaceService) -> None:
    chance = random.Random(5)
    words = [f"word{number} " for number in range(300)]

    async def write() -> None:
        begin(spaces, "s1")
        for word in words:
            spaces.live.append("s1", word)
            await asyncio.sleep(0.001)
        spaces.live.end("s1")
        await say(store, "".join(words), stream="s1")

    texts: dict[str, str] = {}
    after, kinds = 0, [""]
    writing = asyncio.create_task(write())
    while "space.message" not in kinds:
        async with following(spaces, after=after, texts=texts) as follower:
            pieces = chance.randint(1, 4)
            await follower.until(
                lambda it, pieces=pieces: len(it.events) > pieces or "space.message" in it.kinds  # type: ignore[misc]
            )
            texts, after, kinds = follower.texts, follower.last_id, follower.kinds
        assert "".join(words).startswith(texts.get("s1", ""))
    assert follower.events[-1]["message"]["content"] == "".join(words)
    await writing


async def test_pieces_that_come_quickly_are_joined(spaces: SpaceService) -> None:
    async with following(spaces) as follower:
        began = asyncio.get_running_loop().time()
        begin(spaces, "s1")
        for number in range(2_000):
            spaces.live.append("s1", f"{number} ")
            if number % 20 == 0:
                await asyncio.sleep(0.002)
        spaces.live.end("s1")
        await follower.until(lambda it: it.events[-1].get("phase") == "done")
        seconds = asyncio.get_running_loop().time() - began
        assert len(follower.events) <= 5 + seconds / live.PAUSE
        assert follower.texts["s1"] == "".join(f"{number} " for number in range(2_000))


async def test_long_arguments_are_told_less_often(spaces: SpaceService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BYTES_PER_SECOND", 100_000)
    async with following(spaces) as follower:
        began = asyncio.get_running_loop().time()
        begin(spaces, "call_1", tool="chart")
        spaces.live.append("call_1", '{"text": "')
        for _ in range(100):
            spaces.live.append("call_1", "x" * 500)
            await asyncio.sleep(0.003)
        spaces.live.end("call_1")
        await follower.until(lambda it: len(it.texts.get("call_1", "")) == 50_010)
        seconds = asyncio.get_running_loop().time() - began
        # What is on its way when the stream ends may go beyond the rate: two frames of up to 100 kB.
        assert sum(map(len, follower.chunks)) < 100_000 * seconds + 2 * 101_000


async def test_what_nobody_follows_costs_nothing_and_leaves_nothing(spaces: SpaceService) -> None:
    begin(spaces, "s1")
    begin(spaces, "call_1", tool="confirm")
    for stream in ("s1", "call_1", "never begun"):
        spaces.live.append(stream, "text")
        spaces.live.end(stream)
        spaces.live.append(stream, "more")
    assert spaces.live.in_space("lobby") == []
    assert spaces.live._timers == {}
    assert spaces.live._not_before == {}


async def test_a_stream_that_begins_again_under_its_id_is_a_new_one(spaces: SpaceService) -> None:
    async with following(spaces) as follower:
        begin(spaces, "s1")
        spaces.live.append("s1", "First try")
        begin(spaces, "s1")
        spaces.live.append("s1", "Second")
        await follower.until(lambda it: it.texts.get("s1") == "Second")
        assert "space.message.failed" in follower.kinds


@asynccontextmanager
async def _crowd(spaces: SpaceService, count: int) -> AsyncIterator[list[Follower]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(following(spaces)) for _ in range(count)]
