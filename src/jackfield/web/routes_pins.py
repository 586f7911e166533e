"""Part of the URL map: changed definitions of foreign tools. Above: `routes.py`. Below: `pins.py`."""

from jackfield.model.principal import Scope
from jackfield.web import pins
from jackfield.web.door import Body, Door

PIN_DOORS: tuple[Door, ...] = (
    Door(
        method="GET",
        path="/api/v1/tools/{name}/diff",
        path_takes_slashes=True,
        handler=pins.show_tool_diff,
        needs=Scope.ADMIN,
        group="Tools",
        summary="What changed in a foreign tool since its definition was pinned",
        answers={200: Body(says="Both definitions and a unified diff", type=pins.ToolDiff)},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/api/v1/tools/{name}/accept",
        path_takes_slashes=True,
        handler=pins.accept_tool,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Accept the new definition of a held tool",
        body=pins.AcceptBody,
        body_is_optional=True,
        answers={200: Body(says="The tool is offered again", type=pins.AcceptedTool)},
        refusals=(404, 409),
    ),
    Door(
        method="GET",
        path="/api/v1/sources/{name}/diff",
        handler=pins.show_source_diff,
        needs=Scope.ADMIN,
        group="Tools",
        summary="What changed in all held tools of a source",
        answers={200: Body(says="One diff for each held tool", type=pins.SourceDiff)},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/api/v1/sources/{name}/accept",
        handler=pins.accept_source,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Accept the new definitions of a source's held tools",
        body=pins.AcceptAllBody,
        body_is_optional=True,
        answers={200: Body(says="The tools that are offered again", type=pins.AcceptedSource)},
        refusals=(404, 409),
    ),
)
