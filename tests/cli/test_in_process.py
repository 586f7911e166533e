"""A gateway in the same process, asked over HTTP: answers come piece by piece, and hanging up is noticed."""

import asyncio
from typing import Any

import httpx2
import pytest

from jackfield.cli.in_process import StreamingTransport

START = {"type": "http.response.start", "status": 200, "headers": [(b"x-said", b"yes")]}


def piece(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def client_of(app: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=StreamingTransport(app), base_url="http://localhost:8420")


async def test_an_answer_is_read_while_it_is_being_made() -> None:
    go_on = asyncio.Event()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(START)
        await send(piece(b"first"))
        await go_on.wait()
        await send(piece(b"second", more=False))

    async with client_of(app) as client, asyncio.timeout(5), client.stream("GET", "/") as response:
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"first"
        go_on.set()
        assert [rest async for rest in pieces] == [b"second"]


async def test_the_app_sees_the_request_as_it_was_sent() -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope, body=(await receive())["body"])
        await send(START)
        await send(piece(b"", more=False))

    async with client_of(app) as client:
        answer = await client.post("/a%20b?x=1", content=b"body", headers={"X-Key": "k"})
    assert (answer.status_code, answer.headers["x-said"], answer.content) == (200, "yes", b"")
    assert (seen["method"], seen["path"], seen["query_string"], seen["body"]) == ("POST", "/a b", b"x=1", b"body")
    assert (b"x-key", b"k") in seen["headers"]


@pytest.mark.parametrize("begun", [True, False])
async def test_a_client_that_hangs_up_is_gone_for_the_app(*, begun: bool) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        if begun:
            await send(START)
        asked.set()
        assert (await receive())["type"] == "http.disconnect"
        await send(START if not begun else piece(b"to nobody"))
        gone.set()

    async with client_of(app) as client, asyncio.timeout(5):
        asking = asyncio.create_task(client.get("/"))
        await asked.wait()
        asking.cancel()
        await asyncio.wait((asking,))
        await gone.wait()


async def test_an_app_that_breaks_before_it_answers_is_the_clients_error() -> None:
    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise OSError("broken")

    async with client_of(app) as client, asyncio.timeout(5):
        with pytest.raises(OSError, match="broken"):
            await client.get("/")
