"""Watching calls that somebody else answers: waiting for one, following all that wait, and who sees which."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest

from tests.harness.api import Api, error_of
from tests.stories.pending import Frames, PendingClient, pending_api, pending_client, stream
from tests.waiting import TIMEOUT, Stopwatch


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with pending_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture
async def at(api: Api) -> AsyncIterator[PendingClient]:
    async with pending_client(api) as opened:
        yield opened


def wait_for(at: PendingClient, call_id: str, seconds: float, key: str = "caller") -> "asyncio.Task[Any]":
    return asyncio.ensure_future(at.ask("GET", f"/api/v1/calls/{call_id}", key=key, params={"wait": seconds}))


async def test_whoever_waits_for_a_call_is_answered_as_soon_as_it_is_settled(at: PendingClient) -> None:
    call = (await at.execute("ext_job")).json()
    waiting = [wait_for(at, call["call_id"], 20) for _ in range(5)]
    done, _ = await asyncio.wait(waiting, timeout=0.3)
    assert not done
    watch = Stopwatch()
    await at.submit(call, result="now")
    for answer in await asyncio.gather(*waiting):
        assert (answer.status_code, answer.json()["call"]["result"]) == (200, "now")
    assert watch.seconds() < 3
    assert (await wait_for(at, call["call_id"], 20)).json()["call"]["status"] == "completed"


async def test_whoever_waits_in_vain_has_the_record_as_it_is(at: PendingClient) -> None:
    call = (await at.execute("ext_job")).json()
    began = time.monotonic()
    answer = await wait_for(at, call["call_id"], 0.3)
    assert 0.25 < time.monotonic() - began < TIMEOUT
    assert (answer.status_code, answer.json()["call"]["status"]) == (200, "pending")
    assert (await wait_for(at, call["call_id"], 0)).json()["call"]["status"] == "pending"


async def test_waiting_is_for_a_minute_at_most_and_for_calls_that_one_may_see(at: PendingClient) -> None:
    call = (await at.execute("ext_job")).json()
    for seconds in (-1, 61, "long"):
        answer = await at.ask("GET", f"/api/v1/calls/{call['call_id']}", params={"wait": seconds})
        assert (answer.status_code, error_of(answer)["param"]) == (400, "wait")
    assert (await wait_for(at, call["call_id"], 20, key="rival")).status_code == 404
    assert (await wait_for(at, "call_unknown", 20)).status_code == 404


async def test_whoever_waits_is_answered_when_the_gateway_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pending_api(tmp_path_factory.mktemp("gateway")) as api:
        async with pending_client(api) as at:
            call = (await at.execute("ext_job")).json()
            waiting = wait_for(at, call["call_id"], 60)
            await asyncio.wait([waiting], timeout=0.3)
            assert await asyncio.to_thread(api.gateway.stop) == 0
            assert (await waiting).json()["call"]["status"] == "pending"


async def told(frames: Frames, *, within: float = 10) -> tuple[str, str, str]:
    event = await frames.next_event(within=within)
    assert event.type.startswith("call.")
    found = json.loads(event.data)
    return found["type"], found["call_id"], found["status"]


async def test_the_stream_of_what_waits_begins_with_what_is_there_and_tells_when_it_stops(
    api: Api, at: PendingClient
) -> None:
    tool = {"tool": "ext_brief"}
    early = (await at.execute("ext_guarded")).json()["call_id"]
    async with stream(api, "/api/v1/calls/stream", key="answerer", status="pending", tool="ext_guarded") as frames:
        assert await told(frames) == ("call.pending", early, "pending_approval")
        late = (await at.execute("ext_guarded")).json()["call_id"]
        assert await told(frames) == ("call.pending", late, "pending_approval")
        await at.ask("POST", f"/api/v1/calls/{early}/reject", key="answerer")
        assert await told(frames) == ("call.settled", early, "rejected")
        await at.ask("POST", f"/api/v1/calls/{late}/approve", key="answerer")
        assert await told(frames) == ("call.approved", late, "pending")
        await at.submit({"call_id": late, "run_id": (await at.record(late))["run_id"]}, result=1)
        assert await told(frames) == ("call.settled", late, "completed")
        await frames.nothing(within=0.3)
    async with stream(api, "/api/v1/calls/stream", key="answerer", status="pending", **tool) as frames:
        brief = (await at.execute("ext_brief")).json()["call_id"]
        assert await told(frames) == ("call.pending", brief, "pending")
        assert await told(frames) == ("call.settled", brief, "expired")


async def test_a_waiting_call_is_in_the_stream_of_what_waits_and_an_executed_one_is_not(
    api: Api, at: PendingClient
) -> None:
    async with stream(api, "/api/v1/calls/stream", key="admin", status="pending") as frames:
        while True:  # what other tests left waiting
            try:
                await frames.next_event(within=0.3)
            except TimeoutError:
                break
        await at.execute("add", {"a": 1})
        call = at.begin("ext_lookup")
        record = await at.waiting("ext_lookup")
        assert await told(frames) == ("call.pending", record["call_id"], "waiting")
        await at.submit(record, result=1)
        assert await told(frames) == ("call.settled", record["call_id"], "completed")
        await call


async def test_a_key_sees_its_own_calls_and_those_it_may_answer(at: PendingClient) -> None:
    job = (await at.execute("ext_job", key="caller")).json()["call_id"]
    guarded = (await at.execute("charge", {"path": "/nowhere", "amount": 1}, key="caller")).json()["call_id"]
    plain = (await at.execute("add", {"a": 1}, key="caller")).json()["call_id"]
    expected = {
        "admin": {job, guarded, plain},
        "caller": {job, guarded, plain},
        "rival": set(),
        "reader": set(),
        "answerer": {job, guarded},
        "crm": {job},
        "server": set(),
        "clerk": {job},
    }
    for key, visible in expected.items():
        page = (await at.ask("GET", "/api/v1/calls", key=key, params={"limit": 500})).json()["calls"]
        assert {call["id"] for call in page} & {job, guarded, plain} == visible, key
        for call_id in (job, guarded, plain):
            status = (await at.ask("GET", f"/api/v1/calls/{call_id}", key=key)).status_code
            assert status == (200 if call_id in visible else 404), (key, call_id)
    assert (await at.ask("GET", "/api/v1/calls", key="sandbox")).status_code == 403


async def test_a_call_stays_visible_to_those_who_answered_it(at: PendingClient) -> None:
    call = (await at.execute("ext_job", key="caller")).json()
    await at.submit(call, key="crm", result=1)
    for key in ("crm", "crm2", "answerer"):
        assert (await at.record(call["call_id"], key=key))["status"] == "completed"


async def test_a_stream_shows_a_key_only_what_it_may_see(api: Api, at: PendingClient) -> None:
    async with (
        stream(api, "/api/v1/calls/stream", key="server", status="pending") as blind,
        stream(api, "/api/v1/calls/stream", key="crm", status="pending", tool="ext_exact") as sees,
    ):
        call = at.begin("ext_exact")
        record = await at.waiting("ext_exact")
        assert await told(sees) == ("call.pending", record["call_id"], "waiting")
        await at.submit(record, result=1)
        assert await told(sees) == ("call.settled", record["call_id"], "completed")
        await blind.nothing(within=0.3)
        await call
