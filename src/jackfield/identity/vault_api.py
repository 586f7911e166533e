"""The vault over HTTP: how it stands, and a new key for it. For administrators. Nothing in it is ever shown."""

from functools import partial
from typing import Literal

from msgspec import Struct

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.keys_api import require_unlimited
from jackfield.identity.vault import Vault
from jackfield.model.principal import Scope
from jackfield.store import Store


class VaultRecord(Struct, frozen=True, kw_only=True):
    """How the vault stands, without anything of what is in it."""

    key: Literal["environment", "file", "memory", "none"]
    """Where its key is from; `none`: nothing needs it."""
    key_id: str | None
    """Names the key that is in use, and tells nothing else of it."""
    entries: int
    old: int
    """Entries that are sealed with an older key."""


class Rotated(Struct, frozen=True, kw_only=True):
    """What a rotation did."""

    resealed: int
    key_id: str | None


class VaultApi:
    """Handlers of `/api/v1/vault`."""

    def __init__(self, vault: Vault, *, store: Store, audit: AuditLog) -> None:
        self._vault = vault
        self._store = store
        self._audit = audit

    async def show_vault(self, _request: Request) -> Response:
        """How it stands."""
        found = await self._vault.status()
        return json_response(
            VaultRecord(key=found.origin or "none", key_id=found.key_id, entries=found.sealed, old=found.old)
        )

    async def rotate_vault(self, request: Request) -> Response:
        """Seal everything with a new key."""
        require_unlimited(request.principal)
        before = (await self._vault.status()).key_id
        resealed = await self._vault.rotate()
        after = (await self._vault.status()).key_id
        change = Entry(
            actor=request.principal.name,
            action="vault.rotated",
            subject="vault",
            before={"key_id": before},
            after={"key_id": after, "resealed": resealed},
        )
        await self._store.write(partial(self._audit.record, change))
        return json_response(Rotated(resealed=resealed, key_id=after))


def routes(vault: Vault, *, store: Store, audit: AuditLog) -> list[Route]:
    """Every route of the vault."""
    api = VaultApi(vault, store=store, audit=audit)
    return [
        Route(
            method="GET",
            path="/api/v1/vault",
            handler=api.show_vault,
            scope=Scope.ADMIN,
            tag="Identity",
            summary="How the vault stands: where its key is from, and how much is sealed",
            responses={200: ResponseSpec(description="Never anything of what is in it", type=VaultRecord)},
        ),
        Route(
            method="POST",
            path="/api/v1/vault/rotate",
            handler=api.rotate_vault,
            scope=Scope.ADMIN,
            tag="Identity",
            summary="Seal everything in the vault with a new key",
            responses={200: ResponseSpec(description="Done; logins go on working", type=Rotated)},
            errors=(409,),
        ),
    ]
