"""Is it alive, is it ready: `/healthz`, `/readyz`.

Above: the URL map. Below: the source registry, the catalog's notices, the store's clock.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield import __version__
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.kinds import pin_key
from jackfield.gateway.reloading import ConfigReloader
from jackfield.http.app import Availability
from jackfield.http.request import Request
from jackfield.http.response import Response, Sanitizer, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.authentication import Authenticator, key_in
from jackfield.model.principal import Principal, Scope
from jackfield.model.text import Time, iso_time
from jackfield.sources.supervisor import SourceState, SourceStatus
from jackfield.store import Store

log = logging.getLogger(__name__)

STORE_ANSWERS_WITHIN = 2.0
STDERR_LINES = 20


class Alive(Struct, frozen=True, kw_only=True):
    """The process lives."""

    status: Literal["ok"] = "ok"


class SourceReport(Struct, frozen=True, kw_only=True):
    """One source of tools. With a key that may read: `faults` says which of its tools cannot be offered and why, `held`
    names those that wait for a person to accept their new definition, also as `prompt:NAME` and `template:TEMPLATE`.
    """

    name: str
    kind: str
    status: SourceState
    error: str | None
    tools: int
    resources: int
    templates: int
    prompts: int
    faults: tuple[str, ...] | UnsetType = UNSET
    held: tuple[str, ...] | UnsetType = UNSET
    doing: str | UnsetType = UNSET
    """What it is busy with while it is not up."""
    stderr: tuple[str, ...] | UnsetType = UNSET
    """For administrators: the last lines that the process of a source that is not up said."""


class NoticeReport(Struct, frozen=True, kw_only=True):
    """Something about a tool's name or definition that its owner should know, with the cure."""

    name: str
    sources: tuple[str, ...]
    message: str


class ConfigDifference(Struct, frozen=True, kw_only=True):
    """Another gateway of the database, and the tables in which its config differs from this one's."""

    gateway: str
    sections: tuple[str, ...]


class ConfigReport(Struct, frozen=True, kw_only=True):
    """The config in force: when it was read, and why the file was not when it was read last, or in which parts."""

    read_at: Time
    error: str | None
    """Why the file as it is now cannot be used; None: it is in force."""
    restart_needed: tuple[str, ...]
    """What the file says otherwise, and takes a restart."""
    differs: list[ConfigDifference]


class Readiness(Struct, frozen=True, kw_only=True):
    """Whether calls can be taken; with a key also the state of every source. One that is down does not make it fail."""

    status: Literal["ready", "not_ready"]
    store: Literal["ok", "unreachable"]
    sources: list[SourceReport] | UnsetType = UNSET
    notices: list[NoticeReport] | UnsetType = UNSET
    config: ConfigReport | UnsetType = UNSET
    """For administrators."""
    version: str | UnsetType = UNSET


class HealthApi:
    """Handlers of `/healthz` and `/readyz`."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        *,
        reloader: ConfigReloader,
        statuses: Callable[[], list[SourceStatus]],
        availability: Availability,
        authenticator: Authenticator,
    ) -> None:
        self._reloader = reloader
        self._store = store
        self._catalog = catalog
        self._statuses = statuses
        self._availability = availability
        self._authenticator = authenticator

    async def alive(self, _request: Request) -> Response:
        """The process answers."""
        return json_response(Alive())

    async def readiness(self, request: Request) -> Response:
        """The store answers; for a key, how the sources are. A session's own key is not told of them."""
        starting = not self._availability.ready
        principal = None
        if not starting or key_in(request.headers) is not None:
            principal = await self._authenticator.recognise(request)
        store_answers = not starting and await self._store_answers()
        ready = store_answers and not request.streams.is_closing
        report = Readiness(status="ready" if ready else "not_ready", store="ok" if store_answers else "unreachable")
        if principal is not None and principal.session is None:
            report = self._with_sources(report, request.sanitizer, principal)
        if principal is not None and principal.is_admin:
            report = msgspec.structs.replace(report, config=self._config())
        return json_response(report, status=200 if ready else 503)

    def _with_sources(self, report: Readiness, sanitizer: Sanitizer, principal: Principal) -> Readiness:
        catalog = self._catalog
        quarantined: dict[str, list[str]] = {}
        for entry in catalog.all_held:
            if catalog.is_refused(entry):
                continue
            quarantined.setdefault(entry.tool.source, []).append(pin_key(entry))
        return msgspec.structs.replace(
            report,
            sources=[
                _report(
                    status,
                    sanitizer,
                    held=tuple(quarantined.get(status.name, ())) if principal.may(Scope.READ) else UNSET,
                    with_stderr=principal.is_admin,
                )
                for status in self._statuses()
            ],
            notices=[
                NoticeReport(name=notice.public_name, sources=notice.sources, message=sanitizer.text(notice.message))
                for notice in catalog.notices
            ],
            version=__version__,
        )

    def _config(self) -> ConfigReport:
        reloader = self._reloader
        return ConfigReport(
            read_at=iso_time(reloader.read_at),
            error=reloader.error,
            restart_needed=reloader.restart_needed,
            differs=[ConfigDifference(gateway=one, sections=found) for one, found in reloader.differs.items()],
        )

    async def _store_answers(self) -> bool:
        try:
            async with asyncio.timeout(STORE_ANSWERS_WITHIN):
                await self._store.now_ms()
        except Exception:
            log.exception("The store does not answer.")
            return False
        return True


def routes(
    store: Store,
    catalog: Catalog,
    *,
    reloader: ConfigReloader,
    statuses: Callable[[], list[SourceStatus]],
    availability: Availability,
    authenticator: Authenticator,
) -> list[Route]:
    """Every route of health."""
    api = HealthApi(
        store,
        catalog,
        reloader=reloader,
        statuses=statuses,
        availability=availability,
        authenticator=authenticator,
    )
    return [
        Route(
            method="GET",
            path="/healthz",
            handler=api.alive,
            scope=None,
            always_open=True,
            tag="Health",
            summary="Liveness: whether the process is running",
            responses={200: ResponseSpec(description="It does", type=Alive)},
        ),
        Route(
            method="GET",
            path="/readyz",
            handler=api.readiness,
            scope=None,
            always_open=True,
            takes_key=True,
            tag="Health",
            summary="Readiness: whether calls are accepted; with a key, the state of each source",
            responses={
                200: ResponseSpec(description="Ready", type=Readiness),
                503: ResponseSpec(description="Not ready", type=Readiness),
            },
        ),
    ]


def _report(
    status: SourceStatus, sanitizer: Sanitizer, *, held: tuple[str, ...] | UnsetType, with_stderr: bool
) -> SourceReport:
    """A source as it is shown; `held` is only given for somebody who may know such things."""
    is_well = status.status is SourceState.UP
    last_words = status.last_words[-STDERR_LINES:]
    return SourceReport(
        name=status.name,
        kind=status.kind,
        status=status.status,
        error=None if status.error is None else sanitizer.text(status.error),
        tools=status.tools,
        resources=status.resources,
        templates=status.templates,
        prompts=status.prompts,
        faults=UNSET if held is UNSET else tuple(sanitizer.text(fault) for fault in status.faults),
        held=held,
        doing=UNSET if held is UNSET or status.doing is None else sanitizer.text(status.doing),
        stderr=UNSET if is_well or not with_stderr else tuple(map(sanitizer.for_admins, last_words)),
    )
