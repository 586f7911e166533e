"""The doors to sources and workers. Above: `routes.py`. Below: `sources.py`, `workers.py`."""

from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.sources.api import OneSource, SourceList, list_sources, show_source
from jackfield.workers.api import LogQuery, WorkerList, WorkerLogPage, list_workers, show_log

WORKER_DOORS: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/v1/sources",
        handler=list_sources,
        needs=Scope.ADMIN,
        group="Sources",
        summary="Where the tools come from",
        answers={200: ResponseSpec(says="Each source, how it is and what it said last", type=SourceList)},
    ),
    Route(
        method="GET",
        path="/api/v1/sources/{name}",
        handler=show_source,
        needs=Scope.ADMIN,
        group="Sources",
        summary="One source of tools",
        answers={200: ResponseSpec(says="How it is, and what it said last", type=OneSource)},
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="/api/v1/workers",
        handler=list_workers,
        needs=Scope.ADMIN,
        group="Workers",
        summary="Tool files that run in processes of their own",
        answers={
            200: ResponseSpec(says="Each file, its version, state, calls, restarts and processes", type=WorkerList)
        },
    ),
    Route(
        method="GET",
        path="/api/v1/workers/{name}/log",
        path_takes_slashes=True,
        handler=show_log,
        needs=Scope.ADMIN,
        group="Workers",
        summary="What a worker wrote to stdout and stderr",
        query=LogQuery,
        answers={200: ResponseSpec(says="The newest lines", type=WorkerLogPage)},
        refusals=(404,),
    ),
)
