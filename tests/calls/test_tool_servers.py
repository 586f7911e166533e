"""Tool servers: a call goes to one of them, comes again when that one returns, and none gets more than it asked for."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.tool_servers import Offer, ToolServer
from jackfield.errors import AlreadyResolved, Conflict, Unavailable
from jackfield.model.call import Call, CallStatus
from jackfield.model.principal import Principal
from jackfield.sources.base import Progress
from jackfield.store import gateways as gateway_tx
from jackfield.store import scripts
from jackfield.store.scripts import Sql
from tests.calls.harness import OPS
from tests.calls.pending_harness import PendingHarness, external, pending_harness, until, within
from tests.requirement import requirement
from tests.store.intercepting import intercept

ASK = ("ask", "ask_again", "ask_later", "ask_later_again")
LATER = "ask_later"
LATER_AGAIN = "ask_later_again"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[PendingHarness]:
    urls = {"memory": "memory:", "sqlite": "sqlite:///calls.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    async with pending_harness(url, tmp_path) as opened:
        yield opened


async def offered(server: ToolServer) -> Offer:
    """The next offer."""
    offer = await within(server.offers.get())
    assert offer is not None, "the stream ended"
    found: Offer = offer
    return found


async def nothing_more(harness: PendingHarness, *servers: ToolServer) -> None:
    """After everybody has looked again, nobody has been offered anything else."""
    for _ in range(2):
        harness.servers.look_again()
        await until(lambda: not any(server.woken.is_set() for server in servers))
        await harness.store.now_ms()
    assert [server.offers.qsize() for server in servers] == [0] * len(servers)


async def made(harness: PendingHarness, count: int, tool: str = LATER) -> list[Call]:
    return [await harness.call(tool, agent="ada") for _ in range(count)]


async def test_a_call_is_offered_with_its_arguments_and_the_name_that_the_server_knows(harness: PendingHarness) -> None:
    async with harness.servers.connect("one", ASK, principal=OPS) as server:
        call, waiting = await harness.begin("ask", {"city": "Bern"}, agent="ada")
        offer = await offered(server)
        assert (offer.call.id, offer.tool, offer.call.arguments) == (call.id, "ask", call.arguments)
        assert (offer.call.offers, offer.call.offered_to) == (1, "ops/one")
        await harness.answer(call, 1)
        assert (await within(waiting)).status is CallStatus.COMPLETED


@requirement("CON-stream-one-server")
async def test_each_call_goes_to_one_server_and_not_to_all(harness: PendingHarness) -> None:
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(harness.servers.connect(f"s{n}", ASK, principal=OPS)) for n in range(3)
        ]
        calls = await made(harness, 30)
        await until(lambda: sum(server.offers.qsize() for server in servers) >= 30)
        await nothing_more_than(harness, servers, 30)
        taken = Counter(offer.call.id for server in servers for offer in drained(server))
        assert taken == Counter({call.id: 1 for call in calls})


async def nothing_more_than(harness: PendingHarness, servers: list[ToolServer], count: int) -> None:
    for _ in range(2):
        harness.servers.look_again()
        await until(lambda: not any(server.woken.is_set() for server in servers))
        await harness.store.now_ms()
    assert sum(server.offers.qsize() for server in servers) == count


def drained(server: ToolServer) -> list[Offer]:
    found = [server.offers.get_nowait() for _ in range(server.offers.qsize())]
    return [offer for offer in found if isinstance(offer, Offer)]


async def test_calls_that_waited_for_a_server_go_to_the_first_that_connects(harness: PendingHarness) -> None:
    calls = await made(harness, 3)
    async with harness.servers.connect("first", ASK, principal=OPS) as server:
        assert {(await offered(server)).call.id for _ in calls} == {call.id for call in calls}


@requirement("CON-stream-one-server")
async def test_a_server_that_returns_is_offered_again_what_it_has_not_answered(harness: PendingHarness) -> None:
    answered, open_ = await made(harness, 2)
    async with harness.servers.connect("one", ASK, principal=OPS) as server:
        for _ in range(2):
            await offered(server)
        await harness.answer(answered, 1)
    async with (
        harness.servers.connect("two", ASK, principal=OPS) as other,
        harness.servers.connect("one", ASK, principal=OPS) as again,
    ):
        offer = await offered(again)
        assert (offer.call.id, offer.call.offers) == (open_.id, 2)
        await nothing_more(harness, other, again)


async def test_a_call_that_may_run_twice_goes_to_another_server_as_soon_as_its_own_is_gone(
    harness: PendingHarness,
) -> None:
    async with harness.servers.connect("stays", ASK, principal=OPS, limit=1) as stays:
        busy = (await made(harness, 1, LATER_AGAIN))[0]
        assert (await offered(stays)).call.id == busy.id
        async with harness.servers.connect("leaves", ASK, principal=OPS) as leaves:
            call = (await made(harness, 1, LATER_AGAIN))[0]
            assert (await offered(leaves)).call.id == call.id
            await harness.answer(busy, "done")
        offer = await offered(stays)
        assert (offer.call.id, offer.call.offers, offer.call.offered_to) == (call.id, 2, "ops/stays")


async def test_a_call_that_may_not_run_twice_waits_for_its_own_server(harness: PendingHarness) -> None:
    async with harness.servers.connect("stays", ASK, principal=OPS) as stays:
        async with harness.servers.connect("leaves", ("ask_later",), principal=OPS) as leaves:
            stays.limit = 0
            call = (await made(harness, 1))[0]
            assert (await offered(leaves)).call.id == call.id
        stays.limit = 10
        await nothing_more(harness, stays)
        assert (await harness.answer(call, "by anybody")).status is CallStatus.COMPLETED


async def ten_seconds_pass(harness: PendingHarness) -> None:
    """Since servers left, by the database's clock; and a round of the sweeper."""
    sql = "UPDATE calls SET server_left_at = server_left_at - 10000"
    statement = Sql("of the test", sql)
    await harness.store.write(partial(scripts.run, statement))
    await harness.sweep()


@requirement("SAFE-reoffer-after-gone")
async def test_a_call_that_may_not_run_twice_goes_to_another_server_when_its_own_has_been_gone_for_ten_seconds(
    harness: PendingHarness,
) -> None:
    async with harness.servers.connect("stays", ASK, principal=OPS, limit=0) as stays:
        async with harness.servers.connect("leaves", ASK, principal=OPS) as leaves:
            call = (await made(harness, 1))[0]
            assert (await offered(leaves)).call.id == call.id
        stays.limit = 10
        await harness.sweep()
        await nothing_more(harness, stays)
        await ten_seconds_pass(harness)
        offer = await offered(stays)
        assert (offer.call.id, offer.call.offers, offer.call.offered_to) == (call.id, 2, "ops/stays")


@requirement("SAFE-reoffer-after-gone")
async def test_a_server_that_returned_in_time_keeps_its_call(harness: PendingHarness) -> None:
    async with harness.servers.connect("stays", ASK, principal=OPS, limit=0) as stays:
        async with harness.servers.connect("returns", ASK, principal=OPS) as first:
            call = (await made(harness, 1))[0]
            await offered(first)
        stays.limit = 10
        async with harness.servers.connect("returns", ASK, principal=OPS) as again:
            assert (await offered(again)).call.id == call.id
            await ten_seconds_pass(harness)
            await nothing_more(harness, stays, again)


@requirement("SAFE-reoffer-after-gone")
async def test_a_call_that_was_begun_stays_with_the_server_that_began_it(harness: PendingHarness) -> None:
    async with harness.servers.connect("stays", ASK, principal=OPS, limit=0) as stays:
        async with harness.servers.connect("leaves", ASK, principal=OPS) as leaves:
            call = (await made(harness, 1))[0]
            await offered(leaves)
            await harness.answers.progress(call.id, Progress(progress=0), principal=OPS, attempt=1)
        stays.limit = 10
        await ten_seconds_pass(harness)
        await nothing_more(harness, stays)
        async with harness.servers.connect("leaves", ASK, principal=OPS) as again:
            offer = await offered(again)
            assert (offer.call.id, offer.call.offers) == (call.id, 2)


@requirement("SAFE-reoffer-begun-once")
async def test_a_server_may_not_begin_what_was_offered_to_another_since(harness: PendingHarness) -> None:
    async with harness.servers.connect("stays", ASK, principal=OPS, limit=0) as stays:
        async with harness.servers.connect("leaves", ASK, principal=OPS) as leaves:
            call = (await made(harness, 1))[0]
            await offered(leaves)
        stays.limit = 10
        await ten_seconds_pass(harness)
        await offered(stays)
        with pytest.raises(Conflict, match="another tool server"):
            await harness.answers.progress(call.id, Progress(progress=0), principal=OPS, attempt=1)
        begun = await harness.answers.progress(call.id, Progress(progress=0), principal=OPS, attempt=2)
        again = await harness.answers.progress(call.id, Progress(progress=0.5), principal=OPS, attempt=2)
        assert (begun.offers, again.offered_to) == (2, "ops/stays")
        await harness.answer(call, "done")
        with pytest.raises(AlreadyResolved):
            await harness.answers.progress(call.id, Progress(progress=0), principal=OPS, attempt=2)


@requirement("SAFE-reoffer-begun-once")
async def test_two_processes_under_one_id_do_not_both_begin(harness: PendingHarness) -> None:
    async with harness.servers.connect("same", ASK, principal=OPS) as first:
        call = (await made(harness, 1))[0]
        await offered(first)
        await harness.answers.progress(call.id, Progress(progress=0), principal=OPS, attempt=1)
        async with harness.servers.connect("same", ASK, principal=OPS) as second:
            assert (await offered(second)).call.offers == 2
            with pytest.raises(Conflict):
                await harness.answers.progress(call.id, Progress(progress=0), principal=OPS, attempt=2)
            await harness.answers.progress(call.id, Progress(progress=1), principal=OPS, attempt=1)


@requirement("SAFE-reoffer-begun-once")
async def test_a_server_that_names_no_offer_is_known_by_its_key(harness: PendingHarness) -> None:
    async with worker(harness, "mine", "worker:ask_*", client="one") as mine:
        call = (await made(harness, 1))[0]
        await offered(mine)
        other = Principal(name="theirs", scopes=frozenset({"worker:ask_*"}))
        with pytest.raises(Conflict):
            await harness.answers.progress(call.id, Progress(progress=0), principal=other)
        await harness.answers.progress(call.id, Progress(progress=0), principal=mine.principal)
    await ten_seconds_pass(harness)
    assert (await harness.record(call.id)).offered_to == "mine/one", "it has begun"


@requirement("SAFE-reoffer-after-gone")
async def test_that_a_server_left_is_put_on_record_when_the_store_is_back(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise Unavailable("The database is away.")

    leaving = AsyncExitStack()
    leaves = await leaving.enter_async_context(harness.servers.connect("leaves", ASK, principal=OPS))
    call = (await made(harness, 1, LATER_AGAIN))[0]
    await offered(leaves)
    intercept(monkeypatch, harness.store, call_tx.server_left, away)
    with pytest.raises(Unavailable):
        await leaving.aclose()
    monkeypatch.undo()
    async with harness.servers.connect("stays", ASK, principal=OPS) as stays:
        await harness.sweep()
        assert (await offered(stays)).call.id == call.id


@requirement("SAFE-reoffer-after-gone", "CON-replicas")
async def test_the_calls_of_servers_that_died_with_their_gateway_go_to_others(
    postgres_url: str, tmp_path: Path
) -> None:
    async with pending_harness(postgres_url, tmp_path, gateway_id="gw_b") as b, AsyncExitStack() as dying:
        a = await dying.enter_async_context(pending_harness(postgres_url, tmp_path, gateway_id="gw_a"))
        server = await dying.enter_async_context(a.servers.connect("one", ASK, principal=OPS))
        once, twice = (await made(a, 1))[0], (await made(a, 1, LATER_AGAIN))[0]
        assert {(await offered(server)).call.id for _ in range(2)} == {once.id, twice.id}
        # As if the process were gone: it offers nothing any more, and nobody notes that its server left.
        a.servers._servers.pop(server.id).end()
        await b.store.write(partial(gateway_tx.leave, "gw_a"))
        async with b.servers.connect("other", ASK, principal=OPS) as other:
            await b.sweep()
            assert (await offered(other)).call.id == twice.id
            await nothing_more(b, other)
            await ten_seconds_pass(b)
            assert (await offered(other)).call.id == once.id


async def test_a_server_gets_no_more_than_its_limit_and_the_next_as_soon_as_one_is_answered(
    harness: PendingHarness,
) -> None:
    calls = await made(harness, 5)
    async with harness.servers.connect("one", ASK, principal=OPS, limit=2) as server:
        given = [(await offered(server)).call for _ in range(2)]
        await nothing_more(harness, server)
        for answered in range(3):
            await harness.answer(given[answered], "done")
            given.append((await within(offered(server), 0.9)).call)
            await nothing_more(harness, server)
        assert sorted(call.id for call in given) == sorted(call.id for call in calls)


async def test_the_server_with_less_to_do_gets_the_next_call(harness: PendingHarness) -> None:
    async with harness.servers.connect("busy", ASK, principal=OPS) as busy:
        await made(harness, 3)
        for _ in range(3):
            await offered(busy)
        async with harness.servers.connect("idle", ASK, principal=OPS) as idle:
            calls = await made(harness, 3)
            assert {(await offered(idle)).call.id for _ in calls} == {call.id for call in calls}
            await nothing_more(harness, busy, idle)


async def test_a_server_at_its_limit_does_not_keep_calls_from_a_busier_one_below_its_limit(
    harness: PendingHarness,
) -> None:
    async with (
        harness.servers.connect("small", ASK, principal=OPS, limit=1) as small,
        harness.servers.connect("large", ASK, principal=OPS, limit=50) as large,
    ):
        calls = await made(harness, 10)
        await until(lambda: small.offers.qsize() + large.offers.qsize() == 10)
        assert small.offers.qsize() == 1
        assert {offer.call.id for server in (small, large) for offer in drained(server)} == {c.id for c in calls}


async def test_a_second_connection_of_a_client_ends_the_first_and_takes_over_its_calls(harness: PendingHarness) -> None:
    async with harness.servers.connect("one", ASK, principal=OPS) as first:
        call = (await made(harness, 1))[0]
        await offered(first)
        async with harness.servers.connect("one", ASK, principal=OPS) as second:
            assert await within(first.offers.get()) is None
            offer = await offered(second)
            assert (offer.call.id, offer.call.offers) == (call.id, 2)
            later = (await made(harness, 1))[0]
            assert (await offered(second)).call.id == later.id
            assert first.offers.qsize() == 0


async def test_the_end_of_a_replaced_connection_releases_nothing(harness: PendingHarness) -> None:
    async with AsyncExitStack() as second_stack:
        async with harness.servers.connect("one", ASK, principal=OPS) as first:
            call = (await made(harness, 1, LATER_AGAIN))[0]
            await offered(first)
            second = await second_stack.enter_async_context(harness.servers.connect("one", ASK, principal=OPS))
            await offered(second)
        assert (await harness.record(call.id)).offered_to == "ops/one"


async def test_an_offer_that_was_being_written_when_the_connection_was_replaced_is_made_again(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection takes the call and is cut off before it could pass it on."""
    write, writing, cut = harness.store.write, asyncio.Event(), asyncio.Event()

    async def slow_offer(call_id: str, **who: Any) -> Any:
        moved = await write(partial(call_tx.offer, call_id, **who))
        if not cut.is_set():
            writing.set()
            await asyncio.Event().wait()
        return moved

    intercept(monkeypatch, harness.store, call_tx.offer, slow_offer)
    async with harness.servers.connect("one", ASK, principal=OPS):
        call = (await made(harness, 1))[0]
        await within(writing.wait())
        cut.set()
        async with harness.servers.connect("one", ASK, principal=OPS) as second:
            assert (await offered(second)).call.id == call.id


@asynccontextmanager
async def worker(harness: PendingHarness, name: str, scope: str, client: str = "same") -> AsyncIterator[ToolServer]:
    principal = Principal(name=name, scopes=frozenset({scope}))
    async with harness.servers.connect(client, ASK, principal=principal) as server:
        yield server


async def test_a_server_gets_only_what_its_key_may_serve(harness: PendingHarness) -> None:
    async with worker(harness, "crm", "worker:ask_again") as limited:
        await made(harness, 1, LATER)
        wanted = await harness.begin("ask_again")
        assert (await offered(limited)).call.id == wanted[0].id
        await nothing_more(harness, limited)
        await harness.answer(wanted[0], 1)
        await within(wanted[1])


async def test_a_key_does_not_get_another_keys_calls_by_saying_its_client_id(harness: PendingHarness) -> None:
    call = (await made(harness, 1))[0]
    async with worker(harness, "honest", "worker:ask_*") as honest:
        assert (await offered(honest)).call.id == call.id
    async with worker(harness, "thief", "worker:ask_*") as thief:
        await nothing_more(harness, thief)


async def test_a_server_that_names_no_tools_gets_all_that_its_key_may_serve(harness: PendingHarness) -> None:
    principal = Principal(name="crm", scopes=frozenset({"worker:ask_later*"}))
    async with harness.servers.connect("one", None, principal=principal) as server:
        calls = [*await made(harness, 1, LATER), *await made(harness, 1, LATER_AGAIN)]
        assert {(await offered(server)).call.id for _ in calls} == {call.id for call in calls}


async def test_a_server_that_just_connected_can_be_woken_at_once(harness: PendingHarness) -> None:
    async with harness.servers.connect("one", ASK, principal=OPS) as server:
        harness.servers.look_again()
        call = (await made(harness, 1))[0]
        assert (await offered(server)).call.id == call.id


async def test_a_tool_that_a_server_serves_may_be_listed_after_it_connected(harness: PendingHarness) -> None:
    async with harness.servers.connect("one", ("new",), principal=OPS) as server:
        await harness.list_tools(external("new", is_async=True))
        call = (await made(harness, 1, "new"))[0]
        await harness.sweep()
        assert (await offered(server)).call.id == call.id


async def test_a_server_whose_offers_break_off_is_told_by_the_end_of_its_stream(
    harness: PendingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It connects again and gets what it missed; a stream that stays open in silence would starve it."""

    async def away(*_: Any, **__: Any) -> Any:
        raise Unavailable("The database is away.")

    async with harness.servers.connect("one", ASK, principal=OPS) as server:
        await nothing_more(harness, server)
        intercept(monkeypatch, harness.store, call_tx.calls_to_offer, away)
        call = (await made(harness, 1))[0]
        assert await within(server.offers.get()) is None
        monkeypatch.undo()
    async with harness.servers.connect("one", ASK, principal=OPS) as again:
        assert (await offered(again)).call.id == call.id


async def test_closing_ends_every_stream(harness: PendingHarness) -> None:
    async with harness.servers.connect("one", ASK, principal=OPS) as server:
        harness.servers.close()
        assert await within(server.offers.get()) is None


@requirement("CON-replicas")
async def test_a_call_made_at_one_gateway_is_offered_at_another_without_waiting_for_a_round(
    postgres_url: str, tmp_path: Path
) -> None:
    async with (
        pending_harness(postgres_url, tmp_path, gateway_id="gw_a") as a,
        pending_harness(postgres_url, tmp_path, gateway_id="gw_b") as b,
        b.servers.connect("one", ASK, principal=OPS) as server,
    ):
        await nothing_more(b, server)
        call, waiting = await a.begin("ask", agent="ada")
        assert (await within(offered(server), 2)).call.id == call.id
        await b.answer(call, "from b")
        assert (await within(waiting, 2)).status is CallStatus.COMPLETED


@requirement("CON-replicas")
async def test_servers_at_two_gateways_never_get_the_same_call(postgres_url: str, tmp_path: Path) -> None:
    async with (
        pending_harness(postgres_url, tmp_path, gateway_id="gw_a") as a,
        pending_harness(postgres_url, tmp_path, gateway_id="gw_b") as b,
        a.servers.connect("at_a", ASK, principal=OPS) as at_a,
        b.servers.connect("at_b", ASK, principal=OPS) as at_b,
    ):
        calls = await asyncio.gather(*(a.call(LATER) for _ in range(50)))
        await until(lambda: at_a.offers.qsize() + at_b.offers.qsize() >= 50)
        await asyncio.gather(nothing_more_than(a, [at_a], at_a.offers.qsize()), b.store.now_ms())
        taken = Counter(offer.call.id for server in (at_a, at_b) for offer in drained(server))
        assert taken == Counter({call.id: 1 for call in calls})


@requirement("CON-replicas")
async def test_a_call_that_was_approved_at_one_gateway_is_offered_at_another_without_waiting_for_a_round(
    postgres_url: str, tmp_path: Path
) -> None:
    async with (
        pending_harness(postgres_url, tmp_path, gateway_id="gw_a") as a,
        pending_harness(postgres_url, tmp_path, gateway_id="gw_b") as b,
        b.servers.connect("one", ("ask_boss",), principal=OPS) as server,
    ):
        call = await a.call("ask_boss", agent="ada")
        await nothing_more(b, server)
        await a.answers.approve(call.id, principal=OPS)
        assert (await within(offered(server), 2)).call.id == call.id


@requirement("CON-replicas")
async def test_a_call_whose_server_left_one_gateway_is_offered_at_another_without_waiting_for_a_round(
    postgres_url: str, tmp_path: Path
) -> None:
    async with (
        pending_harness(postgres_url, tmp_path, gateway_id="gw_a") as a,
        pending_harness(postgres_url, tmp_path, gateway_id="gw_b") as b,
    ):
        call = (await made(a, 1, LATER_AGAIN))[0]
        async with AsyncExitStack() as stack:
            async with a.servers.connect("leaves", ASK, principal=OPS) as leaves:
                assert (await offered(leaves)).call.id == call.id
                server = await stack.enter_async_context(b.servers.connect("stays", ASK, principal=OPS))
                await nothing_more(b, server)
            assert (await within(offered(server), 2)).call.id == call.id
