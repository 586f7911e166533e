"""Large results read by pages, against a scripted gateway: what a healthy one never does."""

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jackfield.sdk import AlreadyResolved, Client, Conflict, GatewayFault
from jackfield.sdk.calls import large_result
from tests.sdk.server import Handler, ScriptedGateway, refuses, says, streams

RECORD = "/api/v1/calls/call_1"
PAGES = f"{RECORD}/result"
RESULTS = "/api/runs/run_1/tool-results"


def digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def page(text: str, *, whole: Any, offset: int = 0, next_offset: int | None = None) -> dict[str, Any]:
    size = len(json.dumps(whole, ensure_ascii=False).encode())
    place = {"offset": offset, "next_offset": next_offset}
    return {"call_id": "call_1", "text": text, "digest": digest(whole), "size": size, **place}


def notice(value: Any, **more: Any) -> dict[str, Any]:
    texts = {"preview": "", "url": "", "message": ""}
    return {"large_result": True, "call_id": "call_1", "size": 3, "digest": digest(value), **texts, **more}


def settled(status: str, **more: Any) -> dict[str, Any]:
    return {"call": {"id": "call_1", "tool": "ask", "status": status, "run_id": "run_1", **more}}


@pytest.fixture
async def client(scripted: ScriptedGateway) -> AsyncIterator[Client]:
    async with Client(scripted.url, "k", retries=0) as client:
        yield client


async def test_pages_are_asked_for_one_after_another_and_joined(scripted: ScriptedGateway, client: Client) -> None:
    first = page('["ü', whole=["ü", 1], next_offset=4)
    scripted.on(PAGES, says(first), says(page('",1]', whole=["ü", 1], offset=4)))
    assert await client.calls.result("call_1") == ["ü", 1]
    assert [request.query for request in scripted.seen] == [
        {"offset": "0", "limit": "1000000"},
        {"offset": "4", "limit": "1000000"},
    ]


@pytest.mark.parametrize(
    "handlers",
    [
        [says(page("[2]", whole=[1]))],
        [says(page("[1", whole=[1]))],
        [says(page("[1", whole=[1], next_offset=2)), says(page("]", whole=[1], offset=2, next_offset=2))],
        [says({"text": "[1]"})],
    ],
    ids=["another text", "half of it", "pages that do not get on", "no page"],
)
async def test_what_is_not_the_result_is_not_taken_for_it(
    scripted: ScriptedGateway, client: Client, handlers: list[Handler]
) -> None:
    scripted.on(PAGES, *handlers)
    with pytest.raises(GatewayFault):
        await client.calls.result("call_1")


async def test_a_call_that_is_not_over_is_said(scripted: ScriptedGateway, client: Client) -> None:
    scripted.on(PAGES, refuses(409, "conflict", "Call 'call_1' is running."))
    with pytest.raises(Conflict, match="is running"):
        await client.calls.result("call_1")


@pytest.mark.parametrize("error", [None, "no " * 10])
async def test_ones_own_large_answer_is_known_again_after_a_lost_reply(
    scripted: ScriptedGateway, client: Client, error: str | None
) -> None:
    result = {"rows": [1, 2.5, "ü"]}
    if error is None:
        record = settled("completed", result=notice(result))
    else:
        cut = {"code": "tool_error", "message": "no …"}
        record = settled("failed", result=notice({"error": error}), error=cut)
    scripted.on(RESULTS, streams(b"", breaks=True), refuses(409, "already_resolved"))
    scripted.on(RECORD, says(record))
    if error is None:
        receipt = await client.calls.answer("call_1", result, run_id="run_1")
    else:
        receipt = await client.calls.fail("call_1", error, run_id="run_1")
    assert receipt.call_id == "call_1"


async def test_anothers_large_answer_is_not_taken_for_ones_own(scripted: ScriptedGateway, client: Client) -> None:
    scripted.on(RESULTS, streams(b"", breaks=True), refuses(409, "already_resolved"))
    scripted.on(RECORD, says(settled("completed", result=notice("theirs"))))
    with pytest.raises(AlreadyResolved):
        await client.calls.answer("call_1", "mine", run_id="run_1")


async def test_a_page_by_itself_is_given_as_it_is(scripted: ScriptedGateway, client: Client) -> None:
    async def told(request: Request) -> Response:
        return JSONResponse(page("[1", whole=[1], offset=int(request.query_params["offset"]), next_offset=9))

    scripted.on(PAGES, told)
    one = await client.calls.result_page("call_1", offset=7, limit=10)
    assert (one.text, one.offset, one.next_offset, one.digest) == ("[1", 7, 9, digest([1]))
    assert scripted.seen[0].query == {"offset": "7", "limit": "10"}


@pytest.mark.parametrize(
    "result",
    [None, 1, "large_result", [], {}, {"large_result": True}, notice(1, call_id="call_2"), notice(1, size="many")],
)
def test_what_is_no_notice_of_this_call_is_a_result(result: Any) -> None:
    assert large_result(result, call_id="call_1") is None


def test_a_notice_is_known() -> None:
    known = large_result(notice([1], url="/x"), call_id="call_1")
    assert known is not None
    assert (known.digest, known.size, known.url) == (digest([1]), 3, "/x")
