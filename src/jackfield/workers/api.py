"""Tool files that run in processes of their own: how they are, and what they say.

Above: `routes.py`. Below: the worker_host.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from jackfield.calls.records import Time
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.model.times import iso_time
from jackfield.workers.host import WorkerStatus
from jackfield.workers.logs import LogLine


class ProcessRecord(Struct, frozen=True, kw_only=True):
    """One process of a worker."""

    pid: int | None
    calls: int
    in_flight: int
    is_retiring: bool
    idle_seconds: float
    started_at: Time


class WorkerRecord(Struct, frozen=True, kw_only=True):
    """One tool file. `state`: idle (no process), installing, starting, running, crashing; `restarts` counts crashes."""

    name: str
    source: str
    file: str
    version: str
    state: str
    calls: int
    restarts: int
    error: str | None
    processes: list[ProcessRecord]


class WorkerList(Struct, frozen=True, kw_only=True):
    """Every tool file that has an environment of its own."""

    workers: list[WorkerRecord]


class LogQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the log."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="How many lines at most, the newest")] = 200
    after: Annotated[int, Meta(ge=0, description="Only lines after the one with this number")] = 0


class LogLineRecord(Struct, frozen=True, kw_only=True):
    """A line that a worker wrote; `span` is there when it was written with the SDK's `log`."""

    number: int
    at: Time
    process: int
    text: str
    span: dict[str, Any] | UnsetType = UNSET


class WorkerLogPage(Struct, frozen=True, kw_only=True):
    """The newest lines, the oldest of them first."""

    lines: list[LogLineRecord]


async def list_workers(visit: Request) -> Response:
    """Every worker, and its processes as they are now."""
    return json_response(WorkerList(workers=[_record(status) for status in visit.gateway.worker_host.statuses()]))


async def show_log(visit: Request) -> Response:
    """What a worker wrote to stdout and stderr, without secrets."""
    wanted = visit.query(LogQuery)
    lines = visit.gateway.worker_host.log(visit.part("name"), limit=wanted.limit, after=wanted.after)
    return json_response(WorkerLogPage(lines=[_line(line) for line in lines]))


def _line(line: LogLine) -> LogLineRecord:
    return LogLineRecord(
        number=line.number,
        at=iso_time(line.at),
        process=line.worker,
        text=line.text,
        span=UNSET if line.span is None else line.span,
    )


def _record(status: WorkerStatus) -> WorkerRecord:
    return WorkerRecord(
        name=status.name,
        source=status.source,
        file=status.file,
        version=status.version,
        state=status.state,
        calls=status.calls,
        restarts=status.restarts,
        error=status.error,
        processes=[
            ProcessRecord(
                pid=process.pid,
                calls=process.calls,
                in_flight=process.in_flight,
                is_retiring=process.is_retiring,
                idle_seconds=process.idle_seconds,
                started_at=iso_time(process.started_at),
            )
            for process in status.processes
        ],
    )
