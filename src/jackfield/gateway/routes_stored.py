"""Part of the URL map: tools that come over the API, and what keys prefer of all tools.

Above: `routes.py`, which puts all parts in order. Below: the doors themselves.
"""

from jackfield.http.permissions import SERVES
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.sources.stored_api import (
    Declared,
    OneTool,
    ToolBody,
    ToolChange,
    ToolsDeclared,
    create_tool,
    declare_tools,
    delete_tool,
    replace_tool,
)

SHELF_DOORS: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/api/v1/tools",
        handler=create_tool,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Make a tool",
        body=ToolBody,
        answers={201: ResponseSpec(says="The tool as the catalog shows it", type=OneTool)},
        refusals=(409,),
    ),
    Route(
        method="PUT",
        path="/api/v1/tools/{name}",
        path_takes_slashes=True,
        handler=replace_tool,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Change a tool that was made here",
        body=ToolChange,
        answers={200: ResponseSpec(says="The tool as the catalog shows it", type=OneTool)},
        refusals=(404, 409),
    ),
    Route(
        method="DELETE",
        path="/api/v1/tools/{name}",
        path_takes_slashes=True,
        handler=delete_tool,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Forget a tool that was made here",
        answers={204: ResponseSpec(says="It is gone")},
        refusals=(404,),
    ),
    Route(
        method="PUT",
        path="/api/v1/sources/{name}/tools",
        handler=declare_tools,
        needs=SERVES,
        group="Tools",
        summary="Declare the tools of a tool server, replacing all that it declared before",
        body=ToolsDeclared,
        answers={200: ResponseSpec(says="What the catalog shows of them", type=Declared)},
        refusals=(404, 409),
    ),
)
