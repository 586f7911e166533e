"""What is measured, one function per kind of row. In each round all peers take their turn.

Above: `__main__.py`. Below: `peers.py`, the load. A peer that does not do what a row asks gets a cell that says why.
"""

import re
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.comparison.environments import PeerMissing, environment
from bench.comparison.peers import PEERS, Peer
from bench.comparison.places import Place, Running, standing
from bench.comparison.results import Cell
from bench.comparison.talk import StreamWay, mcp_request
from bench.figures import take_turns
from bench.load import Job, Report
from bench.processes import BenchError, Load, StreamLoad, running_load, running_stream_load
from bench.rows.mcp import LEGACY, MODERN
from bench.stream_load import StreamJob

CONNECTIONS = 16
DEAD_PATIENCE, DEAD_ROUNDS = 10.0, 3
FIRST_TOKENS, TOKENS, PACED, PACE = 20, 4_000, 250, 0.002
STARTS, LOADED_CALLS, LOADED_SECONDS = 2, 500, 90.0
_MESSAGE = re.compile(r'"(?:message|detail)": ?"((?:[^"\\]|\\.)*)"')


class Budget(Struct, frozen=True, kw_only=True):
    """How much time a run may take."""

    rounds: int
    seconds: float
    most: int = 1_000_000
    """Calls after which a turn ends before its time."""


QUICK = Budget(rounds=2, seconds=0.5)
FULL = Budget(rounds=5, seconds=1.5)


class RowSpec(Struct, frozen=True, kw_only=True):
    """One row: what is asked, and which of its metrics count."""

    title: str
    metrics: tuple[str, ...] = ("p50_ms", "p99_ms", "per_second", "cpu_us")
    """The first one is the row's own in the overview."""
    question: str = ""
    revision: str = LEGACY
    connections: int = CONNECTIONS
    has_dead: bool = False
    is_added: bool = False
    """Set beside nothing at all by what is added, not by how many times as much it is."""


ROWS: Mapping[str, RowSpec] = {
    "call": RowSpec(title=f"MCP call, {LEGACY}, 16 sessions", question="call"),
    "call-one": RowSpec(title=f"MCP call, {LEGACY}, one at a time", question="call", connections=1),
    "call-modern": RowSpec(title=f"MCP call, {MODERN}, 16 connections", question="call", revision=MODERN),
    "list": RowSpec(title="MCP list of 50 tools, 16 sessions", question="list"),
    "read": RowSpec(title="MCP resource read, 16 sessions", question="read"),
    "http": RowSpec(title="HTTP call of a tool that is an HTTP service, 16 connections"),
    "stream": RowSpec(
        title="streamed answer of a model, one stream",
        metrics=("first_ms", "token_us", "age_us", "token_cpu_us"),
        is_added=True,
    ),
    "list-dead": RowSpec(
        title="MCP list with a second server that has died", question="list", metrics=("p50_ms",), has_dead=True
    ),
    "start": RowSpec(title="start and memory", metrics=("ready_s", "first_start_s", "idle_mb", "loaded_mb")),
}


class World:
    """The peers that a row needs, started before the same servers and running side by side."""

    def __init__(self, place: Place, running: Mapping[str, Running | str]) -> None:
        self.place = place
        self._running = running

    def ready(self, row: str) -> tuple[dict[str, Running], list[Cell]]:
        """Those that can do this row, and cells for the others."""
        able: dict[str, Running] = {}
        others: list[Cell] = []
        for name, running in self._running.items():
            why_not = running if isinstance(running, str) else PEERS[name].lacks.get(row, "")
            if why_not:
                others.append(Cell(peer=name, why_not=why_not))
            elif isinstance(running, Running):
                able[name] = running
        return able, others


@contextmanager
def world(peers: Sequence[str], folder: Path, *, with_dead: bool) -> Generator[World]:
    """All peers running; one that cannot be started is said in its cells."""
    with ExitStack() as open_:
        place = open_.enter_context(standing(with_spare=with_dead))
        running: dict[str, Running | str] = {}
        for name in peers:
            sys.stderr.write(f"       starting {name}\n")
            running[name] = _started(open_, PEERS[name], place, _folder(folder, name, with_dead=with_dead))
        yield World(place, running)


def _started(open_: ExitStack, peer: Peer, place: Place, folder: Path) -> Running | str:
    try:
        if peer.environment:
            environment(peer.environment)
        return open_.enter_context(peer.start(place, folder))
    except (BenchError, OSError) as fault:
        sys.stderr.write(f"       {peer.title} {fault}\n")
        return str(fault) or type(fault).__name__


def _folder(folder: Path, name: str, *, with_dead: bool) -> Path:
    made = folder / f"{name}{'-dead' * with_dead}"
    made.mkdir(parents=True, exist_ok=True)
    return made


def measure(row: str, here: World, budget: Budget) -> list[Cell]:
    """The cells of one row whose peers are running."""
    able, cells = here.ready(row)
    with running_load() as load:
        if row == "stream":
            cells += _streams(able, budget)
        elif row == "http":
            jobs = {name: _http_job(running, budget) for name, running in able.items()}
            cells += _counted(row, load, able, jobs, budget.rounds)
        else:
            jobs, refusals = _mcp_jobs(ROWS[row], able, budget)
            cells += refusals
            if ROWS[row].has_dead:
                here.place.stop_spare()
            rounds = min(budget.rounds, DEAD_ROUNDS) if ROWS[row].has_dead else budget.rounds
            cells += _counted(row, load, able, jobs, rounds)
    return sorted(cells, key=lambda cell: list(PEERS).index(cell.peer))


def _mcp_jobs(spec: RowSpec, able: Mapping[str, Running], budget: Budget) -> tuple[dict[str, Job], list[Cell]]:
    """A job for each peer that opens its sessions."""
    jobs: dict[str, Job] = {}
    refusals: list[Cell] = []
    for name, running in able.items():
        question = running.endpoint.question(spec.question)
        try:
            requests = [mcp_request(running.endpoint, question, spec.revision) for _ in range(spec.connections)]
        except (BenchError, OSError) as fault:
            refusals.append(Cell(peer=name, why_not=str(fault)))
            continue
        job = Job(
            port=running.endpoint.port,
            requests=requests,
            connections=spec.connections,
            seconds=budget.seconds,
            most=budget.most,
            session_each=True,
            unique=question.values,
            has=question.has,
        )
        once = {"connections": 1, "most": 1, "patience": DEAD_PATIENCE} if spec.has_dead else {}
        jobs[name] = msgspec.structs.replace(job, **once)
    return jobs, refusals


def _http_job(running: Running, budget: Budget) -> Job:
    assert running.http is not None
    requests = [running.http.request]
    return Job(port=running.http.port, requests=requests, connections=CONNECTIONS, seconds=budget.seconds, unique=1)


def _counted(row: str, load: Load, able: Mapping[str, Running], jobs: Mapping[str, Job], rounds: int) -> list[Cell]:
    """Each job in turn, round by round; one whose first answer is wrong is not run."""
    cells: list[Cell] = []
    good: dict[str, Job] = {}
    for name, job in jobs.items():
        if ROWS[row].has_dead:
            good[name] = job
            continue
        first = load.count(msgspec.structs.replace(job, connections=1, most=1, seconds=10.0))
        if first.answers:
            good[name] = job
        else:
            cells.append(Cell(peer=name, why_not=refusal(first)))
    taken = take_turns(rounds, *(partial(_turn, row, load, able[name], job) for name, job in good.items()))
    return [*cells, *(_cell(name, job, turns) for (name, job), turns in zip(good.items(), taken, strict=True))]


def _turn(row: str, load: Load, running: Running, job: Job) -> tuple[Report, float]:
    before = running.cost(row).cpu_seconds
    report = load.count(job)
    return report, running.cost(row).cpu_seconds - before


def _cell(name: str, job: Job, turns: Sequence[tuple[Report, float]]) -> Cell:
    """The rounds of one peer. Where no answer came, its time is at least as long as was waited for it."""
    reports = [report for report, _ in turns]
    patience = (job.seconds + job.patience) * 1000
    figures: dict[str, tuple[float, ...]] = {
        "p50_ms": tuple(report.p50_ms if report.answers else patience for report in reports),
        "p99_ms": tuple(report.p99_ms if report.answers else patience for report in reports),
        "per_second": tuple(report.answers / report.seconds for report in reports),
        "cpu_us": tuple(cpu / max(report.answers, 1) * 1e6 for report, cpu in turns),
    }
    return Cell(
        peer=name,
        figures=figures,
        answers=sum(report.answers for report in reports),
        wrong=sum(report.wrong for report in reports),
        crossed=sum(report.crossed for report in reports),
        missing=sum(report.missing for report in reports),
        wrong_answer=next((report.wrong_answer[:1000] for report in reports if report.wrong_answer), ""),
    )


def refusal(report: Report) -> str:
    """What a peer said instead of an answer, in a line."""
    said = _MESSAGE.search(report.wrong_answer)
    if said:
        return f"it answers “{said[1]}”"
    statuses = ", ".join(report.statuses) or report.wrong_answer or "nothing"
    return f"it answers {statuses}"


def _streams(able: Mapping[str, Running], budget: Budget) -> list[Cell]:
    """Each way that a model's answer can be asked for, in turn."""
    ways = [(name, way) for name, running in able.items() for way in running.streams]
    cells: list[Cell] = []
    good: list[tuple[str, StreamWay]] = []
    for name, way in ways:
        with running_stream_load() as load:
            try:
                load.run(_stream_job(way, "tokens=2"))
                good.append((name, way))
            except BenchError as fault:
                cells.append(Cell(peer=name, way=way.says, why_not=f"its stream does not end as it should: {fault}"))
    with running_stream_load() as load:
        turns: list[Callable[[], dict[str, float]]] = [
            partial(_stream_turn, load, able[name], way) for name, way in good
        ]
        taken = take_turns(budget.rounds, *turns)
    for (name, way), rounds in zip(good, taken, strict=True):
        figures = {metric: tuple(each[metric] for each in rounds) for metric in rounds[0]}
        streamed = (FIRST_TOKENS + 2) * len(rounds)
        cells.append(Cell(peer=name, way=way.says, figures=figures, answers=streamed))
    return cells


def _stream_turn(load: StreamLoad, running: Running, way: StreamWay) -> dict[str, float]:
    first = load.run(_stream_job(way, "tokens=1", times=FIRST_TOKENS))
    before = running.cost("stream").cpu_seconds
    fast = load.run(_stream_job(way, f"tokens={TOKENS}"))
    cpu = running.cost("stream").cpu_seconds - before
    paced = load.run(_stream_job(way, f"tokens={PACED} pace={PACE}"))
    if (fast.tokens, paced.tokens) != (TOKENS, PACED):
        raise BenchError(f"{fast.tokens} of {TOKENS} and {paced.tokens} of {PACED} tokens came")
    return {
        "first_ms": first.first_ms,
        "token_us": fast.token_us,
        "age_us": paced.age_p50_us,
        "token_cpu_us": cpu / TOKENS * 1e6,
    }


def _stream_job(way: StreamWay, wish: str, *, times: int = 1) -> StreamJob:
    return StreamJob(port=way.port, request=way.request(wish), key=way.key, times=times)


def measure_starts(peers: Sequence[str], folder: Path, budget: Budget) -> list[Cell]:
    """From the start of the process to the first answered call: in an empty folder, then in the same one again."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in peers}
    faults: dict[str, str] = {}
    starts = min(STARTS, budget.rounds)
    with standing(with_spare=False) as place, running_load() as load:
        for number in range(1 + starts):
            for name in [each for each in peers if each not in faults]:
                its_own = _folder(folder, name, with_dead=False)
                try:
                    found[name].append(_start(load, PEERS[name], place, its_own, is_last=number == starts))
                except (BenchError, OSError) as fault:
                    faults[name] = str(fault)
    return [
        Cell(peer=name, why_not=faults[name]) if name in faults else _start_cell(name, found[name]) for name in peers
    ]


def _start(load: Load, peer: Peer, place: Place, folder: Path, *, is_last: bool) -> dict[str, float]:
    if peer.environment:
        environment(peer.environment)
    began = time.perf_counter()
    with peer.start(place, folder) as running:
        figures = {"ready_s": time.perf_counter() - began, "idle_mb": running.cost().resident_mb}
        if is_last:
            question = running.endpoint.question("call")
            requests = [mcp_request(running.endpoint, question, LEGACY) for _ in range(CONNECTIONS)]
            report = load.count(
                Job(
                    port=running.endpoint.port,
                    requests=requests,
                    connections=CONNECTIONS,
                    seconds=LOADED_SECONDS,
                    most=LOADED_CALLS,
                    session_each=True,
                    unique=question.values,
                )
            )
            if report.answers + report.wrong + report.crossed < LOADED_CALLS:
                raise PeerMissing(f"answered {report.answers} of {LOADED_CALLS} calls within {LOADED_SECONDS:g} s")
            figures["loaded_mb"] = running.cost().resident_mb
    return figures


def _start_cell(name: str, starts: Sequence[dict[str, float]]) -> Cell:
    first, *again = starts
    return Cell(
        peer=name,
        figures={
            "ready_s": tuple(start["ready_s"] for start in again),
            "first_start_s": (first["ready_s"],),
            "idle_mb": tuple(start["idle_mb"] for start in again),
            "loaded_mb": tuple(start["loaded_mb"] for start in again if "loaded_mb" in start),
        },
        answers=LOADED_CALLS,
    )
