"""The rows as Markdown: an overview, a table for each row, and the few lines of the README. Pure."""

import re
from collections.abc import Iterable, Sequence

from bench.comparison.peers import DIRECT, PEERS
from bench.comparison.results import METRICS, Cell, Row, added, ratio
from bench.comparison.rows import ROWS

NONE = "–"
SHORT = ("call", "call-modern", "list", "read", "http", "stream")
"""The rows of the README."""
SHORT_PEERS = ("jackfield", "plain", "fastmcp", "fastmcp-guide", "contextforge", "contextforge-sessions", "litellm")


def document(rows: Sequence[Row]) -> str:
    """Everything between the marks of `docs/benchmarks.md`."""
    parts = [conditions(rows), overview(rows), charts(rows), *(section(row) for row in rows)]
    return "\n\n".join(part for part in parts if part)


def conditions(rows: Sequence[Row]) -> str:
    """What it was measured on, and in which versions."""
    lines = [f"- Machine: {each}." for each in dict.fromkeys(row.machine for row in rows)]
    versions = ", ".join(f"{peer.title} {peer.version}" for name, peer in PEERS.items() if name != DIRECT)
    lines.append(f"- Versions: {versions}; the servers behind: {PEERS[DIRECT].version}.")
    by_run: dict[tuple[str, str, int], list[str]] = {}
    for row in rows:
        by_run.setdefault((row.day, row.noise, row.rounds), []).append(f"`{row.name}`")
    for (day, noise, rounds), names in by_run.items():
        lines.append(f"- {', '.join(names)}: {day}, {rounds} rounds. Noise: {noise}.")
    return "\n".join(lines)


def overview(rows: Sequence[Row]) -> str:
    """Each row's own metric of every peer, and in brackets how many times as much as nothing at all."""
    names = list(PEERS)
    head = ["row", *(PEERS[name].title for name in names)]
    lines = [[_title(row), *(_overview_cell(row, name) for name in names)] for row in rows]
    return _table(head, lines)


def short(rows: Sequence[Row]) -> str:
    """The README's lines: without the figures themselves."""
    chosen = [row for row in rows if row.name in SHORT]
    head = ["beside no gateway at all", *(PEERS[name].title for name in SHORT_PEERS)]
    return _table(head, [[_title(row), *(_short_cell(row, name) for name in SHORT_PEERS)] for row in chosen])


def section(row: Row) -> str:
    """One row with all of its metrics, and who said no."""
    spec = ROWS[row.name]
    named = [*(METRICS[metric] for metric in spec.metrics)]
    has_ratio = any(_beside(row, cell) != NONE for cell in row.cells if cell.peer != DIRECT)
    compared = ["added" if spec.is_added else "ratio"] if has_ratio else []
    head = ["", *(metric.title for metric in named), *compared, "wrong, crossed, lost"]
    lines: list[list[str]] = []
    for cell in row.cells:
        title = PEERS[cell.peer].title + (f", {cell.way}" if cell.way else "")
        if cell.why_not:
            lines.append([title, f"{NONE} {_plain(cell.why_not)}", *([""] * (len(head) - 2))])
            continue
        figures = [_figure(cell, metric) for metric in spec.metrics]
        ratios = [_beside(row, cell)] if has_ratio else []
        counted = f"{cell.wrong}, {cell.crossed}, {cell.missing} of {cell.answers + cell.wrong + cell.crossed:,}"
        lines.append([title, *figures, *ratios, counted])
    parts = [f"### `{row.name}`: {spec.title}", "", _table(head, lines)]
    faults = [
        f"- {PEERS[cell.peer].title}, one wrong answer: {_wrong(cell)}" for cell in row.cells if cell.wrong_answer
    ]
    return "\n".join([*parts, *(["", *faults] if faults else [])])


def charts(rows: Iterable[Row]) -> str:
    """The pictures, as links."""
    names = {row.name for row in rows}
    return "\n\n".join(f"![{chart.title}]({chart.link})" for chart in CHARTS if chart.row in names)


class Chart:
    """A picture of one metric of one row."""

    def __init__(self, name: str, row: str, metric: str, title: str) -> None:
        self.name, self.row, self.metric, self.title = name, row, metric, title

    @property
    def link(self) -> str:
        return f"images/benchmarks-{self.name}.svg"

    def bars(self, rows: Iterable[Row]) -> list[tuple[str, float]]:
        """Titles with their figures, of those that have one."""
        row = next(row for row in rows if row.name == self.row)
        titles = [PEERS[cell.peer].title + (f", {cell.way}" if cell.way else "") for cell in row.cells]
        values = [cell.value(self.metric) for cell in row.cells]
        shown = zip(titles, values, strict=True)
        return [(title, value) for title, value in shown if value is not None]


CHARTS = (
    Chart("call", "call", "p50_ms", "An MCP call with 16 sessions at once, p50 in ms: shorter is better"),
    Chart("cpu", "call", "cpu_us", "Processor time per MCP call, in µs: shorter is better"),
    Chart("stream", "stream", "first_ms", "First token of a streamed answer, p50 in ms: shorter is better"),
    Chart("memory", "start", "loaded_mb", "Memory after 500 MCP calls, in MB: shorter is better"),
)


def _overview_cell(row: Row, name: str) -> str:
    cell, metric = row.cell(name), ROWS[row.name].metrics[0]
    value = None if cell is None else cell.value(metric)
    if cell is None or value is None:
        return NONE
    said = f"{number(value)} {METRICS[metric].unit}"
    if not cell.answers:
        return f"none in {number(value / 1000)} s"
    beside = _beside(row, cell)
    return said if beside == NONE or name == DIRECT else f"{said} ({beside})"


def _short_cell(row: Row, name: str) -> str:
    cell = row.cell(name)
    return NONE if cell is None else _beside(row, cell)


def _beside(row: Row, cell: Cell) -> str:
    """Beside nothing at all: how many times as much, or how much more."""
    spec, limit = ROWS[row.name], row.cell(DIRECT)
    metric = spec.metrics[0]
    if spec.is_added:
        more = added(cell, limit, metric)
        return NONE if more is None else f"+{number(max(more, 0.0))} {METRICS[metric].unit}"
    times = ratio(cell, limit, metric)
    return NONE if times is None else f"{number(times)}x"


def _figure(cell: Cell, metric: str) -> str:
    value = cell.value(metric)
    if value is None:
        return NONE
    if not cell.answers and metric in {"p50_ms", "p99_ms"}:
        return f"none in {number(value / 1000)} s"
    spread = f" ±{cell.spread(metric) * 100:.0f} %" if len(cell.figures[metric]) > 1 else ""
    return f"{number(value)} {METRICS[metric].unit}".rstrip() + spread


def _title(row: Row) -> str:
    return f"{ROWS[row.name].title}: {METRICS[ROWS[row.name].metrics[0]].title}"


def _plain(text: str) -> str:
    """Foreign text in a table: on one line, with nothing that Markdown or HTML takes for its own."""
    return re.sub(r"([|<>\[\]*_`\\])", r"\\\1", " ".join(text.split()))[:240]


def _wrong(cell: Cell) -> str:
    body = cell.wrong_answer.partition("\r\n\r\n")[2] or cell.wrong_answer
    return _plain(body[:200])


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def number(value: float) -> str:
    """Two or three figures that mean something, and no more."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
