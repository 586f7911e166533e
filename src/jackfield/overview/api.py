"""The overview over HTTP.

Above: the URL map. Below: `service.py`. An administrator sees the figures of all calls, any other key those of its own.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import SEES_CALLS, ResponseSpec, Route
from jackfield.model.text import Time, iso_time
from jackfield.overview.rollups import AGENT, PRINCIPAL, SOURCE, TOOL
from jackfield.overview.service import Named, Overview, Tally


class OverviewQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much time to show."""

    minutes: Annotated[
        Literal[15, 60, 360, 1440, 10080], Meta(description="The last so many minutes: 15, 60, 360, 1440 or 10080")
    ] = 60


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
    """Whose calls these are; null: everybody's."""
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
        minutes = request.query(OverviewQuery).minutes
        whose = None if request.principal.is_admin else request.principal.on_record
        summary = await self._overview.summary(minutes, principal=whose)
        return json_response(
            OverviewRecord(
                as_of=iso_time(summary.as_of),
                since=iso_time(summary.since),
                step_seconds=summary.step_ms // 1000,
                complete=summary.is_complete,
                of=whose,
                total=summary.total,
                series=[OverviewPoint(at=iso_time(point.at), **_fields(point.tally)) for point in summary.points],
                tools=_names(summary.by_name.get(TOOL, [])),
                sources=_names(summary.by_name.get(SOURCE, [])),
                principals=_names(summary.by_name.get(PRINCIPAL, [])),
                agents=_names(summary.by_name.get(AGENT, [])),
            )
        )


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
