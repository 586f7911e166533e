"""`python -m bench.flame SAMPLES TITLE > FILE.svg`: samples of py-spy (`--format raw`) as a small flame graph.

Wide is where the time went; what stands above a bar was called by it. Frames below half a percent are left out, so that
the picture is small enough for a page. Above: docs/bench.md.
"""

import re
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path

from msgspec import Struct, field

WIDTH, ROW = 1200.0, 17
SMALLEST = 0.005
LETTER = 6.4
"""Pixels that a letter takes."""
OURS, SERVER, OTHERS = "#f2a65a", "#8fb8de", "#d5d8dc"
_FRAME = re.compile(r"(?P<name>.*) \((?P<file>[^:)]*).*\)")


class Frame(Struct, eq=False):
    """A function on the stack, and the samples in which it was there."""

    name: str
    file: str = ""
    samples: int = 0
    callees: "dict[str, Frame]" = field(default_factory=dict)

    def add(self, stack: Iterable[str], samples: int) -> None:
        frame = self
        frame.samples += samples
        for called in stack:
            frame = frame.callees.setdefault(called, _frame(called))
            frame.samples += samples

    @property
    def depth(self) -> int:
        return 1 + max((frame.depth for frame in self.callees.values()), default=0)


def _frame(called: str) -> Frame:
    found = _FRAME.fullmatch(called)
    return Frame(called) if found is None else Frame(found["name"], found["file"])


def read(samples: Path, *, below: str) -> Frame:
    """What was sampled above the function `below`, wherever that stood."""
    root = Frame("all")
    for line in samples.read_text(encoding="utf-8").splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [re.sub(r":\d+\)$", ")", called) for called in stack.split(";")]
        start = next((n for n, called in enumerate(frames) if called.startswith(below)), None)
        if start is not None:
            root.add(frames[start + 1 :], int(count))
    return root


def drawn(root: Frame, title: str) -> str:
    """The SVG."""
    bars: list[str] = []
    _draw(root, 0.0, 0, root.samples, bars)
    rows = max(int(bar.partition(" ")[0]) for bar in bars) + 1
    height = (rows + 2) * ROW
    shapes = "\n".join(
        bar.partition(" ")[2].replace("ROW", f"{height - ROW * (int(bar.split()[0]) + 1)}") for bar in bars
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height}" font-family="monospace" '
        f'font-size="10.5">\n<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="4" y="14" font-size="13">{escape(title)}</text>\n{shapes}\n</svg>\n'
    )


def _draw(frame: Frame, left: float, row: int, whole: int, bars: list[str]) -> None:
    width = frame.samples / whole * WIDTH
    share = f"{frame.samples / whole * 100:.1f} %"
    said = f"{frame.name} {frame.file} {share}"
    shown = f"{frame.name} {share}"[: max(0, int(width / LETTER))]
    color = OURS if frame.file.startswith("jackfield") else SERVER if frame.file.startswith("uvicorn") else OTHERS
    bars.append(
        f'{row} <g><title>{escape(said)}</title><rect x="{left:.1f}" y="ROW" width="{max(width - 0.5, 0.3):.1f}" '
        f'height="{ROW - 1}" fill="{color}"/>'
        + (f'<svg x="{left:.1f}" y="ROW"><text x="2" y="12">{escape(shown)}</text></svg>' if len(shown) > 3 else "")
        + "</g>"
    )
    for callee in sorted(frame.callees.values(), key=lambda one: one.name):
        if callee.samples >= whole * SMALLEST:
            _draw(callee, left, row + 1, whole, bars)
            left += callee.samples / whole * WIDTH


if __name__ == "__main__":
    sys.stdout.write(drawn(read(Path(sys.argv[1]), below="Runner.run"), sys.argv[2]))
