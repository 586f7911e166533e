"""Secrets for sources over HTTP: set, list by name, remove. For administrators. No value is ever shown.

Above: the URL map. Below: `run_time.py`.
"""

import re
from typing import Annotated

from msgspec import Meta, Struct

from jackfield.errors import NotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import EmptyResponse, Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.keys_api import require_unlimited
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time
from jackfield.sources.run_time import RunTimeSources
from jackfield.sources.run_time_transactions import StoredSecret

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class SecretBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of a secret."""

    value: Annotated[str, Meta(min_length=1, max_length=65_536)]


class SecretRecord(Struct, frozen=True, kw_only=True):
    """A secret without its value."""

    name: str
    updated_at: Time
    updated_by: str


class SecretList(Struct, frozen=True, kw_only=True):
    """Every secret by name, without the values."""

    secrets: list[SecretRecord]


_body = BodyReader(SecretBody)


class SecretsApi:
    """Handlers of `/api/v1/secrets`."""

    def __init__(self, run_time: RunTimeSources) -> None:
        self._run_time = run_time

    async def list_secrets(self, _request: Request) -> Response:
        """Every secret by name."""
        return json_response(SecretList(secrets=[_record(one) for one in self._run_time.secrets.values()]))

    async def put_secret(self, request: Request) -> Response:
        """Keep a secret, in place of the one of its name."""
        name = request.part("name")
        if _NAME.fullmatch(name) is None:
            raise NotFound(
                "That cannot be a secret's name. Use 1 to 64 letters, digits or '_', the first of them no digit.",
                param="name",
            )
        body = await _body.read(request)
        require_unlimited(request.principal)
        kept = await self._run_time.set_secret(name, body.value, updated_by=request.principal.name)
        return json_response(_record(kept))

    async def remove_secret(self, request: Request) -> Response:
        """Forget a secret."""
        require_unlimited(request.principal)
        await self._run_time.remove_secret(request.part("name"), by=request.principal.name)
        return EmptyResponse(204)


def _record(secret: StoredSecret) -> SecretRecord:
    return SecretRecord(name=secret.name, updated_at=iso_time(secret.updated_at), updated_by=secret.updated_by)


def routes(run_time: RunTimeSources) -> list[Route]:
    """Every route of secrets."""
    api = SecretsApi(run_time)
    return [
        Route(
            method="GET",
            path="/api/v1/secrets",
            handler=api.list_secrets,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="The names of the secrets for sources; never a value",
            responses={200: ResponseSpec(description="Each secret, by name", type=SecretList)},
        ),
        Route(
            method="PUT",
            path="/api/v1/secrets/{name}",
            handler=api.put_secret,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="Set a secret that sources made at run time use as `${NAME}`; those that use it begin anew",
            body=SecretBody,
            responses={200: ResponseSpec(description="It is kept, encrypted", type=SecretRecord)},
            errors=(404, 409),
        ),
        Route(
            method="DELETE",
            path="/api/v1/secrets/{name}",
            handler=api.remove_secret,
            scope=Scope.ADMIN,
            tag="Sources",
            summary="Remove a secret; sources that use it go down",
            responses={204: ResponseSpec(description="It is gone")},
            errors=(404,),
        ),
    ]
