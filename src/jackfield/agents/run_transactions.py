"""What made calls, agents' cycles and responses together, the newest first.

Nothing is written here.
"""

from collections.abc import Iterable

from msgspec import Struct

from jackfield.agents.cycle_transactions import cycle_from, cycles_in
from jackfield.model.agent_state import Cycle
from jackfield.store.scripts import Script, json_list, run

AFTER_ALL = "g"
"""Behind every hexadecimal number."""


class ResponseRun(Struct, frozen=True, kw_only=True):
    """A response, as far as a list of runs tells of it."""

    id: str
    principal: str
    status: str
    created_at: int
    finished_at: int | None


class RunPage(Struct, frozen=True):
    """Runs, newest first, and where the next page begins."""

    runs: list[Cycle | ResponseRun]
    next_cursor: str | None


def run_page(
    *,
    limit: int,
    cursor: str | None = None,
    agents: Iterable[str] | None = None,
    principal: str | None = None,
    with_responses: bool = True,
) -> Script[RunPage]:
    """A page of the cycles of these agents (None: of all) and the responses of this principal (None: of all)."""
    wanted: dict[str, str | int] = {"cursor": cursor or AFTER_ALL, "limit": limit + 1}
    found = yield from _newest(wanted, agents=agents, principal=principal, with_responses=with_responses)
    newest = sorted(found, key=lambda one: _place(one.id), reverse=True)
    shown = newest[:limit]
    return RunPage(shown, _place(shown[-1].id) if len(newest) > limit else None)


def last_cycles() -> Script[dict[str, Cycle]]:
    """Each agent's last cycle, by agent."""
    cycles = yield from cycles_in("last_cycles")
    return {cycle.agent: cycle for cycle in cycles}


def _newest(
    wanted: dict[str, str | int], *, agents: Iterable[str] | None, principal: str | None, with_responses: bool
) -> Script[list[Cycle | ResponseRun]]:
    of_cycles = wanted | {"cursor": f"cycle_{wanted['cursor']}"}
    of_responses = wanted | {"cursor": f"resp_{wanted['cursor']}"}
    if agents is None:
        cycles = yield from run("newest_cycles", **of_cycles)
    else:
        cycles = yield from run("newest_cycles_among", **of_cycles, ids=json_list(agents))
    found: list[Cycle | ResponseRun] = [cycle_from(row) for row in cycles]
    if with_responses and principal is None:
        responses = yield from run("newest_responses", **of_responses)
    elif with_responses:
        responses = yield from run("newest_responses_of", **of_responses, principal=principal)
    else:
        return found
    return found + [ResponseRun(**{name: row[name] for name in ResponseRun.__struct_fields__}) for row in responses]


def _place(run_id: str) -> str:
    """What follows the kind: the time, then chance."""
    return run_id.partition("_")[2]
