"""Keys over HTTP: list, create, rotate and revoke them. For administrators.

Above: the URL map. Below: `stored_keys.py`. A key is in the answer that makes it, and in no other.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from jackfield.errors import Conflict, Forbidden
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.keys import ADMIN, Keyring
from jackfield.identity.stored_keys import LONGEST_GRACE, NewKey, StoredKeys
from jackfield.identity.transactions import KeyRights, StoredKey
from jackfield.model.principal import Principal, Scope
from jackfield.model.text import Time, iso_time

MOST_NAMED = 500
LONGEST_LIFE = 10 * 366 * 86_400
_NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}(?![\\s\\S])"
_SCOPE_PATTERN = "^(admin|call|read|answer|(agent|worker):[^\\u0000]+)(?![\\s\\S])"
KeyName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=_NAME_PATTERN,
        description="1 to 64 letters, digits, '_', '.', '@' or '-', the first of them a letter or digit",
    ),
]
ScopeName = Annotated[
    str,
    Meta(
        max_length=300,
        pattern=_SCOPE_PATTERN,
        description="admin, call, read, answer, agent:NAME or worker:GLOB",
    ),
]
_TEXT = "^[^\\u0000]*(?![\\s\\S])"
Names = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=256, pattern=_TEXT)], ...], Meta(max_length=MOST_NAMED)
]

CheckNames = Callable[[KeyRights], Awaitable[None]]
"""Raises `NotFound` for groups, agents or spaces that a key names and that do not exist."""


class KeyBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new key. A list that is left out limits nothing; an empty one allows nothing."""

    name: KeyName
    scopes: Annotated[tuple[ScopeName, ...], Meta(min_length=1, max_length=50)] = ("call",)
    tools: Names | None = None
    groups: Names | None = None
    agents: Names | None = None
    spaces: Names | None = None
    budget: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    """Cost points per hour."""
    expires_in: Annotated[int, Meta(ge=1, le=LONGEST_LIFE)] | None = None
    """Seconds; without it, until it is revoked."""


class RotateBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the old key stays good, in seconds."""

    grace: Annotated[int, Meta(ge=0, le=LONGEST_GRACE)] = 0


class KeyRecord(Struct, frozen=True, kw_only=True):
    """A key, without the key itself."""

    name: str
    scopes: list[str]
    tools: tuple[str, ...] | None
    groups: tuple[str, ...] | None
    agents: tuple[str, ...] | None
    spaces: tuple[str, ...] | None
    budget: int | None
    origin: Literal["config", "api", "file"]
    """`file`: the administrator's key, made at the first start or set by the environment."""
    created_at: Time | None = None
    created_by: str | None = None
    expires_at: Time | None = None
    rotated_at: Time | None = None
    old_key_until: Time | None = None
    """While a rotation's grace period lasts: its end."""
    key: str | UnsetType = UNSET
    """The key itself, in the answer that makes it."""


class KeyList(Struct, frozen=True, kw_only=True):
    """Every key, those of the config first."""

    keys: list[KeyRecord]


_create = BodyReader(KeyBody)
_rotate = BodyReader(RotateBody, required=False)


class KeysApi:
    """Handlers of `/api/v1/keys`."""

    def __init__(self, keys: StoredKeys, keyring: Keyring, *, check_names: CheckNames) -> None:
        self._keys = keys
        self._keyring = keyring
        self._check_names = check_names

    async def list_keys(self, _request: Request) -> Response:
        """Every key, without the keys themselves."""
        configured = [_configured(principal) for principal in self._keyring.configured]
        stored = [_stored(key) for key in self._keyring.stored.values()]
        return json_response(KeyList(keys=[*configured, *stored]))

    async def create_key(self, request: Request) -> Response:
        """Make a key."""
        body = await _create.read(request)
        require_unlimited(request.principal)
        if body.name == ADMIN.name:
            raise Conflict(f"The name '{ADMIN.name}' is the administrator's. Choose another one.", param="name")
        rights = KeyRights(
            scopes=tuple(sorted(set(body.scopes))),
            tools=body.tools,
            groups=body.groups,
            agents=body.agents,
            spaces=body.spaces,
            budget=body.budget,
        )
        await self._check_names(rights)
        made = await self._keys.create(body.name, rights, seconds=body.expires_in, created_by=request.principal.name)
        return _shown_once(made, status=201)

    async def rotate_key(self, request: Request) -> Response:
        """Give a key a new secret."""
        body = await _rotate.read(request)
        require_unlimited(request.principal)
        return _shown_once(await self._keys.rotate(request.part("name"), grace=body.grace, by=request.principal.name))

    async def revoke_key(self, request: Request) -> Response:
        """End a key, its logins, and what it has waiting."""
        require_unlimited(request.principal)
        await self._keys.revoke(request.part("name"), by=request.principal.name)
        return EmptyResponse(204)


def require_unlimited(principal: Principal) -> None:
    """Raise `Forbidden` for an administrator's key with limits: it could make itself one without."""
    if principal.is_limited or principal.agents is not None or principal.spaces is not None:
        raise Forbidden(f"Key '{principal.name}' is limited, so it may not make or change keys. Use another key.")


def _configured(principal: Principal) -> KeyRecord:
    return KeyRecord(
        name=principal.name,
        scopes=sorted(principal.scopes),
        tools=principal.tools,
        groups=None if principal.groups is None else principal.groups.names,
        agents=principal.agents,
        spaces=principal.spaces,
        budget=principal.budget,
        origin="file" if principal == ADMIN else "config",
    )


def _stored(key: StoredKey, *, secret: str | UnsetType = UNSET) -> KeyRecord:
    rights = key.rights
    return KeyRecord(
        name=key.name,
        scopes=sorted(rights.scopes),
        tools=rights.tools,
        groups=rights.groups,
        agents=rights.agents,
        spaces=rights.spaces,
        budget=rights.budget,
        origin="api",
        created_at=iso_time(key.created_at),
        created_by=key.created_by,
        expires_at=None if key.expires_at is None else iso_time(key.expires_at),
        rotated_at=None if key.rotated_at is None else iso_time(key.rotated_at),
        old_key_until=None if key.old_until is None else iso_time(key.old_until),
        key=secret,
    )


def _shown_once(made: NewKey, *, status: int = 200) -> Response:
    return json_response(
        _stored(made.stored, secret=made.key), status=status, headers=((b"cache-control", b"no-store"),)
    )


def routes(keys: StoredKeys, keyring: Keyring, *, check_names: CheckNames) -> list[Route]:
    """Every route of keys."""
    api = KeysApi(keys, keyring, check_names=check_names)
    return [
        Route(
            method="GET",
            path="/api/v1/keys",
            handler=api.list_keys,
            scope=Scope.ADMIN,
            tag="Identity",
            summary="Every key, without the keys themselves",
            responses={200: ResponseSpec(description="Each key, those of the config first", type=KeyList)},
        ),
        Route(
            method="POST",
            path="/api/v1/keys",
            handler=api.create_key,
            scope=Scope.ADMIN,
            tag="Identity",
            summary="Create a key; the response is the only place that has it",
            body=KeyBody,
            responses={201: ResponseSpec(description="The key, good at every gateway", type=KeyRecord)},
            errors=(404, 409),
        ),
        Route(
            method="POST",
            path="/api/v1/keys/{name}/rotate",
            handler=api.rotate_key,
            scope=Scope.ADMIN,
            tag="Identity",
            summary="Give a key a new secret; the old one is good for `grace` seconds more",
            body=RotateBody,
            body_is_optional=True,
            responses={200: ResponseSpec(description="The new key", type=KeyRecord)},
            errors=(404, 409),
        ),
        Route(
            method="DELETE",
            path="/api/v1/keys/{name}",
            handler=api.revoke_key,
            scope=Scope.ADMIN,
            tag="Identity",
            summary="Revoke a key; its logins end and its waiting calls are cancelled",
            responses={204: ResponseSpec(description="It is gone")},
            errors=(404, 409),
        ),
    ]
