"""Waiting for calls and answering them, against a scripted gateway."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jackfield.sdk import AlreadyResolved, CallNotFound, Client, Expired, GatewayUnreachable, Receipt
from tests.harness.process import free_port
from tests.sdk.server import Handler, ScriptedGateway, refuses, says, streams, until
from tests.waiting import TIMEOUT

RECORD = "/api/v1/calls/call_1"
RESULTS = "/api/runs/run_1/tool-results"
TAKEN = {"success": True, "callId": "call_1", "agentEntityId": "ann", "delivery": "inbox"}
LOST = streams(b"", breaks=True)


def call(status: str, **more: Any) -> dict[str, Any]:
    return {"call": {"id": "call_1", "tool": "ask", "status": status, "run_id": "run_1", **more}}


def settles_while_asked(seconds: float) -> Handler:
    """What a gateway does: holds the request until the call is settled."""

    async def handler(_request: Request) -> Response:
        await asyncio.sleep(seconds)
        return JSONResponse(call("completed", result=1))

    return handler


@pytest.fixture
async def client(scripted: ScriptedGateway) -> AsyncIterator[Client]:
    async with Client(scripted.url, "k", retries=0) as client:
        yield client


class TestWaiting:
    async def test_one_request_is_held_open_until_the_call_is_settled(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on(RECORD, says(call("pending")), settles_while_asked(0.5))
        settled = await client.calls.wait("call_1")
        assert (settled.status, settled.result) == ("completed", 1)
        assert [request.query for request in scripted.seen] == [{}, {"wait": "30.000"}]

    async def test_a_settled_call_needs_one_look(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on(RECORD, says(call("rejected")))
        assert (await client.calls.wait("call_1", 5)).status == "rejected"
        assert len(scripted.seen) == 1

    async def test_after_the_timeout_the_record_comes_as_it_is(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on(RECORD, says(call("pending_approval")))
        began = time.monotonic()
        record = await client.calls.wait("call_1", timeout=0.3)
        assert (record.status, record.is_settled) == ("pending_approval", False)
        assert 0.3 <= time.monotonic() - began < TIMEOUT
        assert len(scripted.seen) < 12, "a gateway that does not hold the request is not asked without pause"

    async def test_a_gateway_that_goes_away_meanwhile_is_waited_for(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on(
            RECORD,
            says(call("pending")),
            LOST,
            refuses(503, "not_ready"),
            says("oops", status=502),
            says(call("completed")),
        )
        assert (await client.calls.wait("call_1", 20)).status == "completed"

    async def test_one_that_was_never_there_and_a_call_that_is_not_are_said(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on(RECORD, refuses(404, "call_not_found"))
        with pytest.raises(CallNotFound):
            await client.calls.wait("call_1")
        async with Client(f"http://127.0.0.1:{free_port()}", "k", retries=0) as nobody:
            with pytest.raises(GatewayUnreachable):
                await nobody.calls.wait("call_1")


class TestAnswering:
    @pytest.mark.parametrize("result", [None, False, 0, "", [], {"a": [1]}])
    async def test_a_result_goes_to_the_calls_run_as_it_is(
        self, scripted: ScriptedGateway, client: Client, result: Any
    ) -> None:
        scripted.on(RECORD, says(call("pending")))
        scripted.on(RESULTS, says(TAKEN))
        receipt = await client.calls.answer("call_1", result)
        assert receipt == Receipt(call_id="call_1", agent="ann", delivery="inbox")
        assert json.loads(scripted.seen[-1].body) == {"callId": "call_1", "result": result}

    async def test_a_known_run_saves_the_look_and_an_error_is_sent_as_one(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on(RESULTS, says(TAKEN))
        await client.calls.fail("call_1", "Nobody is there.", run_id="run_1")
        assert [json.loads(request.body) for request in scripted.seen] == [
            {"callId": "call_1", "error": "Nobody is there."}
        ]

    async def test_a_lost_reply_is_made_good_by_one_more_try(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on(RESULTS, LOST, says(TAKEN))
        assert (await client.calls.answer("call_1", 1, run_id="run_1")).delivery == "inbox"
        scripted.on(RESULTS, LOST)
        with pytest.raises(GatewayUnreachable):
            await client.calls.answer("call_1", 1, run_id="run_1")
        assert len(scripted.seen) == 4

    @pytest.mark.parametrize(
        ("ours", "record"),
        [
            ({"result": [1]}, call("completed", result=[1], delivery="inline")),
            ({"result": None}, call("completed", result=None, delivery="inline")),
            (
                {"error": "No."},
                call("failed", error={"code": "tool_error", "message": "No."}, delivery="inline"),
            ),
        ],
    )
    async def test_a_409_after_a_lost_reply_is_success_if_the_record_holds_this_answer(
        self, scripted: ScriptedGateway, client: Client, ours: dict[str, Any], record: dict[str, Any]
    ) -> None:
        scripted.on(RESULTS, LOST, refuses(409, "already_resolved"))
        scripted.on(RECORD, says(record))
        if "error" in ours:
            receipt = await client.calls.fail("call_1", ours["error"], run_id="run_1")
        else:
            receipt = await client.calls.answer("call_1", ours["result"], run_id="run_1")
        assert receipt == Receipt(call_id="call_1", agent=None, delivery="inline")

    @pytest.mark.parametrize(
        "record",
        [
            call("completed", result=2),
            call("failed", error={"code": "tool_error", "message": "x"}),
            call("cancelled", result=None),
        ],
    )
    async def test_a_409_for_somebody_elses_answer_is_raised(
        self, scripted: ScriptedGateway, client: Client, record: dict[str, Any]
    ) -> None:
        scripted.on(RESULTS, LOST, refuses(409, "already_resolved"))
        scripted.on(RECORD, says(record))
        with pytest.raises(AlreadyResolved):
            await client.calls.answer("call_1", None, run_id="run_1")

    async def test_a_refusal_is_not_tried_again(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on(RESULTS, refuses(409, "already_resolved"))
        with pytest.raises(AlreadyResolved):
            await client.calls.answer("call_1", 1, run_id="run_1")
        scripted.on(RESULTS, refuses(410, "expired"))
        with pytest.raises(Expired):
            await client.calls.answer("call_1", 1, run_id="run_1")
        assert len(scripted.seen) == 2


async def test_answers_do_not_wait_for_the_calls_that_wait_for_them(scripted: ScriptedGateway, client: Client) -> None:
    async def held(_request: Request) -> Response:
        await until(lambda: any(request.path == RESULTS for request in scripted.seen), within=60)
        return JSONResponse({"success": True, "call_id": "call_1", "status": "completed", "result": 1})

    scripted.on("/api/v1/tools/ask/execute", held)
    scripted.on(RESULTS, says(TAKEN))
    calls = [asyncio.create_task(client.tools.call("ask")) for _ in range(300)]
    await until(lambda: len(scripted.seen) >= 250, within=60)
    async with asyncio.timeout(60):
        await client.calls.answer("call_1", 1, run_id="run_1")
        assert await asyncio.gather(*calls) == [1] * 300
