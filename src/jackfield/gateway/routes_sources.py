"""Routes of sources."""

from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.sources.api import OneSource, SourceList, list_sources, show_source

SOURCE_ROUTES: tuple[Route, ...] = (
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
)
