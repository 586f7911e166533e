"""Two gateways on one database: who follows a space at one sees what is written into it at the other."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import asyncpg
import pytest

from jackfield.model.space import LiveStream
from jackfield.spaces import cluster, service
from jackfield.spaces import transactions as space_tx
from jackfield.spaces.cluster import RemoteDrafts
from jackfield.spaces.frames import MessageFailed, MessageStreaming
from jackfield.spaces.service import SpaceService
from jackfield.store import gateways as gateway_tx
from jackfield.store.postgres import PostgresStore
from tests.requirement import requirement
from tests.spaces.follower import WITHIN, begin, following, say
from tests.store.intercepting import intercept
from tests.store.shared_postgres import opened
from tests.waiting import eventually_async

STARTED = {"streamId": "call_1", "runId": "run_1", "agentEntityId": "ada", "toolName": "confirm"}


def row(text: str = "", *, state: str = "open", gateway: str = "gw_b", kind: str = "message") -> LiveStream:
    return LiveStream(
        stream_id="s1",
        space_id="lobby",
        gateway=gateway,
        kind=kind,  # type: ignore[arg-type]
        state=state,  # type: ignore[arg-type]
        run_id="run_1",
        agent="ada",
        agent_name="Ada",
        tool="confirm" if kind == "tool" else None,
        text=text,
    )


def test_rows_tell_what_is_new_in_them() -> None:
    other = RemoteDrafts("gw_a")
    start, first = other.update([row("Hello")], over=())
    assert isinstance(start, MessageStreaming)
    assert isinstance(first, MessageStreaming)
    assert (start.phase, first.phase, first.offset, first.delta) == ("start", "delta", 0, "Hello")
    assert other.update([row("Hello")], over=()) == []
    [more] = other.update([row("Hello you")], over=())
    assert isinstance(more, MessageStreaming)
    assert (more.offset, more.delta) == (5, " you")
    [again] = other.update([row("Another")], over=())
    assert isinstance(again, MessageStreaming)
    assert (again.offset, again.delta) == (0, "Another")
    [done] = other.update([row("Another", state="done")], over=())
    assert isinstance(done, MessageStreaming)
    assert (done.phase, done.text) == ("done", "Another")
    assert other.flights == []


@pytest.mark.parametrize("rows", [[], [row("Hel", state="failed")]])
def test_what_vanishes_without_a_word_has_failed_like_what_says_so(rows: list[LiveStream]) -> None:
    other = RemoteDrafts("gw_a")
    other.update([row("Hel")], over=())
    assert other.update(rows, over=()) == [MessageFailed(stream_id="s1")]
    assert other.flights == []


def test_rows_of_ones_own_of_what_is_over_and_of_ends_without_a_beginning_tell_nothing() -> None:
    other = RemoteDrafts("gw_a")
    assert other.update([row("Hello", gateway="gw_a")], over=()) == []
    assert other.update([row("Hello")], over={"s1"}) == []
    assert other.update([row("Hello", state="done")], over=()) == []
    assert other.flights == []


def test_arguments_wait_for_the_start_of_their_call_even_when_they_have_ended() -> None:
    other = RemoteDrafts("gw_a")
    assert other.update([row('{"a": 1', kind="tool")], over=()) == []
    assert other.update([row('{"a": 1}', kind="tool", state="done")], over=()) == []
    assert other.update([], over=()) == []
    [flight] = other.flights
    [piece] = other.show(flight)
    assert (piece.offset, piece.delta, piece.partial_args) == (0, '{"a": 1}', {"a": 1})  # type: ignore[union-attr]
    assert other.flights == []


@pytest.fixture
async def stores(postgres_url: str) -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    async with opened(postgres_url) as one, opened(postgres_url) as other:
        await one.write(partial(gateway_tx.enter, "gw_a", is_shared=one.is_shared))
        await other.write(partial(gateway_tx.enter, "gw_b", is_shared=other.is_shared))
        await one.write(partial(space_tx.create_space, "lobby", name="Lobby"))
        yield one, other


@pytest.fixture
async def services(stores: tuple[PostgresStore, PostgresStore]) -> AsyncIterator[tuple[SpaceService, SpaceService]]:
    here, there = (SpaceService(store, gateway_id=name) for store, name in zip(stores, ("gw_a", "gw_b"), strict=True))
    yield here, there
    await here.close()
    await there.close()


@requirement("CON-spaces-stream-resume")
async def test_a_message_written_at_one_gateway_is_followed_at_the_other(
    stores: tuple[PostgresStore, PostgresStore], services: tuple[SpaceService, SpaceService]
) -> None:
    here, there = services
    words = [f"word{number} " for number in range(100)]
    async with following(there) as follower:
        begin(here, "s1")
        for word in words:
            here.live.append("s1", word)
            await asyncio.sleep(0.005)
        await follower.until(lambda it: "word10 " in it.texts.get("s1", ""))
        async with following(there) as late:
            await late.until(lambda it: "word10 " in it.texts.get("s1", ""))
        here.live.end("s1")
        await follower.until(lambda it: it.events[-1].get("phase") == "done")
        assert follower.texts["s1"] == follower.events[-1]["text"] == "".join(words)
        await say(stores[0], "".join(words), stream="s1")
        await follower.event("space.message")
        assert "space.message.failed" not in follower.kinds


async def test_what_a_gateway_wrote_that_died_before_it_could_say_so_is_followed_all_the_same(
    stores: tuple[PostgresStore, PostgresStore],
    services: tuple[SpaceService, SpaceService],
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "LOST_AFTER", 0.1)
    async with following(services[1]) as follower:
        await follower.event("connected")
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(
            "UPDATE spaces SET last_seq = 1 WHERE id = 'lobby';"
            "INSERT INTO space_events (space_id, seq, type, data, created_at) VALUES ('lobby', 1, 'lost', '{}', 0)"
        )
        await connection.close()
        assert (await follower.event("lost"))["seq"] == 1


async def test_the_arguments_of_a_call_at_the_other_gateway_come_after_its_start(
    stores: tuple[PostgresStore, PostgresStore], services: tuple[SpaceService, SpaceService]
) -> None:
    here, there = services
    async with following(there) as follower:
        await stores[0].write(partial(space_tx.add_event, "lobby", "tool.started", STARTED))
        begin(here, "call_1", tool="confirm")
        here.live.append("call_1", '{"question": "Book it?"}')
        await follower.until(lambda it: it.texts.get("call_1") == '{"question": "Book it?"}')
        assert follower.events[-1]["partialArgs"] == {"question": "Book it?"}
        here.live.end("call_1")
        await stores[0].write(partial(space_tx.add_event, "lobby", "tool.done", STARTED | {"result": True}))
        await follower.event("tool.done")
        assert follower.kinds.index("tool.started") < follower.kinds.index("tool.streaming")
        assert follower.kinds[-1] == "tool.done"


async def test_a_failure_at_the_other_gateway_is_told(services: tuple[SpaceService, SpaceService]) -> None:
    here, there = services
    async with following(there) as follower:
        begin(here, "s1")
        here.live.append("s1", "I was about to")
        await follower.until(lambda it: "s1" in it.texts)
        here.live.end("s1", failed=True)
        await follower.event("space.message.failed")


async def test_what_a_dead_gateway_was_writing_has_failed(
    stores: tuple[PostgresStore, PostgresStore],
    services: tuple[SpaceService, SpaceService],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "LOOK_AFTER", 0.05)
    here, there = services
    async with following(there) as follower:
        begin(here, "s1")
        here.live.append("s1", "I was about to")
        await follower.until(lambda it: "s1" in it.texts)
        assert here._sharing is not None
        await here._sharing.close()
        await stores[0].write(partial(gateway_tx.leave, "gw_a"))
        await follower.event("space.message.failed")


@pytest.mark.timeout(60)
async def test_a_feed_that_is_told_something_while_it_stops_stops(services: tuple[SpaceService, SpaceService]) -> None:
    here, there = services
    begin(here, "s1")
    here.live.append("s1", "Hello")
    for turns in range(5):
        async with following(there) as follower:
            await follower.until(lambda it: "s1" in it.texts)
            stopped = there._feeds["lobby"]
            async with asyncio.timeout(WITHIN):
                while not stopped._told._waiters:  # noqa: ASYNC110 - it tells nobody that it waits
                    await asyncio.sleep(0)
            stopped._told.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            await asyncio.wait_for(stopped.stop(), WITHIN)


async def test_rows_are_written_seldom_and_are_gone_in_the_end(
    stores: tuple[PostgresStore, PostgresStore],
    services: tuple[SpaceService, SpaceService],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "LINGER", 0.05)
    here, _ = services
    written: list[LiveStream] = []
    plain = stores[0].write

    async def counted(stream: LiveStream) -> None:
        written.append(stream)
        await plain(partial(space_tx.put_live, stream))

    intercept(monkeypatch, stores[0], space_tx.put_live, counted)
    loop = asyncio.get_running_loop()
    began = loop.time()
    begin(here, "s1")
    for number in range(200):
        here.live.append("s1", f"{number} ")
        await asyncio.sleep(0.003)
    seconds = loop.time() - began
    assert [stream.text for stream in await stores[1].read(partial(space_tx.live_in, "lobby"))] != []
    here.live.end("s1")

    async def nothing_live() -> bool:
        return not await stores[1].read(partial(space_tx.live_in, "lobby"))

    await eventually_async(nothing_live)
    assert len(written) <= 3 + seconds / cluster.PAUSE
    assert (written[-1].state, written[-1].text) == ("done", "".join(f"{number} " for number in range(200)))
