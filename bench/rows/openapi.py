"""A large OpenAPI document becomes tools: from its bytes to a catalog that can be listed and called."""

import time
from functools import partial

import msgspec

from bench.budget import Bench
from bench.figures import MILLISECONDS, Bar, Figure, Line, Sample, take_turns
from bench.openapi_document import large_document
from jackfield.catalog.catalog import Catalog
from jackfield.identity.keys import ADMIN
from jackfield.sources.openapi.operations import openapi_listing
from jackfield.sources.openapi.options import credentials_of, parse_options

OPERATIONS = 1_000
WITHIN_MS = 1_000


def measure(bench: Bench) -> list[Line]:
    """Everything between the answer with the document and the first listing of its tools."""
    content = large_document(OPERATIONS)
    ours, decoded = take_turns(bench.budget.rounds, partial(_imported, content), partial(_decoded, content))
    return [
        Line(
            says=f"OpenAPI document of {OPERATIONS:,} operations ({len(content) / 1e6:.1f} MB) becomes tools",
            ours=Figure(unit=MILLISECONDS, samples=ours),
            reference=Figure(unit=MILLISECONDS, samples=decoded),
            reference_is="its JSON decoded by msgspec",
            bar=Bar(limit=WITHIN_MS, of_ratio=False),
        )
    ]


def _imported(content: bytes) -> Sample:
    options = parse_options({"url": "https://service.example/openapi.json"}, where="sources.large")
    began, cpu = time.perf_counter(), time.process_time()
    offer = openapi_listing(content, source="large", options=options, credentials=credentials_of(None, {}))
    catalog = Catalog()
    catalog.update([("large", offer.listing)])
    assert len(catalog.view(ADMIN).entries) == OPERATIONS
    return _sample(began, cpu)


def _decoded(content: bytes) -> Sample:
    began, cpu = time.perf_counter(), time.process_time()
    msgspec.json.decode(content)
    return _sample(began, cpu)


def _sample(began: float, cpu: float) -> Sample:
    return Sample(value=(time.perf_counter() - began) * 1e3, cpu_us=(time.process_time() - cpu) * 1e6)
