"""Switches for everybody over HTTP: `/api/v1/switches`. For administrators without limits.

Above: the URL map. Below: `switches.py`. A key's own preferences are in `preferences_api.py`.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from jackfield.audit.log import AuditLog
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.names import shown
from jackfield.catalog.switch_transactions import Switch, SwitchKind, Target
from jackfield.catalog.switches import Switches
from jackfield.errors import Conflict, Forbidden, NotFound
from jackfield.http.bodies import BodyReader
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.model.principal import Principal, Scope
from jackfield.model.text import Time, iso_time, nearest
from jackfield.store import Store

Kind = Literal["tool", "source", "key"]


class SwitchBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On or off, for everybody."""

    enabled: bool
    reason: Annotated[str, Meta(max_length=500, pattern="^[^\\u0000-\\u001f\\u007f]*(?![\\s\\S])")] = ""
    """Why it is off: said to whoever calls it."""


class SwitchRecord(Struct, frozen=True, kw_only=True):
    """How something is switched for everybody."""

    kind: Kind
    name: str
    source: str | UnsetType = UNSET
    """Of a tool."""
    enabled: bool
    reason: str | UnsetType = UNSET
    by: str | UnsetType = UNSET
    """The key or person that switched it off."""
    at: Time | UnsetType = UNSET


class SwitchList(Struct, frozen=True, kw_only=True):
    """Everything that is off for everybody, by kind and name."""

    switches: list[SwitchRecord]


class OneSwitch(Struct, frozen=True, kw_only=True):
    """A switch in its envelope."""

    switch: SwitchRecord


_body = BodyReader(SwitchBody)


def off_record(switch: Switch) -> SwitchRecord:
    """A switch that is off."""
    return SwitchRecord(
        kind=switch.target.kind.value,
        name=switch.title,
        source=switch.target.source or UNSET,
        enabled=False,
        reason=switch.reason,
        by=switch.by,
        at=iso_time(switch.at),
    )


class SwitchesApi:
    """Handlers of `/api/v1/switches`."""

    def __init__(
        self,
        switches: Switches,
        *,
        store: Store,
        audit: AuditLog,
        catalog: Catalog,
        sources: Callable[[], list[str]],
        keys: Callable[[], list[str]],
        lasting_keys: Callable[[], set[str]],
    ) -> None:
        """`sources`, `keys`: the names there are. `lasting_keys`: those that are never switched off, so that somebody
        can switch things on.
        """
        self._switches = switches
        self._store = store
        self._audit = audit
        self._catalog = catalog
        self._sources = sources
        self._keys = keys
        self._lasting_keys = lasting_keys

    async def list_switches(self, _request: Request) -> Response:
        """Everything that is off for everybody."""
        return json_response(SwitchList(switches=[off_record(switch) for switch in self._switches.all]))

    async def put_switch(self, request: Request) -> Response:
        """Switch something off for everybody, or on again."""
        principal = request.principal
        _require_unlimited(principal)
        kind, name = request.part("kind"), request.part("name")
        body = await _body.read(request)
        target, title = self._target(kind, name)
        if body.enabled:
            await self._switches.switch_on(target, by=principal.name, store=self._store, audit=self._audit)
            record = SwitchRecord(kind=target.kind.value, name=title, source=target.source or UNSET, enabled=True)
            return json_response(OneSwitch(switch=record))
        if target.kind is SwitchKind.KEY:
            self._require_replaceable(name, principal)
        switch = await self._switches.switch_off(
            target,
            title=title,
            reason=body.reason.strip(),
            by=principal.name,
            store=self._store,
            audit=self._audit,
        )
        return json_response(OneSwitch(switch=off_record(switch)))

    def _target(self, kind: str, name: str) -> tuple[Target, str]:
        """What is meant, and what it is called; also something that is off and is not there now."""
        for switch in self._switches.all:
            if switch.target.kind.value == kind and name in (switch.title, switch.target.name):
                return switch.target, switch.title
        if kind == SwitchKind.TOOL.value:
            entry = self._catalog.known(name)
            if entry is None:
                raise NotFound(f"There is no tool '{shown(name)}'. 'jackfield tools' lists those there are.")
            return Target(SwitchKind.TOOL, entry.tool.name, entry.tool.source), entry.name
        if kind not in (SwitchKind.SOURCE.value, SwitchKind.KEY.value):
            raise NotFound(f"'{shown(kind)}' cannot be switched. Use tool, source or key.", param="kind")
        known = self._sources() if kind == SwitchKind.SOURCE.value else self._keys()
        if name not in known:
            hint = nearest(name[:100], known)
            raise NotFound(f"There is no {kind} '{shown(name)}'.{hint} 'jackfield {kind}s' lists those there are.")
        return Target(SwitchKind(kind), name), name

    def _require_replaceable(self, name: str, principal: Principal) -> None:
        if name == principal.name:
            raise Conflict(f"'{name}' is the key that asks, which could not switch it on again. Use another key.")
        if name in self._lasting_keys():
            raise Conflict(f"The key '{name}' is the gateway's own way in and stays on. Change or delete it instead.")


def _require_unlimited(principal: Principal) -> None:
    if principal.is_limited or principal.agents is not None or principal.spaces is not None:
        raise Forbidden(f"Key '{principal.name}' has limits, so it may not switch for everybody. Use one without.")


def routes(
    switches: Switches,
    *,
    store: Store,
    audit: AuditLog,
    catalog: Catalog,
    sources: Callable[[], list[str]],
    keys: Callable[[], list[str]],
    lasting_keys: Callable[[], set[str]],
) -> list[Route]:
    """Every route of switches."""
    api = SwitchesApi(
        switches, store=store, audit=audit, catalog=catalog, sources=sources, keys=keys, lasting_keys=lasting_keys
    )
    return [
        Route(
            method="GET",
            path="/api/v1/switches",
            handler=api.list_switches,
            scope=Scope.ADMIN,
            tag="Switches",
            summary="What is switched off for everybody",
            responses={200: ResponseSpec(description="Each switch that is off", type=SwitchList)},
        ),
        Route(
            method="PUT",
            path="/api/v1/switches/{kind}/{name}",
            handler=api.put_switch,
            scope=Scope.ADMIN,
            tag="Switches",
            summary="Switch a tool, a source or a key off for everybody, or on again",
            body=SwitchBody,
            responses={200: ResponseSpec(description="How it is switched now, at every gateway", type=OneSwitch)},
            errors=(404, 409),
        ),
    ]
