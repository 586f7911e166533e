"""Is it alive, is it ready, how is it doing: `/healthz`, `/readyz`, `/metrics`.

Above: the URL map. Below: the source registry, the catalog's notices, the store's clock, the pipeline's counters.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from jackfield import __version__
from jackfield.calls.counters import BUCKETS_MS, Counters, Durations
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.kinds import pin_key
from jackfield.http.app import Availability
from jackfield.http.request import Request
from jackfield.http.response import NO_STORE, BytesResponse, Response, Sanitizer, json_response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.identity.authentication import Authenticator, key_in
from jackfield.model.principal import Principal, Scope
from jackfield.sources.supervisor import SourceState, SourceStatus
from jackfield.store import Store

log = logging.getLogger(__name__)

STORE_ANSWERS_WITHIN = 2.0
STDERR_LINES = 10
_METRICS_TYPE = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


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


class Readiness(Struct, frozen=True, kw_only=True):
    """Whether calls can be taken; with a key also the state of every source. One that is down does not make it fail."""

    status: Literal["ready", "not_ready"]
    store: Literal["ok", "unreachable"]
    sources: list[SourceReport] | UnsetType = UNSET
    notices: list[NoticeReport] | UnsetType = UNSET
    version: str | UnsetType = UNSET


class HealthApi:
    """Handlers of `/healthz`, `/readyz` and `/metrics`."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        counters: Counters,
        *,
        statuses: Callable[[], list[SourceStatus]],
        availability: Availability,
        authenticator: Authenticator,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._counters = counters
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
        return json_response(report, status=200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Counts for Prometheus; a key that sees part of the catalog gets the figures of that part."""
        principal = request.principal
        shown: Shows = lambda _tool: True  # noqa: E731 - the usual case of a filter
        if principal.is_limited or principal.only_serves:
            shown = {entry.name for entry in self._catalog.view(principal).entries}.__contains__
        text = metrics_text(self._counters, self._statuses(), shows=shown)
        return BytesResponse(200, (_METRICS_TYPE, NO_STORE), text.encode())

    def _with_sources(self, report: Readiness, sanitizer: Sanitizer, principal: Principal) -> Readiness:
        catalog = self._catalog
        quarantined: dict[str, list[str]] = {}
        for entry in catalog.all_held:
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
    counters: Counters,
    *,
    statuses: Callable[[], list[SourceStatus]],
    availability: Availability,
    authenticator: Authenticator,
) -> list[Route]:
    """Every route of health and metrics."""
    api = HealthApi(store, catalog, counters, statuses=statuses, availability=availability, authenticator=authenticator)
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
        Route(
            method="GET",
            path="/metrics",
            handler=api.metrics,
            tag="Health",
            summary="Counts for Prometheus",
            responses={200: ResponseSpec(description="Prometheus text format", media="text/plain")},
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
        stderr=UNSET if is_well or not with_stderr else tuple(sanitizer.text(line) for line in last_words),
    )


Shows = Callable[[str], bool]
"""Whether the key that asks may see this tool."""


def metrics_text(counters: Counters, sources: Iterable[SourceStatus], *, shows: Shows) -> str:
    """All figures, one metric after the other, each with its help."""
    sources = list(sources)
    lines = [
        *_metric("jackfield_info", "gauge", "The gateway's version."),
        _sample("jackfield_info", 1, version=__version__),
        *_metric("jackfield_calls_total", "counter", "Calls by the status they came to."),
        *_calls(counters, shows),
        *_metric("jackfield_calls_running", "gauge", "Calls that are being executed now."),
        _sample("jackfield_calls_running", counters.running),
        *_metric("jackfield_call_duration_seconds", "histogram", "How long executed calls took."),
        *_durations(counters, shows),
        *_metric("jackfield_source_up", "gauge", "Whether a source is up."),
        *(_sample("jackfield_source_up", int(s.status.takes_calls), source=s.name, kind=s.kind) for s in sources),
        *_metric("jackfield_source_tools", "gauge", "Tools that a source offers."),
        *(_sample("jackfield_source_tools", s.tools, source=s.name, kind=s.kind) for s in sources),
    ]
    return "\n".join(lines) + "\n"


def _calls(counters: Counters, shows: Shows) -> Iterable[str]:
    for (tool, source, status), count in sorted(counters.calls.items()):
        if shows(tool):
            yield _sample("jackfield_calls_total", count, tool=tool, source=source, status=status)


def _durations(counters: Counters, shows: Shows) -> Iterable[str]:
    for (tool, source), durations in sorted(counters.durations.items(), key=lambda item: item[0]):
        if shows(tool):
            yield from _histogram(durations, tool=tool, source=source)


def _histogram(durations: Durations, **labels: str) -> Iterable[str]:
    """Buckets are cumulative, and the last one holds everything."""
    name = "jackfield_call_duration_seconds"
    so_far = 0
    for limit, count in zip((*BUCKETS_MS, None), durations.buckets, strict=True):
        so_far += count
        edge = "+Inf" if limit is None else f"{limit / 1000:g}"
        yield _sample(f"{name}_bucket", so_far, **labels, le=edge)
    yield _sample(f"{name}_sum", durations.total_ms / 1000, **labels)
    yield _sample(f"{name}_count", durations.count, **labels)


def _metric(name: str, kind: str, help_text: str) -> tuple[str, str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def _sample(name: str, value: float, **labels: str) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
