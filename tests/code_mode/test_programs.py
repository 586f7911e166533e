"""Programs that call tools: results, failures, approvals in the middle, what they may call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.calls import transactions as call_tx
from jackfield.gateway.gateway import Gateway
from jackfield.model.call import Failed
from jackfield.programs import transactions as program_tx
from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement
from tests.responses.test_store_away import away
from tests.waiting import eventually_async

TOOLS = '''
calls = []


def add(a: int, b: int) -> int:
    """Add two numbers."""
    calls.append((a, b))
    return a + b


def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def made() -> int:
    """How many additions were made."""
    return len(calls)
'''
CONFIG = """
[programs]
enabled = true
timeout = 20
max_calls = 50

[sources.local]
kind = "files"
path = "tools.py"

[sources.local.tools.pay]
metadata = { requires_approval = true }

[auth.keys.narrow]
key = "narrow-key"
scopes = ["call", "read"]
tools = ["add", "run_program"]
"""
NARROW = {"x-api-key": "narrow-key"}


@asynccontextmanager
async def gateway_with_programs(
    folder: Path, config: str = CONFIG
) -> AsyncIterator[tuple[Gateway, httpx2.AsyncClient]]:
    (folder / "tools.py").write_text(TOOLS)
    async with in_process_gateway(folder, config) as both:
        yield both


async def run(client: httpx2.AsyncClient, code: str, **more: Any) -> dict[str, Any]:
    headers = more.pop("headers", {})
    answer = await client.post(
        "/api/v1/tools/run_program/execute", json={"arguments": {"code": code, **more}}, headers=headers, timeout=60
    )
    told: dict[str, Any] = answer.json()
    return {**told, "http": answer.status_code}


async def record(client: httpx2.AsyncClient, call_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/api/v1/calls/{call_id}")).json()["call"]
    return found


async def over(client: httpx2.AsyncClient, call_id: str) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        call = await record(client, call_id)
        return call if call["finished_at"] else None

    return await eventually_async(ended)


async def waiting(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get("/api/v1/calls?status=pending_approval")).json()["calls"]
    return found


@requirement("PROG-CALLS")
async def test_a_program_calls_tools_in_a_loop_and_in_parallel_and_returns_one_result(tmp_path: Path) -> None:
    async with gateway_with_programs(tmp_path) as (_, client):
        code = """
total = 0
for n in range(3):
    total = await tools.add(a=total, b=n)
pairs = await asyncio.gather(*(tools.add(a=n, b=n) for n in range(5)))
print("not for the model")
return {"total": total, "pairs": pairs}
"""
        told = await run(client, code)
        assert told["status"] == "completed", told
        assert told["result"] == {"total": 3, "pairs": [0, 2, 4, 6, 8]}
        made = (await client.get(f"/api/v1/calls?run_id={told['run_id']}&limit=50")).json()["calls"]
        inner = [call for call in made if call["tool"] == "add"]
        assert len(inner) == 8
        assert {call["principal"] for call in inner} == {"admin"}
        assert {call["status"] for call in inner} == {"completed"}


@requirement("PROG-FAILURES")
async def test_a_tool_that_fails_can_be_caught_and_else_ends_the_program(tmp_path: Path) -> None:
    async with gateway_with_programs(tmp_path) as (_, client):
        caught = await run(
            client,
            "try:\n    await tools.fail(why='broken')\nexcept ToolFailed as error:\n    return error.code, str(error)",
        )
        assert caught["result"][0] == "tool_error"
        assert "broken" in caught["result"][1]
        ended = await run(client, "await tools.fail(why='broken')")
        assert ended["status"] == "failed"
        assert ended["error"]["code"] == "tool_error"
        assert "line 1" in ended["error"]["message"]
        wrong = await run(client, "await tools.add(a='one', b=2)")
        assert wrong["error"]["code"] == "invalid_arguments"


WRONG = (
    ("return 1 +", "invalid_program", "Line 1"),
    ("return 1 / 0", "program_failed", "ZeroDivisionError"),
    ("return {1, 2}", "bad_result", "not JSON"),
    ("await asyncio.Event().wait()", "program_failed", "never happen"),
    ("await tools.ad(a=1, b=2)", "program_failed", "Did you mean 'add'"),
    ("await tools.run_program(code='return 1')", "program_failed", "cannot run another one"),
    ("import time\ntime.sleep(1)", "program_failed", "asyncio.sleep"),
    ("import sys\nsys.exit()", "program_failed", "return"),
)


@requirement("PROG-FAILURES")
async def test_what_is_wrong_with_a_program_is_said(tmp_path: Path) -> None:
    async with gateway_with_programs(tmp_path) as (_, client):
        for code, error, said in WRONG:
            told = await run(client, code)
            assert told["error"]["code"] == error, told
            assert said in told["error"]["message"], told


CHANNEL = "import gc, socket\n[channel] = [one for one in gc.get_objects() if isinstance(one, socket.socket)]\n"
SEEN_OF_THE_ENVIRONMENT = ["HOME", "LC_CTYPE", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"]
ASKS_TO_PAY = '{"asks": [{"n": 0, "tool": "pay", "arguments": {"amount": 1}}]}'
HOSTILE = (
    ("x = 'a' * (1 << 40)", "MemoryError"),
    ("import os\nos.fork()", "Operation not permitted"),
    ("import socket\nsocket.create_connection(('127.0.0.1', 80))", "Operation not permitted"),
    ("import subprocess\nsubprocess.run(['true'])", "Operation not permitted"),
    ("import threading\nthreading.Thread(target=print).start()", "can't start new thread"),
    ("return open('/etc/shadow').read()", "/etc/shadow"),
    ("import os\nos.kill(os.getpid(), 9)", "process ended"),
    ("import os\nwhile True:\n    os.fork()", "Operation not permitted"),
    ("kept = []\nwhile True:\n    kept.append(bytearray(1 << 24))", "MemoryError"),
    ("open('/etc/mine', 'w')", "Read-only file system"),
    ("with open('big', 'w') as file:\n    for _ in range(100):\n        file.write('x' * 1_000_000)", "too large"),
    ("import os\nos.execv('/bin/sh', ['sh'])", "Operation not permitted"),
    ("return 'x' * (20 << 20)", "more than 16 MB"),
    ("await tools.add(a='x' * (20 << 20), b=1)", "more than 16 MB"),
    (f"{CHANNEL}channel.sendall(b'nonsense\\n')\nawait tools.made()", "wrote on its channel"),
    ("raise ValueError('x' * 1_000_000)", "ValueError: xxx"),
    ("return '\\ud800'", "not JSON"),
    ("await asyncio.gather(*(asyncio.sleep(n) for n in range(1, 10_002)))", "more than 10,000 calls and sleeps"),
)


@requirement("PROG-HOSTILE")
async def test_a_hostile_program_is_confined_and_told(tmp_path: Path) -> None:
    async with gateway_with_programs(tmp_path) as (_, client):
        for code, said in HOSTILE:
            told = await run(client, code)
            assert told["status"] == "failed", told
            assert said in told["error"]["message"], told
            assert len(told["error"]["message"]) < 10_000
        seen = "sorted(set(os.environ) - {'PWD'}), os.listdir('.')"
        probe = f"import os\nreturn [{seen}, os.path.exists({str(tmp_path)!r})]"
        assert (await run(client, probe))["result"] == [SEEN_OF_THE_ENVIRONMENT, [], False]
        forged = f"{CHANNEL}channel.sendall(b'{ASKS_TO_PAY}\\n')\nreturn 2"
        await run(client, forged, headers=NARROW)
        assert (await client.get("/api/v1/calls?tool=pay")).json()["calls"] == []
        told = await run(client, "while True:\n    pass", timeout=1)
        assert "computing time" in told["error"]["message"], told
        assert (await run(client, "return 'alive'"))["result"] == "alive"


@requirement("PROG-HOSTILE")
async def test_a_flood_of_output_is_cut_and_a_flood_of_calls_refused(tmp_path: Path) -> None:
    async with gateway_with_programs(tmp_path) as (_, client):
        told = await run(client, "for n in range(100_000):\n    print('\\ud800' * 100)\nreturn 'done'")
        assert told["result"] == "done"
        log = (await client.get(f"/api/runs/prog_{told['call_id']}")).json()["run"]["log"]
        assert len(log) < 70_000
        assert "10,034,464 more characters were left out" in log
        code = """
failed = []
for n in range(55):
    try:
        await tools.add(a=n, b=n)
    except ToolFailed as error:
        failed.append(error.code)
return failed
"""
        assert (await run(client, code))["result"] == ["too_many_calls"] * 5


@requirement("PROG-POLICY")
async def test_a_program_calls_only_what_its_caller_may_and_its_globs_name(tmp_path: Path) -> None:
    async with gateway_with_programs(tmp_path) as (_, client):
        told = await run(client, "return [await tools.add(a=1, b=1), dir(tools)]", headers=NARROW)
        assert told["result"] == [2, ["add"]]
        told = await run(client, "return await tools['pay'](amount=1)", headers=NARROW)
        assert "There is no tool 'pay'" in told["error"]["message"]
        told = await run(client, "return dir(tools)", tools=["ad*", "made"])
        assert told["result"] == ["add", "made"]
        forged = "tools._Tools__names['pay'] = 'pay'\nreturn await tools.pay(amount=1)"
        told = await run(client, forged, tools=["add"])
        assert told["error"]["code"] == "tool_not_found"
        shadow = (
            "class T:\n    async def add(self, a, b):\n        return 'mine'\ntools = T()\nreturn await tools.add(1, 2)"
        )
        assert (await run(client, shadow))["result"] == "mine"


@requirement("PROG-PARKED")
async def test_a_program_that_waits_for_a_person_is_parked_and_goes_on_with_each_call_made_once(tmp_path: Path) -> None:
    code = """
import random, time, uuid
before = [random.random(), time.time(), str(uuid.uuid4())]
first = await tools.add(a=1, b=2)
print("asks")
paid = await tools.pay(amount=first)
again = await tools.pay(amount=10)
return [before, first, paid, again, await tools.made()]
"""
    async with gateway_with_programs(tmp_path) as (_, client):
        told = await run(client, code)
        assert (told["http"], told["status"]) == (202, "pending")
        for amount in (3, 10):
            [asked] = await eventually_async(lambda: waiting(client))
            assert asked["arguments"] == {"amount": amount}
            assert (await record(client, told["call_id"]))["status"] == "pending"
            await client.post(f"/api/v1/calls/{asked['id']}/approve", json={})
        ended = await over(client, told["call_id"])
        assert ended["status"] == "completed", ended
        assert ended["result"][1:] == [3, "paid 3", "paid 10", 1]


@requirement("PROG-PARKED")
async def test_a_rejected_call_is_told_to_the_program_and_a_cancelled_program_ends_its_calls(tmp_path: Path) -> None:
    async with gateway_with_programs(tmp_path) as (_, client):
        told = await run(
            client, "try:\n    await tools.pay(amount=1)\nexcept ToolFailed as error:\n    return error.code"
        )
        [asked] = await eventually_async(lambda: waiting(client))
        await client.post(f"/api/v1/calls/{asked['id']}/reject", json={"reason": "no"})
        assert (await over(client, told["call_id"]))["result"] == "rejected"
        told = await run(client, "await tools.pay(amount=2)")
        [asked] = await eventually_async(lambda: waiting(client))
        await client.post(f"/api/v1/calls/{told['call_id']}/cancel", json={})
        assert (await over(client, asked["id"]))["status"] == "cancelled"


@requirement("PROG-PARKED")
async def test_a_program_that_does_something_else_the_second_time_ends_as_nondeterministic(tmp_path: Path) -> None:
    code = """
import os
await tools.add(a=1, b=int(os.times().elapsed * 100))
await tools.pay(amount=1)
"""
    async with gateway_with_programs(tmp_path) as (_, client):
        told = await run(client, code)
        assert told["status"] == "pending", told
        [asked] = await eventually_async(lambda: waiting(client))
        await asyncio.sleep(0.05)  # several ticks of the clock that the program read
        await client.post(f"/api/v1/calls/{asked['id']}/approve", json={})
        ended = await over(client, told["call_id"])
        assert ended["error"]["code"] == "nondeterministic", ended


async def test_timers_pass_and_a_dropped_one_does_not_keep_the_program(tmp_path: Path) -> None:
    code = """
await asyncio.sleep(0.01)
async with asyncio.timeout(3600):
    await tools.add(a=1, b=1)
try:
    await asyncio.wait_for(asyncio.Event().wait(), 0.01)
except TimeoutError:
    pass
return await tools.pay(amount=5)
"""
    async with gateway_with_programs(tmp_path) as (_, client):
        told = await run(client, code)
        assert told["status"] == "pending"
        [asked] = await eventually_async(lambda: waiting(client))
        await client.post(f"/api/v1/calls/{asked['id']}/approve", json={})
        assert (await over(client, told["call_id"]))["result"] == "paid 5"


@requirement("PROG-CALLS")
async def test_without_programs_enabled_there_is_no_such_tool(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (_, client):
        assert (await run(client, "return 1"))["http"] == 404


SLOW = '''
import asyncio

told = []


async def first() -> str:
    """Answer."""
    return "first"


async def second(after: str) -> str:
    """Answer, and say what led here."""
    told.append(after)
    return f"second after {after}"
'''


@requirement("RUN-told-early")
async def test_a_call_that_is_cancelled_while_its_outcome_is_written_is_told_as_it_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program had been told the outcome, and asked for its next call: that is not made because of it."""
    (tmp_path / "tools.py").write_text(SLOW)
    config = '[programs]\nenabled = true\n[sources.local]\nkind = "files"\npath = "tools.py"\n'
    code = (
        "try:\n    after = await tools.first()\n"
        "except ToolFailed as failure:\n    after = failure.code\n"
        "return await tools.second(after=after)"
    )
    real = program_tx.settle_and_take_step
    met: list[bool] = []

    def cancelled_just_before(settle: Any, call: Any, step: Any) -> Any:
        if not met:
            met.append(True)
            yield from call_tx.settle_cancelled(call.id, Failed("cancelled", "Stopped."))
        return (yield from real(settle, call, step))

    monkeypatch.setattr(program_tx, "settle_and_take_step", cancelled_just_before)
    async with in_process_gateway(tmp_path, config) as (_, client):
        ended = await run(client, code)
        calls = (await client.get(f"/api/v1/calls?run_id={ended['run_id']}")).json()["calls"]
    assert met
    assert (ended["status"], ended["result"]) == ("completed", "second after cancelled")
    assert {call["tool"]: call["status"] for call in calls if call["tool"] != "run_program"} == {
        "first": "cancelled",
        "second": "completed",
    }


@requirement("PROG-CALLS")
async def test_a_timer_that_is_cancelled_by_another_one_of_the_same_moment_is_no_fault(tmp_path: Path) -> None:
    code = """
try:
    async with asyncio.timeout(0.02):
        async with asyncio.timeout(0.02):
            await asyncio.Event().wait()
except TimeoutError:
    pass
try:
    await asyncio.wait_for(asyncio.sleep(0.02), 0.02)
except TimeoutError:
    pass
return await tools.add(a=1, b=2)
"""
    async with gateway_with_programs(tmp_path) as (_, client):
        assert (await run(client, code))["result"] == 3


@requirement("RUN-store-away")
@pytest.mark.parametrize("name", ["take_step", "end", "read_journal"])
async def test_a_program_goes_on_when_the_store_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with gateway_with_programs(tmp_path) as (_, client):
        failed = away(monkeypatch, name, times=2)
        ended = await run(client, "total = await tools.add(a=1, b=2)\nreturn [total, await tools.made()]")
        assert failed() == 2
        assert ended["result"] == [3, 1]
