"""Both clients of the SDK against a real gateway."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from jackfield.sdk import (
    CallEvent,
    CallNotFound,
    CallPending,
    Client,
    Conflict,
    Forbidden,
    InvalidArguments,
    SyncClient,
    ToolFailed,
    ToolNotFound,
    ToolsChanged,
    Unauthenticated,
)
from tests.harness.process import DEFAULT_CONFIG, DEFAULT_TOOLS, RunningGateway, running_gateway
from tests.requirement import requirement

SDK = requirement("CON-sdk-client")


@pytest.fixture
async def client(gateway_project: RunningGateway) -> AsyncIterator[Client]:
    async with Client(gateway_project.url, gateway_project.key) as client:
        yield client


@pytest.fixture
def sync_client(gateway_project: RunningGateway) -> Iterator[SyncClient]:
    with SyncClient(gateway_project.url, gateway_project.key) as client:
        yield client


@SDK
async def test_tools_are_listed_found_and_shown(client: Client) -> None:
    listed = await client.tools.list()
    assert [tool.name for tool in listed] == sorted(tool.name for tool in listed)
    found = await client.tools.search("whole numbers", limit=1)
    assert [tool.name for tool in found] == ["add"]
    add = await client.tools.get("add")
    assert add == next(tool for tool in listed if tool.name == "add") == found[0]
    assert (add.source, add.category, add.parameters["required"]) == ("local", "maths", ["a"])
    assert add.version
    assert await client.tools.list() == listed


@SDK
async def test_a_call_gives_the_plain_result(client: Client) -> None:
    assert await client.tools.call("add", a=1, b=2) == 3
    assert await client.tools.call("echo", {"text": "ü\u2028"}) == "ü\u2028"
    assert await client.tools.call("nothing") is None


@SDK
async def test_every_way_to_say_no_is_its_own_class(client: Client, gateway_project: RunningGateway) -> None:
    with pytest.raises(ToolFailed, match="too hot") as failed:
        await client.tools.call("boom", reason="too hot")
    assert (await client.calls.get(failed.value.call_id)).error is not None
    with pytest.raises(ToolNotFound) as not_found:
        await client.tools.call("nothere")
    assert not_found.value.code == "tool_not_found"
    with pytest.raises(InvalidArguments) as invalid:
        await client.tools.call("add", a="one")
    assert [detail["path"] for detail in invalid.value.details]
    with pytest.raises(CallNotFound):
        await client.calls.get("call_nothere")
    async with Client(gateway_project.url, "wrong") as stranger:
        with pytest.raises(Unauthenticated):
            await stranger.tools.list()


@SDK
async def test_a_key_without_the_scope_is_forbidden(tmp_path: Path) -> None:
    config = DEFAULT_CONFIG + '\n[auth.keys.reader]\nkey = "reading-key"\nscopes = ["read"]\n'
    environment = {"JACKFIELD_ADMIN_KEY": "operators-key"}
    with running_gateway(tmp_path, config, env=environment, files={"tools/story.py": DEFAULT_TOOLS}) as gateway:
        async with Client(gateway.url, "reading-key") as reader:
            assert await reader.tools.list()
            with pytest.raises(Forbidden):
                await reader.tools.call("add", a=1)


@SDK
async def test_a_pending_call_is_said_with_its_id_and_can_be_cancelled_once(client: Client) -> None:
    with pytest.raises(CallPending) as pending:
        await client.tools.call("guarded", amount=5)
    assert pending.value.status == "pending_approval"
    record = await client.calls.get(pending.value.call_id)
    assert (record.tool, record.arguments, record.is_settled) == ("guarded", {"amount": 5}, False)
    assert (await client.calls.cancel(record.id)).status == "cancelled"
    with pytest.raises(Conflict):
        await client.calls.cancel(record.id)


async def test_the_whole_answer_is_given_without_raising(client: Client) -> None:
    done, failed, pending = await asyncio.gather(
        client.tools.start("add", a=1), client.tools.start("boom"), client.tools.start("guarded", amount=1)
    )
    assert [answer.status for answer in (done, failed, pending)] == ["completed", "failed", "pending_approval"]
    assert (done.result, done.success) == (2, True)


async def test_records_are_filtered_and_walked_page_by_page(client: Client) -> None:
    made = [(await client.tools.start("echo", text=str(number), agent="walker")).call_id for number in range(5)]
    walked = [call.id async for call in client.calls.iterate(tool="echo", agent="walker", page_size=2)]
    assert walked == made[::-1]
    page = await client.calls.list(agent="walker", limit=3)
    assert len(page.calls) == 3
    assert page.next_cursor is not None
    run = page.calls[0].run_id
    assert [call.id for call in (await client.calls.list(run_id=run)).calls] == [page.calls[0].id]


async def test_the_same_idempotency_key_is_the_same_call(client: Client) -> None:
    first = await client.tools.start("add", a=1, idempotency_key="sdk-1")
    assert await client.tools.start("add", a=1, idempotency_key="sdk-1") == first
    with pytest.raises(Conflict):
        await client.tools.start("add", a=2, idempotency_key="sdk-1")


async def test_progress_is_told_while_the_call_runs(client: Client) -> None:
    told: list[CallEvent] = []
    assert await client.tools.call("steps", count=2, on_event=told.append) == 2
    assert [event.progress.message for event in told if event.progress] == ["step 1", "step 2"]
    assert {event.tool for event in told} == {"steps"}


async def test_many_calls_at_once_share_one_client(client: Client) -> None:
    assert await asyncio.gather(*(client.tools.call("add", a=number) for number in range(64))) == list(range(1, 65))


async def test_a_new_tool_file_is_followed(tmp_path: Path) -> None:
    with running_gateway(tmp_path, DEFAULT_CONFIG, files={"tools/story.py": DEFAULT_TOOLS}) as gateway:
        async with Client(gateway.url, gateway.key) as client, asyncio.timeout(30):
            async with aclosing(client.tools.follow()) as changes:
                coming = asyncio.ensure_future(anext(changes))
                number = 0
                while not coming.done():
                    # The stream may not be open yet, and a change before that is nobody's news: so another one.
                    (tmp_path / "tools" / f"late{number}.py").write_text(f"def late{number}() -> int: return 1\n")
                    number += 1
                    await asyncio.wait((coming,), timeout=3)
                change: ToolsChanged = coming.result()
            assert set(change.added) <= {f"late{number}" for number in range(number)}
            assert change.added
            assert await client.tools.call(change.added[0]) == 1


@SDK
def test_the_blocking_client_does_the_same(sync_client: SyncClient) -> None:
    assert sync_client.ready().is_ready
    assert "add" in [tool.name for tool in sync_client.tools.list()]
    assert [tool.name for tool in sync_client.tools.search("whole numbers", limit=1)] == ["add"]
    assert sync_client.tools.get("add").source == "local"
    assert sync_client.tools.call("add", a=1, b=2) == 3
    with pytest.raises(ToolFailed):
        sync_client.tools.call("boom")
    with pytest.raises(ToolNotFound):
        sync_client.tools.call("nothere")
    with pytest.raises(CallPending) as pending:
        sync_client.tools.call("guarded", amount=1)
    assert sync_client.calls.cancel(pending.value.call_id).status == "cancelled"
    newest = next(sync_client.calls.iterate(tool="guarded", page_size=1))
    assert newest == sync_client.calls.list(tool="guarded").calls[0]
    whole = sync_client.calls.get(pending.value.call_id)
    assert [moment.step for moment in whole.timeline] == ["asked", "settled"]
    assert replace(whole, timeline=()) == newest


def test_the_blocking_client_serves_many_threads_and_follows_calls(sync_client: SyncClient) -> None:
    events: list[CallEvent] = []
    seen = threading.Event()

    def watch() -> None:
        for event in sync_client.calls.follow(tool="add"):
            events.append(event)
            if event.type == "call.settled":
                seen.set()
                return

    def keep_calling() -> None:
        while not seen.wait(0.05):
            sync_client.tools.call("add", a=1)

    threads = [threading.Thread(target=work) for work in (watch, keep_calling, keep_calling)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert {event.tool for event in events} == {"add"}
