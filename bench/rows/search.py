"""Search among 10,000 tools, beside a scan of their names and descriptions that ranks nothing."""

import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from bench.budget import Bench
from bench.figures import MILLISECONDS, Bar, Figure, Line, Sample, percentile, take_turns
from bench.subjects import catalog_of_many, questions
from jackfield.identity.keys import ADMIN

ASKED = 200
TRIES = 3
"""A question's time is its best of so many, so that p99 tells hard questions and not a busy machine."""
SCANNED = 10
"""A scan takes long, and about as long for every question: every tenth is enough."""
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
    view = catalog_of_many(budget.tools).view(ADMIN)
    asked = questions(ASKED)
    texts = [f"{entry.name} {entry.tool.description}".lower() for entry in view.entries]
    ours, scan = take_turns(
        budget.rounds,
        partial(_ask, partial(view.search, limit=LIMIT), asked),
        partial(_ask, partial(_scan, texts), asked[::SCANNED]),
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


def _ask(search: Callable[[str], object], asked: list[str]) -> Round:
    cpu = time.process_time()
    took = sorted(min(_once(search, question) for _ in range(TRIES)) for question in asked)
    return Round(took_ms=took, cpu_us=(time.process_time() - cpu) / len(asked) / TRIES * 1e6)


def _once(search: Callable[[str], object], question: str) -> float:
    began = time.perf_counter()
    search(question)
    return (time.perf_counter() - began) * 1000


def _scan(texts: list[str], question: str) -> list[str]:
    asked = question.lower().split()
    return [text for text in texts if all(word in text for word in asked)][:LIMIT]


def _figure(rounds: tuple[Round, ...], part: float) -> Figure:
    samples = (Sample(value=percentile(one.took_ms, part), cpu_us=one.cpu_us) for one in rounds)
    return Figure(unit=MILLISECONDS, samples=tuple(samples))
