"""`/healthz` while strangers send what costs as much as it can, beside a gateway that nobody harms."""

from bench.budget import Bench
from bench.figures import MILLISECONDS, Bar, Figure, Line, Sample, percentile, take_turns
from bench.hostile import CONFIG, OFFERED, attack, quiet, write_project
from bench.processes import KEY, running_gateway

TIMES = 5
ASKED = 500
WITHIN_MS = 50


def measure(bench: Bench) -> list[Line]:
    """The worst of a hundred answers of `/healthz`, under attack and in peace."""
    folder = bench.folder / "hostile"
    folder.mkdir()
    (folder / "jackfield.toml").write_text(CONFIG, encoding="utf-8")
    write_project(folder)
    with running_gateway(folder, tools=OFFERED) as gateway:
        ours, reference = take_turns(
            bench.budget.rounds,
            lambda: Sample(value=attack(gateway.port, key=KEY, times=TIMES).percentile(0.99)),
            lambda: Sample(value=percentile(quiet(gateway.port, times=ASKED), 0.99)),
        )
    return [
        Line(
            says="healthz under hostile schemas, patterns, globs, results and documents, p99",
            ours=Figure(unit=MILLISECONDS, samples=ours),
            reference=Figure(unit=MILLISECONDS, samples=reference),
            reference_is="the same gateway, at peace",
            bar=Bar(limit=WITHIN_MS, of_ratio=False),
        )
    ]
