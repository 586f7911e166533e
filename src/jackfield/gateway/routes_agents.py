"""Part of the URL map: agents, what they have in mind, and runs.

Above: `routes.py`, which puts all parts in order. Below: the doors themselves. An agent's inbox is in
`routes_pending.py`, beside the calls whose results arrive there.
"""

from jackfield.agents import records
from jackfield.agents.api import (
    CyclesQuery,
    change_agent,
    create_agent,
    delete_agent,
    list_agents,
    list_cycles,
    show_agent,
)
from jackfield.agents.runs_api import OneRun, RunList, RunsQuery, follow_run, list_runs, show_run
from jackfield.agents.state_api import (
    Goals,
    Memories,
    Plans,
    ShownPlans,
    put_goals,
    put_memories,
    put_plans,
    show_goals,
    show_memories,
    show_plans,
)
from jackfield.http.permissions import HAS_INBOX, SEES_SPACES
from jackfield.http.request import Handler
from jackfield.http.routing import SSE_MEDIA, ResponseSpec, Route
from jackfield.model.principal import Scope
from jackfield.spaces.records import Success


def _mind(what: str, body: type, answer: type, *, show: Handler, put: Handler, says: str) -> tuple[Route, Route]:
    """The two doors to one part of an agent's mind."""
    reading = Route(
        method="GET",
        path=f"/api/agents/{{id}}/{what}",
        handler=show,
        needs=SEES_SPACES,
        group="Agents",
        summary=f"{says[0].upper()}{says[1:]}",
        answers={200: ResponseSpec(says="All of them", type=answer)},
        refusals=(404,),
    )
    writing = Route(
        method="PUT",
        path=reading.path,
        handler=put,
        needs=HAS_INBOX,
        group="Agents",
        summary=f"Replace {says}",
        body=body,
        answers={200: ResponseSpec(says="All of them as they are now", type=answer)},
        refusals=(404,),
    )
    return reading, writing


AGENT_DOORS: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/api/agents",
        handler=list_agents,
        needs=SEES_SPACES,
        group="Agents",
        summary="Every agent, asleep or awake",
        answers={200: ResponseSpec(says="The agents, by id", type=records.AgentList)},
    ),
    Route(
        method="POST",
        path="/api/agents",
        handler=create_agent,
        needs=Scope.ADMIN,
        group="Agents",
        summary="Make an agent",
        body=records.AgentBody,
        answers={201: ResponseSpec(says="The agent", type=records.NewAgent)},
        refusals=(409,),
    ),
    Route(
        method="GET",
        path="/api/agents/{id}",
        handler=show_agent,
        needs=SEES_SPACES,
        group="Agents",
        summary="One agent",
        answers={200: ResponseSpec(says="The agent", type=records.OneAgent)},
        refusals=(404,),
    ),
    Route(
        method="PATCH",
        path="/api/agents/{id}",
        handler=change_agent,
        needs=Scope.ADMIN,
        group="Agents",
        summary="Change an agent that was made here; one of the config is changed there",
        body=records.AgentChange,
        answers={200: ResponseSpec(says="The agent as it is now", type=records.OneAgent)},
        refusals=(404, 409),
    ),
    Route(
        method="DELETE",
        path="/api/agents/{id}",
        handler=delete_agent,
        needs=Scope.ADMIN,
        group="Agents",
        summary="Delete an agent with all that it has in mind",
        answers={200: ResponseSpec(says="It is gone", type=Success)},
        refusals=(404, 409),
    ),
    Route(
        method="GET",
        path="/api/agents/{id}/cycles",
        handler=list_cycles,
        needs=SEES_SPACES,
        group="Agents",
        summary="What an agent did each time it woke, newest first",
        query=CyclesQuery,
        answers={200: ResponseSpec(says="A page of cycles", type=records.CyclePage)},
        refusals=(404,),
    ),
    *_mind(
        "memories",
        Memories,
        Memories,
        show=show_memories,
        put=put_memories,
        says="what an agent remembers",
    ),
    *_mind("goals", Goals, Goals, show=show_goals, put=put_goals, says="what an agent wants"),
    *_mind(
        "plans",
        Plans,
        ShownPlans,
        show=show_plans,
        put=put_plans,
        says="what an agent will be told later",
    ),
    Route(
        method="GET",
        path="/api/runs",
        handler=list_runs,
        needs=SEES_SPACES,
        group="Runs",
        summary="Agents' cycles and responses, newest first",
        query=RunsQuery,
        answers={200: ResponseSpec(says="A page of runs", type=RunList)},
    ),
    Route(
        method="GET",
        path="/api/runs/{id}",
        handler=show_run,
        needs=SEES_SPACES,
        group="Runs",
        summary="One run: a cycle with its steps, a response, or the calls of a bare run",
        answers={200: ResponseSpec(says="The run", type=OneRun)},
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="/api/runs/{id}/stream",
        handler=follow_run,
        needs=SEES_SPACES,
        group="Runs",
        summary="What happens to a run's calls, from its beginning to its end",
        answers={
            200: ResponseSpec(
                says="`connected`, then `tool.started`, `tool.ready`, `tool.done`, `tool.error`; at the end "
                "`run.completed` or `run.failed`",
                media=SSE_MEDIA,
            )
        },
        refusals=(404,),
    ),
)
