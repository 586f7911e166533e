"""MCP servers that are killed and started again under load: calls succeed with their own answer or fail in clear words,
the servers' tools work again soon after, and neither they nor a server that says nothing delay anybody else.
"""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from msgspec import Raw

from jackfield.calls.requests import CallRequest
from jackfield.errors import SourceUnavailable
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.model.call import Done, Failed, Outcome
from jackfield.settings import load_settings
from stress.report import Report, progress_of
from tests.harness.process import free_port

SERVER = Path(__file__).with_name("upstream_server.py")
AT_ONCE = 8
BACK_SECONDS = 2.0
CALL_SECONDS = 5.0
BESIDE_SECONDS = 2.0
"""Within which calls of tools that are nobody's but ours are answered, whatever happens to the others."""
START_SECONDS = 10.0
CONFIG = """
[sources.modern]
kind = "mcp"
url = "http://127.0.0.1:{modern.port}/mcp"
prefix = "modern_"
call_timeout = 5

[sources.legacy]
kind = "mcp"
url = "http://127.0.0.1:{legacy.port}/mcp"
prefix = "legacy_"
call_timeout = 5

[sources.stdio]
kind = "mcp"
command = ["{python}", "{server}", "stdio", "{stdio.note}"]
prefix = "stdio_"
call_timeout = 5

[sources.silent]
kind = "mcp"
command = ["sleep", "600"]

[[tools]]
name = "beside"
description = "Give the arguments back."
inputSchema = {{ type = "object", properties = {{ token = {{ type = "string" }} }}, required = ["token"] }}
executionType = "internal"
"""


class Victim(Protocol):
    """One server that is killed and comes back."""

    def start(self) -> None: ...

    def kill(self) -> None: ...


class HttpVictim:
    """A server over HTTP, which keeps its port. Somebody starts it again: we."""

    def __init__(self, era: str, starts: Path | None = None) -> None:
        self._era = era
        self._more = [] if starts is None else [str(starts)]
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen([sys.executable, str(SERVER), self._era, str(self.port), *self._more])
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class StdioVictim:
    """A server over stdin and stdout. The gateway started it, and starts it again."""

    def __init__(self, note: Path) -> None:
        self.note = note

    def start(self) -> None:
        """The gateway does."""

    def kill(self) -> None:
        """Whichever process said last that it is the one; it may have been killed before."""
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            pid = int(self.note.read_text(encoding="utf-8"))
            if (
                str(self.note).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
            ):  # or the number is another's by now
                os.kill(pid, signal.SIGKILL)


async def restart_upstreams(store_url: str, folder: Path, *, seed: int, gateways: int, kills: int) -> Report:
    """So many kills of three servers in turn: two over HTTP, one of each era, and one over stdio."""
    assert gateways == 1
    report = Report(part="upstreams", seed=seed)
    modern, legacy, stdio = HttpVictim("modern"), HttpVictim("legacy"), StdioVictim(folder / "stdio.pid")
    config = CONFIG.format(modern=modern, legacy=legacy, stdio=stdio, python=sys.executable, server=SERVER)
    (folder / "jackfield.toml").write_text(config, encoding="utf-8")
    environment = {"JACKFIELD_DATA": str(folder / "data")}
    settings = load_settings(folder, environment=environment, overrides={"store": store_url})
    try:
        for server in (modern, legacy):
            await asyncio.to_thread(server.start)
        began = time.monotonic()
        async with Gateway(settings) as gateway:
            took = time.monotonic() - began
            report.expect(took < 5 * BACK_SECONDS, f"a silent server delayed the start by {took:.1f} s")
            victims: dict[str, Victim] = {"modern": modern, "legacy": legacy, "stdio": stdio}
            await Upstreams(gateway, report, victims).killed(kills, random.Random(seed))
    finally:
        for server in (modern, legacy):
            server.kill()
    return report


class Upstreams:
    """The servers behind one gateway, and the load on them and beside them."""

    def __init__(self, gateway: Gateway, report: Report, victims: Mapping[str, Victim]) -> None:
        self._gateway = gateway
        self._report = report
        self._victims = victims
        self._done_at = dict.fromkeys(victims, 0.0)
        self._is_over = False

    async def killed(self, kills: int, chance: random.Random) -> None:
        """Kill and start again, so often, under load."""
        names = list(self._victims)
        callers = [asyncio.create_task(self._call_on(name)) for name in names for _ in range(AT_ONCE)]
        callers.append(asyncio.create_task(self._call_beside()))
        tell = progress_of(self._report, kills)
        for name in names:
            await self._works_again(name, since=0, within=START_SECONDS)
        for number in range(kills):
            name = names[number % len(names)]
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            self._victims[name].kill()
            await asyncio.sleep(chance.uniform(0, 0.3))
            await asyncio.to_thread(self._victims[name].start)
            await self._works_again(name, since=time.monotonic(), within=BACK_SECONDS)
            self._report.seen[f"{name} restarts"] += 1
            tell(number)
        self._is_over = True
        await asyncio.gather(*callers)

    async def _works_again(self, name: str, *, since: float, within: float) -> None:
        began = time.monotonic()
        while self._done_at[name] <= since and time.monotonic() - began < 5 * within:  # noqa: ASYNC110 - many tell of it
            await asyncio.sleep(0.01)
        took = time.monotonic() - began
        self._report.expect(took < within, f"the {name} server worked again only after {took:.1f} s")

    async def _call_on(self, name: str) -> None:
        """One call after the other, of a server that may be dead."""
        number = 0
        while not self._is_over:
            number += 1
            token = f"{name} {id(asyncio.current_task())} {number}"
            began = time.monotonic()
            try:
                outcome = await self._called(f"{name}_echo", token)
            except SourceUnavailable:
                self._report.seen[f"{name} refused"] += 1
            else:
                self._judge(name, token, outcome)
            took = time.monotonic() - began
            self._report.expect(took < CALL_SECONDS, f"{token} took {took:.1f} s")
            await asyncio.sleep(0.005)

    async def _call_beside(self) -> None:
        """One call after the other, of a tool that no server has."""
        number = 0
        while not self._is_over:
            number += 1
            token = f"beside {number}"
            began = time.monotonic()
            outcome = await self._called("beside", token)
            took = time.monotonic() - began
            self._report.seen["beside done"] += 1
            self._report.expect(isinstance(outcome, Done), f"{token} is {outcome}")
            self._report.expect(took < BESIDE_SECONDS, f"{token} took {took:.1f} s")
            await asyncio.sleep(0.005)

    async def _called(self, tool: str, token: str) -> Outcome | None:
        request = CallRequest(tool=tool, arguments={"token": token}, principal=ADMIN)
        return (await self._gateway.pipeline.call(request)).outcome

    def _judge(self, name: str, token: str, outcome: Outcome | None) -> None:
        match outcome:
            case Done(result=Raw() as result):
                self._report.seen[f"{name} done"] += 1
                self._report.expect(bytes(result) == f'"{token}"'.encode(), f"{token} got {bytes(result)[:100]!r}")
                self._done_at[name] = time.monotonic()
            case Failed(code=code, message=message):
                self._report.seen[f"{name} failed"] += 1
                is_clear = code == "source_unavailable" and bool(message)
                self._report.expect(is_clear, f"{token} failed as {code}: {message}")
            case other:
                self._report.violations.append(f"{token} is {other}")
