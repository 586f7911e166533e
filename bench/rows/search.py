"""Search among 10,000 tools, beside a scan of their names and descriptions that ranks nothing."""

import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from bench.budget import Bench
from bench.figures import MILLISECONDS, Bar, Figure, Line, Sample, percentile, take_turns
from bench.subjects import questions, synthetic_tools
from jackfield.catalog.catalog import Catalog
from jackfield.keys import ADMIN
from jackfield.sources.base import Listing

ASKED = 200
LIMIT = 20
WITHIN_MS = 5


class Round(Struct, frozen=True, kw_only=True):
    """All questions, asked once."""

    took_ms: list[float]
    """In order."""
    cpu_us: float
    """Per question."""


def measure(bench: Bench) -> list[Line]:
    """The time of one search over many different questions: in the middle, and the worst of a hundred."""
    budget = bench.budget
    tools = synthetic_tools(budget.tools, source="many")
    catalog = Catalog()
    catalog.update([("many", Listing(tools=tools))])
    texts = [f"{tool.name} {tool.description}".lower() for tool in tools]
    ours, scan = take_turns(
        budget.rounds,
        lambda: _ask(lambda question: catalog.view(ADMIN).search(question, limit=LIMIT)),
        lambda: _ask(partial(_scan, texts)),
    )
    return [
        Line(
            says=f"search among {budget.tools:,} tools in process, {called}",
            ours=_figure(ours, part),
            reference=_figure(scan, part),
            reference_is="unranked scan of the texts",
            bar=Bar(limit=WITHIN_MS, of_ratio=False),
        )
        for called, part in (("p50", 0.5), ("p99", 0.99))
    ]


def _ask(search: Callable[[str], object]) -> Round:
    took, cpu = [], time.process_time()
    for question in questions(ASKED):
        began = time.perf_counter()
        search(question)
        took.append((time.perf_counter() - began) * 1000)
    return Round(took_ms=sorted(took), cpu_us=(time.process_time() - cpu) / ASKED * 1e6)


def _scan(texts: list[str], question: str) -> list[str]:
    asked = question.lower().split()
    return [text for text in texts if all(word in text for word in asked)][:LIMIT]


def _figure(rounds: tuple[Round, ...], part: float) -> Figure:
    samples = (Sample(value=percentile(one.took_ms, part), cpu_us=one.cpu_us) for one in rounds)
    return Figure(unit=MILLISECONDS, samples=tuple(samples))
