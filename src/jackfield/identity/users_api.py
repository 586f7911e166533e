"""People over HTTP: who signed in, and signing somebody out everywhere.

Above: the URL map. Below: `people.py`.
"""

from msgspec import UNSET, Struct, UnsetType

from jackfield.errors import Forbidden, NotFound
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import ANYBODY_KNOWN, ResponseSpec, Route
from jackfield.identity.people import People
from jackfield.identity.people_transactions import User
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time, nearest


class UserRecord(Struct, frozen=True, kw_only=True):
    """Somebody who signed in, as they were at the last login."""

    id: str
    """`user:<sub>`, the name that their calls are on record under."""
    name: str
    email: str | UnsetType = UNSET
    """If the provider verified it."""
    roles: tuple[str, ...]
    scopes: list[str]
    """What the roles allow now; nothing once they are signed out everywhere."""
    signed_in_at: Time
    signed_out_at: Time | None
    """When they were signed out everywhere; None: they have signed in since."""
    created_at: Time


class UserList(Struct, frozen=True, kw_only=True):
    """Everybody who ever signed in, by id."""

    users: list[UserRecord]


class UsersApi:
    """Handlers of `/api/v1/users`."""

    def __init__(self, people: People) -> None:
        self._people = people

    async def list_users(self, _request: Request) -> Response:
        """Everybody who ever signed in."""
        return json_response(UserList(users=[self._record(user) for user in self._people.users]))

    async def sign_out_user(self, request: Request) -> Response:
        """End all logins and tokens of a person, at every gateway."""
        name = request.part("id")
        if not request.principal.is_admin and request.principal.name != name:
            raise Forbidden("Only an administrator signs somebody else out. To sign yourself out, use your own id.")
        if not await self._people.sign_out(name, by=request.principal.name):
            hint = nearest(name[:100], [user.id for user in self._people.users])
            raise NotFound(f"There is no user '{name[:100]}'.{hint} Ids begin with 'user:'.", param="id")
        return EmptyResponse(204)

    def _record(self, user: User) -> UserRecord:
        principal = self._people.find(user.id)
        return UserRecord(
            id=user.id,
            name=user.name,
            email=UNSET if user.email is None else user.email,
            roles=user.roles,
            scopes=[] if principal is None else sorted(principal.scopes),
            signed_in_at=iso_time(user.signed_in_at),
            signed_out_at=None if user.signed_out_at is None else iso_time(user.signed_out_at),
            created_at=iso_time(user.created_at),
        )


def routes(people: People) -> list[Route]:
    """Every route of people."""
    api = UsersApi(people)
    return [
        Route(
            method="GET",
            path="/api/v1/users",
            handler=api.list_users,
            scope=Scope.ADMIN,
            tag="Identity",
            summary="Everybody who signed in by the provider",
            responses={200: ResponseSpec(description="Each person, by id", type=UserList)},
        ),
        Route(
            method="POST",
            path="/api/v1/users/{id}/sign-out",
            handler=api.sign_out_user,
            scope=ANYBODY_KNOWN,
            path_takes_slashes=True,
            tag="Identity",
            summary="End all logins, tokens and waiting calls of a person; for administrators, and for oneself",
            responses={204: ResponseSpec(description="Signed out everywhere")},
            errors=(404,),
        ),
    ]
