"""Waiting for, answering and allowing calls through the SDK, at a real gateway process."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from jackfield.sdk import (
    AlreadyResolved,
    CallNotFound,
    CallPending,
    Client,
    Conflict,
    Expired,
    Forbidden,
    InvalidArguments,
    SyncClient,
    ToolDisabled,
)
from tests.harness.process import RunningGateway
from tests.requirement import requirement
from tests.stories.sdk_scene import (
    WITHIN,
    back_again,
    begin_gateway,
    sdk_gateway,
)
from tests.waiting import Stopwatch


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with sdk_gateway(tmp_path_factory.mktemp("pending")) as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[Client]:
    async with Client(gateway.url, gateway.key) as client:
        yield client


class TestWaiting:
    async def test_waiting_wakes_with_the_answer(self, client: Client) -> None:
        with pytest.raises(CallPending) as pending:
            await client.tools.call("job", agent="carl")
        waiting = asyncio.create_task(client.calls.wait(pending.value.call_id))
        assert not (await client.calls.wait(pending.value.call_id, timeout=0.2)).is_settled
        watch = Stopwatch()
        receipt = await client.calls.answer(pending.value.call_id, {"ok": True})
        settled = await asyncio.wait_for(waiting, WITHIN)
        assert watch.seconds() < 5, "the request that waits is held for 30 s"
        assert (settled.status, settled.result) == ("completed", {"ok": True})
        assert (receipt.agent, receipt.delivery) == ("carl", "inbox")

    async def test_waiting_goes_on_while_the_gateway_is_killed_and_comes_back(self, tmp_path: Path) -> None:
        gateway = begin_gateway(tmp_path)
        try:
            async with Client(gateway.url, gateway.key) as client:
                call = await client.tools.start("job")
                waiting = asyncio.create_task(client.calls.wait(call.call_id))
                assert not (await client.calls.wait(call.call_id, 0.1)).is_settled
                gateway.kill()
                gateway = back_again(tmp_path)
                await client.calls.answer(call.call_id, 5)
                assert (await asyncio.wait_for(waiting, WITHIN)).result == 5
        finally:
            gateway.stop()

    async def test_what_waits_is_listed_and_followed_until_it_stops_waiting(self, client: Client) -> None:
        job = await client.tools.start("job", n=1)
        guarded = await client.tools.start("guarded", amount=2)
        waiting = {call.id: call.status for call in await client.calls.pending()}
        assert (waiting[job.call_id], waiting[guarded.call_id]) == ("pending", "pending_approval")
        assert {call.tool for call in await client.calls.pending(tool="guarded")} == {"guarded"}
        async with asyncio.timeout(WITHIN), aclosing(client.calls.follow(status="pending", tool="job")) as events:
            told = [await anext(events)]
            while told[-1].call_id != job.call_id:
                told.append(await anext(events))
            await client.calls.answer(job.call_id, None)
            while told[-1].type != "call.settled":
                told.append(await anext(events))
        assert (told[-1].call_id, told[-1].status) == (job.call_id, "completed")
        assert job.call_id not in {call.id for call in await client.calls.pending()}


class TestAnswering:
    @requirement("CON-results-falsy")
    @pytest.mark.parametrize("result", [None, False, 0, "", []])
    async def test_every_result_arrives_as_it_is(self, client: Client, result: Any) -> None:
        call = await client.tools.start("job")
        await client.calls.answer(call.call_id, result)
        record = await client.calls.get(call.call_id)
        assert (record.status, record.result, type(record.result)) == ("completed", result, type(result))

    async def test_the_second_answer_a_late_one_and_one_to_nobody_are_each_their_own_class(
        self, client: Client, gateway: RunningGateway
    ) -> None:
        call = await client.tools.start("job")
        await client.calls.fail(call.call_id, "Nobody is there.")
        for again in (client.calls.answer(call.call_id, 1), client.calls.fail(call.call_id, "x")):
            with pytest.raises(AlreadyResolved):
                await again
        record = await client.calls.get(call.call_id)
        assert (record.status, record.error and record.error.message) == ("failed", "Nobody is there.")
        with pytest.raises(CallNotFound):
            await client.calls.answer("call_nothere", 1)
        with pytest.raises(CallNotFound):
            await client.calls.answer("call_nothere", 1, run_id="run_1")
        other = await client.tools.start("job")
        with pytest.raises(Forbidden, match="does not belong to run"):
            await client.calls.answer(other.call_id, 1, run_id=call.run_id)
        async with Client(gateway.url, "callers-key") as caller:
            with pytest.raises(Forbidden):
                await caller.calls.answer(other.call_id, 1, run_id=other.run_id)
        assert (await client.calls.get(other.call_id)).status == "pending"
        fleeting = await client.tools.start("fleeting")
        assert (await client.calls.wait(fleeting.call_id, WITHIN)).status == "expired"
        with pytest.raises(Expired):
            await client.calls.answer(fleeting.call_id, 1)

    @requirement("CON-calls-approve")
    async def test_a_person_allows_edits_or_refuses_once(self, client: Client) -> None:
        allowed, edited, refused = [(await client.tools.start("guarded", amount=5)).call_id for _ in range(3)]
        assert (await client.calls.get(allowed)).status == "pending_approval"
        await client.calls.approve(allowed)
        assert (await client.calls.wait(allowed, WITHIN)).result == 5
        with pytest.raises(InvalidArguments):
            await client.calls.approve(edited, {"amount": "much"})
        await client.calls.approve(edited, {"amount": 6})
        settled = await client.calls.wait(edited, WITHIN)
        assert (settled.result, settled.arguments) == (6, {"amount": 6})
        rejected = await client.calls.reject(refused, "Too much.")
        assert (rejected.status, rejected.result) == ("rejected", {"rejected": True, "reason": "Too much."})
        for again in (client.calls.approve(refused), client.calls.reject(allowed), client.calls.approve(edited)):
            with pytest.raises(Conflict):
                await again
        with pytest.raises(Conflict):
            await client.calls.answer((await client.tools.start("guarded", amount=1)).call_id, 1)

    async def test_the_blocking_client_does_the_same(self, gateway: RunningGateway) -> None:
        await asyncio.to_thread(_answer_and_approve, gateway)


def _answer_and_approve(gateway: RunningGateway) -> None:
    with SyncClient(gateway.url, gateway.key) as client:
        job, failing, guarded, refused = (
            client.tools.start(tool, arguments).call_id
            for tool, arguments in [("job", {}), ("job", {}), ("guarded", {"amount": 1}), ("guarded", {"amount": 2})]
        )
        assert {job, failing, guarded, refused} <= {call.id for call in client.calls.pending()}
        client.calls.progress(job, 1, total=2, message="half")
        assert client.calls.answer(job, 3).call_id == job
        client.calls.fail(failing, "No.")
        client.calls.approve(guarded, {"amount": 4})
        client.calls.reject(refused, "No.")
        settled = [client.calls.wait(call, WITHIN) for call in (job, failing, guarded, refused)]
        assert [(call.status, call.result) for call in settled] == [
            ("completed", 3),
            ("failed", {"error": "No."}),
            ("completed", 4),
            ("rejected", {"rejected": True, "reason": "No."}),
        ]
        followed = next(client.calls.follow(status="pending", tool="job"), None) if client.calls.pending() else None
        assert followed is None or followed.tool == "job"
        triggered = client.agents.trigger("dora", "clock", {"hour": 7})
        (event,) = client.agents.inbox("dora").events
        assert (event.event_id, event.type) == (triggered.event_id, "service")
        assert client.tools.set_enabled("shapes", False).enabled is False
        assert client.tools.set_approval("shapes", "require").requires_approval is True
        assert client.tools.reset_preferences("shapes").enabled is True
        assert {tool.tool.name for tool in client.tools.effective()} >= {"shapes", "job"}


class TestAgentsAndPreferences:
    async def test_a_trigger_is_an_event_in_the_inbox_and_pages_go_on(self, client: Client) -> None:
        first = await client.agents.trigger("emil", "crm", {"ticket": 1})
        await client.agents.trigger("emil", "crm")
        page = await client.agents.inbox("emil", limit=1)
        (event,) = page.events
        assert (first.agent, event.event_id, event.type) == ("emil", first.event_id, "service")
        assert event.data == {"serviceName": "crm", "payload": {"ticket": 1}}
        rest = await client.agents.inbox("emil", "pending", cursor=page.next_cursor)
        assert ([event.data["payload"] for event in rest.events], rest.next_cursor) == ([None], None)

    async def test_preferences_hold_everywhere_or_in_one_chat_each_field_on_its_own(self, client: Client) -> None:
        off = await client.tools.set_enabled("echo", False)
        assert (off.enabled, off.source, off.requires_approval) == (False, "global", False)
        with pytest.raises(ToolDisabled):
            await client.tools.call("echo", text="x")
        on = await client.tools.set_enabled("echo", True, chat_id="c1")
        assert (on.enabled, on.source) == (True, "chat")
        asks = await client.tools.set_approval("echo", "require", chat_id="c1")
        assert (asks.enabled, asks.requires_approval, asks.approval_source) == (True, True, "chat")
        with pytest.raises(CallPending):
            await client.tools.call("echo", text="x", chat_id="c1")
        (here,) = [tool for tool in await client.tools.effective("c1") if tool.tool.name == "echo"]
        assert (here.enabled, here.approval_override) == (True, "require")
        back = await client.tools.reset_preferences("echo")
        assert (back.enabled, back.source) == (True, "")
        assert await client.tools.call("echo", text="x") == "x"
