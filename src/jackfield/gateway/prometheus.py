"""Prometheus' text format, version 0.0.4: metrics with their help, and samples of them as lines.

Above: `metrics.py`. Pure.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Literal

from msgspec import Struct

from jackfield.model.durations import BUCKETS_MS, Durations

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_EDGES = (*(f"{limit / 1000:g}" for limit in BUCKETS_MS), "+Inf")


class Metric(Struct, frozen=True):
    """A name with its unit, what it counts, and by what."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    def described(self) -> Iterator[str]:
        """The lines before its samples."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"

    def sample(self, value: float, *labels: str) -> str:
        """One line; `labels` are the values, in the order of the names."""
        return _line(self.name, zip(self.labels, labels, strict=True), value)

    def histogram(self, durations: Durations, *labels: str) -> Iterator[str]:
        """Buckets are cumulative, in seconds, and the last one holds everything."""
        given = tuple(zip(self.labels, labels, strict=True))
        so_far = 0
        for edge, count in zip(_EDGES, durations.buckets, strict=True):
            so_far += count
            yield _line(f"{self.name}_bucket", (*given, ("le", edge)), so_far)
        yield _line(f"{self.name}_sum", given, durations.total_ms / 1000)
        yield _line(f"{self.name}_count", given, durations.count)


def labelled(lines: Iterable[str], label: str, value: str, *, besides: AbstractSet[str] = frozenset()) -> list[str]:
    """The lines with one more label on every sample, except those of some metrics."""
    pair = f'{label}="{_escaped(value)}"'
    found: list[str] = []
    for line in lines:
        name, brace, rest = line.partition("{")
        if line.startswith("#"):
            found.append(line)
        elif brace and " " not in name:
            found.append(line if name in besides else f"{name}{{{pair},{rest}")
        else:
            name, _, number = line.partition(" ")
            found.append(line if name in besides else f"{name}{{{pair}}} {number}")
    return found


def merged(pages: Iterable[Iterable[str]], *, once: AbstractSet[str]) -> list[str]:
    """Several processes' lines as one page: what one metric has stands together; of `once`, the first page counts."""
    described: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for page in pages:
        known, name = frozenset(samples), ""
        for line in page:
            if line.startswith("#"):
                name = line.split(" ", 3)[2]
                if name not in known:
                    described.setdefault(name, []).append(line)
                    samples.setdefault(name, [])
            elif not (name in once and name in known):
                samples[name].append(line)
    return [line for name, lines in samples.items() for line in (*described[name], *lines)]


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
