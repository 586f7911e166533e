"""The rows of the table, one module each: what is measured, beside what, and the bar it has to keep."""

from collections.abc import Callable, Mapping

from bench.budget import Bench
from bench.figures import Line
from bench.rows import (
    cycles,
    execute,
    export,
    growth,
    hostile,
    manifest,
    mcp,
    oauth,
    openapi,
    overview,
    parked,
    peers,
    pipeline,
    programs,
    reading,
    records,
    refused,
    relay,
    responses,
    search,
    spaces,
    wakeup,
    workers,
)

ROWS: Mapping[str, Callable[[Bench], list[Line]]] = {
    "execute": execute.measure,
    "pipeline": pipeline.measure,
    "manifest": manifest.measure,
    "search": search.measure,
    "records": records.measure,
    "growth": growth.measure,
    "overview": overview.measure,
    "export": export.measure,
    "refused": refused.measure,
    "wakeup": wakeup.measure,
    "parked": parked.measure,
    "workers": workers.measure,
    "programs": programs.measure,
    "cycles": cycles.measure,
    "responses": responses.measure,
    "mcp": mcp.measure,
    "reading": reading.measure,
    "oauth": oauth.measure,
    "spaces": spaces.measure,
    "relay": relay.measure,
    "openapi": openapi.measure,
    "peers": peers.measure,
    "hostile": hostile.measure,
}
