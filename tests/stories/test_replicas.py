"""Several gateways on one PostgreSQL behave as one: whoever dies, another goes on, and nothing happens twice."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
from msgspec import Raw

from jackfield.calls import transactions as call_tx
from jackfield.model.call import Call, CallStatus, Delivery, FirstReply
from jackfield.model.ids import new_id
from jackfield.store import open_store
from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.stories.killable import KillableGateway, killable_gateways
from tests.waiting import Stopwatch, eventually_async

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def url(postgres_server: PostgresServer, empty_database: str) -> str:
    return postgres_server.url(empty_database)


@pytest.fixture
async def pair(tmp_path: Path, url: str) -> AsyncIterator[list[KillableGateway]]:
    async with killable_gateways(tmp_path, url, count=2) as running:
        yield running


class Leases:
    """The gateways' leases, so that a story need not wait until one is over."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        self._server = server
        self._database = database

    def end(self) -> None:
        """As if 15 s had gone by without a heartbeat; who is alive beats again, and nobody buries itself."""
        self._server.run("UPDATE gateways SET alive_until = 0 WHERE dead = 0", database=self._database)

    def dead(self) -> int:
        return int(self._server.run("SELECT count(*) FROM gateways WHERE dead = 1", database=self._database))


@pytest.fixture
def leases(postgres_server: PostgresServer, empty_database: str) -> Leases:
    return Leases(postgres_server, empty_database)


@requirement("CON-replicas")
async def test_a_result_posted_at_one_gateway_wakes_who_waits_at_another(pair: list[KillableGateway]) -> None:
    a, b = pair
    for turn in range(5):
        call, waiting = await a.begin("ask", agent=f"ada{turn}")
        watch = Stopwatch()
        answer = await b.submit(call, {"turn": turn})
        assert (answer.status_code, answer.json()["delivery"]) == (200, "inline")
        told = (await waiting).json()
        assert (told["status"], told["result"]) == ("completed", {"turn": turn})
        assert watch.seconds() < 0.9, "woken by a wake-up, not by a round of the sweeper"
        assert await b.inbox(f"ada{turn}") == []


@requirement("CON-exactly-once", "CON-late-result-home", "CON-replicas")
@pytest.mark.parametrize("when", ["before the result", "between the result and the reply"])
async def test_a_result_for_a_caller_whose_gateway_died_is_in_the_inbox_once(
    pair: list[KillableGateway], leases: Leases, when: str
) -> None:
    a, b = pair
    call, waiting = await a.begin("ask", agent="ada")
    if when == "before the result":
        a.kill()
    else:
        a.pause()  # it cannot send what is settled next
    answer = await b.submit(call, "for whom")
    assert (answer.status_code, answer.json()["delivery"]) == (200, "inline")
    assert await b.inbox("ada") == []
    a.kill()
    with pytest.raises(httpx2.TransportError):
        await waiting
    leases.end()
    assert await b.told("ada") == [(f"tr:{call['id']}", "for whom")]
    record = await b.record(call["id"])
    assert (record["status"], record["delivery"], record["result"]) == ("completed", "inbox", "for whom")
    await a.start()
    assert await a.inbox("ada") == [(f"tr:{call['id']}", "for whom")]
    assert (await a.submit(call, "again")).status_code == 409


@requirement("CON-exactly-once")
async def test_a_result_that_was_sent_before_its_gateway_died_is_not_in_the_inbox_as_well(
    pair: list[KillableGateway], leases: Leases, postgres_server: PostgresServer, empty_database: str
) -> None:
    a, b = pair
    call, waiting = await a.begin("ask", agent="ada")
    await b.submit(call, "sent")
    assert (await waiting).json()["result"] == "sent"
    sent = f"SELECT sent_at FROM calls WHERE id = '{call['id']}' AND sent_at IS NOT NULL"

    async def is_marked() -> str:
        return postgres_server.run(sent, database=empty_database)

    await eventually_async(is_marked)
    a.kill()
    leases.end()

    async def buried() -> bool:
        return leases.dead() == 1

    await eventually_async(buried)
    other, calling = await b.begin("ask_briefly", agent="bob")  # a round of the sweeper goes by
    await calling
    assert (await b.record(other["id"]))["status"] == "pending"
    assert await b.inbox("ada") == []


@requirement("CON-replicas")
async def test_a_wait_whose_gateway_died_ends_at_the_same_deadline(pair: list[KillableGateway]) -> None:
    """Nobody waits any more, so what comes later goes to the inbox; no lease needs to end for that."""
    a, b = pair
    call, waiting = await a.begin("ask_briefly", agent="ada")
    a.kill()
    with pytest.raises(httpx2.TransportError):
        await waiting

    async def is_pending() -> bool:
        return str((await b.record(call["id"]))["status"]) == "pending"

    await eventually_async(is_pending, within=5)
    answer = await b.submit(call, "late")
    assert answer.json()["delivery"] == "inbox"
    assert await b.inbox("ada") == [(f"tr:{call['id']}", "late")]


@requirement("CON-replicas")
async def test_a_tool_that_was_running_is_interrupted_or_run_again_at_the_other_gateway(
    pair: list[KillableGateway], leases: Leases
) -> None:
    a, b = pair
    once, _ = await a.begin("hold", agent="ada")
    again, _ = await a.begin("hold_again", agent="bob")
    await a.started("hold")
    await a.started("hold_again")
    a.kill()
    leases.end()
    interrupted = await b.record(once["id"], wait=20)
    repeated = await b.record(again["id"], wait=20)
    assert (interrupted["status"], interrupted["error"]["code"]) == ("failed", "interrupted")
    assert (repeated["status"], repeated["result"], repeated["attempt"]) == ("completed", "held again", 2)
    assert b.starts == {"hold": 1, "hold_again": 2}
    assert [event for event, _ in await b.told("ada")] == [f"tr:{once['id']}"]
    assert await b.told("bob") == [(f"tr:{again['id']}", "held again")]


@requirement("CON-replicas", "CON-calls-approve")
async def test_two_approvals_at_two_gateways_are_one_execution(pair: list[KillableGateway]) -> None:
    a, b = pair
    for turn in range(20):
        call, asking = await a.begin("charge", agent=f"ada{turn}", amount=turn)
        assert (await asking).status_code == 202
        path = f"/api/v1/calls/{call['id']}/approve"
        clicks = await asyncio.gather(*(mortal.ask("POST", path) for mortal in pair))
        assert sorted(click.status_code for click in clicks) == [200, 409]
        assert (await b.record(call["id"], wait=10))["result"] == turn
        assert a.starts[f"charge-{turn}"] == 1
        assert await b.told(f"ada{turn}") == [(f"tr:{call['id']}", turn)]


@requirement("CON-replicas")
async def test_an_approval_against_a_rejection_at_two_gateways_is_one_of_them(pair: list[KillableGateway]) -> None:
    a, b = pair
    for turn in range(10):
        call, asking = await a.begin("charge", agent=f"ada{turn}", amount=turn)
        await asking
        path = f"/api/v1/calls/{call['id']}"
        clicks = await asyncio.gather(a.ask("POST", f"{path}/approve"), b.ask("POST", f"{path}/reject"))
        assert sorted(click.status_code for click in clicks) == [200, 409]
        ended = await b.record(call["id"], wait=10)
        assert a.starts[f"charge-{turn}"] == (ended["status"] == "completed")
        assert len(await b.told(f"ada{turn}")) == 1


@requirement("CON-replicas")
async def test_a_call_whose_approver_died_before_it_began_is_begun_by_another(
    pair: list[KillableGateway], url: str, tmp_path: Path
) -> None:
    """T4 is on record and T5 is not: what a gateway leaves that dies between the two."""
    version, source = pair[0].tools["charge"]
    store = open_store(url, folder=tmp_path, data=tmp_path)
    await store.open()
    call = Call(
        id=new_id("call"),
        run_id=new_id("run"),
        tool="charge",
        source=source,
        tool_version=version,
        arguments=Raw(b'{"amount":7}'),
        principal="admin",
        status=CallStatus.PENDING_APPROVAL,
        agent="ada",
        delivery=Delivery.INBOX,
        first_reply=FirstReply.PENDING,
    )
    await store.write(partial(call_tx.start_call, call))
    assert (await store.write(partial(call_tx.approve, call.id, runs_here=True))).moved
    await store.close()
    ended = await pair[1].record(call.id, wait=20)
    assert (ended["status"], ended["result"], ended["attempt"]) == ("completed", 7, 1)
    assert pair[0].starts == {"charge-7": 1}
    assert await pair[0].told("ada") == [(f"tr:{call.id}", 7)]


@requirement("CON-replicas")
async def test_a_paused_gateway_that_was_declared_dead_starts_again_and_its_late_result_does_not_count(
    pair: list[KillableGateway], leases: Leases
) -> None:
    a, b = pair
    call, calling = await a.begin("hold", agent="ada")
    await a.started("hold")
    a.pause()
    leases.end()
    interrupted = await b.record(call["id"], wait=20)
    assert interrupted["error"]["code"] == "interrupted"
    told = await b.told("ada")
    a.go_on()
    await asyncio.wait((calling,), timeout=20)  # it hears something, or that its gateway stops

    async def is_back() -> bool:
        try:
            return (await a.ask("GET", "/readyz")).status_code == 200
        except httpx2.TransportError:
            return False

    await eventually_async(is_back)
    work, asking = await a.begin("charge", agent="bob", amount=3)
    await asking
    assert (await a.ask("POST", f"/api/v1/calls/{work['id']}/approve")).status_code == 200
    assert (await b.record(work["id"], wait=10))["result"] == 3
    after = await b.record(call["id"])
    outcome = ("status", "result", "error", "attempt", "finished_at")
    assert [after[name] for name in outcome] == [interrupted[name] for name in outcome]
    assert after["delivery"] == "inbox"
    assert await b.inbox("ada") == told
    assert a.starts["hold"] == 1


@requirement("CON-replicas", "CON-expires-in")
async def test_a_timer_fires_once_whoever_fires_it(pair: list[KillableGateway]) -> None:
    a, b = pair
    calls = []
    for turn in range(10):
        call, asking = await pair[turn % 2].begin("ask_in_vain", agent=f"ada{turn}")
        assert (await asking).status_code == 202
        calls.append(call)
    for turn, call in enumerate(calls):
        assert [event for event, _ in await b.told(f"ada{turn}")] == [f"tr:{call['id']}"]
        assert (await a.record(call["id"]))["status"] == "expired"
        assert (await a.submit(call, "too late")).status_code == 410
