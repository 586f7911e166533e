"""The processes of a run: gateways, the reference server, the load. Each is started here and stopped by its pid.

Above: the rows that measure over HTTP. Below: `jackfield serve`, `bench.reference`, `bench.load`.
"""

import os
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from bench.crowd_load import CrowdJob, CrowdReport
from bench.figures import Sample
from bench.load import Job, Report
from bench.stream_load import StreamJob, StreamReport

R = TypeVar("R")

ROOT = Path(__file__).parent.parent
READY_WITHIN = 60.0
STOPPED_WITHIN = 15.0
KEY = "key-of-the-bench"


class BenchError(Exception):
    """Something did not do what was to be measured, so there is nothing to report."""


class Server(Struct, frozen=True):
    """A process that answers on a port of this machine."""

    process: "subprocess.Popen[bytes]"
    port: int

    @property
    def cpu_seconds(self) -> float | None:
        """Processor time of all its threads so far, user and system; None where there is no /proc."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident_kb(self) -> float | None:
        """What it holds in memory now; None where there is no /proc."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        except OSError:
            return None
        return next(float(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def get(self, path: str) -> "Got":
        """One request with the bench's key; for questions beside the measuring."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request("GET", path, headers={"x-api-key": KEY})
            answer = connection.getresponse()
            return Got(answer.status, answer.getheader("etag"), answer.read())

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> "tuple[int, Mapping[str, str]]":
        """One request with the bench's key: the status, and the headers by their names in small letters."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request("POST", path, body, {"x-api-key": KEY, **headers})
            answer = connection.getresponse()
            answer.read()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}

    def ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """As `post`: the status and the whole answer."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("POST", path, body, {"x-api-key": KEY, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()


class Got(Struct, frozen=True):
    """One whole answer."""

    status: int
    etag: str | None
    body: bytes


class JobTaker:
    """A process that takes a job as a line and answers with a report."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def _exchange(self, job: Struct, report: type[R]) -> R:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(job) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"{type(self).__name__} ended before its job was done; what it said is above.")
        return msgspec.json.decode(line, type=report)


class Load(JobTaker):
    """The process that makes the load."""

    def run(self, job: Job, *, expect: int) -> Report:
        """One job to its end. An answer of another status than `expect` makes the whole run worthless."""
        report = self._exchange(job, Report)
        if report.statuses != {str(expect): report.answers}:
            raise BenchError(
                f"Answers had the statuses {report.statuses}, not {expect} only. The last: {report.last_answer}"
            )
        return report

    def count(self, job: Job) -> Report:
        """One job whose wrong answers are counted."""
        return self._exchange(job, Report)

    def rate(self, server: Server, job: Job, *, expect: int = 200) -> Sample:
        """Answers a second, with what each cost the server."""
        before = server.cpu_seconds
        report = self.run(job, expect=expect)
        return Sample(value=report.answers / report.seconds, cpu_us=_cpu_us(server, before, report))

    def median_ms(self, server: Server, job: Job, *, expect: int = 200) -> Sample:
        """The median time to a whole answer, with what each cost the server."""
        before = server.cpu_seconds
        report = self.run(job, expect=expect)
        return Sample(
            value=report.p50_ms,
            cpu_us=_cpu_us(server, before, report),
            tail=report.p99_ms / report.p50_ms,
            rate=report.answers / report.seconds,
        )


def _cpu_us(server: Server, before: float | None, report: Report) -> float | None:
    after = server.cpu_seconds
    return None if before is None or after is None else (after - before) / report.answers * 1e6


@contextmanager
def _taking_jobs(module: str) -> "Generator[subprocess.Popen[bytes]]":
    """A module of the bench as a process, idle until it is given a job."""
    process = subprocess.Popen([sys.executable, "-m", module], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with stopping(process):
        yield process


@contextmanager
def running_load() -> Generator[Load]:
    """The load's process, idle until it is given a job."""
    with _taking_jobs("bench.load") as process:
        yield Load(process)


class StreamLoad(JobTaker):
    """The process that asks for streams."""

    def run(self, job: StreamJob) -> StreamReport:
        """One job to its end. A stream that does not come to its end makes the whole run worthless."""
        report = self._exchange(job, StreamReport)
        if not job.hold and report.ended != job.streams * job.times:
            raise BenchError(f"{report.ended} of {job.streams * job.times} streams came to their end.")
        return report


@contextmanager
def running_stream_load() -> Generator[StreamLoad]:
    """The process that asks for streams, idle until it is given a job."""
    with _taking_jobs("bench.stream_load") as process:
        yield StreamLoad(process)


class CrowdLoad(JobTaker):
    """The process in which a crowd follows one stream."""

    def run(self, job: CrowdJob) -> CrowdReport:
        """One job to its end. A follower that misses something makes the whole run worthless."""
        report = self._exchange(job, CrowdReport)
        if report.deliveries != report.expected:
            raise BenchError(f"{report.deliveries} of {report.expected} events arrived.")
        return report


@contextmanager
def running_crowd_load() -> Generator[CrowdLoad]:
    """The process in which a crowd follows one stream, idle until it is given a job."""
    with _taking_jobs("bench.crowd_load") as process:
        yield CrowdLoad(process)


@contextmanager
def running_chat_model() -> Generator[Server]:
    """The model server that costs next to nothing."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.chat_model"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    with stopping(process):
        assert process.stdout is not None
        yield Server(process, int(process.stdout.readline()))


@contextmanager
def running_gateway(folder: Path, *, tools: int, env: Mapping[str, str] | None = None) -> Generator[Server]:
    """`jackfield serve` on the project in `folder`, from when it offers so many tools."""
    with (folder / "gateway.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jackfield.cli", "serve"],
            cwd=folder,
            env={**_without_settings(), "JACKFIELD_PORT": "0", "JACKFIELD_ADMIN_KEY": KEY, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    with stopping(process):
        yield _ready_gateway(process, folder, tools=tools)


@contextmanager
def running_reference(manifest: Path | None = None) -> Generator[Server]:
    """The bare Starlette server, with the bytes it is to give as a manifest."""
    with running_server("-m", "bench.reference", *([str(manifest)] if manifest else [])) as server:
        yield server


@contextmanager
def running_server(*arguments: str, python: str = sys.executable) -> Generator[Server]:
    """A Python program that prints its port and serves."""
    process = subprocess.Popen(
        [python, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=_without_settings()
    )
    with stopping(process):
        assert process.stdout is not None
        port = process.stdout.readline()
        if not port:
            raise BenchError(f"{' '.join(arguments)} ended before it served; what it said is above.")
        yield Server(process, int(port))


def _without_settings() -> dict[str, str]:
    """This process's environment, without what would change a gateway."""
    return {name: value for name, value in os.environ.items() if not name.startswith("JACKFIELD_")}


def _ready_gateway(process: "subprocess.Popen[bytes]", folder: Path, *, tools: int) -> Server:
    note, end = folder / ".jackfield" / "gateway.json", time.monotonic() + READY_WITHIN
    while time.monotonic() < end and process.poll() is None:
        try:
            port = int(msgspec.json.decode(note.read_bytes())["url"].rpartition(":")[2])
            answer = Server(process, port).get("/readyz")
        except (OSError, HTTPException, msgspec.DecodeError):
            answer = Got(0, None, b"")
        if answer.status == 200 and _tools_offered(answer) >= tools:
            return Server(process, port)
        time.sleep(0.02)
    said = (folder / "gateway.log").read_text(encoding="utf-8")
    raise BenchError(f"The gateway did not come up with {tools} tools within {READY_WITHIN:g} s. It said: {said}")


def _tools_offered(readiness: Got) -> int:
    return sum(source["tools"] for source in msgspec.json.decode(readiness.body)["sources"])


@contextmanager
def stopping(process: "subprocess.Popen[bytes]") -> Generator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOPPED_WITHIN)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
