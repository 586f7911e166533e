"""`/api/v1/workers`: tool files that run in worker processes, and their logs."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time
from jackfield.workers.host import WorkerHost, WorkerRecord
from jackfield.workers.logs import LogLine


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


class WorkerApi:
    """Handlers of `/api/v1/workers`."""

    def __init__(self, worker_host: WorkerHost) -> None:
        self._worker_host = worker_host

    async def list_workers(self, _: Request) -> Response:
        """Every worker, and its processes as they are now."""
        return json_response(WorkerList(workers=self._worker_host.statuses()))

    async def show_log(self, request: Request) -> Response:
        """What a worker wrote to stdout and stderr, without secrets."""
        query = request.query(LogQuery)
        lines = self._worker_host.log(request.part("name"), limit=query.limit, after=query.after)
        return json_response(WorkerLogPage(lines=[_line(line) for line in lines]))


def routes(worker_host: WorkerHost) -> list[Route]:
    api = WorkerApi(worker_host)
    return [
        Route(
            method="GET",
            path="/api/v1/workers",
            handler=api.list_workers,
            scope=Scope.ADMIN,
            tag="Workers",
            summary="Tool files that run in processes of their own",
            responses={
                200: ResponseSpec(
                    description="Each file, its version, state, calls, restarts and processes", type=WorkerList
                )
            },
        ),
        Route(
            method="GET",
            path="/api/v1/workers/{name}/log",
            path_takes_slashes=True,
            handler=api.show_log,
            scope=Scope.ADMIN,
            tag="Workers",
            summary="What a worker wrote to stdout and stderr",
            query=LogQuery,
            responses={200: ResponseSpec(description="The newest lines", type=WorkerLogPage)},
            errors=(404,),
        ),
    ]


def _line(line: LogLine) -> LogLineRecord:
    return LogLineRecord(
        number=line.number,
        at=iso_time(line.at),
        process=line.worker,
        text=line.text,
        span=UNSET if line.span is None else line.span,
    )
