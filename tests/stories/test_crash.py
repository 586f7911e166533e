"""When a gateway dies or is stopped: what was answered is on record, nothing hangs, nothing runs twice by mistake."""

import asyncio
import json
import random
import signal
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, free_port, run_cli, running_gateway, start_gateway
from tests.requirement import requirement
from tests.waiting import eventually

CONFIG = """
[sources.local]
kind = "files"
path = "tools/*.py"
tools.work_again.metadata = { idempotent = true }
tools.hold_once.metadata = { idempotent = true }
tools.deadly.metadata = { idempotent = true }
"""
TOOLS = '''
import asyncio
import os
import signal
import time
from pathlib import Path

HERE = Path(__file__).parent.parent


def begin(what: str) -> int:
    """Write down that a tool started; how often it has by now."""
    with (HERE / "starts").open("a") as file:
        file.write(what + "\\n")
    return (HERE / "starts").read_text().split().count(what)


__all__ = ["quick", "work", "work_again", "hold", "hold_once", "deadly", "stubborn", "nap"]


def quick(n: int) -> dict:
    """Answer at once."""
    begin(f"quick-{n}")
    return {"n": n, "square": n * n, "text": "é" * (n % 50)}


async def work(n: int) -> dict:
    """Answer after a while."""
    begin(f"work-{n}")
    await asyncio.sleep(0.12)
    return {"n": n, "square": n * n, "text": "é" * (n % 50)}


async def work_again(n: int) -> dict:
    """Answer after a while; may be repeated."""
    begin(f"work_again-{n}")
    await asyncio.sleep(0.12)
    return {"n": n, "square": n * n, "text": "é" * (n % 50)}


async def hold() -> str:
    """Take a minute."""
    begin("hold")
    await asyncio.sleep(60)
    return "held"


async def hold_once() -> str:
    """Take a minute the first time, and no time after that."""
    if begin("hold_once") == 1:
        await asyncio.sleep(60)
    return "held once"


def deadly() -> str:
    """Take the gateway down."""
    begin("deadly")
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)


async def stubborn() -> str:
    """Never listen."""
    begin("stubborn")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


async def nap(seconds: float) -> str:
    """Answer after a nap."""
    begin("nap")
    await asyncio.sleep(seconds)
    return f"slept {seconds}"
'''
CALLS = 1_000
AT_ONCE = 32
INTERRUPTED = (
    "Interrupted: the gateway stopped while this tool was running. It may or may not have taken effect; "
    "check before you call it again."
)


def expected(n: int) -> dict[str, Any]:
    return {"n": n, "square": n * n, "text": "é" * (n % 50)}


def starts(folder: Path) -> Counter[str]:
    file = folder / "starts"
    return Counter(file.read_text(encoding="utf-8").split() if file.exists() else [])


def execute(gateway: RunningGateway, tool: str, *, key: str | None = None, **arguments: Any) -> httpx2.Response:
    headers = gateway.headers | ({"Idempotency-Key": key} if key else {})
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    return httpx2.post(url, json={"arguments": arguments}, headers=headers, timeout=30)


def begin_execute(pool: ThreadPoolExecutor, gateway: RunningGateway, tool: str, **arguments: Any) -> Future[Any]:
    """Make the call in a thread, and come back when it is on record as running."""
    making = pool.submit(execute, gateway, tool, **arguments)
    eventually(lambda: any(call["tool"] == tool for call in records(gateway, status="running")))
    return making


def record(gateway: RunningGateway, call_id: str) -> dict[str, Any]:
    answer = httpx2.get(f"{gateway.url}/api/v1/calls/{call_id}", headers=gateway.headers, timeout=10)
    answer.raise_for_status()
    call: dict[str, Any] = answer.json()["call"]
    return call


def records(gateway: RunningGateway, **filters: str) -> list[dict[str, Any]]:
    """Every record, page by page."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    with httpx2.Client(base_url=gateway.url, headers=gateway.headers, timeout=10) as client:
        while True:
            params = filters | {"limit": "500"} | ({"cursor": cursor} if cursor else {})
            page = client.get("/api/v1/calls", params=params).raise_for_status().json()
            found += page["calls"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found


async def execute_until_killed(gateway: RunningGateway, *, kill_after: int) -> dict[str, tuple[str, int, Any]]:
    """A thousand executes; kill -9 when `kill_after` of them are answered. The answers: call id → tool, n, result.

    Two more calls run all the time, so that the kill always meets one of either sort.
    """
    chance = random.Random(2_026)
    work = [(chance.choice(["quick", "quick", "work", "work", "work_again"]), n) for n in range(CALLS)]
    answered: dict[str, tuple[str, int, Any]] = {}

    async def worker(client: httpx2.AsyncClient) -> None:
        while work:
            tool, n = work.pop()
            try:
                answer = await client.post(f"/api/v1/tools/{tool}/execute", json={"arguments": {"n": n}})
            except httpx2.TransportError:
                return
            assert answer.status_code == 200, answer.text
            body = answer.json()
            answered[body["call_id"]] = (tool, n, body["result"])
            if len(answered) == kill_after:
                gateway.process.kill()

    async def hold(client: httpx2.AsyncClient, tool: str) -> None:
        with pytest.raises(httpx2.TransportError):
            await client.post(f"/api/v1/tools/{tool}/execute", json={})

    async with (
        httpx2.AsyncClient(base_url=gateway.url, headers=gateway.headers, timeout=60) as client,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(hold(client, "hold"))
        group.create_task(hold(client, "hold_once"))
        for _ in range(AT_ONCE):
            group.create_task(worker(client))
    gateway.kill()
    return answered


async def test_kill_9_during_a_thousand_executes_loses_no_answered_call_and_leaves_none_running(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS})
    try:
        answered = await execute_until_killed(gateway, kill_after=CALLS // 2)
    finally:
        gateway.kill()
    assert CALLS // 2 <= len(answered) < CALLS

    with running_gateway(tmp_path) as again:
        eventually(lambda: not records(again, status="running"))
        kept = {call["id"]: call for call in records(again)}

    for call_id, (tool, n, result) in answered.items():
        call = kept[call_id]
        assert (call["tool"], call["arguments"], call["status"]) == (tool, {"n": n}, "completed")
        assert call["result"] == result == expected(n)

    cut = [call for call_id, call in kept.items() if call_id not in answered]
    assert Counter(call["status"] for call in kept.values()).keys() <= {"completed", "failed"}
    interrupted = [call for call in cut if call["status"] == "failed"]
    repeated = [call for call in cut if call["attempt"] > 1]
    # What is quick has no row while it runs, except on a busy machine.
    assert "hold" in {call["tool"] for call in interrupted} <= {"hold", "work", "quick"}
    assert "hold_once" in {call["tool"] for call in repeated} <= {"hold_once", "work_again"}
    for call in interrupted:
        assert call["attempt"] == 1
        assert call["error"] == {"code": "interrupted", "message": INTERRUPTED}
        assert call["result"] == {"error": INTERRUPTED, "toolCallId": call["id"]}
    for call in repeated:
        assert (call["attempt"], call["status"]) == (2, "completed")
        assert call["result"] == ("held once" if call["tool"] == "hold_once" else expected(call["arguments"]["n"]))
    twice = {"-".join([call["tool"], *map(str, call["arguments"].values())]) for call in repeated}
    assert {name for name, times in starts(tmp_path).items() if times > 1} == twice


def test_a_call_cut_by_kill_9_is_interrupted_once_and_an_idempotent_one_is_run_again(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS})
    with ThreadPoolExecutor(2) as pool:
        held = begin_execute(pool, gateway, "hold")
        held_once = begin_execute(pool, gateway, "hold_once")
        gateway.kill()
        assert isinstance(held.exception(10), httpx2.TransportError)
        assert isinstance(held_once.exception(10), httpx2.TransportError)

    with running_gateway(tmp_path) as again:
        [interrupted] = records(again, tool="hold")
        [repeated] = eventually(lambda: records(again, tool="hold_once", status="completed"))
        log = again.log

    assert interrupted["status"] == "failed"
    assert interrupted["error"] == {"code": "interrupted", "message": INTERRUPTED}
    assert interrupted["result"] == {"error": INTERRUPTED, "toolCallId": interrupted["id"]}
    assert interrupted["finished_at"] is not None
    assert (repeated["result"], repeated["attempt"], repeated["error"]) == ("held once", 2, None)
    assert starts(tmp_path) == {"hold": 1, "hold_once": 2}
    assert "took over 2 calls that were running when the last gateway stopped" in log


@requirement("CON-exec-idempotency-key")
def test_a_request_cut_by_kill_9_and_sent_again_with_its_key_gets_the_record_and_runs_nothing(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS})
    with ThreadPoolExecutor(2) as pool:
        begin_execute(pool, gateway, "hold", key="order-1")
        begin_execute(pool, gateway, "hold_once", key="order-2")
        [cut] = records(gateway, tool="hold")
        [cut_once] = records(gateway, tool="hold_once")
        gateway.kill()

    with running_gateway(tmp_path) as again:
        same = execute(again, "hold", key="order-1")
        same_again = execute(again, "hold", key="order-1")
        finished = execute(again, "hold_once", key="order-2")
        other_body = execute(again, "nap", key="order-1", seconds=0)

    assert same.status_code == 200
    assert same.json() == {
        "success": False,
        "call_id": cut["id"],
        "run_id": cut["run_id"],
        "status": "failed",
        "result": {"error": INTERRUPTED, "toolCallId": cut["id"]},
        "error": {"code": "interrupted", "message": INTERRUPTED},
        "execution_time_ms": same.json()["execution_time_ms"],
    }
    assert same_again.json() == same.json()
    assert finished.status_code == 200
    assert (finished.json()["call_id"], finished.json()["result"]) == (cut_once["id"], "held once")
    assert (other_body.status_code, other_body.json()["error"]["code"]) == (409, "conflict")
    assert starts(tmp_path) == {"hold": 1, "hold_once": 2}


def test_a_tool_that_takes_the_gateway_down_each_time_is_given_up_after_three_attempts(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS})
    with ThreadPoolExecutor(1) as pool:
        pool.submit(execute, gateway, "deadly", key="once")
        assert gateway.process.wait(10) == -signal.SIGKILL
    for _ in range(2):
        _start_and_see_it_die(tmp_path)

    with running_gateway(tmp_path) as calm:
        [call] = records(calm)
        assert execute(calm, "quick", n=3).json()["result"] == expected(3)

    assert (call["status"], call["attempt"], call["error"]["code"]) == ("failed", 3, "interrupted")
    assert starts(tmp_path)["deadly"] == 3


def _start_and_see_it_die(folder: Path) -> None:
    """The tool that runs again may end the gateway before or after that says it is ready."""
    try:
        gateway = start_gateway(folder)
    except AssertionError as fault:
        assert "exit code -9" in str(fault)  # noqa: PT017 - only one of the two ways it may go
        return
    assert gateway.process.wait(10) == -signal.SIGKILL


def test_calls_that_run_at_sigterm_get_their_answers_and_no_new_ones_begin(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS})
    with ThreadPoolExecutor(12) as pool:
        naps = [pool.submit(execute, gateway, "nap", seconds=3) for _ in range(10)]
        held = begin_execute(pool, gateway, "hold")
        eventually(lambda: len(records(gateway, status="running")) == 11)
        began = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(15) == 0
        took = time.monotonic() - began
        answers = [nap.result(10) for nap in naps]
        cut = held.result(10)

    assert [answer.status_code for answer in answers] == [200] * 10
    assert [answer.json()["result"] for answer in answers] == ["slept 3"] * 10
    assert cut.status_code == 200
    assert cut.json()["error"] == {"code": "interrupted", "message": INTERRUPTED}
    assert took < 10
    with running_gateway(tmp_path) as again:
        kept = {call["id"]: call for call in records(again)}
        log = again.log
    assert len(kept) == 11
    assert {kept[answer.json()["call_id"]]["status"] for answer in answers} == {"completed"}
    assert kept[cut.json()["call_id"]]["error"]["code"] == "interrupted"
    assert "took over" not in log


def test_a_gateway_that_is_stopping_refuses_new_calls(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS})
    with httpx2.Client(base_url=gateway.url, headers=gateway.headers, timeout=20) as kept_open:
        assert kept_open.post("/api/v1/tools/quick/execute", json={"arguments": {"n": 1}}).status_code == 200
        with ThreadPoolExecutor(1) as pool:
            nap = begin_execute(pool, gateway, "nap", seconds=2)
            gateway.process.send_signal(signal.SIGTERM)
            eventually(lambda: not _takes_calls(gateway))
            assert nap.result(10).json()["result"] == "slept 2"
        assert gateway.process.wait(15) == 0
    assert starts(tmp_path)["nap"] == 1


def _takes_calls(gateway: RunningGateway) -> bool:
    try:
        return execute(gateway, "quick", n=2).status_code == 200
    except httpx2.TransportError:
        return False


def test_a_tool_that_will_not_stop_is_cut_off_and_does_not_keep_the_gateway_alive(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS})
    with ThreadPoolExecutor(1) as pool:
        never = begin_execute(pool, gateway, "stubborn")
        assert gateway.stop() == 0
        answer = never.result(10)

    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == "interrupted"


def test_a_second_gateway_on_the_same_database_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with running_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS}) as gateway:
        refused = run_cli("serve", "--port", str(free_port()), cwd=tmp_path)

        assert refused.returncode == 1
        assert refused.stderr.strip().splitlines()[-1] == (
            f"error: Another gateway (pid {gateway.pid}) uses the database jackfield.db. Stop it, set "
            "JACKFIELD_STORE to another database, or use PostgreSQL for several gateways on one database."
        )
        assert execute(gateway, "quick", n=4).json()["result"] == expected(4)
        found = run_cli("call", "quick", "n=5", cwd=tmp_path)
        assert (found.returncode, json.loads(found.stdout)) == (0, expected(5))


def test_a_gateway_started_right_after_a_kill_takes_the_database_over(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, files={"tools/t.py": TOOLS})
    first = execute(gateway, "quick", n=1).json()
    gateway.kill()

    with running_gateway(tmp_path) as again:
        assert record(again, first["call_id"])["result"] == expected(1)
