"""Groups over HTTP: list, show, make, replace and delete them.

Above: the URL map. Below: `groups.py`. A key that is limited to groups knows of those only; what a group is made of is
an administrator's to see, for patterns name tools that other keys may not see.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from jackfield.audit.log import AuditLog
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.globs import check_bounds
from jackfield.catalog.groups import Group, Groups
from jackfield.catalog.names import shown
from jackfield.errors import NotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Principal, Scope
from jackfield.settings.types import is_group_name
from jackfield.store import Store

_TEXT = "^[^\\u0000]*(?![\\s\\S])"


class GroupBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is in a group, and what its clients are told."""

    tools: tuple[Annotated[str, Meta(min_length=1, pattern=_TEXT)], ...]
    description: Annotated[str, Meta(max_length=2_000, pattern=_TEXT)] = ""
    instructions: Annotated[str, Meta(max_length=20_000, pattern=_TEXT)] = ""


class GroupRecord(Struct, frozen=True, kw_only=True):
    """A group as the key may know it."""

    name: str
    description: str
    instructions: str
    tools: tuple[str, ...] | UnsetType = UNSET
    """Names, globs and `source:*`; only an administrator sees them."""
    tool_count: int
    """How many tools of the group the key sees now."""
    origin: Literal["config", "api"]
    url: str
    """Its own MCP endpoint."""


class GroupList(Struct, frozen=True, kw_only=True):
    """Every group that the key may use, by name."""

    groups: list[GroupRecord]


class OneGroup(Struct, frozen=True, kw_only=True):
    """A group in its envelope."""

    group: GroupRecord


_body = BodyReader(GroupBody)


class GroupsApi:
    """Handlers of `/api/v1/groups`."""

    def __init__(self, groups: Groups, *, catalog: Catalog, store: Store, audit: AuditLog, url: str) -> None:
        self._groups = groups
        self._catalog = catalog
        self._store = store
        self._audit = audit
        self._url = url

    async def list_groups(self, request: Request) -> Response:
        """Every group that the key may use."""
        seen = self._groups.seen_by(request.principal)
        return json_response(GroupList(groups=[self._record(group, request.principal) for group in seen]))

    async def show_group(self, request: Request) -> Response:
        """One group."""
        group = self._groups.get(request.part("name"), request.principal)
        return json_response(OneGroup(group=self._record(group, request.principal)))

    async def put_group(self, request: Request) -> Response:
        """Make a group, or replace all of it."""
        name = request.part("name")
        if not is_group_name(name):
            said = f"'{shown(name)}' cannot be a group's name."
            raise NotFound(f"{said} Use 1 to 64 letters, digits, '_' or '-'.", param="name")
        body = await _body.read(request)
        check_bounds(body.tools, param="tools")
        group = Group(name=name, tools=body.tools, description=body.description, instructions=body.instructions)
        await self._groups.put(group, store=self._store, principal=request.principal, audit=self._audit)
        return json_response(OneGroup(group=self._record(group, request.principal)))

    async def delete_group(self, request: Request) -> Response:
        """Forget a group; its clients get 404 from now on."""
        await self._groups.delete(
            request.part("name"), store=self._store, principal=request.principal, audit=self._audit
        )
        return EmptyResponse(204)

    def _record(self, group: Group, principal: Principal) -> GroupRecord:
        seen = self._catalog.view(self._groups.narrowed(principal, group.name))
        return GroupRecord(
            name=group.name,
            description=group.description,
            instructions=group.instructions,
            tools=group.tools if principal.is_admin else UNSET,
            tool_count=len(seen.entries),
            origin="config" if group.is_configured else "api",
            url=f"{self._url}/mcp/{group.name}",
        )


def routes(groups: Groups, *, catalog: Catalog, store: Store, audit: AuditLog, url: str) -> list[Route]:
    """Every route of groups."""
    api = GroupsApi(groups, catalog=catalog, store=store, audit=audit, url=url)
    return [
        Route(
            method="GET",
            path="/api/v1/groups",
            handler=api.list_groups,
            tag="Groups",
            summary="The groups of tools that the key may use",
            responses={200: ResponseSpec(description="Each group, by name", type=GroupList)},
        ),
        Route(
            method="GET",
            path="/api/v1/groups/{name}",
            handler=api.show_group,
            tag="Groups",
            summary="One group of tools",
            responses={200: ResponseSpec(description="The group", type=OneGroup)},
            errors=(404,),
        ),
        Route(
            method="PUT",
            path="/api/v1/groups/{name}",
            handler=api.put_group,
            scope=Scope.ADMIN,
            tag="Groups",
            summary="Make a group of tools, or replace it",
            body=GroupBody,
            responses={200: ResponseSpec(description="The group as it is now, at every gateway", type=OneGroup)},
            errors=(404, 409),
        ),
        Route(
            method="DELETE",
            path="/api/v1/groups/{name}",
            handler=api.delete_group,
            scope=Scope.ADMIN,
            tag="Groups",
            summary="Delete a group of tools that was made here",
            responses={204: ResponseSpec(description="It is gone")},
            errors=(404, 409),
        ),
    ]
