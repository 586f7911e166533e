"""The doors to sources and workers. Above: `routes.py`. Below: `sources.py`, `workers.py`."""

from jackfield.model.principal import Scope
from jackfield.web import sources, workers
from jackfield.web.door import Body, Door

WORKER_DOORS: tuple[Door, ...] = (
    Door(
        method="GET",
        path="/api/v1/sources",
        handler=sources.list_sources,
        needs=Scope.ADMIN,
        group="Sources",
        summary="Where the tools come from",
        answers={200: Body(says="Each source, how it is and what it said last", type=sources.SourceList)},
    ),
    Door(
        method="GET",
        path="/api/v1/sources/{name}",
        handler=sources.show_source,
        needs=Scope.ADMIN,
        group="Sources",
        summary="One source of tools",
        answers={200: Body(says="How it is, and what it said last", type=sources.OneSource)},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/api/v1/workers",
        handler=workers.list_workers,
        needs=Scope.ADMIN,
        group="Workers",
        summary="Tool files that run in processes of their own",
        answers={
            200: Body(says="Each file, its version, state, calls, restarts and processes", type=workers.WorkerList)
        },
    ),
    Door(
        method="GET",
        path="/api/v1/workers/{name}/log",
        path_takes_slashes=True,
        handler=workers.show_log,
        needs=Scope.ADMIN,
        group="Workers",
        summary="What a worker wrote to stdout and stderr",
        query=workers.LogQuery,
        answers={200: Body(says="The newest lines", type=workers.WorkerLogPage)},
        refusals=(404,),
    ),
)
