"""The gateway's figures in Prometheus' text format.

Above: `health.py`. Below: the pipeline's counters and the panel of sources. Pure: figures in, text out.
"""

from collections.abc import Callable, Iterable

from jackfield import __version__
from jackfield.calls.counters import BUCKETS_MS, Counters, Durations
from jackfield.sources.keeper import SourceStatus

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
