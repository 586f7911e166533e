"""Tool servers made with the SDK, at a real gateway process."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jackfield.sdk import (
    CallEvent,
    Client,
    Conflict,
    Forbidden,
    GatewayUnreachable,
    InvalidArguments,
    ServedTool,
    SyncClient,
    ToolFailed,
    ToolNotFound,
    progress,
)
from jackfield.sdk.serving import INTERRUPTED
from tests.harness.process import RunningGateway, clean_environment
from tests.requirement import requirement
from tests.stories.sdk_scene import (
    WITHIN,
    back_again,
    begin_gateway,
    first_events,
    newest,
    sdk_gateway,
    serving,
    take_and_leave,
)
from tests.waiting import eventually

SERVE = requirement("CON-sdk-serve")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with sdk_gateway(tmp_path_factory.mktemp("pending")) as gateway:
        yield gateway


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[Client]:
    async with Client(gateway.url, gateway.key) as client:
        yield client


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
            with pytest.raises(ToolFailed, match="Tool timed out after 1500ms") as failed:
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
            for step in range(20):
                progress(step, 20, f"step {step:02}")
                time.sleep(0.1)
            assert heard.wait(WITHIN)
            return "done"

        def listen(event: CallEvent) -> None:
            if event.progress is not None:
                told.append(event.progress.message)
                heard.set()

        told: list[str | None] = []
        async with serving(client, [quick]):
            assert await client.tools.call("quick", on_event=listen) == "done", "1,500 ms are the tool's timeout"
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


class TestBreaks:
    @SERVE
    async def test_the_server_comes_back_after_a_kill_of_the_gateway_and_begins_no_call_twice(
        self, tmp_path: Path
    ) -> None:
        gateway = begin_gateway(tmp_path)
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
                gateway = back_again(tmp_path)
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

    @requirement("SAFE-server-id-kept", "SAFE-reoffer-begun-once")
    def test_a_program_that_was_killed_is_known_when_it_is_started_again(
        self, gateway: RunningGateway, tmp_path: Path
    ) -> None:
        """It is asked again about the call it had begun, and says that it cannot know."""
        (tmp_path / "server.py").write_text(MORTAL_SERVER, encoding="utf-8")
        state = {"XDG_STATE_HOME": str(tmp_path / "state")}
        environment = clean_environment({"JACKFIELD_URL": gateway.url, "JACKFIELD_KEY": gateway.key, **state})
        command = [sys.executable, str(tmp_path / "server.py")]
        with SyncClient(gateway.url, gateway.key) as client:
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as first:
                assert first.stdout is not None
                assert first.stdout.readline() == b"connected\n"
                call = client.tools.start("job").call_id
                assert first.stdout.readline() == b"begun\n"
                first.kill()
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as second:
                settled = client.calls.wait(call, WITHIN)
                second.kill()
        assert (settled.status, settled.error and settled.error.message) == ("failed", INTERRUPTED)
        assert len(list((tmp_path / "state/jackfield/servers").iterdir())) == 1

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


MORTAL_SERVER = """\
import time

from jackfield.sdk import SyncClient


def job() -> None:
    print("begun", flush=True)
    time.sleep(600)


with SyncClient() as client:
    client.tools.serve([job], on_connected=lambda: print("connected", flush=True))
"""
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
