"""What a gateway leaves that dies at one exact point, and what the next one on the same database makes of it.

The point is made by writing what the dead gateway had committed, through the store; then a real gateway starts.
"""

import asyncio
import json
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import Raw

from jackfield.calls import transactions as call_tx
from jackfield.model.call import Call, CallStatus, Delivery, FirstReply, done
from jackfield.model.ids import new_id
from jackfield.store import Store, open_store
from jackfield.store import gateways as gateway_tx
from tests.requirement import requirement
from tests.stories.killable import KEY, KillableGateway, killable_gateways
from tests.waiting import eventually_async

DEAD = "gw_dead"
HOUR_MS = 3_600_000
PENDING = {"status": CallStatus.PENDING, "delivery": Delivery.INBOX, "first_reply": FirstReply.PENDING}
FOR_APPROVAL = PENDING | {"status": CallStatus.PENDING_APPROVAL}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'calls.db'}"


@pytest.fixture
async def gateway(tmp_path: Path, url: str) -> AsyncIterator[KillableGateway]:
    """A gateway that was here and was killed, so that the database is one after a crash."""
    async with killable_gateways(tmp_path, url, count=1) as [mortal]:
        mortal.kill()
        yield mortal


@asynccontextmanager
async def written(url: str, folder: Path) -> AsyncIterator[Store]:
    """The database, in the hands of the gateway that will have died."""
    store = open_store(url, folder=folder, data=folder)
    await store.open()
    await store.write(partial(gateway_tx.enter, DEAD, is_shared=store.is_shared))
    yield store
    await store.close()


def a_call_of(gateway: KillableGateway, tool: str, **fields: Any) -> Call:
    version, source = gateway.tools[tool]
    usual: dict[str, Any] = {
        "id": new_id("call"),
        "run_id": new_id("run"),
        "tool": tool,
        "source": source,
        "tool_version": version,
        "arguments": Raw(b"{}"),
        "principal": "admin",
        "agent": "ada",
        "status": CallStatus.WAITING,
    }
    return Call(**(usual | fields))


@requirement("CON-exactly-once", "CON-late-result-home")
async def test_died_after_the_result_was_settled_and_before_the_reply(
    gateway: KillableGateway, url: str, tmp_path: Path
) -> None:
    call = a_call_of(gateway, "ask", waiter=DEAD)
    async with written(url, tmp_path) as store:
        await store.write(partial(call_tx.start_call, call))
        assert (
            await store.write(partial(call_tx.settle_submitted, call.id, done(None), large_result=store.large_result))
        ).moved
    await gateway.start()
    assert await gateway.told("ada") == [(f"tr:{call.id}", None)]
    record = await gateway.record(call.id)
    assert (record["status"], record["delivery"], record["result"]) == ("completed", "inbox", None)
    gateway.kill()
    await gateway.start()
    assert len(await gateway.inbox("ada")) == 1


@requirement("SAFE-taken-over-before-serving")
async def test_what_was_settled_before_the_crash_is_in_the_inbox_when_the_next_gateway_serves(
    gateway: KillableGateway, url: str, tmp_path: Path
) -> None:
    calls = [a_call_of(gateway, "ask", waiter=DEAD) for _ in range(3)]
    async with written(url, tmp_path) as store:
        for call in calls:
            await store.write(partial(call_tx.start_call, call))
            await store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
    await gateway.start()
    assert sorted(await gateway.inbox("ada")) == sorted((f"tr:{call.id}", 1) for call in calls), "without a round"


async def test_died_after_the_reply_was_marked(gateway: KillableGateway, url: str, tmp_path: Path) -> None:
    sent, other = a_call_of(gateway, "ask", waiter=DEAD), a_call_of(gateway, "ask", waiter=DEAD, agent="bob")
    async with written(url, tmp_path) as store:
        for call in (sent, other):
            await store.write(partial(call_tx.start_call, call))
            await store.write(partial(call_tx.settle_submitted, call.id, done(1), large_result=store.large_result))
        await store.write(partial(call_tx.mark_sent, sent.id))
    await gateway.start()
    assert await gateway.told("bob") == [(f"tr:{other.id}", 1)]  # so a round has gone by
    assert await gateway.inbox("ada") == []


@requirement("CON-exactly-once", "SAFE-taken-over-before-serving")
async def test_died_while_a_caller_waited_and_the_result_comes_after_the_restart(
    gateway: KillableGateway, url: str, tmp_path: Path
) -> None:
    call = a_call_of(gateway, "ask", waiter=DEAD, timeout_ms=HOUR_MS)
    async with written(url, tmp_path) as store:
        await store.write(partial(call_tx.start_call, call))
    await gateway.start()
    record = await gateway.record(call.id)
    assert record["status"] == "pending", "nobody waits for it any more"
    answer = await gateway.submit(record, "late")
    assert (answer.status_code, answer.json()["delivery"]) == (200, "inbox")
    assert await gateway.told("ada") == [(f"tr:{call.id}", "late")]
    assert (await gateway.submit(record, "again")).status_code == 409


async def test_died_while_a_caller_waited_and_the_deadline_passed_meanwhile(
    gateway: KillableGateway, url: str, tmp_path: Path
) -> None:
    call = a_call_of(gateway, "ask", waiter=DEAD, timeout_ms=0)
    async with written(url, tmp_path) as store:
        await store.write(partial(call_tx.start_call, call))
    await gateway.start()

    async def flipped() -> bool:
        return str((await gateway.record(call.id))["status"]) == "pending"

    await eventually_async(flipped)
    answer = await gateway.submit(await gateway.record(call.id), "late")
    assert answer.json()["delivery"] == "inbox"
    assert await gateway.inbox("ada") == [(f"tr:{call.id}", "late")]


async def test_died_after_the_approval_and_before_the_tool_was_begun(
    gateway: KillableGateway, url: str, tmp_path: Path
) -> None:
    call = a_call_of(gateway, "charge", arguments=Raw(b'{"amount":5}'), **FOR_APPROVAL)
    async with written(url, tmp_path) as store:
        await store.write(partial(call_tx.start_call, call))
        await store.write(partial(call_tx.approve, call.id, runs_here=True, arguments='{"amount":4}'))
    await gateway.start()
    assert await gateway.told("ada") == [(f"tr:{call.id}", 4)]
    record = await gateway.record(call.id)
    assert (record["status"], record["attempt"], record["result"]) == ("completed", 1, 4)
    assert gateway.starts == {"charge-4": 1}


async def test_died_after_an_approved_tool_was_begun(gateway: KillableGateway, url: str, tmp_path: Path) -> None:
    """It may have taken effect, so it is not begun again."""
    call = a_call_of(gateway, "charge", arguments=Raw(b'{"amount":5}'), **FOR_APPROVAL)
    async with written(url, tmp_path) as store:
        await store.write(partial(call_tx.start_call, call))
        await store.write(partial(call_tx.approve, call.id, runs_here=True))
        await store.write(partial(call_tx.claim, call.id, owner=DEAD))
    await gateway.start()
    [(event, told)] = await gateway.told("ada")
    assert event == f"tr:{call.id}"
    assert told["error"].startswith("Interrupted: the gateway stopped while this tool was running.")
    assert gateway.starts == {}


async def test_what_waited_for_a_person_or_a_server_is_still_there_after_a_crash(
    gateway: KillableGateway, url: str, tmp_path: Path
) -> None:
    asked = a_call_of(gateway, "charge", arguments=Raw(b'{"amount":5}'), **FOR_APPROVAL)
    pending = a_call_of(gateway, "ask_in_vain", agent="bob", expires_in_ms=HOUR_MS, **PENDING)
    async with written(url, tmp_path) as store:
        await store.write(partial(call_tx.start_call, asked))
        await store.write(partial(call_tx.start_call, pending))
    await gateway.start()
    assert (await gateway.ask("POST", f"/api/v1/calls/{asked.id}/approve")).status_code == 200
    assert await gateway.told("ada") == [(f"tr:{asked.id}", 5)]
    await gateway.submit(await gateway.record(pending.id), 6)
    assert await gateway.inbox("bob") == [(f"tr:{pending.id}", 6)]


@requirement("CON-expires-in")
async def test_what_expired_while_no_gateway_ran_is_told_when_one_does(
    gateway: KillableGateway, url: str, tmp_path: Path
) -> None:
    calls = [
        a_call_of(gateway, "ask_in_vain", agent="ada", expires_in_ms=-1, **PENDING),
        a_call_of(gateway, "charge", agent="bob", arguments=Raw(b'{"amount":5}'), expires_in_ms=-1, **FOR_APPROVAL),
    ]
    async with written(url, tmp_path) as store:
        for call in calls:
            await store.write(partial(call_tx.start_call, call))
    await gateway.start()
    for call in calls:
        assert call.agent is not None
        assert [event for event, _ in await gateway.told(call.agent)] == [f"tr:{call.id}"]
        assert (await gateway.record(call.id))["status"] == "expired"
    assert gateway.starts == {}


@requirement("CON-exactly-once")
async def test_a_result_that_was_taken_is_there_after_a_kill_however_soon_it_comes(gateway: KillableGateway) -> None:
    for turn in range(5):
        await gateway.start()
        call, waiting = await gateway.begin("ask", agent=f"ada{turn}")
        answer = await gateway.submit(call, {"turn": turn})
        gateway.kill()
        assert answer.status_code == 200
        try:
            inline = [(await waiting).json()["result"]]
        except httpx2.TransportError:
            inline = []
        await gateway.start()
        record = await gateway.record(call["id"])
        assert (record["status"], record["result"]) == ("completed", {"turn": turn})
        events = await (gateway.inbox if inline else gateway.told)(f"ada{turn}")
        by_inbox = [told for _, told in events]
        assert {"turn": turn} in inline + by_inbox
        assert len(by_inbox) <= 1
        gateway.kill()


LARGE = "x" * 8_000_000
"""More than the network takes in while nobody reads."""


@contextmanager
def a_client_that_does_not_read(gateway: KillableGateway, *, agent: str, accept: str) -> Iterator[socket.socket]:
    """It has sent its request, and leaves the answer where it is."""
    assert gateway.gateway is not None
    body = json.dumps({"arguments": {}, "agent": agent}).encode()
    head = (
        f"POST /api/v1/tools/ask/execute HTTP/1.1\r\nHost: 127.0.0.1:{gateway.gateway.port}\r\nx-api-key: {KEY}\r\n"
        f"Accept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(("127.0.0.1", gateway.gateway.port))
        line.sendall(head.encode() + body)
        yield line


@requirement("CON-exactly-once")
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("ends", ["client", "gateway"])
async def test_a_large_result_that_was_only_partly_sent_is_in_the_inbox(
    gateway: KillableGateway, ends: str, accept: str
) -> None:
    """The last byte counts, not the first: what the gateway still held is lost with it, or with the connection."""
    await gateway.start()
    with a_client_that_does_not_read(gateway, agent="ada", accept=accept) as line:
        call = await gateway.only_call("ada")
        assert (await gateway.submit(call, LARGE)).json()["delivery"] == "inline"
        assert line.recv(12) == b"HTTP/1.1 200"
        assert await gateway.inbox("ada") == []
        if ends == "client":
            line.close()
        else:
            gateway.kill()
            await gateway.start()
        assert await gateway.told("ada") == [(f"tr:{call['id']}", LARGE)]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_large_result_that_was_read_to_its_end_is_not_in_the_inbox(
    gateway: KillableGateway, url: str, tmp_path: Path, accept: str
) -> None:
    await gateway.start()
    body = {"arguments": {}, "agent": "ada"}
    asked = gateway.ask("POST", "/api/v1/tools/ask/execute", json=body, headers={"Accept": accept})
    calling = asyncio.create_task(asked)
    call = await gateway.only_call("ada")
    await gateway.submit(call, LARGE)
    assert LARGE in (await calling).text

    async def is_marked() -> bool:
        with sqlite3.connect(f"file:{tmp_path / 'calls.db'}?mode=ro", uri=True) as kept:
            found = kept.execute("SELECT sent_at FROM calls WHERE id = ?", (call["id"],)).fetchone()
        kept.close()
        return found[0] is not None

    await eventually_async(is_marked)
    gateway.kill()
    other = a_call_of(gateway, "ask", waiter=DEAD, agent="bob")
    async with written(url, tmp_path) as store:
        await store.write(partial(call_tx.start_call, other))
        await store.write(partial(call_tx.settle_submitted, other.id, done(1), large_result=store.large_result))
    await gateway.start()
    assert await gateway.told("bob") == [(f"tr:{other.id}", 1)]  # so a round has gone by
    assert await gateway.inbox("ada") == []
