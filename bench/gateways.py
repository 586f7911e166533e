"""What several gateways on one PostgreSQL do, and what each call costs that database.

    python -m bench.gateways [--gateways 1 2 4] [--seconds 8] [--write]

For each number of gateways: so many echo calls as they take from 64 connections, and 2,000 more whose statements
PostgreSQL writes into its log. Then cycles of agents: a message to each of 32 agents, which reply, again and again. The
database waits for its disk as one in production does. `--write` puts the table into docs/scale.md.

Above: `make bench-gateways`. Below: gateways, the load and PostgreSQL as processes of their own.
"""

import os
import re
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from bench.document import write_into
from bench.load import Job, Report
from bench.machine import machine_sentence
from bench.processes import ROOT, BenchError, Load, Server, running_gateway, running_load
from bench.subjects import echo_request, write_echo_project
from tests.postgres import PostgresServer

DOCUMENT = ROOT / "docs" / "scale.md"
VAULT_KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
CONNECTIONS = 64
COUNTED = 2_000
AGENTS = 32
REPLIED_WITHIN = 60.0
IDLE_SECONDS = 5.0
SETTLE_SECONDS = 1.2
FLUSHED_SECONDS = 11.0  # until connections that do nothing have told what they did
DURABLE = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"}
STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*): (.*)")
COUNTERS = """
SELECT xact_commit, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint FROM pg_stat_database
WHERE datname = current_database()
"""
AGENT = """
[agents.agent{n}]
model = "mind"
spaces = ["space{n}"]
"""
MIND = """
[[turns]]
when = {{ result = "send_message" }}
calls = [{{ tool = "skip", arguments = {{ reason = "It is said." }} }}]
[[turns]]
when = {{ result = "enter_space" }}
calls = [{{ tool = "send_message", arguments = {{ text = "So it is." }} }}]
{turns}"""
TURN = """
[[turns]]
when = {{ user = 'spaceId: space{n}\\b' }}
calls = [{{ tool = "enter_space", arguments = {{ spaceId = "space{n}" }} }}]
"""


class Cost(Struct, frozen=True, kw_only=True):
    """Of one call, one cycle, or one second."""

    says: str
    rate: float | None
    times_ms: tuple[float, float] | None
    """p50 and p99 at the slowest gateway."""
    gateway_ms: float
    postgres_ms: float
    statements: float
    notifies: float
    commits: float
    wal_bytes: float


class Meter(Struct, frozen=True):
    """Where the counters stand."""

    gateways: float
    postgres: float
    commits: int
    wal: int

    def __sub__(self, before: "Meter") -> "Meter":
        now, then = msgspec.structs.astuple(self), msgspec.structs.astuple(before)
        return Meter(*(one - other for one, other in zip(now, then, strict=True)))


class Logged(Struct):
    """Statements of some calls or cycles."""

    statements: int = 0
    notifies: int = 0
    of: float = 1


def main() -> int:
    options = _options()
    with TemporaryDirectory(prefix="jackfield-gateways-") as name:
        folder = Path(name)
        said = [f"- Machine: {machine_sentence(folder)}; the load, the gateways and PostgreSQL share it.", ""]
        costs = []
        for count in options.gateways:
            sys.stderr.write(f"{count} gateway(s)\n")
            costs += measure(folder / str(count), count, options.seconds)
    report = "\n".join([*said, *table(costs)])
    print(report)
    if options.write:
        write_into(DOCUMENT, report)
    return 0


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m bench.gateways", description="Several gateways on one PostgreSQL.")
    parser.add_argument("--gateways", type=int, nargs="+", default=[1, 2, 4], metavar="N")
    parser.add_argument("--seconds", type=float, default=8.0, help="of load for each number of gateways")
    parser.add_argument("--write", action="store_true", help=f"also put the table into {DOCUMENT.relative_to(ROOT)}")
    return parser.parse_args()


def measure(folder: Path, count: int, seconds: float) -> list[Cost]:
    """The costs with so many gateways on a database of their own."""
    what = f"{count} gateway{'s' * (count > 1)}"
    with cluster(folder, count) as (postgres, gateways), loads(count) as load:
        _send(load, gateways, seconds=1.0)
        before = _meter(postgres, gateways)
        reports = _send(load, gateways, seconds=seconds)
        used = _meter(postgres, gateways) - before
        with logged(postgres) as log:
            log.of = sum(report.answers for report in _send(load, gateways, seconds=60.0, most=COUNTED))
        calls, took = sum(report.answers for report in reports), max(report.seconds for report in reports)
        slowest = (max(report.p50_ms for report in reports), max(report.p99_ms for report in reports))
        costs = [_cost(f"{what}: calls", used, calls, took, log, times=slowest)]
        costs.append(_cycles(f"{what}: cycles of agents", postgres, gateways, rounds=max(1, int(seconds / 2))))
        return [*costs, _idle(f"{what}: a second of nothing", postgres, gateways)]


@contextmanager
def cluster(folder: Path, count: int) -> Iterator[tuple[PostgresServer, list[Server]]]:
    """So many gateways on a PostgreSQL of their own."""
    postgres = PostgresServer(**DURABLE)
    try:
        postgres.start()
        env = {"JACKFIELD_STORE": postgres.url(), "JACKFIELD_VAULT_KEY": VAULT_KEY}
        with ExitStack() as stack:
            gateways = []
            for number in range(count):
                project = write_echo_project(folder / f"gateway{number}")
                _add_agents(project)
                gateways.append(stack.enter_context(running_gateway(project, tools=1, env=env)))
            yield postgres, gateways
    finally:
        postgres.remove()


def _add_agents(project: Path) -> None:
    config = project / "jackfield.toml"
    agents = "".join(AGENT.format(n=n) for n in range(AGENTS))
    model = '\n[models.mind]\nprovider = "scripted"\nscript = "mind.toml"\n'
    config.write_text(config.read_text(encoding="utf-8") + model + agents, encoding="utf-8")
    mind = MIND.format(turns="".join(TURN.format(n=n) for n in range(AGENTS)))
    (project / "mind.toml").write_text(mind, encoding="utf-8")


@contextmanager
def loads(count: int) -> Iterator[list[Load]]:
    """A process for each gateway."""
    with ExitStack() as stack:
        yield [stack.enter_context(running_load()) for _ in range(count)]


def _send(load: Sequence[Load], gateways: Sequence[Server], *, seconds: float, most: int = 10**6) -> list[Report]:
    jobs = [
        Job(
            port=gateway.port,
            requests=[echo_request()],
            connections=CONNECTIONS // len(gateways),
            seconds=seconds,
            most=most // len(gateways),
        )
        for gateway in gateways
    ]
    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(lambda one: one[0].run(one[1], expect=200), zip(load, jobs, strict=True)))


def _idle(says: str, postgres: PostgresServer, gateways: Sequence[Server]) -> Cost:
    """What is done all the same: heartbeats, sweeps, looking for work."""
    time.sleep(FLUSHED_SECONDS)
    with logged(postgres) as log:
        before = _meter(postgres, gateways)
        time.sleep(IDLE_SECONDS)
        used = _meter(postgres, gateways) - before
        log.of = IDLE_SECONDS + 2 * SETTLE_SECONDS
    return _cost(says, used, IDLE_SECONDS + SETTLE_SECONDS, None, log)


def _cycles(says: str, postgres: PostgresServer, gateways: Sequence[Server], *, rounds: int) -> Cost:
    """Messages to agents at all gateways in turn; the next round when all have replied."""
    _round(postgres, gateways)
    before = _meter(postgres, gateways)
    done = sum(_round(postgres, gateways) for _ in range(rounds))
    used = _meter(postgres, gateways) - before
    with logged(postgres) as log:
        log.of = _round(postgres, gateways)
    return _cost(says, used, done, None, log)


def _round(postgres: PostgresServer, gateways: Sequence[Server]) -> int:
    """A message to every agent, until all have replied; how many cycles that took."""
    done, end = _cycles_done(postgres), time.monotonic() + REPLIED_WITHIN
    for number in range(AGENTS):
        gateway = gateways[number % len(gateways)]
        path = f"/api/spaces/space{number}/messages"
        status, answer = gateway.ask(path, b'{"content":"Is it so?"}', {"content-type": "application/json"})
        if status != 201:
            raise BenchError(f"A message was answered {status}: {answer!r}")
    while _cycles_done(postgres) < done + AGENTS:
        if time.monotonic() > end:
            raise BenchError(f"{_cycles_done(postgres) - done} of {AGENTS} agents replied.")
        time.sleep(1.0)  # asking starts a process of PostgreSQL, which costs as much as some cycles
    return _cycles_done(postgres) - done


def _cycles_done(postgres: PostgresServer) -> int:
    return int(postgres.run("SELECT count(*) FROM runs WHERE kind = 'cycle' AND finished_at IS NOT NULL"))


@contextmanager
def logged(postgres: PostgresServer) -> Iterator[Logged]:
    """The statements that are carried out meanwhile; counted at the end."""
    counted = Logged()
    log = postgres.folder / "log"
    postgres.run("ALTER SYSTEM SET log_statement = 'all'", "SELECT pg_reload_conf()")
    time.sleep(0.5)  # every backend reads its config before its next statement
    begin = log.stat().st_size
    yield counted
    text = log.read_bytes()[begin:].decode(errors="replace")
    postgres.run("ALTER SYSTEM RESET log_statement", "SELECT pg_reload_conf()")
    for statement in STATEMENT.findall(text):
        counted.statements += 1
        counted.notifies += "pg_notify" in statement


def _meter(postgres: PostgresServer, gateways: Sequence[Server]) -> Meter:
    time.sleep(SETTLE_SECONDS)  # PostgreSQL's counters are a second behind
    commits, wal = map(int, postgres.run(COUNTERS).split("|"))
    return Meter(sum(one.cpu_seconds or 0.0 for one in gateways), _postgres_cpu(postgres), commits, wal)


def _postgres_cpu(postgres: PostgresServer) -> float:
    """Processor time of the server and its children, those that have ended included."""
    pid = int((postgres.folder / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(stat.parent.name) == pid:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == pid:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _cost(
    says: str, used: Meter, count: float, took: float | None, log: Logged, *, times: tuple[float, float] | None = None
) -> Cost:
    return Cost(
        says=says,
        rate=None if took is None else count / took,
        times_ms=times,
        gateway_ms=used.gateways / count * 1000,
        postgres_ms=used.postgres / count * 1000,
        statements=log.statements / log.of,
        notifies=log.notifies / log.of,
        commits=used.commits / count,
        wal_bytes=used.wal / count,
    )


def table(costs: Sequence[Cost]) -> Iterator[str]:
    """Markdown."""
    yield "| | a second | p50 / p99 | gateway CPU | PostgreSQL CPU | statements | commits | WAL | NOTIFYs |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for one in costs:
        times = "–" if one.times_ms is None else "{:.1f} / {:.1f} ms".format(*one.times_ms)
        rate = "–" if one.rate is None else f"{one.rate:,.0f}"
        yield (
            f"| {one.says} | {rate} | {times} | {one.gateway_ms:.2f} ms | {one.postgres_ms:.3f} ms | "
            f"{one.statements:.2f} | {one.commits:.3f} | {one.wal_bytes:,.0f} B | {one.notifies:.3f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
