"""External tool servers on the raw stream: who gets which call, and what happens when a server comes and goes."""

import asyncio
import time
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.calls import tool_server_api
from tests.harness.api import Api, error_of
from tests.harness.in_process import KEY, in_process_gateway, serve_on_port
from tests.requirement import requirement
from tests.stories.pending import Frames, PendingClient, pending_api, pending_client, stream, tool_server
from tests.waiting import Stopwatch

FIELDS = ["type", "toolCallId", "toolName", "args", "runId", "agentEntityId", "deadline", "ts", "attempt"]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with pending_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture
async def at(api: Api) -> AsyncIterator[PendingClient]:
    async with pending_client(api) as opened:
        yield opened


@requirement("CON-stream-tool-call", "SPACE-example-external-detects", "SPACE-principle-sdk-driven")
@requirement("SPACE-sync-flow-inline")
async def test_a_server_hears_of_a_call_and_its_answer_is_the_tool_result(api: Api, at: PendingClient) -> None:
    async with stream(api, "/api/tools/stream", key="crm", tools="ext_lookup", client="s1") as server:
        assert server.answer.headers["content-type"].startswith("text/event-stream")
        connected = await server.next_event()
        assert connected.type == "message", "frames have no event line"
        call = at.begin("ext_lookup", {"q": [1, None]}, agent="ada2")
        offer = await server.next()
        assert list(offer) == FIELDS
        record = await at.record(offer["toolCallId"])
        assert {name: offer[name] for name in FIELDS if name != "ts"} == {
            "type": "tool.call",
            "toolCallId": record["call_id"],
            "toolName": "ext_lookup",
            "args": {"q": [1, None]},
            "runId": record["run_id"],
            "agentEntityId": "ada2",
            "deadline": record["deadline"],
            "attempt": 1,
        }
        assert (await at.submit(offer, result="served")).json()["delivery"] == "inline"
        assert (await call).json()["result"] == "served"


async def test_async_calls_are_offered_too(api: Api, at: PendingClient) -> None:
    async with tool_server(api, tools="ext_job") as server:
        call = (await at.execute("ext_job", agent="job")).json()
        offer = await server.next()
        assert (offer["toolCallId"], offer["deadline"]) == (
            call["call_id"],
            (await at.record(call["call_id"]))["expires_at"],
        )
        await at.submit(offer, result="done")
    assert [event["data"]["result"] for event in await at.inbox("job")] == ["done"]


@requirement("CON-stream-one-server")
async def test_a_call_goes_to_one_of_several_servers(api: Api, at: PendingClient) -> None:
    async with tool_server(api, client="a") as first, tool_server(api, key="crm2", client="b") as second:
        calls = [(await at.execute("ext_job", {"n": number})).json()["call_id"] for number in range(10)]
        offers: list[str] = []
        takers = [asyncio.ensure_future(_take(at, server, offers)) for server in (first, second)]
        while len(offers) < 10:
            await asyncio.wait(takers, timeout=10, return_when=asyncio.FIRST_COMPLETED)
            takers = [
                asyncio.ensure_future(_take(at, server, offers)) if taker.done() else taker
                for taker, server in zip(takers, (first, second), strict=True)
            ]
        for taker in takers:
            taker.cancel()
        await asyncio.wait(takers)
    assert sorted(offers) == sorted(calls)


async def _take(at: PendingClient, server: Frames, offers: list[str]) -> None:
    offer = await server.next()
    offers.append(offer["toolCallId"])
    await at.submit(offer, result=1)


async def test_calls_that_wait_go_to_the_first_server_that_connects(api: Api, at: PendingClient) -> None:
    sync = at.begin("ext_lookup", agent="patient")
    await at.waiting("ext_lookup")
    job = (await at.execute("ext_job")).json()
    async with tool_server(api) as server:
        offers = {offer["toolName"]: offer for offer in [await server.next(), await server.next()]}
        assert offers["ext_job"]["toolCallId"] == job["call_id"]
        for offer in offers.values():
            await at.submit(offer, result="at last")
    assert (await sync).json()["result"] == "at last"


@requirement("CON-stream-one-server")
async def test_an_unanswered_call_is_offered_again_when_its_server_comes_back(api: Api, at: PendingClient) -> None:
    async with tool_server(api, client="returning") as server:
        call = at.begin("ext_lookup", {"n": 1})
        first = await server.next()
        assert first["attempt"] == 1
    async with tool_server(api, client="another") as other:
        await other.nothing(within=1.5)  # longer than a sweep: it may not run twice, so it stays with its server
        async with tool_server(api, client="returning") as server:
            again = await server.next()
            assert (again["toolCallId"], again["attempt"]) == (first["toolCallId"], 2)
            assert again["args"] == {"n": 1}
            await at.submit(again, result="second time")
    assert (await call).json()["result"] == "second time"


async def test_anybody_who_may_answers_though_the_server_is_gone(api: Api, at: PendingClient) -> None:
    async with tool_server(api, client="leaver"):
        call = at.begin("ext_lookup")
        record = await at.waiting("ext_lookup")
    assert (await at.submit(record, key="answerer", result="by hand")).status_code == 200
    assert (await call).json()["result"] == "by hand"


async def test_a_call_that_may_run_twice_goes_to_another_server_at_once(api: Api, at: PendingClient) -> None:
    async with tool_server(api, client="doomed", tools="ext_repeat") as doomed:
        call = at.begin("ext_repeat")
        first = await doomed.next()
        async with tool_server(api, key="crm2", client="heir", tools="ext_repeat") as heir:
            await doomed.answer.aclose()
            second = await heir.next(within=5)
            assert (second["toolCallId"], second["attempt"]) == (first["toolCallId"], 2)
            await at.submit(second, key="crm2", result="inherited")
    assert (await call).json()["result"] == "inherited"


@requirement("SAFE-reoffer-after-gone", "SAFE-reoffer-begun-once")
async def test_a_call_that_may_not_run_twice_goes_on_to_the_next_server_when_an_anonymous_one_stays_away(
    api: Api, at: PendingClient
) -> None:
    async with tool_server(api, tools="ext_job") as anonymous:
        await at.execute("ext_job", {"n": 1})
        first = await anonymous.next()
    path = f"/api/v1/calls/{first['toolCallId']}/progress"
    async with tool_server(api, key="crm2", tools="ext_job") as another:
        again = await another.next(within=30)
        assert (again["toolCallId"], again["attempt"], again["args"]) == (first["toolCallId"], 2, {"n": 1})
        late = await at.ask("POST", path, key="crm", json={"progress": 0})
        assert (late.status_code, error_of(late)["code"]) == (409, "conflict")
        assert (await at.ask("POST", path, key="crm", json={"progress": 0, "attempt": 1})).status_code == 409
        assert (await at.ask("POST", path, key="crm2", json={"progress": 0, "attempt": 2})).status_code == 200
        assert (await at.submit(again, key="crm2", result="done")).status_code == 200


async def test_a_second_connection_of_a_client_takes_the_first_ones_place(api: Api, at: PendingClient) -> None:
    async with tool_server(api, client="same") as first, tool_server(api, client="same") as second:
        with pytest.raises(EOFError):
            await first.next()
        call = (await at.execute("ext_job")).json()
        assert (await second.next())["toolCallId"] == call["call_id"]
        await at.submit(call, result=1)


async def test_another_key_with_the_same_client_id_gets_none_of_its_calls(api: Api, at: PendingClient) -> None:
    async with tool_server(api, client="shared") as mine:
        call = (await at.execute("ext_job")).json()
        assert (await mine.next())["toolCallId"] == call["call_id"]
        async with tool_server(api, key="crm2", client="shared") as theirs:
            await theirs.nothing(within=1.5)
            await at.submit(call, result=1)


async def test_a_server_has_no_more_unanswered_calls_than_it_asked_for(api: Api, at: PendingClient) -> None:
    async with tool_server(api, client="narrow", tools="ext_job", limit=1) as server:
        calls = [(await at.execute("ext_job", {"n": number})).json()["call_id"] for number in range(5)]
        took = []
        watch = Stopwatch()
        for _ in calls:
            offer = await server.next()
            took.append(offer["toolCallId"])
            await at.submit(offer, result=1)
        assert took == calls
        assert watch.seconds() < 3, "each call came with a sweep and not with the answer before it"


async def test_a_server_at_its_limit_does_not_hold_up_calls_for_another(api: Api, at: PendingClient) -> None:
    async with (
        tool_server(api, client="full", tools="ext_job", limit=1) as full,
        tool_server(api, client="free", tools="ext_job") as free,
    ):
        calls = [(await at.execute("ext_job", {"n": number})).json()["call_id"] for number in range(6)]
        offers = [await full.next(), *[await free.next() for _ in range(5)]]
        assert sorted(offer["toolCallId"] for offer in offers) == sorted(calls)
        for offer in offers:
            await at.submit(offer, result=1)


async def test_one_at_a_time_means_that_the_second_waits_for_the_first_answer(api: Api, at: PendingClient) -> None:
    async with tool_server(api, client="single", tools="ext_job", limit=1) as server:
        for number in range(2):
            await at.execute("ext_job", {"n": number})
        first = await server.next()
        await server.nothing(within=1.2)
        await at.submit(first, result=1)
        second = await server.next()
        await at.submit(second, result=1)


async def test_a_server_gets_calls_of_the_tools_it_names_only(api: Api, at: PendingClient) -> None:
    async with tool_server(api, tools="ext_repeat,ext_exact") as server:
        job = (await at.execute("ext_job")).json()
        call = at.begin("ext_exact")
        offer = await server.next()
        assert offer["toolName"] == "ext_exact"
        await at.submit(offer, result=1)
        assert (await call).json()["result"] == 1
    await at.submit(job, result=1)


@pytest.mark.parametrize(
    ("key", "params", "status"),
    [
        (None, {}, 401),
        ("caller", {}, 403),
        ("answerer", {}, 403),
        ("ada", {}, 403),
        ("crm", {"tools": "confirmAction"}, 403),
        ("crm", {"tools": "ext_job,add"}, 403),
        ("server", {"tools": "echo"}, 400),
        ("crm", {"limit": -1}, 400),
        ("crm", {"client": "a/b"}, 400),
        ("crm", {"tool": "ext_job"}, 400),
    ],
)
async def test_the_stream_refuses_what_cannot_be_served(
    at: PendingClient, key: str | None, params: dict[str, Any], status: int
) -> None:
    answer = await at.ask("GET", "/api/tools/stream", key=key, params=params)
    assert answer.status_code == status
    error_of(answer)


async def test_a_server_may_wait_for_tools_that_are_declared_later(api: Api, at: PendingClient) -> None:
    async with tool_server(api, tools="ext_later") as server:
        tool = {"name": "ext_later", "description": "Later.", "inputSchema": {"type": "object"}, "isAsync": True}
        declared = await at.ask("PUT", "/api/v1/sources/later/tools", key="crm", json={"tools": [tool]})
        assert declared.status_code == 200
        call = (await at.execute("ext_later")).json()
        assert (await server.next())["toolCallId"] == call["call_id"]
        await at.submit(call, result=1)


async def test_the_streams_of_tool_servers_end_when_the_gateway_stops(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with pending_api(tmp_path_factory.mktemp("gateway")) as api:
        async with tool_server(api) as server:
            watch = Stopwatch()
            assert await asyncio.to_thread(api.gateway.stop) == 0
            assert watch.seconds() < 5
            with pytest.raises(EOFError):
                await server.next()


@requirement("CON-stream-tool-call")
async def test_a_silent_stream_pings_every_thirty_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tool_server_api.PING_EVERY == 30
    monkeypatch.setattr(tool_server_api, "PING_EVERY", 0.5)
    async with (
        in_process_gateway(tmp_path) as (gateway, _),
        serve_on_port(gateway) as url,
        httpx2.AsyncClient(base_url=url, timeout=60, headers={"x-api-key": KEY}) as client,
        client.stream("GET", "/api/tools/stream") as answer,
    ):
        chunks = answer.aiter_bytes()
        assert b"connected" in await anext(chunks)
        began = time.monotonic()
        assert await anext(chunks) == b": ping\n\n"
        assert time.monotonic() - began > 0.4
        assert await anext(chunks) == b": ping\n\n"
