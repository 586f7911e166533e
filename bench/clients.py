"""`python -m bench.clients [--quick]`: what a request costs with our HTTP and MCP clients, and with the libraries'.

Not a row of `make bench`: it is run when the choice of a client is in question, and its table is in docs/why.md. Every
client is a process of its own with 16 requests in flight. They take turns, and CPU per call is the client's alone.
"""

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from statistics import median

import httpx2
import msgspec
import uv
import uvloop
from mcp import Client
from msgspec import Struct

from bench.processes import ROOT, BenchError, running_reference, running_server
from bench.proxies.rounds import serve_rounds
from bench.subjects import ECHO
from jackfield.outgoing import Outgoing
from jackfield.sources.mcp.http import StreamableHttpTransport
from jackfield.sources.mcp.open_calls import CallHandlers
from jackfield.sources.mcp.upstream import ConnectOptions, Upstream

AIOHTTP = ROOT / "bench" / "proxies" / "aiohttp_client.py"
BODY = msgspec.json.encode({"arguments": ECHO})
HEADERS = {"content-type": "application/json"}


class Report(Struct, frozen=True, kw_only=True):
    """One round of one client."""

    calls: int
    cpu_us: float
    p50_us: float


async def http_ours(url: str) -> None:
    """The client of every source, with the address check."""
    async with Outgoing() as outgoing:
        await serve_rounds(lambda: outgoing.request("POST", url, headers=HEADERS, content=BODY, named_by=url))


async def http_httpx2(url: str) -> None:
    """httpx2's own client, without the address check."""
    async with httpx2.AsyncClient() as client:
        await serve_rounds(lambda: client.post(url, headers=HEADERS, content=BODY))


async def mcp_ours(url: str) -> None:
    """Our MCP client; the result stays raw."""
    async with Outgoing() as outgoing:
        upstream = Upstream(
            "bench",
            lambda listener: StreamableHttpTransport(
                "bench", url, headers={}, outgoing=outgoing, named_by=url, listener=listener
            ),
            options=ConnectOptions(seconds=10, first_seconds=10),
        )

        def changed() -> None:
            """A source would refresh its tools."""

        handlers = CallHandlers(report=lambda _: None, note=lambda _: None)
        connection = await upstream.connect(changed)
        params = {"name": "echo", "arguments": ECHO}
        await serve_rounds(lambda: connection.call("tools/call", params, name="echo", handlers=handlers))
        await upstream.release(changed)


async def mcp_sdk(url: str) -> None:
    """The SDK's client over httpx2's own client."""
    async with Client(url) as client:
        await serve_rounds(lambda: client.session.call_tool("echo", ECHO))


CLIENTS = {
    "http": {"ours": http_ours, "httpx2": http_httpx2},
    "mcp": {"ours": mcp_ours, "SDK": mcp_sdk},
}


def main() -> int:
    parser = ArgumentParser(prog="python -m bench.clients", description="Our HTTP and MCP clients beside libraries'.")
    parser.add_argument("--quick", action="store_true", help="three short rounds instead of seven long ones")
    parser.add_argument("--child", nargs=3, metavar=("KIND", "CLIENT", "URL"), help="be one of the clients")
    options = parser.parse_args()
    if options.child:
        kind, name, url = options.child
        uvloop.run(CLIENTS[kind][name](url))
        return 0
    rounds, seconds = (3, 0.5) if options.quick else (7, 2.0)
    try:
        with running_reference() as reference:
            url = f"http://127.0.0.1:{reference.port}/api/v1/tools/echo/execute"
            _print("HTTP POST, 16 in flight", _measured(_commands("http", url), rounds, seconds))
        with running_server("-m", "bench.proxies.upstream") as upstream:
            url = f"http://127.0.0.1:{upstream.port}/mcp"
            _print("MCP tools/call, 16 in flight", _measured(_commands("mcp", url), rounds, seconds))
    except BenchError as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    return 0


def _commands(kind: str, url: str) -> dict[str, list[str]]:
    ours = [sys.executable, "-m", "bench.clients", "--child", kind]
    commands = {name: [*ours, name, url] for name in CLIENTS[kind]}
    if kind == "http":
        commands["aiohttp"] = [uv.find_uv_bin(), "run", "--quiet", "--script", str(AIOHTTP), url, BODY.decode()]
    return commands


def _measured(commands: Mapping[str, list[str]], rounds: int, seconds: float) -> dict[str, list[Report]]:
    with ExitStack() as open_:
        clients = {name: open_.enter_context(_running(command)) for name, command in commands.items()}
        reports: dict[str, list[Report]] = {name: [] for name in clients}
        for number in range(rounds + 1):
            for name, client in clients.items():
                report = _round(name, client, seconds)
                if number:  # the first is to warm up
                    reports[name].append(report)
    return reports


@contextmanager
def _running(command: list[str]) -> Generator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.communicate()  # the end of its stdin ends it


def _round(name: str, client: "subprocess.Popen[bytes]", seconds: float) -> Report:
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(f"{seconds}\n".encode())
    client.stdin.flush()
    line = client.stdout.readline()
    if not line:
        raise BenchError(f"The client {name} ended before its round was over; what it said is above.")
    return msgspec.json.decode(line, type=Report)


def _print(title: str, reports: Mapping[str, list[Report]]) -> None:
    ours = median(report.cpu_us for report in reports["ours"])
    print(f"\n| {title} | CPU per call | to ours | p50 |\n|---|---|---|---|")
    for name, rounds in reports.items():
        cpu, p50 = median(report.cpu_us for report in rounds), median(report.p50_us for report in rounds)
        print(f"| {name} | {cpu:,.0f} µs | {cpu / ours:.1f} | {p50 / 1000:.2f} ms |")


if __name__ == "__main__":
    sys.exit(main())
