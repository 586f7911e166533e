"""The overview over HTTP.

Above: the URL map. Below: `service.py`. An administrator sees the figures of all calls, any other key those of its own.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from jackfield.errors import BadRequest, Forbidden
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import SEES_CALLS, ResponseSpec, Route
from jackfield.model.principal import Principal
from jackfield.model.text import Time, iso_time
from jackfield.overview.rollups import AGENT, PRINCIPAL, SOURCE, TOOL
from jackfield.overview.service import Named, Overview, Tally
from jackfield.overview.transactions import One

NAMED = (TOOL, SOURCE, PRINCIPAL, AGENT)


class OverviewQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much time to show."""

    minutes: Annotated[
        Literal[15, 60, 360, 1440, 10080], Meta(description="The last so many minutes: 15, 60, 360, 1440 or 10080")
    ] = 60
    tool: (
        Annotated[
            str,
            Meta(
                max_length=200,
                description="Only calls of this tool; of `tool`, `source`, `principal` and `agent` one can be given",
            ),
        ]
        | None
    ) = None
    source: Annotated[str, Meta(max_length=200, description="Only calls of this source")] | None = None
    principal: Annotated[str, Meta(max_length=200, description="Only calls in this name: a key or a person")] | None = (
        None
    )
    agent: Annotated[str, Meta(max_length=200, description="Only calls of this agent")] | None = None


class OverviewPoint(Tally, frozen=True, kw_only=True):
    """What ended from `at` on, within one step."""

    at: Time


class OverviewName(Tally, frozen=True, kw_only=True):
    """What calls of one tool, source, key or agent came to."""

    name: str
    """In parentheses: several that have no line of their own, such as `(other)`."""
    source: str | None
    """Of a tool."""


class OverviewRecord(Struct, frozen=True, kw_only=True):
    """What calls came to that ended since then."""

    as_of: Time
    since: Time
    step_seconds: int
    complete: bool
    """False while older calls are still being counted."""
    of: str | None
    """Of whose calls, or of which tool, source or agent these are the figures; null: of all calls."""
    total: Tally
    series: list[OverviewPoint]
    tools: list[OverviewName]
    sources: list[OverviewName]
    principals: list[OverviewName]
    agents: list[OverviewName]


class OverviewApi:
    """The handler of `/api/v1/overview`."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    async def show(self, request: Request) -> Response:
        """Traffic, errors, latency and tokens."""
        asked = request.query(OverviewQuery)
        only = _only(asked, request.principal)
        summary = await self._overview.summary(asked.minutes, only=only)
        return json_response(
            OverviewRecord(
                as_of=iso_time(summary.as_of),
                since=iso_time(summary.since),
                step_seconds=summary.step_ms // 1000,
                complete=summary.is_complete,
                of=None if only is None else only.name,
                total=summary.total,
                series=[OverviewPoint(at=iso_time(point.at), **_fields(point.tally)) for point in summary.points],
                tools=_names(summary.by_name.get(TOOL, [])),
                sources=_names(summary.by_name.get(SOURCE, [])),
                principals=_names(summary.by_name.get(PRINCIPAL, [])),
                agents=_names(summary.by_name.get(AGENT, [])),
            )
        )


def _only(asked: OverviewQuery, principal: Principal) -> One | None:
    """Whose figures are asked for: rollups are kept for each name, not for two names at once."""
    given = [One(name, value) for name in NAMED if (value := getattr(asked, name)) is not None]
    if principal.is_admin:
        if len(given) > 1:
            names = ", ".join(one.dimension for one in given)
            raise BadRequest(f"Figures are kept of one name at a time, not of {names}. Give one of them.", param="tool")
        return given[0] if given else None
    own = One(PRINCIPAL, principal.on_record)
    if any(one != own for one in given):
        raise Forbidden("Figures of a tool, a source, an agent or another key need the scope admin.")
    return own


def _names(named: list[Named]) -> list[OverviewName]:
    return [OverviewName(name=one.name, source=one.source or None, **_fields(one.tally)) for one in named]


def _fields(tally: Tally) -> dict[str, Any]:
    return {name: getattr(tally, name) for name in Tally.__struct_fields__}


def routes(overview: Overview) -> list[Route]:
    """The one route."""
    api = OverviewApi(overview)
    return [
        Route(
            method="GET",
            path="/api/v1/overview",
            handler=api.show,
            scope=SEES_CALLS,
            tag="Calls",
            summary="Calls by outcome, errors, latency and tokens of the last minutes to the last week",
            query=OverviewQuery,
            responses={200: ResponseSpec(description="The figures", type=OverviewRecord)},
        )
    ]
