"""Two hosts and a bad network between them: network namespaces, and a proxy in a third that delays, stalls and resets.

The gateway and its PostgreSQL are on one host, a tool server, a caller with tools and clients of other kinds on the
other. Nothing may be lost or run twice, and the figures say what the network costs. Needs root and `ip` (iproute2).
"""

import asyncio
import ctypes
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
from msgspec import Struct

from chaos import leaks
from chaos.checker import Records, judge
from chaos.clients import Clients
from chaos.ledger import Ledger
from chaos.processes import ROOT, Program
from chaos.project import Ports, project
from chaos.storm import log, until_quiet
from stress.load import HEADERS
from stress.people import records as records_of
from stress.processes import KEY
from stress.report import Report
from stress.stores import a_folder, a_postgres

GATEWAY_HOST, NEAR, FAR, CLIENT_HOST = "10.77.1.1", "10.77.1.2", "10.77.2.2", "10.77.2.1"
"""The gateway's host, the two sides of the network between, and the host of everybody else."""
PORT = 8420
DELAY = 0.05
STARTS_WITHIN = 60.0
KINDS = {"plain": 4, "worker": 2, "external": 4, "approval": 2, "task": 1, "program": 2, "response": 2}
SERVER = """
[server]
host = "{host}"
port = {port}
allowed_hosts = ["{far}", "{host}", "localhost", "127.0.0.1"]

"""
CLONE_NEWNET = 0x40000000


class Phase(Struct, frozen=True, kw_only=True):
    """How the network is for a while."""

    name: str
    delay: float = 0.0
    stall_every: float | None = None
    """Seconds between stalls, each of which takes a third of it."""
    reset_every: float | None = None


PHASES = (
    Phase(name="a good network"),
    Phase(name="50 ms each way", delay=DELAY),
    Phase(name="50 ms and stalls", delay=DELAY, stall_every=9.0),
    Phase(name="50 ms and resets", delay=DELAY, reset_every=1.5),
)


class Network:
    """The proxy between the hosts, in a process of its own that is told by lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def tell(self, **order: object) -> dict[str, int]:
        """What it has seen so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        seen: dict[str, int] = json.loads(await self._process.stdout.readline())
        return seen

    async def be(self, phase: Phase, seconds: float) -> None:
        await self.tell(delay=phase.delay)
        until, every = time.monotonic() + seconds, phase.stall_every or phase.reset_every or seconds
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, every * 2 / 3))
            if phase.stall_every is not None:
                await self.tell(stalled=True)
            if phase.reset_every is not None:
                await self.tell(reset=True)
            await asyncio.sleep(min(max(0.0, until - time.monotonic()), every / 3))
            await self.tell(stalled=False)


async def two_hosts(*, seed: int, seconds: float) -> Report:
    """So many seconds of each phase."""
    report = Report(part="two hosts", seed=seed)
    with a_folder() as folder, a_postgres() as url, _hosts() as (gateways, between):
        starts, told = folder / "starts", folder / "told"
        async with AsyncExitStack() as stack:
            network = await stack.enter_async_context(_network(between))
            await stack.enter_async_context(_gateway(gateways, folder, url, starts))
            address = f"http://{FAR}:{PORT}"
            await _until_ready(address)
            programs = [
                Program("chaos.tool_server", address, str(starts), "slot-0", log=folder / "server.log"),
                Program("chaos.caller", address, str(starts), "caller", str(told), log=folder / "caller.log"),
            ]
            for program in programs:
                stack.callback(program.kill)
                program.start()
            ledger = Ledger()
            clients = Clients([address], ledger, random.Random(seed), kinds=KINDS, pace=0.05)
            async with aclosing(clients):
                await _through_all(clients, ledger, network, report, seconds=seconds)
                async with records_of(url) as count:
                    await until_quiet(count, report)
            for name, number in (await network.tell()).items():
                report.seen[f"proxy: {name}"] = number
            for program in programs:
                report.expect(await asyncio.to_thread(program.end, within=15), "a program did not end by itself")
            async with httpx2.AsyncClient(base_url=address, headers=HEADERS, timeout=30) as client:
                found = await Records().read(client)
            judge(report, ledger, found, starts, told)
            async with records_of(url) as count:
                report.violations += [f"{number} {what}" for what, number in (await leaks.open_rows(count)).items()]
    return report


async def _through_all(clients: Clients, ledger: Ledger, network: Network, report: Report, *, seconds: float) -> None:
    stop, over = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(clients.approve(over))
        loading = group.create_task(clients.run(stop))
        for phase in PHASES:
            log.info("%s", phase.name)
            since, told = time.monotonic(), len(ledger.told)
            await network.be(phase, seconds)
            _figures(report, ledger, phase, since=since, ended=len(ledger.told) - told, seconds=seconds)
        await network.tell(delay=0, stalled=False)
        stop.set()
        await loading
        over.set()


def _figures(report: Report, ledger: Ledger, phase: Phase, *, since: float, ended: int, seconds: float) -> None:
    waits = [wait for wait in ledger.waits if wait.began >= since]
    times = sorted(wait.ended - wait.began for wait in waits if wait.what.startswith("GET") and wait.end == "200")
    report.seen[f"{phase.name}: calls ended a second"] = round(ended / seconds)
    report.seen[f"{phase.name}: requests broken off"] = sum(not wait.end.isdigit() for wait in waits)
    if times:
        report.seen[f"{phase.name}: a record read in ms, p50"] = round(1000 * times[len(times) // 2])
        report.seen[f"{phase.name}: a record read in ms, p99"] = round(1000 * times[int(len(times) * 0.99)])


@contextmanager
def _hosts() -> Iterator[tuple[str, str]]:
    """The names of the gateway's host and of the network between; this process is on the third one's."""
    name = f"jackfield{os.getpid()}"
    gateways, between, clients = f"{name}g", f"{name}n", f"{name}c"
    try:
        for host in (gateways, between, clients):
            _ip("netns", "add", host)
            _ip("-n", host, "link", "set", "lo", "up")
        for one, ours, address, theirs in ((gateways, GATEWAY_HOST, "g", NEAR), (clients, CLIENT_HOST, "c", FAR)):
            _ip("link", "add", f"jf{address}0", "netns", one, "type", "veth", "peer", f"jf{address}1", "netns", between)
            for host, side, number in ((one, 0, ours), (between, 1, theirs)):
                _ip("-n", host, "address", "add", f"{number}/24", "dev", f"jf{address}{side}")
                _ip("-n", host, "link", "set", f"jf{address}{side}", "up")
        with _on_host(clients):
            yield gateways, between
    finally:
        for host in (gateways, between, clients):
            subprocess.run(["ip", "netns", "delete", host], check=False, capture_output=True)


@contextmanager
def _on_host(name: str) -> Iterator[None]:
    """This thread, and what it starts, is on that host."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/self/ns/net").open() as here, Path("/run/netns", name).open() as there:
        if libc.setns(there.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"This user may not enter the network namespace {name}")
        try:
            yield
        finally:
            libc.setns(here.fileno(), CLONE_NEWNET)


@asynccontextmanager
async def _network(host: str) -> AsyncIterator[Network]:
    places = (f"{FAR}:{PORT}", f"{GATEWAY_HOST}:{PORT}")
    process = await asyncio.create_subprocess_exec(
        *("ip", "netns", "exec", host, sys.executable, "-m", "chaos.proxy", *places),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield Network(process)
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def _gateway(host: str, folder: Path, url: str, starts: Path) -> AsyncIterator[None]:
    served = project(starts, Ports(modern=1, legacy=1), stdio_note=folder / "stdio.pid")
    config = SERVER.format(host=GATEWAY_HOST, far=FAR, port=PORT) + served.config
    for name, text in {**served.files, "jackfield.toml": config}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    env = {**os.environ, "JACKFIELD_STORE": url, "JACKFIELD_ADMIN_KEY": KEY, "STRESS_STARTS": str(starts)}
    with (folder / "gateway.log").open("ab") as said:
        process = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", host, sys.executable, "-m", "jackfield.cli", "serve"),
            cwd=folder,
            env=env,
            stdout=said,
            stderr=said,
        )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def _until_ready(address: str) -> None:
    until = time.monotonic() + STARTS_WITHIN
    async with httpx2.AsyncClient(base_url=address, headers=HEADERS, timeout=5) as client:
        while True:
            try:
                if (await client.get("/readyz")).is_success:
                    return
            except httpx2.TransportError:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.2)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
