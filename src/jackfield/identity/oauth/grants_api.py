"""What clients were allowed, over HTTP: people see and end their own grants, administrators all.

Above: the URL map. Below: `grants.py`.
"""

from msgspec import Struct

from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import ANYBODY_KNOWN, ResponseSpec, Route
from jackfield.identity.oauth.grants import Grants
from jackfield.identity.oauth.types import Grant
from jackfield.model.text import Time, iso_time


class GrantRecord(Struct, frozen=True, kw_only=True):
    """What a person allowed a client."""

    id: str
    client: str
    """What the client calls itself."""
    client_id: str
    principal: str
    resource: str
    scopes: tuple[str, ...]
    groups: tuple[str, ...] | None
    created_at: Time
    used_at: Time | None
    """When it last got tokens."""
    expires_at: Time


class GrantList(Struct, frozen=True, kw_only=True):
    """The newest first."""

    grants: list[GrantRecord]


class GrantsApi:
    """Handlers of `/api/v1/grants`."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants

    async def list_grants(self, request: Request) -> Response:
        """What you allowed."""
        found = await self._grants.all_of(request.principal)
        return json_response(GrantList(grants=[_record(grant) for grant in found]))

    async def end_grant(self, request: Request) -> Response:
        """Take it back."""
        await self._grants.end(request.part("id"), request.principal)
        return EmptyResponse(204)


def _record(grant: Grant) -> GrantRecord:
    return GrantRecord(
        id=grant.id,
        client=grant.client_name,
        client_id=grant.client_id,
        principal=grant.principal,
        resource=grant.resource,
        scopes=grant.rights.scopes,
        groups=grant.rights.groups,
        created_at=iso_time(grant.created_at),
        used_at=None if grant.used_at is None else iso_time(grant.used_at),
        expires_at=iso_time(grant.expires_at),
    )


def routes(grants: Grants) -> list[Route]:
    """Every route of grants."""
    api = GrantsApi(grants)
    return [
        Route(
            method="GET",
            path="/api/v1/grants",
            handler=api.list_grants,
            scope=ANYBODY_KNOWN,
            tag="Identity",
            summary="The OAuth clients that you allowed to act for you; for administrators, everybody's",
            responses={200: ResponseSpec(description="The newest first", type=GrantList)},
        ),
        Route(
            method="DELETE",
            path="/api/v1/grants/{id}",
            handler=api.end_grant,
            scope=ANYBODY_KNOWN,
            tag="Identity",
            summary="End what a client was allowed; its tokens are worth nothing from then on",
            responses={204: ResponseSpec(description="It is over")},
            errors=(404,),
        ),
    ]
