"""Several gateways on one PostgreSQL behave as one to who follows calls: it does not matter where one listens."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.stories.killable import KillableGateway, killable_gateways
from tests.stories.pending import Frames

pytestmark = pytest.mark.timeout(120)

Told = tuple[str, str]


@pytest.fixture
async def pair(
    tmp_path: Path, postgres_server: PostgresServer, empty_database: str
) -> AsyncIterator[list[KillableGateway]]:
    async with killable_gateways(tmp_path, postgres_server.url(empty_database), count=2) as running:
        yield running


class Followed:
    """The events of one stream, by call."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._told: dict[str, list[Told]] = {}

    async def of(self, call_id: str, *, count: int) -> list[Told]:
        """What happened to this call, once that many things have."""
        while len(self._told.get(call_id, ())) < count:
            event = json.loads((await self._frames.next_event(within=10)).data)
            self._told.setdefault(event["call_id"], []).append((event["type"], event["status"]))
        return self._told[call_id]

    async def ends(self) -> None:
        """Until the gateway ends it."""
        with suppress(EOFError):
            while True:
                await self._frames.next_event(within=10)


@asynccontextmanager
async def following(mortal: KillableGateway, **params: Any) -> AsyncIterator[Followed]:
    async with mortal.client.stream("GET", "/api/v1/calls/stream", params=params) as answer:
        frames = Frames(answer)
        try:
            yield Followed(frames)
        finally:
            await frames.close()


async def execute(mortal: KillableGateway, tool: str, **arguments: Any) -> str:
    answer = await mortal.ask("POST", f"/api/v1/tools/{tool}/execute", json={"arguments": arguments, "agent": "eve"})
    call_id: str = answer.json()["call_id"]
    return call_id


async def execute_bare(mortal: KillableGateway, tool: str, **arguments: Any) -> str:
    answer = await mortal.ask("POST", f"/api/v1/tools/{tool}/execute", json={"arguments": arguments})
    call_id: str = answer.json()["call_id"]
    return call_id


@requirement("CON-replicas")
async def test_what_happens_at_one_gateway_is_told_at_both(pair: list[KillableGateway]) -> None:
    a, b = pair
    expected: dict[str, list[Told]] = {}
    started, completed = ("call.started", "running"), ("call.settled", "completed")
    async with following(a) as at_a, following(b) as at_b:
        expected[await execute_bare(a, "add", a=1, b=2)] = [started, completed]
        expected[await execute(b, "add", a=1, b=2)] = [started, completed]

        call, waiting = await a.begin("ask", agent="ada")
        assert await at_b.of(call["id"], count=1) == [("call.pending", "waiting")]
        await b.submit(call, "answered elsewhere")
        await waiting
        expected[call["id"]] = [("call.pending", "waiting"), completed]

        guarded = await execute(a, "charge", amount=1)
        assert await at_b.of(guarded, count=1) == [("call.pending", "pending_approval")]
        await b.ask("POST", f"/api/v1/calls/{guarded}/approve")
        expected[guarded] = [("call.pending", "pending_approval"), ("call.approved", "running"), started, completed]

        refused = await execute(b, "charge", amount=2)
        await b.ask("POST", f"/api/v1/calls/{refused}/reject")
        expected[refused] = [("call.pending", "pending_approval"), ("call.settled", "rejected")]

        in_vain = await execute(a, "ask_in_vain")
        expected[in_vain] = [("call.pending", "pending"), ("call.settled", "expired")]

        long, running = await a.begin("hold", agent="bob")
        assert await at_b.of(long["id"], count=1) == [started]
        await b.ask("POST", f"/api/v1/calls/{long['id']}/cancel")
        assert (await running).json()["status"] == "cancelled", "the tool was stopped where it ran"
        expected[long["id"]] = [started, ("call.settled", "cancelled")]
        for call_id, told in expected.items():
            assert await at_a.of(call_id, count=len(told)) == told
            assert await at_b.of(call_id, count=len(told)) == told
        last = await execute_bare(a, "add", a=1, b=1)  # by then a second word of the earlier ones would have come
        await at_a.of(last, count=2)
        await at_b.of(last, count=2)
        for call_id, told in expected.items():
            assert await at_a.of(call_id, count=0) == await at_b.of(call_id, count=0) == told


@requirement("CON-replicas")
async def test_the_stream_of_what_waits_tells_what_begins_and_stops_waiting_at_another_gateway(
    pair: list[KillableGateway],
) -> None:
    a, b = pair
    early, early_waits = await a.begin("ask", agent="ada")
    async with following(b, status="pending") as at_b:
        assert await at_b.of(early["id"], count=1) == [("call.pending", "waiting")]
        late, late_waits = await a.begin("ask", agent="bob")
        assert await at_b.of(late["id"], count=1) == [("call.pending", "waiting")]
        for call, waiting in ((late, late_waits), (early, early_waits)):
            await a.submit(call, 1)
            assert (await waiting).json()["result"] == 1
            assert (await at_b.of(call["id"], count=2))[1:] == [("call.settled", "completed")]


@requirement("CON-replicas")
async def test_a_stream_of_what_waits_that_may_have_missed_something_ends_and_the_next_one_is_whole(
    pair: list[KillableGateway], postgres_server: PostgresServer, empty_database: str
) -> None:
    a, b = pair
    call, waiting = await a.begin("ask", agent="ada")
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND (query LIKE 'LISTEN %' OR query LIKE 'SELECT pg_notify%' OR query = 'SELECT 1')"
    )
    async with following(b, status="pending") as at_b:
        assert await at_b.of(call["id"], count=1) == [("call.pending", "waiting")]
        postgres_server.run(cut, database=empty_database)
        await at_b.ends()
    async with following(b, status="pending") as at_b:
        assert await at_b.of(call["id"], count=1) == [("call.pending", "waiting")]
        await a.submit(call, 1)
        assert (await waiting).json()["result"] == 1
        assert (await at_b.of(call["id"], count=2))[1:] == [("call.settled", "completed")]
