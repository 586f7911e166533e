"""Part of the URL map: changed definitions of foreign tools. Above: `routes.py`. Below: `pins.py`."""

from jackfield.catalog.pins_api import (
    AcceptAllBody,
    AcceptBody,
    AcceptedSource,
    AcceptedTool,
    SourceDiff,
    ToolDiff,
    accept_source,
    accept_tool,
    show_source_diff,
    show_tool_diff,
)
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope

PIN_DOORS: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/v1/tools/{name}/diff",
        path_takes_slashes=True,
        handler=show_tool_diff,
        needs=Scope.ADMIN,
        group="Tools",
        summary="What changed in a foreign tool since its definition was pinned",
        answers={200: ResponseSpec(says="Both definitions and a unified diff", type=ToolDiff)},
        refusals=(404,),
    ),
    Route(
        method="POST",
        path="/api/v1/tools/{name}/accept",
        path_takes_slashes=True,
        handler=accept_tool,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Accept the new definition of a held tool",
        body=AcceptBody,
        body_is_optional=True,
        answers={200: ResponseSpec(says="The tool is offered again", type=AcceptedTool)},
        refusals=(404, 409),
    ),
    Route(
        method="GET",
        path="/api/v1/sources/{name}/diff",
        handler=show_source_diff,
        needs=Scope.ADMIN,
        group="Tools",
        summary="What changed in all held tools of a source",
        answers={200: ResponseSpec(says="One diff for each held tool", type=SourceDiff)},
        refusals=(404,),
    ),
    Route(
        method="POST",
        path="/api/v1/sources/{name}/accept",
        handler=accept_source,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Accept the new definitions of a source's held tools",
        body=AcceptAllBody,
        body_is_optional=True,
        answers={200: ResponseSpec(says="The tools that are offered again", type=AcceptedSource)},
        refusals=(404, 409),
    ),
)
