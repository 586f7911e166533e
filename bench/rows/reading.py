"""Resources and prompts through the gateway, beside the same through the plain SDK proxy and from the server itself.

A read and a prompt pass through; the list of all resources is served from the catalog, page by page over one
connection, where the proxy asks the server for each page.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

import msgspec
from msgspec import Struct

from bench.budget import Bench, Budget
from bench.figures import MILLISECONDS, Bar, Figure, Line, Sample, take_turns
from bench.load import Job
from bench.processes import BenchError, Load, Server, running_load, running_server
from bench.rows.mcp import (
    CONNECTIONS,
    DIRECT,
    LEGACY,
    MODERN,
    OURS,
    PLAIN,
    TALK,
    Sides,
    gateway_before,
    line_of,
    mcp_request,
    open_session,
)

RESOURCES = 10_000
LISTED_WITHIN_MS = 5
LIST = "resources/list"
URI = "notes:///04711.txt"


class Question(Struct, frozen=True, kw_only=True):
    """What the load asks for."""

    what: str
    method: str
    params: Mapping[str, object]
    named: str
    answered: str
    """A part of each answer."""


QUESTIONS = (
    Question(what="read", method="resources/read", params={"uri": URI}, named=URI, answered=f"The text of {URI}"),
    Question(
        what="prompt",
        method="prompts/get",
        params={"name": "greet", "arguments": {"name": "Ada"}},
        named="greet",
        answered="Greet Ada.",
    ),
)
WAYS = ((f"{CONNECTIONS} sessions", LEGACY), (f"{CONNECTIONS} connections, {MODERN}", MODERN))


def measure(bench: Bench) -> list[Line]:
    """Milliseconds to an answer, p50, and what each costs the process in the middle."""
    with ExitStack() as open_, running_load() as load:
        upstream = open_.enter_context(running_server("-m", "bench.proxies.upstream", str(RESOURCES)))
        url = f"http://127.0.0.1:{upstream.port}/mcp"
        sides = {
            OURS: open_.enter_context(gateway_before(bench.folder / "reading", upstream.port)),
            PLAIN: open_.enter_context(running_server("-m", "bench.proxies.plain", url)),
            DIRECT: upstream,
        }
        lines = _list_lines(load, sides, bench.budget)
        for question in QUESTIONS:
            for called, revision in WAYS:
                row = f"MCP {question.what} through the gateway, {called}"
                lines += _lines(row, question, revision, load, sides, bench.budget)
        return lines


def _lines(  # noqa: PLR0917 - what is measured, and with what
    row: str, question: Question, revision: str, load: Load, sides: Sides, budget: Budget
) -> list[Line]:
    jobs = {name: _job(server, question, revision, budget) for name, server in sides.items()}
    for name, job in jobs.items():
        once = msgspec.structs.replace(job, connections=1, seconds=10.0, most=1)
        if question.answered not in (answer := load.run(once, expect=200).last_answer):
            raise BenchError(f"The {question.what} did not arrive through the {name}: {answer}")
    taken = take_turns(budget.rounds, *(partial(load.median_ms, sides[name], job) for name, job in jobs.items()))
    figures = {name: Figure(unit=MILLISECONDS, samples=one) for name, one in zip(jobs, taken, strict=True)}
    lines = [line_of(f"{row}, p50", figures[OURS], figures[PLAIN], PLAIN, Bar(limit=0.7))]
    ours, plain = figures[OURS].costs, figures[PLAIN].costs
    if ours is not None and plain is not None:
        lines.append(line_of(f"{row}, CPU per call", ours, plain, PLAIN, Bar(limit=0.7)))
    return [*lines, line_of(f"{row}, p50", figures[OURS], figures[DIRECT], DIRECT, None)]


def _job(server: Server, question: Question, revision: str, budget: Budget) -> Job:
    requests = [
        mcp_request(server, revision, question.method, question.params, named=question.named)
        for _ in range(CONNECTIONS)
    ]
    return Job(port=server.port, requests=requests, connections=CONNECTIONS, seconds=budget.seconds, session_each=True)


def _list_lines(load: Load, sides: Sides, budget: Budget) -> list[Line]:
    jobs = {name: _list_job(sides[name], budget) for name in (OURS, PLAIN)}
    taken = take_turns(budget.rounds, *(partial(_whole_list, load, sides[name], job) for name, job in jobs.items()))
    ours, plain = (Figure(unit=MILLISECONDS, samples=samples) for samples in taken)
    row = f"MCP list of {RESOURCES:,} resources from the catalog, all pages"
    return [line_of(row, ours, plain, PLAIN, Bar(limit=LISTED_WITHIN_MS, of_ratio=False))]


def _whole_list(load: Load, server: Server, job: Job) -> Sample:
    page, pages = load.median_ms(server, job), len(job.requests)
    return Sample(value=page.value * pages, cpu_us=None if page.cpu_us is None else page.cpu_us * pages)


def _list_job(server: Server, budget: Budget) -> Job:
    """A request for each page, in one session."""
    headers = {**TALK, "MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": open_session(server)}
    cursors: list[str | None] = [None]
    listed = 0
    while True:
        params = {} if cursors[-1] is None else {"cursor": cursors[-1]}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": LIST, "params": params})
        status, answer = server.ask("/mcp", body, headers)
        if status != 200:
            raise BenchError(f"The server on port {server.port} answered {status} to {LIST}.")
        result = msgspec.json.decode(answer)["result"]
        listed += len(result["resources"])
        if result.get("nextCursor") is None:
            break
        cursors.append(result["nextCursor"])
    if listed != RESOURCES:
        raise BenchError(f"The server on port {server.port} lists {listed} resources, not {RESOURCES}.")
    requests = [
        mcp_request(server, LEGACY, LIST, {} if cursor is None else {"cursor": cursor}, named="") for cursor in cursors
    ]
    return Job(port=server.port, requests=requests, connections=1, seconds=budget.seconds)
