"""Part of the URL map: tools that come over the API, and what keys prefer of all tools.

Above: `routes.py`, which puts all parts in order. Below: the doors themselves.
"""

from jackfield.model.principal import Scope
from jackfield.web import by_scenario, kept_tools, preferences
from jackfield.web.door import Body, Door
from jackfield.web.needs import SERVES

PREFERENCE_DOORS: tuple[Door, ...] = (
    Door(
        method="GET",
        path="/api/v1/tools/set",
        handler=preferences.show_tool_set,
        group="Preferences",
        summary="Every tool as it stands for the key, everywhere or in a chat",
        query=preferences.ToolSetQuery,
        answers={200: Body(says="The effective tools", type=preferences.ToolSet)},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/api/v1/tools/scenarios",
        handler=preferences.show_scenarios,
        group="Preferences",
        summary="The state of each source",
        answers={200: Body(says="One entry per source", type=list[preferences.ScenarioState])},
    ),
    Door(
        method="POST",
        path="/api/v1/tools/config",
        handler=preferences.set_enabled,
        needs=Scope.CALL,
        group="Preferences",
        summary="Switch a tool on or off for the key",
        body=preferences.EnabledBody,
        answers={200: Body(says="How the tool stands now", type=preferences.Changed)},
        refusals=(404,),
    ),
    Door(
        method="DELETE",
        path="/api/v1/tools/config",
        handler=preferences.reset_preference,
        needs=Scope.CALL,
        group="Preferences",
        summary="Forget what the key prefers of a tool",
        query=preferences.ResetQuery,
        answers={200: Body(says="How the tool stands now", type=preferences.Changed)},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/api/v1/tools/config/approval",
        handler=preferences.set_approval,
        needs=Scope.ANSWER,
        group="Preferences",
        summary="Override whether a tool asks a person first",
        body=preferences.ApprovalBody,
        answers={200: Body(says="How the tool stands now", type=preferences.Changed)},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/api/v1/tools/execute",
        handler=by_scenario.execute_by_scenario,
        needs=Scope.CALL,
        group="Tools",
        summary="Call a tool by its scenario and name",
        body=by_scenario.ScenarioCallBody,
        answers={
            200: Body(says="The call is settled; a failed one too", type=by_scenario.ScenarioCallAnswer),
            202: Body(says="Somebody else has to answer or approve first", type=by_scenario.ScenarioCallAnswer),
        },
        refusals=(404, 409, 429),
    ),
    Door(
        method="POST",
        path="/api/v1/tools/refresh",
        handler=preferences.refresh_tools,
        needs=Scope.CALL,
        group="Preferences",
        summary="Read every source anew",
        answers={200: Body(says="What there is now", type=preferences.Refreshed)},
    ),
)

SHELF_DOORS: tuple[Door, ...] = (
    Door(
        method="POST",
        path="/api/v1/tools",
        handler=kept_tools.create_tool,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Make a tool",
        body=kept_tools.ToolBody,
        answers={201: Body(says="The tool as the catalog shows it", type=kept_tools.OneTool)},
        refusals=(409,),
    ),
    Door(
        method="PUT",
        path="/api/v1/tools/{name}",
        path_takes_slashes=True,
        handler=kept_tools.replace_tool,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Change a tool that was made here",
        body=kept_tools.ToolChange,
        answers={200: Body(says="The tool as the catalog shows it", type=kept_tools.OneTool)},
        refusals=(404, 409),
    ),
    Door(
        method="DELETE",
        path="/api/v1/tools/{name}",
        path_takes_slashes=True,
        handler=kept_tools.delete_tool,
        needs=Scope.ADMIN,
        group="Tools",
        summary="Forget a tool that was made here",
        answers={204: Body(says="It is gone")},
        refusals=(404,),
    ),
    Door(
        method="PUT",
        path="/api/v1/sources/{name}/tools",
        handler=kept_tools.declare_tools,
        needs=SERVES,
        group="Tools",
        summary="Declare the tools of a tool server, replacing all that it declared before",
        body=kept_tools.ToolsDeclared,
        answers={200: Body(says="What the catalog shows of them", type=kept_tools.Declared)},
        refusals=(404, 409),
    ),
)
