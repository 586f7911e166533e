"""Calls that somebody else answers, from both sides, through the SDK and a real gateway process."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

from jackfield.sdk import (
    AlreadyResolved,
    CallEvent,
    CallNotFound,
    CallPending,
    CallRecord,
    Client,
    Conflict,
    Expired,
    Forbidden,
    GatewayUnreachable,
    InboxEvent,
    InvalidArguments,
    ServedTool,
    SyncClient,
    ToolDisabled,
    ToolFailed,
    ToolNotFound,
    progress,
)
from jackfield.sdk.serving import INTERRUPTED
from tests.requirement import requirement
from tests.stories.gateway import (
    DEFAULT_TOOLS,
    RunningGateway,
    clean_environment,
    eventually,
    running_gateway,
    start_gateway,
)

T = TypeVar("T")
WITHIN = 20.0
EXTERNAL = """
[[tools]]
name = "{name}"
description = "{name}, answered elsewhere."
executionType = "external"
visible = false
inputSchema = {{ type = "object" }}
{more}
"""
CONFIG = """
[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.guarded]
metadata = { requires_approval = true }

[auth.keys.worker]
key = "workers-key"
scopes = ["worker:fetch*"]

[auth.keys.caller]
key = "callers-key"
scopes = ["call"]
""" + "".join(
    [
        EXTERNAL.format(name="fetchExternalData", more="timeout = 10000"),
        EXTERNAL.format(name="job", more="isAsync = true"),
        EXTERNAL.format(name="fleeting", more="isAsync = true\nexpiresIn = 200"),
        EXTERNAL.format(name="patient", more="timeout = 60000"),
        EXTERNAL.format(name="repeatable", more="timeout = 60000\nmetadata = { idempotent = true }"),
        EXTERNAL.format(name="quick", more="timeout = 600"),
    ]
)
ENVIRONMENT = {"JACKFIELD_ADMIN_KEY": "operators-key"}
SERVE = requirement("CON-sdk-serve")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("pending")
    with running_gateway(folder, CONFIG, env=ENVIRONMENT, files={"tools/story.py": DEFAULT_TOOLS}) as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[Client]:
    async with Client(gateway.url, gateway.key) as client:
        yield client


@asynccontextmanager
async def serving(client: Client, functions: Any, **options: Any) -> AsyncIterator["asyncio.Task[None]"]:
    """A connected tool server, stopped at the end."""
    connected = asyncio.Event()
    task = asyncio.create_task(
        client.tools.serve(functions, **{"grace": 5.0, "on_connected": connected.set, **options})
    )
    ready = asyncio.create_task(connected.wait())
    await asyncio.wait((task, ready), timeout=WITHIN, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    assert connected.is_set(), task
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,), timeout=WITHIN)


async def soon(ask: Callable[[], Awaitable[T]]) -> T:
    """The first truthy answer of `ask`: for what happens in another process."""
    async with asyncio.timeout(WITHIN):
        while not (answer := await ask()):  # noqa: ASYNC110 - another process sets no event of ours
            await asyncio.sleep(0.02)
    return answer


async def newest(client: Client, tool: str, status: str) -> CallRecord:
    """The newest call of `tool` in that status, as soon as there is one."""

    async def found() -> tuple[CallRecord, ...]:
        return (await client.calls.list(tool=tool, status=status, limit=1)).calls

    return (await soon(found))[0]


async def first_events(client: Client, agent: str) -> tuple[InboxEvent, ...]:
    """What is in the agent's inbox, as soon as there is something."""

    async def found() -> tuple[InboxEvent, ...]:
        return (await client.agents.inbox(agent)).events

    return await soon(found)


class TestServing:
    @requirement(
        "CON-sdk-serve",
        "SPACE-type-external",
        "SPACE-example-external-detects",
        "SPACE-example-external-submits",
        "SPACE-principle-sdk-driven",
        "SPACE-flow-sync-resolved",
    )
    async def test_a_function_of_another_program_is_the_inline_result_of_a_call(
        self, client: Client, gateway: RunningGateway
    ) -> None:
        seen: list[tuple[str, str]] = []

        def fetch(city: str, unit: str = "C") -> dict[str, Any]:
            seen.append((city, unit))
            if city == "Atlantis":
                raise LookupError("no such city")
            return {"city": city, "degrees": 21}

        async with (
            Client(gateway.url, "workers-key") as worker,
            serving(worker, {"fetchExternalData": fetch}),
        ):
            answer = await client.tools.start("fetchExternalData", city="Rome", agent="ann")
            assert (answer.status, answer.result) == ("completed", {"city": "Rome", "degrees": 21})
            with pytest.raises(ToolFailed, match="LookupError: no such city") as failed:
                await client.tools.call("fetchExternalData", city="Atlantis")
            assert (failed.value.code, failed.value.result) == (
                "tool_error",
                {"error": "LookupError: no such city"},
            )
            with pytest.raises(ToolFailed, match="The arguments do not fit 'fetchExternalData'"):
                await client.tools.call("fetchExternalData", town="Rome")
        assert seen == [("Rome", "C"), ("Atlantis", "C")]
        assert (await client.calls.get(answer.call_id)).delivery == "inline"
        assert (await client.agents.inbox("ann")).events == ()

    @requirement("SPACE-sync-flow-late-inbox")
    async def test_a_result_after_the_timeout_is_in_the_agents_inbox(self, client: Client) -> None:
        release = threading.Event()

        def quick() -> str:
            release.wait(WITHIN)
            return "late"

        async with serving(client, [quick]):
            with pytest.raises(ToolFailed, match="Tool timed out after 600ms") as failed:
                await client.tools.call("quick", agent="bob")
            assert (await client.agents.inbox("bob")).events == ()
            release.set()
            settled = await client.calls.wait(failed.value.call_id, WITHIN)
        assert (settled.status, settled.result, settled.delivery) == ("completed", "late", "inbox")
        (event,) = (await client.agents.inbox("bob", "pending")).events
        assert (event.event_id, event.type, event.data["result"]) == (f"tr:{settled.id}", "tool_result", "late")

    async def test_a_call_that_nobody_serves_waits_for_the_first_server(self, client: Client) -> None:
        calling = asyncio.create_task(client.tools.call("patient", a=1))
        await newest(client, "patient", "waiting")

        async def patient(**arguments: int) -> dict[str, int]:
            return arguments

        async with serving(client, [patient]):
            assert await asyncio.wait_for(calling, WITHIN) == {"a": 1}

    @SERVE
    async def test_no_more_than_the_bound_run_at_once_and_all_are_answered(self, client: Client) -> None:
        lock = threading.Lock()
        running: list[int] = []
        most: list[int] = []
        full = threading.Event()

        def patient(n: int) -> int:
            with lock:
                running.append(n)
                most.append(len(running))
                if len(running) == 3:
                    full.set()
            full.wait(WITHIN)
            time.sleep(0.01)
            with lock:
                running.remove(n)
            return n

        async with serving(client, [patient], concurrency=3):
            results = await asyncio.gather(*(client.tools.call("patient", n=n) for n in range(12)))
        assert (results, max(most)) == (list(range(12)), 3)

    async def test_progress_is_seen_by_the_caller_and_extends_the_wait(self, client: Client) -> None:
        heard = threading.Event()

        def quick() -> str:
            for step in range(4):
                progress(step, 4, f"step {step}")
                time.sleep(0.3)
            assert heard.wait(WITHIN)
            return "done"

        def listen(event: CallEvent) -> None:
            if event.progress is not None:
                told.append(event.progress.message)
                heard.set()

        told: list[str | None] = []
        async with serving(client, [quick]):
            assert await client.tools.call("quick", on_event=listen) == "done", "600 ms are the tool's timeout"
        assert told
        assert told == sorted(told, key=str)

    async def test_a_key_that_may_not_serve_a_tool_is_told_so(self, gateway: RunningGateway) -> None:
        async with Client(gateway.url, "workers-key") as worker:
            with pytest.raises(Forbidden, match="may not serve 'job'"):
                await worker.tools.serve({"job": print})

    @SERVE
    async def test_calls_made_by_a_served_function_come_back_through_the_same_client(self, client: Client) -> None:
        async def patient(n: int) -> int:
            total: int = await client.tools.call("add", a=n, b=1)
            return total

        async with serving(client, [patient]):
            calls = [client.tools.call("patient", n=n) for n in range(20)]
            assert await asyncio.gather(*calls) == list(range(1, 21))


class TestDeclaring:
    async def test_declared_tools_are_in_the_catalog_and_can_be_called_and_are_replaced_as_a_whole(
        self, client: Client
    ) -> None:
        def area(width: float, height: float = 1.0) -> float:
            """The area of a field."""
            return width * height

        async def shout(text: str) -> str:
            return text.upper()

        async with serving(client, [area, ServedTool(function=shout, idempotent=True, timeout=7)], declare="fields"):
            tool = await client.tools.get("area")
            assert (tool.source, tool.description) == ("fields", "The area of a field.")
            assert (tool.parameters["required"], list(tool.parameters["properties"])) == (
                ["width"],
                ["width", "height"],
            )
            said = (await client.tools.get("shout")).metadata
            assert (said.idempotent, said.timeout_seconds) == (True, 7)
            assert await client.tools.call("area", width=2, height=3) == 6
            assert await client.tools.call("shout", text="hi", agent="ann") == "HI", "no space is needed"
            with pytest.raises(InvalidArguments):
                await client.tools.call("area", width="wide")
            (source,) = [source for source in (await client.ready()).sources if source.name == "fields"]
            assert source.tools == 2
        async with serving(client, [shout], declare="fields"):
            with pytest.raises(ToolNotFound):
                await client.tools.get("area")

    async def test_a_source_of_the_config_cannot_be_declared(self, client: Client) -> None:
        with pytest.raises(Conflict, match="'local' is taken"):
            await client.tools.serve([print_nothing], declare="local")


def print_nothing() -> None:
    """Do nothing."""


async def take_and_leave(gateway: RunningGateway, tool: str, *, client_id: str) -> None:
    """A tool server that is gone as soon as it was offered a call."""
    params = {"tools": tool, "client": client_id}
    async with (
        httpx2.AsyncClient(headers=gateway.headers, timeout=WITHIN) as raw,
        raw.stream("GET", f"{gateway.url}/api/tools/stream", params=params) as answer,
    ):
        async for line in answer.aiter_lines():
            if "tool.call" in line:
                return


class TestBreaks:
    @SERVE
    async def test_the_server_comes_back_after_a_kill_of_the_gateway_and_begins_no_call_twice(
        self, tmp_path: Path
    ) -> None:
        gateway = start_gateway(tmp_path, CONFIG, env=ENVIRONMENT, files={"tools/story.py": DEFAULT_TOOLS})
        begun: list[int] = []
        has_begun, release = threading.Event(), threading.Event()

        def patient(n: int) -> int:
            begun.append(n)
            has_begun.set()
            release.wait(WITHIN)
            return n

        def offers(call_id: str) -> int:
            with closing(sqlite3.connect(tmp_path / ".jackfield/jackfield.db")) as database:
                (row,) = database.execute("SELECT offers FROM calls WHERE id = ?", (call_id,))
            return int(row[0])

        try:
            async with Client(gateway.url, gateway.key) as client, serving(client, [patient], client_id="steady"):
                calling = asyncio.create_task(client.tools.start("patient", n=1, agent="ann"))
                await asyncio.to_thread(has_begun.wait, WITHIN)
                call = await newest(client, "patient", "waiting")
                assert offers(call.id) == 1
                gateway.kill()
                with pytest.raises(GatewayUnreachable):
                    await calling
                gateway = start_gateway(tmp_path, env=ENVIRONMENT)
                await asyncio.to_thread(eventually, lambda: offers(call.id) == 2, within=WITHIN)
                release.set()
                settled = await client.calls.wait(call.id, WITHIN)
                assert (settled.status, settled.result, begun) == ("completed", 1, [1])
                assert await client.tools.call("patient", n=2) == 2
                events = await first_events(client, "ann")
        finally:
            gateway.stop()
        assert (begun, [event.event_id for event in events]) == ([1, 2], [f"tr:{call.id}"])

    async def test_a_call_that_a_server_before_may_have_begun_is_answered_as_interrupted(
        self, client: Client, gateway: RunningGateway
    ) -> None:
        begun: list[str] = []
        calling = asyncio.create_task(client.tools.call("patient"))
        again = asyncio.create_task(client.tools.call("repeatable"))
        await newest(client, "patient", "waiting")
        await newest(client, "repeatable", "waiting")
        for tool in ("patient", "repeatable"):
            await take_and_leave(gateway, tool, client_id="reborn")
        functions = {"patient": lambda: begun.append("patient"), "repeatable": lambda: begun.append("repeatable")}
        async with serving(client, functions, client_id="reborn"):
            with pytest.raises(ToolFailed, match=INTERRUPTED):
                await asyncio.wait_for(calling, WITHIN)
            assert await asyncio.wait_for(again, WITHIN) is None
        assert begun == ["repeatable"]

    async def test_a_call_that_is_given_up_when_its_server_stops_is_answered_so_at_once(self, client: Client) -> None:
        begun = asyncio.Event()

        async def patient() -> None:
            begun.set()
            await asyncio.sleep(60)

        async with serving(client, [patient], grace=0.1):
            calling = asyncio.create_task(client.tools.call("patient"))
            await asyncio.wait_for(begun.wait(), WITHIN)
        with pytest.raises(ToolFailed, match=INTERRUPTED):
            await asyncio.wait_for(calling, WITHIN)

    @SERVE
    def test_a_blocking_program_serves_until_it_is_interrupted(self, gateway: RunningGateway, tmp_path: Path) -> None:
        (tmp_path / "server.py").write_text(BLOCKING_SERVER, encoding="utf-8")
        environment = clean_environment({"JACKFIELD_URL": gateway.url, "JACKFIELD_KEY": gateway.key})
        with subprocess.Popen(
            [sys.executable, tmp_path / "server.py"], env=environment, stdout=subprocess.PIPE
        ) as program:
            try:
                assert program.stdout is not None
                assert program.stdout.readline() == b"connected\n"
                with SyncClient(gateway.url, gateway.key) as client:
                    assert client.tools.call("double", n=21) == 42
                    running = client.tools.start("slowly")
                    assert program.stdout.readline() == b"begun\n"
                    program.send_signal(signal.SIGINT)
                    assert program.wait(WITHIN) == 7
                    settled = client.calls.wait(running.call_id, WITHIN)
                assert (settled.status, settled.result) == ("completed", "finished")
            finally:
                program.kill()


BLOCKING_SERVER = """\
import sys
import time

from jackfield.sdk import ServedTool, SyncClient


def double(n: int) -> int:
    return 2 * n


def slowly() -> str:
    print("begun", flush=True)
    time.sleep(1)
    return "finished"


with SyncClient() as client:
    try:
        client.tools.serve(
            [double, ServedTool(function=slowly, is_async=True)],
            declare="blocking",
            on_connected=lambda: print("connected", flush=True),
        )
    except KeyboardInterrupt:
        sys.exit(7)
"""


class TestWaiting:
    async def test_waiting_wakes_with_the_answer(self, client: Client) -> None:
        with pytest.raises(CallPending) as pending:
            await client.tools.call("job", agent="carl")
        waiting = asyncio.create_task(client.calls.wait(pending.value.call_id))
        assert not (await client.calls.wait(pending.value.call_id, timeout=0.2)).is_settled
        answered = time.monotonic()
        receipt = await client.calls.answer(pending.value.call_id, {"ok": True})
        settled = await asyncio.wait_for(waiting, WITHIN)
        assert time.monotonic() - answered < 5, "the request that waits is held for 30 s"
        assert (settled.status, settled.result) == ("completed", {"ok": True})
        assert (receipt.agent, receipt.delivery) == ("carl", "inbox")

    async def test_waiting_goes_on_while_the_gateway_is_killed_and_comes_back(self, tmp_path: Path) -> None:
        gateway = start_gateway(tmp_path, CONFIG, env=ENVIRONMENT, files={"tools/story.py": DEFAULT_TOOLS})
        try:
            async with Client(gateway.url, gateway.key) as client:
                call = await client.tools.start("job")
                waiting = asyncio.create_task(client.calls.wait(call.call_id))
                assert not (await client.calls.wait(call.call_id, 0.1)).is_settled
                gateway.kill()
                gateway = start_gateway(tmp_path, env=ENVIRONMENT)
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
