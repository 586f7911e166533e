"""`/metrics`: the figures of this gateway for Prometheus. docs/metrics.md says what each is good for.

Above: the URL map. Below: what counts (calls, requests, models, workers) and the store, which knows what waits.
Counting is a number in memory; everything else is done when somebody asks.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from jackfield import __version__
from jackfield.calls.counters import OTHER, Counters
from jackfield.calls.tool_servers import Capacity, ToolServers
from jackfield.calls.transactions import Unoffered, Waiting, count_waiting
from jackfield.catalog.catalog import Catalog
from jackfield.errors import Unavailable
from jackfield.gateway.prometheus import MEDIA, Metric, labelled, merged
from jackfield.gateway.siblings import HANDED_OVER, Siblings
from jackfield.http.counters import HttpCounters
from jackfield.http.request import Request
from jackfield.http.response import NO_STORE, BytesResponse, Header, Response
from jackfield.http.routing import ResponseSpec, Route
from jackfield.llm.types import TokenCount
from jackfield.model.principal import Principal
from jackfield.notify.transactions import OutboxDepth
from jackfield.sources.supervisor import SourceStatus
from jackfield.store import Store
from jackfield.workers.host import WorkerHost

log = logging.getLogger(__name__)
T = TypeVar("T")

STORE_ANSWERS_WITHIN = 2.0
LINES_AT_ONCE = 1_000
"""Lines that are written before other work gets its turn."""
_HEADERS: tuple[Header, ...] = ((b"content-type", MEDIA.encode()), NO_STORE)

INFO = Metric("jackfield_info", "gauge", "Always 1; the label has the gateway's version.", ("version",))
CALLS = Metric(
    "jackfield_calls_total",
    "counter",
    "Calls that are over, each counted once, by outcome: completed, failed, rejected, expired, cancelled, refused.",
    ("tool", "source", "principal", "outcome"),
)
CALL_DURATION = Metric(
    "jackfield_call_duration_seconds", "histogram", "How long executed calls took.", ("tool", "source")
)
CALLS_RUNNING = Metric("jackfield_calls_running", "gauge", "Calls that this gateway is executing.")
REFUSALS = Metric("jackfield_refusals_total", "counter", "Calls that were not carried out, by error code.", ("code",))
WAITING = Metric(
    "jackfield_calls_waiting",
    "gauge",
    "Calls that wait for somebody, by status. From the store, so the same at every gateway.",
    ("status",),
)
OLDEST_WAITING = Metric(
    "jackfield_calls_waiting_oldest_seconds",
    "gauge",
    "Age of the oldest call that waits, by status; 0 where none does.",
    ("status",),
)
UNOFFERED = Metric(
    "jackfield_tool_calls_unoffered",
    "gauge",
    "Calls of external tools that wait for a tool server. From the store, so the same at every gateway.",
    ("tool", "source"),
)
OLDEST_UNOFFERED = Metric(
    "jackfield_tool_calls_unoffered_oldest_seconds", "gauge", "How old the oldest of them is.", ("tool", "source")
)
TOOL_SERVERS = Metric(
    "jackfield_tool_servers", "gauge", "Tool servers connected to this gateway that take calls.", ("source",)
)
SLOTS = Metric("jackfield_tool_server_slots", "gauge", "Calls that these take at once.", ("source",))
SLOTS_USED = Metric("jackfield_tool_server_slots_used", "gauge", "Calls that these have.", ("source",))
SOURCE_UP = Metric("jackfield_source_up", "gauge", "Whether a source takes calls.", ("source", "kind"))
SOURCE_TOOLS = Metric("jackfield_source_tools", "gauge", "Tools that a source offers.", ("source", "kind"))
STORE_UP = Metric("jackfield_store_up", "gauge", "Whether the store answered this request.")
STORE_QUEUE = Metric("jackfield_store_queued_writes", "gauge", "Writes that wait for the database.")
POOL_CONNECTIONS = Metric(
    "jackfield_postgres_connections", "gauge", "Connections to PostgreSQL, by pool and state.", ("pool", "state")
)
POOL_LIMIT = Metric(
    "jackfield_postgres_connections_limit", "gauge", "Connections to PostgreSQL that a pool may open.", ("pool",)
)
WORKERS = Metric("jackfield_workers_running", "gauge", "Worker processes of tool files.", ("source",))
WORKERS_BUSY = Metric("jackfield_workers_busy", "gauge", "Worker processes that execute a call.", ("source",))
WORKER_RESTARTS = Metric(
    "jackfield_worker_restarts_total", "counter", "Worker processes that ended unexpectedly.", ("source",)
)
TOKENS = Metric(
    "jackfield_model_tokens_total",
    "counter",
    "Tokens that models read (input) and wrote (output), as their providers say.",
    ("model", "direction"),
)
REQUESTS = Metric(
    "jackfield_http_requests_total", "counter", "HTTP requests, by route and status.", ("method", "route", "status")
)
REQUEST_DURATION = Metric(
    "jackfield_http_request_duration_seconds",
    "histogram",
    "Time from a request to the beginning of its response.",
    ("method", "route"),
)
OUTBOX = Metric(
    "jackfield_notifications_waiting", "gauge", "Notifications that are to be delivered to a target.", ("target",)
)
OUTBOX_OLDEST = Metric(
    "jackfield_notifications_waiting_oldest_seconds", "gauge", "How old the oldest of them is.", ("target",)
)
OUTBOX_FAILED = Metric(
    "jackfield_notifications_failed", "gauge", "Notifications on record that were given up.", ("target",)
)
STREAMS = Metric("jackfield_streams_open", "gauge", "Streams that are open: sse, websocket.", ("kind",))

STARTS = Metric(
    "jackfield_gateway_worker_starts_total",
    "counter",
    "Processes that were started for this gateway worker: more than 1 if it was replaced.",
)

FOR_ALL = (INFO, CALLS, CALL_DURATION, SOURCE_UP, SOURCE_TOOLS)
"""What a key that sees a part of the catalog gets, of that part."""
METRICS = (
    *FOR_ALL,
    *(CALLS_RUNNING, REFUSALS, WAITING, OLDEST_WAITING, STORE_UP, STORE_QUEUE, POOL_CONNECTIONS, POOL_LIMIT),
    *(UNOFFERED, OLDEST_UNOFFERED, TOOL_SERVERS, SLOTS, SLOTS_USED),
    *(WORKERS, WORKERS_BUSY, WORKER_RESTARTS, TOKENS, REQUESTS, REQUEST_DURATION, STREAMS),
    *(OUTBOX, OUTBOX_OLDEST, OUTBOX_FAILED, STARTS),
)
OF_THE_STORE = frozenset(
    one.name for one in (WAITING, OLDEST_WAITING, UNOFFERED, OLDEST_UNOFFERED, OUTBOX, OUTBOX_OLDEST, OUTBOX_FAILED)
)
"""What every gateway of a database says alike."""

Shows = Callable[[str], bool]
"""Whether the key that asks may see this tool, or this source."""


class MetricsApi:
    """The handler of `/metrics`."""

    def __init__(
        self,
        counters: Counters,
        http_counters: HttpCounters,
        tokens: dict[str, TokenCount],
        *,
        catalog: Catalog,
        store: Store,
        worker_host: WorkerHost,
        statuses: Callable[[], list[SourceStatus]],
        sees_source: Callable[[Principal, str], bool],
        outbox_depths: Callable[[], Awaitable[dict[str, OutboxDepth]]],
        tool_servers: ToolServers,
        siblings: Siblings | None,
    ) -> None:
        self._tool_servers = tool_servers
        self._siblings = siblings
        self._counters = counters
        self._outbox_depths = outbox_depths
        self._http = http_counters
        self._tokens = tokens
        self._catalog = catalog
        self._store = store
        self._worker_host = worker_host
        self._statuses = statuses
        self._sees_source = sees_source

    async def metrics(self, request: Request) -> Response:
        """The figures. A key that sees a part of the catalog gets those of that part, and nobody but administrators
        the names of other principals.
        """
        principal = request.principal
        is_limited = principal.is_limited or principal.only_serves
        shows_tool: Shows = lambda _tool: True  # noqa: E731 - the usual case of a filter
        shows_source = shows_tool
        if is_limited:
            shows_tool = {entry.name for entry in self._catalog.view(principal).entries}.__contains__
            shows_source = partial(self._sees_source, principal)
        of_calls = calls_lines(
            self._counters, shows=shows_tool, only_for=None if principal.is_admin else principal.on_record
        )
        sources = [status for status in self._statuses() if shows_source(status.name)]
        lines = [*INFO.described(), INFO.sample(1, __version__)]
        lines += await _in_turns(of_calls)
        lines += source_lines(sources)
        if not is_limited:
            lines += await self._of_the_whole()
        if self._siblings is not None:
            lines = await self._with_others(lines, request, self._siblings)
        return BytesResponse(200, _HEADERS, ("\n".join(lines) + "\n").encode(errors="replace"))

    async def _with_others(self, lines: list[str], request: Request, siblings: Siblings) -> list[str]:
        """Behind one port any process answers for all of them: each has its own number as the label `worker`."""
        place = siblings.place
        lines = labelled(lines, "worker", str(place.number), besides=OF_THE_STORE)
        if request.scope.get(HANDED_OVER):
            return lines
        others = await siblings.ask("/metrics", request.scope["headers"])
        return merged([lines, *(body.decode().splitlines() for body in others)], once=OF_THE_STORE)

    async def _of_the_whole(self) -> list[str]:
        waiting, depths = await self._from_store(self._waiting()), await self._from_store(self._outbox_depths())
        unoffered = await self._from_store(self._tool_servers.unoffered())
        capacity = await self._from_store(self._tool_servers.capacity())
        return [
            *running_lines(self._counters),
            *waiting_lines(waiting),
            *unoffered_lines(unoffered or {}),
            *capacity_lines(capacity or {}),
            *store_lines(self._store, is_up=waiting is not None),
            *worker_lines(self._worker_host),
            *token_lines(self._tokens),
            *await _in_turns(http_lines(self._http)),
            *outbox_lines(depths or {}),
            *STARTS.described(),
            STARTS.sample(1 if self._siblings is None else self._siblings.place.starts),
        ]

    async def _waiting(self) -> list[Waiting]:
        return await self._store.read(count_waiting)

    async def _from_store(self, read: Awaitable[T]) -> T | None:
        """None: the store does not answer."""
        try:
            async with asyncio.timeout(STORE_ANSWERS_WITHIN):
                return await read
        except (Unavailable, TimeoutError) as fault:
            log.warning("The store does not say what waits: %r", fault)
            return None


def routes(
    counters: Counters,
    http_counters: HttpCounters,
    tokens: dict[str, TokenCount],
    *,
    catalog: Catalog,
    store: Store,
    worker_host: WorkerHost,
    statuses: Callable[[], list[SourceStatus]],
    sees_source: Callable[[Principal, str], bool],
    outbox_depths: Callable[[], Awaitable[dict[str, OutboxDepth]]],
    tool_servers: ToolServers,
    siblings: Siblings | None = None,
) -> list[Route]:
    """The one route of figures."""
    api = MetricsApi(
        counters,
        http_counters,
        tokens,
        catalog=catalog,
        store=store,
        worker_host=worker_host,
        statuses=statuses,
        sees_source=sees_source,
        outbox_depths=outbox_depths,
        tool_servers=tool_servers,
        siblings=siblings,
    )
    return [
        Route(
            method="GET",
            path="/metrics",
            handler=api.metrics,
            tag="Health",
            summary="Counts for Prometheus",
            responses={200: ResponseSpec(description="Prometheus text format", media="text/plain")},
        )
    ]


async def _in_turns(lines: Iterator[str]) -> list[str]:
    """All lines, with a chance for other work in between: there may be tens of thousands."""
    written: list[str] = []
    for line in lines:
        written.append(line)
        if not len(written) % LINES_AT_ONCE:
            await asyncio.sleep(0)
    return written


def calls_lines(counters: Counters, *, shows: Shows, only_for: str | None) -> Iterator[str]:
    """Calls and their durations. `only_for`: who asks, if other principals are not theirs to know."""
    yield from CALLS.described()
    calls: dict[tuple[str, str, str, str], int] = {}
    for (tool, source, principal, outcome), count in sorted(counters.calls.items()):
        if shows(tool):
            named = principal if only_for is None or principal == only_for else OTHER
            series = (tool, source, named, outcome)
            calls[series] = calls.get(series, 0) + count
    for labels, count in calls.items():
        yield CALLS.sample(count, *labels)
    yield from CALL_DURATION.described()
    for (tool, source), durations in sorted(counters.durations.items(), key=lambda item: item[0]):
        if shows(tool):
            yield from CALL_DURATION.histogram(durations, tool, source)


def source_lines(sources: Iterable[SourceStatus]) -> Iterator[str]:
    """Each source as it is."""
    sources = list(sources)
    yield from SOURCE_UP.described()
    for source in sources:
        yield SOURCE_UP.sample(int(source.status.takes_calls), source.name, source.kind)
    yield from SOURCE_TOOLS.described()
    for source in sources:
        yield SOURCE_TOOLS.sample(source.tools, source.name, source.kind)


def running_lines(counters: Counters) -> Iterator[str]:
    """What runs now, and what was refused."""
    yield from CALLS_RUNNING.described()
    yield CALLS_RUNNING.sample(counters.running)
    yield from REFUSALS.described()
    for code, count in sorted(counters.refusals.items()):
        yield REFUSALS.sample(count, code)


def waiting_lines(waiting: list[Waiting] | None) -> Iterator[str]:
    """Calls that wait for somebody; no samples while the store does not answer."""
    yield from WAITING.described()
    for one in waiting or ():
        yield WAITING.sample(one.calls, one.status.value)
    yield from OLDEST_WAITING.described()
    for one in waiting or ():
        yield OLDEST_WAITING.sample(one.oldest_ms / 1000, one.status.value)


def unoffered_lines(unoffered: dict[tuple[str, str], Unoffered]) -> Iterator[str]:
    """Calls that wait for a tool server; no samples while the store does not answer."""
    yield from UNOFFERED.described()
    yield from (UNOFFERED.sample(one.calls, *named) for named, one in unoffered.items())
    yield from OLDEST_UNOFFERED.described()
    yield from (OLDEST_UNOFFERED.sample(one.oldest_ms / 1000, *named) for named, one in unoffered.items())


def capacity_lines(capacity: dict[str, Capacity]) -> Iterator[str]:
    """What connected tool servers can do, and do."""
    for metric, field in ((TOOL_SERVERS, "servers"), (SLOTS, "slots"), (SLOTS_USED, "used")):
        yield from metric.described()
        yield from (metric.sample(getattr(one, field), source) for source, one in capacity.items())


def outbox_lines(depths: dict[str, OutboxDepth]) -> Iterator[str]:
    """What waits for each target of the config; no samples while the store does not answer."""
    yield from OUTBOX.described()
    yield from (OUTBOX.sample(depth.waiting, name) for name, depth in depths.items())
    yield from OUTBOX_OLDEST.described()
    yield from (OUTBOX_OLDEST.sample(depth.oldest_ms / 1000, name) for name, depth in depths.items())
    yield from OUTBOX_FAILED.described()
    yield from (OUTBOX_FAILED.sample(depth.failed, name) for name, depth in depths.items())


def store_lines(store: Store, *, is_up: bool) -> Iterator[str]:
    """The database and the way to it."""
    yield from STORE_UP.described()
    yield STORE_UP.sample(int(is_up))
    yield from STORE_QUEUE.described()
    yield STORE_QUEUE.sample(store.queued)
    yield from POOL_CONNECTIONS.described()
    for pool in store.pools:
        yield POOL_CONNECTIONS.sample(pool.idle, pool.name, "idle")
        yield POOL_CONNECTIONS.sample(pool.open - pool.idle, pool.name, "busy")
    yield from POOL_LIMIT.described()
    for pool in store.pools:
        yield POOL_LIMIT.sample(pool.most, pool.name)


def worker_lines(worker_host: WorkerHost) -> Iterator[str]:
    """Processes of tool files, by source."""
    running: dict[str, int] = {}
    busy: dict[str, int] = {}
    for worker in worker_host.statuses():
        running[worker.source] = running.get(worker.source, 0) + len(worker.processes)
        at_work = sum(1 for process in worker.processes if process.in_flight)
        busy[worker.source] = busy.get(worker.source, 0) + at_work
    for metric, counts in ((WORKERS, running), (WORKERS_BUSY, busy), (WORKER_RESTARTS, worker_host.restarts())):
        yield from metric.described()
        for source, count in sorted(counts.items()):
            yield metric.sample(count, source)


def token_lines(tokens: dict[str, TokenCount]) -> Iterator[str]:
    """What models read and wrote."""
    yield from TOKENS.described()
    for model, count in tokens.items():
        yield TOKENS.sample(count.input, model, "input")
        yield TOKENS.sample(count.output, model, "output")


def http_lines(http: HttpCounters) -> Iterator[str]:
    """Requests, how long they took, and open streams."""
    yield from REQUESTS.described()
    for (method, route, status), count in sorted(http.requests.items()):
        yield REQUESTS.sample(count, method, route, str(status))
    yield from REQUEST_DURATION.described()
    for (method, route), durations in sorted(http.durations.items(), key=lambda item: item[0]):
        yield from REQUEST_DURATION.histogram(durations, method, route)
    yield from STREAMS.described()
    for kind, count in http.streams.items():
        yield STREAMS.sample(count, kind)
