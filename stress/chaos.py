"""Workers that do whatever a tool should not: each call gets its own answer or a clear error, in time, and no
other worker notices. After it no process is left.
"""

import asyncio
import random
import time
from contextlib import suppress
from pathlib import Path

from jackfield.calls.requests import CallRequest
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.model.call import Call, Done, Failed
from jackfield.settings import load_settings
from stress.hostile import ACTS, ANSWERS, CALM, HOSTILE
from stress.report import Report, progress_of

AT_ONCE = 16
CALL_SECONDS = 1.0
SLACK_SECONDS = 20.0
"""What starting a worker anew may add on a loaded machine; it is not the call's time."""
CALM_SECONDS = 10.0
HOSTILE_SHARE = 0.3
CLEAR = frozenset({"tool_error", "bad_result", "timeout", "worker_crashed", "worker_failed"})
CONFIG = f"""
[sources.hostile]
kind = "files"
path = "hostile.py"
call_timeout = {CALL_SECONDS}
processes = 3

[sources.calm]
kind = "files"
path = "calm.py"
call_timeout = {CALM_SECONDS}
"""


async def chaos(store_url: str, folder: Path, *, seed: int, gateways: int, calls: int) -> Report:
    """`calls` of hostile tools on one gateway, and calm ones beside them all the while."""
    assert gateways == 1
    report = Report(part="chaos", seed=seed)
    (folder / "jackfield.toml").write_text(CONFIG, encoding="utf-8")
    (folder / "hostile.py").write_text(HOSTILE, encoding="utf-8")
    (folder / "calm.py").write_text(CALM, encoding="utf-8")
    environment = {"JACKFIELD_DATA": str(folder / "data")}
    settings = load_settings(folder, environment=environment, overrides={"store": store_url})
    async with Gateway(settings) as gateway:
        await _run(gateway, report, calls, random.Random(seed))
        report.expect(bool(_processes_in(folder)), "no process was found that works in the folder")
    report.expect(not (left := _processes_in(folder)), f"processes were left: {left}")
    return report


def _processes_in(folder: Path) -> list[int]:
    """Everything that was started in the folder and lives, forked off or not."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if link.readlink() == folder:
                found.append(int(link.parent.name))
    return found


async def _run(gateway: Gateway, report: Report, calls: int, chance: random.Random) -> None:
    await _calm_call(gateway, report, 0)
    over = asyncio.Event()
    calm = asyncio.create_task(_stay_calm(gateway, report, over))
    tell, numbers = progress_of(report, calls), iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            await _hostile_call(gateway, report, number, _act(chance))
            tell(number)

    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    over.set()
    await calm
    report.expect(report.seen["polite completed"] > 0, "no polite call came through")


def _act(chance: random.Random) -> str:
    """Most are polite, so that it is seen whether those come through."""
    return chance.choice(ACTS) if chance.random() < HOSTILE_SHARE else chance.choice(("polite", "polite_later"))


async def _hostile_call(gateway: Gateway, report: Report, number: int, act: str) -> None:
    token = f"{act} {number}"
    began = time.monotonic()
    call = await _call(gateway, act, token)
    took = time.monotonic() - began
    report.seen[f"{act} {call.status.value}"] += 1
    report.expect(took < CALL_SECONDS + SLACK_SECONDS, f"{token} took {took:.1f} s")
    match call.outcome:
        case Done(result=result):
            right = act in ANSWERS and bytes(result) == f'"{token}"'.encode()
            report.expect(right, f"{token} got {bytes(result)[:100]!r}")
        case Failed(code=code, message=message):
            report.seen[f"failed: {code}"] += 1
            report.expect(code in CLEAR and bool(message), f"{token} failed as {code}: {message}")
            report.expect(" 0x" not in message, f"{token} failed in words for machines: {message}")
        case other:
            report.violations.append(f"{token} is {other}")


async def _stay_calm(gateway: Gateway, report: Report, over: asyncio.Event) -> None:
    number = 0
    while not over.is_set():
        number += 1
        await _calm_call(gateway, report, number)
        await asyncio.sleep(0.01)


async def _calm_call(gateway: Gateway, report: Report, number: int) -> None:
    began = time.monotonic()
    call = await _call(gateway, "calm", f"calm {number}")
    took = time.monotonic() - began
    right = isinstance(call.outcome, Done) and bytes(call.outcome.result) == f'"calm {number}"'.encode()
    report.expect(right, f"a calm call noticed: {call.outcome}")
    report.expect(took < CALM_SECONDS, f"a calm call took {took:.1f} s")
    report.seen["calm"] += 1


async def _call(gateway: Gateway, tool: str, token: str) -> Call:
    request = CallRequest(tool=tool, arguments={"token": token}, principal=ADMIN)
    return await gateway.pipeline.call(request)
