"""The manifest of 10,000 tools: over HTTP beside a server that gives the same bytes, and in process."""

import time
from functools import partial

import msgspec

from bench.budget import Bench
from bench.figures import MICROSECONDS, MILLISECONDS, Bar, Figure, Line, Sample, take_turns
from bench.load import Job
from bench.processes import Server, running_gateway, running_load, running_reference
from bench.reference import ETAG
from bench.subjects import catalog_of_many, http_request, write_many_project
from jackfield.catalog.catalog import Catalog
from jackfield.identity.keys import ADMIN

PATH = "/api/v1/tools"
WITHIN_MS = 5


def measure(bench: Bench) -> list[Line]:
    """The whole manifest, the answer to who has it already, and what the cache saves."""
    return [*_over_http(bench), _in_process(bench)]


def _over_http(bench: Bench) -> list[Line]:
    budget, folder, file = bench.budget, bench.folder / "manifest", bench.folder / "manifest.json"
    env = write_many_project(folder, budget.tools)
    with running_gateway(folder, tools=budget.tools, env=env) as gateway, running_load() as load:
        manifest = gateway.get(PATH)
        file.write_bytes(manifest.body)
        with running_reference(file) as bare:
            seconds = budget.seconds / 2
            whole = take_turns(
                budget.rounds,
                partial(load.median_ms, gateway, _job(gateway, seconds)),
                partial(load.median_ms, bare, _job(bare, seconds)),
            )
            had = take_turns(
                budget.rounds,
                partial(load.median_ms, gateway, _job(gateway, seconds, etag=manifest.etag), expect=304),
                partial(load.median_ms, bare, _job(bare, seconds, etag=ETAG), expect=304),
            )
    says = f"manifest of {budget.tools:,} tools ({len(manifest.body) / 1e6:.1f} MB)"
    return [
        Line(
            says=f"{says} over HTTP, p50",
            ours=Figure(unit=MILLISECONDS, samples=whole[0]),
            reference=Figure(unit=MILLISECONDS, samples=whole[1]),
            reference_is="bare Starlette, the same bytes",
            bar=Bar(limit=WITHIN_MS, of_ratio=False),
        ),
        Line(
            says=f"{says} that the client has, 304, p50",
            ours=Figure(unit=MILLISECONDS, samples=had[0]),
            reference=Figure(unit=MILLISECONDS, samples=had[1]),
            reference_is="bare Starlette, 304",
            bar=Bar(limit=WITHIN_MS, of_ratio=False),
        ),
    ]


def _job(server: Server, seconds: float, *, etag: str | None = None) -> Job:
    headers = {"If-None-Match": etag} if etag else {}
    return Job(port=server.port, requests=[http_request("GET", PATH, headers=headers)], connections=1, seconds=seconds)


def _in_process(bench: Bench) -> Line:
    budget = bench.budget
    catalog = catalog_of_many(budget.tools)
    told = msgspec.json.decode(catalog.view(ADMIN).manifest)
    ours, anew = take_turns(
        budget.rounds, partial(_from_cache, catalog, times=1_000), partial(_encoded_anew, told, times=10)
    )
    return Line(
        says=f"manifest of {budget.tools:,} tools in process, from cache",
        ours=Figure(unit=MICROSECONDS, samples=ours),
        reference=Figure(unit=MICROSECONDS, samples=anew),
        reference_is="encoded anew by msgspec",
        bar=Bar(limit=WITHIN_MS * 1_000, of_ratio=False),
    )


def _from_cache(catalog: Catalog, *, times: int) -> Sample:
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        view = catalog.view(ADMIN)
        assert view.manifest
        assert view.etag
    return Sample(value=(time.perf_counter() - began) / times * 1e6, cpu_us=(time.process_time() - cpu) / times * 1e6)


def _encoded_anew(told: object, *, times: int) -> Sample:
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        msgspec.json.encode(told)
    return Sample(value=(time.perf_counter() - began) / times * 1e6, cpu_us=(time.process_time() - cpu) / times * 1e6)
