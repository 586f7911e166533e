"""An answer to a call with an agent counts when the client has its last byte; else the agent finds it in its inbox."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.agents.cycle_transactions import inbox_page
from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import CallFilter, call_page
from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from tests.harness.in_process import KEY, make_gateway
from tests.waiting import eventually_async

CONFIG = """
[[tools]]
name = "confirm"
description = "Give the arguments back."
executionType = "internal"
inputSchema = { type = "object" }
"""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with make_gateway(tmp_path, CONFIG) as started:
        yield started


class Client:
    """One request to execute `confirm` as agent `ada`, and what its sender does meanwhile."""

    def __init__(self, gateway: Gateway, *, accept: bytes = b"*/*", **body: Any) -> None:
        self._app = build_app(gateway)
        self._accept = accept
        self._body = json.dumps({"agent": "ada", **body}).encode()
        self._messages = [{"type": "http.request", "body": self._body, "more_body": False}]
        self.hangs_up_after: bytes | None = None
        """Seen in what was sent, it makes the client hang up; empty: before anything was."""
        self.line_breaks_at: bytes | None = None
        self.got = b""
        self.headers: list[tuple[bytes, bytes]] = []

    async def ask(self, **headers: str) -> None:
        self.headers = [
            (b"host", b"localhost"),
            (b"x-api-key", KEY.encode()),
            (b"content-type", b"application/json"),
            (b"accept", self._accept),
            *((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()),
        ]
        path = "/api/v1/tools/confirm/execute"
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
        await self._app(scope | {"headers": self.headers, "scheme": "http"}, self._receive, self._send)

    async def _receive(self) -> Any:
        if self._messages:
            return self._messages.pop()
        if self.hangs_up_after is not None and self.hangs_up_after in self.got:
            return {"type": "http.disconnect"}
        return await _for_ever()

    async def _send(self, message: Any) -> None:
        body = message.get("body", b"")
        if self.line_breaks_at is not None and self.line_breaks_at in body:
            raise OSError("the line is dead")
        self.got += body


async def _for_ever() -> Any:
    await asyncio.Event().wait()


async def told(gateway: Gateway) -> list[Any]:
    """What is in the inbox of `ada`: the results of calls."""
    events, _ = await gateway.store.read(partial(inbox_page, "ada"))
    return [json.loads(bytes(event.data))["result"] for event in events]


async def the_call(gateway: Gateway) -> Any:
    [call] = (await gateway.store.read(partial(call_page, CallFilter(agent="ada"), limit=2))).calls
    return call


BOTH = pytest.mark.parametrize("accept", [b"*/*", b"text/event-stream"])
RESULT = {"success": True, "args": {}}


@BOTH
async def test_an_answer_that_was_sent_is_marked_and_not_in_the_inbox(gateway: Gateway, accept: bytes) -> None:
    client = Client(gateway, accept=accept)
    await client.ask()
    assert b'"completed"' in client.got
    call = await the_call(gateway)
    assert call.sent_at is not None
    assert (await gateway.store.write(partial(call_tx.give, call.id))).moved is False
    assert await told(gateway) == []


@BOTH
async def test_a_client_that_was_gone_before_the_answer_finds_it_in_the_inbox(gateway: Gateway, accept: bytes) -> None:
    client = Client(gateway, accept=accept)
    client.hangs_up_after = b""
    await client.ask()
    assert b'"completed","result"' not in client.got
    await eventually_async(lambda: told(gateway))  # the call goes on though its stream has ended
    assert (await the_call(gateway)).sent_at is None
    assert await told(gateway) == [RESULT]


@BOTH
async def test_an_answer_that_could_not_be_sent_is_in_the_inbox(gateway: Gateway, accept: bytes) -> None:
    client = Client(gateway, accept=accept)
    client.line_breaks_at = b'"execution_time_ms"' if accept == b"*/*" else b"call.result"
    await client.ask()
    assert (await the_call(gateway)).sent_at is None
    assert await told(gateway) == [RESULT]


@BOTH
async def test_a_client_that_hangs_up_after_its_answer_has_it_once(gateway: Gateway, accept: bytes) -> None:
    client = Client(gateway, accept=accept)
    client.hangs_up_after = b'"success"'
    await client.ask()
    assert (await the_call(gateway)).sent_at is not None
    assert await told(gateway) == []


@BOTH
async def test_a_repeat_reads_the_record_and_delivers_nothing(gateway: Gateway, accept: bytes) -> None:
    first = Client(gateway)
    first.hangs_up_after = b""
    await first.ask(idempotency_key="once")
    assert await told(gateway) == [RESULT]
    again = Client(gateway, accept=accept)
    await again.ask(idempotency_key="once")
    assert b'"completed"' in again.got
    assert (await the_call(gateway)).sent_at is None
    assert await told(gateway) == [RESULT]


@BOTH
async def test_a_repeat_that_is_gone_does_not_give_away_what_the_first_has(gateway: Gateway, accept: bytes) -> None:
    await Client(gateway).ask(idempotency_key="once")
    again = Client(gateway, accept=accept)
    again.hangs_up_after = b""
    await again.ask(idempotency_key="once")
    assert await told(gateway) == []


async def test_a_call_without_an_agent_owes_nobody_anything(gateway: Gateway) -> None:
    client = Client(gateway, agent=None)
    client.hangs_up_after = b""
    await client.ask()
    assert b'"completed"' in client.got, "it is sent without a look at the client"
    assert await told(gateway) == []
