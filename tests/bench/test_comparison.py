"""The comparison with other gateways: how answers are judged, what the page and its charts say, a small real run."""

import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.comparison.__main__ import DOCUMENT, README, README_MARKS
from bench.comparison.charts import bar_chart
from bench.comparison.environments import LISTS
from bench.comparison.page import CHARTS, NONE, SHORT, SHORT_PEERS, document, overview, section, short
from bench.comparison.peers import DIRECT, OURS, PEERS
from bench.comparison.results import Cell, Row, added, ratio, read, record
from bench.comparison.rows import ROWS, Budget, measure, refusal, world
from bench.load import UNIQUE, Job, Report, carry_out
from bench.subjects import http_request
from tests.bench.test_load import HEAD, answering
from tests.requirement import requirement


def job(port: int, *, most: int = 5, patience: float = 20.0) -> Job:
    request = http_request("POST", "/", headers={"X-Value": UNIQUE})
    return Job(port=port, requests=[request], connections=1, seconds=20, most=most, unique=1, patience=patience)


def answer(body: bytes, status: int = 200) -> bytes:
    return HEAD.format(status=status, length=f"content-length: {len(body)}\r\n").encode() + body


@pytest.mark.parametrize(
    ("said", "wrong", "crossed"),
    [
        (answer(b"u00000000001"), 0, 0),
        (answer(b"u00000000002"), 0, 1),
        (answer(b"u00000000001", 500), 1, 0),
        (answer(b'{"error": {"message": "no"}}'), 1, 0),
    ],
)
async def test_an_answer_has_to_have_the_value_of_its_own_request(said: bytes, wrong: int, crossed: int) -> None:
    async with answering(said) as (port, seen):
        report = await carry_out(job(port, most=1))

    assert b"x-value: u00000000001" in seen[0].lower()
    assert (report.answers, report.wrong, report.crossed) == (1 - wrong - crossed, wrong, crossed)
    assert bool(report.wrong_answer) == bool(wrong or crossed)


async def test_each_request_has_a_value_of_its_own_and_a_lost_connection_is_counted() -> None:
    async with answering(answer(b"u00000000001"), closes=True) as (port, _):
        lost = await carry_out(job(port))
    async with answering(answer(b"u00000000001")) as (port, seen):
        repeated = await carry_out(job(port))

    assert (lost.answers, lost.missing) == (1, 1)
    assert (repeated.answers, repeated.crossed) == (1, 4)
    assert len({re.search(rb"u\d{11}", request) for request in seen}) == 5


async def test_an_answer_that_does_not_come_is_counted_when_patience_ends() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n") as (port, _):
        report = await carry_out(job(port, patience=-19.7))

    assert (report.answers, report.missing) == (0, 1)


def cell(peer: str, *values: float, **more: object) -> Cell:
    figures = dict.fromkeys(("p50_ms", "p99_ms", "per_second", "cpu_us"), values)
    return Cell(peer=peer, figures=figures, answers=100, **more)  # type: ignore[arg-type]


def row(*cells: Cell, name: str = "call") -> Row:
    return Row(name=name, cells=cells, rounds=3, day="2026-11-19", machine="2 cores", noise="none")


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    limit, ours = cell(DIRECT, 1.0, 2.0, 4.0), cell(OURS, 3.0, 4.0, 16.0)

    assert ratio(ours, limit, "p50_ms") == 3.0
    assert added(ours, limit, "p50_ms") == 2.0
    assert ratio(ours, None, "p50_ms") is None
    assert ratio(ours, cell(DIRECT, 1.0), "p50_ms") is None


def test_every_peer_has_a_place_on_the_page_with_its_figure_or_its_reason() -> None:
    silent = cell("fastmcp", 10_000.0)
    measured = row(
        cell(DIRECT, 2.0),
        cell(OURS, 4.0),
        Cell(peer="plain", figures=silent.figures, missing=3),
        Cell(peer="litellm", why_not="it answers “no | <b>”"),
        cell("contextforge", 50.0, wrong=7, wrong_answer="HTTP/1.1 500\r\n\r\nbroken"),
    )

    first = overview([measured]).splitlines()[2]
    assert "| 2.00 ms | 4.00 ms (2.00x) | none in 10.0 s |" in first
    whole = section(measured)
    assert "| LiteLLM | – it answers “no \\| \\<b\\>” |" in whole
    assert "| ContextForge | 50.0 ms | 50.0 ms | 50.0 | 50.0 µs | 25.0x | 7, 0, 0 of 107 |" in whole
    assert "- ContextForge, one wrong answer: broken" in whole
    assert short([measured]).splitlines()[2].startswith("| MCP call, 2025-11-25, 16 sessions: p50 | 2.00x | 5,000x |")
    assert document([measured]).count("](images/benchmarks-") == 2


def test_a_row_that_is_run_again_replaces_what_it_was(tmp_path: Path) -> None:
    file = tmp_path / ".bench" / "peers.json"
    record([row(cell(OURS, 1.0), name="list"), row(cell(OURS, 1.0))], list(ROWS), file)
    kept = record([row(cell(OURS, 5.0))], list(ROWS), file)

    assert [each.name for each in kept] == ["call", "list"]
    assert kept[0].cells[0].value("p50_ms") == 5.0
    assert read(file) == kept


def test_a_refusal_is_told_in_the_peers_own_words() -> None:
    said = Report(answers=0, seconds=1, statuses={"400": 1}, p50_ms=0, p99_ms=0, last_answer="", wrong_answer="{}")

    assert refusal(said) == "it answers 400"


def test_a_chart_is_drawn_to_scale_and_readable_in_the_dark() -> None:
    drawn = bar_chart("Calls & more", [("Jackfield", 1.0), ("other <b>", 4.0)], ["1 ms", "4 ms"])

    tree = ET.fromstring(drawn)
    widths = [float(bar.attrib["width"]) for bar in tree.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert widths[1] == pytest.approx(4 * widths[0], rel=0.01)
    assert [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")][:3] == [
        "Calls & more",
        "Jackfield",
        "1 ms",
    ]
    assert "prefers-color-scheme:dark" in drawn
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


def test_what_is_installed_is_pinned_and_names_no_index() -> None:
    for each in {peer.environment for peer in PEERS.values() if peer.environment}:
        lines = (LISTS / f"{each}.txt").read_text(encoding="utf-8").splitlines()
        assert lines
        assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+( ; [^/]+)?", line)] == []


@requirement("PERF-peers")
def test_calls_are_measured_directly_and_through_a_real_gateway(tmp_path: Path) -> None:
    budget = Budget(rounds=1, seconds=20.0, most=20)
    with world([DIRECT, OURS], tmp_path, with_dead=False) as here:
        for name in ("call", "call-modern"):
            cells = measure(name, here, budget)
            assert [(each.peer, each.why_not, each.answers) for each in cells] == [(DIRECT, "", 20), (OURS, "", 20)]
            assert not any(each.wrong or each.crossed or each.missing for each in cells)
            assert all(value > 0 for each in cells for value in each.figures["p50_ms"])


def table(lines: list[str], first: str) -> dict[str, dict[str, str]]:
    """A Markdown table's cells by row and column; `first` is how its head begins."""
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    _, *columns = _cells(lines[start])
    rows: dict[str, dict[str, str]] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        title, *cells = _cells(line)
        rows[title] = dict(zip(columns, cells, strict=True))
    return rows


def _cells(line: str) -> list[str]:
    return [each.strip() for each in line.strip("|").split("|")]


@requirement("PERF-peers")
def test_the_readme_says_what_the_page_of_the_last_written_run_says() -> None:
    begin, end = README_MARKS
    told = README.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0].splitlines()
    page: Mapping[str, Mapping[str, str]] = table(DOCUMENT.read_text(encoding="utf-8").splitlines(), "row")
    lines = table(told, "beside no gateway at all")

    assert lines
    assert len(lines) <= len(SHORT)
    for title, cells in lines.items():
        assert list(cells) == [PEERS[name].title for name in SHORT_PEERS]
        for peer, said in cells.items():
            assert (page[title][peer] == NONE) if said == NONE else (f"({said})" in page[title][peer])


@requirement("PERF-peers")
def test_the_page_has_every_peer_in_each_row_and_small_charts() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    shown = [name for name in ROWS if f"### `{name}`" in page]

    assert {"call", "call-modern", "list", "read"} <= set(shown)
    for name in shown:
        part = page.partition(f"### `{name}`: {ROWS[name].title}")[2].partition("\n### ")[0]
        assert [peer.title for peer in PEERS.values() if f"| {peer.title}" not in part] == []
    charts = [chart for chart in CHARTS if chart.row in shown]
    assert [chart.name for chart in charts if f"]({chart.link})" not in page] == []
    assert all((DOCUMENT.parent / chart.link).stat().st_size < 20_000 for chart in charts)
