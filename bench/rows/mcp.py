"""One MCP call through the gateway, beside the same call through other proxies and to the server itself.

All stand before the same upstream server, made with the SDK. The load speaks MCP by hand, with bodies prepared: over 16
connections with a session each and one by one, in the handshake era, and over 16 connections in the era without
sessions.
"""

import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec
import uv
from msgspec import Struct

from bench.budget import Bench, Budget
from bench.figures import MILLISECONDS, TAIL, Bar, Figure, Line, Sample, lines_beside, take_turns
from bench.load import Job
from bench.processes import ROOT, BenchError, Load, Server, running_gateway, running_load, running_server
from bench.subjects import ECHO, http_request

CONNECTIONS = 16
FAST = ROOT / "bench" / "proxies" / "fast.py"
INSTALL_SECONDS = 300
CONFIG = '[sources.upstream]\nkind = "mcp"\nurl = "http://127.0.0.1:{port}/mcp"\n'
LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
TALK = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
OURS, PLAIN, FASTMCP, DIRECT = "gateway", "plain SDK proxy", "FastMCP's shared proxy", "direct call"
RELAY = "bare relay of bytes"
BESIDE_DIRECT = {
    "CPU per call": Bar(limit=1.0),
    "calls a second": Bar(limit=0.85, at_least=True),
    "p99 by p50": Bar(limit=TAIL, of_ratio=False),
}
Sides = Mapping[str, Server]


class Way(Struct, frozen=True, kw_only=True):
    """How the load calls."""

    says: str
    revision: str
    connections: int
    note: str = ""


WAYS = (
    Way(says="16 sessions", revision=LEGACY, connections=CONNECTIONS),
    Way(
        says="one by one",
        revision=LEGACY,
        connections=1,
        note="each call waits for a commit and an fsync of its own; the proxies write nothing down",
    ),
    Way(says=f"16 connections, {MODERN}", revision=MODERN, connections=CONNECTIONS),
)


def measure(bench: Bench) -> list[Line]:
    """Milliseconds to an answer, p50, and what each call costs the process in the middle."""
    python, why_not = _fastmcp()
    with ExitStack() as open_, running_load() as load:
        upstream = open_.enter_context(running_server("-m", "bench.proxies.upstream"))
        url = f"http://127.0.0.1:{upstream.port}/mcp"
        sides = {
            OURS: open_.enter_context(gateway_before(bench.folder / "mcp", upstream.port)),
            PLAIN: open_.enter_context(running_server("-m", "bench.proxies.plain", url)),
            RELAY: open_.enter_context(running_server("-m", "bench.bare_relay", str(upstream.port))),
            DIRECT: upstream,
        }
        if python is not None:
            sides[FASTMCP] = open_.enter_context(running_server(str(FAST), url, python=python))
        return [line for way in WAYS for line in _lines(way, _measured(load, sides, way, bench.budget), why_not)]


def _measured(load: Load, sides: Sides, way: Way, budget: Budget) -> dict[str, Figure]:
    jobs = {name: _job(server, way, budget) for name, server in sides.items()}
    for name, job in jobs.items():
        _check(load, name, job)
    turns: list[Callable[[], Sample]] = [partial(load.median_ms, sides[name], job) for name, job in jobs.items()]
    taken = take_turns(budget.rounds, *turns)
    return {name: Figure(unit=MILLISECONDS, samples=samples) for name, samples in zip(jobs, taken, strict=True)}


def _lines(way: Way, figures: Mapping[str, Figure], why_not: str) -> list[Line]:
    row, ours = f"MCP call through the gateway, {way.says}", figures[OURS]
    timed = f"{row}, p50"
    notes = [way.note, f"FastMCP could not be installed, so it was not measured: {why_not}" if why_not else ""]
    note = "; ".join(filter(None, notes))
    lines = [line_of(timed, ours, figures[PLAIN], PLAIN, Bar(limit=0.7), note=note)]
    lines += lines_beside(row, ours, figures[PLAIN], PLAIN, {"CPU per call": Bar(limit=0.7)})
    if FASTMCP in figures:
        lines.append(line_of(timed, ours, figures[FASTMCP], FASTMCP, Bar(limit=1 / 3)))
    lines.append(line_of(timed, ours, figures[DIRECT], DIRECT, Bar(limit=2.0)))
    lines += lines_beside(row, ours, figures[DIRECT], DIRECT, BESIDE_DIRECT)
    lines.append(
        line_of(
            f"MCP call through a relay that looks at nothing, {way.says}, p50",
            figures[RELAY],
            figures[DIRECT],
            DIRECT,
            None,
        )
    )
    return lines


def line_of(row: str, ours: Figure, other: Figure, named: str, bar: Bar | None, *, note: str = "") -> Line:
    return Line(says=row, ours=ours, reference=other, reference_is=named, bar=bar, note=note)


def _job(server: Server, way: Way, budget: Budget) -> Job:
    requests = [_request(server, way.revision) for _ in range(way.connections)]
    return Job(
        port=server.port,
        requests=requests,
        connections=way.connections,
        seconds=budget.seconds,
        session_each=True,
    )


def _request(server: Server, revision: str) -> str:
    return mcp_request(server, revision, "tools/call", {"name": "echo", "arguments": ECHO}, named="echo")


def mcp_request(server: Server, revision: str, method: str, params: Mapping[str, object], *, named: str) -> str:
    """A whole request, in a session of its own where the revision has them."""
    sent = dict(params)
    if revision == MODERN:
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": named}
        sent["_meta"] = META
    else:
        headers = {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": open_session(server)}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": sent})
    host = f"127.0.0.1:{server.port}"  # the SDK's servers want the port as well
    return http_request("POST", "/mcp", body=body, headers={"Host": host, "Accept": TALK["Accept"], **headers})


def open_session(server: Server) -> str:
    """The id of a session that has been opened."""
    opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}
    _, headers = server.post("/mcp", msgspec.json.encode(hello), TALK)
    session = headers.get("mcp-session-id")
    if session is None:
        raise BenchError(f"The MCP server on port {server.port} opened no session.")
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    status, _ = server.post("/mcp", msgspec.json.encode(ready), {**TALK, "Mcp-Session-Id": session})
    if status != 202:
        raise BenchError(f"The MCP server on port {server.port} answered {status} to the end of the handshake.")
    return session


def _check(load: Load, name: str, job: Job) -> None:
    """One answer, to see that calls arrive at the tool."""
    once = msgspec.structs.replace(job, connections=1, seconds=10.0, most=1)
    answer = load.run(once, expect=200).last_answer
    if str(ECHO["text"]) not in answer or '"isError":true' in answer:
        raise BenchError(f"The echo tool did not answer through the {name}: {answer}")


@contextmanager
def gateway_before(folder: Path, port: int) -> Generator[Server]:
    folder.mkdir()
    (folder / "jackfield.toml").write_text(CONFIG.format(port=port), encoding="utf-8")
    with running_gateway(folder, tools=1) as gateway:
        yield gateway


def _fastmcp() -> tuple[str | None, str]:
    """The Python of an environment with FastMCP, which is no dependency of ours; or why there is none."""
    try:
        for command in (("sync", "--quiet"), ("python", "find")):
            said = subprocess.run(
                [uv.find_uv_bin(), *command, "--script", str(FAST)],
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
                check=True,
            )
    except (OSError, subprocess.SubprocessError) as fault:
        said_why = getattr(fault, "stderr", None) or str(fault)
        sys.stderr.write(f"FastMCP cannot be installed: {said_why}\n")
        return None, said_why.strip().splitlines()[-1]
    return said.stdout.strip(), ""
