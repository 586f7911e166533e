"""Part of the URL map: agents, what they have in mind, and runs.

Above: `routes.py`, which puts all parts in order. Below: the doors themselves. An agent's inbox is in
`routes_pending.py`, beside the calls whose results arrive there.
"""

from jackfield.model.principal import Scope
from jackfield.web import agent_records as records
from jackfield.web import agents, minds, run_records, runs
from jackfield.web.door import SSE_MEDIA, Body, Door
from jackfield.web.needs import HAS_INBOX, SEES_SPACES
from jackfield.web.space_records import Success
from jackfield.web.visit import Handler


def _mind(what: str, body: type, answer: type, *, show: Handler, put: Handler, says: str) -> tuple[Door, Door]:
    """The two doors to one part of an agent's mind."""
    reading = Door(
        method="GET",
        path=f"/api/agents/{{id}}/{what}",
        handler=show,
        needs=SEES_SPACES,
        group="Agents",
        summary=f"{says[0].upper()}{says[1:]}",
        answers={200: Body(says="All of them", type=answer)},
        refusals=(404,),
    )
    writing = Door(
        method="PUT",
        path=reading.path,
        handler=put,
        needs=HAS_INBOX,
        group="Agents",
        summary=f"Replace {says}",
        body=body,
        answers={200: Body(says="All of them as they are now", type=answer)},
        refusals=(404,),
    )
    return reading, writing


AGENT_DOORS: tuple[Door, ...] = (
    Door(
        method="GET",
        path="/api/agents",
        handler=agents.list_agents,
        needs=SEES_SPACES,
        group="Agents",
        summary="Every agent, asleep or awake",
        answers={200: Body(says="The agents, by id", type=records.AgentList)},
    ),
    Door(
        method="POST",
        path="/api/agents",
        handler=agents.create_agent,
        needs=Scope.ADMIN,
        group="Agents",
        summary="Make an agent",
        body=records.AgentBody,
        answers={201: Body(says="The agent", type=records.NewAgent)},
        refusals=(409,),
    ),
    Door(
        method="GET",
        path="/api/agents/{id}",
        handler=agents.show_agent,
        needs=SEES_SPACES,
        group="Agents",
        summary="One agent",
        answers={200: Body(says="The agent", type=records.OneAgent)},
        refusals=(404,),
    ),
    Door(
        method="PATCH",
        path="/api/agents/{id}",
        handler=agents.change_agent,
        needs=Scope.ADMIN,
        group="Agents",
        summary="Change an agent that was made here; one of the config is changed there",
        body=records.AgentChange,
        answers={200: Body(says="The agent as it is now", type=records.OneAgent)},
        refusals=(404, 409),
    ),
    Door(
        method="DELETE",
        path="/api/agents/{id}",
        handler=agents.delete_agent,
        needs=Scope.ADMIN,
        group="Agents",
        summary="Delete an agent with all that it has in mind",
        answers={200: Body(says="It is gone", type=Success)},
        refusals=(404, 409),
    ),
    Door(
        method="GET",
        path="/api/agents/{id}/cycles",
        handler=agents.list_cycles,
        needs=SEES_SPACES,
        group="Agents",
        summary="What an agent did each time it woke, newest first",
        query=agents.CyclesQuery,
        answers={200: Body(says="A page of cycles", type=records.CyclePage)},
        refusals=(404,),
    ),
    *_mind(
        "memories",
        minds.Memories,
        minds.Memories,
        show=minds.show_memories,
        put=minds.put_memories,
        says="what an agent remembers",
    ),
    *_mind("goals", minds.Goals, minds.Goals, show=minds.show_goals, put=minds.put_goals, says="what an agent wants"),
    *_mind(
        "plans",
        minds.Plans,
        minds.ShownPlans,
        show=minds.show_plans,
        put=minds.put_plans,
        says="what an agent will be told later",
    ),
    Door(
        method="GET",
        path="/api/runs",
        handler=runs.list_runs,
        needs=SEES_SPACES,
        group="Runs",
        summary="Agents' cycles and responses, newest first",
        query=runs.RunsQuery,
        answers={200: Body(says="A page of runs", type=run_records.RunList)},
    ),
    Door(
        method="GET",
        path="/api/runs/{id}",
        handler=runs.show_run,
        needs=SEES_SPACES,
        group="Runs",
        summary="One run: a cycle with its steps, a response, or the calls of a bare run",
        answers={200: Body(says="The run", type=run_records.OneRun)},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/api/runs/{id}/stream",
        handler=runs.follow_run,
        needs=SEES_SPACES,
        group="Runs",
        summary="What happens to a run's calls, from its beginning to its end",
        answers={
            200: Body(
                says="`connected`, then `tool.started`, `tool.ready`, `tool.done`, `tool.error`; at the end "
                "`run.completed` or `run.failed`",
                media=SSE_MEDIA,
            )
        },
        refusals=(404,),
    ),
)
